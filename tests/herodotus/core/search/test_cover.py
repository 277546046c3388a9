"""Is each position of the ring answered for exactly once, and by few peers?"""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from dht.core.arcs import NONE, WHOLE, Arcs
from dht.core.holders import Table
from dht.core.ids import Key, PeerKey, key_from_number, key_of
from dht.core.placement import Rule
from dht.core.records import Address, Contact
from herodotus.core.search.cover import (
    ARCS_MAX,
    CIRCLE,
    RUNS_MAX,
    SURPLUS_S,
    Arc,
    Extent,
    Share,
    Stretch,
    arcs_of,
    cover,
    indexed_by,
    keys_of,
    part_of_circle,
    stretches_of,
)

EDGES = [0, 1, CIRCLE - 1, CIRCLE // 2]


def peer(number: int) -> PeerKey:
    return PeerKey(number.to_bytes(32, "big"))


def contact(number: int, position: Key) -> Contact:
    address = Address(host=number.to_bytes(4, "big"), port=1)
    return Contact(peer=peer(number), address=address, slot=0, index=0, position=position)


def made_table(seed: int, peers: int, positions: int, copies: int = 6) -> Table:
    chance = random.Random(seed)
    contacts = [
        contact(number, key_from_number(chance.getrandbits(160)))
        for number in range(peers)
        for _ in range(positions)
    ]
    return Table(contacts, Rule(copies))


def askers(shares: list[Share], position: int) -> list[PeerKey]:
    return [share.peer for share in shares for arc in share.arcs if arc.has(position)]


def samples(stretches: list[Stretch]) -> set[int]:
    ends = {end for stretch in stretches for end in stretch.arc}
    return {*EDGES, *ends, *((end + 1) % CIRCLE for end in ends), *((end - 1) % CIRCLE for end in ends)}


@given(st.integers(0, 1_000), st.integers(1, 9), st.integers(1, 4), st.sets(st.integers(0, 8), max_size=2))
@settings(max_examples=80, deadline=None)
def test_every_position_is_answered_for_once_by_a_peer_that_indexes_it(
    seed: int, peers: int, positions: int, gone: set[int]
) -> None:
    table = made_table(seed, peers, positions)
    absent = {peer(number) for number in gone}
    stretches = stretches_of(table, 3, absent)
    shares = cover(stretches, first=peer(0))
    for position in samples(stretches):
        key = Key(position.to_bytes(8, "big") + b"\0" * 12)
        indexers = [one.peer for one in table.of(key)[:3] if one.peer not in absent]
        asked = askers(shares, position)
        assert len(asked) == (1 if indexers else 0)
        assert {*asked} <= {*indexers}
    assert len({share.peer for share in shares}) == len(shares), "a peer has one share"
    covered = part_of_circle(arc for share in shares for arc in share.arcs)
    assert covered <= 1.0000001
    if not absent:
        assert covered > 0.9999999


def test_who_asks_answers_for_all_that_it_indexes() -> None:
    table = made_table(7, 8, 8)
    stretches = stretches_of(table, 3)
    shares = cover(stretches, first=peer(4))
    assert shares[0].peer == peer(4)
    indexed = {number for number, stretch in enumerate(stretches) if peer(4) in stretch.indexers}
    assert {*shares[0].stretches} == indexed


def test_few_peers_are_asked() -> None:
    """The design's table: of 50 peers with 8 positions 32 with three copies, 18 with six."""
    table = made_table(1, 50, 8)
    assert len(cover(stretches_of(table, 3))) <= 34
    assert len(cover(stretches_of(table, 6))) <= 20
    runs = [len(share.arcs) for share in cover(stretches_of(table, 3))]
    assert max(runs) <= 24


def test_peers_to_avoid_are_not_asked_and_what_only_they_have_is_left() -> None:
    stretches = [
        Stretch(Arc(30, 10), (peer(1),)),
        Stretch(Arc(10, 20), (peer(1), peer(2))),
        Stretch(Arc(20, 30), (peer(2), peer(1))),
    ]
    assert cover(stretches, avoid={peer(1)}) == [Share(peer(2), (1, 2), (Arc(10, 30),))]
    assert cover(stretches, wanted=[1], avoid={peer(2)}) == [Share(peer(1), (1,), (Arc(10, 20),))]


def test_neighbours_are_one_arc_also_across_zero() -> None:
    stretches = [
        Stretch(Arc(30, 10), (peer(1),)),
        Stretch(Arc(10, 20), (peer(2),)),
        Stretch(Arc(20, 30), (peer(1),)),
    ]
    of_first = next(share for share in cover(stretches) if share.peer == peer(1))
    assert of_first.arcs == (Arc(20, 10),)


def test_one_member_answers_for_the_whole_circle() -> None:
    table = Table([contact(1, key_of(b"a"))], Rule(6))
    (share,) = cover(stretches_of(table, 3))
    assert part_of_circle(share.arcs) == 1.0
    assert all(askers([share], position) == [peer(1)] for position in EDGES)
    assert cover(stretches_of(Table((), Rule(6)), 3)) == []


def test_two_members_in_the_same_place_make_no_whole_circle_of_nothing() -> None:
    """Their positions differ behind the first 64 bits alone: the arc between them is empty."""
    here = b"\x70" * 8
    table = Table(
        [contact(1, Key(here + b"\0" * 12)), contact(2, Key(here + b"\1" * 12)), contact(3, key_of(b"c"))],
        Rule(1),
    )
    stretches = stretches_of(table, 1)
    assert len(stretches) == 2
    for position in samples(stretches):
        assert len(askers(cover(stretches), position)) == 1


def test_a_peer_is_told_so_many_arcs_and_another_has_the_rest() -> None:
    count = 2 * (RUNS_MAX + 6)
    ends = [number * 1_000 + 1 for number in range(count)]
    stretches = [
        Stretch(Arc(ends[number - 1], ends[number]), (peer(1), peer(2)) if number % 2 else (peer(3),))
        for number in range(count)
    ]
    shares = {share.peer: share for share in cover(stretches)}
    assert len(shares[peer(1)].arcs) == RUNS_MAX
    assert len(shares[peer(2)].arcs) == 6
    assert not {*shares[peer(1)].stretches} & {*shares[peer(2)].stretches}


def test_keys_are_those_whose_first_bits_lie_on_the_arc() -> None:
    keys = keys_of([Arc(CIRCLE - 2, 1)])
    assert Key(b"\xff" * 8 + b"\0" * 12) in keys
    assert Key(b"\0" * 7 + b"\1" + b"\xff" * 12) in keys
    assert Key(b"\0" * 7 + b"\2" + b"\0" * 12) not in keys
    assert Key(b"\xff" * 7 + b"\xfe" + b"\xff" * 12) not in keys


# -- which words a peer has


@given(st.integers(0, 1_000), st.integers(1, 9), st.integers(1, 4), st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_a_peer_indexes_what_others_ask_it_for(seed: int, peers: int, positions: int, indexers: int) -> None:
    table = made_table(seed, peers, positions)
    stretches = stretches_of(table, indexers)
    for number in range(peers):
        arcs = [stretch.arc for stretch in stretches if peer(number) in stretch.indexers]
        assert indexed_by(table, peer(number), indexers) == keys_of(arcs)


def test_who_is_in_no_ring_knows_nothing_of_what_others_ask_for() -> None:
    assert indexed_by(made_table(1, 3, 2), peer(7), 3) is None


SETS = st.lists(
    st.tuples(st.sampled_from(EDGES), st.integers(0, CIRCLE - 1)).map(lambda ends: Arc(*ends)), max_size=4
).map(keys_of)


@given(SETS)
def test_sets_of_keys_are_arcs_and_back(keys: Arcs) -> None:
    assert keys_of(arcs_of(keys)) == keys


@given(st.lists(st.tuples(SETS, st.integers(0, SURPLUS_S)), min_size=1, max_size=12))
@settings(max_examples=80, deadline=None)
def test_what_is_wanted_is_taken_in_and_what_is_not_goes_after_a_day_or_two(
    looks: list[tuple[Arcs, int]],
) -> None:
    now_s, extent = 0, Extent()
    wanted_at: list[tuple[int, Arcs]] = []
    for wanted, passed_s in looks:
        now_s += passed_s
        before, extent = extent, extent.towards(wanted, now_s)
        assert wanted <= extent.arcs
        assert (extent.arcs - before.arcs) | (before.arcs - extent.arcs) <= extent.todo
        assert not extent.todo & extent.answered
        assert extent.surplus <= extent.arcs - wanted
        for then_s, earlier in wanted_at:
            if now_s - then_s < SURPLUS_S:
                assert earlier <= extent.arcs, "it may be wanted again"
        wanted_at.append((now_s, wanted))
    for _ in range(2):
        now_s += SURPLUS_S
        extent = extent.towards(looks[-1][0], now_s)
    assert extent.arcs == looks[-1][0]


def test_a_clock_that_is_put_back_ends_nothing() -> None:
    half = keys_of([Arc(0, CIRCLE // 2)])
    extent = Extent().towards(half, SURPLUS_S * 100).towards(NONE, SURPLUS_S * 100 + 1)
    for now_s in (5, SURPLUS_S // 2, SURPLUS_S):
        extent = extent.towards(NONE, now_s)
        assert extent.arcs == half
    assert extent.towards(NONE, 5 + SURPLUS_S).arcs == NONE


def test_an_index_of_too_many_arcs_keeps_no_surplus() -> None:
    extent = Extent().towards(NONE, 0)
    for number in range(ARCS_MAX):
        extent = extent.towards(keys_of([Arc(number * 10, number * 10 + 5)]), 1)
    assert len(extent.arcs) == ARCS_MAX
    last = keys_of([Arc(CIRCLE // 2, CIRCLE // 2 + 1)])
    extent = extent.towards(last, 1)
    assert (extent.arcs, extent.todo, extent.answered) == (last, WHOLE, NONE)
