"""By which connection does a call reach a peer? Its own lines, tried as RFC 8305 says, or one that its relay arranges.

A peer that can be called has up to four lines: the one that worked last comes first, then IPv6, each 250 ms after the
one before, and the first that proves the right key is taken. A closed peer is reached through one of its relays. A
relay that is silent for two seconds is not waited for: the next one is asked beside it.

What worked is remembered, within bounds: the line, the relay, and that a pair of routers needs the relay's own line.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import anyio

from dht import Contact
from dht.core.ids import PeerKey
from dht.core.records import Address, Line
from dht.endpoint import packed_address, socket_address
from herodotus.core.errors import MalformedError
from herodotus.core.relays import Arrangement, Mapping, Way
from herodotus.peers.calls import CallError, PeerUnreachableError
from herodotus.peers.net.arranged import TOKEN_S, first_of
from herodotus.peers.net.line import Arrangements, Dial, LineBrokenError, WrongProtocolError
from herodotus.peers.net.line import Line as OpenLine
from herodotus.peers.net.lines_wire import KNOCK, Knock, pack, read_arranged, socket_lines

KNOCK_S: Final = 3.0
INSIDE_S: Final = 1.0
INSIDE_AGAIN_S: Final = 4.0
"""After a silence: a busy machine is slow, too. Less than lies between a knock in vain and the one that confirms it
(`core.reach`)."""
NEXT_RELAY_S: Final = 2.0
LEARNED_MAX: Final = 4_096
LEARNED_S: Final = 600.0
"""A router that was in the way may have gone with the address."""
TRIED_AGAIN_S: Final = 120.0
"""A way that should have worked and came too late: a busy machine is slow, too."""
_FAULTS = (CallError, OSError, LineBrokenError, WrongProtocolError, MalformedError)
Learned = TypeVar("Learned", bound=Hashable)

Ask = Callable[[Contact, str, bytes, float], Awaitable[bytes]]


class Memory(Generic[Learned]):
    """One thing learned of a peer, for a time."""

    def __init__(self) -> None:
        self._of: OrderedDict[bytes, tuple[float, Learned]] = OrderedDict()

    def learn(self, peer: bytes, found: Learned, for_s: float = LEARNED_S) -> None:
        self._of[peer] = anyio.current_time() + for_s, found
        self._of.move_to_end(peer)
        if len(self._of) > LEARNED_MAX:
            self._of.popitem(last=False)

    def of(self, peer: bytes) -> Learned | None:
        until, found = self._of.get(peer, (float("-inf"), None))
        return found if anyio.current_time() < until else None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaysParts:
    dial: Dial
    lines_of: Callable[[PeerKey], tuple[Line, ...]] = lambda peer: ()
    """Where the ring's table has it that a peer can be called."""
    relays_of: Callable[[PeerKey], tuple[Contact, ...]] = lambda peer: ()
    """Of a peer that we reach through others alone; nothing for one that we can call."""
    is_apart: Callable[[PeerKey], bool] = lambda peer: False
    """Has it no address in a family of ours?"""
    near: Callable[[PeerKey], tuple[str, int] | None] = lambda peer: None
    """Where it is inside our own network, if it was met there and is behind our router."""
    answers: Callable[[Address], Awaitable[bool]] | None = None
    """Does the ring's port there answer datagrams?  Where it does not, no stream is opened: the address may be a
    stranger's word, and a connection costs its owner more than a datagram.  None: nobody knows, as in a test."""
    arrangements: Arrangements | None = None
    own_port: Callable[[], tuple[int, Mapping]] = lambda: (0, Mapping.OPEN)
    """Ours, as routers show it."""


