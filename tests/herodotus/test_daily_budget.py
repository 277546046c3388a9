"""Does a running peer crawl only when its volunteer's hours and month allow it, and stop when they end?"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from crawler.core.capture import Capture
from crawler.core.politeness import HostSteward, Wait
from crawler.ports import Fetcher, FetchRequest, Skipped
from herodotus.core.charter import TEST_CHARTER
from herodotus.core.orders import Pause
from herodotus.crawl import daily
from herodotus.crawl.daily import CrawlState, DailyCrawl, DailyParts
from herodotus.crawl.gear import CrawlOrder, local_steward
from herodotus.home import clock
from herodotus.home.folder import Home
from herodotus.home.seeds import add_seeds
from herodotus.machine import Machine
from herodotus.operate.lab_ring import make_home
from herodotus.store.home_archive import HomeArchive
from tests.crawler.synthetic import QUICK, synthetic_web
from tests.herodotus.crawl.test_daily import order, until

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setattr(daily, "LOOK_EVERY_S", 0.05)
    home = Home(tmp_path / "home")
    make_home(home, TEST_CHARTER)
    return home


class Gate:
    """A budget that a test opens and closes."""

    closed_s = 0.0

    def __call__(self) -> float:
        return self.closed_s


class Counting:
    """Counts what passes, and may do something after so many."""

    def __init__(self, inner: Fetcher, after: int, then: Callable[[], None]) -> None:
        self.fetched = 0
        self._inner, self._after, self._then = inner, after, then

    async def fetch(self, request: FetchRequest) -> Capture | Skipped:
        self.fetched += 1
        if self.fetched == self._after:
            self._then()
        return await self._inner.fetch(request)

    async def address_of(self, host: str) -> str | Wait:
        return await self._inner.address_of(host)


@asynccontextmanager
async def crawling(
    home: Home, what: CrawlOrder, gate: Gate, closes_after: int = 0
) -> AsyncIterator[DailyCrawl]:
    def close() -> None:
        gate.closed_s = 3_600.0

    holdings = HomeArchive(home, Machine())
    core = HostSteward(QUICK)
    crawl = DailyCrawl(
        DailyParts(
            home=home,
            order=what,
            archive=holdings,
            make_steward=local_steward(what, core, wall_clock=clock.unix_seconds),
            world=Machine(),
            wall_clock=clock.unix_seconds,
            within=lambda inner: Counting(inner, closes_after, close),
            closed_s=gate,
        )
    )
    async with holdings.opened(), crawl.opened():
        yield crawl


def is_closed(crawl: DailyCrawl) -> bool:
    return crawl.status().state == CrawlState.RESTING.value


async def test_nothing_is_fetched_before_the_hour_and_all_of_it_then(home: Home) -> None:
    gate = Gate()
    gate.closed_s = 3_600.0
    async with synthetic_web(3, hosts=3, troubles=False) as web:
        add_seeds(home.path, web.seeds, now=1.0)
        async with crawling(home, order(scope=order().scope.ANY), gate) as crawl:
            await until(lambda: is_closed(crawl))
            assert (crawl.status().fetched, web.requests()) == (0, [])
            gate.closed_s = 0.0
            await until(lambda: crawl.status().state == CrawlState.DONE.value)
            assert set(web.fetched(web.requests())) == web.reachable(0)


async def test_a_crawl_stops_when_its_hours_end_and_goes_on_later(home: Home) -> None:
    gate = Gate()
    slow = order(scope=order().scope.ANY, connections=1)
    async with synthetic_web(3, hosts=6, troubles=False) as web:
        add_seeds(home.path, web.seeds, now=1.0)
        async with crawling(home, slow, gate, closes_after=5) as crawl:
            await until(lambda: is_closed(crawl))
            fetched = crawl.status().fetched
            assert 5 <= fetched < len(web.reachable(0))
            gate.closed_s = 0.0
            await until(lambda: crawl.status().state == CrawlState.DONE.value)
            assert set(web.fetched(web.requests())) == web.reachable(0)


async def test_what_the_budget_tells_of_is_noticed_at_once(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daily, "LOOK_EVERY_S", 600.0)
    gate = Gate()
    slow = order(scope=order().scope.ANY, connections=1)
    async with synthetic_web(3, hosts=6, troubles=False) as web:
        add_seeds(home.path, web.seeds, now=1.0)
        async with crawling(home, slow, gate, closes_after=5) as crawl:
            await until(lambda: gate.closed_s > 0)
            crawl.budget_changed()
            await until(lambda: is_closed(crawl))
            gate.closed_s = 0.0
            crawl.budget_changed()
            await until(lambda: crawl.status().state == CrawlState.DONE.value)
            assert set(web.fetched(web.requests())) == web.reachable(0)


async def test_a_peer_that_waits_for_its_hours_can_be_paused_and_ended_at_once(home: Home) -> None:
    gate = Gate()
    gate.closed_s = 3_600.0
    async with crawling(home, order(scope=order().scope.ANY), gate) as crawl:
        await until(lambda: is_closed(crawl))
        with anyio.fail_after(20):
            await crawl.perform(Pause())
            await until(lambda: crawl.status().state == CrawlState.PAUSED.value)
