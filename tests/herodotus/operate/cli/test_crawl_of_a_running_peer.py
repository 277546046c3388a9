"""A peer as a process of its own that crawls by itself: ordered about, killed, and begun again."""

import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from herodotus.operate.http_questions import ask
from tests.crawler.synthetic import SyntheticWeb, synthetic_web
from tests.herodotus.operate.cli.processes import RunningPeer, called, new_home, running

pytestmark = [pytest.mark.e2e, pytest.mark.anyio, pytest.mark.timeout(180)]


async def status_when(peer: RunningPeer, fact: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The first status of the crawl of which that is true."""
    with anyio.fail_after(90):
        while True:
            facts = await anyio.to_thread.run_sync(ask, peer.http, "/api/v1/status")
            if fact(facts["crawl"]):
                found: dict[str, Any] = facts["crawl"]
                return found
            with anyio.move_on_after(0.05):
                await anyio.sleep_forever()


async def do(*arguments: str | Path) -> Any:
    return await anyio.to_thread.run_sync(lambda: called(*arguments))


def is_done(crawl: dict[str, Any]) -> bool:
    return bool(crawl["state"] == "done for today" and crawl["due"] == 0)


async def versions(home: Path, web: SyntheticWeb) -> Counter[str]:
    found = {url: await do("history", "--home", home, "--json", url) for url in web.reachable(0)}
    return Counter({url: len(one.json) for url, one in found.items() if one.code == 0})


async def test_a_running_peer_crawls_its_seeds_and_takes_orders(tmp_path: Path) -> None:
    home = new_home(tmp_path / "home")
    async with synthetic_web(31, hosts=3, pages_max=10, troubles=False) as web:
        first, second, third = web.seeds
        with running(home) as peer:
            paused = await do("pause", "--home", home, "--json")
            assert (paused.code, paused.json) == (0, {"state": "paused"}), paused.err
            added = await do("seed", "add", "--home", home, first, second)
            assert added.code == 0, added.err
            handed = await do("crawl", "--home", home, "--json", third)
            assert (handed.code, handed.json) == (0, {"ended": "handed over", "urls": 1, "new": 1}), (
                handed.err
            )
            crawl = await status_when(peer, lambda crawl: crawl["state"] == "paused")
            assert (crawl["known"], crawl["due"], web.requests()) == (3, 3, [])
            resumed = await do("resume", "--home", home, "--json")
            assert resumed.json == {"state": "crawling"}
            crawl = await status_when(peer, is_done)
            assert (crawl["failed"], crawl["fetched"]) == (0, crawl["known"])
            refused = await do("crawl", "--home", home, third, "--delay", "2")
            assert (refused.code, "leave out --delay, which its settings say" in refused.err) == (2, True)
            refused = await do("crawl", "--home", home)
            assert (refused.code, "it crawls its seeds by itself" in refused.err) == (2, True)
            watched = await do("crawl", "--home", home, "--json", "--resume", "--wait", "60")
            assert (watched.code, watched.json["urls"]) == (0, 0), watched.err  # known: not given again
            (told,) = watched.json["seeds"]
            assert (told["url"], told["state"], told["waiting"], told["failed"]) == (third, "archived", 0, 0)
            assert told["found"] == told["stored"] > 1
            alone = await do(
                "crawl", "--home", home, third, "--scope", "page", "--content", "html", "--wait", "9"
            )
            assert (alone.code, "0 of them new to it" in alone.err) == (0, True), alone.err
            assert f"{third}  archived" in alone.err
            listed = await do("seed", "list", "--home", home)
            assert f"{first}\n    archived, next visit " in listed.out
            assert "\n    host: found " in listed.out
            assert web.fetched(web.requests()) == Counter(web.reachable(0))
            shown = await do("status", "--home", home)
            assert "Nothing is due now: " in shown.out
            assert "done for today" in (await do("status", "--home", home, "--verbose")).out
            code, _, err = await anyio.to_thread.run_sync(peer.end)
            assert (code, "Traceback" in err) == (0, False), err


async def test_a_peer_at_rest_can_be_paused(tmp_path: Path) -> None:
    home = new_home(tmp_path / "home")
    assert (await do("pause", "--home", home)).code == 0
    async with synthetic_web(32, hosts=1, pages_max=5, troubles=False) as web:
        with running(home, "--seed", web.seeds[0]) as peer:
            await status_when(peer, lambda crawl: crawl["state"] == "paused")
            assert web.requests() == []
            assert (await do("resume", "--home", home)).code == 0
            await status_when(peer, is_done)
        assert set(web.fetched(web.requests())) == web.reachable(0)
    assert "not paused" in (await do("resume", "--home", home)).err


async def test_a_pause_is_for_a_time_that_the_status_tells(tmp_path: Path) -> None:
    home = new_home(tmp_path / "home")
    rested = await do("pause", "--home", home, "--for", "1h30m", "--json")
    assert (rested.code, rested.json) == (0, {"state": "paused", "paused_s": 5_400}), rested.err
    for wrong in ("0m", "soon", "", "30", "9999999d", "-5m", "5m5m"):
        refused = await do("pause", "--home", home, "--for", wrong)
        assert (refused.code, "30m, 2h" in refused.err) == (2, True), wrong
    with running(home) as peer:
        crawl = await status_when(peer, lambda crawl: crawl["state"] == "paused")
        assert (
            5_300
            < (await anyio.to_thread.run_sync(ask, peer.http, "/api/v1/status"))["crawl"]["paused_s"]
            <= 5_400
        )
        longer = await do("pause", "--home", home)
        assert (longer.code, "paused" in longer.err) == (0, True)
        crawl = await status_when(peer, lambda crawl: crawl["paused_s"] is None)
        assert crawl["state"] == "paused"
        facts = await anyio.to_thread.run_sync(ask, peer.http, "/api/v1/status")
        assert facts["budget"]["closed_by"] == ["paused"]
        assert (await do("resume", "--home", home)).code == 0
        crawl = await status_when(peer, lambda crawl: crawl["state"] != "paused")
        assert crawl["paused_s"] == 0


async def test_a_peer_killed_while_it_crawls_goes_on_and_captures_nothing_twice(tmp_path: Path) -> None:
    home = new_home(tmp_path / "home")
    async with synthetic_web(33, hosts=12, pages_max=12, troubles=False) as web:
        reachable = web.reachable(0)
        seeds = [word for url in web.seeds for word in ("--seed", url)]
        for share in (0.2, 0.5):
            with running(home, *seeds) as peer:
                with anyio.fail_after(60):
                    while web.server.statistics.requests < share * len(reachable):
                        with anyio.move_on_after(0.005):
                            await anyio.sleep_forever()
                await anyio.to_thread.run_sync(peer.end, signal.SIGKILL)
        with running(home) as peer:
            await status_when(peer, is_done)
            assert await anyio.to_thread.run_sync(peer.end) is not None
        assert set(web.fetched(web.requests())) == reachable
        kept = await versions(home, web)
    assert set(kept) == reachable
    assert set(kept.values()) == {1}
