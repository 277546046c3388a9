"""Many whole peers, their stewards and the hosts between them, in virtual time: is anybody ever rude, or starved?"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import count

import anyio
import anyio.abc
import pytest

from crawler.core.lease_office import LeaseOffice
from crawler.core.politeness import STARTS_MAX, Lease, OptOutList, OriginReport
from crawler.core.urls import Origin
from herodotus.core import pacer
from herodotus.core.pacer import NARROW, SLOW_AFTER_S
from herodotus.crawl.stewards.ask_queue import ASK_SERVICE
from herodotus.crawl.stewards.office import key_of_subject, subject_of
from herodotus.crawl.stewards.wire import Ask, encode_asks
from herodotus.peer import Peer
from herodotus.peers.calls import CallError
from simnet.origins import FetchStart, Site
from simnet.peers import Member, Peers, run_peers
from simnet.scenarios.peers import crowded
from simnet.scenarios.steward import (
    NO_WEB,
    NOTICED_S,
    add_sites,
    all_serve,
    crowd,
    deaths_of_stewards,
    give_work,
    settings_of,
    shares_of,
    steward_in,
    steward_of,
    terms_of,
    too_close,
)
from simnet.web import Web
from simnet.world.world import World

pytestmark = pytest.mark.timeout(600)
TERMS = terms_of(2.0)
NEWS_S = 20.0
"""By then all members have heard what one says of itself."""
ENDLESS = 600
"""URLs of each peer at each host: more than any story here can fetch."""

Story = Callable[[Peers], Awaitable[None]]


def run(
    seed: int,
    story: Story,
    *,
    peers: int = 4,
    copies: int = 1,
    loss: float = 0.0,
    plant: Callable[[Peer], None] | None = None,
) -> None:
    """One world of one seed; a failure names it."""

    async def told(world: Peers) -> None:
        world.prepare = plant or world.prepare
        await story(world)
        assert world.fallen == []

    try:
        run_peers(told, settings_of(peers, copies=copies), Web(NO_WEB), seed=seed, loss=loss)
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise


def sites_of(world: Peers, hosts: int) -> list[Site]:
    return add_sites(world, *(f"h{number}.example" for number in range(hosts)))


def starts_at(world: Peers, site: Site, after: float = 0.0) -> list[FetchStart]:
    return [start for start in world.origins.starts[site.name] if start.at > after]


def robots_asked(world: Peers, site: Site) -> int:
    return sum(start.url.endswith("/robots.txt") for start in world.origins.starts[site.name])


def polite(world: Peers) -> bool:
    return not world.origins.rude


def long(seeds: range, *size: int) -> list[object]:
    """What `scripts/sweep tests` runs: of this size, with all these seeds."""
    return [pytest.param(seed, *size, marks=pytest.mark.sweep) for seed in seeds]


@pytest.mark.parametrize(("seed", "peers", "hosts"), [(0, 4, 2), *long(range(3), 12, 6)])
def test_many_peers_together_are_as_polite_as_one_and_all_get_done(seed: int, peers: int, hosts: int) -> None:
    async def story(world: Peers) -> None:
        sites = sites_of(world, hosts)
        await crowd(world, each=10)
        await anyio.sleep(peers * 10 * 6.0)
        assert polite(world)
        for site in sites:
            assert len(starts_at(world, site)) == peers * 10 + 1
            assert robots_asked(world, site) == 1

    run(seed, story, peers=peers, loss=0.01)


def test_one_busy_peer_uses_nearly_all_that_a_host_allows() -> None:
    async def story(world: Peers) -> None:
        (site,) = sites_of(world, 1)
        await all_serve(world)
        await give_work(world, world.members[0], ENDLESS)
        await anyio.sleep(TERMS.silent_s + 1)
        begin = anyio.current_time()
        await anyio.sleep(600)
        assert polite(world)
        assert len(starts_at(world, site, begin)) > 0.85 * 600 / 2.2

    run(1, story)


SHORT_CHURN = (2, 3, 600)
"""Hosts, peers, seconds: small, and yet the steward that is never silent is caught by it."""


@pytest.mark.parametrize(
    ("seed", "hosts", "peers", "seconds"), [(10, *SHORT_CHURN), *long(range(10, 14), 4, 8, 3_600)]
)
def test_no_host_is_asked_too_often_while_its_stewards_die_and_return(
    seed: int, hosts: int, peers: int, seconds: int
) -> None:
    async def story(world: Peers) -> None:
        sites = sites_of(world, hosts)
        await crowd(world, ENDLESS)
        await deaths_of_stewards(world, seconds)
        assert polite(world)
        for site in sites:
            assert len(starts_at(world, site)) > seconds / 18, "and the crawl goes on"

    run(seed, story, peers=peers, loss=0.02)


def rude_worlds(seeds: range, hosts: int, peers: int, seconds: int) -> int:
    """In how many worlds of dying stewards that are never silent a host was asked too often."""
    rude = []

    def never_silent(peer: Peer) -> None:
        peer._steward._tenure._memory_s = 0.0

    async def story(world: Peers) -> None:
        sites_of(world, hosts)
        await crowd(world, ENDLESS)
        await deaths_of_stewards(world, seconds)
        rude.append(not polite(world))

    for seed in seeds:
        run(seed, story, peers=peers, plant=never_silent)
    return sum(rude)


def test_a_steward_without_the_silent_period_is_caught() -> None:
    assert rude_worlds(range(10, 11), *SHORT_CHURN) == 1


@pytest.mark.sweep
def test_a_steward_without_the_silent_period_is_caught_by_most_seeds() -> None:
    assert rude_worlds(range(10, 13), 4, 8, 2_400) >= 2


@pytest.mark.parametrize(
    ("seed", "hosts", "peers", "seconds"), [(20, 2, 4, 240), *long(range(20, 23), 6, 8, 900)]
)
def test_a_torn_ring_asks_at_most_twice_as_often_and_only_until_it_is_whole_again(
    seed: int, hosts: int, peers: int, seconds: int
) -> None:
    async def story(world: Peers) -> None:
        sites_of(world, hosts)
        await crowd(world, ENDLESS)
        await world.tear(seconds, NOTICED_S + TERMS.life_s)
        await anyio.sleep(seconds + TERMS.life_s)
        assert crowded(world, 2.0) == []
        assert all(world.is_torn(one.at) for one in world.origins.rude)
        assert world.origins.rude, "both halves did crawl, or this test shows nothing"

    run(seed, story, peers=peers)


def test_a_peer_cut_off_from_the_steward_stops_within_a_lease() -> None:
    """Nobody else notices: the steward answers no call of this peer, and still counts as the owner."""

    async def story(world: Peers) -> None:
        (site,) = sites_of(world, 1)
        steward, cut_off = await one_at_work(world, site)
        await anyio.sleep(60)
        assert shares_of(starts_at(world, site))[cut_off.number] > 0
        world.carrier.world.network.partition("between them", [steward.number], [cut_off.number])
        at = anyio.current_time()
        await anyio.sleep(600)
        assert starts_at(world, site, at + TERMS.life_s) == []

    run(2, story)


def test_a_peer_whose_machine_slept_uses_no_window_of_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its clock stood still meanwhile, so it cannot know that the window's time is over."""

    async def story(world: Peers) -> None:
        (site,) = sites_of(world, 1)
        steward, sleeper = await one_at_work(world, site)
        office = steward_in(steward).office
        granted = office.statistics().granted
        while office.statistics().granted == granted:  # noqa: ASYNC110  # an office tells nobody
            await anyio.sleep(1)
        granted = office.statistics().granted
        await anyio.sleep(5)
        assert office.statistics().granted == granted  # it goes on with the window that it has
        fall_asleep(monkeypatch, sleeper)
        await anyio.sleep(5)
        assert office.statistics().granted > granted

    run(2, story)


