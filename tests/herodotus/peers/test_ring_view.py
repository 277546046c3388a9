"""Whom does a peer count among the holders while the ring changes?"""

import pytest

from dht.core.ids import Key
from herodotus.peers.ring_view import RingView
from simnet.linkworld import TableRing, link_peer

pytestmark = pytest.mark.anyio


async def test_the_lost_are_no_holders_and_the_silent_are() -> None:
    records, key = [link_peer(number) for number in range(8)], Key(bytes(20))
    ring = TableRing(records[0])
    ring.see(records)
    first, second = RingView(ring, 2).live.of(key)
    for clock, owner in (("dead", second), ("departed", second), ("unreachable", first)):
        ring.see(records, {first.peer: clock})
        assert RingView(ring, 1).live.of(key) == (owner,)


async def test_a_view_knows_what_is_ours_and_what_may_be() -> None:
    records = [link_peer(number) for number in range(8)]
    ring = TableRing(records[0])
    ring.see(records)
    view = RingView(ring, 2)
    positions = [contact.position for contact in view.live.contacts]
    ours = positions.index(view.me.position)
    ranks = [view.rank(positions[ours - back]) for back in range(4)]
    assert ranks == [0, 1, None, None]
    assert [view.may_be_mine(positions[ours - back]) for back in range(5)] == [True] * 4 + [False]
    assert [view.is_nearly_mine(positions[ours - back]) for back in range(5)] == [True] * 4 + [False]
