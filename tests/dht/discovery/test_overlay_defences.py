"""What strangers get out of an overlay node: every row of the table measured on the stock package, on
ours.
"""

import os
from contextlib import ExitStack

import anyio
import msgspec
import pytest

from dht.discovery.addresses import overlay_node_id
from dht.discovery.kademlia_rendezvous import KademliaRendezvous
from dht.discovery.overlay_protocol import DATAGRAM_BYTES_MAX
from dht.discovery.rendezvous import shard_key, shard_of
from tests.dht.discovery.overlays import Stranger, counts_of, neighbours, overlay, overlay_node
from tests.dht.discovery.records import NETWORK, Author, validate

pytestmark = pytest.mark.anyio


def request(*fields: object) -> bytes:
    return b"\x00" + os.urandom(20) + msgspec.msgpack.encode(fields)


def key_of(author: Author) -> bytes:
    return shard_key(NETWORK, shard_of(author.position))


async def ask(stranger: Stranger, node: KademliaRendezvous, *fields: object) -> tuple[float, list[object]]:
    """How many times its bytes a request brought back, in all that came; and the first answer."""
    data = request(*fields)
    stranger.send(data, node.endpoint)
    received = await stranger.receive_all()
    answer: list[object] = msgspec.msgpack.decode(received[0][21:]) if received else []
    return sum(map(len, received)) / len(data), answer


async def token_for(stranger: Stranger, node: KademliaRendezvous, node_id: bytes) -> bytes:
    _, answer = await ask(stranger, node, "ping", b"", node_id)
    assert isinstance(answer[1], bytes)
    return answer[1]


async def filled(node: KademliaRendezvous) -> Author:
    """One shard of the node full of six fat records."""
    first = Author(address=("10.0.0.1", 4000))
    count = 0
    for number in range(1, 256):
        author = Author(address=(f"10.{number}.0.1", 4000))
        if key_of(author) == key_of(first) and count < 6:
            await node.publish(author.record(filler=bytes(400)))
            count += 1
    assert count == 6
    return first


async def test_a_stranger_without_a_token_gets_a_token_and_nothing_else() -> None:
    """Stock: 77 B bring 744 B, and a get brings whole values (x103)."""
    async with overlay(25) as nodes:
        author = await filled(nodes[0])
        with Stranger() as stranger:
            node_id = overlay_node_id(*stranger.endpoint)
            for method in ("ping", "find_node", "find_value", "store"):
                factor, answer = await ask(stranger, nodes[0], method, b"", node_id, key_of(author))
                assert factor <= 1.25
                assert answer[2:] == [False, [], []]


async def test_a_short_ping_of_an_unseen_id_brings_no_stored_values() -> None:
    """Stock: x4305 with no peers known, x1-281 with ten: the values it hands to the newcomer."""
    for others in (0, 10):
        async with overlay(1 + others) as nodes:
            await filled(nodes[0])
            with Stranger() as stranger:
                factor, _ = await ask(stranger, nodes[0], "ping", b"", overlay_node_id(*stranger.endpoint))
                assert factor <= 1.25


async def test_no_answer_is_longer_than_three_times_its_request_even_with_a_token() -> None:
    async with overlay(25) as nodes:
        author = await filled(nodes[0])
        with Stranger() as stranger:
            node_id = os.urandom(20)
            token = await token_for(stranger, nodes[0], node_id)
            for method in ("find_node", "find_value"):
                for padding in (0, 300, 1000):
                    fields = (method, token, node_id, key_of(author), b"", bytes(padding))
                    factor, answer = await ask(stranger, nodes[0], *fields)
                    assert 0 < factor <= 3
                    assert answer[2] is True
                    assert factor * len(request(*fields)) <= DATAGRAM_BYTES_MAX


async def test_a_store_by_a_stranger_is_refused() -> None:
    """Stock: 8,000 B of anything, under any key, over anybody's value."""
    async with overlay(2) as nodes:
        author = Author(address=("10.1.0.1", 4000))
        await nodes[0].publish(author.record())
        forged = Author(address=("10.1.0.1", 4000)).record()
        foreign = Author(address=("10.2.0.1", 4000), network=b"ring-two")
        other = Author(address=("10.3.0.1", 4000))
        with Stranger() as stranger:
            node_id = overlay_node_id(*stranger.endpoint)
            _, answer = await ask(stranger, nodes[0], "store", b"", node_id, key_of(author), other.record())
            assert answer[2] is False
            token = await token_for(stranger, nodes[0], node_id)
            for key, value in (
                (key_of(author), b"junk"),
                (key_of(author), forged[:-1] + bytes([forged[-1] ^ 1])),
                (key_of(foreign), foreign.record()),
                (bytes(20), other.record()),
                (key_of(other), other.record(life_s=-1)),
                (key_of(other), other.record(life_s=1e6)),
                (key_of(other), other.record(filler=bytes(900))),
            ):
                _, answer = await ask(stranger, nodes[0], "store", token, node_id, key, value)
                assert answer == [] or answer[2] is False
        assert await nodes[1].find() == [author.record()]
        assert len(nodes[0]._store) == 1


