"""How do simulated peers call each other? Lines over the world's network, with its delays, losses and cuts.

A line is the layer below the product's own frames: bytes in order, and an end that has proven its key. A cut network
shows on a line as on TCP: bytes are late while they are sent again, and a line breaks when nothing gets through for a
minute. A machine that loses its power is silent; a killed process hangs up.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from zlib import crc32

import anyio

from herodotus.peers.net.line import LineBrokenError
from simnet.host import TrioCarrier
from simnet.world.hosts import WorldHost
from simnet.world.network import Address

BACKLOG = 128
WINDOW_BYTES = 256 << 10
"""So much may be on its way or wait to be read; a sender with more waits."""
RECEIVE_BYTES = 64 << 10
SENT_AGAIN_S = 0.3
SENT_AGAIN_MAX_S = 60.0


@dataclass(slots=True, eq=False)
class _Way:
    """One direction of a line."""

    source: int
    target: int
    data: bytearray = field(default_factory=bytearray)
    under_way: int = 0
    last_arrival_s: float = 0.0
    crossing: deque[tuple[float, Callable[[], None]]] = field(default_factory=deque)
    """A delivery under way: its earliest arrival, and the action on arrival."""
    stuck_s: float = 0.0
    is_ended: bool = False
    changed: anyio.Event = field(default_factory=anyio.Event)

    def tell(self) -> None:
        self.changed.set()
        self.changed = anyio.Event()


class SimulatedLine:
    """Implements `Line`."""

    def __init__(self, lines: "Lines", out: _Way, into: _Way, key: bytes | None) -> None:
        self._lines = lines
        self._out, self._into = out, into
        self.key = key
        self._is_closed = False

    async def send(self, data: bytes) -> None:
        await anyio.lowlevel.checkpoint()
        out = self._out
        while True:
            if self._is_closed or out.is_ended:
                raise LineBrokenError("closed")
            if not data:
                return
            room = WINDOW_BYTES - out.under_way - len(out.data)
            if room > 0:
                piece, data = data[:room], data[room:]
                self._lines.carry(out, piece)
            else:
                await out.changed.wait()

    async def receive(self) -> bytes:
        await anyio.lowlevel.checkpoint()
        into = self._into
        while not into.data:
            if self._is_closed or into.is_ended:
                raise LineBrokenError("closed")
            await into.changed.wait()
        found = bytes(into.data[:RECEIVE_BYTES])
        del into.data[: len(found)]
        into.tell()  # there is room for more
        return found

    def carried(self) -> tuple[int, int]:
        return 0, 0

    @property
    def host(self) -> str:
        return str(self._into.source)

    def way(self) -> None:
        """The world's lines have no queues."""

    def keep_unsent_below(self, size: int) -> None:
        pass

    async def close(self) -> None:
        await anyio.lowlevel.checkpoint()
        self.hang_up()

    def hang_up(self, *, is_silent: bool = False) -> None:
        """`is_silent`: the machine is gone, and the other end hears nothing of it."""
        if self._is_closed:
            return
        self._is_closed = True
        self._lines.forget(self)
        if not is_silent:
            self._lines.end(self._out)
        self._into.is_ended = True
        self._into.tell()
        self._out.tell()

    @property
    def hosts(self) -> tuple[int, int]:
        return self._out.source, self._into.source


@dataclass(slots=True, eq=False)
class SimulatedArrival:
    """Implements `Arrival`."""

    line: SimulatedLine
    host: str | None
    port: int = 0

    async def answer(self) -> SimulatedLine:
        await anyio.lowlevel.checkpoint()
        return self.line

    async def turn_away(self) -> None:
        await self.line.close()


class LinePort:
    """Implements `Port`."""

    arrangements = None
    """Every simulated peer can be called."""

    def __init__(self, lines: "Lines", host: WorldHost, key: bytes) -> None:
        self._lines, self.host, self.key = lines, host, key
        self._waiting: deque[SimulatedArrival] = deque()
        self._changed = anyio.Event()

    @property
    def number(self) -> int:
        return self.host.address[1]

    async def accept(self) -> SimulatedArrival:
        await anyio.lowlevel.checkpoint()
        while not self._waiting:
            self._changed = anyio.Event()
            await self._changed.wait()
        return self._waiting.popleft()

    def offer(self, arrival: SimulatedArrival) -> bool:
        if len(self._waiting) >= BACKLOG:
            return False
        self._waiting.append(arrival)
        self._changed.set()
        return True

    def close(self) -> None:
        self._lines.close_port(self)
        while self._waiting:
            self._waiting.popleft().line.hang_up()