def test_a_steward_whose_machine_slept_is_silent_like_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one may have had its hosts, and it has not heard of it yet."""

    async def story(world: Peers) -> None:
        (site,) = sites_of(world, 1)
        await crowd(world, ENDLESS)
        await anyio.sleep(60)
        fall_asleep(monkeypatch, steward_of(world, site.name))
        at = anyio.current_time()
        await anyio.sleep(TERMS.silent_s + 60)
        silent = [one for one in starts_at(world, site, at + TERMS.life_s) if one.at < at + TERMS.silent_s]
        assert silent == []
        assert starts_at(world, site, at + TERMS.silent_s)

    run(2, story)


def test_a_slow_steward_gives_way_to_the_next_holder_and_comes_back_and_nobody_is_rude(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each time the host rests until all windows of before are over."""
    monkeypatch.setattr(pacer, "PROMPT_AFTER_S", SLOW_AFTER_S)

    async def story(world: Peers) -> None:
        (site,) = sites_of(world, 1)
        key = key_of_subject(subject_of(site.name))
        await crowd(world, ENDLESS)
        slow = steward_of(world, site.name)
        for carries, is_given in ((NARROW - 1, True), (NARROW + 1, False)):
            steward_in(slow)._parts.own_queue.carries = carries  # as copies would have shown
            while slow.stewards(key) == is_given:  # noqa: ASYNC110  # nobody tells
                await anyio.sleep(0.01)  # its silence is reckoned from this moment on
            at = anyio.current_time()
            await anyio.sleep(NEWS_S)
            assert len([one for one in world.members if one.stewards(key)]) == 1
            await anyio.sleep(TERMS.silent_s + 120)
            silent = [
                one for one in starts_at(world, site, at + TERMS.life_s) if one.at < at + TERMS.silent_s
            ]
            assert silent == []
            assert len(shares_of(starts_at(world, site, at + TERMS.silent_s))) == len(world.members)
        assert steward_of(world, site.name) is slow
        assert polite(world)

    run(14, story, copies=3)


