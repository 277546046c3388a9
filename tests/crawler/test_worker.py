"""Whole crawls of the synthetic web in one process, judged by the web's own oracle and log."""

from collections import Counter, defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import anyio
import pytest

from crawler.core.capture import Capture, FetchOutcome
from crawler.core.link import Link
from crawler.core.politeness import HostSteward, Lease, OptOutList, PolitenessPolicy, Wait
from crawler.core.recrawl import Result
from crawler.core.scope import ContentChoice, CrawlScope, ScopeKind
from crawler.core.urls import Origin, host_of
from crawler.frontier import DueEntry, Frontier
from crawler.frontier_rows import frontier_rows
from crawler.http import HttpFetcher
from crawler.outcomes import Reading
from crawler.steward import LocalSteward
from crawler.worker import Crawler, WorkerSettings
from tests.crawler.memory import MemorySink
from tests.crawler.origin import Answer, origin, says
from tests.crawler.origin import Origin as Server
from tests.crawler.synthetic import DAY_S, FIRST_DAY, LOCAL, QUICK, crawling, synthetic_web

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
            is_new = capture.outcome is FetchOutcome.STORED
            assert is_new == (capture.sha256 != first[capture.url])
        changed = {capture.url for capture in again if capture.outcome is FetchOutcome.STORED}
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
        assert unchanged == len([one for one in visits if one.outcome is not FetchOutcome.STORED])


async def test_no_origin_is_asked_more_often_than_its_delay(tmp_path: Path) -> None:
    policy = PolitenessPolicy(
        delay_floor_s=0.05,
        crawl_delay_max_s=0.1,
        backoff_base_s=0.05,
        backoff_max_s=0.05,
        retry_after_max_s=0.05,
    )
    async with synthetic_web(5, hosts=4, pages_max=10) as web:
        async with crawling(web, tmp_path, policy=policy, settings=WorkerSettings(fetches_max=60)) as crawler:
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
        async with crawling(web, tmp_path, settings=WorkerSettings(fetches_max=30, connections=8)) as crawler:
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
        assert [url for url in set(stored) if stored.count(url) > 1] == []


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
        assert (statistics.day, crawler._frontier._turns.taken) == (FIRST_DAY, {})
        assert not crawler._frontier.activate(1)


async def test_a_delay_is_kept_from_one_run_to_the_next(tmp_path: Path) -> None:
    policy = PolitenessPolicy(delay_floor_s=0.2, delay_factor=0.0, crawl_delay_max_s=0.2)
    async with synthetic_web(10, hosts=1, pages_max=20) as web:
        for _ in range(3):
            limit = WorkerSettings(fetches_max=1)
            async with crawling(web, tmp_path, policy=policy, settings=limit) as crawler:
                await crawler.run()
        times = [float(str(line["time"])) for line in web.requests(with_robots=True)]
    assert len(times) >= 6  # a page and robots.txt in each run
    assert all(later - earlier >= 0.199 for earlier, later in pairwise(times))


async def test_a_page_that_failed_today_is_tried_again_after_a_crash_whatever_the_archive_has(
    tmp_path: Path,
) -> None:
    async with synthetic_web(4, hosts=2) as web:
        async with crawling(web, tmp_path) as crawler:
            await crawler.run()
        page = next(one for one in web.sink.captures if one.status == 200 and one.url in web.seeds)
        web.requests()
        async with crawling(web, tmp_path, day=1) as crawler:
            frontier = crawler._frontier
            for origin in frontier.activate(100):
                while (entry := frontier.take(origin)) is not None and entry.known.url != page.url:
                    frontier.pass_over(entry)
                if entry is not None:
                    frontier.record(entry, Result.FAILED)
                    while (entry := frontier.take(origin)) is not None and entry.known.url != page.url:
                        frontier.pass_over(entry)  # until the retry is handed out, and then the process died
        async with crawling(web, tmp_path, day=1) as crawler:
            await crawler.run()
            assert crawler.counts.reread == 0
        assert page.url in web.fetched(web.requests())


async def test_a_host_that_opted_out_is_left_alone_although_its_pages_are_known(tmp_path: Path) -> None:
    async with synthetic_web(9, hosts=2, pages_max=5) as web:
        shy = host_of(web.seeds[0])
        scope = CrawlScope(opted_out=OptOutList.of([shy]))
        async with crawling(web, tmp_path, scope=scope) as crawler:
            await crawler.run()
            assert crawler.counts.by_error["opt-out"] == 1
        assert shy not in {line["host"] for line in web.requests(with_robots=True)}


