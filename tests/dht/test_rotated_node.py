"""Two nodes on loopback: one changes its key between two runs and is taken for the same place."""

from dataclasses import replace
from typing import Any

import pytest

from dht.core.machine import NodeView
from dht.core.records import Contact
from dht.identity import Verifier, peer_key
from tests.dht.link_world import key_from
from tests.dht.test_node import Peer, Ways, opened, until

pytestmark = pytest.mark.anyio
OLD, NEW = peer_key(key_from("bert")), peer_key(key_from("berta"))


@pytest.fixture
def anyio_backend(virtual_time: Any) -> Any:
    return virtual_time


async def test_a_peer_that_rotated_its_key_keeps_its_place_and_the_old_key_no_longer_counts() -> None:
    async with opened("anna") as anna:
        await anna.node.join([])
        async with opened("bert") as bert:
            assert await bert.node.join([anna.address])
            await until(lambda: anna.node.statistics().ring.members == 2 and anna.node.statistics().is_ideal)
            last = bert.records[-1].record
            ways = Ways(
                port=bert.address.port,
                previous="bert",
                incarnation=last.incarnation + 1,
                since=last.since,
            )
            before = bert.node.me  # and now it stops without a word, as after a power cut
        async with opened("berta", ways) as berta:
            await berta.node.join([anna.address])
            await until(
                lambda: (
                    {member.peer for member in anna.node.members()} == {anna.node.me.peer, NEW}
                    and anna.node.statistics().is_ideal
                    and berta.node.statistics().is_ideal
                )
            )
            assert berta.node.me.position == before.position
            assert neighbours(anna.node.statistics().ring.nodes[0]) == {berta.node.me}
            assert Verifier().is_record_signed(berta.records[-1])
            assert berta.records[-1].record.previous == OLD
            assert berta.records[-1].record.since == last.since > 0
            berta.node.forget_previous_key()
            await until(lambda: anna.node.record is not None and not previous_known(anna))
            assert berta.records[-1].record.previous == b""
        # Whoever still has the old key may come back with it, and be heard no more.
        async with opened("bert", replace(ways, port=0, previous="")) as thief:
            await thief.node.join([anna.address])
            await until(lambda: dropped(anna, "from a rotated key"))
            assert OLD not in {member.peer for member in anna.node.members()}
            assert all(contact.peer != OLD for contact in neighbours(anna.node.statistics().ring.nodes[0]))


def neighbours(view: NodeView) -> set[Contact]:
    return {contact for contact in (*view.successors, view.predecessor) if contact is not None}


def previous_known(peer: Peer) -> bool:
    """Does the other peer's table still hold the doubly signed record?"""
    record = peer.node.machine.table.records.get(NEW)
    return record is None or bool(record.record.previous)


def dropped(peer: Peer, reason: str) -> int:
    return dict(peer.node.statistics().ring.counts).get(reason, 0)
