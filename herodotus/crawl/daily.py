"""How does a running peer crawl by itself, day after day? Today's due URLs, then new ones, then the next day.

One crawler works on the peer's open archive for as long as the peer lives. A day is the charter's: at its end the
fetches under way end, and everything is due again. Between runs it waits for a change: news (links of others, new
seeds), the day's end, the operator, space on the disk. An error ends the crawl and not the peer: it is logged and
counted, and the crawl starts again after a while, as after a crash.
"""

import logging
import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from itertools import islice
from typing import Protocol

import anyio
import msgspec

from crawler.core.link import Link
from crawler.core.politeness import ClosedOrigins
from crawler.core.recrawl import Known
from crawler.core.urls import UrlKey, url_key
from crawler.frontier import Frontier
from crawler.outcomes import CrawlCounts
from crawler.ports import OwnsEverything, UrlOwner
from crawler.worker import Crawler
from herodotus.core.doors import Door
from herodotus.core.errors import HerodotusError, StoreRefusedError, WorldFailure
from herodotus.core.orders import Begin, CrawlControl, OrderReport, Pause, Resume, Seeds
from herodotus.core.status import CrawlStatus
from herodotus.crawl.gear import (
    CrawlGear,
    CrawlOrder,
    FetcherWrapper,
    StewardMaker,
    WebWorld,
    WindowOf,
    bounds_of_seed,
    no_window,
    open_gear,
)
from herodotus.crawl.seed_states import SeedDesk
from herodotus.home.folder import Home
from herodotus.home.pauses import OperatorPause
from herodotus.home.seeds import NO_OPTIONS, Seed, seeds_of
from herodotus.store import Store

logger = logging.getLogger(__name__)

LOOK_EVERY_S = 30.0
"""Clocks are set and disks emptied without telling us."""
ROOM_AGAIN_BYTES = 64 * 2**20
"""Above the archive's reserve: less would be full again at once."""
BACKOFF_FIRST_S = 1.0
BACKOFF_MAX_S = 300.0
SOUND_AFTER_S = 600.0
"""A crawl that lived so long was in order: its end is the first error again."""
CLOSED_SHOWN = 20
"""Sites that cannot be reached, in the status."""
PROBLEMS_SHOWN = 10
SEEDS_AT_ONCE = 500
"""Each batch is some milliseconds in which nothing else of the peer runs."""


class CrawlState(Enum):
    CLOSED = "closed"
    WAITING = "waiting for the archive"
    CRAWLING = "crawling"
    DONE = "done for today"
    PAUSED = "paused"
    NO_ROOM = "no room on the disk"
    RESTING = "resting, as the budget says"
    FAILED = "failed, begins again soon"


class NotCrawling(WorldFailure):
    def __init__(self, state: CrawlState, problem: str | None) -> None:
        self.state = state
        self.problem = problem

    def __str__(self) -> str:
        return f"the peer cannot take URLs now: its crawl is {self.state.value}" + (
            f" ({self.problem})" if self.problem else ""
        )


