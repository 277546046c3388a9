"""How many positions count in a place, and is nobody asked for more than three times its share?"""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dht.core.crowds import BOUND, _has_enough, _limited, crowding, left_in
from dht.core.holders import Table
from dht.core.ids import CIRCLE, Key, PeerKey, distance
from dht.core.placement import Rule
from dht.core.places import PlaceRules, standing_at
from dht.core.records import Address, Contact

RULE = Rule(6, PlaceRules())


def weights(*sizes: int) -> dict[bytes, int]:
    return {b"%d" % number: size for number, size in enumerate(sizes)}


def each_alone(positions: dict[bytes, int]) -> dict[bytes, bytes]:
    """Each place in an area of its own."""
    return {place: place for place in positions}


def ring(sizes: list[int], chance: Random, positions: int = 1, areas: int = 250) -> list[Contact]:
    """So many members in each place, with so many positions each."""
    found = []
    for place, members in enumerate(sizes):
        for number in range(members):
            peer = PeerKey(chance.randbytes(32))
            host = bytes(
                (10 + place // areas, place % areas, 0 if areas > 200 else place // areas, number % 256)
            )
            address = Address(host=host, port=4484 + number // 256)
            found += [
                Contact(peer=peer, address=address, slot=0, index=index, position=Key(chance.randbytes(20)))
                for index in range(positions)
            ]
    return found


def held(table: Table) -> dict[PeerKey, int]:
    """How much of the circle each member holds."""
    found = dict.fromkeys(table.peers, 0)
    for stretch in range(len(table)):
        arc = table.arc(stretch)
        for one in table.holders(stretch):
            found[one.peer] += distance(arc.start, arc.end) or CIRCLE
    return found


# --- what counts


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([1] * 300, 32),  # nobody is crowded
        ([40] + [1] * 300, 32),  # one place is, and the others are nearly all of the ring
        ([64] * 50, 64),  # a fiftieth of the ring may count in one place
        ([60] * 50, 32),
        ([200] * 5, 104),  # else less than half of the ring would count: a hundred, rounded up
        ([256] + [4] * 20, 32),  # a crowd like an attacker's does not raise what counts of it
    ],
)
def test_so_many_positions_count_in_a_place(sizes: list[int], expected: int) -> None:
    known = weights(*sizes)
    assert crowding(known, each_alone(known), RULE).counted_max == expected


def test_the_33rd_position_of_a_place_does_not_count() -> None:
    chance = Random(1)
    crowd, others = ring([33], chance), ring([1] * 300, chance)
    standings = {one.peer: standing_at(one.peer, one.address.host, RULE.places) for one in crowd}
    assert len(left_in(crowd[:32], standings, 32)) == 32
    assert len(left_in(crowd, standings, 32)) == 32
    table = Table([*crowd, *[one for one in others if one.address.host[1]]], RULE)
    assert sum(part > 0 for peer, part in held(table).items() if peer in standings) == 32


def test_each_members_first_position_counts_before_anybodys_second() -> None:
    crowd = ring([32], Random(2), positions=2)
    standings = {one.peer: standing_at(one.peer, one.address.host, RULE.places) for one in crowd}
    assert {one.index for one in left_in(crowd, standings, 32)} == {0}
    assert sum(one.index for one in left_in(crowd, standings, 40)) == 8


# --- the bound


def beyond(table: Table, reach: int) -> dict[PeerKey, int]:
    """What each member holds although it sits farther away, and although it would not hold it by peers alone."""
    by_peer, found = Table(table.contacts, Rule(table.rule.copies)), dict.fromkeys(table.peers, 0)
    for stretch in range(len(table)):
        arc = table.arc(stretch)
        for one in table.holders(stretch):
            own = [distance(arc.start, at.position) or CIRCLE for at in table.contacts if at.peer == one.peer]
            if min(own) > reach and one.peer not in [other.peer for other in by_peer.holders(stretch)]:
                found[one.peer] += distance(arc.start, arc.end) or CIRCLE
    return found


