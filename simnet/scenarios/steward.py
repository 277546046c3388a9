"""Are many peers together as polite as one, whatever becomes of the stewards of the hosts?

Peers with endless work at every host, stewards that die and come back knowing nothing, calls that are lost, a ring
that is torn in two for a while; then hosts that change their minds, and a steward that lies: the shells of
`herodotus.crawl.stewards` as they are, in `simnet.stewards`. The run that
`simnet` drives only asks for the outcome.
"""

from dataclasses import replace
from itertools import pairwise

import anyio
import anyio.abc

from crawler.core.lease_office import LeaseOffice
from crawler.core.politeness import LeaseTerms, OptOutList, PolitenessPolicy
from crawler.core.urls import Origin
from simnet.runs import ScenarioRun, SimnetError
from simnet.scenarios import scenario
from simnet.stewards import (
    GrantedStart,
    StewardWorld,
    churn,
    crowd,
    in_virtual_time,
    most_within,
    share_of,
    steward_of,
    too_close,
)
from simnet.trials import Figures
from simnet.world.world import Silent, World

EXAMPLES = 3  # named in a complaint
TORN_S = 900.0
POLITE = "no host is asked twice within its delay"
TORN = "a torn ring asks at most twice as often, and only until it is whole"
SERVED = "every peer gets its turn at every host"
NEWS = "a change of robots.txt, a 429 and an opt-out are heeded by all within one lease"
LIAR = "askers of a steward that grants too much keep the charter's pace, each for itself"
NEWS_S = 600.0
REFUSALS_MAX = 10
"""Visits to a host that says 429, in so long: backing off doubles; without it there would be three hundred."""


class _Trial:
    """Run once, asked by several checkers."""

    def __init__(self, run: ScenarioRun) -> None:
        self._run = run
        self._hosts = int(run.setting("hosts", 6, low=1, high=200))
        self._churn_s = run.setting("churn_s", 1_800.0, high=86_400.0)
        self._loss = run.setting("loss", 0.02, high=0.5)
        policy = PolitenessPolicy(delay_floor_s=run.setting("delay_s", 2.0, low=0.1, high=60.0))
        terms = LeaseTerms.of(policy)
        silent_s = run.setting("silent", terms.silent_s, high=3_600.0)
        if run.peers < 2:
            raise SimnetError("a single peer is its own steward: at least 2")
        self._policy, self._terms = policy, replace(terms, silent_s=silent_s)
        self.figures: Figures = {}
        self.complaints: dict[str, str | None] = {}

    def look(self, world: World, checker: str) -> str | None:
        if not self.complaints:
            in_virtual_time(self._play, seed=self._run.options.seed)
            for name, value in self.figures.items():
                world.trace.note(world.now, "figure", name, value)
        return self.complaints[checker]

    async def _play(self, tasks: anyio.abc.TaskGroup) -> None:
        seed = self._run.options.seed
        world = StewardWorld(tasks, self._policy, seed=seed, loss=self._loss, terms=self._terms)
        await crowd(world, hosts=self._hosts, peers=self._run.peers)
        await churn(world, self._churn_s)
        await anyio.sleep(world.noticed_s_max + self._terms.life_s)
        parted_at = anyio.current_time()
        for peer in world.peers:
            peer.side = peer.number % 2
        world.members_changed()
        await anyio.sleep(TORN_S)
        for peer in world.peers:
            peer.side = 0
        world.members_changed()
        over_at = anyio.current_time() + world.noticed_s_max + self._terms.life_s
        await anyio.sleep(TORN_S)
        news = News(world)
        news.spread()
        await anyio.sleep(NEWS_S)
        self._run.virtual_s = anyio.current_time()
        self._judge(world, parted_at, over_at, news.at)
        self.complaints |= {NEWS: _first(news.unheard(self._terms)), LIAR: _first(news.hasty(self._policy))}

    def _judge(self, world: StewardWorld, parted_at: float, over_at: float, news_at: float) -> None:
        delay_s = self._policy.delay_floor_s
        rude, torn, starved = [], [], []
        for name, whole in sorted(world.hosts.items()):
            host = replace(whole, starts=[start for start in whole.starts if start.at <= news_at])
            for first, second in too_close(host, delay_s):
                if not (parted_at < first.at and second.at < over_at):
                    gap_s = second.at - first.at
                    rude.append(
                        f"{name} by peers {first.peer} and {second.peer} at {second.at:.1f} s, {gap_s:.2f} s apart"
                    )
            if most_within(host, delay_s) > 2:
                torn.append(f"{name} {most_within(host, delay_s)} times within {delay_s:g} s")
            shares = share_of(world, name)
            starved += [
                f"peer {peer.number} at {name}" for peer in world.peers if not shares.get(peer.number)
            ]
        fetches = sum(len(host.starts) for host in world.hosts.values())
        seconds = anyio.current_time()
        calls = sum(peer.steward.status().calls for peer in world.peers)
        self.figures |= {
            "fetches": float(fetches),
            "of what the delay allows": fetches / (len(world.hosts) * seconds / delay_s),
            "starts of one host in a minute, at most": float(
                max(most_within(host, 60.0) for host in world.hosts.values())
            ),
            "robots.txt asked for": float(sum(host.robots_asked for host in world.hosts.values())),
            "calls of the last lives": float(calls),
        }
        self.complaints = {POLITE: _first(rude), TORN: _first(torn), SERVED: _first(starved)}