class Lines:
    """All lines of a world."""

    def __init__(self, carrier: TrioCarrier) -> None:
        self._carrier = carrier
        self._chance: Random = carrier.world.chance("lines")
        self._ports: dict[int, LinePort] = {}
        self._open: dict[SimulatedLine, None] = {}
        self.dialled = self.broken = 0

    def claim(self, host: WorldHost, key: bytes) -> LinePort:
        if host.number in self._ports:
            raise OSError("the port is taken")
        port = self._ports[host.number] = LinePort(self, host, key)
        return port

    def close_port(self, port: LinePort) -> None:
        if self._ports.get(port.host.number) is port:
            del self._ports[port.host.number]

    def forget(self, line: SimulatedLine) -> None:
        self._open.pop(line, None)

    def lose(self, host: int, *, is_silent: bool) -> None:
        """A machine stops: without a word, or by hanging up."""
        port = self._ports.pop(host, None)
        if port is not None:
            port.close()
        for line in [line for line in self._open if line.hosts[0] == host]:
            line.hang_up(is_silent=is_silent)

    async def reach(self, caller: WorldHost, ip: str) -> WorldHost:
        """The host of that address; waits as long as the caller likes where nothing gets through."""
        called = next((host for host in self._carrier.world.hosts if host.address[0] == ip), None)
        if called is None or not called.is_up or not self._gets_through(caller.number, called.number):
            await anyio.sleep_forever()
        assert called is not None
        return called

    async def dial(self, caller: WorldHost, address: Address) -> SimulatedLine:
        """Raises OSError where nobody answers there; waits as long as the caller likes where nothing gets through."""
        self.dialled += 1
        await anyio.sleep(self._delay_s(caller.number, caller.number))
        called = await self.reach(caller, address[0])
        await anyio.sleep(3 * self._delay_s(caller.number, called.number))  # TCP's and TLS's crossings
        port = self._ports.get(called.number)
        if port is None or called.address != address:
            raise OSError("connection refused")
        out, back = _Way(caller.number, called.number), _Way(called.number, caller.number)
        ours, theirs = SimulatedLine(self, out, back, port.key), SimulatedLine(self, back, out, None)
        if not port.offer(SimulatedArrival(theirs, caller.address[0])):
            raise OSError("connection refused")
        self._open[ours] = self._open[theirs] = None
        return ours

    async def knock(self, caller: WorldHost, address: Address) -> None:
        """As `dial`, and hangs up before anything was said."""
        called = await self.reach(caller, address[0])
        await anyio.sleep(2 * self._delay_s(caller.number, called.number))
        if called.number not in self._ports or called.address != address:
            raise OSError("connection refused")

    def carry(self, way: _Way, data: bytes) -> None:
        way.under_way += len(data)

        def arrive() -> None:
            way.under_way -= len(data)
            if not way.is_ended:
                world = self._carrier.world
                world.trace.note(world.now, "line", way.source, way.target, len(data), crc32(data))
                way.data += data
            way.tell()

        self._after_crossing(way, arrive)

    def end(self, way: _Way) -> None:
        def arrive() -> None:
            way.is_ended = True
            way.tell()

        self._after_crossing(way, arrive)

    def _after_crossing(self, way: _Way, arrive: Callable[[], None]) -> None:
        """In order, as in a stream: late bytes hold up all later ones."""
        self._carrier.catch_up()
        now = self._carrier.world.now
        delay_s = self._delay_s(way.source, way.target)
        if self._chance.random() < self._carrier.world.network.link.loss:
            delay_s += SENT_AGAIN_S
        way.last_arrival_s = max(way.last_arrival_s, now + delay_s)
        way.crossing.append((way.last_arrival_s, arrive))
        if len(way.crossing) == 1:
            self._look_at(way, way.last_arrival_s)

    def _look_at(self, way: _Way, when: float) -> None:
        self._carrier.world.schedule.at(when, self._deliver, way)
        self._carrier.poke()

    def _deliver(self, way: _Way) -> None:
        """Deliver everything that has crossed by now. Where nothing gets through, the tries become ever rarer."""
        world = self._carrier.world
        if not self._gets_through(way.source, way.target):
            way.stuck_s = max(1.0, 2 * way.stuck_s)
            if way.stuck_s > SENT_AGAIN_MAX_S or not world.hosts[way.target].is_up:
                self.broken += 1
                way.crossing.clear()
                way.is_ended = True
                way.tell()
            else:
                self._look_at(way, world.now + way.stuck_s)
            return
        way.stuck_s = 0.0
        while way.crossing and way.crossing[0][0] <= world.now:
            way.crossing.popleft()[1]()
        if way.crossing:
            self._look_at(way, way.crossing[0][0])

    def _gets_through(self, source: int, target: int) -> bool:
        return source == target or self._carrier.world.network.can_reach(source, target)

    def _delay_s(self, source: int, target: int) -> float:
        return self._carrier.world.network.latency.seconds(source, target, self._chance)
