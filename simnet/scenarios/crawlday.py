"""Do many peers crawl one web as one peer would, day after day, whatever happens to them?

Ring, links, leases and the daily crawl run as they are (`simnet.crawlworld`), in a world of their own under trio; peers
are killed and come back, some without their disk, some never; calls and datagrams are lost, clocks differ, and once the
ring is torn in two. The run that `simnet` drives only asks for the outcome.
"""

import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import anyio
import trio
import trio.testing

from simnet.crawlworld import CrawlPeer, CrawlWorld, CrawlWorldSettings
from simnet.host import repeatable_trio
from simnet.rings import how_right
from simnet.runs import ScenarioRun, SimnetError
from simnet.scenarios import scenario
from simnet.trials import Figures
from simnet.trioring import members
from simnet.web import Web, WebSettings
from simnet.world.world import Silent, World

EXAMPLES = 3  # named in a complaint
AWAY_S = (60.0, 900.0)
RINGS_PATIENCE_S = 900.0
"""After a tear: by then the ring is whole."""
DAILY = "nothing that can be reached is missed on two days in a row"
POLITE = "no host is asked twice within its delay"
TORN = "a torn ring asks at most twice as often"
MEMORY_FOLDER = Path("/dev/shm")  # noqa: S108  # a new folder in it; there syncing costs nothing


