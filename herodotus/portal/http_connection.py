"""What does a connection ask, and how long may it be silent? Between the socket and aiohttp.

Where there is no room, a connection from this machine may still come to the door: it enters if its first request has
the operator's secret, and is refused otherwise.

A question in the answer cache is answered here; everything else goes to aiohttp as it came. The two never answer
at once: after a request went to aiohttp, the next answer is ours again only if that was one whole request and
aiohttp has answered it. Silence is watched here, because aiohttp does not see the answers given before it.
"""

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Protocol, cast

from crawler.carried import carried
from herodotus.portal.answer_cache import CachedRequest, Front

_REFUSAL_S = 1.0  # closing at once, with the request unread, would take the refusal back (a TCP reset)
_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 10\r\nContent-Type: text/plain\r\nContent-Length: 53\r\n"
    b"Connection: close\r\n\r\nToo many connections, here or from where you are.\r\n\r\n"
)


SLOW_AFTER_S, SLOW_BYTES_PER_S = 5.0, 256_000
"""Who takes a large answer for so long at less than this gives way where all places are taken. A page of 2 MB has
come by then; a video plays on as long as there is room."""
_DOOR_BYTES_MAX = 16 * 1024
"""Of a request whose secret is looked for: aiohttp takes no larger head."""
_SECRET = re.compile(rb"(?i)\r\nauthorization:[ \t]*bearer[ \t]+([^\s]{1,200})[ \t]*\r\n")


PACED_BYTES = 16 * 1024
"""More leaves piece by piece; so much is half a second of a line of 256 kbit/s."""


class SharedLine(Protocol):
    """What readers' bytes leave by, and leases, links and copies beside them."""

    @property
    def rate(self) -> float | None:
        """Bytes a second; None: it was never full."""
        ...

    def charge(self, size: int) -> None:
        """So many bytes leave, and other parts make room for them."""
        ...

    def reader(
        self,
        sock: socket.socket,
        host: str,
        write: Callable[[bytes], Awaitable[None]],
        held: Callable[[], int],
    ) -> Callable[[bytes], Awaitable[float]]:
        """What sends by turns, and says how long it waited for them. `held`: bytes that wait before the socket."""
        ...


class Entry(Enum):
    """What a connection finds that has just come."""

    ROOM = "room"
    DOOR = "door"
    """Room for the operator only."""
    FULL = "full"


class _Phase(Enum):
    FREE = "free"
    """Nothing is under way: a question may be answered here."""
    ONE = "one"
    """aiohttp has one whole request."""
    HANDED_OVER = "handed over"
    """aiohttp has a part of a request, or several: all that follows is its."""


