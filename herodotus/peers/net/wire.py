"""How do calls look as bytes? The frames of `docs/protocol/calls.md`, made and read here alone.

A frame says its kind and length before its content, so whatever is too long is refused before it is held.
"""

from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from herodotus.core.errors import MalformedError
from herodotus.peers.calls import CALL_BYTES_MAX

ALPN: Final = "herodotus-calls/1"
NONCE_BYTES: Final = 32
RECORD_BYTES_MAX: Final = 900
"""As in a handshake of the ring."""
SERVICE_BYTES_MAX: Final = 32
REASON_BYTES_MAX: Final = 64
NEVER: Final = (1 << 32) - 1
"""Milliseconds that stand for "not said"."""
SIGN_CALLER: Final = b"herodotus/calls/1/caller"


class FrameKind(IntEnum):
    GREETING = 1
    HELLO = 2
    CALL = 3
    STREAM = 4
    ANSWER = 5
    PIECE = 6
    END = 7
    REFUSED = 8


_HEAD: Final = Struct("!BI")
"""Kind and length."""
HEAD_BYTES: Final = _HEAD.size
_GREETING: Final = Struct(f"8s{NONCE_BYTES}s")
_HELLO: Final = Struct("8s32s64s")
_QUESTION: Final = Struct("!IB")
"""Milliseconds, and the length of the service's name."""
LENGTHS: Final = {
    FrameKind.GREETING: (_GREETING.size, _GREETING.size + RECORD_BYTES_MAX),
    FrameKind.HELLO: (_HELLO.size, _HELLO.size + RECORD_BYTES_MAX),
    FrameKind.CALL: (_QUESTION.size + 1, _QUESTION.size + SERVICE_BYTES_MAX + CALL_BYTES_MAX),
    FrameKind.STREAM: (_QUESTION.size + 1, _QUESTION.size + SERVICE_BYTES_MAX + CALL_BYTES_MAX),
    FrameKind.ANSWER: (0, CALL_BYTES_MAX),
    FrameKind.PIECE: (0, CALL_BYTES_MAX),
    FrameKind.END: (0, 0),
    FrameKind.REFUSED: (4, 4 + REASON_BYTES_MAX),
}
"""The least and the most bytes of a frame's content."""
FROM_CALLER: Final = frozenset({FrameKind.HELLO, FrameKind.CALL, FrameKind.STREAM})
FROM_CALLED: Final = frozenset(set(FrameKind) - FROM_CALLER)


class FrameError(MalformedError):
    """The other end broke the protocol. The text is the word under which the failure is counted."""


class CallFrame(NamedTuple):
    kind: FrameKind
    content: bytes


class Greeting(NamedTuple):
    """The called peer begins. Its key is its certificate's; the record proves a rotated one."""

    network: bytes
    nonce: bytes
    record: bytes = b""

    def pack(self) -> bytes:
        return frame(FrameKind.GREETING, b"".join(self))

    @classmethod
    def read(cls, content: bytes) -> "Greeting":
        network, nonce = _GREETING.unpack_from(content)
        return cls(network, nonce, content[_GREETING.size :])


class CallHello(NamedTuple):
    """The caller's introduction, signed for this connection to this peer alone."""

    network: bytes
    caller: bytes
    signature: bytes
    record: bytes = b""

    def pack(self) -> bytes:
        return frame(FrameKind.HELLO, b"".join(self))

    @classmethod
    def read(cls, content: bytes) -> "CallHello":
        network, caller, signature = _HELLO.unpack_from(content)
        return cls(network, caller, signature, content[_HELLO.size :])


def signed_by_caller(*, network: bytes, called: bytes, nonce: bytes, caller: bytes) -> bytes:
    """Names the called key, so that the called peer cannot pass it on; and its nonce, so that it counts once."""
    return SIGN_CALLER + network + called + nonce + caller


@dataclass(frozen=True, slots=True, kw_only=True)
class CallQuestion:
    service: str
    deadline_s: float
    is_stream: bool
    body: bytes

    def pack(self) -> bytes:
        name = self.service.encode("ascii")
        if not 0 < len(name) <= SERVICE_BYTES_MAX or len(self.body) > CALL_BYTES_MAX:
            raise ValueError(f"no such question: service {self.service!r}, {len(self.body)} bytes")
        kind = FrameKind.STREAM if self.is_stream else FrameKind.CALL
        head = _QUESTION.pack(_milliseconds(self.deadline_s), len(name))
        length = len(head) + len(name) + len(self.body)
        return b"".join((_HEAD.pack(kind, length), head, name, self.body))

    @classmethod
    def read(cls, found: CallFrame) -> "CallQuestion":
        content = found.content
        deadline_ms, length = _QUESTION.unpack_from(content)
        name_end = _QUESTION.size + length
        name, body = content[_QUESTION.size : name_end], content[name_end:]
        is_name = 0 < length <= SERVICE_BYTES_MAX and len(name) == length and name.isascii()
        if not is_name or len(body) > CALL_BYTES_MAX:
            raise FrameError("question")
        return cls(
            service=name.decode("ascii"),
            deadline_s=deadline_ms / 1000,
            is_stream=found.kind is FrameKind.STREAM,
            body=body,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRefusal:
    reason: str
    retry_after_s: float | None = None

    @property
    def content(self) -> bytes:
        after = NEVER if self.retry_after_s is None else _milliseconds(self.retry_after_s)
        return after.to_bytes(4, "big") + self.reason.encode("ascii", "replace")[:REASON_BYTES_MAX]

    def pack(self) -> bytes:
        return frame(FrameKind.REFUSED, self.content)

    @classmethod
    def read(cls, content: bytes) -> "CallRefusal":
        least, most = LENGTHS[FrameKind.REFUSED]
        if not least <= len(content) <= most:
            raise FrameError("length")
        after, reason = int.from_bytes(content[:4], "big"), content[4:]
        if not (reason.isascii() and reason.decode("ascii", "replace").isprintable()):
            raise FrameError("reason")
        return cls(reason=reason.decode("ascii"), retry_after_s=None if after == NEVER else after / 1000)


def frame(kind: FrameKind, content: bytes = b"") -> bytes:
    least, most = LENGTHS[kind]
    if not least <= len(content) <= most:
        raise ValueError(f"{kind.name} of {len(content)} bytes")
    return _HEAD.pack(kind, len(content)) + content


def read_head(head: bytes, allowed: frozenset[FrameKind]) -> tuple[FrameKind, int]:
    """Kind and length of the frame; raises FrameError before any of its content is read."""
    number, length = _HEAD.unpack(head)
    if number not in allowed:
        raise FrameError("kind")
    kind = FrameKind(number)
    least, most = LENGTHS[kind]
    if not least <= length <= most:
        raise FrameError("length")
    return kind, length


def _milliseconds(seconds: float) -> int:
    return max(0, min(round(seconds * 1000), NEVER - 1))
