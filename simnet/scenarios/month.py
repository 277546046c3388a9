"""Do whole peers keep a month of a changing web, whatever their machines go through?

Ring node, crawler and archive run as they are (`simnet.wholecrawl`), in a world of their own under trio; the run
that `simnet` drives only asks for its outcome.
"""

import tempfile
from pathlib import Path

import trio

from dht.core.rules import RingRules
from simnet.host import TrioCarrier, run_world
from simnet.rings import NETWORK
from simnet.runs import ScenarioRun, SimnetError
from simnet.scenarios import scenario
from simnet.trials import Figures
from simnet.web import Web, WebSettings
from simnet.web.site import DAY_S
from simnet.wholecrawl import EXAMPLES, CrawlingPeers, SimulatedServers
from simnet.world.faults import Fault
from simnet.world.network import LineQuality
from simnet.world.world import Silent, World

# A ring of a few that hardly changes: its periods are those of a charter for archives, not for file sharing.
RULES = RingRules(network=NETWORK, stabilize_s=600.0, digest_s=3_600.0, graveyard_s=3_600.0, rumour_s=60.0)
CRAWL_S = 900.0  # the faults of a day fall into its crawl


class _Month:
    """Run once, asked by several checkers."""

    def __init__(self, run: ScenarioRun) -> None:
        days = run.options.days or run.setting("for_days", 30, low=1, high=366)
        if days != int(days):
            raise SimnetError(f"a crawl takes place once a day: whole days, not {days:g}")
        self.days = int(days)
        hosts = int(run.setting("hosts_per_peer", 2, low=1, high=50)) * run.peers
        pages = int(run.setting("pages", 20, low=1, high=1_000))
        cuts = int(run.setting("cuts", 20, high=1_000))
        change = run.setting("change_share", 0.1, high=1.0)
        self.figures: Figures = {}
        self.complaints: dict[str, str | None] = {}
        self._seed, self._peers, self._run = run.options.seed, run.peers, run
        self._web = Web(
            WebSettings(
                seed=self._seed,
                hosts=hosts,
                names="test",
                pages_min=pages,
                pages_max=2 * pages,
                html_change_share=change,
                troubles=False,
            )
        )
        chance = run.world.chance("power")
        drawn = [
            Fault(
                kind="power fails",
                at_s=chance.randrange(self.days) * DAY_S + 60.0 + chance.random() * CRAWL_S,
                hosts=(chance.randrange(run.peers),),
                settings={"changes": float(chance.randrange(40))},
            )
            for _ in range(cuts)
        ]
        self.faults = run.choose(sorted(drawn, key=lambda fault: fault.at_s))

    def look(self, world: World, checker: str) -> str | None:
        if not self.complaints:
            with tempfile.TemporaryDirectory(prefix="simnet-") as folder:
                self._play(world, Path(folder))
        return self.complaints[checker]

    def _play(self, world: World, folder: Path) -> None:
        async def main(carrier: TrioCarrier) -> CrawlingPeers:
            servers = SimulatedServers(self._web, delay_floor_s=1.0)
            peers = CrawlingPeers(carrier, RULES, servers, folder, self._peers)
            for number in range(self._peers):
                peers.add((f"20.0.{number}.1", 4_484), start_at=float(number))
            carrier.world.plan(self.faults)
            carrier.poke()
            await trio.sleep(self.days * DAY_S - 1.0)
            self.figures["members at the end"] = float(
                sum(node.statistics().ring.nodes[0].is_member for node in peers.nodes.values())
            )
            self.figures["datagrams inside"] = float(carrier.world.network.counters.sent)
            await peers.audit_all()
            self._run.virtual_s = trio.current_time()
            world.trace.note(world.now, "inside", carrier.world.trace.digest())
            return peers

        peers = run_world(main, seed=self._seed, link=LineQuality(loss=0.01))
        self._sum_up(peers)
        for name, value in self.figures.items():
            world.trace.note(world.now, "figure", name, value)

    def _sum_up(self, peers: CrawlingPeers) -> None:
        days = [peers.days_done.get(number, 0) for number in range(self._peers)]
        self.figures |= {
            "requests": float(peers.servers.requests),
            "captures promised": float(sum(map(len, peers.promised.values()))),
            "pages compared": float(peers.pages_compared),
            "power cuts": float(peers.cuts),
            "captures recovered": float(peers.recovered),
            "days crawled by all": float(min(days)),
        }
        slow = [f"peer {number} finished {done} days" for number, done in enumerate(days) if done < self.days]
        self.complaints = {
            KEPT: _first(peers.lost),
            SAME: _first(peers.wrong),
            POLITE: _first(peers.servers.rude),
            DAILY: _first(slow),
        }


KEPT, SAME = "nothing acknowledged is lost", "archives equal the web, every day"
POLITE, DAILY = "origins are asked politely", "every day's crawl ends"


class _Asks(Silent):
    def __init__(self, name: str, month: _Month) -> None:
        self.name, self._month = name, month

    def at_end(self, world: World) -> str | None:
        return self._month.look(world, self.name)


def _first(complaints: list[str]) -> str | None:
    if not complaints:
        return None
    more = f" (and {len(complaints) - EXAMPLES:,} more)" if len(complaints) > EXAMPLES else ""
    return "; ".join(complaints[:EXAMPLES]) + more


@scenario("month-of-crawls", summary="whole peers crawl a web that changes daily, and their power fails",
          peers=3, peers_min=1, peers_max=20, seconds=1.0)  # fmt: skip
def month_of_crawls(run: ScenarioRun) -> None:
    month = _Month(run)
    run.check(*(_Asks(name, month) for name in (KEPT, SAME, POLITE, DAILY)))
    run.more_figures(lambda: month.figures)
    run.seconds = 1.0