class WaitedArchive(Protocol):
    """What a crawl asks of the peer's archive, which may take a while to open."""

    async def wait_open(self) -> Store:
        """Never returns where it cannot be opened."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DailyParts:
    home: Home
    order: CrawlOrder
    archive: WaitedArchive
    make_steward: StewardMaker
    world: WebWorld
    wall_clock: Callable[[], float]
    owner: UrlOwner | None = None
    drain_s: float = 8.0
    within: FetcherWrapper = lambda fetcher: fetcher
    """Keeps to the rate that was offered."""
    closed_s: Callable[[], float] = lambda: 0.0
    """How long the budget forbids crawling."""
    window_of: WindowOf = no_window
    keep_own: Callable[[UrlKey], None] = lambda key: None
    """Told of URLs that nobody else may fetch for us, as we want to see ourselves what others brought."""


class DailyCrawl:
    """`opened` keeps it going. Used from one event loop."""

    def __init__(self, parts: DailyParts) -> None:
        self._parts = parts
        self._order = parts.order
        self._owner: UrlOwner = parts.owner or OwnsEverything()
        self._state = CrawlState.CLOSED
        self._problem: str | None = None
        self._closed_origins = ClosedOrigins(parts.order.politeness)
        self._gear: CrawlGear | None = None
        self._crawler: Crawler | None = None
        self._day = 0
        self._restarts = 0
        self._handed_over = 0
        self._taken_over = 0
        self._left_over = 0
        self._earlier = CrawlCounts()  # of today's crawlers that an error ended
        self._is_leaving = False
        self._pause = OperatorPause(parts.home.paused, parts.wall_clock, anyio.current_time)
        self._news = anyio.Event()
        self._budget_news = anyio.Event()
        self._idle = anyio.Event()
        self._idle.set()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Leaving lets the fetches under way end, for as long as a drain may take."""
        self._pause.recall()
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._supervise)
                yield
                self._is_leaving = True
                self._interrupt()
                with anyio.move_on_after(self._parts.drain_s):
                    await self._idle.wait()
                tasks.cancel_scope.cancel()
        finally:
            self._state = CrawlState.CLOSED

    # -- what others ask

    async def perform(self, order: CrawlControl) -> OrderReport:
        match order:
            case Pause():
                self._pause.begin(order.for_s)
                self._interrupt()
                await self._idle.wait()
                return OrderReport(facts={"state": CrawlState.PAUSED.value})
            case Resume():
                was_paused = self._pause.end()
                self._tell_news()
                return OrderReport(facts={"was_paused": was_paused})
            case Begin():
                options = Seed(
                    url="",
                    added=0,
                    scope=order.scope,
                    depth=order.depth,
                    content=order.content,
                    limit=order.limit,
                    every_s=order.every_s,
                    until_s=order.until_s,
                )
                new = await self.begin(order.urls, options)
                return OrderReport(facts={"urls": len(order.urls), "new": new})
            case Seeds():
                return OrderReport(facts={"seeds": await self._seed_facts(order.urls)})

    async def begin(self, urls: Sequence[str], options: Seed = NO_OPTIONS) -> int:
        """Canonical URLs that somebody wants archived; says how many of ours were not known. Raises NotCrawling."""
        return await self._begin_at([msgspec.structs.replace(options, url=url) for url in urls])

    def _kept_seeds(self) -> dict[str, Seed]:
        """None where their list is damaged: what is known is crawled all the same."""
        try:
            return {seed.url: seed for seed in seeds_of(self._parts.home.path)}
        except HerodotusError as error:
            logger.warning("no seeds error=%s", error)
            return {}

    async def _begin_at(self, seeds: Sequence[Seed]) -> int:
        new = 0
        for at in range(0, len(seeds), SEEDS_AT_ONCE):
            new += self._add(
                [
                    Link(url=seed.url, is_seed=True, bounds=bounds_of_seed(seed, self._order))
                    for seed in seeds[at : at + SEEDS_AT_ONCE]
                ]
            )
            await anyio.lowlevel.checkpoint()
        return new

    def take_over(self, links: Sequence[Link], *, may_be_done: bool = False) -> int:
        """Links of ours that others found; says how many were not known. `may_be_done`: somebody else may have fetched
        them today, and given us a copy. Raises NotCrawling.
        """
        keys = [url_key(link.url) for link in links]
        new = self._add_own(links)
        if may_be_done:
            self._frontier().doubt(keys)
        if self._frontier().take_back(keys):
            self.look_again()
        self._taken_over += len(links)
        return new

    def leave(self, keys: Sequence[UrlKey]) -> int:
        """Others fetch these from now on; says how many were ours. Raises NotCrawling."""
        return self._frontier().leave(keys)

    def take_back(self, keys: Sequence[UrlKey], *, may_be_done: bool = False) -> int:
        """What was left is ours again, `may_be_done` as in `take_over`. Raises NotCrawling."""
        if may_be_done:
            self._frontier().doubt(keys)
        return self._frontier().take_back(keys)

    def look_for(self, key: UrlKey, digest: bytes) -> bool:
        """As `Frontier.look_for`. Raises NotCrawling."""
        self._parts.keep_own(key)
        is_due = self._frontier().look_for(key, digest)
        if is_due:
            self.look_again()
        return is_due

    @property
    def takes_links(self) -> bool:
        return self._gear is not None

    @property
    def is_paused(self) -> bool:
        """By the operator."""
        return self._is_paused

    @property
    def may_fetch(self) -> bool:
        """Whether what is due will be fetched: nobody paused it, and neither room nor budget is lacking."""
        return self._state in (CrawlState.CRAWLING, CrawlState.DONE)

    def make_durable(self) -> None:
        """What was taken over outlives a power cut. Raises NotCrawling."""
        self._frontier().sync()

    def budget_changed(self) -> None:
        """What the budget forbids may be allowed now, or the other way round."""
        self._budget_news.set()
        self._tell_news()

    def look_again(self) -> None:
        """URLs that were left to others may be ours to fetch by now."""
        if self._gear is not None:
            self._gear.frontier.look_again()
            self._tell_news()
            if self._crawler is not None:
                self._crawler.look_again()

    async def hold_back(self) -> None:
        """Begin no fetch until `go_on`: links are found faster than they are delivered."""
        if self._crawler is not None:
            await self._crawler.pause()

    def go_on(self) -> None:
        if self._crawler is not None:
            self._crawler.resume()

    def is_out(self, key: UrlKey) -> bool:
        """It is being fetched. Raises NotCrawling."""
        return self._frontier().is_out(key)

    def known_of(self, keys: Sequence[UrlKey]) -> list[Known | None]:
        """What we know of these URLs. Raises NotCrawling."""
        return self._frontier().known_of(keys)

    def known_after(self, key: bytes, count: int) -> list[tuple[UrlKey, Known]]:
        """So many that we know, in the order of their keys. Raises NotCrawling."""
        return self._frontier().known_after(key, count)

    def keys_after(self, key: bytes, count: int) -> list[UrlKey]:
        """So many of them, the keys alone. Raises NotCrawling."""
        return self._frontier().keys_after(key, count)

    @property
    def today(self) -> int:
        return self._day

    @property
    def seconds_of_today(self) -> float:
        return self._parts.wall_clock() - self._order.day_starts(self._day)

    def _frontier(self) -> Frontier:
        if self._gear is None:
            raise NotCrawling(self._state, self._problem)
        return self._gear.frontier

    @property
    def pause_left_s(self) -> float:
        """0 while nobody paused it, infinite until somebody resumes it."""
        return self._pause.left_s()

    @property
    def _is_paused(self) -> bool:
        return self.pause_left_s > 0

    def status(self) -> CrawlStatus:
        gear, now = self._gear, self._crawler.counts if self._crawler is not None else CrawlCounts()
        before = self._earlier
        frontier = gear.frontier.statistics() if gear is not None else None
        return CrawlStatus(
            known=frontier.known if frontier is not None else 0,
            due=frontier.due if frontier is not None else 0,
            fetched=before.fetched + now.fetched,
            unchanged=before.unchanged + now.unchanged,
            failed=before.failed + now.failed,
            stored=before.stored + now.stored,
            handed_over=self._handed_over,
            taken_over=self._taken_over,
            held_back=frontier.held_back if frontier is not None else 0,
            left_over=self._left_over,
            day=self._day,
            day_ends=datetime.fromtimestamp(self._order.day_starts(self._day + 1), UTC).isoformat(
                timespec="seconds"
            ),
            paused_s=math.ceil(self.pause_left_s) if self.pause_left_s < math.inf else None,
            state=self._state.value,
            problem=self._problem or self._clock_problem(),
            restarts=self._restarts,
            forbidden=before.forbidden + now.forbidden,
            closed=self._closed(),
            to_be_retried=self._crawler.retries if self._crawler is not None else 0,
            problems=dict((before.by_error + now.by_error).most_common(PROBLEMS_SHOWN)),
        )

    def _closed(self) -> dict[str, str]:
        found = self._crawler.closed() if self._crawler is not None else {}
        return {
            origin: f"{one.problem}; since {_time(one.since)}, next try {_time(one.until)}"
            for origin, one in islice(found.items(), CLOSED_SHOWN)
        }

    async def _seed_facts(self, urls: Sequence[str]) -> list[dict[str, object]]:
        """What has become of seeds. Raises NotCrawling."""
        gear = self._gear
        if gear is None:
            raise NotCrawling(self._state, self._problem)
        desk = SeedDesk(
            gear=gear,
            crawler=self._crawler,
            owner=self._owner,
            order=self._order,
            today=self._day,
            now=self._parts.wall_clock(),
            crawl_problem="" if self.may_fetch else f"the crawl: {self._problem or self._state.value}",
        )
        return await desk.facts(urls, self._kept_seeds())

    # -- the task

    async def _supervise(self) -> None:
        backoff_s = BACKOFF_FIRST_S
        while not self._is_leaving:
            self._state = CrawlState.WAITING
            store = await self._parts.archive.wait_open()
            began = anyio.current_time()
            try:
                await self._crawl_into(store)
            except Exception as error:  # noqa: BLE001  # a task meets its supervisor: the peer continues
                if anyio.current_time() - began > SOUND_AFTER_S:
                    backoff_s = BACKOFF_FIRST_S
                self._note_failure(error, store, backoff_s)
                await self._wait_for_room_or(backoff_s, store)
                backoff_s = min(2 * backoff_s, BACKOFF_MAX_S)

    async def _crawl_into(self, store: Store) -> None:
        """Runs until we leave. After an error everything is opened again, so that nothing half-done is trusted."""
        parts = self._parts
        async with open_gear(
            parts.home.path,
            store,
            self._order,
            parts.make_steward,
            parts.world,
            wall_clock=parts.wall_clock,
            within=parts.within,
            door=Door.CRAWLED,
            window_of=parts.window_of,
        ) as gear:
            self._gear = gear
            try:
                while not self._is_leaving:
                    await self._crawl_a_day(gear, store)
            finally:
                self._retire_crawler()
                self._gear = None

    async def _crawl_a_day(self, gear: CrawlGear, store: Store) -> None:
        self._state = CrawlState.CRAWLING
        today = max(self._order.day(self._parts.wall_clock()), gear.frontier.day)
        if today > gear.frontier.day:
            self._end_day(gear.frontier)
            gear.frontier.start_day(today)
        if today != self._day:
            self._begin_counting(today)
        self._crawler = gear.crawler(self._order, self, self._closed_origins)
        await self._add_seeds()
        while not self._is_leaving and not self._is_over(today):
            self._news = anyio.Event()
            if self._is_paused:
                await self._rest(CrawlState.PAUSED)
            elif not store.has_room(0):
                self._problem = "the disk is full"
                await self._wait_for_room_or(0.0, store)
            elif self._parts.closed_s() > 0.0:
                await self._wait_for_budget(today)
            else:
                await self._run(self._crawler, today)
                await self._rest(CrawlState.DONE)
        self._retire_crawler()

    async def _run(self, crawler: Crawler, today: int) -> None:
        self._state, self._problem = CrawlState.CRAWLING, None
        self._idle = anyio.Event()
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._end_with_the_day, crawler, today)
                tasks.start_soon(self._end_with_the_budget, crawler)
                if not self._is_paused and not self._is_leaving:
                    await crawler.run()
                tasks.cancel_scope.cancel()
        finally:
            self._idle.set()

    async def _end_with_the_day(self, crawler: Crawler, today: int) -> None:
        await self._wait_for(anyio.Event(), today)
        crawler.stop()

    async def _end_with_the_budget(self, crawler: Crawler) -> None:
        while True:
            self._budget_news = anyio.Event()
            with anyio.move_on_after(LOOK_EVERY_S):
                await self._budget_news.wait()
            if self._parts.closed_s() > 0.0:
                crawler.stop()
                self._tell_news()  # what is left is no day that is done
                return

    async def _wait_for_budget(self, today: int) -> None:
        self._state = CrawlState.RESTING
        while not self._is_leaving and not self._is_paused and not self._is_over(today):
            closed_s = self._parts.closed_s()
            if closed_s <= 0.0:
                return
            self._news = anyio.Event()
            with anyio.move_on_after(min(closed_s, LOOK_EVERY_S)):
                await self._news.wait()

    async def _rest(self, state: CrawlState) -> None:
        """Until there are news or the day ends; news that came during the run end it at once. A pause may end, too."""
        self._state = CrawlState.PAUSED if self._is_paused else state
        if not self._is_leaving:
            with anyio.move_on_after(self.pause_left_s or self._retry_in_s()):
                await self._wait_for(self._news, self._day)
        if self._state is CrawlState.PAUSED and not self._is_paused:
            self._pause.end()  # its file, too: a clock that is set back must not bring it back

    def _retry_in_s(self) -> float | None:
        return self._crawler.retry_in_s() if self._crawler is not None else None

    async def _wait_for(self, event: anyio.Event, day: int) -> None:
        """Or for the day's end, by a clock that may be set."""
        while not event.is_set() and not self._is_over(day):
            with anyio.move_on_after(min(self._left_s(day), LOOK_EVERY_S)):
                await event.wait()

    async def _wait_for_room_or(self, least_s: float, store: Store) -> None:
        """For `least_s`, and for as long as nothing more can be stored."""
        with anyio.move_on_after(least_s):
            await anyio.sleep_forever()
        while not self._is_leaving and not store.has_room(ROOM_AGAIN_BYTES):
            self._state = CrawlState.NO_ROOM
            self._news = anyio.Event()
            with anyio.move_on_after(LOOK_EVERY_S):
                await self._news.wait()

    # -- helpers

    def divide(self, links: Sequence[Link]) -> list[Link]:
        """The crawler's `UrlOwner`, with a count."""
        mine = self._owner.divide(links)
        self._handed_over += len(links) - len(mine)
        return mine

    def is_our_turn(self, url: str) -> bool:
        return self._owner.is_our_turn(url)

    def _add(self, links: Sequence[Link]) -> int:
        if self._gear is None:
            raise NotCrawling(self._state, self._problem)
        return self._add_own(self.divide(links))

    def _add_own(self, links: Sequence[Link]) -> int:
        if self._gear is None:
            raise NotCrawling(self._state, self._problem)
        new = self._gear.frontier.add(links)
        if new or self._gear.frontier.may_activate:  # what is known may be under wider bounds now
            self._tell_news()
            if self._crawler is not None:
                self._crawler.look_again()
        return new

    async def _add_seeds(self) -> None:
        now = self._parts.wall_clock()
        await self._begin_at(
            [seed for seed in self._kept_seeds().values() if seed.until_s is None or now <= seed.until_s]
        )

    def _interrupt(self) -> None:
        if self._crawler is not None:
            self._crawler.stop()
        self._tell_news()

    def _tell_news(self) -> None:
        self._news.set()

    def _is_over(self, day: int) -> bool:
        return self._order.day(self._parts.wall_clock()) > day

    def _clock_problem(self) -> str | None:
        """Days do not run backwards: after a clock that was ahead, all stays done until that day has come."""
        ahead = self._day - self._order.day(self._parts.wall_clock())
        if ahead <= 0 or self._gear is None:
            return None
        return f"the clock was {ahead} days ahead, or is behind now: nothing is due before that day ends"

    def _left_s(self, day: int) -> float:
        return max(0.0, self._order.day_starts(day + 1) - self._parts.wall_clock())

    def _end_day(self, frontier: Frontier) -> None:
        """What is left keeps its day, so it comes before all that is due today, and among itself by priority."""
        self._left_over = frontier.statistics().due
        if self._left_over:
            logger.warning("the day was too short day=%d left_over=%d", frontier.day, self._left_over)

    def _begin_counting(self, today: int) -> None:
        self._day = today
        self._earlier = CrawlCounts()
        self._handed_over = self._taken_over = 0

    def _retire_crawler(self) -> None:
        if self._crawler is None:
            return
        counts, sums = self._crawler.counts, self._earlier
        for name in ("fetched", "unchanged", "failed", "stored", "forbidden"):
            setattr(sums, name, getattr(sums, name) + getattr(counts, name))
        sums.by_error += counts.by_error
        self._crawler = None

    def _note_failure(self, error: Exception, store: Store, again_in_s: float) -> None:
        self._restarts += 1
        self._state = CrawlState.FAILED
        cause = _cause(error)
        self._problem = str(cause) or type(cause).__name__
        if isinstance(cause, StoreRefusedError):
            logger.warning("crawl stopped error=%s", cause)
        else:
            logger.error("crawl failed, starts again in_s=%g error=%s", again_in_s, cause, exc_info=error)


def _time(unix_s: float) -> str:
    return datetime.fromtimestamp(unix_s, UTC).isoformat(timespec="seconds")


def _cause(error: BaseException) -> BaseException:
    """Of what task groups wrapped: a refusing store before whatever else came of it."""
    while isinstance(error, BaseExceptionGroup):
        refused = error.subgroup(StoreRefusedError)
        error = (refused or error).exceptions[0]
    return error
