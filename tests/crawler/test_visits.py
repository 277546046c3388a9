"""How a crawl goes about its visits: what it asks for, what it gives back, what it leaves behind at its end."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

from crawler.core.capture import Capture
from crawler.core.errors import AnotherTimeError, TooLateError
from crawler.core.politeness import Lease, OriginReport, PolitenessPolicy, Wait
from crawler.core.robots import DISALLOW_ALL, RobotsRules
from crawler.core.scope import CrawlScope
from crawler.core.urls import Origin, origin_of
from crawler.frontier import Frontier
from crawler.frontier_rows import frontier_rows
from crawler.ports import FetchRequest
from crawler.worker import Crawler, WorkerSettings
from tests.crawler.memory import MemorySink
from tests.crawler.visiting import DAY, DAY_S, Permits, Site, answer

pytestmark = pytest.mark.anyio
URL = "http://a.example/"


@dataclass
class World:
    frontier: Frontier
    site: Site
    permits: Permits
    sink: MemorySink

    def crawler(self, scope: CrawlScope | None = None, settings: WorkerSettings | None = None) -> Crawler:
        return Crawler(
            self.frontier,
            self.site,
            self.sink,
            self.permits,
            scope or CrawlScope(),
            settings or WorkerSettings(connections=2),
            wall_clock=lambda: self.frontier.day * DAY_S,
        )

    @property
    def asked(self) -> list[str]:
        return [request.url for request in self.site.asked]


def a_page(request: FetchRequest) -> Capture:
    """The same page every day, whatever was asked: a server that ignores conditions."""
    return answer(request.url, b"<p>text</p>", fields=b'Content-Type: text/html\r\nETag: "e"\r\n')


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    frontier = Frontier(frontier_rows(tmp_path), day=DAY)
    yield World(frontier, Site(a_page), Permits(), MemorySink())
    frontier.close()


async def test_every_thirtieth_visit_asks_without_a_condition(world: World) -> None:
    """A server whose validators lie would hide its changes for ever."""
    crawler = world.crawler()
    crawler.seed([URL])
    for day in range(61):
        if day:
            world.frontier.start_day(DAY + day)
        await crawler.run()
    unconditional = [day for day, request in enumerate(world.site.asked) if not request.etag]
    assert len(world.site.asked) == 61
    assert unconditional == [0, 29, 59]
    assert world.site.asked[29].digest is not None  # the content that is known is compared all the same


class ClosedSite(Permits):
    """Its robots.txt cannot be had before a time."""

    def __init__(self, opens_at: float) -> None:
        super().__init__()
        self.opens_at = opens_at

    async def rules(self, origin: Origin) -> RobotsRules | Wait:
        found = await super().rules(origin)
        return found if anyio.current_time() >= self.opens_at else DISALLOW_ALL


async def test_a_site_that_is_back_is_visited_the_same_day_and_its_absence_was_told(world: World) -> None:
    policy = PolitenessPolicy(closed_least_s=0.01)
    world.permits = ClosedSite(anyio.current_time() + 0.3)
    crawler = world.crawler(settings=WorkerSettings(connections=2, waits_for_closed=policy))
    crawler.seed([URL])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(crawler.run)
        with anyio.fail_after(10):
            while not crawler.closed():
                await anyio.lowlevel.checkpoint()
        (closed,) = crawler.closed().values()
        assert (closed.problem, world.asked) == (DISALLOW_ALL.problem, [])
        assert crawler.counts.host(origin_of(URL)).problem == DISALLOW_ALL.problem
    assert world.asked == [URL]
    assert (crawler.counts.stored, crawler.counts.forbidden, crawler.closed()) == (1, 0, {})


async def test_a_crawl_that_does_not_wait_leaves_a_closed_site_for_the_day(world: World) -> None:
    world.permits = ClosedSite(float("inf"))
    crawler = world.crawler()
    crawler.seed([URL])
    await crawler.run()
    assert (world.asked, crawler.counts.forbidden, crawler.closed()) == ([], 1, {})


async def test_a_run_ends_with_all_it_recorded_safe_from_a_power_cut(world: World) -> None:
    said: list[int] = []
    sync = world.frontier.sync

    def watched() -> None:
        said.append(world.frontier.statistics().due)
        sync()

    vars(world.frontier)["sync"] = watched
    crawler = world.crawler()
    crawler.seed([URL, f"{URL}other"])
    await crawler.run()
    assert said[-1:] == [0]  # after the last visit was recorded


async def test_what_the_operator_removed_is_not_fetched_again(world: World) -> None:
    removed = f"{URL}removed"
    crawler = world.crawler(CrawlScope(is_removed=lambda url: url == removed))
    crawler.seed([URL, removed])
    await crawler.run()
    assert world.asked == [URL]
    assert crawler.counts.by_error == {"removed": 1}


@pytest.mark.parametrize("limit", [1, 3])
async def test_a_limit_is_the_number_of_fetches_and_no_permission_is_kept_beyond_it(
    world: World, limit: int
) -> None:
    crawler = world.crawler(settings=WorkerSettings(connections=1, fetches_max=limit))
    crawler.seed([f"{URL}{number}" for number in range(5)])
    await crawler.run()
    assert len(world.asked) == limit
    assert world.permits.out == 0  # or the host stays closed to everybody while the lease lasts


async def test_what_a_server_says_about_coming_back_is_told_to_its_steward(world: World) -> None:
    fields = b"Content-Type: text/html\r\nRetry-After: 120\r\n"
    answers = {
        f"{URL}busy": answer(f"{URL}busy", status=503, fields=fields),
        f"{URL}many": answer(f"{URL}many", status=429, fields=fields),
        f"{URL}fine": answer(f"{URL}fine", b"text", fields=fields),
    }
    world.site.answers = lambda request: answers[request.url]
    crawler = world.crawler(settings=WorkerSettings(connections=1, fetches_max=3))
    crawler.seed(list(answers))
    await crawler.run()
    told = {(report.status, report.retry_after_s) for report in world.permits.reports}
    assert told == {(503, 120.0), (429, 120.0), (200, None)}


async def test_a_visit_that_was_cut_off_is_made_by_the_next_run(world: World) -> None:
    world.site.is_blocked = True
    crawler = world.crawler()
    crawler.seed([URL])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(crawler.run)
        while not world.site.asked:
            await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    assert world.permits.out == 0
    world.frontier.retire(origin_of(URL))
    world.site.is_blocked = False
    await world.crawler().run()
    assert world.asked == [URL, URL]
    assert len(world.sink.captures) == 1


async def test_hosts_that_a_run_left_are_found_by_the_next_one(world: World) -> None:
    urls = [f"http://{name}.example/" for name in "abc"]
    crawler = world.crawler(settings=WorkerSettings(connections=1, fetches_max=1))
    crawler.seed(urls)
    for _ in urls:
        await crawler.run()
    assert sorted(world.asked) == urls


# --- when somebody else fetches for us


@dataclass
class Helped(Site):
    """Looks again at whatever came, each time under another lease; what it is to keep for later, it does not bring."""

    looks: int = 1
    later: int = 0

    async def fetch(self, request: FetchRequest) -> Capture:
        found = await super().fetch(request)
        if self.later:
            self.later -= 1
            raise AnotherTimeError(request.url, "its helper brought nothing")
        for _ in range(self.looks):
            assert request.again is not None
            again = await request.again(found)
            if again is None:
                raise AnotherTimeError(request.url, "there is no lease")
            found = await super().fetch(again)
        return found


async def test_a_second_look_has_a_lease_of_its_own_and_is_one_visit(world: World) -> None:
    world.site = Helped(a_page, looks=2)
    crawler = world.crawler()
    crawler.seed([URL])
    await crawler.run()
    assert world.asked == [URL] * 3
    assert (world.permits.granted, world.permits.out) == (4, 0)  # the last one finds nothing more to fetch
    assert [report.status for report in world.permits.reports] == [200] * 3
    assert (crawler.counts.fetched, crawler.counts.stored) == (1, 1)
    assert world.site.asked[1].place is None  # the first one's bytes have it


async def test_a_second_look_for_which_there_is_no_lease_leaves_the_url_due(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawler.worker.AGAIN_PATIENCE_S", 0.001)
    world.site = Helped(a_page)
    crawler = world.crawler(settings=WorkerSettings(connections=1))
    lease = world.permits.lease
    refusals = [False, True]

    async def seldom(origin: Origin, address: str) -> Lease | Wait:
        if refusals and refusals.pop(0):
            return Wait(until=anyio.current_time() + 0.01, reason="resting")
        return await lease(origin, address)

    monkeypatch.setattr(world.permits, "lease", seldom)
    crawler.seed([URL])
    await crawler.run()
    assert world.asked == [URL, URL, URL]
    assert (world.permits.out, crawler.counts.fetched, crawler.counts.failed) == (0, 1, 0)


async def test_what_nobody_brought_is_due_as_before_and_says_nothing_of_its_host(world: World) -> None:
    world.site = Helped(a_page, looks=0, later=2)
    crawler = world.crawler()
    crawler.seed([URL])
    await crawler.run()
    assert world.asked == [URL] * 3
    assert [report.status for report in world.permits.reports] == [200]  # unused leases report nothing
    assert (crawler.counts.fetched, crawler.counts.failed, world.permits.out) == (1, 0, 0)


async def test_what_was_too_late_is_due_as_before_and_its_steward_learns_how_late_it_was(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports: list[OriginReport] = []
    give_back, later = world.permits.give_back, [True]

    async def noted(lease: Lease, report: OriginReport) -> float:
        reports.append(report)
        return await give_back(lease, report)

    def late_once(request: FetchRequest) -> Capture:
        if later:
            later.pop()
            raise TooLateError(request.url, 2.5)
        return a_page(request)

    monkeypatch.setattr(world.permits, "give_back", noted)
    world.site = Site(late_once)
    crawler = world.crawler()
    crawler.seed([URL])
    await crawler.run()
    assert world.asked == [URL] * 2
    assert [(report.fetches, report.late_s) for report in reports[:2]] == [(0, 2.5), (1, 0.0)]
    assert (crawler.counts.fetched, crawler.counts.failed) == (1, 0)
