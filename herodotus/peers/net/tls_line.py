"""How do a daemon's calls travel? TLS over TCP, each called end proving its key by its certificate."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import Self

import anyio
import anyio.abc
from anyio import TypedAttributeLookupError
from anyio.abc import SocketAttribute, SocketListener, SocketStream
from anyio.streams.tls import TLSAttribute, TLSStream
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dht.udp import bind, every_family, open_udp
from herodotus.peers.net.certificate import called_context, key_of
from herodotus.peers.net.line import LineBrokenError, WrongProtocolError
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

    async def receive(self) -> bytes:
        with line_errors():
            return await self._stream.receive(RECEIVE_BYTES)

    async def close(self) -> None:
        await anyio.aclose_forcefully(self._stream)


async def dial_tls(host: str, port: int, context: ssl.SSLContext) -> TlsLine:
    """Raises OSError where nobody answers, LineBrokenError and WrongProtocolError."""
    return await TlsLine.opened(await anyio.connect_tcp(host, port), context, is_called=False)


class TcpArrival:
    """Implements `Arrival`."""

    def __init__(self, stream: SocketStream, context: ssl.SSLContext) -> None:
        self._stream, self._context = stream, context

    @cached_property
    def host(self) -> str | None:
        try:
            host = str(self._stream.extra(SocketAttribute.remote_address)[0]).partition("%")[0]
        except (OSError, TypedAttributeLookupError):
            return None
        return host.removeprefix("::ffff:") if "." in host else host

    async def answer(self) -> TlsLine:
        return await TlsLine.opened(self._stream, self._context, is_called=True)

    async def turn_away(self) -> None:
        await anyio.aclose_forcefully(self._stream)


class TcpPort:
    """Implements `Port`."""

    datagrams = staticmethod(open_udp)

    def __init__(self, number: int, listener: socket.socket, context: ssl.SSLContext) -> None:
        self.number = number
        self._listener = listener
        self._context = context
        self._listening: SocketListener | None = None

    async def accept(self) -> TcpArrival:
        if self._listening is None:
            self._listening = await SocketListener.from_socket(self._listener)
        return TcpArrival(await self._listening.accept(), self._context)

    def close(self) -> None:
        self._listener.close()


def claim_tcp(host: str, port: int, key: Ed25519PrivateKey) -> TcpPort:
    """Raises OSError where the port is taken."""
    number, listener = claimed_port(host, port)
    return TcpPort(number, listener, called_context(key))


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