async def one_at_work(world: Peers, site: Site) -> tuple[Member, Member]:
    """The host's steward, and another peer, which alone has work at the host, and may begin."""
    await all_serve(world)
    steward = steward_of(world, site.name)
    worker = next(one for one in world.members if one is not steward)
    await give_work(world, worker, ENDLESS)
    await anyio.sleep(TERMS.silent_s + 1)
    return steward, worker


def fall_asleep(monkeypatch: pytest.MonkeyPatch, member: Member) -> None:
    """It slept for an hour, and is awake."""
    monkeypatch.setattr(member.machine, "elapsed_s", lambda: anyio.current_time() + 3_600.0)


@pytest.mark.parametrize(("seed", "peers", "seconds"), [(3, 4, 600), *long(range(3, 4), 6, 3_600)])
def test_who_asks_more_often_and_for_more_gets_no_more_than_the_others(
    seed: int, peers: int, seconds: int
) -> None:
    async def story(world: Peers) -> None:
        (site,) = sites_of(world, 1)
        await crowd(world, each=2 * seconds)
        steward = steward_of(world, site.name)
        greedy = next(one for one in world.members if one is not steward)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask_all_the_time, greedy, site)
            await anyio.sleep(seconds)
            tasks.cancel_scope.cancel()
        shares = shares_of(starts_at(world, site))
        fair = shares.total() / peers
        assert len(shares) == peers
        assert shares[greedy.number] < 1.3 * fair
        assert min(shares.values()) > 0.6 * fair
        assert polite(world)

    run(seed, story, peers=peers)


async def ask_all_the_time(member: Member, site: Site) -> None:
    """Ten times a second for everything, past its own shell, whatever the answers."""
    assert member.peer is not None
    subject = subject_of(site.name)
    asks = encode_asks([Ask(subject, STARTS_MAX, purpose=f"http://{site.name}")], [])
    while True:
        owner = await member.peer._steward._owner(subject)
        if owner is not None and owner.peer != member.id:
            with suppress(CallError):
                await member.peer._call_port.calls.call(owner, ASK_SERVICE, asks, deadline_s=1.0)
        await anyio.sleep(0.1)


