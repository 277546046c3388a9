"""Many peers, their stewards and the hosts between them, in virtual time: is anybody ever rude, or starved?"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import count

import anyio
import anyio.abc
import pytest

from crawler.core.politeness import LeaseTerms, OptOutList, PolitenessPolicy
from crawler.core.urls import Origin
from simnet.stewards import (
    SimulatedPeer,
    StewardWorld,
    churn,
    crowd,
    in_virtual_time,
    most_within,
    settled,
    share_of,
    steward_of,
    too_close,
)

CAUGHT_BY = 10
"""The seed of a short world in which a steward that is never silent makes others rude."""
PUBLIC = PolitenessPolicy(delay_floor_s=2.0)
TERMS = LeaseTerms.of(PUBLIC)


def run(seed: int, story: Callable[[StewardWorld], Awaitable[None]], **options: object) -> None:
    """One world of one seed; a failure names it."""

    async def main(tasks: anyio.abc.TaskGroup) -> None:
        world = StewardWorld(tasks, PUBLIC, seed=seed, **options)  # type: ignore[arg-type]  # the world's own options
        with anyio.fail_after(50_000):  # virtual: nothing hangs
            await story(world)

    try:
        in_virtual_time(main, seed=seed)
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise


def long(seeds: range, *size: int) -> list[object]:
    """What `scripts/sweep tests` runs: of this size, with all these seeds."""
    return [pytest.param(seed, *size, marks=pytest.mark.sweep) for seed in seeds]


@pytest.mark.parametrize(("seed", "peers", "hosts"), [(0, 6, 2), *long(range(3), 12, 6)])
def test_many_peers_together_are_as_polite_as_one_and_all_get_done(seed: int, peers: int, hosts: int) -> None:
    async def story(world: StewardWorld) -> None:
        for number in range(hosts):
            world.add_host(f"h{number}.example")
        world.add_peers(peers)
        for peer in world.peers:
            world.start(peer, dict.fromkeys(world.hosts, 10))
        await anyio.sleep(TERMS.silent_s + peers * 10 * 6.0)
        for host in world.hosts.values():
            assert too_close(host, 2.0) == []
            assert len(host.starts) == peers * 10 + host.robots_asked
            assert host.robots_asked == 1

    run(seed, story, loss=0.01)


def test_one_busy_peer_uses_nearly_all_that_a_host_allows() -> None:
    async def story(world: StewardWorld) -> None:
        host = world.add_host("h.example")
        world.add_peers(5)
        world.start(world.peers[0], {"h.example": 10_000})
        for peer in world.peers[1:]:
            world.start(peer, {})
        await settled(world)
        before = len(host.starts)
        await anyio.sleep(600)
        assert too_close(host, 2.0) == []
        assert len(host.starts) - before > 0.85 * 600 / 2.2

    run(1, story)


SHORT_CHURN = (2, 3, 1_200)
"""Hosts, peers, seconds: small, and yet the steward that is never silent is caught by it."""


@pytest.mark.parametrize(
    ("seed", "hosts", "peers", "seconds"), [(CAUGHT_BY, *SHORT_CHURN), *long(range(10, 14), 4, 8, 3_600)]
)
def test_no_host_is_asked_too_often_while_its_stewards_die_and_return(
    seed: int, hosts: int, peers: int, seconds: int
) -> None:
    async def story(world: StewardWorld) -> None:
        await crowd(world, hosts, peers)
        await churn(world, seconds)
        for host in world.hosts.values():
            assert too_close(host, 2.0) == [], host.name
            assert len(host.starts) > seconds / 18, "and the crawl goes on"

    run(seed, story, loss=0.02)


def rude_worlds(terms: LeaseTerms, seeds: range, hosts: int, peers: int, seconds: int) -> int:
    """In how many worlds of dying stewards a host was asked too often."""
    rude = []

    async def story(world: StewardWorld) -> None:
        await crowd(world, hosts, peers)
        await churn(world, seconds)
        rude.append(any(too_close(host, 2.0) for host in world.hosts.values()))

    for seed in seeds:
        run(seed, story, terms=terms)
    return sum(rude)


def test_a_steward_without_the_silent_period_is_caught() -> None:
    seeds = range(CAUGHT_BY, CAUGHT_BY + 1)
    assert rude_worlds(replace(TERMS, silent_s=0.0), seeds, *SHORT_CHURN) == 1


@pytest.mark.sweep
def test_a_steward_without_the_silent_period_is_caught_by_most_seeds() -> None:
    assert rude_worlds(replace(TERMS, silent_s=0.0), range(10, 13), 4, 8, 2_400) >= 2


@pytest.mark.parametrize(
    ("seed", "hosts", "peers", "seconds"), [(20, 3, 4, 240), *long(range(20, 23), 6, 8, 900)]
)
def test_a_torn_ring_asks_at_most_twice_as_often_and_only_until_it_is_whole_again(
    seed: int, hosts: int, peers: int, seconds: int
) -> None:
    async def story(world: StewardWorld) -> None:
        await crowd(world, hosts, peers)
        parted_at = anyio.current_time()
        for peer in world.peers:
            peer.side = peer.number % 2
        world.members_changed()
        await anyio.sleep(seconds)
        for peer in world.peers:
            peer.side = 0
        world.members_changed()
        healed_at = anyio.current_time()
        await anyio.sleep(seconds)
        over_at = healed_at + world.noticed_s_max + TERMS.life_s
        doubled = 0
        for host in world.hosts.values():
            assert most_within(host, 2.0) <= 2
            close = too_close(host, 2.0)
            doubled += len(close)
            assert all(parted_at < first.at and second.at < over_at for first, second in close)
        assert doubled > 0, "both halves did crawl, or this test shows nothing"

    run(seed, story)


def test_a_peer_cut_off_from_the_steward_stops_within_a_lease() -> None:
    async def story(world: StewardWorld) -> None:
        host = world.add_host("h.example")
        world.add_peers(4)
        steward = steward_up(world, "h.example")
        cut_off = next(peer for peer in world.peers if peer is not steward)
        for peer in world.peers:
            world.start(peer, {"h.example": 10_000} if peer is cut_off else {})
        await settled(world)
        await anyio.sleep(60)
        assert share_of(world, "h.example")[cut_off.number] > 0
        steward.side = 1  # nobody notices: it answers no call, and still counts as the owner
        at = anyio.current_time()
        await anyio.sleep(600)
        assert [start for start in host.starts if start.at > at + TERMS.life_s] == []

    run(2, story)


def test_a_peer_whose_machine_slept_uses_no_window_of_before() -> None:
    """Its clock stood still meanwhile, so it cannot know that the window's time is over."""

    async def story(world: StewardWorld) -> None:
        world.add_host("h.example")
        world.add_peers(2)
        steward = steward_up(world, "h.example")
        sleeper = next(peer for peer in world.peers if peer is not steward)
        for peer in world.peers:
            world.start(peer, {"h.example": 10_000} if peer is sleeper else {})
        await settled(world)
        await anyio.sleep(60)
        granted = steward.steward.status().granted
        await anyio.sleep(5)
        assert steward.steward.status().granted == granted  # it goes on with the window that it has
        sleeper.slept_s = 3_600.0
        await anyio.sleep(5)
        assert steward.steward.status().granted > granted

    run(2, story)