@pytest.mark.parametrize("places", [4, 5, 6, 7, 8, 9])
def test_a_member_alone_in_its_place_is_not_asked_for_the_whole_ring(places: int) -> None:
    """400 members in six /24, one of them with a single member: without the bound it would hold every key."""
    sizes = [1] + [399 // (places - 1)] * (places - 1)
    table = Table(ring(sizes, Random(places)), RULE)
    reach = BOUND * 6 * CIRCLE // len(table)
    assert set(beyond(table, reach).values()) == {0}
    alone = next(one.peer for one in table.contacts if one.address.host[1] == 0)
    assert CIRCLE // len(table) < held(table)[alone] < 4 * 6 * CIRCLE // len(table)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(1, 40), min_size=2, max_size=12),
    st.integers(1, 3),
    st.integers(0, 1 << 16),
    st.booleans(),
)
def test_where_the_rule_gives_way_nobody_is_asked_for_more_than_three_times_its_share(
    sizes: list[int], positions: int, seed: int, is_one_area: bool
) -> None:
    contacts = ring(sizes, Random(seed), positions, 250 if not is_one_area else 1)
    rule = Rule(3, PlaceRules(positions_per_place=4))
    standings = {one.peer: standing_at(one.peer, one.address.host, rule.places) for one in contacts}
    known: dict[bytes, int] = {}
    for one in contacts:
        place = standings[one.peer].place
        known[place] = known.get(place, 0) + 1
    crowds = crowding(known, {one.place: one.area for one in standings.values()}, rule)
    reach = crowds.reach(rule.copies)
    assert reach >= BOUND * rule.copies * CIRCLE // (len(contacts) * 9 // 8 + 1)
    table = Table(contacts, rule)
    for peer, part in beyond(table, reach).items():
        assert part == 0 or standings[peer].place not in crowds.limited or positions * reach >= CIRCLE
    shares = held(table)
    assert sum(shares.values()) == min(rule.copies, len(shares)) * CIRCLE


def test_a_ring_with_places_enough_gives_way_nowhere() -> None:
    for sizes in ([1] * 12, [4] * 50, [50] * 12 + [1] * 600, [256] + [4] * 50):
        known = weights(*sizes)
        assert crowding(known, each_alone(known), RULE).limited == frozenset()


@pytest.mark.parametrize("keys", [8, 30, 100, 250])
def test_no_number_of_keys_in_one_place_makes_the_rule_give_way(keys: int) -> None:
    """Of every key the attacker's place has one copy, however many of its keys sit wherever it likes."""
    chance = Random(keys)
    honest = ring([1] * 50, chance, positions=4)
    crowd = [
        Contact(
            peer=PeerKey(chance.randbytes(32)),
            address=Address(host=bytes((99, 9, 9, number)), port=4484),
            slot=0,
            index=0,
            # In front of one key, one after the other.
            position=Key(bytes(15) + (1 + number).to_bytes(5, "big")),
        )
        for number in range(keys)
    ]
    table = Table([*honest, *crowd], RULE)
    theirs = {one.peer for one in crowd}
    found = [sum(one.peer in theirs for one in table.holders(stretch, 2)) for stretch in range(len(table))]
    assert max(found) == 1
    assert sum(one.peer in theirs for one in table.of(Key(bytes(20)))) == 1


def test_a_member_more_changes_few_keys_even_where_the_rule_gives_way() -> None:
    """Tables differ by some members at all times: their peers must agree about nearly all keys."""
    chance = Random(5)
    contacts = ring([1] + [60] * 5, chance)
    before = Table(contacts, RULE)
    changed = []
    for _ in range(5):
        after = Table([*contacts, *ring([0, 0, 1], chance)], RULE)
        keys = [Key(chance.randbytes(20)) for _ in range(400)]
        differ = sum(len({*before.of(key)} - {*after.of(key)}) for key in keys)
        changed.append(differ / len(keys))
    assert sum(changed) / len(changed) < 0.2, "of six holders"


@given(st.lists(st.integers(1, 30), min_size=20, max_size=200), st.integers(1, 40), st.integers(1, 8))
def test_what_a_glance_says_is_what_a_look_would(sizes: list[int], areas: int, copies: int) -> None:
    known, rule = weights(*sizes), Rule(copies, PlaceRules())
    where = {place: b"%d" % (number % areas) for number, place in enumerate(known)}
    by_area: dict[bytes, int] = {}
    for place, size in known.items():
        by_area[where[place]] = by_area.get(where[place], 0) + size
    offered = sum(sizes)
    if _has_enough(known, by_area, offered, copies, 32):
        assert _limited(known, where, offered, rule) == frozenset()
