"""What carries the frames of a call? A line: an encrypted stream whose other end has proven a key.

Everything above it (frames, introductions, admission, deadlines) is the same on any line. The daemon's lines are TLS
over TCP (`tls_lines`); a simulation has lines of its own.
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from typing import Protocol

from dht.node_types import OpenTransport
from herodotus.core.errors import PeerFault, WorldFailure
from herodotus.core.pacer import WaySample
from herodotus.core.relays import Arrangement, Way


class LineBrokenError(WorldFailure):
    """The line ended or failed, or never came about."""


class WrongProtocolError(PeerFault):
    """The other end speaks TLS, but not our protocol."""


class Line(Protocol):
    @property
    def key(self) -> bytes | None:
        """The key that the called end has proven; None for the called end, whose caller introduces itself."""
        ...

    @property
    def host(self) -> str:
        """Where the connection leads; empty where it is gone already."""
        ...

    async def send(self, data: bytes) -> None:
        """Waits while the other end does not read. Raises LineBrokenError."""
        ...

    def way(self) -> WaySample | None:
        """How its way looks now; None where nothing tells."""
        ...

    def keep_unsent_below(self, size: int) -> None:
        """From now on `send` waits until the system holds fewer bytes that have not left, where it can."""
        ...

    async def receive(self) -> bytes:
        """At least one byte. Raises LineBrokenError, also at the end."""
        ...

    def carried(self) -> tuple[int, int]:
        """Bytes in and out that it put on the line until now, with all headers; (0, 0) where nobody counts them."""
        ...

    async def close(self) -> None:
        """At once, without a farewell: frames say for themselves whether they are whole."""
        ...


class Arrival(Protocol):
    """A caller that has connected and said nothing yet."""

    @property
    def host(self) -> str | None:
        """The address that the call comes from; None where the caller is gone already."""
        ...

    @property
    def port(self) -> int:
        """And the port; 0 where the caller is gone already."""
        ...

    async def answer(self) -> Line | None:
        """None where it was no caller, but a connection that a part of ours expects. Raises LineBrokenError or
        WrongProtocolError; nothing is open then."""
        ...

    async def turn_away(self) -> None: ...


class Joint(Protocol):
    """Two connections that become one."""

    async def carry(self, admits: Callable[[int], Awaitable[None]], idle_s: float) -> None:
        """Passes on what comes, both ways, until one end closes or nothing came for so long. Before each piece its size
        is `admits`."""
        ...


class Arrangements(Protocol):
    """Lines that both ends, or a third, help to come about (`arranged.py`)."""

    async def call(self, arrangement: Arrangement) -> tuple[Line, Way]:
        """As the caller. Runs until there is a line or it is cancelled. Raises OSError, LineBrokenError and
        WrongProtocolError."""
        ...

    async def answer(self, arrangement: Arrangement) -> None:
        """As the called peer: what comes about is accepted at the port. Raises OSError."""
        ...

    async def dial_from_port(self, host: str, port: int) -> Line:
        """From our own port, so that the other end sees how our router shows it. Raises as `Dial` does."""
        ...

    def has_dialled(self, host: str) -> bool:
        """Did a connection leave for this host from our port, for as long ago as a router may remember?"""
        ...

    def both(self, token: bytes) -> AbstractAsyncContextManager[Joint | None]:
        """As the relay: the two connections that come with the token; None where they do not, in its time."""
        ...


class Port(Protocol):
    """One number by UDP, for the ring, and by TCP, for calls."""

    @property
    def number(self) -> int: ...

    @property
    def datagrams(self) -> OpenTransport: ...

    @property
    def arrangements(self) -> Arrangements | None:
        """For lines to peers that cannot be called; None in a world in which everybody can."""
        ...

    async def accept(self) -> Arrival:
        """Callers that came earlier have waited. Raises OSError where one cannot be taken."""
        ...

    def close(self) -> None: ...


caller_address: ContextVar[tuple[str, int]] = ContextVar("caller_address")
"""Where the call comes from that a handler answers. Relays alone need it."""

Dial = Callable[[str, int], Awaitable[Line]]
"""To a host and port. Raises OSError where nobody answers, LineBrokenError and WrongProtocolError."""
