"""How do a daemon's calls travel? TLS over TCP, each called end proving its key by its certificate."""

import socket
import ssl
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager
from functools import cached_property
from random import Random, SystemRandom
from typing import Self

import anyio
import anyio.abc
from anyio import TypedAttributeLookupError
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.tls import TLSAttribute, TLSStream
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from crawler.carried import carried
from dht.udp import bind, every_family, open_udp
from herodotus.core.pacer import WaySample
from herodotus.core.relays import Arrangement, Way
from herodotus.peers.net.arranged import (
    MAGIC,
    PREAMBLE_BYTES,
    AwaitedTokens,
    OwnPort,
    TcpJoint,
    both_ends,
    read_exactly,
    share_port,
)
from herodotus.peers.net.certificate import called_context, caller_context, key_of
from herodotus.peers.net.line import LineBrokenError, WrongProtocolError
from herodotus.peers.net.pacing import keep_unsent_below, way_of
from herodotus.peers.net.wire import ALPN

RECEIVE_BYTES = 1 << 16
SEND_BYTES = 1 << 18
"""At a time: TLS encrypts a whole piece before it leaves."""
BACKLOG = 128
_CLAIM_TRIES = 32


@contextmanager
def line_errors() -> Iterator[None]:
    try:
        yield
    except (anyio.EndOfStream, anyio.ClosedResourceError) as error:
        raise LineBrokenError("closed") from error
    except (anyio.BrokenResourceError, anyio.BusyResourceError, OSError, ssl.SSLError) as error:
        raise LineBrokenError(type(error).__name__) from error


class TlsLine:
    """Implements `Line`, after the TLS handshake."""

    def __init__(self, stream: TLSStream) -> None:
        self._stream = stream

    @classmethod
    async def opened(cls, raw: anyio.abc.ByteStream, context: ssl.SSLContext, *, is_called: bool) -> Self:
        """Raises LineBrokenError or WrongProtocolError; `raw` is closed then."""
        try:
            with line_errors():
                stream = await TLSStream.wrap(
                    raw, server_side=is_called, ssl_context=context, standard_compatible=False
                )
        except BaseException:
            await anyio.aclose_forcefully(raw)
            raise
        if stream.extra(TLSAttribute.alpn_protocol, None) != ALPN:
            await anyio.aclose_forcefully(stream)
            raise WrongProtocolError
        return cls(stream)

    @cached_property
    def key(self) -> bytes | None:
        certificate = self._stream.extra(TLSAttribute.peer_certificate_binary, None)
        return key_of(certificate) if certificate else None

    async def send(self, data: bytes) -> None:
        with line_errors():
            if len(data) <= SEND_BYTES:
                await self._stream.send(data)
                return
            view = memoryview(data)
            for start in range(0, len(data), SEND_BYTES):
                await self._stream.send(bytes(view[start : start + SEND_BYTES]))

    @cached_property
    def _socket(self) -> socket.socket | None:
        """None where it was closed before anybody asked."""
        found: socket.socket | None = self._stream.extra(SocketAttribute.raw_socket, None)
        return found

    @cached_property
    def host(self) -> str:
        remote = None if self._socket is None else remote_address(self._socket)
        return remote[0] if remote else ""

    def way(self) -> WaySample | None:
        return None if self._socket is None else way_of(self._socket)

    def keep_unsent_below(self, size: int) -> None:
        if self._socket is not None:
            keep_unsent_below(self._socket, size)

    async def receive(self) -> bytes:
        with line_errors():
            return await self._stream.receive(RECEIVE_BYTES)

    def carried(self) -> tuple[int, int]:
        try:
            return carried(self._stream.extra(SocketAttribute.raw_socket))
        except TypedAttributeLookupError:
            return 0, 0

    async def close(self) -> None:
        await anyio.aclose_forcefully(self._stream)


async def dial_tls(host: str, port: int, context: ssl.SSLContext) -> TlsLine:
    """Raises OSError where nobody answers, LineBrokenError and WrongProtocolError."""
    return await TlsLine.opened(await anyio.connect_tcp(host, port), context, is_called=False)


