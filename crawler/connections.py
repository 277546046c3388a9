"""How does a request reach an origin and its answer come back? Connections, kept for the next request.

A connection carries one exchange at a time. It is opened to the one address that the lease covers, or without a lease
to one that the resolver allows, and the guard looks once more at the very address of each socket.
One timer at a time bounds the head and then the body; a body that grows large
stops being read, and its timer runs no further, until there is a place for it. What an idle connection says
unasked ends it. It knows bytes and where answers end (`crawler.core.answers`), not captures.
"""

import asyncio
import hashlib
import math
import socket
import ssl
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, cast

import aiohappyeyeballs

from crawler.carried import carried
from crawler.core.answers import AnswerReader, BadAnswerError
from crawler.core.capture import TlsFacts
from crawler.core.urls import is_public, is_web_port
from crawler.ports import ConnectionSlot
from crawler.resolving import ForbiddenSocketError

LARGE_BODY_BYTES = 2**18
"""56 connections hold so much each while they wait: 14 MiB. Few pages are larger."""
HUGE_BODY_BYTES = 2**21
"""And those that wait for the one place of large ones so much each."""
HAPPY_EYEBALLS_DELAY_S = 0.25
"""RFC 8305, 5: how long an address may take before the next is tried beside it."""
IDLE_CHECK_S = 5.0


class ConnectionEndedError(OSError):
    """Before the whole head was there."""


@dataclass(frozen=True, slots=True)
class OriginEndpoint:
    """What connections are kept by: equal endpoints may share one."""

    host: str
    """As a name, or an address without brackets."""
    port: int
    is_secure: bool
    is_lenient: bool = False
    """Whatever certificate it shows."""


@dataclass(slots=True, kw_only=True)
class Limits:
    """Of one exchange."""

    head_timeout_s: float
    body_timeout_s: float
    body_bytes_max: int
    is_wanted: Callable[[AnswerReader], bool]
    """Asked once the head is there: whether the body is to be read."""
    wait_for_room: Callable[[], Awaitable[object]]
    """Waited for before a body grows beyond a quarter of a MiB, and once more before it grows beyond 2 MiB."""


class OriginConnection(asyncio.Protocol):
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.peer = ""
        self.tls: TlsFacts | None = None
        self.idle_since = 0.0
        self.is_open = False
        self._slot: ConnectionSlot | None = None
        self._loop = loop
        self._reader: AnswerReader | None = None
        self._limits: Limits | None = None
        self._waiter: asyncio.Future[str] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._room_bytes = LARGE_BODY_BYTES
        self._body_until = 0.0

    # -- one exchange

    async def ask(self, request: bytes, reader: AnswerReader, limits: Limits) -> str:
        """How it went: "done", "unwanted", "length", "time" or "disconnect" once the head was there; raises
        TimeoutError, BadAnswerError or ConnectionEndedError before.
        """
        self._reader, self._limits = reader, limits
        self._waiter = self._loop.create_future()
        self._timer = self._loop.call_later(limits.head_timeout_s, self._late)
        self._room_bytes = LARGE_BODY_BYTES
        self.transport.write(request)
        try:
            outcome: str = await self._waiter
            while outcome == "large":
                outcome = await self._with_room(reader, limits)
        except BaseException:
            # Also with a whole answer: it may come between a cancellation and our waking up, and nobody keeps us.
            self.abort()
            raise
        finally:
            self._timer.cancel()
            self._reader = self._limits = self._waiter = None
        if not (reader.is_done and reader.is_reusable):
            self.abort()
        return outcome

    async def _with_room(self, reader: AnswerReader, limits: Limits) -> str:
        self._waiter = waiter = self._loop.create_future()
        left_s = self._body_until - self._loop.time()
        assert self._timer is not None
        self._timer.cancel()  # the origin is not to blame for how long we wait
        await limits.wait_for_room()
        if not self.is_open:  # lost before it was paused
            return "done" if reader.is_done else "disconnect"
        self._timer = self._loop.call_later(left_s, self._late)
        self.transport.resume_reading()
        outcome: str = await waiter
        return outcome

    def takes(self, slot: ConnectionSlot) -> None:
        """Its room, which it leaves when it ends."""
        self._slot = slot
        if not self.is_open:
            slot.leave()

    def abort(self) -> None:
        self._ended()
        self.transport.abort()

    def _finish(self, outcome: str | Exception) -> None:
        if self._waiter is None or self._waiter.done():
            return
        if isinstance(outcome, Exception):
            self._waiter.set_exception(outcome)
        else:
            self._waiter.set_result(outcome)

    def _late(self) -> None:
        has_head = self._reader is not None and self._reader.head
        self._finish("time" if has_head else TimeoutError())

    # -- what the loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the shape but not the class.
        self.transport = cast("asyncio.Transport", transport)
        self.is_open = True
        name = transport.get_extra_info("peername")
        self.peer = str(name[0]) if name else ""
        secured = transport.get_extra_info("ssl_object")
        if secured is not None:
            self.tls = TlsFacts(
                protocol=secured.version() or "",
                cipher=(secured.cipher() or ("",))[0],
                certificate_sha256=hashlib.sha256(secured.getpeercert(binary_form=True) or b"").digest(),
            )

    def data_received(self, data: bytes) -> None:
        reader, limits = self._reader, self._limits
        if reader is None or limits is None:
            self.abort()  # nobody asked
            return
        had_head = bool(reader.head)
        try:
            reader.receive(data)
        except BadAnswerError as error:
            self._finish("disconnect" if had_head else error)
            return
        if not had_head and reader.head:
            if not limits.is_wanted(reader):
                self._finish("unwanted")
                return
            if not reader.is_done:
                assert self._timer is not None
                self._timer.cancel()
                self._timer = self._loop.call_later(limits.body_timeout_s, self._late)
                self._body_until = self._loop.time() + limits.body_timeout_s
        if reader.body_bytes > limits.body_bytes_max:
            self._finish("length")
        elif reader.is_done:
            self._finish("done")
        elif reader.body_bytes > self._room_bytes:
            self._room_bytes = (
                HUGE_BODY_BYTES if self._room_bytes < HUGE_BODY_BYTES else limits.body_bytes_max
            )
            self.transport.pause_reading()
            self._finish("large")

    def eof_received(self) -> bool:
        return False  # close

    def _ended(self) -> None:
        self.is_open = False
        if self._slot is not None:
            self._slot.carried(*carried(self.transport.get_extra_info("socket")))
            self._slot.leave()

    def connection_lost(self, error: Exception | None) -> None:
        self._ended()
        reader = self._reader
        if reader is None:
            return
        if not reader.head:
            self._finish(
                ConnectionEndedError(str(error) if error else "the connection ended without an answer")
            )
        elif error is None and reader.end():
            self._finish("done")
        else:
            self._finish("disconnect")


