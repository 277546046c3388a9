"""Where does an answer end, and what does its head say? HTTP/1.1 responses out of bytes, without I/O.

A reader takes what a connection gave, piece by piece, and keeps the head's bytes as they came (order, case and
white space; interim answers left out) and the body without its transfer coding. Framing is RFC 9112, 6.3:
what has no body, then chunks, then a length, then the end of the connection.
It is strict where leniency lets one answer pass for another
(lengths, codings) and lenient in what only looks odd (bare line feeds, reasons, unknown fields). What follows an
answer is dropped with its connection, as browsers do. Every size has a bound, and every piece of work is linear.
"""

import re
from collections.abc import Callable
from enum import Enum, auto
from typing import Protocol

HEAD_BYTES_MAX = 256 * 1024
FIELD_BYTES_MAX = 64 * 1024
CHUNK_LINE_BYTES_MAX = 4 * 1024
TRAILER_BYTES_MAX = 16 * 1024
PIECES_MAX = 256
PIECES_BYTES_MAX = 1024 * 1024
INTERIM_MAX = 32
"""Answers before the answer; one or two are usual."""

_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) +([1-5]\d\d)(?: [^\r\n]*| *)\r?\n")
_END_OF_HEAD = re.compile(rb"\r?\n\r?\n")
_FRAMING = re.compile(
    rb"(?i)\n(content-length|transfer-encoding|connection|content-type|location)[ \t]*:((?:[^\n]|\n[ \t])*)"
)
_CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?\r?\n")
_NO_FIELD = re.compile(rb"\n(?![!#$%&'*+.^_`|~0-9A-Za-z\x80-\xff-]+[ \t]*:|[ \t]|\r?\n|\Z)|\0")


class BadAnswerError(Exception):
    """What came is not HTTP, or passes our limits; the message says what."""


class _Phase(Enum):
    HEAD = auto()
    COUNTED = auto()
    CHUNK_LINE = auto()
    CHUNK = auto()
    CHUNK_END = auto()
    TRAILER = auto()
    UNTIL_END = auto()
    DONE = auto()


class Bulk(Protocol):
    """Bytes that grow, and are given away without another copy: that of a large body would not be little."""

    def write(self, data: bytes, /) -> int: ...

    def truncate(self, size: int | None, /) -> int: ...

    def getvalue(self) -> bytes: ...


class Copied:
    """As simple as can be; a shell has a better one (`io.BytesIO`)."""

    def __init__(self) -> None:
        self._held = bytearray()

    def write(self, data: bytes, /) -> int:
        self._held += data
        return len(data)

    def truncate(self, size: int | None, /) -> int:
        del self._held[len(self._held) if size is None else size :]
        return len(self._held)

    def getvalue(self) -> bytes:
        return bytes(self._held)


