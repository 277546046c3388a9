"""The crawler and the archive store together, on the synthetic web; also as a process that is killed."""

import multiprocessing
import random
import signal
from collections import Counter
from collections.abc import Iterator
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from crawler.core.politeness import PolitenessPolicy
from crawler.core.scope import ScopeKind
from herodotus.core.errors import StoreRefusedError
from herodotus.core.index_rows import Unreachable
from herodotus.crawl import single_run
from herodotus.crawl.gear import CrawlOrder, canonical_seeds
from herodotus.crawl.single_run import crawl_into
from herodotus.machine import Machine
from herodotus.store import archive_at, open_store
from herodotus.store.upkeep import tidy_before_leaving
from tests.crawler.origin import origin, says
from tests.crawler.synthetic import FIRST_DAY, QUICK, SyntheticWeb, synthetic_web
from tests.herodotus.killed_crawl import crawl_as_process

DAY_S = 86_400
NOTHING = says(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n")


def wall_clock() -> float:
    return FIRST_DAY * DAY_S + 100.0


def order(web: SyntheticWeb, policy: PolitenessPolicy = QUICK) -> CrawlOrder:
    return CrawlOrder(
        urls=tuple(web.seeds), scope=ScopeKind.ANY, allow_private_addresses=True, politeness=policy
    )


async def archived(home: Path, urls: set[str]) -> Counter[str]:
    """How many captures the archive has of each."""
    async with open_store(archive_at(home, wall_clock), Machine()) as store:
        return Counter({url: len(found) for url in urls if (found := await store.history(url))})


@pytest.mark.anyio
async def test_a_crawl_ends_in_the_archive_and_the_next_day_adds_what_changed(tmp_path: Path) -> None:
    async with synthetic_web(11, hosts=4) as web:
        await crawl_into(tmp_path, order(web), Machine(), wall_clock=wall_clock, console=None)
        reachable = web.reachable(0)
        kept = await archived(tmp_path, reachable)
        first = answered_well(web) & set(kept)
        web.server.day = 1

        def tomorrow() -> float:
            return wall_clock() + DAY_S

        again = await crawl_into(tmp_path, order(web), Machine(), wall_clock=tomorrow, console=None)
        assert int(str(again["unchanged"])) > int(str(again["stored"])) > 0
        both = first & answered_well(web, 304)
        later = await archived(tmp_path, both)
        changed = web.oracle.changed(both, 0, 1)
        hidden = {
            url for url in changed if (place := web.oracle.place(url)) and place.host.validators == "stuck"
        }
        assert {url for url in both if later[url] > kept[url]} == changed - hidden
        assert changed - hidden


@pytest.mark.anyio
async def test_a_crawl_seals_what_it_stored_when_that_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(single_run, "tidy_before_leaving", partial(tidy_before_leaving, from_bytes=1))
    async with synthetic_web(13, hosts=2, pages_max=5) as web:
        ended = await crawl_into(tmp_path, order(web), Machine(), wall_clock=wall_clock, console=None)
        assert ended["ended"] == "done"
        assert list((tmp_path / "archive" / "segments").rglob("*.zst"))
        reachable = web.reachable(0)
        assert set(await archived(tmp_path, reachable)) == reachable


@pytest.mark.anyio
async def test_a_full_disk_ends_a_crawl_with_a_clear_error_and_it_goes_on_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with synthetic_web(13, hosts=2, pages_max=5) as web:
        room = iter([2**40] * 10)
        with monkeypatch.context() as patch:
            patch.setattr("herodotus.store.disk.OsDisk.free_bytes", lambda disk: next(room, 0))
            with pytest.raises(BaseExceptionGroup) as failed:
                await crawl_into(tmp_path, order(web), Machine(), wall_clock=wall_clock, console=None)
            # One for each fetch that was under way, and nothing else.
            assert all(
                isinstance(error, StoreRefusedError) and "the disk is full" in str(error)
                for error in leaves(failed.value)
            ), failed.value
        await crawl_into(tmp_path, order(web), Machine(), wall_clock=lambda: wall_clock() + 1, console=None)
        reachable = web.reachable(0)
        kept = await archived(tmp_path, reachable)
        assert set(web.fetched(web.requests())) == reachable
        assert set(kept.values()) == {1}


def leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from leaves(error)
        else:
            yield error


def answered_well(web: SyntheticWeb, *more: int) -> set[str]:
    return {str(line["url"]) for line in web.requests() if line["status"] in (200, *more)}


def after_requests(web: SyntheticWeb, count: int) -> anyio.Event:
    """Set when the server has answered so many more requests."""
    happened = anyio.Event()
    goal = web.server.statistics.requests + count
    answer = type(web.server).answer

    def counted(*arguments: Any) -> tuple[int, bytes, float, str]:
        if web.server.statistics.requests >= goal:
            happened.set()
        return answer(web.server, *arguments)

    vars(web.server)["answer"] = counted  # the test listens in
    return happened


async def killed_after(process: BaseProcess, enough: anyio.Event) -> bool:
    """Whether the process was killed when enough had happened; False: it came to its end before."""
    async with anyio.create_task_group() as tasks:

        async def kill() -> None:
            await enough.wait()
            process.kill()

        tasks.start_soon(kill)
        await anyio.to_thread.run_sync(process.join)
        tasks.cancel_scope.cancel()
    return process.exitcode == -signal.SIGKILL


@pytest.mark.e2e
@pytest.mark.timeout(300)
@pytest.mark.anyio
async def test_a_crawl_of_200_hosts_killed_20_times_ends_with_the_same_set_and_no_capture_twice(
    tmp_path: Path,
) -> None:
    # Forked by a server that has imported everything: 20 interpreters, started one by one, took a minute and more
    # beside other work, which is how this test once ran into its deadline.
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["tests.herodotus.killed_crawl"])
    chance = random.Random(20)
    killed = 0
    async with synthetic_web(12, hosts=200, pages_max=4, huge_bytes=300_000) as web:
        while True:
            enough = after_requests(web, chance.randrange(20, 200)) if killed < 20 else anyio.Event()
            # A second later each time: a page captured twice would have two versions.
            arguments = (str(tmp_path), web.seeds, wall_clock() + killed)
            process = processes.Process(target=crawl_as_process, args=arguments)
            process.start()
            if not await killed_after(process, enough):
                break
            killed += 1
        assert (killed, process.exitcode) == (20, 0)
        requests = web.requests()
        reachable = web.reachable(0)
        assert set(web.fetched(requests)) == reachable
        kept = await archived(tmp_path, reachable)
        answered = {str(line["url"]) for line in requests if line["status"] == 200} & reachable
    assert set(kept.values()) == {1}
    silent = {url for url in answered if asks_for_no_archive(web, url)}
    assert answered - set(kept) == silent


