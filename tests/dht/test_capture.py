"""What does a listener on the wire learn, and how much can a stranger make a peer send?"""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import anyio
import pytest
import trio

from dht import udp
from dht.core.frames import DATA, FINISH, HELLO, HELLO_OK, HINT, MAGIC, RETRY, DatagramHello
from dht.core.ids import key_of
from dht.core.limits import AMPLIFICATION_MAX
from dht.endpoint import packed_address
from dht.identity import peer_key
from dht.node import RingNode, open_node
from dht.node_types import NodePorts, NodeSettings
from dht.transport import TransportLimits
from dht.wire import encode_record
from tests.dht.link_world import NETWORK, key_from
from tests.dht.relay import Relay, Seen, relayed
from tests.dht.test_node import EPOCH_S, RULES

pytestmark = pytest.mark.anyio

NAMES = ("anna", "bert", "carl")
REPLIES = (RETRY, HELLO_OK, HINT)
IDLE_S = 120.0


@pytest.fixture
def anyio_backend(virtual_time: Any) -> Any:
    return virtual_time


@asynccontextmanager
async def node_behind(relay: Relay, name: str) -> AsyncIterator[RingNode]:
    settings = NodeSettings(
        rules=RULES, address=packed_address(relay.public[name]), limits=TransportLimits.for_one_machine()
    )
    ports = NodePorts(
        wall_clock=lambda: EPOCH_S + anyio.current_time(),
        random=Random(name),
        entropy=Random(f"entropy of {name}").randbytes,
    )
    async with open_node(settings, key_from(name), ports, [relay.private[name]]) as node:
        yield node


async def until_ideal(nodes: Sequence[RingNode]) -> None:
    with anyio.fail_after(300):
        while not all(
            figures.is_ideal and figures.is_joined and figures.ring.members == len(nodes)
            for figures in (node.statistics() for node in nodes)
        ):
            with anyio.move_on_after(0.1):
                await anyio.sleep_forever()


@asynccontextmanager
async def captured() -> AsyncIterator[tuple[list[Seen], list[RingNode]]]:
    """Three peers join, look up and idle, with every datagram between them on record."""
    async with (
        relayed(*NAMES) as relay,
        node_behind(relay, "anna") as anna,
        node_behind(relay, "bert") as bert,
        node_behind(relay, "carl") as carl,
    ):
        await anna.join([])
        for node in (bert, carl):
            assert await node.join([packed_address(relay.public["anna"])])
        await until_ideal([anna, bert, carl])
        for number in range(30):
            await bert.owner(key_of(b"%d" % number))
        await anyio.sleep(IDLE_S)
        yield relay.seen, [anna, bert, carl]


def kind_of(data: bytes) -> int:
    assert data[0] == MAGIC
    return data[1]


async def test_beyond_the_handshake_nothing_on_the_wire_can_be_read() -> None:
    async with captured() as (seen, nodes):
        kinds = Counter(kind_of(one.data) for one in seen)
        assert set(kinds) <= {HELLO, RETRY, HELLO_OK, FINISH, DATA, HINT}
        assert kinds[DATA] > 100, "an idle ring talks, too"
        sealed = b"\n".join(one.data[18:] for one in seen if kind_of(one.data) in (FINISH, DATA))
        known = [NETWORK, bytes(key_of(b"7"))]
        for node in nodes:
            record = node.record
            assert record is not None
            host_as_message_pack = b"\xc4\x04" + record.record.lines[0].host
            known += [encode_record(record), record.signature, host_as_message_pack]
            known += [bytes(node.me.peer), bytes(node.me.position)]
        for text in known:
            assert text not in sealed


async def test_the_handshake_shows_keys_and_the_answering_side_s_record_only() -> None:
    async with captured() as (seen, _nodes):
        for one in seen:
            for name in NAMES:
                if bytes(peer_key(key_from(name))) in one.data:
                    assert kind_of(one.data) in (HELLO, HELLO_OK)
                    assert name == one.source


async def test_no_sealed_bytes_are_ever_sent_twice() -> None:
    async with captured() as (seen, _nodes):
        sealed = [one.data for one in seen if kind_of(one.data) in (FINISH, DATA)]
        assert len(set(sealed)) == len(sealed)


async def test_replies_before_an_address_is_proven_stay_below_three_times_what_came() -> None:
    async with captured() as (seen, _nodes):
        received: Counter[tuple[str, str]] = Counter()
        replied: Counter[tuple[str, str]] = Counter()
        for one in seen:
            received[one.target, one.source] += len(one.data)
            if kind_of(one.data) in REPLIES:
                replied[one.source, one.target] += len(one.data)
                came = received[one.source, one.target]
                assert replied[one.source, one.target] <= AMPLIFICATION_MAX * came
        assert {kind_of(one.data) for one in seen} >= {HELLO, RETRY, HELLO_OK, FINISH, DATA}


async def test_a_stranger_gets_no_more_than_three_times_what_it_sent() -> None:
    """Nothing of it is answered at length, whatever it sends, and as often as it likes."""
    bare = DatagramHello(
        network=NETWORK, initiator_id=b"stranger", public_key=peer_key(key_from("eve")), ephemeral=b"e" * 32
    ).pack()
    forged = [
        bare,
        bare[:98],
        bytes([MAGIC, DATA]) + b"s" * 32,
        bytes([MAGIC, FINISH]) + b"s" * 200,
        bytes([MAGIC, HINT]) + NETWORK + b"s" * 8,
        bytes([MAGIC, HELLO_OK]) + NETWORK + b"s" * 500,
        b"",
        b"\x48",
    ]
    async with relayed("anna") as relay, node_behind(relay, "anna") as anna:
        await anna.join([])
        stranger = udp.bind(("127.0.0.1", 0))
        try:
            sent = came = 0
            for data in forged * 20:
                stranger.sendto(data, relay.private["anna"])
                sent += len(data)
                with anyio.move_on_after(0.01):
                    await trio.lowlevel.wait_readable(stranger)
                    answer, _ = stranger.recvfrom(2_000)
                    assert len(answer) <= AMPLIFICATION_MAX * len(data)
                    assert kind_of(answer) in (RETRY, HINT)
                    came += len(answer)
            assert 0 < came <= sent
        finally:
            stranger.close()
        assert anna.statistics().is_joined