async def test_malformed_datagrams_are_dropped_and_counted() -> None:
    async with overlay(1) as nodes:
        head = b"\x00" + bytes(20)
        bad = [
            b"\x07",
            b"\x00",
            b"\x00short",
            head,
            head + b"\xc1",
            head + b"\x91" * 1200,
            head + msgspec.msgpack.encode(["ping"]),
            head + msgspec.msgpack.encode(["stun", b"", bytes(20)]),
            head + msgspec.msgpack.encode({"ping": []}),
            head + msgspec.msgpack.encode(["ping", b"", bytes(19)]),
            head + msgspec.msgpack.encode(["find_node", b"", bytes(20), "text"]),
            head + msgspec.msgpack.encode(["store", b"", bytes(20), bytes(20), bytes(1001)]),
        ]
        with Stranger() as stranger:
            for data in bad:
                stranger.send(data, nodes[0].endpoint)
            assert await stranger.receive_all() == []
            factor, _ = await ask(stranger, nodes[0], "ping", b"", bytes(20))
            assert factor > 0
        assert counts_of(nodes[0])["malformed"] == len(bad)


async def test_replies_nobody_asked_for_are_counted() -> None:
    async with overlay(1) as nodes:
        with Stranger() as stranger:
            stranger.send(b"\x01" + bytes(20) + msgspec.msgpack.encode([bytes(20), b""]), nodes[0].endpoint)
            await ask(stranger, nodes[0], "ping", b"", bytes(20))
        assert counts_of(nodes[0])["unknown_reply"] == 1


async def test_a_reply_from_another_address_than_the_asked_one_does_not_count() -> None:
    node = overlay_node(1)
    await node.start()
    with Stranger() as asked, Stranger("127.201.0.1") as liar:
        liar_id = overlay_node_id(*asked.endpoint)

        async def answer_from_elsewhere() -> None:
            data = await asked.receive()
            liar.send(b"\x01" + data[1:21] + msgspec.msgpack.encode([liar_id, b"t", True]), node.endpoint)

        async with anyio.create_task_group() as group:
            group.start_soon(answer_from_elsewhere)
            assert await node.greet([asked.endpoint]) == set()
    counts = counts_of(node)
    await node.stop()
    assert counts["wrong_address"] == 1
    assert counts["timeouts"] == 1


async def test_three_hundred_made_up_ids_enter_no_table() -> None:
    """Stock: 26 -> 51 entries from one socket."""
    async with overlay(26) as nodes:
        before = neighbours(nodes[0])
        record = Author(address=("10.1.0.1", 4000)).record()
        await nodes[3].publish(record)
        with Stranger() as stranger:
            token = await token_for(stranger, nodes[0], bytes(20))
            for _ in range(300):
                stranger.send(request("ping", token, os.urandom(20)), nodes[0].endpoint)
                await stranger.receive()
        assert neighbours(nodes[0]) == before
        assert counts_of(nodes[0])["made_up_ids"] >= 300
        assert await nodes[0].find() == [record]


async def test_true_ids_of_many_ports_of_one_network_are_capped() -> None:
    async with overlay(1) as nodes:
        with ExitStack() as strangers:  # all open together, so that no port comes twice
            for _ in range(40):
                stranger = strangers.enter_context(Stranger())
                node_id = overlay_node_id(*stranger.endpoint)
                stranger.send(request("ping", b"", node_id), nodes[0].endpoint)
                token = msgspec.msgpack.decode((await stranger.receive())[21:])[1]
                stranger.send(request("ping", token, node_id), nodes[0].endpoint)
                await stranger.receive()
        assert neighbours(nodes[0]) == 16
        assert counts_of(nodes[0])["prefix_full"] == 24


async def test_a_flood_from_one_network_is_answered_twenty_times_a_second() -> None:
    node = overlay_node(1, requests_per_s=20)
    await node.start()
    began = anyio.current_time()
    with Stranger() as stranger:
        for _ in range(100):
            stranger.send(request("ping", b"", bytes(20)), node.endpoint)
        answers = len(await stranger.receive_all())
    took_s = anyio.current_time() - began
    limited = counts_of(node)["rate_limited"]
    await node.stop()
    assert 20 <= answers <= 20 + 20 * took_s + 1
    assert limited == 100 - answers


async def test_a_liar_who_answers_with_junk_does_not_stop_a_search() -> None:
    """It sits in the table under its true id and answers every question with what cannot be right."""
    async with overlay(4) as nodes:
        record = Author(address=("10.1.0.1", 4000)).record()
        await nodes[2].publish(record)
        with Stranger() as liar:
            liar_id = overlay_node_id(*liar.endpoint)

            async def lie() -> None:
                while True:
                    await anyio.wait_readable(liar.socket)
                    data, sender = liar.socket.recvfrom(2048)
                    contacts = [
                        (bytes(20), "10.9.9.9", 1),
                        (os.urandom(20), "no address", 5),
                        (os.urandom(20), "224.0.0.1", 5),
                        (os.urandom(20), "10.9.9.9", -1),
                    ]
                    junk = [b"junk", Author(address=("10.2.0.1", 1), network=b"ring-two").record()]
                    answer = [liar_id, b"token", True, contacts, junk]
                    liar.socket.sendto(b"\x01" + data[1:21] + msgspec.msgpack.encode(answer), sender)

            async with anyio.create_task_group() as group:
                group.start_soon(lie)
                assert await nodes[0].greet([liar.endpoint]) == {liar.endpoint}
                found = await nodes[0].find()
                group.cancel_scope.cancel()
        assert found == [record]
        assert validate(found[0]) is not None
        assert counts_of(nodes[0])["unbelievable_contacts"] > 0