@pytest.mark.parametrize("is_closed", [True, False])
async def test_a_host_with_many_pages_that_are_not_fetched_lets_others_have_their_turn(
    tmp_path: Path, is_closed: bool
) -> None:
    """By robots.txt, or beyond the depth: a stop that comes while its pages are dealt with is heeded."""
    robots = b"HTTP/1.1 200 OK\r\nContent-Length: 27\r\n\r\nUser-agent: *\nDisallow: /p\n"
    scope = CrawlScope() if is_closed else CrawlScope(depth_max=3)
    async with origin({"/robots.txt": says(robots)}) as served:
        frontier = Frontier(frontier_rows(tmp_path), day=FIRST_DAY)
        frontier.add([Link(url=served.url(f"/p{n}"), depth=9) for n in range(1_000)])
        taken = 0
        take = frontier.take

        def count_and_take(of: Origin) -> DueEntry | None:
            nonlocal taken
            taken += 1
            return take(of)

        vars(frontier)["take"] = count_and_take
        async with HttpFetcher(LOCAL, wall_clock=lambda: 0.0) as fetcher:
            core = HostSteward(QUICK)
            steward = LocalSteward(core, fetcher, product_token="Herodotus", wall_clock=lambda: 0.0)
            crawler = Crawler(
                frontier, fetcher, MemorySink(), steward, scope, WorkerSettings(), wall_clock=lambda: 0.0
            )
            with anyio.fail_after(30):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(crawler.run)
                    while not taken:
                        await anyio.lowlevel.checkpoint()
                    crawler.stop()
                assert 0 < taken < 500
                await crawler.run()
        assert frontier.statistics().due == (0 if is_closed else 1_000)
        assert crawler.counts.forbidden == 1_000 * is_closed
        assert served.requests[1:] == []
        frontier.close()


async def test_no_fetch_begins_in_a_pause_that_came_while_permission_was_asked_for(tmp_path: Path) -> None:
    async with synthetic_web(9, hosts=1, pages_max=5) as web, crawling(web, tmp_path) as crawler:
        steward = crawler._steward
        assert isinstance(steward, LocalSteward)
        lease = steward.lease
        paused = anyio.Event()

        async def lease_and_pause(origin: Origin, address: str) -> Lease | Wait:
            is_for_a_page = steward.core.rules(origin, anyio.current_time()) is not None
            if is_for_a_page and not paused.is_set():
                await crawler.pause()
                paused.set()
            return await lease(origin, address)

        vars(steward)["lease"] = lease_and_pause
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(crawler.run)
            await paused.wait()
            await anyio.wait_all_tasks_blocked()
            assert crawler._started == 0
            crawler.resume()
        assert crawler.counts.fetched > 5


SMALL = replace(LOCAL, body_bytes_max=100_000)


async def crawl_page(
    folder: Path, served: Server, sink: MemorySink, day: int, scope: CrawlScope | None = None
) -> Crawler:
    """A crawl of one page on that day."""
    frontier = Frontier(frontier_rows(folder), day=FIRST_DAY + day)

    def wall_clock() -> float:
        return (FIRST_DAY + day) * DAY_S + 1.0

    try:
        async with HttpFetcher(SMALL, wall_clock=wall_clock) as fetcher:
            core = HostSteward(QUICK)
            steward = LocalSteward(core, fetcher, product_token="Herodotus", wall_clock=wall_clock, sink=sink)
            crawler = Crawler(
                frontier,
                fetcher,
                sink,
                steward,
                scope or CrawlScope(),
                WorkerSettings(),
                wall_clock=wall_clock,
            )
            crawler.seed([served.url("/once")])
            await crawler.run()
    finally:
        frontier.close()
    return crawler


def page(etag: bytes, length: int, body: bytes) -> Answer:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nETag: %b\r\nContent-Length: %d\r\n\r\n"
    return says(head % (etag, length) + body)