@pytest.mark.parametrize(("seed", "peers", "seconds"), [(4, 4, 600), *long(range(4, 5), 5, 3_600)])
def test_a_peer_that_invents_failures_does_not_keep_a_host_from_being_crawled(
    seed: int, peers: int, seconds: int
) -> None:
    async def story(world: Peers) -> None:
        (site,) = sites_of(world, 1)
        await crowd(world, ENDLESS)
        begin = anyio.current_time()
        liar = world.members[0]
        steward = steward_in(liar)
        give_back = steward.give_back

        async def lie(lease: Lease, report: OriginReport) -> float:
            return await give_back(lease, replace(report, status=503))

        steward.give_back = lie  # type: ignore[method-assign]  # what the liar says of its own visits
        await anyio.sleep(seconds)
        honest = sum(one.peer != liar.number for one in starts_at(world, site, begin))
        assert honest > 0.5 * seconds / 2.7
        assert polite(world)

    run(seed, story, peers=peers)


@pytest.mark.parametrize(
    ("seed", "peers", "hosts", "seconds"), [(6, 3, 4, 300), *long(range(6, 7), 6, 8, 1_800)]
)
def test_many_hosts_at_one_address_share_its_cap(seed: int, peers: int, hosts: int, seconds: int) -> None:
    async def story(world: Peers) -> None:
        sites = sites_of(world, hosts)
        for site in sites:
            site.address = "93.184.0.1"
        await crowd(world, each=40)
        await anyio.sleep(seconds)
        assert polite(world)
        for site in sites:
            assert len(starts_at(world, site)) > seconds / 90
        assert world.origins.most_open["93.184.0.1"] == 2

    run(seed, story, peers=peers)


def test_each_host_is_crawled_as_its_manners_ask() -> None:
    """One world, with a host for each story, and a while after which some of them change."""

    async def story(world: Peers) -> None:
        names = ("slow", "delayed", "closed", "busy", "broken", "closing", "leaving")
        slow, delayed, closed, busy, broken, closing, leaving = sites = add_sites(
            world, *(f"{name}.example" for name in names)
        )
        delayed.robots = "user-agent: *\ncrawl-delay: 11\n"
        closed.robots = "user-agent: *\ndisallow: /"
        await crowd(world, ENDLESS)
        await anyio.sleep(120)
        assert all(len(shares_of(starts_at(world, site))) == 4 for site in (slow, busy, closing, leaving))

        asked_before = robots_asked(world, closing)
        closing.robots = "user-agent: *\ndisallow: /\n"
        steward_in(steward_of(world, closing.name)).core.doubt_rules(
            Origin(f"http://{closing.name}")
        )  # as daily
        office = steward_in(steward_of(world, leaving.name)).office
        office._opted_out = OptOutList.of([leaving.name])
        busy.trouble, broken.trouble = (lambda _now: 429), (lambda _now: 503)
        slow.answer_s = 40.0  # longer than any window
        at = anyio.current_time()
        await anyio.sleep(900)
        heeded_at = at + TERMS.life_s + 1.0

        # A change of robots.txt is known to all within one lease of the steward's finding it, and so is an opt-out.
        assert robots_asked(world, closing) == asked_before + 1
        assert starts_at(world, closing, heeded_at) == []
        assert starts_at(world, leaving, heeded_at) == []
        assert office.refused["opted-out"] > 0
        # A host in trouble is left alone by all: there would be 420 visits without backoff.
        assert len(starts_at(world, busy, heeded_at)) < 20
        assert len(starts_at(world, broken, heeded_at)) < 20
        # Every peer keeps the crawl-delay that the steward read, once for all.
        assert too_close(starts_at(world, delayed), 11.0) == []
        assert len(starts_at(world, delayed)) > 50
        assert robots_asked(world, delayed) == 1
        # Where robots.txt forbids all, nothing else is asked for.
        assert len(starts_at(world, closed)) == robots_asked(world, closed) == 1
        # A host that was very slow for a while is crawled on.
        slowly = len(starts_at(world, slow, at))
        assert slowly > 6
        slow.answer_s = 0.2
        await anyio.sleep(400)
        begin = anyio.current_time()
        await anyio.sleep(200)
        assert len(starts_at(world, slow, begin)) > 0.4 * 200 / 2.2
        for site in sites:  # an answer that takes longer than a window may go on in another's
            assert too_close(starts_at(world, site), 2.0) == []

    run(5, story)


