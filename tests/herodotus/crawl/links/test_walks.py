"""Does each holder get a link, and not only each that held it when the walk began?"""

from collections import defaultdict
from collections.abc import Collection
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest
import trio.testing

from crawler.core.link import Link
from dht import Contact
from dht.core.ids import key_of
from dht.core.placement import Rule
from herodotus.core.links.senders import Silences
from herodotus.crawl.links.disk import link_rows
from herodotus.crawl.links.outbox import Outbox
from herodotus.crawl.links.walks import LinkWalks
from herodotus.crawl.links.wire import Taken, decode_batch, encode_taken
from herodotus.peers.ring_view import RingView
from tests.herodotus.peers.net.memory_calls import PIECE_DEADLINE_S
from tests.herodotus.peers.table_ring import TableRing, link_peer

pytestmark = pytest.mark.anyio
COPIES = 2


@pytest.fixture
def anyio_backend() -> Any:
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


class Receivers:
    """They take everything; those who are `mute` never answer."""

    def __init__(self) -> None:
        self.got: dict[bytes, set[str]] = defaultdict(set)
        self.mute: Collection[bytes] = ()

    async def call(self, to: Contact, service: str, body: bytes, *, deadline_s: float = 30.0) -> bytes:
        del service, deadline_s
        await anyio.lowlevel.checkpoint()
        if to.peer in self.mute:
            await anyio.sleep(PIECE_DEADLINE_S)
        self.got[to.peer] |= {link.url for link in decode_batch(body)}
        return encode_taken(Taken(strays=(), rubbish=(), contacts=()))


async def test_a_walk_that_goes_on_in_another_ring_brings_what_became_theirs_to_those_who_took_all(
    tmp_path: Path,
) -> None:
    records = [link_peer(number) for number in range(10)]
    ring, receivers = TableRing(records[0]), Receivers()
    ring.see(records)
    view = RingView(ring, Rule(COPIES))
    urls = [f"http://example.org/{number}" for number in range(200)]
    receivers.mute = {records[8].peer}

    async def walk_for(seconds: float) -> Outbox:
        disk = link_rows(tmp_path / "exchange")
        try:
            box = Outbox(disk)
            box.add([Link(url) for url in urls], 0.0)
            with anyio.move_on_after(seconds):
                await LinkWalks(box, receivers, view, Silences(Random(1)), "ip").walk(0.0)
            return box
        finally:
            disk.close()

    cut_off = await walk_for(10.0)
    assert cut_off._is_walking
    assert len(receivers.got) == 8  # all but ourselves and the mute one
    ring.see([record for record in records if record is not records[8]])  # it is gone, for good
    view.look_again()
    over = await walk_for(10.0)
    assert not over._is_walking
    assert len(over) == 0
    for url in urls:
        for holder in view.live.of(key_of(url.encode())):
            assert holder.peer == records[0].peer or url in receivers.got[holder.peer]