async def test_what_broke_off_is_asked_for_anew_and_nothing_is_taken_for_its_rest(tmp_path: Path) -> None:
    answers = {"/robots.txt": says(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n")}
    sink = MemorySink()
    async with origin(answers) as served:
        days = [page(b'"a"', 5, b"whole"), page(b'"b"', 9, b"changed"), page(b'"b"', 9, b"changed++")]
        days.append(says(b"HTTP/1.1 304 Same\r\n\r\n"))
        for day, answer in enumerate(days):
            answers["/once"] = answer
            await crawl_page(tmp_path, served, sink, day)
    visits = [one for one in served.requests if one.startswith(b"GET /once")]
    assert [b'If-None-Match: "a"' in one for one in visits] == [False, True, False, False]
    assert [b'If-None-Match: "b"' in one for one in visits] == [False, False, False, True]
    pages = [one for one in sink.captures if one.url.endswith("/once")]
    assert [one.body for one in pages] == [b"whole", b"changed", b"changed++", b""]
    assert pages[3].sha256 == pages[2].sha256


async def test_a_body_that_the_limit_cuts_is_not_stored_again_while_it_stays_the_same(tmp_path: Path) -> None:
    answers = {"/robots.txt": says(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n")}
    large = b"x" * (SMALL.body_bytes_max + 1)
    answers["/once"] = says(b'HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nETag: "e"\r\n\r\n' + large)
    sink = MemorySink()
    async with origin(answers) as served:
        for day in range(2):
            await crawl_page(tmp_path, served, sink, day)
    assert b'If-None-Match: "e"' in served.requests[-1]
    pages = [one for one in sink.captures if one.url.endswith("/once")]
    assert [one.outcome for one in pages] == [FetchOutcome.STORED, FetchOutcome.SAME_DIGEST]


async def test_a_redirect_that_leads_where_it_led_is_a_visit_and_stores_nothing(tmp_path: Path) -> None:
    moved = b"HTTP/1.1 %s\r\nDate: %d\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n"
    days = [
        (b"301 Moved", b"/robots.txt"),
        (b"301 Moved", b"/robots.txt"),
        (b"301 Moved", b"/robots.txt?new"),
    ]
    days += [(b"302 Found", b"/robots.txt?new"), (b"302 Found", b"/robots.txt?new")]
    sink = MemorySink()
    answers = {"/robots.txt": says(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n")}
    answers["/robots.txt?new"] = answers["/robots.txt"]
    async with origin(answers) as served:
        for day, (status, target) in enumerate(days):
            answers["/once"] = says(moved % (status, day, target))
            crawler = await crawl_page(tmp_path, served, sink, day)
            assert crawler.counts.unchanged == (day in (1, 4))
    pages = [one for one in sink.captures if one.url.endswith("/once")]
    new, known = FetchOutcome.STORED, FetchOutcome.SAME_DIGEST
    assert [one.outcome for one in pages] == [new, known, new, new, known]


async def test_a_page_on_which_our_reader_fails_is_archived_and_ends_no_crawl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(capture: Capture, **how: object) -> Reading:
        raise RecursionError(f"{capture.url} {len(how)}")

    monkeypatch.setattr("crawler.outcomes.read_capture", fails)
    answers = {"/robots.txt": says(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n")}
    answers["/once"] = page(b'"e"', 4, b"text")
    sink = MemorySink()
    async with origin(answers) as served:
        crawler = await crawl_page(tmp_path, served, sink, 0)
    assert [one.body for one in sink.captures if one.url.endswith("/once")] == [b"text"]
    assert (crawler.counts.stored, crawler.counts.by_error) == (1, {"page not read": 1})
    assert "page not read" in caplog.text


async def test_what_is_of_no_wanted_type_is_asked_for_ever_more_rarely(tmp_path: Path) -> None:
    answers = {"/robots.txt": says(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n")}
    answers["/once"] = says(b"HTTP/1.1 200 OK\r\nContent-Type: application/pdf\r\n\r\n%PDF-1.7")
    asked = []
    async with origin(answers) as served:
        for day in range(16):
            crawler = await crawl_page(tmp_path, served, MemorySink(), day)
            asked += [day] * crawler.counts.skipped
        assert asked == [0, 1, 3, 7, 15]
        assert len([one for one in served.requests if one.startswith(b"GET /once")]) == 5


async def test_what_a_page_embeds_is_taken_whatever_its_type_and_what_it_links_to_by_type(
    tmp_path: Path,
) -> None:
    answers = {"/robots.txt": says(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n")}
    markup = b"<a href=/linked.zip>z</a><script src=/view.jsx></script><embed src=/shown.zip>"
    head = b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n"
    answers["/once"] = says(head % (b"text/html", len(markup)) + markup)
    for name, kind in (
        ("linked.zip", b"application/zip"),
        ("shown.zip", b"application/zip"),
        ("view.jsx", b"x/y"),
    ):
        answers[f"/{name}"] = says(head % (kind, 1) + b"1")
    sink = MemorySink()
    async with origin(answers) as served:
        await crawl_page(tmp_path, served, sink, 0, scope=CrawlScope(content=ContentChoice.PAGES))
    kept = {one.url.rpartition("/")[2] for one in sink.captures if one.status == 200}
    assert kept == {"once", "shown.zip", "view.jsx"}


PATIENT = replace(QUICK, retry_after_max_s=86_400.0)


async def test_a_crawl_ends_when_all_that_is_left_rests_too_long_and_says_until_when(tmp_path: Path) -> None:
    """One host asks for two hours after its first page; the other is crawled to its end meanwhile."""
    nothing = says(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n")
    busy = says(b"HTTP/1.1 503 Busy\r\nRetry-After: 7200\r\nContent-Length: 0\r\n\r\n")
    links = b"".join(b"<a href='/%d'>x</a>" % number for number in range(5))
    pages = {f"/{number}": page(b'""', 4, b"text") for number in range(5)}
    front = page(b'""', len(links), links)
    async with (
        origin({"/robots.txt": nothing, "/": busy, "/other": busy}) as tired,
        origin({"/robots.txt": nothing, "/": front, **pages}, host="127.0.0.2") as good,
    ):
        frontier = Frontier(frontier_rows(tmp_path), day=FIRST_DAY)
        async with HttpFetcher(LOCAL, wall_clock=lambda: FIRST_DAY * DAY_S) as fetcher:
            core = HostSteward(PATIENT)
            steward = LocalSteward(core, fetcher, product_token="Herodotus", wall_clock=lambda: 0.0)
            crawler = Crawler(
                frontier,
                fetcher,
                MemorySink(),
                steward,
                CrawlScope(),
                WorkerSettings(patience_s=600.0),
                wall_clock=lambda: float(FIRST_DAY * DAY_S),
            )
            crawler.seed([tired.url("/"), tired.url("/other"), good.url("/", "127.0.0.2")])
            with anyio.fail_after(30):
                await crawler.run()
            assert crawler.counts.by_status == {200: 6, 503: 1}
            (rest,) = crawler.given_up
            assert (rest.origin, rest.due) == (tired.url("/").rstrip("/"), 2)
            assert rest.until - FIRST_DAY * DAY_S == pytest.approx(7200, abs=30)
            assert [one.origin for one in crawler.progress().resting] == [rest.origin]
        frontier.close()


async def test_a_rest_that_robots_txt_asked_for_is_owed_by_a_later_run(tmp_path: Path) -> None:
    """No page was visited in between, so no visit's record tells of it."""
    busy = says(b"HTTP/1.1 404 Busy\r\nRetry-After: 7200\r\nContent-Length: 0\r\n\r\n")
    policy = replace(PATIENT, delay_floor_s=0.001)
    async with origin({"/robots.txt": busy}) as tired:
        for _ in range(2):
            frontier = Frontier(frontier_rows(tmp_path), day=FIRST_DAY)
            async with HttpFetcher(LOCAL, wall_clock=lambda: 0.0) as fetcher:
                steward = LocalSteward(
                    HostSteward(policy),
                    fetcher,
                    product_token="Herodotus",
                    wall_clock=lambda: 0.0,
                )
                crawler = Crawler(
                    frontier,
                    fetcher,
                    MemorySink(),
                    steward,
                    CrawlScope(),
                    WorkerSettings(patience_s=600.0),
                    wall_clock=lambda: 100.0,
                )
                crawler.seed([tired.url("/")])
                with anyio.fail_after(30):
                    await crawler.run()
                assert [rest.due for rest in crawler.given_up] == [1]
            frontier.close()
        assert len(tired.requests) == 1


async def test_origins_that_were_left_are_found_by_a_later_run_of_the_same_crawler(tmp_path: Path) -> None:
    async with synthetic_web(6, hosts=2, pages_max=10) as web, crawling(web, tmp_path) as crawler:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(crawler.run)
            while crawler.counts.fetched < 5:
                await anyio.lowlevel.checkpoint()
            crawler.stop()
        await crawler.run()
        assert crawler.progress().due == 0
        assert set(web.fetched(web.requests())) == web.reachable(0)


async def test_a_crawl_that_was_stopped_goes_on_where_it_was_when_it_runs_again(tmp_path: Path) -> None:
    pace = PolitenessPolicy(delay_floor_s=0.01, per_address_concurrency=8)
    async with synthetic_web(21, hosts=3, pages_max=20, troubles=False) as web:
        async with crawling(web, tmp_path, policy=pace) as crawler:
            for _ in range(1_000):
                fetched = crawler.counts.fetched
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(crawler.run)
                    while crawler.counts.fetched < fetched + 20 and crawler.progress().due:
                        with anyio.move_on_after(0.005):
                            await anyio.sleep_forever()
                    crawler.stop()
                if not crawler.progress().due:
                    break
        assert web.fetched(web.requests()) == Counter(web.reachable(0))
