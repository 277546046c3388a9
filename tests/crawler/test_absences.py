"""What is away for a while is visited soon after its return, and asked seldom meanwhile: hours in virtual time."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import pytest
import trio.testing

from crawler.core.capture import Capture
from crawler.core.errors import UnreachableError
from crawler.core.link import Link
from crawler.core.politeness import RETRY_RESTS_S, HostSteward, PolitenessPolicy
from crawler.core.scope import CrawlScope
from crawler.frontier import Frontier
from crawler.frontier_rows import frontier_rows
from crawler.ports import FetchRequest
from crawler.steward import LocalSteward
from crawler.worker import Crawler, WorkerSettings
from tests.crawler.memory import MemorySink
from tests.crawler.visiting import DAY, DAY_S, answer

pytestmark = pytest.mark.anyio
SEED, OTHER = "http://a.example/", "http://b.example/deep"
HOUR_S = 3_600.0
RETURN_S = 300.0
"""A seed is visited so soon after its site is back."""


@pytest.fixture
def anyio_backend() -> Any:
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


@dataclass
class Web:
    """Hosts that are away until a time, each in its own way; each request with its second."""

    away_until: dict[str, float]
    status: int | None = None
    """What is answered meanwhile; None: nothing."""
    pages_only: bool = False
    """robots.txt is there all the time."""
    asked: list[tuple[float, str]] = field(default_factory=list)
    start: float = field(default_factory=anyio.current_time)

    @property
    def now(self) -> float:
        return anyio.current_time() - self.start

    async def address_of(self, host: str) -> str:
        del host
        return "192.0.2.1"

    async def fetch(self, request: FetchRequest) -> Capture:
        await anyio.sleep(0.1)
        self.asked.append((self.now, request.url))
        is_robots = request.url.endswith("/robots.txt")
        host = request.url.split("/")[2]
        if self.now < self.away_until.get(host, 0.0) and not (is_robots and self.pages_only):
            if self.status is None:
                raise UnreachableError(request.url, "connection refused")
            return answer(request.url, b"later", status=self.status)
        return answer(request.url, b"" if is_robots else b"<p>here</p>", status=404 if is_robots else 200)

    def times(self, url: str) -> list[float]:
        return [at for at, asked in self.asked if asked == url]


@pytest.fixture
def frontier(tmp_path: Path) -> Iterator[Frontier]:
    frontier = Frontier(frontier_rows(tmp_path), day=DAY)
    yield frontier
    frontier.close()


def crawler_of(frontier: Frontier, web: Web) -> Crawler:
    policy = PolitenessPolicy()

    def wall_clock() -> float:
        return DAY * DAY_S + web.now

    steward = LocalSteward(HostSteward(policy), web, product_token="Herodotus", wall_clock=wall_clock)
    settings = WorkerSettings(connections=4, waits_for_closed=policy)
    return Crawler(frontier, web, MemorySink(), steward, CrawlScope(), settings, wall_clock=wall_clock)


async def crawl_for(crawler: Crawler, seconds: float) -> None:
    """As a peer does: when nothing is left for now, it waits for a retry."""
    with anyio.move_on_after(seconds):
        while True:
            await crawler.run()
            rest_s = crawler.retry_in_s()
            if rest_s is None:
                return
            await anyio.sleep(rest_s)


@pytest.mark.parametrize("away_s", [30.0, 20 * 60.0, 3 * HOUR_S, 9 * HOUR_S, 23 * HOUR_S])
@pytest.mark.parametrize("status", [None, 500, 503])
async def test_a_seed_is_visited_within_five_minutes_of_its_return_however_long_it_was_away(
    frontier: Frontier, away_s: float, status: int | None
) -> None:
    web = Web({"a.example": away_s}, status)
    crawler = crawler_of(frontier, web)
    crawler.seed([SEED])
    await crawl_for(crawler, DAY_S)
    (visited,) = web.times(SEED)
    assert away_s <= visited <= away_s + RETURN_S
    assert not crawler.closed()
    asked = web.times(f"{SEED}robots.txt")
    assert len(asked) <= 2 * (10 + away_s / 210)  # a connection that failed is tried twice


async def test_what_only_a_link_led_to_is_asked_for_ever_more_rarely_and_given_up(frontier: Frontier) -> None:
    web = Web({"b.example": DAY_S})
    crawler = crawler_of(frontier, web)
    frontier.add([Link(OTHER, depth=3)])
    await crawl_for(crawler, DAY_S)
    assert web.times(OTHER) == []
    asked = web.times("http://b.example/robots.txt")
    assert len(asked) <= 2 * 45
    assert asked[-1] < 8.5 * HOUR_S
    assert crawler.counts.forbidden == 1


async def test_a_page_that_fails_is_tried_again_after_minutes_and_then_hours_and_five_times_a_day(
    frontier: Frontier,
) -> None:
    web = Web({"a.example": DAY_S}, 500, pages_only=True)
    crawler = crawler_of(frontier, web)
    crawler.seed([SEED, f"{SEED}other"])
    await crawl_for(crawler, DAY_S)
    for url in (SEED, f"{SEED}other"):
        times = web.times(url)
        rests = [later - before for before, later in pairwise(times)]
        assert rests == pytest.approx(RETRY_RESTS_S, abs=10.0)
    known = frontier.known(SEED)
    assert known is not None
    assert (known.failures, known.due_day, crawler.retries) == (5, DAY + 1, 0)


async def test_a_page_that_is_back_is_stored_at_the_next_try_and_what_is_new_meanwhile_does_not_wait(
    frontier: Frontier,
) -> None:
    web = Web({"a.example": 10 * 60.0}, 500, pages_only=True)
    crawler = crawler_of(frontier, web)
    crawler.seed([SEED])
    await crawl_for(crawler, 5 * 60.0 - 10)
    assert (crawler.retries, frontier.statistics().due) == (1, 1)
    web.away_until.clear()
    frontier.add([Link(f"{SEED}new", depth=1)])
    await crawler.run()
    assert [url for _, url in web.asked[-1:]] == [f"{SEED}new"]
    await crawl_for(crawler, HOUR_S)
    assert web.times(SEED)[1:] == [pytest.approx(RETRY_RESTS_S[0], abs=10.0)]
    assert (crawler.retries, crawler.counts.stored, crawler.retry_in_s()) == (0, 2, None)


async def test_of_one_site_so_many_pages_are_tried_again_and_the_others_wait_for_the_next_day(
    frontier: Frontier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawler.core.politeness.RETRIES_OF_ORIGIN_MAX", 3)
    web = Web({"a.example": DAY_S}, 500, pages_only=True)
    crawler = crawler_of(frontier, web)
    crawler.seed([f"{SEED}{number}" for number in range(8)])
    await crawl_for(crawler, DAY_S)
    tries = [len(web.times(f"{SEED}{number}")) for number in range(8)]
    assert sorted(tries) == [1] * 5 + [5] * 3
    assert frontier.statistics().due == 0
