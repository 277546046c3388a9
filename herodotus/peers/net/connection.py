"""How does one line carry frames? Whole frames out, bounded frames in.

One exchange at a time: the caller asks, reads the answer to its end, and may ask again. Deadlines are the users';
every fault of the other end or of the line comes out as one of three exceptions.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import anyio

from herodotus.core.pacer import WaySample
from herodotus.peers.net.line import Line, LineBrokenError
from herodotus.peers.net.rooms import Slot
from herodotus.peers.net.wire import HEAD_BYTES, CallFrame, FrameError, FrameKind, read_head

DRAIN_S = 2.0
DRAIN_BYTES_MAX = 1 << 20
CLOSE_S = 5.0


@asynccontextmanager
async def closed_at_once(pieces: AsyncIterator[bytes]) -> AsyncIterator[AsyncIterator[bytes]]:
    """Close a generator at once, even if it was not read to its end."""
    try:
        yield pieces
    finally:
        close = getattr(pieces, "aclose", None)
        if close is not None:
            with anyio.move_on_after(CLOSE_S, shield=True):
                await close()


class FrameConnection:
    def __init__(self, line: Line, slot: Slot | None = None) -> None:
        """`slot` is left when the connection is closed."""
        self._line = line
        self._slot = slot
        self._held = bytearray()
        self._unsent_max = 0
        self.bytes_in = 0
        self.bytes_out = 0

    @property
    def key(self) -> bytes | None:
        """The called end's, as the line proved it."""
        return self._line.key

    @property
    def has_more(self) -> bool:
        """Something came that was not read yet."""
        return bool(self._held)

    @property
    def host(self) -> str:
        return self._line.host

    def way(self) -> WaySample | None:
        """How its way looks now; None where nothing tells."""
        return self._line.way()

    def keep_unsent_below(self, size: int) -> None:
        """From now on `send` waits until the system holds fewer bytes that have not left."""
        if size != self._unsent_max:
            self._unsent_max = size
            self._line.keep_unsent_below(size)

    async def send(self, data: bytes) -> None:
        """Raises LineBrokenError."""
        self.bytes_out += len(data)
        await self._line.send(data)

    async def read_head(self, allowed: frozenset[FrameKind]) -> tuple[FrameKind, int]:
        """Kind and length of the next frame. Raises LineBrokenError and FrameError."""
        await self._fill(HEAD_BYTES)
        return read_head(bytes(self._held[:HEAD_BYTES]), allowed)

    async def read_content(self, kind: FrameKind, length: int) -> CallFrame:
        """The content that belongs to the head read last."""
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
        """Read the line empty, for a moment: closing with unread bytes would discard our last answer."""
        taken = len(self._held)
        self._held.clear()
        with suppress(LineBrokenError), anyio.move_on_after(DRAIN_S):
            while taken < DRAIN_BYTES_MAX:
                taken += len(await self._line.receive())

    async def _fill(self, size: int) -> None:
        while len(self._held) < size:
            data = await self._line.receive()
            self.bytes_in += len(data)
            self._held += data

    def tell_carried(self) -> None:
        """What the line carried until now."""
        if self._slot is not None:
            self._slot.carried(*self._line.carried())

    async def close(self) -> None:
        """At once, without a farewell: frames say for themselves whether they are whole."""
        self.tell_carried()
        try:
            await self._line.close()
        finally:
            if self._slot is not None:
                self._slot.leave()