def test_a_steward_whose_machine_slept_is_silent_like_a_new_one() -> None:
    """Another one may have had its hosts, and it has not heard of it yet."""

    async def story(world: StewardWorld) -> None:
        host = world.add_host("h.example")
        world.add_peers(3)
        steward = steward_up(world, "h.example")
        for peer in world.peers:
            world.start(peer, {"h.example": 10_000})
        await settled(world)
        await anyio.sleep(60)
        steward.slept_s = 3_600.0
        at = anyio.current_time()
        await anyio.sleep(TERMS.silent_s + 60)
        granted_before = at + TERMS.life_s
        assert [start for start in host.starts if granted_before < start.at < at + TERMS.silent_s] == []
        assert [start for start in host.starts if start.at > at + TERMS.silent_s]

    run(2, story)


def steward_up(world: StewardWorld, name: str) -> SimulatedPeer:
    for peer in world.peers:
        peer.is_up = True
    return steward_of(world, name)


@pytest.mark.parametrize(("seed", "peers", "seconds"), [(3, 4, 600), *long(range(3, 4), 6, 3_600)])
def test_who_asks_more_often_and_for_more_gets_no_more_than_the_others(
    seed: int, peers: int, seconds: int
) -> None:
    async def story(world: StewardWorld) -> None:
        host = world.add_host("h.example")
        world.add_peers(peers)
        greedy = next(peer for peer in world.peers if peer is not steward_up(world, "h.example"))
        for peer in world.peers:
            world.start(peer, {"h.example": 10_000}, greedy=peer is greedy)
        await settled(world)
        await anyio.sleep(seconds)
        shares = share_of(world, "h.example")
        fair = sum(shares.values()) / len(world.peers)
        assert set(shares) == {peer.number for peer in world.peers}
        assert shares[greedy.number] < 1.3 * fair
        assert min(shares.values()) > 0.6 * fair
        assert too_close(host, 2.0) == []

    run(seed, story)


