"""How do the bytes of all calls share the line? What is sent by calls passes here, piece by piece where it is bulk.

The decisions are `core.pacer`'s. This shell waits for turns, hands pieces to the connections, and asks them how their
way looks. A connection keeps no more than two pieces unsent in the kernel: what is there cannot be overtaken.
"""

import socket
import sys
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from struct import unpack_from
from typing import Final, Protocol

import anyio

from herodotus.core.pacer import LineRate, OwnQueue, Pacer, Ticket, Traffic, WaySample
from herodotus.peers.net.connection import FrameConnection

TCP_INFO_BYTES: Final = 220
"""Of the kernel's `struct tcp_info`, up to its `tcpi_dsack_dups`."""
HAS_TCP_INFO: Final = sys.platform == "linux"
LOOK_S: Final = 0.05
LOOK_FULL_S: Final = 0.001
"""While a new line's window is full: on a fast one it is so for less."""
ACTIVE_S: Final = 2.0
"""A connection that carried no bulk for so long says nothing of the line."""
HOSTS_MAX: Final = 256
LEAST_S: Final = 600.0
"""A way may become longer for good; as long as the kernel remembers its shortest, twice."""
_TRAFFIC: Final = {"leases": Traffic.LEASES, "copies": Traffic.COPIES}
"""By what a service's name begins with; all others are links, notices, knocks and work."""


def traffic_of(service: str) -> Traffic:
    return _TRAFFIC.get(service.partition(".")[0], Traffic.LINKS)


def way_of(sock: socket.socket) -> WaySample | None:
    """As the kernel's own clock saw the last packets; None on a system that does not tell, or where it is closed."""
    if not HAS_TCP_INFO:
        return None
    try:
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
    except (OSError, ValueError):  # the second is uvloop's word for a closed one
        return None
    if len(info) < TCP_INFO_BYTES:  # a kernel before 4.19
        return None
    segment_bytes, (waiting, known) = unpack_from("=I", info, 16)[0], unpack_from("=II", info, 24)
    round_trip_us, (unsent, least_us) = unpack_from("=I", info, 68)[0], unpack_from("=II", info, 144)
    packets, (sent, sent_again, twice) = (
        unpack_from("=I", info, 156)[0],
        unpack_from("=QQI", info, 200),
    )
    under_way = (
        (waiting - known) * sent // max(packets, 1)
    )  # what was received out of order has arrived as well
    return WaySample(
        round_trip_s=round_trip_us / 1e6,
        least_s=min(least_us, round_trip_us) / 1e6,
        # What was sent again though it was only late has crossed the line twice: as a queue grows that is a tenth.
        acknowledged_bytes=sent - sent_again - under_way + twice * segment_bytes,
        under_way_bytes=under_way,
        unsent_bytes=unsent,
    )


def keep_unsent_below(sock: socket.socket, size: int) -> None:
    """A write waits until the system holds fewer bytes that have not left, where it can."""
    if HAS_TCP_INFO:
        with suppress(OSError, ValueError):  # gone already: the next write says so
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, size)


class Carrier(Protocol):
    """A connection of calls, or a reader's."""

    @property
    def host(self) -> str: ...
    def way(self) -> WaySample | None: ...


class _Reader:
    """Implements `Carrier`."""

    def __init__(self, sock: socket.socket, host: str, held: Callable[[], int]) -> None:
        self._sock, self.host, self._held = sock, host, held
        self._unsent_max = 0

    def way(self) -> WaySample | None:
        found = way_of(self._sock)
        return None if found is None else replace(found, unsent_bytes=found.unsent_bytes + self._held())

    def keep_unsent_below(self, size: int) -> None:
        if size != self._unsent_max:
            self._unsent_max = size
            keep_unsent_below(self._sock, size)


@dataclass(slots=True)
class _Carried:
    """What a connection has with bulk."""

    used_at: float
    acknowledged: int | None = None