class TcpArrival:
    """Implements `Arrival`."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, awaited: AwaitedTokens) -> None:
        self._sock, self._context, self._awaited = sock, context, awaited

    @cached_property
    def _remote(self) -> tuple[str, int] | None:
        return remote_address(self._sock)

    @property
    def host(self) -> str | None:
        return self._remote[0] if self._remote else None

    @property
    def port(self) -> int:
        return self._remote[1] if self._remote else 0

    async def answer(self) -> TlsLine | None:
        """The first byte tells a call from a connection that was arranged."""
        try:
            await anyio.wait_readable(self._sock)
            is_arranged = self._sock.recv(1, socket.MSG_PEEK) == MAGIC[:1]
            stream = await SocketStream.from_socket(self._sock)
        except BaseException as error:
            self._sock.close()
            if isinstance(error, OSError | anyio.ClosedResourceError):
                raise LineBrokenError(type(error).__name__) from error
            raise
        if not is_arranged:
            return await TlsLine.opened(stream, self._context, is_called=True)
        await self._hand_over(stream)
        return None

    async def _hand_over(self, stream: SocketStream) -> None:
        try:
            with line_errors():
                preamble = await read_exactly(stream, PREAMBLE_BYTES)
                take = self._awaited.taker(preamble)
                if take is not None:
                    await take(stream)
                    return
        except BaseException:
            await anyio.aclose_forcefully(stream)
            raise
        await anyio.aclose_forcefully(stream)
        raise LineBrokenError("no such token")

    async def turn_away(self) -> None:
        self._sock.close()
        await anyio.lowlevel.checkpoint()


class ArrangedArrival:
    """Implements `Arrival`, for a connection that came about by arrangement: its preamble is read."""

    def __init__(self, stream: SocketStream, context: ssl.SSLContext) -> None:
        self._stream, self._context = stream, context
        remote = remote_address(stream.extra(SocketAttribute.raw_socket))
        self.host: str | None = remote[0] if remote else None
        self.port = remote[1] if remote else 0

    async def answer(self) -> TlsLine:
        return await TlsLine.opened(self._stream, self._context, is_called=True)

    async def turn_away(self) -> None:
        await anyio.aclose_forcefully(self._stream)


def remote_address(sock: socket.socket) -> tuple[str, int] | None:
    try:
        host, port = sock.getpeername()[:2]
    except (OSError, ValueError):
        return None
    host = str(host).partition("%")[0]
    return (host.removeprefix("::ffff:") if "." in host else host), int(port)


class TcpPort:
    """Implements `Port`."""

    datagrams = staticmethod(open_udp)

    def __init__(
        self, host: str, number: int, listener: socket.socket, context: ssl.SSLContext, chance: Random
    ) -> None:
        self.number = number
        self._listener = listener
        self._context = context
        self._own = OwnPort(host, number, chance)
        self._arranged: deque[ArrangedArrival] = deque()
        self._waiting: anyio.CancelScope | None = None
        self.arrangements = TcpArrangements(self._own, self._offer)

    async def accept(self) -> TcpArrival | ArrangedArrival:
        while not self._arranged:
            with anyio.CancelScope() as self._waiting:
                await anyio.wait_readable(self._listener)
            self._waiting = None
            try:
                sock, _ = self._listener.accept()
            except BlockingIOError:
                continue
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return TcpArrival(sock, self._context, self._own.awaited)
        return self._arranged.popleft()

    async def _offer(self, stream: SocketStream) -> None:
        if len(self._arranged) >= BACKLOG:
            await anyio.aclose_forcefully(stream)
            return
        self._arranged.append(ArrangedArrival(stream, self._context))
        if self._waiting is not None:
            self._waiting.cancel()

    def close(self) -> None:
        self._listener.close()


class TcpArrangements:
    """Implements `Arrangements`."""

    def __init__(self, own: OwnPort, offer: Callable[[SocketStream], Awaitable[None]]) -> None:
        self._own, self._offer = own, offer
        self._context = caller_context()

    async def call(self, arrangement: Arrangement) -> tuple[TlsLine, Way]:
        stream, way = await self._own.found(arrangement, is_caller=True)
        return await TlsLine.opened(stream, self._context, is_called=False), way

    async def answer(self, arrangement: Arrangement) -> None:
        stream, _ = await self._own.found(arrangement, is_caller=False)
        await self._offer(stream)

    async def dial_from_port(self, host: str, port: int) -> TlsLine:
        stream = await self._own.dialled((host, port))
        return await TlsLine.opened(stream, self._context, is_called=False)

    def has_dialled(self, host: str) -> bool:
        return self._own.has_dialled(host, anyio.current_time())

    def both(self, token: bytes) -> AbstractAsyncContextManager[TcpJoint | None]:
        return both_ends(self._own.awaited, token)


def claim_tcp(host: str, port: int, key: Ed25519PrivateKey) -> TcpPort:
    """Raises OSError where the port is taken."""
    number, listener = claimed_port(host, port)
    share_port(listener)  # after it was bound: a second peer is still refused
    return TcpPort(host, number, listener, called_context(key), SystemRandom())


def claimed_port(host: str, port: int) -> tuple[int, socket.socket]:
    """A port that is free by UDP and TCP, chosen by the system where 0 was asked for, and its TCP listener.

    Callers by TCP wait until the peer answers. For `::` both families are claimed, and one listener serves both. Raises
    OSError if the port is taken.
    """
    hosts = [host for host, _ in every_family((host, port))]
    for tries_left in reversed(range(_CLAIM_TRIES if port == 0 else 1)):
        with ExitStack() as probes:
            chosen = port
            try:
                for one in hosts:
                    chosen = probes.enter_context(bind((one, chosen))).getsockname()[1]
                return chosen, _listening(hosts[0], chosen, is_dual=len(hosts) > 1)
            except OSError:
                if not tries_left:
                    raise
    raise AssertionError("a try either returns or raises")


def _listening(host: str, port: int, *, is_dual: bool) -> socket.socket:
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if listener.family is socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not is_dual)
        listener.bind((host, port))
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener
