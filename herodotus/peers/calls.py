"""What may one peer ask of another, apart from messages of the ring? Calls by name; both ends are authenticated.

A call carries at most some megabytes and its answer comes whole, or in pieces for as long as the caller reads. Links,
leases and copies are services of their own on top of it; they are written against `Calls`, and know no sockets.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import msgspec

from dht import Contact
from herodotus.core.errors import MalformedError, PeerFault, WorldFailure

PeerKey = bytes
"""A peer's public key, 32 bytes: proven by the connection, never taken from a message."""

Message = TypeVar("Message")

CALL_BYTES_MAX = 8 << 20
CALL_DEADLINE_S = 30.0


class CallError(WorldFailure):
    """The call had no answer; whether it was carried out is unknown, so calls must bear repetition."""


class PeerUnreachableError(CallError):
    """No connection, or it broke, or the deadline passed."""


class RefusedError(CallError):
    """The peer answered that it will not: `reason` is a word of the service's protocol."""

    def __init__(self, reason: str, *, retry_after_s: float | None = None) -> None:
        self.reason = reason
        self.retry_after_s = retry_after_s
        super().__init__(reason)


class WrongPeerError(CallError, PeerFault):
    """Somebody else sits at that address."""


class Questions(Protocol):
    """The part of `Calls` that most services need."""

    async def call(
        self, to: Contact, service: str, body: bytes, *, deadline_s: float = CALL_DEADLINE_S
    ) -> bytes:
        """One question of at most `CALL_BYTES_MAX`, one answer of the same bound. Raises a CallError."""
        ...


class Calls(Questions, Protocol):
    """Answers of any length besides."""

    def stream(
        self, to: Contact, service: str, body: bytes
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """One question, an answer in pieces; the peer makes the next when this one was read. Raises a CallError, also
        in the middle: an answer that ends without one is whole.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """A peer's handlers by the service's name. A handler raises RefusedError to refuse."""

    calls: Mapping[str, Callable[[PeerKey, bytes], Awaitable[bytes]]] = field(default_factory=dict)
    streams: Mapping[str, Callable[[PeerKey, bytes], AsyncIterator[bytes]]] = field(default_factory=dict)
    for_anybody: frozenset[str] = frozenset()
    """Calls that a caller of whom the ring knows nothing may make as well, once on a connection."""
    by_datagram: frozenset[str] = frozenset()
    """Calls that members may also make without a connection, where question and answer fit a datagram each."""

    @classmethod
    def of(cls, *parts: "Services") -> "Services":
        """The services of several parts of a peer together. Two of one name are a bug."""
        calls = [name for part in parts for name in part.calls]
        streams = [name for part in parts for name in part.streams]
        assert len({*calls}) == len(calls), f"two services of one name: {calls}"
        assert len({*streams}) == len(streams), f"two services of one name: {streams}"
        return cls(
            calls={name: handler for part in parts for name, handler in part.calls.items()},
            streams={name: handler for part in parts for name, handler in part.streams.items()},
            for_anybody=frozenset().union(*(part.for_anybody for part in parts)),
            by_datagram=frozenset().union(*(part.by_datagram for part in parts)),
        )


encode = msgspec.msgpack.Encoder().encode


def reader(kind: type[Message]) -> Callable[[bytes], Message]:
    """Of bodies in MessagePack, straight into a type whose annotations are the limits. It raises MalformedError."""
    decode = msgspec.msgpack.Decoder(kind).decode

    def read(body: bytes) -> Message:
        try:
            return decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise MalformedError(str(error)[:200]) from error

    return read


class _Versioned(Protocol):
    @property
    def version(self) -> int: ...


Body = TypeVar("Body", bound=_Versioned)


def reader_of_version(kind: type[Body], version: int) -> Callable[[bytes], Body]:
    """As `reader`, of bodies that begin with their version; another one is a MalformedError too."""
    read = reader(kind)

    def decode(body: bytes) -> Body:
        found = read(body)
        if found.version != version:
            raise MalformedError("version")
        return found

    return decode