def test_hosts_that_may_not_be_visited_are_not_even_asked_for_robots_txt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def public(_world: World, number: int, _move: int = 0) -> tuple[str, int]:
        return f"81.2.{number}.1", 4_484

    async def story(world: Peers) -> None:
        world.charter = replace(world.charter, allow_private_addresses=False)
        inside, shy, plain = add_sites(world, "inside.example", "www.shy.example", "plain.example")
        inside.address = "10.1.2.3"
        await crowd(world, each=5)
        await anyio.sleep(300)
        assert len(starts_at(world, plain)) == 4 * 5 + 1
        assert starts_at(world, inside) == []
        assert starts_at(world, shy) == []

    monkeypatch.setattr(World, "fresh_address", public)
    run(8, story, plant=lambda peer: opt_out(peer, "shy.example"))


def opt_out(peer: Peer, name: str) -> None:
    peer._steward.office._opted_out = peer._steward._opted_out = OptOutList.of([name])


def test_a_steward_that_grants_too_much_is_held_back_by_those_who_ask() -> None:
    async def story(world: Peers) -> None:
        (site,) = sites_of(world, 1)
        await all_serve(world)
        liar = steward_of(world, site.name)
        hasty = replace(TERMS, policy=replace(TERMS.policy, delay_floor_s=0.01), silent_s=0.0)
        steward_in(liar).office.books = LeaseOffice(hasty)  # it lies in its own process
        for member in world.members:
            await give_work(world, member, ENDLESS)
        await anyio.sleep(TERMS.silent_s + 400)
        for peer in world.members:
            own = [start for start in starts_at(world, site) if start.peer == peer.number]
            if peer is not liar:
                assert too_close(own, 2.0) == []
                assert len(own) > 40  # 40 to 43, as the seed has it

    run(8, story)


def test_a_steward_whose_rules_seem_to_change_all_the_time_keeps_nobody_from_fetching() -> None:
    async def story(world: Peers) -> None:
        (site,) = sites_of(world, 1)
        await all_serve(world)
        office = steward_in(steward_of(world, site.name)).office
        office._world = replace(office._world, rules_number=partial(_next, count(1)))  # in its own process
        for member in world.members:
            await give_work(world, member, ENDLESS)
        await anyio.sleep(TERMS.silent_s + 400)
        assert polite(world)
        assert all(shares_of(starts_at(world, site))[member.number] > 10 for member in world.members)

    run(12, story)


def _next(numbers: Iterator[int], _host: str) -> int:
    return next(numbers)


def test_a_seed_that_another_peer_owns_is_visited_within_five_minutes_of_its_sites_return() -> None:
    """Owner, steward and seeding peer are different peers, and each keeps for a while what it heard."""
    away_s, back_s = 3_000.0, 300.0

    async def story(world: Peers) -> None:
        (site,) = sites_of(world, 1)
        await all_serve(world)
        await anyio.sleep(TERMS.silent_s + NEWS_S)
        began = anyio.current_time()
        site.trouble = lambda now: 500 if now < began + away_s else 200
        for member in world.members:
            await world.give(member, f"http://{site.name}/of-{member.number}")
        await anyio.sleep(away_s + back_s)
        pages = [start.url for start in starts_at(world, site) if not start.url.endswith("/robots.txt")]
        assert sorted(pages) == [f"http://{site.name}/of-{member.number}" for member in world.members]
        assert polite(world)
        assert robots_asked(world, site) < 35

    run(4, story)
