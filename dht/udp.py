"""How do datagrams reach the machine's sockets and leave them? The UDP shell of an `SessionEndpoint`.

One raw non-blocking socket per address family. A wake-up drains up to 64 datagrams and hands their messages
over as one batch, since the price of a wake-up is what limits a Python event loop. On asyncio and uvloop the
drain runs in the loop's own reader callback; on trio in a task that waits for the socket. Nothing that the
network does raises here: ICMP's errors, full buffers and absent routes are counted.
"""

import asyncio
import errno
import os
import socket
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final, Protocol

import anyio
import sniffio

from dht.core.frames import DATAGRAM_BYTES_MAX
from dht.core.frames import Address as SocketAddress
from dht.core.link import DialFailed
from dht.core.messages import Message
from dht.core.records import Address, Contact
from dht.endpoint import SessionEndpoint, address_text, socket_address
from dht.errors import RequestFailedError, TransportClosedError
from dht.transport import (
    OnEvent,
    OnMessages,
    PeerMet,
    TransportStatistics,
)

DRAIN_MAX: Final = 64  # ring.md 3.2: where draining more no longer pays
SEND_QUEUE_MAX: Final = 1_024
RECEIVE_BUFFER_BYTES: Final = 1 << 20  # about a second of a busy peer, while something else has the loop
HOUSEKEEPING_S: Final = 60.0
ANY_IPV4: Final = "0.0.0.0"  # noqa: S104 - peers anywhere are the point
ANY_IPV6: Final = "::"
_HARMLESS: Final = frozenset(
    {
        errno.ECONNREFUSED, errno.ECONNRESET, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN,
        errno.EHOSTDOWN, errno.EMSGSIZE, errno.ENOBUFS, errno.ENOMEM, errno.EPERM, errno.EACCES, errno.EINVAL,
        errno.EADDRNOTAVAIL, errno.EPROTO, errno.EAFNOSUPPORT,
    }
)  # fmt: skip
"""What ICMP, firewalls, a vanished interface or a senseless address may do to one datagram."""


class DatagramSocket(Protocol):
    """Of a non-blocking `socket.socket`, what is used here; a simulation has sockets of its own."""

    @property
    def family(self) -> int: ...
    def fileno(self) -> int: ...
    def recvfrom(self, bufsize: int, /) -> tuple[bytes, SocketAddress]: ...
    def sendto(self, data: bytes, address: SocketAddress, /) -> int: ...
    def getsockname(self) -> SocketAddress: ...


class _Dialling:
    """Somebody who awaits a handshake."""

    __slots__ = ("event", "outcome", "peer")

    def __init__(self, peer: bytes | None) -> None:
        self.peer = peer
        self.event = anyio.Event()
        self.outcome: PeerMet | str = "closed"  # or the reason why nobody was met


