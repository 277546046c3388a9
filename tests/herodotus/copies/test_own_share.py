"""Is a promise kept as long as it was given, whatever else is promised meanwhile?"""

import pytest

from dht.core import ids
from dht.core.arcs import Arcs
from dht.core.holders import Table
from dht.core.placement import Rule
from dht.core.places import PlaceRules, standing_at
from dht.core.records import Address, Contact
from herodotus.copies.shared_state import PROMISED_MAX, PROMISES_MAX, Promise, View
from herodotus.core.reconciliation import Range, arcs_of

A, B = b"a" * 32, b"b" * 32


def part(number: int) -> Arcs:
    return arcs_of([Range(bytes((number,)) + bytes(11), bytes((number + 1,)) + bytes(11))])


def view() -> View:
    return View(me=b"m" * 32, table=Table((), Rule(6)))


def test_a_promise_holds_until_its_time_and_for_its_part_only() -> None:
    mine = view()
    mine.promise(A, part(1), now=0, lasts_s=100)
    mine.promise(A, part(5), now=0, lasts_s=50)  # the same peer asks about something else
    mine.promise(B, part(1), now=0, lasts_s=20)
    assert not mine.is_promised(part(3), 10)
    assert mine.is_promised(part(5), 49)
    assert not mine.is_promised(part(5), 50)
    assert mine.is_promised(part(1), 99)
    assert not mine.is_promised(part(1), 100)
    assert mine.promises == {}


def test_a_shorter_promise_takes_nothing_from_a_longer_one() -> None:
    mine = view()
    mine.promise(A, part(1), now=0, lasts_s=100)
    mine.promise(A, part(1), now=0, lasts_s=10)
    assert mine.is_promised(part(1), 99)


def test_of_many_promises_to_one_peer_those_that_end_together_become_one() -> None:
    """A peer that makes room asks about each of many pieces: what it was promised of others ends all the same."""
    mine = view()
    for number in range(3):
        assert mine.promise(A, part(2 * number), now=0, lasts_s=100)
    for number in range(3, 60):
        assert mine.promise(A, part(2 * number), now=50, lasts_s=1_800 + number)
    assert len(mine.promises[A]) == PROMISES_MAX
    assert mine.is_promised(part(2), 99)
    assert not any(mine.is_promised(part(2 * number), 100) for number in range(3))
    assert all(mine.is_promised(part(2 * number), 1_849 + number) for number in range(3, 60))
    assert not mine.is_promised(part(7), 1_850)


def test_a_promise_that_is_over_is_not_put_together_with_new_ones() -> None:
    mine = view()
    for number in range(PROMISES_MAX):
        mine.promise(A, part(2 * number), now=0, lasts_s=10 * (number + 1))
    last = 10 * PROMISES_MAX
    mine.promise(A, part(100), now=last, lasts_s=5)
    assert mine.promises[A] == [Promise(part(100), last + 5)]


def test_promises_to_more_peers_than_there_can_be_are_not_given() -> None:
    mine = view()
    for number in range(PROMISED_MAX):
        assert mine.promise(number.to_bytes(32, "big"), part(1), now=0, lasts_s=100)
    assert not mine.promise(A, part(1), now=0, lasts_s=200)
    mine.end_promises(100)
    assert mine.promise(A, part(1), now=0, lasts_s=200)


def twenty_members() -> list[Contact]:
    """Each in an area of its own, at even distances."""
    return [
        Contact(
            peer=ids.PeerKey(bytes((number,)) * 32),
            address=Address(host=bytes((10 + number, 1, 1, 1)), port=4484),
            slot=0,
            index=0,
            position=ids.Key(bytes((10 * number,)) + bytes(19)),
        )
        for number in range(1, 21)
    ]


@pytest.mark.parametrize(
    ("rule", "slack"), [(Rule(3), 1), (Rule(3, PlaceRules()), 2)], ids=["peers", "places"]
)
def test_a_copy_is_taken_from_a_peer_whose_table_differs_by_a_member_or_two(rule: Rule, slack: int) -> None:
    members = twenty_members()
    mine = View(me=members[9].peer, table=Table((), rule))
    mine.take(Table(members, rule), {one.peer: one for one in members}, 0.0)
    taken = [number for number, one in enumerate(members) if mine.may_hold(one.position[:12])]
    assert taken == list(range(7 - slack, 10)), "what three hold, and what we hold if so many before us leave"
    held = [number for number, one in enumerate(members) if one.position[:12] in mine.share]
    assert held == [7, 8, 9]


def test_a_young_peer_keeps_what_it_learns_and_is_no_holder() -> None:
    members = twenty_members()
    rule, me = Rule(3, PlaceRules()), members[9].peer
    grown = {one.peer: standing_at(one.peer, one.address.host, rule.places) for one in members}
    table = Table(members, rule, standings={**grown, me: grown[me]._replace(is_of_age=False)})
    mine = View(me=me, table=Table((), rule))
    mine.take(table, {one.peer: one for one in members}, 0.0)
    key = members[8].position
    assert mine.may_hold(key[:12])
    assert arcs_of([Range(key[:12], members[9].position[:12])]) <= mine.share
    assert me not in mine.holders(key[:12])
    assert mine.others() == sorted(members[place].peer for place in (7, 8, 10, 11, 12))
    of_age = View(me=me, table=Table((), rule))
    of_age.take(Table(members, rule, standings=grown), {}, 0.0)
    assert me in of_age.holders(key[:12])
