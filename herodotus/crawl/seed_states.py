"""What has become of a seed, in words for the person who named it? Its state, what stands in the way, when it is next.

A seed is fetched by its owner, which may be another peer. Then this peer says what it knows: whether its archive has
the page, and whether the site's steward finds the site closed. Counts are of the seed's host, at this peer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum

import anyio

from crawler.core.politeness import Closed
from crawler.core.recrawl import Known, Result
from crawler.core.robots import RobotsRules
from crawler.core.urls import Origin, origin_of, url_key
from crawler.frontier import LEFT, NEVER
from crawler.ports import UrlOwner
from crawler.worker import Crawler
from herodotus.crawl.gear import CrawlGear, CrawlOrder
from herodotus.home.seeds import Seed


class SeedStanding(Enum):
    NEW = "new"
    """The peer does not know it yet."""
    WAITING = "waiting"
    UNREACHABLE = "unreachable"
    FAILED = "failed"
    ARCHIVED = "archived"
    REFUSED = "refused"
    """By the site, its robots.txt, or the operator."""
    ELSEWHERE = "elsewhere"
    """Another peer fetches it."""
    OVER = "over"
    """Its last day is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedSight:
    """What the peer sees of one seed; times are seconds since 1970."""

    known: Known | None
    today: int
    is_over: bool
    is_ours: bool
    closed: Closed | None
    host_problem: str
    """The last one at its host today."""
    crawl_problem: str
    """Why the crawl fetches nothing now; empty where it does."""
    retry_at: float | None
    due_at: float
    """The beginning of the day on which it is due."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedState:
    standing: SeedStanding
    problem: str = ""
    since: float | None = None
    next_visit: float | None = None
    """None: now, never, or that is for another peer to say."""


_BARRED = {
    Result.GONE.value: "there is no such page (404 or 410)",
    Result.REFUSED.value: "the site refuses it (4xx)",
    Result.UNWANTED.value: "it is of no type that is archived",
    Result.FORBIDDEN.value: "robots.txt or the operator forbids it",
}


def state_of(sight: SeedSight) -> SeedState:
    known, closed = sight.known, sight.closed
    if sight.is_over or (known is not None and known.due_day == NEVER):
        return SeedState(standing=SeedStanding.OVER)
    if closed is not None:
        return SeedState(
            standing=SeedStanding.UNREACHABLE,
            problem=closed.problem,
            since=closed.since,
            next_visit=closed.until if sight.is_ours else None,
        )
    if not sight.is_ours or (known is not None and known.due_day == LEFT):
        return SeedState(standing=SeedStanding.ELSEWHERE)
    if known is None:
        return SeedState(standing=SeedStanding.NEW, problem=sight.crawl_problem)
    is_due = known.due_day <= sight.today
    if known.last_result == Result.FAILED.value:
        times = "once" if known.failures == 1 else f"{known.failures} times in a row"
        return SeedState(
            standing=SeedStanding.FAILED,
            problem=f"failed {times}" + (f": {sight.host_problem}" if sight.host_problem else ""),
            next_visit=sight.retry_at or (None if is_due else sight.due_at),
        )
    if is_due:
        return SeedState(standing=SeedStanding.WAITING, problem=sight.crawl_problem)
    if known.last_result in _BARRED:
        words = _BARRED[known.last_result]
        is_told = known.last_result == Result.FORBIDDEN.value and sight.host_problem
        return SeedState(
            standing=SeedStanding.REFUSED,
            problem=sight.host_problem if is_told else words,
            next_visit=sight.due_at,
        )
    return SeedState(standing=SeedStanding.ARCHIVED, next_visit=sight.due_at)


STEWARDS_ASKED_MAX, STEWARD_PATIENCE_S = 20, 2.0
"""In one answer, for the state of seeds that other peers fetch: a person waits for it."""
WAITING_COUNTED_MAX = 10_000
"""Of one host, for the same person: some 10 ms."""
SEEDS_AT_ONCE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedDesk:
    """Answers once about some seeds of a crawl as it is now."""

    gear: CrawlGear
    crawler: Crawler | None
    owner: UrlOwner
    order: CrawlOrder
    today: int
    now: float
    crawl_problem: str

    async def facts(self, urls: Sequence[str], kept: Mapping[str, Seed]) -> list[dict[str, object]]:
        closed = self.crawler.closed() if self.crawler is not None else {}
        deadline = anyio.current_time() + STEWARD_PATIENCE_S
        found, calls_left = [], STEWARDS_ASKED_MAX
        for url in urls[:SEEDS_AT_ONCE]:
            origin, is_ours = origin_of(url), self.owner.is_our_turn(url)
            shut = closed.get(origin)
            if not is_ours and shut is None and calls_left:
                calls_left -= 1
                shut = await self._closed_for_its_steward(origin, deadline)
            until_s = kept[url].until_s if url in kept else None
            state = state_of(self._sight(url, shut, is_ours=is_ours, until_s=until_s))
            found.append({**_told(state), **self._counts_at(origin), **await self._last_of(url)})
            await anyio.lowlevel.checkpoint()
        return found

    def _sight(self, url: str, closed: Closed | None, *, is_ours: bool, until_s: int | None) -> SeedSight:
        known = self.gear.frontier.known_of([url_key(url)])[0]
        crawler = self.crawler
        host = crawler.counts.by_host.get(origin_of(url)) if crawler is not None else None
        return SeedSight(
            known=known,
            today=self.today,
            is_over=until_s is not None and self.now > until_s,
            is_ours=is_ours,
            closed=closed,
            host_problem=host.problem if host is not None else "",
            crawl_problem=self.crawl_problem,
            retry_at=crawler.retry_at(url_key(url)) if crawler is not None else None,
            due_at=self.order.day_starts(known.due_day) if known is not None else self.now,
        )

    async def _closed_for_its_steward(self, origin: Origin, deadline: float) -> Closed | None:
        """Of a site that another peer fetches from."""
        found = None
        with anyio.CancelScope(deadline=deadline):
            found = await self.gear.steward.rules_alone(origin)
        if not isinstance(found, RobotsRules) or found.is_reachable:
            return None
        return Closed(since=self.now, until=self.now, problem=found.problem)

    def _counts_at(self, origin: Origin) -> dict[str, object]:
        counts = self.gear.frontier.origin_counts(origin)
        return {
            "found": counts.known,
            "stored": counts.stored,
            "waiting": self.gear.frontier.due_at(origin, WAITING_COUNTED_MAX),
            "failed": counts.failing,
        }

    async def _last_of(self, url: str) -> dict[str, object]:
        found = await self.gear.sink.find(url, 0.0)
        return {"last_capture": None if found is None else _time(found.requested_at)}


def _told(state: SeedState) -> dict[str, object]:
    return {
        "state": state.standing.value,
        "problem": state.problem,
        "since": None if state.since is None else _time(state.since),
        "next_visit": None if state.next_visit is None else _time(state.next_visit),
    }


def _time(unix_s: float) -> str:
    return datetime.fromtimestamp(unix_s, UTC).isoformat(timespec="seconds")
