"""Whole crawls of the synthetic web in one process, judged by the web's own oracle and log."""

from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import anyio
import pytest

from crawler.core.capture import Outcome
from crawler.core.politeness import PolitenessPolicy
from crawler.core.scope import CrawlScope, ScopeKind
from crawler.worker import CrawlSettings
from tests.crawler.synthetic import FIRST_DAY, crawling, synthetic_web

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_a_crawl_fetches_exactly_what_is_reachable_and_allowed(tmp_path: Path, seed: int) -> None:
    async with synthetic_web(seed) as web:
        async with crawling(web, tmp_path) as crawler:
            await crawler.run()
        requests = web.requests()
        fetched = web.fetched(requests)
        assert set(fetched) == web.reachable(0)
        failing = {str(line["url"]) for line in requests if line["status"] in (500, 503)}
        assert max(fetched.values()) <= 3
        assert {url for url, times in fetched.items() if times > 1} <= failing
        assert len(requests) - fetched.total() < 200  # pages of traps
        stored = {capture.url for capture in web.sink.captures if capture.status == 200}
        answered = {str(line["url"]) for line in requests if line["status"] == 200}
        assert answered - stored == set() or crawler.counts.noarchive + crawler.counts.skipped
        assert len(stored) == len([one for one in web.sink.captures if one.status == 200])  # none twice


async def test_day_two_stores_only_what_changed_and_asks_conditionally_for_the_rest(tmp_path: Path) -> None:
    async with synthetic_web(4) as web:
        async with crawling(web, tmp_path) as crawler:
            await crawler.run()
        pages = [one for one in web.sink.captures if not one.url.endswith("/robots.txt")]
        first = {capture.url: capture.sha256 for capture in pages if capture.status == 200}
        web.requests()
        web.sink.captures.clear()
        async with crawling(web, tmp_path, day=1) as crawler:
            await crawler.run()
            unchanged = crawler.counts.unchanged
        requests = web.requests()
        assert web.reachable(1) <= set(web.fetched(requests))
        again = [one for one in web.sink.captures if one.status == 200 and one.url in first]
        for capture in again:
            is_new = capture.outcome is Outcome.STORED
            assert is_new == (capture.sha256 != first[capture.url])
        changed = {capture.url for capture in again if capture.outcome is Outcome.STORED}
        present = {url for url in first if web.oracle.digest(url, 1) is not None}
        truly = web.oracle.changed(present, 0, 1)
        # What a server hides behind "not modified" whatever happened cannot be noticed on the next day.
        hidden = {
            url for url in truly if (place := web.oracle.place(url)) and place.host.validators == "stuck"
        }
        assert changed == truly - hidden
        assert changed
        not_modified = [line for line in requests if line["status"] == 304]
        assert not_modified
        assert all(line["conditional"] for line in not_modified)
        visits = [one for one in web.sink.captures if not one.url.endswith("/robots.txt")]
        assert unchanged == len([one for one in visits if one.outcome is not Outcome.STORED])


async def test_no_origin_is_asked_more_often_than_its_delay(tmp_path: Path) -> None:
    policy = PolitenessPolicy(
        delay_floor_s=0.05,
        crawl_delay_max_s=0.1,
        backoff_base_s=0.05,
        backoff_max_s=0.05,
        retry_after_max_s=0.05,
    )
    async with synthetic_web(5, hosts=4, pages_max=10) as web:
        async with crawling(web, tmp_path, policy=policy, settings=CrawlSettings(fetches_max=60)) as crawler:
            await crawler.run()
        times = defaultdict(list)
        web.server.flush_log()
        for line in web.requests():
            times[line["host"]].append(float(str(line["time"])))
    assert sum(map(len, times.values())) >= 40
    for seconds in times.values():
        assert all(later - earlier >= 0.049 for earlier, later in pairwise(seconds))


async def test_a_limit_a_stop_and_a_later_run_lose_and_repeat_nothing(tmp_path: Path) -> None:
    async with synthetic_web(6) as web:
        async with crawling(web, tmp_path, settings=CrawlSettings(fetches_max=30, connections=8)) as crawler:
            await crawler.run()
            assert 30 <= crawler.counts.fetched <= 37
        async with crawling(web, tmp_path) as crawler, anyio.create_task_group() as tasks:
            tasks.start_soon(crawler.run)
            while crawler.counts.fetched < 20:
                await anyio.lowlevel.checkpoint()
            crawler.stop()
        async with crawling(web, tmp_path) as crawler, anyio.create_task_group() as tasks:
            tasks.start_soon(crawler.run)
            while crawler.counts.fetched < 10:
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
        async with crawling(web, tmp_path) as crawler:
            await crawler.run()
        assert set(web.fetched(web.requests())) == web.reachable(0)
        stored = [capture.url for capture in web.sink.captures if capture.is_new]
        assert len(stored) == len(set(stored))


async def test_a_capture_that_a_crash_left_unrecorded_is_read_and_not_fetched_again(tmp_path: Path) -> None:
    async with synthetic_web(7) as web:
        async with crawling(web, tmp_path / "one") as crawler:
            await crawler.run()
        everything = set(web.fetched(web.requests()))
        kept = [capture for capture in web.sink.captures if capture.url in set(web.seeds)]
        web.sink.captures[:] = kept
        async with crawling(web, tmp_path / "two") as crawler:
            frontier = crawler._frontier
            for origin in frontier.activate(100):  # handed out, and then the process died
                frontier.take(origin)
        async with crawling(web, tmp_path / "two") as crawler:
            await crawler.run()
            assert crawler.counts.recovered == len(kept)
        fetched = set(web.fetched(web.requests()))
        assert fetched == everything - {capture.url for capture in kept}


async def test_scope_and_depth_bound_the_crawl_as_counted_by_hand(tmp_path: Path) -> None:
    async with synthetic_web(8) as web:
        seed = web.seeds[0]
        scope = CrawlScope.of_seeds([seed], ScopeKind.HOST, depth_max=1)
        async with crawling(web, tmp_path, scope=scope, tracks_depth=True) as crawler:
            crawler_seeds = [seed]
            await crawler.run()
        fetched = set(web.fetched(web.requests()))
    within = {url for url in fetched if url.startswith(seed)}
    assert within - set(crawler_seeds)
    assert {url for url in fetched if not url.startswith(seed)} <= set(
        web.seeds
    )  # all front pages were seeds


async def test_validators_and_days_are_of_the_frontier(tmp_path: Path) -> None:
    async with synthetic_web(9, hosts=2, pages_max=5) as web, crawling(web, tmp_path) as crawler:
        await crawler.run()
        statistics = crawler._frontier.statistics()
        assert (statistics.day, statistics.handed_out) == (FIRST_DAY, 0)
        assert not crawler._frontier.has_due()
