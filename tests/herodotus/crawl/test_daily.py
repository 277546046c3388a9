"""The crawl of a running peer: day after day on the synthetic web, through pauses, errors and a full disk."""

import shutil
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
import pytest

from crawler.core.link import Link
from crawler.core.politeness import HostSteward, Lease, OriginReport, PolitenessPolicy, Wait
from crawler.core.robots import RobotsRules
from crawler.core.urls import Origin, host_of
from crawler.ports import Fetcher, StewardPort, UrlOwner
from herodotus.core.charter import TEST_CHARTER
from herodotus.core.orders import Begin, Pause, Resume, Seeds
from herodotus.crawl import daily
from herodotus.crawl.daily import CrawlState, DailyCrawl, DailyParts, NotCrawling
from herodotus.crawl.gear import ArchiveSink, CrawlOrder, StewardMaker, local_steward
from herodotus.home import clock
from herodotus.home.folder import Home
from herodotus.home.seeds import Seed, add_seeds
from herodotus.machine import Machine
from herodotus.operate.lab_ring import make_home
from herodotus.store.home_archive import HomeArchive
from tests.crawler.origin import Answer, origin, says
from tests.crawler.synthetic import QUICK, SyntheticWeb, synthetic_web

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

DAY_S = 86_400.0


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    make_home(home, TEST_CHARTER)
    return home


@dataclass
class DayClock:
    """The machine's clock, and leaps ahead."""

    ahead_s: float = 0.0

    def __call__(self) -> float:
        return clock.unix_seconds() + self.ahead_s


def order(**changes: object) -> CrawlOrder:
    return replace(
        CrawlOrder(urls=(), allow_private_addresses=True, politeness=QUICK, connections=16),
        **changes,  # type: ignore[arg-type]  # names and types of the fields above
    )


@asynccontextmanager
async def crawling(
    home: Home,
    *,
    now: Callable[[], float] = clock.unix_seconds,
    what: CrawlOrder | None = None,
    make_steward: StewardMaker | None = None,
    owner: UrlOwner | None = None,
) -> AsyncIterator[DailyCrawl]:
    what = what or order(scope=order().scope.ANY)
    core = HostSteward(what.politeness)
    holdings = HomeArchive(home, Machine())
    crawl = DailyCrawl(
        DailyParts(
            home=home,
            order=what,
            archive=holdings,
            make_steward=make_steward or local_steward(what, core, wall_clock=now),
            world=Machine(),
            wall_clock=now,
            owner=owner,
            drain_s=10.0,
        )
    )
    async with holdings.opened(), crawl.opened():
        yield crawl


async def until(fact: Callable[[], object], within_s: float = 60.0) -> None:
    """Of tasks that send us no events."""
    with anyio.fail_after(within_s):
        while not fact():
            with anyio.move_on_after(0.02):
                await anyio.sleep_forever()


def is_done(crawl: DailyCrawl) -> bool:
    return crawl.status().state == CrawlState.DONE.value


def seeded(home: Home, web: SyntheticWeb) -> None:
    add_seeds(home.path, web.seeds, now=1.0)


async def test_each_day_all_that_is_reachable_is_fetched_once(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daily, "LOOK_EVERY_S", 0.05)
    now = DayClock()
    async with synthetic_web(3, hosts=4, troubles=False) as web:
        seeded(home, web)
        async with crawling(home, now=now) as crawl:
            await until(lambda: is_done(crawl))
            first = crawl.status()
            reachable = web.reachable(0)
            assert web.fetched(web.requests()) == Counter(reachable)
            assert (first.due, first.failed, first.fetched) == (0, 0, first.known)
            web.server.day = 1
            now.ahead_s += DAY_S
            await until(lambda: crawl.status().day == first.day + 1 and is_done(crawl))
            second = crawl.status()
            assert second.fetched == second.known >= first.known
            assert second.unchanged > second.stored > 0
            assert web.fetched(web.requests()) == Counter(reachable | web.reachable(1))