class AnswerReader:
    """One exchange's answer. `receive` what came until `is_done`; `end` when the connection ended."""

    __slots__ = (
        "_buffer", "_bulk", "_in_bulk", "_interim", "_left", "_new_bulk", "_phase", "_pieces", "body_bytes",
        "content_type", "head", "is_reusable", "location", "status",
    )  # fmt: skip

    def __init__(self, bulk: Callable[[], Bulk] = Copied) -> None:
        self.head = b""
        """Empty until it is whole."""
        self.status = 0
        self.content_type = ""
        self.location = ""
        self.body_bytes = 0
        self.is_reusable = False
        """Whether the connection may carry another exchange, once this one is done."""
        self._pieces: list[bytes] = []
        self._new_bulk = bulk
        self._bulk: Bulk | None = None
        self._in_bulk = 0
        self._buffer = bytearray()
        self._left = 0
        self._interim = 0
        self._phase = _Phase.HEAD

    @property
    def is_done(self) -> bool:
        return self._phase is _Phase.DONE

    @property
    def has_begun(self) -> bool:
        return bool(self.head or self._buffer or self._interim)

    def body(self, bytes_max: int | None = None) -> bytes:
        """What came of it so far; it is given once, and not kept."""
        pieces, self._pieces = self._pieces, []
        bulk, self._bulk = self._bulk, None
        if bulk is not None:
            bulk.write(b"".join(pieces))
            bulk.truncate(bytes_max)
            return bulk.getvalue()
        return pieces[0][:bytes_max] if len(pieces) == 1 else b"".join(pieces)[:bytes_max]

    def receive(self, data: bytes) -> None:
        """Raises BadAnswerError; what was read before stays."""
        if self._phase is _Phase.COUNTED:  # nearly all bytes come this way
            assert not self._buffer, "only elements that must be whole are kept back, and this phase has none"
            if self._take_counted(data):
                self.is_reusable = False
            return
        if self._buffer:
            self._buffer += data
            # The end of a head is at most four bytes, so only three of those that were searched before can begin it.
            # To search all of it at each piece would cost the square of a head that comes byte by byte.
            is_head = self._phase is _Phase.HEAD
            if is_head and not _END_OF_HEAD.search(self._buffer, max(0, len(self._buffer) - len(data) - 3)):
                self._check_partial_head(self._buffer)
                return  # looked at once, so that a head that drips in costs no more than another
            data = bytes(self._buffer)
            self._buffer.clear()
        while data and self._phase is not _Phase.DONE:
            rest = self._step(data)
            assert rest is None or len(rest) <= len(data), "a step takes, and gives nothing back"
            if rest is None:
                self._buffer += data
                return
            data = rest
        if data:
            self.is_reusable = (
                False  # bytes that nobody asked for belong to no answer of ours (RFC 9112, 6.3)
            )

    def end(self) -> bool:
        """The connection ended: whether the answer is whole."""
        if self._phase is _Phase.UNTIL_END:
            self._phase = _Phase.DONE
            self.is_reusable = False
        return self._phase is _Phase.DONE

    def _step(self, data: bytes) -> bytes | None:
        """What is left of the data after the next element, None when that is not whole yet."""
        phase = self._phase
        if phase is _Phase.HEAD:
            return self._take_head(data)
        if phase is _Phase.COUNTED:
            return self._take_counted(data)
        if phase is _Phase.UNTIL_END:
            self._keep(data)
            return b""
        if phase is _Phase.CHUNK_LINE:
            return self._take_chunk_line(data)
        if phase is _Phase.CHUNK:
            return self._take_chunk(data)
        if phase is _Phase.CHUNK_END:
            return self._take_chunk_end(data)
        return self._take_trailer(data)

    def _keep(self, data: bytes) -> None:
        self._pieces.append(data)
        self.body_bytes += len(data)
        # A body of tiny chunks would take many times its size, and large pieces twice theirs while they are joined.
        if len(self._pieces) > PIECES_MAX or self.body_bytes - self._in_bulk > PIECES_BYTES_MAX:
            self._bulk = self._bulk or self._new_bulk()
            self._in_bulk = self.body_bytes
            self._bulk.write(b"".join(self._pieces))
            self._pieces.clear()

    # -- the head

    def _take_head(self, data: bytes) -> bytes | None:
        found = _END_OF_HEAD.search(data)
        if found is None or found.end() > HEAD_BYTES_MAX:
            self._check_partial_head(data)
            return None
        head, rest = data[: found.end()], data[found.end() :]
        line = _STATUS_LINE.match(head)
        if line is None:
            raise BadAnswerError("no status line of HTTP/1")
        if len(head) > FIELD_BYTES_MAX and max(map(len, head.split(b"\n"))) >= FIELD_BYTES_MAX:
            raise BadAnswerError(f"a field of more than {FIELD_BYTES_MAX} bytes")
        if _NO_FIELD.search(head, line.end() - 1):
            raise BadAnswerError("a line of the head is no field")
        status = int(line[2])
        if status < 200 and status != 101:
            self._interim += 1
            if self._interim > INTERIM_MAX:
                raise BadAnswerError(f"more than {INTERIM_MAX} interim answers")
            return rest
        self.head, self.status = head, status
        self._frame(head, line.end() - 1, is_old=line[1] == b"0")
        return rest

    def _check_partial_head(self, data: bytes | bytearray) -> None:
        if data[:7] != b"HTTP/1."[: len(data)]:
            raise BadAnswerError("no status line of HTTP/1")
        if len(data) > HEAD_BYTES_MAX:
            raise BadAnswerError(f"a head of more than {HEAD_BYTES_MAX} bytes")
        if len(data) - data.rfind(b"\n") > FIELD_BYTES_MAX:
            raise BadAnswerError(f"a field of more than {FIELD_BYTES_MAX} bytes")

    def _frame(self, head: bytes, start: int, *, is_old: bool) -> None:
        # The order of the cases below is that of RFC 9112, 6.3: a status without a body, then a coding, then a length,
        # then the connection's end. Another order reads one answer as two, which is how answers are smuggled.
        lengths: set[bytes] = set()
        codings: list[bytes] = []
        connection = b""
        for name, raw in _FRAMING.findall(head, start):
            value = raw.strip()
            kind = len(name)  # the five names have five lengths
            if kind == 14:
                lengths |= {each.strip() for each in value.split(b",")}
            elif kind == 17:
                codings += [each.strip().lower() for each in value.split(b",")]
            elif kind == 10:
                connection += b"," + value.lower()
            elif kind == 12:
                self.content_type = self.content_type or value.decode("latin-1")
            else:
                self.location = self.location or value.decode("utf-8", "replace")
        options = {each.strip() for each in connection.split(b",")} if connection else set()
        self.is_reusable = b"keep-alive" in options if is_old else b"close" not in options
        if lengths and (len(lengths) > 1 or not _is_number(next(iter(lengths)))):
            raise BadAnswerError("a Content-Length that is no number, or two that differ")
        assert not self._left, "the length of no other answer is left over"
        if self.status in (101, 204, 304):
            self._phase = _Phase.DONE
            self.is_reusable = self.is_reusable and self.status != 101
        elif codings:
            self._frame_coded(codings, has_length=bool(lengths))
        elif lengths:
            self._left = int(next(iter(lengths)))
            self._phase = _Phase.COUNTED if self._left else _Phase.DONE
        else:
            self._phase = _Phase.UNTIL_END

    def _frame_coded(self, codings: list[bytes], *, has_length: bool) -> None:
        if has_length:
            self.is_reusable = False  # a server that sends both may mean either (RFC 9112, 6.1)
        if codings == [b"identity"]:
            self._phase = _Phase.UNTIL_END
        elif codings == [b"chunked"]:
            self._phase = _Phase.CHUNK_LINE
        else:
            raise BadAnswerError("a transfer coding that nobody asked for")

    # -- the body

    def _take_counted(self, data: bytes) -> bytes:
        assert self._left > 0, "a length of 0 ends the answer with its head"
        size = len(data)
        if size < self._left:
            self._left -= size
            self._keep(data)
            return b""
        taken = data if size == self._left else data[: self._left]
        self._keep(taken)
        self._left = 0
        self._phase = _Phase.DONE
        return data[len(taken) :]

    def _take_chunk_line(self, data: bytes) -> bytes | None:
        found = _CHUNK_LINE.match(data)
        if found is None:
            # Either the line is not whole yet, or it never will be: with its end in sight, or beyond its longest, no
            # further byte can make it one.
            if b"\n" in data[:CHUNK_LINE_BYTES_MAX] or len(data) > CHUNK_LINE_BYTES_MAX:
                raise BadAnswerError("a chunk without its size")
            if not re.match(rb"[0-9A-Fa-f]", data):
                raise BadAnswerError("a chunk without its size")
            return None
        self._left = int(found[1], 16)
        self._phase = _Phase.CHUNK if self._left else _Phase.TRAILER
        return data[found.end() :]

    def _take_chunk(self, data: bytes) -> bytes:
        assert self._left > 0, "a chunk of 0 is the last, and has no bytes"
        taken = data[: self._left]
        self._keep(taken)
        self._left -= len(taken)
        if not self._left:
            self._phase = _Phase.CHUNK_END
        return data[len(taken) :]

    def _take_chunk_end(self, data: bytes) -> bytes | None:
        if data == b"\r":
            return None
        mark = 2 if data.startswith(b"\r\n") else 1 if data.startswith(b"\n") else 0
        if not mark:
            raise BadAnswerError("a chunk longer than its size")
        self._phase = _Phase.CHUNK_LINE
        return data[mark:]

    def _take_trailer(self, data: bytes) -> bytes | None:
        """Fields after the body are read over, as browsers do."""
        end = data.find(b"\n")
        if end < 0:
            if len(data) > TRAILER_BYTES_MAX:
                raise BadAnswerError("a trailer without end")
            return None
        self._left += end + 1  # counts the trailer's bytes: the last chunk left it at 0
        if self._left > TRAILER_BYTES_MAX:
            raise BadAnswerError("a trailer without end")
        if data[:end].strip(b"\r") == b"":
            self._phase = _Phase.DONE
        return data[end + 1 :]


def _is_number(text: bytes) -> bool:
    return text.isdigit() and len(text) <= 18
