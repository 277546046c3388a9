"""Do stewards hear of every change of the ring that may have made a key theirs, or somebody else's?"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import anyio
import pytest

from dht import RingNode, Subscription
from dht.core.effects import ArcsChanged, PeerChanged, RingChanged
from dht.node_types import EventsLost, RingEvent
from herodotus.crawl.stewards import NodeRing
from tests.herodotus.peers.table_ring import contact_of, link_peer

pytestmark = pytest.mark.anyio

ME = contact_of(link_peer(0))


class Node:
    """What `NodeRing` asks of a node's events."""

    def __init__(self) -> None:
        self.subscription = Subscription()

    @contextmanager
    def events(self) -> Iterator[Subscription]:
        yield self.subscription


@pytest.mark.parametrize(
    ("event", "is_whole"),
    [
        (ArcsChanged(arcs=()), True),
        (RingChanged(contact=ME), True),  # where all hold everything, this is all that is said
        (EventsLost(), False),
    ],
)
async def test_what_changes_the_keys_of_a_steward_is_told(event: RingEvent, is_whole: bool) -> None:
    node = Node()
    async with NodeRing(cast("RingNode", node)).changes() as changes:
        node.subscription.put(PeerChanged(peer=ME.peer, clock="unreachable"))
        node.subscription.put(event)
        with anyio.fail_after(5):
            async for told in changes:
                assert told is is_whole
                break
