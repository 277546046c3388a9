"""Are many peers together as polite as one, whatever becomes of the stewards of the hosts?

Whole peers (`simnet.peers`) with endless work at every host, stewards that die and come back knowing nothing, calls
that are lost, a ring that is torn in two for a while; then hosts that change their minds, and a steward that lies.
"""

from collections import Counter
from dataclasses import replace
from itertools import count, islice, pairwise

import anyio
import anyio.abc

from crawler.core.lease_office import LeaseOffice
from crawler.core.politeness import LeaseTerms, OptOutList, PolitenessPolicy
from crawler.core.urls import Origin
from herodotus.core.captures import position_of
from herodotus.crawl.stewards import RingSteward
from herodotus.crawl.stewards.office import key_of_subject, subject_of
from herodotus.peer import Peer
from simnet.origins import FetchStart, Site
from simnet.peers import Member, Peers, PeersSettings
from simnet.runs import ScenarioRun
from simnet.scenarios import scenario
from simnet.scenarios.peers import PeersTrial, crowded, first_of
from simnet.web import WebSettings

NO_WEB = WebSettings(hosts=1, names="test", pages_min=1, pages_max=1)
"""Where all hosts are `Site`s."""
BEGUN_S = 30.0
"""So long after the last peer's start all have joined."""
NOTICED_S = 120.0
"""By then a ring that was torn is whole, and all peers know it."""
POLITE = "no host is asked twice within its delay"
TORN = "a torn ring asks at most twice as often, and only until it is whole"
SERVED = "every peer gets its turn at every host"
NEWS = "a change of robots.txt, a 429 and an opt-out are heeded by all within one lease"
LIAR = "askers of a steward that grants too much keep the charter's pace, each for itself"
REFUSALS_MAX = 10
"""Visits to a host that says 429, in ten minutes: backing off doubles; without it there would be three hundred."""


def settings_of(peers: int, delay_s: float = 2.0, copies: int = 1) -> PeersSettings:
    """Nothing but crawling, in a day that does not end."""
    return PeersSettings(
        peers=peers, copies=copies, delay_s=delay_s, day_s=86_400.0, wait_s=5.0, cross_fetch_share=0.0
    )


def terms_of(delay_s: float) -> LeaseTerms:
    return LeaseTerms.of(PolitenessPolicy(delay_floor_s=delay_s))


def add_sites(peers: Peers, *sites: str) -> list[Site]:
    """Each at an address of its own."""
    begin = len(peers.origins.sites)
    made = [Site(name=name, address=f"93.185.{at >> 8}.{at & 255}") for at, name in enumerate(sites, begin)]
    peers.origins.sites |= {site.name: site for site in made}
    return made


async def all_serve(peers: Peers) -> None:
    await anyio.sleep(BEGUN_S + 5.0 * len(peers.members))
    assert len(peers.serving) == len(peers.members), peers.fallen


async def give_work(peers: Peers, member: Member, each: int) -> None:
    """So many URLs of its own at every site."""
    for name in peers.origins.sites:
        owned = member.owned()  # again for each site: the ring changes while URLs are given
        urls = (f"http://{name}/{number}" for number in count())
        await peers.give(member, *islice((url for url in urls if position_of(url) in owned), each))


async def crowd(peers: Peers, each: int) -> None:
    """All have work, and no steward is silent any more."""
    await all_serve(peers)
    for member in peers.members:
        await give_work(peers, member, each)
    await anyio.sleep(terms_of(peers.settings.delay_s).silent_s + 1)


def steward_of(peers: Peers, name: str) -> Member:
    """As those see it that serve."""
    key = key_of_subject(subject_of(name))
    return next(one for one in peers.serving if one.stewards(key))


def steward_in(member: Member) -> RingSteward:
    assert member.peer is not None
    return member.peer._steward


async def deaths_of_stewards(peers: Peers, for_s: float) -> None:
    """Every now and then the steward of some host dies, and comes back knowing nothing. All serve at the end."""
    until, chance = anyio.current_time() + for_s, peers.chance
    while anyio.current_time() < until:
        await anyio.sleep(chance.uniform(20, 300))
        victim = steward_of(peers, chance.choice(sorted(peers.origins.sites)))
        peers.lose(victim, power_cut=chance.random() < 0.5)
        await peers.come_back(victim, chance.uniform(5, 200))
        await anyio.sleep(10.0)


def too_close(starts: list[FetchStart], delay_s: float) -> list[tuple[FetchStart, FetchStart]]:
    """Starts that followed one another too soon."""
    return [pair for pair in pairwise(starts) if pair[1].at - pair[0].at < delay_s - 1e-6]


def shares_of(starts: list[FetchStart]) -> Counter[int]:
    """By peer."""
    return Counter(start.peer for start in starts)