async def test_the_end_of_a_day_ends_its_crawl_and_what_was_left_comes_the_next_day(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daily, "LOOK_EVERY_S", 0.02)
    now = DayClock()
    slow = replace(order(), politeness=PolitenessPolicy(delay_floor_s=0.05, per_address_concurrency=8))
    async with synthetic_web(4, hosts=2, troubles=False) as web:
        seeded(home, web)
        async with crawling(home, now=now, what=replace(slow, scope=order().scope.ANY)) as crawl:
            await until(lambda: crawl.status().fetched >= 5)
            first = crawl.status()
            now.ahead_s += DAY_S
            await until(lambda: crawl.status().day == first.day + 1 and is_done(crawl))
            assert set(web.fetched(web.requests())) == web.reachable(0)
            assert first.left_over == 0
            assert 0 < crawl.status().left_over <= crawl.status().known - first.fetched


async def test_a_clock_that_was_ahead_and_came_back_is_shown_as_what_stops_the_crawl(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daily, "LOOK_EVERY_S", 0.02)
    now = DayClock()
    async with synthetic_web(6, hosts=1, troubles=False) as web:
        seeded(home, web)
        async with crawling(home, now=now) as crawl:
            await until(lambda: is_done(crawl))
            first = crawl.status()
            assert first.problem is None
            now.ahead_s += 10 * DAY_S
            await until(lambda: crawl.status().day == first.day + 10 and is_done(crawl))
            assert crawl.status().problem is None
            now.ahead_s -= 10 * DAY_S
            assert "10 days ahead" in str(crawl.status().problem)


async def test_a_paused_peer_fetches_nothing_also_after_a_restart_until_it_is_told_to(home: Home) -> None:
    async with synthetic_web(5, hosts=3, troubles=False) as web:
        seeded(home, web)
        async with crawling(home) as crawl:
            await until(lambda: crawl.status().fetched >= 10)
            await crawl.perform(Pause())
            await until(lambda: crawl.status().state == CrawlState.PAUSED.value)
            web.requests()
            assert crawl.status().due > 0
        async with crawling(home) as crawl:
            await until(lambda: crawl.status().state == CrawlState.PAUSED.value)
            assert web.requests() == []
            await crawl.perform(Resume())
            await until(lambda: is_done(crawl))
        assert crawl.status().due == 0


async def test_a_pause_for_a_time_ends_by_itself_and_leaves_nothing_behind(home: Home) -> None:
    async with synthetic_web(5, hosts=1, troubles=False) as web:
        seeded(home, web)
        async with crawling(home) as crawl:
            await crawl.perform(Pause(for_s=2.0))
            await until(lambda: crawl.status().state == CrawlState.PAUSED.value)
            assert crawl.status().paused_s in (1, 2)
            fetched = crawl.status().fetched
            await until(lambda: is_done(crawl))
            assert (crawl.status().paused_s, home.paused.exists()) == (0, False)
            assert crawl.status().fetched > fetched


class FailingOnce:
    """A steward that breaks once in the middle of the crawl."""

    def __init__(self, inner: StewardPort, failures: list[Exception]) -> None:
        self._inner = inner
        self._failures = failures
        self._leases = 0

    async def rules(self, origin: Origin) -> RobotsRules | Wait:
        return await self._inner.rules(origin)

    async def rules_alone(self, origin: Origin) -> RobotsRules | Wait:
        return await self._inner.rules_alone(origin)

    async def lease(self, origin: Origin, address: str) -> Lease | Wait:
        self._leases += 1
        if self._leases > 20 and self._failures:
            raise self._failures.pop()
        return await self._inner.lease(origin, address)

    async def give_back(self, lease: Lease, report: OriginReport) -> float:
        return await self._inner.give_back(lease, report)


async def test_an_error_ends_the_crawl_and_not_the_peer_and_it_begins_again(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daily, "BACKOFF_FIRST_S", 0.01)
    failures: list[Exception] = [RuntimeError("unheard of"), ValueError("nor this")]
    what = order(scope=order().scope.ANY, connections=1)

    def make(fetcher: Fetcher, sink: ArchiveSink) -> StewardPort:
        core = HostSteward(QUICK)
        return FailingOnce(local_steward(what, core, wall_clock=clock.unix_seconds)(fetcher, sink), failures)

    async with synthetic_web(6, hosts=3, troubles=False) as web:
        seeded(home, web)
        async with crawling(home, what=what, make_steward=make) as crawl:
            await until(lambda: is_done(crawl))
            assert crawl.status().restarts == 2
            assert crawl.status().problem is None
            assert set(web.fetched(web.requests())) == web.reachable(0)