def asks_for_no_archive(web: SyntheticWeb, url: str) -> bool:
    return b'content="noarchive"' in web.oracle.get(url, 0).body


@pytest.mark.anyio
async def test_a_page_out_of_reach_is_told_with_its_history_until_it_answers_again(tmp_path: Path) -> None:
    page = says(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nhi")
    broken = says(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")
    day, port, url = 0, 0, ""

    def now() -> float:
        return wall_clock() + day * DAY_S

    async def crawl() -> None:
        what = CrawlOrder(urls=(url,), allow_private_addresses=True, politeness=QUICK)
        await crawl_into(tmp_path, what, Machine(), wall_clock=now, console=None)

    async def told() -> Unreachable | None:
        async with open_store(archive_at(tmp_path, now), Machine()) as store:
            assert len(await store.history(url)) == 1
            return await store.unreachable(url)

    async with origin({"/": page, "/robots.txt": NOTHING}) as site:
        url, port = site.url(), site.port
        await crawl()
    assert await told() is None
    day = 1
    await crawl()
    first = await told()
    assert first is not None
    assert (first.since_s, first.tries) == (now(), 1)
    assert first.reason.startswith("robots.txt could not be fetched")
    day = 2
    async with origin({"/": broken, "/robots.txt": NOTHING}, port=port):
        await crawl()
    assert await told() == Unreachable(first.since_s, int(now()), 2, "answered with 503")
    day = 3
    async with origin({"/": page, "/robots.txt": NOTHING}, port=port):
        await crawl()
    assert await told() is None


def test_seeds_are_what_a_person_types() -> None:
    assert canonical_seeds(["Example.org", "http://b.example/a#b"]) == (
        "https://example.org/",
        "http://b.example/a",
    )
