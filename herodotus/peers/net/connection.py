"""How does one connection carry frames? TLS over TCP, whole frames out, bounded frames in.

One exchange at a time: the caller asks, reads the answer to its end, and may ask again. Deadlines are the users';
every fault of the other end or of the line comes out as one of three exceptions.
"""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import anyio
import anyio.abc
from anyio.streams.tls import TLSAttribute, TLSStream

from herodotus.peers.net.certificate import key_of
from herodotus.peers.net.wire import ALPN, HEAD_BYTES, CallFrame, FrameError, FrameKind, read_head

RECEIVE_BYTES = 1 << 16
SEND_BYTES = 1 << 18
"""Of a large frame at a time: TLS encrypts a whole piece before it leaves."""

DRAIN_S = 2.0
DRAIN_BYTES_MAX = 1 << 20


class LineBrokenError(Exception):
    """The connection ended or failed."""


class WrongProtocolError(Exception):
    """The other end speaks TLS, but not ours."""


@contextmanager
def line_errors() -> Iterator[None]:
    try:
        yield
    except (anyio.EndOfStream, anyio.ClosedResourceError) as error:
        raise LineBrokenError("closed") from error
    except (anyio.BrokenResourceError, anyio.BusyResourceError, OSError, ssl.SSLError) as error:
        raise LineBrokenError(type(error).__name__) from error


class FrameConnection:
    """After the TLS handshake."""

    def __init__(self, stream: TLSStream) -> None:
        self._stream = stream
        self._held = bytearray()
        self.bytes_in = 0
        self.bytes_out = 0

    @classmethod
    async def opened(
        cls, raw: anyio.abc.ByteStream, context: ssl.SSLContext, *, is_called: bool
    ) -> "FrameConnection":
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

    @property
    def key(self) -> bytes | None:
        """The other end's, by its certificate."""
        certificate = self._stream.extra(TLSAttribute.peer_certificate_binary, None)
        return key_of(certificate) if certificate else None

    @property
    def has_more(self) -> bool:
        """Something came that was not read yet."""
        return bool(self._held)

    async def send(self, data: bytes) -> None:
        self.bytes_out += len(data)
        with line_errors():
            if len(data) <= SEND_BYTES:
                await self._stream.send(data)
                return
            view = memoryview(data)
            for start in range(0, len(data), SEND_BYTES):
                await self._stream.send(bytes(view[start : start + SEND_BYTES]))

    async def read_head(self, allowed: frozenset[FrameKind]) -> tuple[FrameKind, int]:
        """Kind and length of the next frame. Raises LineBrokenError and FrameError."""
        await self._fill(HEAD_BYTES)
        return read_head(bytes(self._held[:HEAD_BYTES]), allowed)

    async def read_content(self, kind: FrameKind, length: int) -> CallFrame:
        """What belongs to the head that was read last."""
        await self._fill(HEAD_BYTES + length)
        content = bytes(memoryview(self._held)[HEAD_BYTES : HEAD_BYTES + length])
        del self._held[: HEAD_BYTES + length]
        return CallFrame(kind, content)

    async def wait_for(self, part: int) -> None:
        """Until so much of the content has come."""
        await self._fill(HEAD_BYTES + part)

    async def read(self, allowed: frozenset[FrameKind]) -> CallFrame:
        return await self.read_content(*await self.read_head(allowed))

    async def read_end(self) -> None:
        """Returns when the other end has closed; raises FrameError when it says something out of turn."""
        try:
            await self._fill(1)
        except LineBrokenError:
            return
        raise FrameError("out of turn")

    async def drain(self) -> None:
        """Take what still comes off the line, for a moment: closing with bytes unread takes back what was said."""
        taken = len(self._held)
        self._held.clear()
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            with anyio.move_on_after(DRAIN_S):
                while taken < DRAIN_BYTES_MAX:
                    taken += len(await self._stream.receive(RECEIVE_BYTES))

    async def _fill(self, size: int) -> None:
        while len(self._held) < size:
            with line_errors():
                data = await self._stream.receive(RECEIVE_BYTES)
            self.bytes_in += len(data)
            self._held += data

    async def close(self) -> None:
        """At once, without a farewell: frames say for themselves whether they are whole."""
        await anyio.aclose_forcefully(self._stream)