async def test_a_full_disk_stops_the_crawl_and_room_lets_it_go_on(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daily, "LOOK_EVERY_S", 0.02)
    monkeypatch.setattr(daily, "BACKOFF_FIRST_S", 0.01)
    room = [2**40] * 12
    monkeypatch.setattr(
        "herodotus.store.disk.OsDisk.free_bytes",
        lambda disk: room.pop() if len(room) > 1 else room[0] - 2**40,
    )
    async with synthetic_web(7, hosts=3, troubles=False) as web:
        seeded(home, web)
        async with crawling(home) as crawl:
            await until(lambda: crawl.status().state == CrawlState.NO_ROOM.value)
            assert "full" in (crawl.status().problem or "")
            seen = len(web.requests())
            assert 0 < seen < len(web.reachable(0))
            room[0] = 2**41
            await until(lambda: is_done(crawl))
            assert crawl.status().due == 0
            assert crawl.status().problem is None


class OwnsSome:
    def __init__(self, is_ours: Callable[[str], bool]) -> None:
        self.others: list[Link] = []
        self._is_ours = is_ours

    def divide(self, links: Sequence[Link]) -> list[Link]:
        self.others += [link for link in links if not self._is_ours(link.url)]
        return [link for link in links if self._is_ours(link.url)]

    def is_our_turn(self, url: str) -> bool:
        return True


async def test_links_of_others_are_handed_over_and_theirs_of_ours_taken_at_once(home: Home) -> None:
    async with synthetic_web(8, hosts=3, troubles=False) as web:
        reachable = sorted(web.reachable(0))
        ours = {*reachable[::5], *web.seeds}
        owner = OwnsSome(ours.__contains__)
        seeded(home, web)
        async with crawling(home, owner=owner) as crawl:
            await until(lambda: is_done(crawl))
            fetched = set(web.fetched(web.requests()))
            assert fetched < ours
            assert {link.url for link in owner.others} - ours
            assert crawl.status().handed_over == len(owner.others)
            left = sorted(ours - fetched)
            assert crawl.take_over([Link(url=url, depth=3) for url in left]) == len(left)
            await until(lambda: crawl.status().due == 0 and is_done(crawl))
            assert set(web.fetched(web.requests())) == set(left)
            assert crawl.status().taken_over == len(left)


async def test_what_somebody_else_archived_today_is_read_and_not_fetched_again(home: Home) -> None:
    """As when an owner died that had given us copies: they lie in our archive, and our frontier knows nothing of it."""
    async with synthetic_web(11, hosts=2, troubles=False) as web:
        async with crawling(home) as crawl:
            await until(lambda: is_done(crawl))
            await crawl.begin(web.seeds)
            await until(lambda: crawl.status().due == 0 and is_done(crawl))
        everything = web.fetched(web.requests())
        assert set(everything) == web.reachable(0)
        shutil.rmtree(home.path / "queue")
        links = [Link(url=url, depth=1) for url in sorted(everything)]
        async with crawling(home) as crawl:
            await until(lambda: is_done(crawl))
            assert crawl.take_over(links, may_be_done=True) == len(links)
            await until(lambda: crawl.status().due == 0 and is_done(crawl))
            assert crawl.status().known == len(links), "and their links are known"
            assert crawl.status().fetched == 0
            assert web.requests() == []


async def test_urls_given_to_a_running_crawl_are_fetched_at_once(home: Home) -> None:
    async with synthetic_web(9, hosts=2, troubles=False) as web:
        async with crawling(home) as crawl:
            await until(lambda: is_done(crawl))
            report = await crawl.perform(Begin(urls=tuple(web.seeds)))
            assert report.facts == {"urls": 2, "new": 2}
            await until(lambda: crawl.status().due == 0 and is_done(crawl))
            assert set(web.fetched(web.requests())) == web.reachable(0)
        with pytest.raises(NotCrawling, match="closed"):
            crawl.take_over([Link(url="http://a.example/")])


def says_page(body: bytes) -> Answer:
    return says(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    )


