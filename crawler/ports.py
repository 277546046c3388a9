"""What does the crawler ask of the world? Four small protocols, implemented elsewhere.

Alone, a peer answers all of them itself: it owns every URL, its own steward grants the leases and its store
is the sink. In a ring the exchange answers for owners and leases, and the crawler notices no difference.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

import anyio

from crawler.core.capture import Capture, PayloadDigest
from crawler.core.link import Link
from crawler.core.politeness import Lease, OriginReport, Stay, Wait
from crawler.core.robots import RobotsRules
from crawler.core.urls import Origin


class CaptureSink(Protocol):
    """Where captures go."""

    async def store(self, capture: Capture) -> None:
        """Returns when the capture is durable. A redelivered one (after a crash) may come twice."""

    async def find(self, url: str, since: float) -> Capture | None:
        """The newest stored version of the URL with `requested_at >= since`, body included; asked after a
        crash, and when a version is to be read again.
        """

    async def note_failure(self, url: str, problem: str) -> None:
        """A visit got no answer, or one that says that the site is out of order. Of a whole site, whose robots.txt
        cannot be had, as of its robots.txt.
        """

    async def note_answer(self, url: str) -> None:
        """A visit got one that is not stored, as such ones are not."""


class UrlOwner(Protocol):
    """Decides which peer fetches the links that were found."""

    def divide(self, links: Sequence[Link]) -> list[Link]:
        """Those that are ours, to be put into our frontier; the others are taken for delivery."""

    def is_our_turn(self, url: str) -> bool:
        """Asked before each fetch: a URL in our frontier may have become somebody else's, for now or for good."""


class StewardPort(Protocol):
    """Permission to fetch, from the origin's steward."""

    async def rules(self, origin: Origin) -> RobotsRules | Wait:
        """What robots.txt says to us; Wait when the origin may not even be asked for that now. A fetch is to follow."""

    async def rules_alone(self, origin: Origin) -> RobotsRules | Wait:
        """The same for a question that no fetch of ours follows."""

    async def lease(self, origin: Origin, address: str) -> Lease | Wait: ...

    async def give_back(self, lease: Lease, report: OriginReport) -> float:
        """Says when the next fetch from the origin may start."""


LARGE_BODIES_AT_ONCE = 6
"""Bodies above a quarter of a MiB wait for one of these places, so that 56 of them cannot fill the memory."""
HUGE_BODIES_AT_ONCE = 1
"""The same above 2 MiB: such a body takes several times its size until it is stored."""


class BodyRooms:
    """How many large bodies may there be at once, from the first quarter of a MiB until they are stored?"""

    def __init__(self) -> None:
        self.large, self.huge = anyio.Semaphore(LARGE_BODIES_AT_ONCE), anyio.Semaphore(HUGE_BODIES_AT_ONCE)


class BodyPlace:
    """Of one body. It gives back all that it has, once."""

    __slots__ = ("_held", "_rooms")

    def __init__(self, rooms: BodyRooms) -> None:
        self._rooms = rooms
        self._held: list[anyio.Semaphore] = []

    async def grow(self) -> None:
        """To be waited for before it grows beyond a quarter of a MiB, and before it grows beyond 2 MiB."""
        room = self._rooms.huge if self._held else self._rooms.large
        await room.acquire()
        self._held.append(room)

    def leave(self) -> None:
        while self._held:
            self._held.pop().release()


class ConnectionSlot(Protocol):
    def carried(self, bytes_in: int, bytes_out: int) -> None:
        """So much its connection put on the line until now, headers included."""
        ...

    def leave(self) -> None:
        """When the connection is closed, or never came about. A second time does nothing."""
        ...


class ConnectionRoom(Protocol):
    """A bound on connections, which a fetcher shares with others."""

    async def enter(self) -> ConnectionSlot:
        """Before each connection; waits until there is room for one more."""
        ...

    def gives(self, give: Callable[[], bool]) -> None:
        """`give` closes a connection that is kept for later, or says that there is none; asked when there is no
        room, until `gives_no_more`."""
        ...

    def gives_no_more(self, give: Callable[[], bool]) -> None: ...


class FreeSlot:
    def carried(self, bytes_in: int, bytes_out: int) -> None:
        pass

    def leave(self) -> None:
        pass


class FreeRoom:
    """Without a bound."""

    async def enter(self) -> ConnectionSlot:
        return FreeSlot()

    def gives(self, give: Callable[[], bool]) -> None:
        del give

    gives_no_more = gives


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequest:
    """One GET. Validators make it conditional; the digest is the last archived version's."""

    url: str
    via: str | None = None
    etag: str = ""
    last_modified: str = ""
    digest: PayloadDigest | None = None
    accepts: Callable[[str], bool] | None = None
    """Whether a body of this media type is wanted; None: any. Asked for 200 only."""
    body_bytes_max: int | None = None
    """A tighter limit than the fetcher's own."""
    place: BodyPlace | None = None
    """The asker's, who leaves it when the body is stored. Without one the fetcher has its own until it returns."""
    address: str | None = None
    """The lease's: no other is connected to, wherever the name leads by now. None: wherever it leads."""
    stay: Stay | None = None
    """There: no connection is kept for longer. None: as long as the fetcher likes."""
    starts_by: float | None = None
    """The lease's, by the running loop's clock: no request leaves later, also where a place or a connection is long in
    coming, or where it is made elsewhere. None: not said."""
    again: "Callable[[Capture | Skipped], Awaitable[FetchRequest | None]] | None" = None
    """After this came of it: the same under another lease, once there is one. None: there is none for now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """The answer was not wanted; nothing of its body was kept."""

    url: str
    status: int
    mime: str
    duration_s: float


class Fetcher(Protocol):
    async def fetch(self, request: FetchRequest) -> Capture | Skipped:
        """One exchange, no redirect followed. Raises a FetchError when there is nothing to archive."""

    async def address_of(self, host: str) -> str | Wait:
        """The address that `host` leads to first, "" when none is known: for the cap per address. Wait: DNS is slow
        with this name, and nobody is to wait for it.
        """


class OpenFetcher(Fetcher, Protocol):
    """Works inside its context, which holds its connections."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class OwnsEverything:
    """A peer alone owns every URL."""

    def divide(self, links: Sequence[Link]) -> list[Link]:
        return list(links)

    def is_our_turn(self, url: str) -> bool:
        return True