class Ways:
    def __init__(self, parts: WaysParts, ask: Ask) -> None:
        """`ask` calls a relay, by a question, for so many seconds."""
        self._parts, self._ask = parts, ask
        self._good_line: Memory[Line] = Memory()
        self._good_relay: Memory[bytes] = Memory()
        self._only_joined: Memory[bool] = Memory()
        self._in_vain_near: Memory[bool] = Memory()
        self._at_once: dict[bytes, int] = {}

    def is_closed(self, peer: bytes) -> bool:
        return self._parts.arrangements is not None and bool(self._parts.relays_of(PeerKey(peer)))

    def is_one_line(self, peer: bytes) -> bool:
        """Between two closed peers there is one direct connection at a time: it takes both their ports."""
        is_arranged = self.is_closed(peer) and not self.is_near(peer)
        return is_arranged and self._parts.own_port()[1] is not Mapping.OPEN

    def is_relayed(self, peer: bytes) -> bool:
        """Nothing but a relay's line has worked lately, or can."""
        is_apart = self._parts.is_apart(PeerKey(peer))
        is_arranged = self.is_closed(peer) and not self.is_near(peer)
        return is_arranged and (is_apart or bool(self._only_joined.of(peer)))

    def is_near(self, peer: bytes) -> bool:
        """Behind our own router, and reached there as far as we know."""
        return self._parts.near(PeerKey(peer)) is not None and not self._in_vain_near.of(peer)

    async def line_to(self, peer: bytes, address: Address) -> OpenLine:
        """Raises OSError, CallError, LineBrokenError and WrongProtocolError."""
        near = await self._inside(peer)
        if near is not None:
            return near
        arrangements = self._parts.arrangements
        relays = self._parts.relays_of(PeerKey(peer)) if arrangements is not None else ()
        if arrangements is not None and relays:
            return await self._arranged(arrangements, peer, relays)
        if self._parts.is_apart(PeerKey(peer)):
            raise PeerUnreachableError("it has no address of our family, and no relay of it is known")
        open_lines = self._open_lines(peer, address)
        if len(open_lines) == 1:
            return await self._dialled(open_lines[0])
        return await self._raced(peer, open_lines)

    # --- a peer behind our own router

    async def _inside(self, peer: bytes) -> OpenLine | None:
        """A line that does not leave our network: it takes milliseconds or does not exist."""
        at = self._parts.near(PeerKey(peer)) if self.is_near(peer) else None
        if at is None:
            return None
        with anyio.move_on_after(INSIDE_S) as waited:
            try:
                line = await self._parts.dial(*at)
            except _FAULTS:
                line = None
            if line is not None and line.key == peer:
                return line
            if line is not None:  # another one has the address now
                await line.close()
        # Many routers lead nobody of the house to its outside address, so this may be the only way.
        self._in_vain_near.learn(peer, True, INSIDE_AGAIN_S if waited.cancelled_caught else LEARNED_S)
        return None

    # --- a peer that can be called

    async def knock(
        self, peer: bytes, address: Address, connect: Callable[[str, int], Awaitable[None]]
    ) -> None:
        """Does TCP get through to a line of its own? Whose key is there, a call will tell. Raises OSError and
        PeerUnreachableError.
        """
        fault: Exception = PeerUnreachableError("it names no line for streams")

        async def connected(line: Line) -> bool:
            nonlocal fault
            try:
                await connect(*await self._dialled_at(line))
            except (OSError, PeerUnreachableError) as error:
                fault = error
                return False
            return True

        if not await first_of(self._in_order(peer, self._open_lines(peer, address)), connected):
            raise fault

    def _open_lines(self, peer: bytes, address: Address) -> list[Line]:
        lines = self._parts.lines_of(PeerKey(peer)) or (Line.at(address),)
        return [line for line in lines if line.udp and line.tcp]

    def _in_order(self, peer: bytes, lines: Sequence[Line]) -> list[Line]:
        """What worked last first, then IPv6."""
        good = self._good_line.of(peer)
        return sorted(lines, key=lambda line: (line != good, len(line.host) == 4))

    async def _dialled_at(self, line: Line) -> tuple[str, int]:
        answers = self._parts.answers
        if answers is not None and not await answers(line.address):
            raise PeerUnreachableError("it never answered a datagram")
        host, _ = socket_address(line.host, line.tcp)
        return host, line.tcp

    async def _dialled(self, line: Line) -> OpenLine:
        return await self._parts.dial(*await self._dialled_at(line))

    async def _raced(self, peer: bytes, lines: Sequence[Line]) -> OpenLine:
        found: list[tuple[Line, OpenLine]] = []
        others: list[OpenLine] = []
        fault: Exception = PeerUnreachableError("it names no line for streams")

        async def opened(line: Line) -> bool:
            nonlocal fault
            try:
                stream = await self._dialled(line)
            except _FAULTS as error:
                fault = error
                return False
            if stream.key != peer:  # another peer's, or a rotated key, which its greeting will tell
                others.append(stream)
                return False
            found.append((line, stream))
            return True

        try:
            if not await first_of(self._in_order(peer, lines), opened) and others:
                return others.pop(0)
        finally:
            spare = [*others, *(stream for _, stream in found[1:])]
            for stream in spare:
                with anyio.CancelScope(shield=True):
                    await stream.close()
        if not found:
            raise fault
        self._good_line.learn(peer, found[0][0])
        return found[0][1]

    # --- a closed one

    async def _arranged(self, arrangements: Arrangements, peer: bytes, relays: Sequence[Contact]) -> OpenLine:
        good = self._good_relay.of(peer)
        found: list[tuple[bytes, Way, OpenLine]] = []
        fault: Exception = PeerUnreachableError("no relay of it is known")

        async def by(relay: Contact) -> bool:
            nonlocal fault
            try:
                line, way = await self._by(arrangements, relay, peer)
            except _FAULTS as error:
                fault = error
                return False
            found.append((relay.peer, way, line))
            return True

        in_order = sorted(relays, key=lambda relay: relay.peer != good)
        is_there = await first_of(in_order, by, NEXT_RELAY_S)
        for _, _, line in found[1:]:
            await line.close()
        if not is_there:
            raise PeerUnreachableError(f"by its relays: {fault}") from fault
        relay_key, way, line = found[0]
        self._good_relay.learn(peer, relay_key)
        if way is not Way.OPEN_AT_ONCE:
            return line
        self._at_once[peer] = self._at_once.get(peer, 0) + 1
        return _Direct(line, lambda: self._closed(peer))

    def _closed(self, peer: bytes) -> None:
        self._at_once[peer] -= 1
        if not self._at_once[peer]:
            del self._at_once[peer]

    async def _by(self, arrangements: Arrangements, relay: Contact, peer: bytes) -> tuple[OpenLine, Way]:
        port, mapping = self._parts.own_port()
        is_joined = bool(self._only_joined.of(peer)) or peer in self._at_once
        knock = Knock(peer, port, mapping, Way.JOIN if is_joined else None)
        answer = read_arranged(await self._ask(relay, KNOCK, pack(knock), KNOCK_S))
        arrangement = Arrangement(
            token=answer.token,
            way=answer.way,
            lines=lines_at(socket_lines(answer.lines), self._parts.lines_of(PeerKey(peer))),
            relay=stream_address(relay, self._parts.lines_of(relay.peer)),
        )
        with anyio.move_on_after(TOKEN_S):
            line, way = await arrangements.call(arrangement)
            if way is Way.JOIN and knock.wanted is None:
                is_for_long = (
                    answer.way is Way.JOIN
                )  # by the relay's word; else our own haste may be to blame
                self._only_joined.learn(peer, True, LEARNED_S if is_for_long else TRIED_AGAIN_S)
            return line, way
        raise PeerUnreachableError("nothing came of the arrangement")


class _Direct:
    """Implements `Line`: counted while it is open."""

    def __init__(self, line: OpenLine, on_closed: Callable[[], None]) -> None:
        self._line, self._on_closed = line, on_closed
        self.key, self.host = line.key, line.host
        self.send, self.receive, self.carried = line.send, line.receive, line.carried
        self.way, self.keep_unsent_below = line.way, line.keep_unsent_below
        self._is_closed = False

    async def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._on_closed()
        await self._line.close()


def lines_at(named: tuple[tuple[str, int], ...], known: Sequence[Line]) -> tuple[tuple[str, int], ...]:
    """Of the addresses that a relay names those at hosts of the peer's own record: a relay aims nobody at others."""
    hosts = {line.host for line in known}
    return tuple(at for at in named if packed_address(at).host in hosts)


def stream_address(to: Contact, lines: Sequence[Line]) -> tuple[str, int]:
    """Where streams to an open member go."""
    for line in lines:
        if line.host == to.address.host and line.tcp:
            return socket_address(line.host, line.tcp)
    return socket_address(to.address.host, to.address.port)
