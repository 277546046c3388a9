"""What carries the frames of a call? A line: an encrypted stream whose other end has proven a key.

Everything above it (frames, introductions, admission, deadlines) is the same on any line. The daemon's lines are TLS
over TCP (`tls_lines`); a simulation has lines of its own.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol

from dht.node_types import OpenTransport
from herodotus.core.errors import PeerFault, WorldFailure


class LineBrokenError(WorldFailure):
    """The line ended or failed, or never came about."""


class WrongProtocolError(PeerFault):
    """The other end speaks TLS, but not our protocol."""


class Line(Protocol):
    @property
    def key(self) -> bytes | None:
        """The key that the called end has proven; None for the called end, whose caller introduces itself."""
        ...

    async def send(self, data: bytes) -> None:
        """Waits while the other end does not read. Raises LineBrokenError."""
        ...

    async def receive(self) -> bytes:
        """At least one byte. Raises LineBrokenError, also at the end."""
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

    async def answer(self) -> Line:
        """Raises LineBrokenError or WrongProtocolError; nothing is open then."""
        ...

    async def turn_away(self) -> None: ...


class Port(Protocol):
    """One number by UDP, for the ring, and by TCP, for calls."""

    @property
    def number(self) -> int: ...

    @property
    def datagrams(self) -> OpenTransport: ...

    async def accept(self) -> Arrival:
        """Callers that came earlier have waited. Raises OSError where one cannot be taken."""
        ...

    def close(self) -> None: ...


Dial = Callable[[str, int], Awaitable[Line]]
"""To a host and port. Raises OSError where nobody answers, LineBrokenError and WrongProtocolError."""