@pytest.mark.parametrize(("seed", "peers", "seconds"), [(4, 5, 1_200), *long(range(4, 5), 5, 3_600)])
def test_a_peer_that_invents_failures_does_not_keep_a_host_from_being_crawled(
    seed: int, peers: int, seconds: int
) -> None:
    async def story(world: StewardWorld) -> None:
        host = world.add_host("h.example")
        world.add_peers(peers)
        liar = world.peers[0]
        for peer in world.peers:
            world.start(peer, {"h.example": 10_000})
        visit = world.visit

        async def lie(name: str, peer: int) -> tuple[int, float]:
            status, duration_s = await visit(name, peer)
            return (503 if peer == liar.number else status), duration_s

        world.visit = lie  # type: ignore[method-assign]  # what the liar says of its own visits
        await settled(world)
        await anyio.sleep(seconds)
        honest = sum(1 for start in host.starts if start.peer != liar.number)
        assert honest > 0.5 * seconds / 2.7
        assert too_close(host, 2.0) == []

    run(seed, story)


@pytest.mark.parametrize("status", [429, 503])
def test_a_host_in_trouble_is_left_alone_by_all_within_one_lease(status: int) -> None:
    async def story(world: StewardWorld) -> None:
        host = world.add_host("h.example")
        world.add_peers(6)
        for peer in world.peers:
            world.start(peer, {"h.example": 10_000})
        await settled(world)
        at = anyio.current_time() + 300
        host.trouble = lambda now: status if now >= at else 200
        await anyio.sleep(300 + 3_600)
        later = [start for start in host.starts if start.at >= at + TERMS.life_s]
        assert len(later) < 30  # it would be 1,500 without backoff

    run(5, story)


@pytest.mark.parametrize(
    ("seed", "peers", "hosts", "seconds"), [(6, 3, 4, 400), *long(range(6, 7), 6, 8, 1_800)]
)
def test_many_hosts_at_one_address_share_its_cap(seed: int, peers: int, hosts: int, seconds: int) -> None:
    async def story(world: StewardWorld) -> None:
        for number in range(hosts):
            world.add_host(f"h{number}.example", address="93.184.0.1")
        world.add_peers(peers)
        for peer in world.peers:
            world.start(peer, dict.fromkeys(world.hosts, 40))
        await settled(world)
        await anyio.sleep(seconds)
        for host in world.hosts.values():
            assert too_close(host, 2.0) == []
            assert len(host.starts) > seconds / 90
        assert world.most_open["93.184.0.1"] == 2

    run(seed, story)


def test_a_host_that_was_very_slow_for_a_while_is_crawled_on() -> None:
    async def story(world: StewardWorld) -> None:
        host = world.add_host("h.example")
        world.add_peers(5)
        for peer in world.peers:
            world.start(peer, {"h.example": 1_000})
        await settled(world)
        host.duration_s = 40.0  # longer than any window
        await anyio.sleep(1_800)
        slowly = len(host.starts)
        await anyio.sleep(1_800)
        assert len(host.starts) > slowly + 3
        host.duration_s = 0.2
        await anyio.sleep(600)
        before = len(host.starts)
        await anyio.sleep(600)
        assert len(host.starts) - before > 0.4 * 600 / 2.2
        assert too_close(host, 2.0) == []

    run(1, story)