class HttpConnection(asyncio.Protocol):
    def __init__(
        self,
        inner: asyncio.Protocol,
        front: Front,
        *,
        now: Callable[[], float],
        enters: Callable[["HttpConnection"], Entry],
        left: Callable[["HttpConnection"], None],
        is_secret: Callable[[str], bool],
        shared: Callable[[str], SharedLine | None] = lambda address: None,
    ) -> None:
        """`enters` says whether there is room; unless it is full, `left` is called later, once. `is_secret`: whether a
        secret is the operator's."""
        self.inner = inner
        self.address = ""
        """Where it comes from."""
        self._front = front
        self._now = now
        self._enters = enters
        self._left = left
        self._is_secret = is_secret
        self._shared = shared
        self.line: SharedLine | None = None
        """By which its answers leave, if that is shared with other parts of this peer."""
        self._at_door: bytearray | None = None
        """What it has said there."""
        self._phase = _Phase.FREE
        self._transport: asyncio.Transport | None = None
        self._is_paused = False
        self._since = now()
        self._is_under_way = False
        self._taken_from: tuple[float, int] | None = None
        """When a large answer began to go out, and the bytes that had gone out before."""
        self.question: CachedRequest | None = None
        """What aiohttp was asked, if it was one whole plain question."""

    # -- what aiohttp's handler tells ---------------------------------------------------------------------

    def begun(self) -> None:
        self._is_under_way = True
        self._since = self._now()

    def sending(self) -> None:
        """A large answer, as quickly as it is read."""
        self._taken_from = self._now(), self.carried()[1]

    def made(self) -> None:
        """There is an answer: from now on he is waited for, and not we."""
        self._is_under_way = False
        self._taken_from = None
        self._since = self._now()

    def ended(self) -> None:
        """The answer is in the transport's hands."""
        self.made()
        self.question = None
        if self._phase is _Phase.ONE:
            self._phase = _Phase.FREE

    def is_silent(self, idle_s: float) -> bool:
        """Half a question is silence too, and so is not to read the answer."""
        return not self._is_under_way and self._now() - self._since > idle_s

    def gives_way(self, idle_s: float) -> tuple[bool, float] | None:
        """How soon, the least first, where another needs its place; None: not at all. A connection for which nothing
        is under way goes first, then one that has taken long over an answer."""
        if self._is_under_way and self._now() - self._since <= idle_s and not self._is_read_slowly():
            return None
        return self._is_under_way, self._since

    def _is_read_slowly(self) -> bool:
        """Never known where the system does not count."""
        if self._taken_from is None:
            return False
        began_s, before = self._taken_from
        elapsed_s, sent = self._now() - began_s, self.carried()[1]
        return elapsed_s > SLOW_AFTER_S and 0 < sent < before + SLOW_BYTES_PER_S * elapsed_s

    def leave(self) -> None:
        if self._transport is None:
            return
        if self._transport.get_write_buffer_size():  # which would be waited for
            self._transport.abort()
        else:
            self._transport.close()

    # -- asyncio.Protocol ---------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = opened = cast("asyncio.Transport", transport)  # uvloop's has another class
        name = transport.get_extra_info("peername")
        self.address = str(name[0]) if name else ""
        self.line = self._shared(self.address)
        entry = self._enters(self) if self.address else Entry.FULL
        if entry is Entry.FULL:
            self._refuse(opened)
            return
        self._at_door = bytearray() if entry is Entry.DOOR else None
        self.inner.connection_made(transport)

    def _refuse(self, opened: asyncio.Transport) -> None:
        opened.set_protocol(asyncio.Protocol())  # which reads over whatever is asked
        opened.write(_FULL)
        opened.write_eof()
        asyncio.get_running_loop().call_later(_REFUSAL_S, opened.abort)

    def _said_at_door(self, data: bytes) -> bytes:
        """What may be answered by now."""
        said = self._at_door
        assert said is not None, "it stands there"
        said += data
        head, end, _ = bytes(said).partition(b"\r\n\r\n")
        if not end and len(said) <= _DOOR_BYTES_MAX:
            return b""
        found = _SECRET.search(head + b"\r\n") if end else None
        if found is not None and self._is_secret(found[1].decode("latin-1")):
            self._at_door = None
            return bytes(said)
        if self._transport is not None:
            self._refuse(self._transport)
            self.connection_lost(None)
        return b""

    def data_received(self, data: bytes) -> None:
        if self._at_door is not None:
            data = self._said_at_door(data)
            if not data:
                return
        if self._phase is _Phase.FREE:
            question = self._front.question(data)
            if question is not None:
                parts = self._front.answer(question)
                if parts is not None and self._transport is not None and not self._transport.is_closing():
                    answer = b"".join(parts)
                    if self._leaves_at_once(len(answer)):
                        self._since = self._now()
                        self._transport.write(answer)
                        return
            self.question = question
            is_one = question is not None or self._front.is_whole(data)
            self._phase = _Phase.ONE if is_one else _Phase.HANDED_OVER
        else:
            self.question = None
            self._phase = _Phase.HANDED_OVER
        self.inner.data_received(data)

    def _leaves_at_once(self, size: int) -> bool:
        """What is large waits for its turn on a line that was full, which is aiohttp's to do."""
        if self.line is None:
            return True
        if size > PACED_BYTES and self.line.rate is not None:
            return False
        self.line.charge(size)
        return True

    def eof_received(self) -> bool | None:
        return self.inner.eof_received()

    def carried(self) -> tuple[int, int]:
        """Bytes in and out, with headers."""
        return (0, 0) if self._transport is None else carried(self._transport.get_extra_info("socket"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._left(self)
        self.inner.connection_lost(exc)

    def pause_writing(self) -> None:
        # A connection that does not read our answers is no longer read from.
        if self._phase is _Phase.FREE and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()
        self.inner.pause_writing()

    def resume_writing(self) -> None:
        if self._is_paused and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()
        self.inner.resume_writing()
