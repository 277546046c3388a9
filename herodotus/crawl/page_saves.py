"""How is one page fetched now, because somebody asked? By the crawler's own means, on the peer's open archive.

One fetcher and one steward serve all askers, so hosts always get their pauses, and robots.txt, the network's
scope, the opt-out list and the guard against private addresses count as in any crawl.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import anyio

from crawler.core.capture import Capture, FetchOutcome
from crawler.core.errors import FetchError, TooLateError
from crawler.core.politeness import Lease, OriginReport, Wait
from crawler.core.recrawl import Result
from crawler.core.scope import ContentChoice
from crawler.core.urls import Origin, host_of, origin_of, target_of
from crawler.http import FetchSettings
from crawler.outcomes import read_capture, report_of
from crawler.ports import Fetcher, FetchRequest, Skipped, StewardPort
from herodotus.core.charter import Charter
from herodotus.core.doors import Door
from herodotus.core.errors import ArchiveError, told_to_readers
from herodotus.core.saves import SaveOutcome, SaveResult
from herodotus.core.settings.sections import Settings
from herodotus.crawl.gear import (
    ROBOT,
    ArchiveSink,
    CrawlOrder,
    SeedRefusedError,
    WebWorld,
    beside,
    check_seeds,
    url_rules,
)
from herodotus.store import Store

PATIENCE_S = 8.0
"""The asker waits so long for the host's turn and its answer; a relaying peer gives up after ten."""
AT_ONCE = 8
WAITING_MAX = 64
LATE_AGAIN_S = 10.0
"""The next lease of a host that takes long to reach is longer."""
FRESH_S = 600.0
"""What was fetched less than so long ago is not fetched again."""


@dataclass(slots=True)
class _Turn:
    """One at a time works on an origin: the steward counts on it."""

    lock: anyio.Lock = field(default_factory=anyio.Lock)
    users: int = 0