def test_a_crawl_delay_that_the_steward_read_is_kept_by_all() -> None:
    async def story(world: StewardWorld) -> None:
        host = world.add_host("h.example", robots=b"user-agent: *\ncrawl-delay: 11\n")
        world.add_peers(5)
        for peer in world.peers:
            world.start(peer, {"h.example": 100})
        await settled(world)
        await anyio.sleep(1_800)
        assert too_close(host, 11.0) == []
        assert len(host.starts) > 100
        assert host.robots_asked == 1

    run(7, story)


def test_hosts_that_may_not_be_visited_are_not_even_asked_for_robots_txt() -> None:
    async def story(world: StewardWorld) -> None:
        private = world.add_host("inside.example", address="10.1.2.3")
        shy = world.add_host("www.shy.example")
        closed = world.add_host("gone.example", robots=b"user-agent: *\ndisallow: /")
        world.add_peers(5)
        for peer in world.peers:
            world.start(peer, dict.fromkeys(world.hosts, 5))
        await settled(world)
        await anyio.sleep(600)
        assert private.starts == []
        assert shy.starts == []
        assert len(closed.starts) == closed.robots_asked == 1

    run(8, story, opted_out=OptOutList.of(["shy.example"]))


def test_a_steward_that_grants_too_much_is_held_back_by_those_who_ask() -> None:
    async def story(world: StewardWorld) -> None:
        host = world.add_host("h.example")
        world.add_peers(4)
        liar = steward_up(world, "h.example")
        for peer in world.peers:
            world.start(peer, {"h.example": 10_000})
        await anyio.sleep(0.1)
        hasty = replace(TERMS, policy=replace(PUBLIC, delay_floor_s=0.01), silent_s=0.0)
        liar.steward.office.books._terms = hasty  # it lies in its own process
        await settled(world)
        await anyio.sleep(600)
        for peer in world.peers:
            own = replace(host, starts=[start for start in host.starts if start.peer == peer.number])
            if peer is not liar:
                assert too_close(own, 2.0) == []
                assert len(own.starts) > 50

    run(9, story)


def test_a_steward_whose_rules_seem_to_change_all_the_time_keeps_nobody_from_fetching() -> None:
    async def story(world: StewardWorld) -> None:
        host = world.add_host("h.example")
        world.add_peers(4)
        liar = steward_up(world, "h.example")
        for peer in world.peers:
            world.start(peer, {"h.example": 10_000})
        await anyio.sleep(0.1)
        numbers = count(1)
        office = liar.steward.office
        office._world = replace(office._world, rules_number=lambda _host: next(numbers))  # in its own process
        await settled(world)
        await anyio.sleep(600)
        assert too_close(host, 2.0) == []
        for peer in world.peers:
            assert share_of(world, "h.example").get(peer.number, 0) > 10

    run(12, story)


def test_a_change_of_robots_txt_is_known_to_all_within_one_lease_of_the_steward_finding_it() -> None:
    async def story(world: StewardWorld) -> None:
        host = world.add_host("h.example")
        world.add_peers(6)
        for peer in world.peers:
            world.start(peer, {"h.example": 100_000})
        await settled(world)
        await anyio.sleep(300)
        assert len(share_of(world, "h.example")) == len(world.peers)
        host.robots = b"user-agent: *\ndisallow: /\n"
        before = host.robots_asked
        steward_of(world, "h.example").steward.core.doubt_rules(Origin("http://h.example"))  # as every day
        at = anyio.current_time()
        await anyio.sleep(600)
        assert host.robots_asked == before + 1
        assert [one for one in host.starts if one.at > at + TERMS.life_s + world.noticed_s_max] == []

    run(10, story)


def test_what_is_opted_out_at_the_steward_is_left_alone_by_all_within_one_lease() -> None:
    async def story(world: StewardWorld) -> None:
        host = world.add_host("h.example")
        world.add_peers(6)
        for peer in world.peers:
            world.start(peer, {"h.example": 100_000})
        await settled(world)
        await anyio.sleep(300)
        assert len(share_of(world, "h.example")) == len(world.peers)
        office = steward_of(world, "h.example").steward.office
        office._opted_out = OptOutList.of(["h.example"])
        at = anyio.current_time()
        await anyio.sleep(900)
        assert [one for one in host.starts if one.at > at + TERMS.life_s] == []
        assert office.refused["opted-out"] > 0

    run(11, story)
