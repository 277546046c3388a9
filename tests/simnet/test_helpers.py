"""A peer that nobody can call fetches for the others: each URL once a day all the same, and politely."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field

import anyio
import pytest

from crawler.core.capture import Capture
from crawler.core.politeness import Wait
from crawler.ports import Fetcher, FetchRequest, Skipped
from herodotus.core.status import PeerStatus
from herodotus.peer import Peer
from simnet.peers import Member, Peers, PeersSettings, run_peers
from simnet.web import Web, WebSettings

pytestmark = pytest.mark.timeout(300)
DAY_S = 1_800.0
DAYS = 2


@dataclass
class Outcome:
    fetched_by_leaf: list[int] = field(default_factory=list)
    twice: list[int] = field(default_factory=list)
    """URLs that servers saw more than once on a day, and the looks again that explain them."""
    missed: list[set[str]] = field(default_factory=list)
    rude: list[str] = field(default_factory=list)
    fallen: list[str] = field(default_factory=list)
    leaf: list[PeerStatus] = field(default_factory=list)
    owners: list[list[PeerStatus]] = field(default_factory=list)
    read: list[int] = field(default_factory=list)


def live(seed: int, foul: Callable[[Fetcher], Fetcher] | None = None) -> Outcome:
    outcome = Outcome()

    async def story(peers: Peers) -> None:
        leaf = peers.members[-1]
        if foul is not None:
            _play_foul(peers, foul)
        await anyio.sleep(90.0)
        seeds = peers.origins.oracle.front_pages()
        await peers.seed(seeds)
        for day in range(DAYS):
            await anyio.sleep(DAY_S * (day + 1) - 5.0 - anyio.current_time())
            await _look(peers, leaf, day, outcome)
        for url in seeds:
            found = await peers.read(leaf, f"/web/20300101000000id_/{url}")
            if found is not None and found.status == 302:  # to the moment of the capture, at the same portal
                found = await peers.read(leaf, "/web/" + found.headers["Location"].partition("/web/")[2])
            outcome.read.append(0 if found is None else int(found.status))
        outcome.rude = [one.what for one in peers.origins.rude]
        outcome.fallen = peers.fallen

    web = WebSettings(
        seed=seed, hosts=6, names="test", pages_min=8, pages_max=24, html_change_share=0.1, troubles=False
    )
    run_peers(
        story, PeersSettings(peers=4, leaves=1, day_s=DAY_S, cross_fetch_share=0.0), Web(web), seed=seed
    )
    return outcome


async def _look(peers: Peers, leaf: Member, day: int, outcome: Outcome) -> None:
    visits = peers.origins.visits[day]
    pages = {url: who for url, who in visits.items() if not url.endswith("/robots.txt")}
    outcome.missed.append(
        peers.origins.oracle.reachable(peers.origins.oracle.front_pages(), day) - visits.keys()
    )
    outcome.fetched_by_leaf.append(sum(who.count(leaf.number) for who in pages.values()))
    outcome.twice.append(sum(len(who) - 1 for who in pages.values()))
    assert leaf.peer is not None
    outcome.leaf.append(await leaf.peer.status())
    outcome.owners.append([await one.peer.status() for one in peers.serving if one is not leaf and one.peer])


@dataclass
class Altering:
    """A fetcher whose every page says something else than its origin."""

    inner: Fetcher

    async def address_of(self, host: str) -> str | Wait:
        return await self.inner.address_of(host)

    async def fetch(self, request: FetchRequest) -> Capture | Skipped:
        found = await self.inner.fetch(request)
        if isinstance(found, Skipped) or found.status != 200:
            return found
        return dataclasses.replace(found, body=found.body + b"altered")


@dataclass
class Silent:
    """A fetcher that asks the origin and then says nothing for ever."""

    inner: Fetcher

    async def address_of(self, host: str) -> str | Wait:
        return await self.inner.address_of(host)

    async def fetch(self, request: FetchRequest) -> Capture | Skipped:
        await self.inner.fetch(request)
        await anyio.sleep_forever()
        raise AssertionError("for ever")


def _play_foul(peers: Peers, foul: Callable[[Fetcher], Fetcher]) -> None:
    leaf = peers.members[-1]

    def prepare(peer: Peer) -> None:
        if peer._parts.key is leaf.key:
            helping = peer._helping
            helping._parts = dataclasses.replace(helping._parts, fetcher=foul(helping._parts.fetcher))

    peers.prepare = prepare


def test_a_leaf_fetches_for_others_and_every_url_still_comes_once_a_day_apart_from_looks_again() -> None:
    outcome = live(1)
    assert outcome.fallen == outcome.rude == []
    assert not any(outcome.missed)
    assert min(outcome.fetched_by_leaf) > 0
    looks = [sum(one.helpers.checked for one in owners) for owners in outcome.owners]
    assert outcome.twice == [looks[0], looks[1] - looks[0]]
    for day, status in enumerate(outcome.leaf):
        assert status.helping.is_helper
        assert status.helping.fetched == outcome.fetched_by_leaf[day]
        assert status.ring.arcs == ()
        assert status.crawl.fetched == 0
    assert set(outcome.read) == {200}
    assert all(
        one.helpers.differed == one.helpers.lost == one.helpers.late == 0 for one in outcome.owners[-1]
    )


def test_a_leaf_that_alters_pages_has_no_work_soon_and_nothing_is_missed() -> None:
    outcome = live(2, Altering)
    assert outcome.fallen == outcome.rude == []
    assert not any(outcome.missed)
    last = [one.helpers for one in outcome.owners[-1]]
    assert any(one.barred for one in last)
    assert all(one.differed >= 3 for one in last if one.barred)
    assert sum(one.given for one in last) < 60


def test_a_leaf_that_asks_and_never_tells_holds_nobody_up_for_long() -> None:
    """A fetch of it ends when its result is late, and it says so; an owner then asks by itself."""
    outcome = live(3, Silent)
    assert outcome.fallen == outcome.rude == []
    assert not any(outcome.missed)
    last = [one.helpers for one in outcome.owners[-1]]
    assert sum(one.lost for one in last) > 0
    assert sum(one.brought for one in last) == 0
    assert outcome.twice[-1] <= sum(one.lost for one in last)