class HomeSaves:
    """A `SavePort` on the peer's own archive, which may be closed. `opened` holds its connections."""

    def __init__(
        self,
        store: Callable[[], Store],
        charter: Charter,
        settings: Settings,
        world: WebWorld,
        order: CrawlOrder,
        *,
        wall_clock: Callable[[], float],
        steward: StewardPort,
    ) -> None:
        """`order`: what the peer crawls by itself. `steward` speaks for all peers of the ring."""
        self._order = order
        self._store = store
        self._steward = steward
        self._charter = charter
        self._settings = settings
        self._world = world
        self._wall_clock = wall_clock
        self._urls = url_rules(charter)
        self._content = ContentChoice(charter.content)
        self._turns: dict[Origin, _Turn] = {}
        self._is_open = False
        self._room: anyio.CapacityLimiter
        self._fetcher: Fetcher

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        order = self._order
        fetch = FetchSettings(
            user_agent=order.user_agent,
            connections=beside(order, AT_ONCE),
            room=order.room,
            allow_private_addresses=self._charter.allow_private_addresses,
        )
        self._room = anyio.CapacityLimiter(AT_ONCE)
        async with self._world.fetcher(fetch, self._urls, self._wall_clock) as self._fetcher:
            self._is_open = True
            try:
                yield
            finally:
                self._is_open = False

    def _check(self, url: str) -> None:
        """Raises SeedRefusedError for what the network does not archive."""
        check_seeds([url], self._charter, self._settings.crawl.opt_out)
        if self._store().is_removed(url):
            raise SeedRefusedError(f"{url} was removed for good")

    def _sink(self) -> ArchiveSink:
        """The archive as it is now: it opens after the peer has begun to serve."""
        return ArchiveSink(self._store(), wall_clock=self._wall_clock, rules=self._urls, door=Door.BROUGHT_IN)

    async def save(self, url: str) -> SaveOutcome:
        if not self._is_open:
            return _later(url, "this peer is just starting or stopping", 10.0)
        try:
            self._check(url)
        except SeedRefusedError as error:
            return _refused(url, str(error))
        except ArchiveError as error:
            return _later(url, told_to_readers(error), 60.0)
        if self._room.statistics().tasks_waiting >= WAITING_MAX:
            return _later(url, "too many pages are being saved just now", 10.0)
        with anyio.move_on_after(PATIENCE_S) as patience:
            return await self._in_turn(url, patience.deadline)
        return _later(url, "it takes longer than a reader should wait: ask again in a while", 30.0)

    async def _in_turn(self, url: str, deadline: float) -> SaveOutcome:
        origin = origin_of(url)
        turn = self._turns.setdefault(origin, _Turn())
        turn.users += 1
        try:
            async with turn.lock, self._room:
                return await self._fetched(url, origin, deadline)
        except ArchiveError as error:
            return _later(url, told_to_readers(error), 60.0)
        finally:
            turn.users -= 1
            if not turn.users:
                del self._turns[origin]

    async def _fetched(self, url: str, origin: Origin, deadline: float) -> SaveOutcome:
        last = await self._sink().find(url, 0.0)
        if last is not None and self._wall_clock() - last.requested_at < FRESH_S:
            return SaveOutcome(result=SaveResult.UNCHANGED, url=url, time_s=int(last.requested_at))
        lease = await self._permission(url, origin, deadline)
        if isinstance(lease, SaveOutcome):
            return lease
        report = OriginReport(status=None, duration_s=0.0, fetches=0)
        try:
            found = await self._fetcher.fetch(self._request(url, lease, last))
            report = report_of(found, self._wall_clock())
        except TooLateError as error:
            report = replace(report, late_s=error.late_s)
            return _later(url, "its host took longer to reach than it may be asked", LATE_AGAIN_S)
        except FetchError as error:
            report = OriginReport(status=None, duration_s=0.0)
            return SaveOutcome(result=SaveResult.FAILED, url=url, reason=error.reason)
        finally:
            with anyio.CancelScope(
                shield=True
            ):  # or the host would count as visited until the lease runs out
                await self._steward.give_back(lease, report)
        if isinstance(found, Skipped):
            return _refused(url, f"{found.mime or 'what it is'} is not what this network archives")
        return await self._kept(found, last)

    async def _permission(self, url: str, origin: Origin, deadline: float) -> Lease | SaveOutcome:
        while True:
            rules = await self._steward.rules(origin)
            answer: Lease | Wait
            if isinstance(rules, Wait):
                answer = rules
            elif rules.allows(target_of(url)):
                answer = await self._lease(origin)
            else:
                return _refused(url, rules.problem or "its owner asks robots not to visit it")
            if isinstance(answer, Lease):
                return answer
            now = anyio.current_time()
            if answer.until >= deadline:
                return _later(url, f"the host must rest: {answer.reason}", answer.until - now)
            await anyio.sleep_until(answer.until)

    async def _lease(self, origin: Origin) -> Lease | Wait:
        address = await self._fetcher.address_of(host_of(f"{origin}/"))
        return address if isinstance(address, Wait) else await self._steward.lease(origin, address)

    def _request(self, url: str, lease: Lease, last: Capture | None) -> FetchRequest:
        if last is None or last.status != 200 or last.truncated is not None:
            return FetchRequest(
                url=url,
                address=lease.address,
                stay=lease.stay,
                starts_by=lease.starts_by,
                accepts=self._content.accepts,
            )
        return FetchRequest(
            url=url,
            address=lease.address,
            stay=lease.stay,
            starts_by=lease.starts_by,
            etag=last.header("ETag") or "",
            last_modified=last.header("Last-Modified") or "",
            digest=last.sha256,
            accepts=self._content.accepts,
        )

    async def _kept(self, found: Capture, last: Capture | None) -> SaveOutcome:
        reading = read_capture(found, product_token=ROBOT, rules=self._urls)
        if reading.noarchive:
            return _refused(found.url, "the page asks not to be archived")
        if reading.result is Result.FAILED:
            return SaveOutcome(
                result=SaveResult.FAILED, url=found.url, reason=f"the host answered with {found.status}"
            )
        await self._sink().store(found)
        if found.outcome is not FetchOutcome.STORED and last is not None:
            return SaveOutcome(result=SaveResult.UNCHANGED, url=found.url, time_s=int(last.requested_at))
        return SaveOutcome(result=SaveResult.SAVED, url=found.url, time_s=int(found.requested_at))


def _refused(url: str, reason: str) -> SaveOutcome:
    return SaveOutcome(result=SaveResult.REFUSED, url=url, reason=reason)


def _later(url: str, reason: str, retry_after_s: float) -> SaveOutcome:
    return SaveOutcome(result=SaveResult.LATER, url=url, reason=reason, retry_after_s=max(1.0, retry_after_s))
