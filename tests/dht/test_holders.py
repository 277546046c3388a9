"""Does a table say of every key what a walk from that key says? All keys of a small circle are tried."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from ipaddress import ip_address
from random import Random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dht.core.arcs import Arc, Arcs
from dht.core.crowds import Crowding, crowding
from dht.core.holders import Move, Table, moves
from dht.core.ids import CIRCLE, Key, PeerKey, distance
from dht.core.line import Line
from dht.core.placement import Rule
from dht.core.places import PlaceRules, Standing, standing_at
from dht.core.records import Address, Contact
from tests.dht.circle import KEYS, POINTS, arc_lists, inside, member, peer

RULES: dict[str, Callable[[int], Rule]] = {
    "peers": Rule,
    "places": lambda copies: Rule(copies, PlaceRules()),
    "crowded places": lambda copies: Rule(copies, PlaceRules(positions_per_place=1)),
    "no areas": lambda copies: Rule(copies, PlaceRules(area_v4=24)),
}


@dataclass
class World:
    members: list[Contact]
    rule: Rule
    absent: set[PeerKey] = field(default_factory=set)
    missed: set[PeerKey] = field(default_factory=set)
    young: set[PeerKey] = field(default_factory=set)
    born: dict[PeerKey, bytes] = field(default_factory=dict)
    """Where seats are from, of some that are elsewhere now."""

    @cached_property
    def standings(self) -> dict[PeerKey, Standing]:
        """By the first position of each, as a table takes it."""
        found: dict[PeerKey, Standing] = {}
        for one in sorted(self.members, key=lambda one: (one.position, one.peer)):
            standing = standing_at(one.peer, one.address.host, self.rule.places)
            if one.peer in self.born and self.rule.places.by == "prefix":
                birth = standing_at(one.peer, self.born[one.peer], self.rule.places)
                if birth.place != standing.place:
                    standing = standing._replace(born=birth.place, born_area=birth.area)
            found.setdefault(one.peer, standing._replace(is_of_age=one.peer not in self.young))
        return found

    @cached_property
    def table(self) -> Table:
        return Table(
            self.members, self.rule, standings=self.standings, absent=self.absent, missed=self.missed
        )

    @property
    def peers(self) -> list[PeerKey]:
        return sorted({contact.peer for contact in self.members})

    def holders(self, key: Key, slack: int = 0) -> list[PeerKey]:
        """By definition: from the key on, once around."""
        found = self._taken(key, slack, set())
        reachable = sum(one not in self.absent for one in found)
        if self.missed & set(found) and 3 * reachable < 2 * (self.rule.copies + slack):
            return self._taken(key, slack, self.missed)
        return found

    def line(self, key: Key) -> list[Contact]:
        return sorted(self.members, key=lambda one: (one.position < key, one.position, one.peer))

    @cached_property
    def crowding(self) -> Crowding:
        known = self.standings
        old = [known[one.peer] for one in self.members if known[one.peer].is_of_age]
        weights = {here: sum(one.place == here for one in old) for here, *_ in old}
        return crowding(weights, {one.place: one.area for one in old}, self.rule)

    @cached_property
    def counting(self) -> tuple[list[Contact], list[Contact]]:
        """The positions that count, of members of age and of the young."""
        return self._counting(of_age=True), self._counting(of_age=False)

    def _counting(self, of_age: bool) -> list[Contact]:
        known, most, beyond = self.standings, self.crowding.counted_max, list[Contact]()
        some = [one for one in self.members if known[one.peer].is_of_age == of_age]
        for place in {place for one in known.values() for place in one.places}:
            here = [one for one in some if place in known[one.peer].places]
            here.sort(key=lambda one: (one.index, sha256(one.position).digest(), one.peer))
            beyond += here[most:]
        return [one for one in some if one not in beyond]

    def _taken(self, key: Key, slack: int, skip: set[PeerKey]) -> list[PeerKey]:
        line = [one for one in self.line(key) if one.peer not in skip]
        taken: list[PeerKey] = []
        known, rule, crowds = self.standings, self.rule, self.crowding
        if rule.is_plain:
            return list(dict.fromkeys(one.peer for one in line))[: rule.copies + slack]
        begin = max((one.position for one in line_before(self.members, key)), default=key)

        def take(some: list[Contact], wanted: int, *, new: bool, area_max: int = 99) -> None:
            for one in line:
                if len(taken) >= wanted:
                    return
                its = known[one.peer]
                is_taken = one.peer in taken or (
                    new and any({*its.places} & {*known[peer].places} for peer in taken)
                )
                is_full = any(
                    sum(area in areas_of(known[peer]) for peer in taken) >= area_max for area in areas_of(its)
                )
                if is_taken or one not in some or is_full:
                    continue
                taken.append(one.peer)

        for wanted in (rule.copies, rule.copies + slack):

            def in_reach(one: Contact, wanted: int = wanted) -> bool:
                reach, number = crowds.reach(wanted), sum(other.peer == one.peer for other in self.members)
                away = distance(begin, one.position) or CIRCLE
                is_free = known[one.peer].place not in crowds.limited
                return is_free or number * crowds.reach(rule.copies) >= CIRCLE or away <= reach

            near = [one for one in self.counting[0] if in_reach(one)]
            old = [one for one in self.members if known[one.peer].is_of_age]
            young = [one for one in self.members if one not in old]
            take(near, wanted, new=True, area_max=-(-wanted // 3))
            take(near, wanted, new=True)
            take(self.counting[1], wanted, new=True)
            take([one for one in old if in_reach(one)], wanted, new=False)
            take(young, wanted, new=False)
            take(old, wanted, new=False)
        return taken


def areas_of(standing: Standing) -> set[bytes]:
    return {standing.area, standing.born_area} - {b""}


def line_before(members: list[Contact], key: Key) -> list[Contact]:
    """Those before the key's stretch, without the part behind zero if there are some below."""
    return [one for one in members if one.position < key] or [
        one for one in members if one.position > key or one.position == max(m.position for m in members)
    ]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Few or many peers with few or many positions, some of them at one point, on one network or on many."""
    count = draw(st.integers(1, 9))
    hosts = [bytes((10, draw(st.integers(0, 2)), draw(st.integers(0, 2)), number)) for number in range(count)]
    points = draw(
        st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, POINTS - 1)), min_size=1, max_size=24)
    )
    ends = draw(st.sampled_from([[], [(0, 0)], [(0, POINTS - 1)]]))  # cuts at zero and at the last key
    members = [member(number, point, hosts[number]) for number, point in dict.fromkeys([*points, *ends])]
    rule = RULES[draw(st.sampled_from(sorted(RULES)))](draw(st.integers(1, 7)))
    absent = set(draw(st.lists(st.sampled_from([peer(number) for number in range(count)]), max_size=4)))
    missed = {one for one in sorted(absent) if draw(st.booleans())}
    young = set(draw(st.lists(st.sampled_from([peer(number) for number in range(count)]), max_size=4)))
    movers = draw(st.lists(st.integers(0, count - 1), max_size=4))
    born = {
        peer(number): bytes((10, draw(st.integers(0, 2)), draw(st.integers(0, 2)), number))
        for number in movers
    }
    return World(members, rule, absent, missed, young, born)


slacks = st.integers(0, 2)


@settings(deadline=None)
@given(worlds(), slacks)
def test_the_holders_of_each_key_are_those_of_a_walk_from_it(world: World, slack: int) -> None:
    table = world.table
    for key in KEYS:
        expected = world.holders(key, slack)
        assert [contact.peer for contact in table.of(key, slack)] == expected
        arc = table.arc(table.stretch(key))
        assert key in Arcs([arc])
        for one in world.peers:
            rank = table.rank(key, one, slack)
            assert rank == (expected.index(one) if one in expected else None)


@settings(deadline=None)
@given(worlds(), slacks)
def test_what_each_member_holds_is_what_the_keys_say(world: World, slack: int) -> None:
    table = world.table
    expected = {key: world.holders(key, slack) for key in KEYS}
    for one in world.peers:
        share = table.share(one, slack)
        assert share == sorted(set(share))
        by_key = {key: rank for rank, stretch in share for key in inside([table.arc(stretch)])}
        assert by_key == {key: holders.index(one) for key, holders in expected.items() if one in holders}
        arcs = table.arcs(one, slack)
        assert {key for key in KEYS if key in arcs} == set(by_key)
        for rank in range(3):
            as_ranked = table.arcs(one, slack, ranks=[rank])
            assert {key for key in KEYS if key in as_ranked} == {
                key for key, found in by_key.items() if found == rank
            }


@settings(deadline=None)
@given(worlds(), slacks)
def test_all_members_together_hold_each_key_as_often_as_there_are_copies(world: World, slack: int) -> None:
    assume(not world.missed)
    table = world.table
    held = [table.arcs(one, slack) for one in world.peers]
    wanted = min(world.rule.copies + slack, len(world.peers))
    assert all(sum(key in arcs for arcs in held) == wanted for key in KEYS)


@settings(deadline=None)
@given(worlds())
def test_groups_have_the_same_holders_together(world: World) -> None:
    table = world.table
    for one in world.peers:
        groups = table.groups(one)
        assert list(groups) == sorted(groups)
        for key in KEYS:
            holders = tuple(world.holders(key))
            assert [group for group, arcs in groups.items() if key in arcs] == (
                [holders] if one in holders else []
            )


@settings(deadline=None)
@given(worlds(), arc_lists)
def test_a_set_of_keys_is_grouped_by_its_holders(world: World, arcs: list[Arc]) -> None:
    groups, asked = world.table.groups(Arcs(arcs)), inside(arcs)
    assert list(groups) == sorted(groups)
    for key in KEYS:
        found = [group for group, some in groups.items() if key in some]
        assert found == ([tuple(world.holders(key))] if key in asked else [])


@settings(deadline=None)
@given(worlds(), worlds())
def test_moves_say_which_keys_get_which_other_holders(one: World, other: World) -> None:
    before, after = one.table, other.table
    found = moves(before, after)
    for key in KEYS:
        change = tuple(one.holders(key)), tuple(other.holders(key))
        expected = [change] if change[0] != change[1] else []
        assert [(move.before, move.after) for move in found if key in Arcs([move.arc])] == expected
    assert found == sorted(found)
    assert moves(after, before) == [Move(move.arc, move.after, move.before) for move in found]
    assert moves(before, before) == []


class Keys(list[Key]):
    def up_to(self, end: Key) -> int:
        return sum(key <= end for key in self)


@settings(deadline=None)
@given(worlds(), st.lists(st.sampled_from(KEYS)), st.sampled_from(KEYS))
def test_a_walk_meets_each_key_once_in_the_stretch_that_has_it(
    world: World, some: list[Key], begin: Key
) -> None:
    table, keys = world.table, Keys(sorted(some))
    met: list[int] = []
    for stretch, start, end in table.runs(keys, begin):
        assert start < end
        met += range(start, end)
        assert all(table.stretch(key) == stretch for key in keys[start:end])
    after = sum(key <= begin for key in keys)
    assert met == [*range(after, len(keys)), *range(after)]


@settings(deadline=None)
@given(worlds(), slacks)
def test_more_slack_only_adds_holders_at_the_end(world: World, slack: int) -> None:
    assume(not world.missed)
    table = world.table
    for key in KEYS:
        assert table.of(key) == table.of(key, slack)[: world.rule.copies]


@settings(deadline=None)
@given(worlds())
def test_learners_are_the_young_before_the_last_holder(world: World) -> None:
    assume(not world.missed and not world.rule.is_plain)
    table, known = world.table, world.standings
    young = world.counting[1]
    expected: dict[PeerKey, set[Key]] = {one: set() for one in world.peers}
    for key in KEYS:
        holders = [one.peer for one in table.of(key)]
        line = world.line(key)
        places = [one.position for one in line]
        last = max(places.index(holder.position) for holder in table.of(key))
        is_filled = len({known[one].place for one in holders}) < world.rule.copies
        met = [one.peer for at, one in enumerate(line) if one in young and (is_filled or at < last)]
        found = list(dict.fromkeys(one for one in met if one not in holders))[: world.rule.copies]
        assert [one.peer for one in table.learners(key)] == found
        for one in found:
            expected[one].add(key)
    for one, keys in expected.items():
        learned = table.learned(one)
        assert {key for key in KEYS if key in learned} == keys


@settings(deadline=None)
@given(worlds(), st.randoms())
def test_the_order_in_which_members_are_given_changes_nothing(world: World, random: Random) -> None:
    shuffled = list(world.members)
    random.shuffle(shuffled)
    other = replace(world, members=shuffled)
    assert [world.table.of(key, 2) for key in KEYS] == [other.table.of(key, 2) for key in KEYS]


# --- by hand


def names(contacts: tuple[Contact, ...]) -> list[int]:
    return [contact.peer[0] for contact in contacts]


def test_the_owner_sits_at_or_after_the_key_and_the_next_distinct_peers_follow() -> None:
    table = Table([member(1, 10), member(2, 20), member(1, 30), member(3, 40)], Rule(2))
    assert names(table.of(KEYS[5])) == [1, 2]
    assert names(table.of(KEYS[10])) == [1, 2]
    assert names(table.of(KEYS[11])) == [2, 1]
    assert names(table.of(KEYS[31])) == [3, 1]
    assert names(table.of(KEYS[60])) == [1, 2]
    assert names(table.of(KEYS[5], slack=3)) == [1, 2, 3]
    assert table.arcs(peer(1), ranks=[0]) == Arcs([Arc(KEYS[40], KEYS[10]), Arc(KEYS[20], KEYS[30])])


def test_an_empty_table_has_no_answers() -> None:
    table = Table([], Rule(2))
    assert table.of(KEYS[0]) == ()
    assert table.share(peer(1)) == []
    assert not table.arcs(peer(1))
    assert table.groups(~Arcs()) == {}
    assert list(table.runs(Keys(KEYS), KEYS[3])) == []
    assert moves(table, table) == []


def test_a_member_that_is_alone_holds_the_whole_circle() -> None:
    table = Table([member(1, 10), member(1, 20)], Rule(3))
    assert table.arcs(peer(1)) == ~Arcs()
    assert table.groups(peer(1)) == {(peer(1),): ~Arcs()}
    (move,) = moves(table, Table([member(2, 7)], Rule(3)))
    assert move[1:] == ((peer(1),), (peer(2),))
    assert Arcs([move.arc]) == ~Arcs()


def test_the_lost_are_no_members() -> None:
    table = Table([member(1, 10), member(2, 20)], Rule(2), lost=[peer(2)])
    assert names(table.of(KEYS[15])) == [1]
    assert list(table.peers) == [peer(1)]


def test_the_missed_are_passed_over_only_where_too_few_are_within_reach() -> None:
    line = [member(number, 10 * number) for number in range(1, 6)]
    two_away = Table(line, Rule(3), absent=[peer(1), peer(2)], missed=[peer(1)])
    assert names(two_away.of(KEYS[5])) == [2, 3, 4]
    one_away = Table(line, Rule(3), absent=[peer(1)], missed=[peer(1)])
    assert names(one_away.of(KEYS[5])) == [1, 2, 3]


def test_four_of_six_within_reach_are_enough_to_wait_for_the_others() -> None:
    line = [member(number, 6 * number) for number in range(1, 9)]
    two = [peer(1), peer(2)]
    assert names(Table(line, Rule(6), absent=two, missed=two).of(KEYS[5])) == [1, 2, 3, 4, 5, 6]
    three = [peer(1), peer(2), peer(3)]
    assert names(Table(line, Rule(6), absent=three, missed=three).of(KEYS[5])) == [4, 5, 6, 7, 8]
    assert names(Table(line, Rule(6), absent=three).of(KEYS[5])) == [1, 2, 3, 4, 5, 6]


def test_a_peer_holds_what_the_missed_held_however_many_of_them_stand_before_it() -> None:
    line = [member(number, 10 * number) for number in range(1, 6)]
    missed = [peer(1), peer(2), peer(3)]
    table = Table(line, Rule(2), absent=missed, missed=missed)
    assert names(table.of(KEYS[5])) == [4, 5]
    assert {rank for rank, stretch in table.share(peer(4)) if stretch == 0} == {0}
    assert KEYS[5] in table.arcs(peer(4))


def by_hand(places: str, young: str = "", copies: int = 6) -> Table:
    """Members in the order of the circle: each letter is a place, capitals are in one area."""
    members = [member(number, 3 * number) for number in range(1, len(places) + 1)]
    standings = {
        peer(number): Standing(
            place.encode(), b"one" if place.isupper() else place.encode(), str(number) not in young
        )
        for number, place in enumerate(places, start=1)
    }
    return Table(members, Rule(copies, PlaceRules()), standings=standings)


def test_of_a_place_there_is_one_holder_and_of_an_area_a_third() -> None:
    assert names(by_hand("aabcdeefg").of(KEYS[0])) == [1, 3, 4, 5, 6, 8]
    assert names(by_hand("ABCDefghi").of(KEYS[0])) == [1, 2, 5, 6, 7, 8]
    assert names(by_hand("ABCDefghi").of(KEYS[0], slack=2)) == [1, 2, 5, 6, 7, 8, 3, 9]


def test_a_gap_is_filled_in_order() -> None:
    """New places of any area; young members in new places; members of age; young ones."""
    table = by_hand("aaBBCDbd", young="28")
    assert names(table.of(KEYS[0])) == [1, 3, 5, 7, 6, 8]
    assert names(table.of(KEYS[0], slack=2)) == [1, 3, 5, 7, 6, 8, 4, 2]
    assert table.places_of(peer(number) for number in (1, 3, 5, 7, 6, 8, 4)) == 6


def test_a_seat_from_elsewhere_counts_in_both_its_places() -> None:
    rule = Rule(3, PlaceRules(area_v4=24))
    hosts = [bytes((10, 0, number, 1)) for number in (0, 1, 2, 3)]
    members = [member(number, number, host) for number, host in enumerate(hosts)]
    at = {one.peer: standing_at(one.peer, one.address.host, rule.places) for one in members}
    assert [one.peer for one in Table(members, rule, standings=at).of(KEYS[0])] == [peer(0), peer(1), peer(2)]
    born = at[peer(1)]._replace(born=at[peer(0)].place, born_area=at[peer(0)].area)
    moved = Table(members, rule, standings={**at, peer(1): born})
    assert [one.peer for one in moved.of(KEYS[0])] == [peer(0), peer(2), peer(3)]
    assert moved.places_of(map(peer, range(4))) == 3


def test_a_member_without_a_record_counts_where_its_contact_says_that_its_seat_is_from() -> None:
    rule = Rule(3, PlaceRules(area_v4=24))
    hosts = [bytes((10, 0, number, 1)) for number in (0, 1, 2, 3)]
    members = [member(number, number, host) for number, host in enumerate(hosts)]
    moved = Contact(
        peer=peer(1), address=members[1].address, slot=0, index=0, position=KEYS[1], birth=hosts[0]
    )
    table = Table([members[0], moved, *members[2:]], rule)
    assert [one.peer for one in table.of(KEYS[0])] == [peer(0), peer(2), peer(3)]


def test_forty_seats_of_one_network_are_two_of_the_holders_wherever_they_moved() -> None:
    """By the place where they are alone they would be all six."""
    places = PlaceRules()
    near = [member(number, number, bytes((20 + number, 1, 1, 1))) for number in range(40)]
    far = [member(40 + number, 40 + number, bytes((90 + number, 1, 1, 1))) for number in range(20)]
    known = {one.peer: standing_at(one.peer, one.address.host, places) for one in (*near, *far)}
    for number, one in enumerate(near):
        birth = standing_at(one.peer, bytes((9, 9, number, 1)), places)
        known[one.peer] = known[one.peer]._replace(born=birth.place, born_area=birth.area)
    table = Table([*near, *far], Rule(6, places), standings=known)
    foes = {one.peer for one in near}
    assert [one.peer in foes for one in table.of(KEYS[0])] == [True, True, False, False, False, False]
    by_key = {key: {one.peer for one in table.of(key)} for key in KEYS}
    for one in (*near, *far):
        assert {key for key in KEYS if key in table.arcs(one.peer)} == {
            key for key in KEYS if one.peer in by_key[key]
        }


def test_where_seats_are_from_elsewhere_few_stretches_are_asked() -> None:
    places, random = PlaceRules(), Random(5)
    members = [member(number, number, bytes((1 + number, 1, 1, 1))) for number in range(60)]
    known = {one.peer: standing_at(one.peer, one.address.host, places) for one in members}
    for one in random.sample(members, 20):
        birth = standing_at(one.peer, bytes((random.randrange(130, 220), 1, 1, 1)), places)
        known[one.peer] = known[one.peer]._replace(born=birth.place, born_area=birth.area)
    line = Line(members, [one.position for one in members], Rule(6, places), known)
    few = line.may_hold(members[30].peer, 0, ())
    assert few is not None
    assert 6 <= len(few) <= 25


def test_the_young_learn_before_the_last_holder() -> None:
    table = by_hand("abcdefgh", young="248", copies=3)
    assert names(table.of(KEYS[0])) == [1, 3, 5]
    assert names(table.learners(KEYS[0])) == [2, 4]
    assert KEYS[0] in table.learned(peer(4))
    assert KEYS[15] not in table.learned(peer(4))
    assert not table.learned(peer(1))


def test_the_young_fill_a_gap_wherever_they_sit() -> None:
    """Members of age give way beyond their reach; that is no reason to make one copy of two."""
    members = [*(member(1, point) for point in range(7)), member(2, 0)]
    standings = {
        peer(number): Standing(b"here", b"area", is_of_age) for number, is_of_age in ((1, True), (2, False))
    }
    table = Table(members, Rule(2, PlaceRules(positions_per_place=1)), standings=standings)
    assert {tuple(names(table.of(key))) for key in KEYS} == {(1, 2)}


def test_by_place_too_a_peer_holds_what_the_missed_held() -> None:
    line = [member(number, 6 * number, bytes((10 + number, 0, 0, 1))) for number in range(1, 9)]
    missed = [peer(1), peer(2), peer(3)]
    table = Table(line, Rule(2, PlaceRules()), absent=missed, missed=missed)
    assert names(table.of(KEYS[5])) == [4, 5]
    assert {rank for rank, stretch in table.share(peer(4)) if stretch == 0} == {0}
    assert KEYS[5] in table.arcs(peer(4))


def test_of_two_peers_at_one_position_both_hold_its_keys() -> None:
    """The first has gone for a while, and the second has its address now."""
    table = Table([member(1, 10), member(2, 10), member(3, 30)], Rule(2), absent=[peer(1)])
    assert names(table.of(KEYS[5])) == [1, 2]
    assert names(table.of(KEYS[10])) == [1, 2]
    assert names(table.of(KEYS[20])) == [3, 1]
    assert table.arcs(peer(2)) == Arcs([Arc(KEYS[30], KEYS[10])])
    assert Table([member(1, 10), member(2, 10)], Rule(2)).arcs(peer(2)) == ~Arcs()


def test_a_peer_listed_under_two_addresses_counts_where_it_sits_first() -> None:
    members = [
        member(1, 10, bytes((10, 1, 1, 1))),
        member(1, 20, bytes((10, 2, 2, 1))),
        member(2, 30, bytes((10, 3, 3, 2))),
    ]
    table = Table(members, Rule(3, PlaceRules()))
    assert names(table.of(KEYS[15])) == [1, 2]
    assert table.standings[peer(1)].place == bytes((4, 10, 1, 1))


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_tables_of_the_same_members_are_alike(rule: Callable[[int], Rule]) -> None:
    members = [member(1, 10), member(2, 20)]
    one = Table(members, rule(2))
    one.of(KEYS[5])
    assert one.is_like(Table(reversed(members), rule(2)))
    assert not one.is_like(Table(members, rule(2), absent=[peer(2)]))
    assert not one.is_like(Table(members[:1], rule(2)))


def test_six_ipv6_networks_beside_a_key_are_two_of_its_holders() -> None:
    """Of three brokers, and one just behind the other. Where all have IPv6 alone, there is nobody else."""
    free = [f"2001:{broker}:{number}::1" for broker in ("470", "ac0", "db8") for number in (1, 2)]
    paid = [f"192.{number}.2.1" for number in range(6)]
    line = [contact_at(number, host) for number, host in enumerate((*free, *paid))]
    key = Key(bytes(20))
    found = Table(line, Rule(6, PlaceRules())).of(key)
    assert [one.address.host for one in found] == [ip_address(one).packed for one in (*free[:2], *paid[:4])]
    assert len(Table(line[:6], Rule(6, PlaceRules())).of(key)) == 6


def contact_at(number: int, host: str) -> Contact:
    """In the order of their numbers, behind the first key."""
    position = Key((number + 1).to_bytes(20, "big"))
    address = Address(host=ip_address(host).packed, port=4_484)
    return Contact(peer=PeerKey(bytes([number]) * 32), address=address, slot=0, index=0, position=position)