class _Days:
    """Run once, asked by several checkers."""

    def __init__(self, run: ScenarioRun) -> None:
        days = run.options.days or run.setting("for_days", 2, low=2, high=60)
        if days != int(days) or days < 2:
            raise SimnetError(f"a URL may be late by a day: at least two whole days, not {days:g}")
        self.days, self._run = int(days), run
        self._settings = CrawlWorldSettings(
            peers=run.peers,
            day_s=run.setting("day_s", 3_600.0, low=600.0, high=86_400.0),
            delay_s=run.setting("delay_s", 1.0, low=0.1, high=60.0),
            loss=run.setting("loss", 0.02, high=0.3),
            skew_s=run.setting("skew_s", 30.0, high=3_600.0),
        )
        self._kills = run.setting("kills", 0.5, high=10.0)  # of each peer, a day
        self._wiped = run.setting(
            "wiped", 0.05, high=1.0
        )  # of those killed: they come back with an empty disk
        self._gone = run.setting("gone", 0.02, high=1.0)  # of those killed: they do not come back
        self._torn_s = run.setting("torn_s", 600.0, high=3_600.0)
        pages = int(run.setting("pages", 8, low=1, high=1_000))
        self._web = Web(
            WebSettings(
                seed=run.options.seed,
                hosts=int(run.setting("hosts", 20, low=1, high=2_000)),
                names="test",
                pages_min=pages,
                pages_max=4 * pages,
                html_change_share=0.1,
                troubles=False,
            )
        )
        self.figures: Figures = {}
        self.complaints: dict[str, str | None] = {}

    def look(self, world: World, checker: str) -> str | None:
        if not self.complaints:
            is_there = MEMORY_FOLDER.is_dir()
            with tempfile.TemporaryDirectory(
                prefix="simnet-", dir=MEMORY_FOLDER if is_there else None
            ) as folder:
                self._play(Path(folder))
            for name, value in self.figures.items():
                world.trace.note(world.now, "figure", name, value)
        return self.complaints[checker]

    def _play(self, folder: Path) -> None:
        seed = self._run.options.seed
        crawl = CrawlWorld(folder, seed, self._web, self._settings)

        async def main() -> None:
            async with crawl.running(), anyio.create_task_group() as tasks:
                seeds = crawl.servers.oracle.front_pages()
                await crawl.seed(seeds)
                tasks.start_soon(self._churn, crawl)
                await self._tear(crawl)
                await trio.sleep_until(self.days * self._settings.day_s - 2 * self._settings.skew_s)
                self._run.virtual_s = trio.current_time()
                self._judge(crawl, seeds)
                tasks.cancel_scope.cancel()

        with repeatable_trio(seed):
            trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))

    # --- what happens to them

    async def _churn(self, crawl: CrawlWorld) -> None:
        every_s = self._settings.day_s / max(self._kills * self._settings.peers, 1e-9)
        async with anyio.create_task_group() as tasks:
            while True:
                await anyio.sleep(crawl.chance.expovariate(1 / every_s))
                peer = crawl.chance.choice(crawl.peers)
                fate = crawl.chance.random()
                away_s = crawl.chance.uniform(*AWAY_S)
                is_spared = self._is_torn(crawl) or not peer.is_up.is_set() or peer.life.cancel_called
                if not is_spared and len(crawl.rings.rings) > max(2, self._settings.peers // 2):
                    tasks.start_soon(self._suffer, crawl, peer, fate, away_s)

    async def _suffer(self, crawl: CrawlWorld, peer: CrawlPeer, fate: float, away_s: float) -> None:
        await crawl.kill(peer)
        if fate < self._gone:
            crawl.counts["gone for good"] += 1
            return
        await anyio.sleep(away_s)
        await crawl.revive(peer, has_disk=fate > self._gone + self._wiped)

    def _is_torn(self, crawl: CrawlWorld) -> bool:
        """Or was lately: then nobody is killed, so that the time until the ring is whole can be told."""
        return (
            bool(crawl.torn_times) and anyio.current_time() < crawl.torn_times[-1][1] + RINGS_PATIENCE_S / 3
        )

    async def _tear(self, crawl: CrawlWorld) -> None:
        if not self._torn_s:
            return
        day = crawl.chance.randrange(self.days)
        await trio.sleep_until((day + 0.2 + 0.5 * crawl.chance.random()) * self._settings.day_s)
        crawl.tear({peer.key: peer.number % 2 for peer in crawl.peers})
        await anyio.sleep(self._torn_s)
        crawl.heal()
        with anyio.move_on_after(RINGS_PATIENCE_S):
            while how_right(crawl.rings.world) != (1.0, 1.0):  # noqa: ASYNC110  # a ring does not tell of it
                await anyio.sleep(5.0)
        crawl.torn_times[-1] = (crawl.torn_times[-1][0], anyio.current_time() + crawl.terms.life_s)

    # --- what came of it

    def _judge(self, crawl: CrawlWorld, seeds: list[str]) -> None:
        oracle, visits = crawl.servers.oracle, crawl.visits
        due = [oracle.reachable(seeds, day) for day in range(self.days)]
        missed = [urls - visits[day].keys() for day, urls in enumerate(due)]
        late = [
            f"{url} on days {day} and {day + 1}"
            for day in range(self.days - 1)
            for url in sorted(missed[day] & missed[day + 1])
        ]
        pages = [fetchers for day in visits.values() for url, fetchers in day.items() if not _is_robots(url)]
        again = sum(len(fetchers) - 1 for fetchers in pages)
        self.figures |= {
            "URLs on the last day": float(len(due[-1])),
            "fetches of pages": float(sum(map(len, pages))),
            "share fetched once more on a day": again / max(1, sum(map(len, pages))),
            "robots.txt asked for": float(
                sum(len(who) for day in visits.values() for url, who in day.items() if _is_robots(url))
            ),
            "members at the end": float(members(crawl.rings, [peer.key for peer in crawl.peers])),
            "torn until": crawl.torn_times[-1][1] if crawl.torn_times else 0.0,
        }
        self.figures |= {f"missed on day {day}": float(len(urls)) for day, urls in enumerate(missed)}
        self.figures |= {name: float(count) for name, count in sorted(crawl.counts.items())}
        self.figures |= {f"calls of {name}": float(count) for name, count in sorted(crawl.net.calls.items())}
        delay_s = self._settings.delay_s
        self.complaints = {
            DAILY: _first(late),
            POLITE: _first(list(self._rude(crawl, delay_s))),
            TORN: _first(list(_crowded(crawl, delay_s))),
        }

    def _rude(self, crawl: CrawlWorld, delay_s: float) -> Iterator[str]:
        for host, starts in sorted(crawl.servers.starts.items()):
            for first, second in pairwise(starts):
                gap_s = second.at - first.at
                is_torn = any(begin < first.at and second.at < end for begin, end in crawl.torn_times)
                if gap_s < delay_s - 1e-6 and not is_torn:
                    yield f"{host} by {first.peer} and {second.peer} at {second.at:.1f} s, {gap_s:.2f} s apart"


def _crowded(crawl: CrawlWorld, delay_s: float) -> Iterator[str]:
    for host, starts in sorted(crawl.servers.starts.items()):
        for one, _, third in zip(starts, starts[1:], starts[2:], strict=False):
            if third.at - one.at < delay_s - 1e-6:
                yield f"{host} three times within {third.at - one.at:.2f} s at {third.at:.1f} s"


def _is_robots(url: str) -> bool:
    return url.endswith("/robots.txt")


def _first(complaints: list[str]) -> str | None:
    if not complaints:
        return None
    more = f" (and {len(complaints) - EXAMPLES:,} more)" if len(complaints) > EXAMPLES else ""
    return "; ".join(complaints[:EXAMPLES]) + more


class _Asks(Silent):
    def __init__(self, name: str, days: _Days) -> None:
        self.name, self._days = name, days

    def at_end(self, world: World) -> str | None:
        return self._days.look(world, self.name)


@scenario("crawl-day", summary="whole peers crawl one web for days, under churn, loss, wrong clocks and a tear",
          peers=20, peers_min=2, peers_max=500, seconds=1.0)  # fmt: skip
def crawl_day(run: ScenarioRun) -> None:
    days = _Days(run)
    run.check(*(_Asks(name, days) for name in (DAILY, POLITE, TORN)))
    run.more_figures(lambda: days.figures)
    run.seconds = 1.0