class News:
    """Some hosts change their minds, and one has a steward that lies: as many as there are hosts for."""

    def __init__(self, world: StewardWorld) -> None:
        self._world = world
        names = iter(sorted(world.hosts))
        self._closed, self._busy, self._betrayed, self._shy = (next(names, None) for _ in range(4))
        self._liar = 0
        self.at = 0.0

    def spread(self) -> None:
        world, self.at = self._world, anyio.current_time()
        if self._closed is not None:
            world.hosts[self._closed].robots = b"user-agent: *\ndisallow: /\n"
            core = steward_of(world, self._closed).steward.core
            core.doubt_rules(Origin(f"http://{self._closed}"))  # it is asked for again, as every day
        if self._busy is not None:
            world.hosts[self._busy].trouble = lambda _now: 429
        if self._shy is not None:
            steward_of(world, self._shy).steward.office._opted_out = OptOutList.of([self._shy])
        if self._betrayed is not None:
            liar = steward_of(world, self._betrayed)
            self._liar = liar.number
            hasty = replace(world.terms, policy=replace(world.terms.policy, delay_floor_s=0.01))
            liar.steward.office.books = LeaseOffice(hasty)

    def unheard(self, terms: LeaseTerms) -> list[str]:
        found, from_s = [], self.at + terms.life_s + self._world.noticed_s_max
        for name, most in ((self._closed, 0), (self._shy, 0), (self._busy, REFUSALS_MAX)):
            late = [start for start in self._starts(name) if start.at > from_s]
            if len(late) > most:
                last = f"last by peer {late[-1].peer} at {late[-1].at:.1f} s"
                found.append(f"{name} was visited {len(late)} times, {last}")
        return found

    def hasty(self, policy: PolitenessPolicy) -> list[str]:
        found = []
        for peer in self._world.peers:
            own = [
                one for one in self._starts(self._betrayed) if one.peer == peer.number and one.at > self.at
            ]
            gaps = (second.at - first.at for first, second in pairwise(own))
            if (
                peer.number != self._liar
                and min(gaps, default=policy.delay_floor_s) < policy.delay_floor_s - 1e-6
            ):
                found.append(f"peer {peer.number} at {self._betrayed}")
        return found

    def _starts(self, name: str | None) -> list[GrantedStart]:
        return sorted(self._world.hosts[name].starts) if name is not None else []


def _first(complaints: list[str]) -> str | None:
    if not complaints:
        return None
    more = f" (and {len(complaints) - EXAMPLES:,} more)" if len(complaints) > EXAMPLES else ""
    return "; ".join(complaints[:EXAMPLES]) + more


class _Asks(Silent):
    def __init__(self, name: str, trial: _Trial) -> None:
        self.name, self._trial = name, trial

    def at_end(self, world: World) -> str | None:
        return self._trial.look(world, self.name)


@scenario("steward", summary="peers share hosts by leases while stewards die and the ring is torn",
          peers=10, peers_min=2, peers_max=500, seconds=1.0)  # fmt: skip
def steward(run: ScenarioRun) -> None:
    trial = _Trial(run)
    run.check(*(_Asks(name, trial) for name in (POLITE, TORN, SERVED, NEWS, LIAR)))
    run.more_figures(lambda: trial.figures)
    run.seconds = 1.0