class _Trial(PeersTrial):
    def __init__(self, run: ScenarioRun) -> None:
        self._hosts = int(run.setting("hosts", 6, low=1, high=200))
        self._churn_s = run.setting("churn_s", 1_800.0, high=86_400.0)
        self._torn_s = run.setting("torn_s", 900.0, high=86_400.0)
        self._news_s = run.setting("news_s", 600.0, low=300.0, high=86_400.0)
        settings = settings_of(run.peers, run.setting("delay_s", 2.0, low=0.1, high=60.0))
        self._terms = terms_of(settings.delay_s)
        self._silent_s = run.setting("silent", self._terms.silent_s, high=3_600.0)
        super().__init__(run, settings, NO_WEB)

    async def live(self, peers: Peers, tasks: anyio.abc.TaskGroup) -> None:
        del tasks
        peers.prepare = self._silence
        add_sites(peers, *(f"h{number}.example" for number in range(self._hosts)))
        seconds = self._terms.silent_s + self._churn_s + 2 * self._torn_s + self._news_s
        await crowd(peers, int(2 * seconds / self._settings.delay_s / self._settings.peers) + 10)
        await deaths_of_stewards(peers, self._churn_s)
        patience_s = NOTICED_S + self._terms.life_s
        await anyio.sleep(patience_s)
        await peers.tear(self._torn_s, patience_s)
        await anyio.sleep(self._torn_s)
        news = News(peers)
        news.spread()
        self._judge(peers)
        await anyio.sleep(self._news_s)
        self.complaints |= {NEWS: first_of(news.unheard()), LIAR: first_of(news.hasty())}

    def _silence(self, peer: Peer) -> None:
        peer._steward._tenure._memory_s = self._silent_s

    def _judge(self, peers: Peers) -> None:
        """All that came before the news."""
        starts = peers.origins.starts
        starved = [
            f"peer {member.number} at {name}"
            for name in sorted(starts)
            for member in peers.members
            if not shares_of(starts[name])[member.number]
        ]
        fetches = sum(map(len, starts.values()))
        allowed = len(starts) * anyio.current_time() / self._settings.delay_s
        robots = sum(one.url.endswith("/robots.txt") for each in starts.values() for one in each)
        self.figures = {
            "fetches": float(fetches),
            "of what the delay allows": fetches / allowed,
            "robots.txt asked for": float(robots),
            "calls dialled": float(peers.around.lines.dialled),
            "kills": float(peers.counts.total()),
        }
        self.complaints = {
            POLITE: first_of([one.what for one in peers.origins.rude if not peers.is_torn(one.at)]),
            TORN: first_of(crowded(peers, self._settings.delay_s)),
            SERVED: first_of(starved),
        }


class News:
    """Some hosts change their minds, and one has a steward that lies: as many as there are hosts for."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        names = iter(sorted(peers.origins.sites))
        self._closed, self._busy, self._betrayed, self._shy = (next(names, None) for _ in range(4))
        self._liar = 0
        self._terms = terms_of(peers.settings.delay_s)
        self.at = 0.0

    def spread(self) -> None:
        peers, sites, self.at = self._peers, self._peers.origins.sites, anyio.current_time()
        if self._closed is not None:
            sites[self._closed].robots = "user-agent: *\ndisallow: /\n"
            core = steward_in(steward_of(peers, self._closed)).core
            core.doubt_rules(Origin(f"http://{self._closed}"))  # it is asked for again, as every day
        if self._busy is not None:
            sites[self._busy].trouble = lambda _now: 429
        if self._shy is not None:
            steward_in(steward_of(peers, self._shy)).office._opted_out = OptOutList.of([self._shy])
        if self._betrayed is not None:
            liar = steward_of(peers, self._betrayed)
            self._liar = liar.number
            hasty = replace(self._terms, policy=replace(self._terms.policy, delay_floor_s=0.01))
            steward_in(liar).office.books = LeaseOffice(hasty)

    def unheard(self) -> list[str]:
        found = []
        for name, most in ((self._closed, 0), (self._shy, 0), (self._busy, REFUSALS_MAX)):
            late = [start for start in self._starts(name) if start.at > self.at + self._terms.life_s + 1.0]
            if len(late) > most:
                last = f"last by peer {late[-1].peer} at {late[-1].at:.1f} s"
                found.append(f"{name} was visited {len(late)} times, {last}")
        return found

    def hasty(self) -> list[str]:
        found, delay_s = [], self._terms.policy.delay_floor_s
        for peer in sorted(shares_of(self._starts(self._betrayed))):
            own = [one for one in self._starts(self._betrayed) if one.peer == peer and one.at > self.at]
            if peer != self._liar and too_close(own, delay_s):
                found.append(f"peer {peer} at {self._betrayed}")
        return found

    def _starts(self, name: str | None) -> list[FetchStart]:
        return self._peers.origins.starts[name] if name is not None else []


@scenario("steward", summary="peers share hosts by leases while stewards die and the ring is torn",
          peers=10, peers_min=2, peers_max=50, seconds=1.0)  # fmt: skip
def steward(run: ScenarioRun) -> None:
    _Trial(run).ask(POLITE, TORN, SERVED, NEWS, LIAR)