class UdpTransport:
    """See `open_udp`."""

    def __init__(
        self,
        endpoint: SessionEndpoint,
        sockets: Sequence[DatagramSocket],
        on_messages: OnMessages,
        on_event: OnEvent,
    ) -> None:
        self.endpoint = endpoint
        self._link = endpoint.link
        self._sockets = {sock.family: sock for sock in sockets}
        self._v4 = self._sockets.get(socket.AF_INET)
        self._v6 = self._sockets.get(socket.AF_INET6)
        self._on_messages = on_messages
        self._on_event = on_event
        self._send_queue: deque[tuple[bytes, SocketAddress]] = deque()
        self._queue_filled = anyio.Event()
        self._timer_changed = anyio.Event()
        self._armed_for = float("inf")
        self._is_draining = False
        self._drained_at = 0.0
        self._is_closed = False
        self._meeting: dict[SocketAddress, list[_Dialling]] = {}
        self._counts = endpoint.dropped
        self._now = anyio.current_time

    @property
    def addresses(self) -> list[SocketAddress]:
        """Where we listen, with the ports that the system chose."""
        return [sock.getsockname()[:2] for sock in self._sockets.values()]

    # --- for the node

    def send(self, message: Message, to: Contact, *, is_strict: bool = False) -> bool:
        """Sealed delivery, tried once; a handshake goes before it where there is no session.  `is_strict`: to this
        address, and no other line of the peer.

        False when it was refused at once by some bound. True promises nothing.
        """
        if self._is_closed:
            raise TransportClosedError
        if self._is_draining:  # the whole batch's answers leave together
            return self.endpoint.send(message, to, self._drained_at, is_strict=is_strict)
        now = self._now()
        is_taken = self.endpoint.send(message, to, now, is_strict=is_strict)
        self._settle(now)
        return is_taken

    async def connect(
        self, address: Address, peer: bytes | None = None, *, is_chosen: bool = False
    ) -> PeerMet:
        """Meets the peer at an address, whichever it is or this one. Raises `RequestFailedError`.

        `is_chosen`: the address is no stranger's word, so it is tried however often it was silent.
        """
        now = self._now()
        met = self.endpoint.met(address, now)
        if met is not None and peer in (None, met.contact.peer):
            return met
        if not self.endpoint.dial(address, peer, now, is_chosen=is_chosen):
            reason = "it never answered, too many dials, or one for another key"
            raise RequestFailedError(address_text(address), reason)
        waiting, target = _Dialling(peer), _target(address)
        self._meeting.setdefault(target, []).append(waiting)
        self._settle(now)
        try:
            await waiting.event.wait()  # a dial always ends: it has at most twelve repetitions
        finally:
            others = self._meeting.get(target, [])
            if waiting in others:
                others.remove(waiting)
            if not others:
                self._meeting.pop(target, None)
        if isinstance(waiting.outcome, str):
            raise RequestFailedError(address_text(address), waiting.outcome)
        return waiting.outcome

    def settle(self) -> None:
        """The link was given something to send."""
        if not self._is_closed:
            self._settle(self._now())

    def statistics(self) -> TransportStatistics:
        return self.endpoint.statistics(waiting=len(self._send_queue))

    # --- datagrams

    def _on_readable(self, sock: DatagramSocket) -> None:
        """One wake-up: batches as they come, since more arrives while the first is worked on, up to a limit
        that lets the loop's other tasks have their turn.
        """
        left = DRAIN_MAX
        while left > 0:
            drained = self._drain(sock, left)
            if not drained:
                break
            left -= drained

    def _drain(self, sock: DatagramSocket, datagrams_max: int) -> int:
        now = self._now()
        datagrams: list[tuple[bytes, SocketAddress]] = []
        recvfrom = sock.recvfrom
        for _ in range(datagrams_max):
            try:
                datagrams.append(recvfrom(DATAGRAM_BYTES_MAX + 1))
            except BlockingIOError:
                break
            except OSError as error:
                self._count_harmless("icmp", error)
        if not datagrams:
            return 0
        if sock is self._v6:
            datagrams = [(data, address[:2]) for data, address in datagrams]  # without flow and scope
        batch = self.endpoint.receive(datagrams, now)
        if batch:
            self._is_draining, self._drained_at = True, now
            try:
                self._on_messages(batch, now)
            finally:
                self._is_draining = False
        self._settle(now)
        return len(datagrams)

    def _settle(self, now: float) -> None:
        """After anything happened: send what there is, report, and wake the timer if it is due sooner."""
        if self._link.outgoing:
            self._flush()
        if self._link.events:
            self._report(now)
        deadline = self._link.next_deadline()
        if deadline is not None and deadline < self._armed_for:
            self._armed_for = deadline
            self._timer_changed.set()

    def _flush(self) -> None:
        if self.endpoint.divert is not None:
            self.endpoint.divert(self._now())
        outgoing = self._link.outgoing
        sent = 0
        if not self._send_queue:  # order is kept while the kernel's buffer is full
            sent = self._transmit(outgoing)
        if sent < len(outgoing):
            self._enqueue(outgoing[sent:])
        outgoing.clear()

    def _transmit(self, datagrams: Sequence[tuple[bytes, SocketAddress]]) -> int:
        """How many of them are done with, sent or not: the rest found the socket's buffer full."""
        v4, v6 = self._v4, self._v6
        done = failed = size_bytes = 0
        for data, address in datagrams:
            sock = v4 if ":" not in address[0] else v6
            try:
                if sock is not None:
                    sock.sendto(data, address)
                    size_bytes += len(data)
                else:
                    self._counts["no_family"] += 1
                    failed += 1
            except BlockingIOError:
                break
            except OSError as error:
                self._count_harmless("unsendable", error)
                failed += 1
            done += 1
        self.endpoint.datagrams_out += done - failed
        self.endpoint.bytes_out += size_bytes
        return done

    def _enqueue(self, datagrams: list[tuple[bytes, SocketAddress]]) -> None:
        room = SEND_QUEUE_MAX - len(self._send_queue)
        if len(datagrams) > room:
            self._counts["send_queue"] += len(datagrams) - room
        self._send_queue.extend(datagrams[:room])
        assert len(self._send_queue) <= SEND_QUEUE_MAX
        self._queue_filled.set()

    def _count_harmless(self, reason: str, error: OSError) -> None:
        if error.errno not in _HARMLESS:
            raise error
        self._counts[reason] += 1

    def _report(self, now: float) -> None:
        for event in self.endpoint.take_events(now):
            if isinstance(event, PeerMet):
                self._tell_waiting(_target(event.contact.address), event)
            elif isinstance(event, DialFailed):
                self._tell_waiting(event.address, event.reason)
            self._on_event(event, now)

    def _tell_waiting(self, address: SocketAddress, outcome: PeerMet | str) -> None:
        for waiting in self._meeting.pop(address, []):
            is_other = isinstance(outcome, PeerMet) and waiting.peer not in (None, outcome.contact.peer)
            waiting.outcome = "wrong_peer" if is_other else outcome
            waiting.event.set()

    # --- tasks

    async def run(self) -> None:
        """Serves until cancelled. Whatever a handler raises ends it: nothing is swallowed."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._keep_time)
            tasks.start_soon(self._work_off_queue)
            is_asyncio = sniffio.current_async_library() == "asyncio"
            for sock in self._sockets.values():
                tasks.start_soon(self._serve_asyncio if is_asyncio else self._serve_trio, sock)

    async def _serve_trio(self, sock: DatagramSocket) -> None:
        import trio  # a peer on asyncio starts without it

        while True:
            await trio.lowlevel.wait_readable(sock)
            self._on_readable(sock)

    async def _serve_asyncio(self, sock: DatagramSocket) -> None:
        """A reader callback saves the task switch per wake-up; what it raises is raised here as well."""
        loop = asyncio.get_running_loop()
        failed: asyncio.Future[None] = loop.create_future()

        def on_readable() -> None:
            try:
                self._on_readable(sock)
            except BaseException as error:  # noqa: BLE001 - raised where the future is awaited, in a task with a parent
                if not failed.done():
                    failed.set_exception(error)

        loop.add_reader(sock, on_readable)
        try:
            await failed
        finally:
            loop.remove_reader(sock)

    async def _keep_time(self) -> None:
        while True:
            self._timer_changed = anyio.Event()
            now = self._now()
            deadline = self._link.next_deadline()
            self._armed_for = min(deadline if deadline is not None else float("inf"), now + HOUSEKEEPING_S)
            with anyio.CancelScope(deadline=self._armed_for):
                await self._timer_changed.wait()
            now = self._now()
            self._link.advance(now)
            self._settle(now)

    async def _work_off_queue(self) -> None:
        while True:
            await self._queue_filled.wait()
            self._queue_filled = anyio.Event()
            while self._send_queue:
                first = self._send_queue[0]
                if self._transmit([first]):
                    self._send_queue.popleft()
                else:
                    await anyio.wait_writable(self._sockets[_family_of(first[1])])

    def close(self) -> None:
        """Sends no more. Who still waits for a handshake is told so."""
        self._is_closed = True
        for waitings in self._meeting.values():
            for waiting in waitings:
                waiting.event.set()


def _target(address: Address) -> SocketAddress:
    return socket_address(address.host, address.port)


def _family_of(address: SocketAddress) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address[0] else socket.AF_INET


def every_family(address: SocketAddress) -> list[SocketAddress]:
    """Where to listen for one setting: `::` means each address of this machine, of either family.

    Two sockets of datagrams, for what IPv4 brings to one of IPv6 would have to be written anew at each frame.
    """
    host, port = address
    if host != ANY_IPV6:
        return [address]
    return [*([address] if _has_ipv6() else []), (ANY_IPV4, port)]


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
            probe.bind((ANY_IPV6, 0))
    except OSError:
        return False
    return True


def bind(address: SocketAddress) -> socket.socket:
    """A non-blocking UDP socket. Raises OSError: the caller says which setting asked for this address."""
    family = _family_of(address)
    sock = socket.socket(family, socket.SOCK_DGRAM)
    try:
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        with suppress(OSError):  # a smaller buffer loses more in bursts, nothing else
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        sock.setblocking(False)
        sock.bind(address)
    except OSError:
        sock.close()
        raise
    return sock


@asynccontextmanager
async def open_udp(
    endpoint: SessionEndpoint,
    listen: Sequence[SocketAddress],
    *,
    on_messages: OnMessages,
    on_event: OnEvent = lambda _event, _now: None,
) -> AsyncIterator[UdpTransport]:
    """Serves an endpoint on at most one IPv4 and one IPv6 address, for as long as the context lasts.

    `on_messages(batch, now)` runs in the loop, unbuffered: it must not block.
    What it sends leaves together when it returns.
    """
    families = [_family_of(address) for address in listen]
    if not listen or len(set(families)) != len(families):
        raise ValueError(f"one address per family is needed, not {list(listen)}")
    sockets: list[socket.socket] = []
    try:
        sockets.extend(bind(address) for address in listen)
        transport = UdpTransport(endpoint, sockets, on_messages, on_event)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(transport.run)
            try:
                yield transport
            finally:
                transport.close()
                tasks.cancel_scope.cancel()
    finally:
        for sock in sockets:
            sock.close()


def system_entropy(count: int) -> bytes:
    """The `entropy` of a real peer."""
    return os.urandom(count)