class Pool:
    """Idle connections, the youngest used first; the oldest go when there are too many or they grow old."""

    def __init__(self, *, idle_max: int, keepalive_s: float) -> None:
        self._idle_max = idle_max
        self._keepalive_s = keepalive_s
        self._idle: dict[OriginEndpoint, deque[OriginConnection]] = {}
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None

    def take(self, endpoint: OriginEndpoint, address: str | None = None) -> OriginConnection | None:
        """One to that address, if it matters; those met on the way that lead elsewhere end."""
        kept = self._idle.get(endpoint)
        while kept:
            connection = kept.pop()
            self._count -= 1
            if not kept:
                del self._idle[endpoint]
            if not connection.is_open or connection.transport.is_closing():
                continue
            if address is None or connection.peer == address:
                return connection
            connection.abort()
        return None

    def leave(self, address: str, *, but: int) -> None:
        """End the idle connections to it, of all its hosts, but the youngest so many."""
        there = [one for kept in self._idle.values() for one in kept if one.peer == address and one.is_open]
        for one in sorted(there, key=lambda one: one.idle_since)[: max(0, len(there) - but)]:
            one.abort()

    def give(
        self, endpoint: OriginEndpoint, connection: OriginConnection, loop: asyncio.AbstractEventLoop
    ) -> None:
        connection.idle_since = loop.time()
        self._idle.setdefault(endpoint, deque()).append(connection)
        self._count += 1
        if self._count > self._idle_max:
            self._drop_oldest()
        if self._timer is None:
            self._timer = loop.call_later(IDLE_CHECK_S, self._sweep, loop)

    def give_up(self) -> bool:
        """End the one at rest the longest; False where there is none."""
        if not self._idle:
            return False
        self._drop_oldest()
        return True

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for kept in self._idle.values():
            for connection in kept:
                connection.abort()
        self._idle.clear()
        self._count = 0

    def _drop_oldest(self) -> None:
        """The endpoint that got its last connection back the longest ago; dicts remember the order."""
        endpoint, kept = next(iter(self._idle.items()))
        self._count -= 1
        kept.popleft().abort()
        if not kept:
            del self._idle[endpoint]

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        oldest = loop.time() - self._keepalive_s
        for endpoint, kept in list(self._idle.items()):
            while kept and (kept[0].idle_since < oldest or not kept[0].is_open):
                kept.popleft().abort()
                self._count -= 1
            if not kept:
                del self._idle[endpoint]
        self._timer = loop.call_later(IDLE_CHECK_S, self._sweep, loop) if self._idle else None


class Opener:
    """New connections, to allowed addresses and the web's ports only."""

    def __init__(self, *, allow_private: bool, connect_timeout_s: float) -> None:
        self._allow_private = allow_private
        self._connect_timeout_s = connect_timeout_s
        self._strict = ssl.create_default_context()
        self._lenient = lenient_context()

    async def open(
        self,
        endpoint: OriginEndpoint,
        addresses: list[str],
        loop: asyncio.AbstractEventLoop,
        *,
        within_s: float = math.inf,
    ) -> OriginConnection:
        """Raises OSError (ssl.SSLCertVerificationError among them) or TimeoutError."""
        if not is_web_port(endpoint.port):
            raise ForbiddenSocketError(f"port {endpoint.port} is not one of the web's")
        async with asyncio.timeout(min(self._connect_timeout_s, within_s)):
            infos = [_address_info(address, endpoint.port) for address in addresses]
            found = await aiohappyeyeballs.start_connection(
                infos,
                happy_eyeballs_delay=HAPPY_EYEBALLS_DELAY_S if len(infos) > 1 else None,
                interleave=1,
                loop=loop,
                socket_factory=self._open_socket,
            )
            context = None
            if endpoint.is_secure:
                context = self._lenient if endpoint.is_lenient else self._strict
            try:
                _, connection = await loop.create_connection(
                    lambda: OriginConnection(loop),
                    sock=found,
                    ssl=context,
                    server_hostname=endpoint.host if context else None,
                )
            except BaseException:
                found.close()
                raise
        return connection

    def _open_socket(self, info: Any) -> socket.socket:
        """The last word before a connection, for names, literals and redirects alike."""
        family, kind, protocol, _, target = info
        if not self._allow_private and not is_public(str(target[0])):
            raise ForbiddenSocketError(f"{target[0]} is not a public address")
        return socket.socket(family=family, type=kind, proto=protocol)


def _address_info(address: str, port: int) -> Any:
    if ":" in address:
        return (socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port, 0, 0))
    return (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port))


def lenient_context() -> ssl.SSLContext:
    """For origins whose certificate was found bad: the fault is recorded, the page archived."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