class LinePacer:
    """One for the whole peer."""

    def __init__(self, offered: float | None = None) -> None:
        self._rate = LineRate(offered)
        self._pacer = Pacer(self._rate)
        self._changed = anyio.Event()
        self._carriers: dict[Carrier, _Carried] = {}
        self._acknowledged = 0
        self._looked_at = -LOOK_S
        self._least: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self.sent_beside: Callable[[], int] = lambda: 0
        """Bytes that left without us since the start: the ring's, which never wait, and for which bulk makes room."""
        self._beside = 0
        self.own_lines: Callable[[], object] = lambda: None
        """Where others reach us. Another address is another line, which must be measured."""
        self._measured_for: object = None

    @property
    def rate(self) -> float | None:
        """Bytes a second for bulk; None: the line was never full."""
        return self._rate.at(anyio.current_time())

    @property
    def own_queue(self) -> OwnQueue:
        return self._rate.own_queue

    def charge(self, size: int) -> None:
        """Bytes that leave beside calls: readers'."""
        self._pacer.charge(size, anyio.current_time())

    async def send(
        self,
        connection: FrameConnection,
        data: bytes,
        service: str,
        patience_s: Callable[[int], float] = lambda size: float("inf"),
    ) -> None:
        """`patience_s`: for handing over so many bytes; waiting for a turn is not the other end's fault. Raises
        LineBrokenError and TimeoutError.
        """
        traffic = traffic_of(service)
        if not traffic.is_paced:
            self.charge(len(data))
            with anyio.fail_after(patience_s(len(data))):
                await connection.send(data)
            return
        view, sent, ticket = memoryview(data), 0, self._pacer.ticket(traffic)
        try:
            while sent < len(data):
                size = await self._turn(ticket, len(data) - sent)
                connection.keep_unsent_below(2 * self._pacer.piece_bytes(anyio.current_time()))
                with anyio.fail_after(patience_s(size)):
                    await connection.send(bytes(view[sent : sent + size]))
                sent += size
                self._note(connection)
        finally:
            self._pacer.end(ticket)
            self._tell()

    def reader(
        self,
        sock: socket.socket,
        host: str,
        write: Callable[[bytes], Awaitable[None]],
        held: Callable[[], int],
    ) -> Callable[[bytes], Awaitable[float]]:
        """What sends to a reader and says how long it waited for turns, which is not the reader's fault. Raises what
        `write` does. `held`: bytes that wait before the socket.
        """
        carrier = _Reader(sock, host, held)

        async def by_turns(data: bytes) -> float:
            sent, waited_s = 0, 0.0
            while sent < len(data):
                began = anyio.current_time()
                size = await self._turn(self._pacer.ticket(Traffic.READERS), len(data) - sent)
                waited_s += anyio.current_time() - began
                carrier.keep_unsent_below(2 * self._pacer.piece_bytes(anyio.current_time()))
                await write(data[sent : sent + size])
                sent += size
                self._note(carrier)
            return waited_s

        return by_turns

    async def _turn(self, ticket: Ticket, size: int) -> int:
        self._pacer.enter(ticket, anyio.current_time())
        try:
            while True:
                now = anyio.current_time()
                wait_s = self._pacer.wait_s(ticket, now)
                if wait_s == 0.0:
                    return self._pacer.take(ticket, size, now)
                await self._wait(wait_s)
        finally:
            self._pacer.leave(ticket)
            self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    async def _wait(self, wait_s: float | None) -> None:
        is_full = self._rate.is_window_full()
        if wait_s is None:
            wait_s = LOOK_S if self._rate.is_resting else LOOK_FULL_S if is_full else float("inf")
        with anyio.move_on_after(wait_s):
            await self._changed.wait()
        if self._rate.is_resting or is_full:
            self._look(anyio.current_time(), LOOK_FULL_S if is_full else LOOK_S)

    # --- how the way looks

    def _note(self, connection: "Carrier") -> None:
        now = anyio.current_time()
        carrier = self._carriers.get(connection)
        if carrier is None:
            carrier = self._carriers[connection] = _Carried(now)
        carrier.used_at = now
        self._look(now)

    def _look(self, now: float, after_s: float = LOOK_S) -> None:
        if now - self._looked_at < after_s:
            return
        self._looked_at = now
        lines = self.own_lines()
        if lines != self._measured_for:
            if self._measured_for is not None:
                self._rate.start_over(now)
                self._least.clear()
            self._measured_for = lines
        beside = self.sent_beside()
        self.charge(max(0, beside - self._beside))
        self._beside = beside
        samples: dict[object, WaySample] = {}
        for connection, carrier in list(self._carriers.items()):
            sample = connection.way()
            if sample is None or (now - carrier.used_at > ACTIVE_S and not self._rate.is_resting):
                del self._carriers[connection]
                continue
            before = sample.acknowledged_bytes if carrier.acknowledged is None else carrier.acknowledged
            self._acknowledged += sample.acknowledged_bytes - before
            carrier.acknowledged = sample.acknowledged_bytes
            samples[connection] = replace(
                sample, least_s=self._least_to(connection.host, sample.least_s, now)
            )
        self._rate.saw(samples, self._acknowledged, now)

    def _least_to(self, host: str, least_s: float, now: float) -> float:
        """A connection that was opened through a full queue has never seen the way without it; one before it has."""
        known, since = self._least.get(host, (least_s, now))
        if least_s <= known or now - since > LEAST_S:
            known, since = least_s, now
        self._least[host] = known, since
        if len(self._least) > HOSTS_MAX:
            self._least.popitem(last=False)
        return known