NOT_THERE = says(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n")


async def test_a_seed_whose_site_is_down_says_why_it_waits_and_is_fetched_when_the_site_is_back(
    home: Home,
) -> None:
    answers = {"/": says_page(b'<a href="/a">a</a>'), "/a": says_page(b"<p>a</p>"), "/robots.txt": NOT_THERE}
    async with origin(answers) as site:
        url, port = site.url(), site.port
    politeness = replace(QUICK, closed_least_s=0.2)
    what = order(scope=order().scope.ANY, politeness=politeness, waits_for_closed=True)
    add_seeds(home.path, [url], now=1.0)
    async with crawling(home, what=what) as crawl:
        await until(lambda: crawl.status().closed)
        (told,) = (await crawl.perform(Seeds(urls=(url,)))).facts["seeds"]
        assert told["state"] == "unreachable"
        assert "robots.txt could not be fetched: " in told["problem"]
        assert told["since"] <= told["next_visit"]
        assert (told["found"], told["stored"], told["waiting"], told["last_capture"]) == (1, 0, 1, None)
        assert crawl.status().problems["robots unreachable"] >= 1
        async with origin(answers, port=port):
            await until(lambda: crawl.status().stored == 2)
        (told,) = (await crawl.perform(Seeds(urls=(url,)))).facts["seeds"]
        assert (told["state"], told["problem"], told["since"]) == ("archived", "", None)
        assert (told["found"], told["stored"], told["waiting"], told["failed"]) == (2, 2, 0, 0)
        assert told["last_capture"] < told["next_visit"]


async def test_a_page_that_fails_is_counted_with_its_reason_and_waits_for_its_next_try_while_the_day_is_done(
    home: Home,
) -> None:
    answers = {"/": says(b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n"), "/robots.txt": NOT_THERE}
    async with origin(answers) as site:
        add_seeds(home.path, [site.url(), "http://127.0.0.1:9/"], now=1.0)
        async with crawling(home, what=order(scope=order().scope.ANY, waits_for_closed=True)) as crawl:
            await until(lambda: crawl.status().to_be_retried == 1)
            told = (await crawl.perform(Seeds(urls=(site.url(),)))).facts["seeds"][0]
            assert (told["state"], told["problem"], told["failed"]) == (
                "failed",
                "failed once: answered with 500",
                1,
            )
            assert told["next_visit"] is not None
            status = crawl.status()
            assert (status.failed, status.problems["answered with 500"]) == (1, 1)
    assert len(site.requests) == 2


async def test_a_seed_leads_as_far_as_its_options_say_and_no_further_when_its_last_day_is_over(
    home: Home,
) -> None:
    async with synthetic_web(33, hosts=2, troubles=False) as web:
        first, second = web.seeds
        now = clock.unix_seconds()
        page_alone = Seed(url="", added=0, scope="page", content="html")
        add_seeds(home.path, [first], now=1.0, options=page_alone)
        add_seeds(home.path, [second], now=1.0, options=Seed(url="", added=0, until_s=int(now) - 9))
        async with crawling(home) as crawl:
            await until(lambda: crawl.status().fetched >= 1 and is_done(crawl))
            told = (await crawl.perform(Seeds(urls=(first, second)))).facts["seeds"]
            assert [one["state"] for one in told] == ["archived", "over"]
            assert set(web.fetched(web.requests())) == {first}
            await crawl.perform(Begin(urls=(first,), scope="host"))
            await until(lambda: crawl.status().fetched > 1 and crawl.status().due == 0 and is_done(crawl))
            hosts = {host_of(url) for url in web.fetched(web.requests())}
            assert host_of(first) in hosts
            assert second not in web.fetched(web.requests())


async def test_a_damaged_list_of_seeds_keeps_nothing_else_from_being_crawled(home: Home) -> None:
    async with synthetic_web(10, hosts=1, troubles=False) as web:
        (home.state / "seeds.json").write_bytes(b"{")
        async with crawling(home) as crawl:
            await until(lambda: is_done(crawl))
            await crawl.begin(web.seeds)
            await until(lambda: crawl.status().due == 0 and is_done(crawl))
            assert crawl.status().fetched == crawl.status().known > 0
