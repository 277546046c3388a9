"""Whom does a peer count among the holders while the ring changes?"""

import pytest

from dht import Contact
from dht.core.ids import Key, PeerKey
from dht.core.placement import Rule
from dht.core.places import PlaceRules, Standing
from herodotus.core.copies.absence import Absence
from herodotus.peers.ring_view import LastingView, RingView
from tests.herodotus.peers.table_ring import TableRing, contact_of, link_peer

pytestmark = pytest.mark.anyio


async def test_the_lost_are_no_holders_and_the_silent_are() -> None:
    records, key = [link_peer(number) for number in range(8)], Key(bytes(20))
    ring = TableRing(records[0])
    ring.see(records)
    first, second = RingView(ring, Rule(2)).live.of(key)
    for clock, owner in (("dead", second), ("departed", second), ("unreachable", first)):
        ring.see(records, {first.peer: clock})
        assert RingView(ring, Rule(1)).live.of(key) == (owner,)


async def test_a_view_knows_what_is_ours_and_what_may_be() -> None:
    records = [link_peer(number) for number in range(8)]
    ring = TableRing(records[0])
    ring.see(records)
    view = RingView(ring, Rule(2))
    positions = [contact.position for contact in view.live.contacts]
    ours = positions.index(view.me.position)
    ranks = [view.rank(positions[ours - back]) for back in range(4)]
    assert ranks == [0, 1, None, None]
    assert [view.may_be_mine(positions[ours - back]) for back in range(5)] == [True] * 4 + [False]
    assert [view.is_nearly_mine(positions[ours - back]) for back in range(5)] == [True] * 4 + [False]


class Positions:
    def __init__(self, *contacts: Contact) -> None:
        self.contacts = contacts

    def positions(self) -> tuple[Contact, ...]:
        return self.contacts

    def standings(self) -> dict[PeerKey, Standing]:
        return {one.peer: Standing(one.address.host[:2], b"") for one in self.contacts}


def test_whoever_is_away_keeps_its_place_and_cannot_be_reached() -> None:
    contacts = sorted((contact_of(link_peer(number)) for number in range(3)), key=lambda one: one.position)
    one, two, three = contacts
    view = LastingView(Absence(departed_s=86_400.0, low_s=900.0, rule=Rule(2)))
    assert view.look(Positions(one, two, three), 0.0)
    assert not view.look(Positions(one, two, three), 1.0)
    assert view.look(Positions(one, three), 10.0)
    assert view.table.of(two.position) == (two, three)
    assert (dict(view.absent), set(view.contacts)) == ({two.peer: 10.0}, {one.peer, three.peer})
    assert view.look(Positions(one, two, three), 20.0)
    assert (view.returned, dict(view.absent)) == ([two.peer], {})
    view.look(Positions(one, three), 30.0)
    view.depart(two.peer)
    assert view.look(Positions(one, three), 31.0)
    assert view.table.of(two.position) == (three, one)


def test_the_absent_keep_their_standing_too() -> None:
    """It was seen; in its place nobody else may take its copy until it is gone for good."""
    contacts = sorted((contact_of(link_peer(number)) for number in range(4)), key=lambda one: one.position)
    one, two, three, four = contacts
    rule = Rule(2, PlaceRules())
    view = LastingView(Absence(departed_s=86_400.0, low_s=900.0, rule=rule))
    view.look(Positions(one, two, three, four), 0.0)
    known = view.table.standings[two.peer]
    view.look(Positions(one, three, four), 10.0)
    assert view.table.standings[two.peer] == known
    view.depart(two.peer)
    view.look(Positions(one, three, four), 20.0)
    assert two.peer not in view.table.standings


async def test_the_live_view_counts_by_place_where_the_charter_does() -> None:
    records = [link_peer(number) for number in range(8)]  # all in one /24
    ring = TableRing(records[0])
    ring.see(records)
    view = RingView(ring, Rule(2, PlaceRules()))
    for contact in view.live.contacts:
        holders = view.live.of(contact.position)
        assert len(holders) == 2, "the gap is filled"
    assert view.live.places_of(view.live.peers) == 1
