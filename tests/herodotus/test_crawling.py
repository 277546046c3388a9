"""The crawler and the archive store together, on the synthetic web; also as a process that is killed."""

import json
import os
import random
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import Process

from crawler.core.politeness import PolitenessPolicy
from crawler.core.scope import ScopeKind
from herodotus.crawl_once import crawl_into
from herodotus.crawling import CrawlOrder, canonical_seeds, open_archive_at
from tests.crawler.synthetic import FIRST_DAY, QUICK, SyntheticWeb, synthetic_web

DAY_S = 86_400


def wall_clock() -> float:
    return FIRST_DAY * DAY_S + 100.0


def order(web: SyntheticWeb, policy: PolitenessPolicy = QUICK) -> CrawlOrder:
    return CrawlOrder(
        urls=tuple(web.seeds), scope=ScopeKind.ANY, allow_private_addresses=True, politeness=policy
    )


async def archived(home: Path, urls: set[str]) -> Counter[str]:
    """How many captures the archive has of each."""
    async with open_archive_at(home, wall_clock=wall_clock) as store:
        return Counter({url: len(found) for url in urls if (found := await store.history(url))})


@pytest.mark.anyio
async def test_a_crawl_ends_in_the_archive_and_the_next_day_adds_what_changed(tmp_path: Path) -> None:
    async with synthetic_web(11, hosts=4) as web:
        await crawl_into(tmp_path, order(web), wall_clock=wall_clock, console=None)
        reachable = web.reachable(0)
        kept = await archived(tmp_path, reachable)
        first = answered_well(web) & set(kept)
        web.server.day = 1

        def tomorrow() -> float:
            return wall_clock() + DAY_S

        again = await crawl_into(tmp_path, order(web), wall_clock=tomorrow, console=None)
        assert int(str(again["unchanged"])) > int(str(again["stored"])) > 0
        both = first & answered_well(web, 304)
        later = await archived(tmp_path, both)
        changed = web.oracle.changed(both, 0, 1)
        hidden = {
            url for url in changed if (place := web.oracle.place(url)) and place.host.validators == "stuck"
        }
        assert {url for url in both if later[url] > kept[url]} == changed - hidden
        assert changed - hidden


def answered_well(web: SyntheticWeb, *more: int) -> set[str]:
    return {str(line["url"]) for line in web.requests() if line["status"] in (200, *more)}


CRAWL = """
import sys, anyio, json
from pathlib import Path
from typing import Any
from tests.herodotus.test_crawling import CrawlOrder, QUICK, ScopeKind, crawl_into, wall_clock
order = CrawlOrder(
    urls=tuple(json.loads(sys.argv[2])), scope=ScopeKind.ANY, allow_private_addresses=True, politeness=QUICK
)
anyio.run(lambda: crawl_into(Path(sys.argv[1]), order, wall_clock=wall_clock, console=None))
"""


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


async def kill_on(event: anyio.Event, process: Process) -> None:
    await event.wait()
    process.send_signal(signal.SIGKILL)


@pytest.mark.e2e
@pytest.mark.anyio
async def test_a_crawl_killed_again_and_again_ends_with_the_same_set_and_no_capture_twice(
    tmp_path: Path,
) -> None:
    chance = random.Random(20)
    root = Path(__file__).parent.parent.parent
    async with synthetic_web(12, hosts=6) as web:
        killed = 0
        arguments = [sys.executable, "-c", CRAWL, str(tmp_path), json.dumps(web.seeds)]
        while True:
            enough = after_requests(web, chance.randrange(3, 25)) if killed < 20 else anyio.Event()
            async with (
                await anyio.open_process(
                    arguments, cwd=root, env=os.environ | {"PYTHONPATH": str(root)}, stderr=None
                ) as process,
                anyio.create_task_group() as tasks,
            ):
                tasks.start_soon(kill_on, enough, process)
                await process.wait()
                tasks.cancel_scope.cancel()
            if process.returncode != -signal.SIGKILL:
                break
            killed += 1
        assert (killed, process.returncode) == (20, 0)
        requests = web.requests()
        reachable = web.reachable(0)
        assert set(web.fetched(requests)) == reachable
        kept = await archived(tmp_path, reachable)
        answered = {str(line["url"]) for line in requests if line["status"] == 200} & reachable
    assert set(kept.values()) == {1}
    assert len(answered - set(kept)) <= 3  # pages that ask not to be archived


def test_seeds_are_what_a_person_types() -> None:
    assert canonical_seeds(["Example.org", "http://b.example/a#b"]) == (
        "https://example.org/",
        "http://b.example/a",
    )
