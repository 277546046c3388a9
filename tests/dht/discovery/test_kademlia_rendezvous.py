"""The overlay finds: real nodes, real datagrams, on loopback."""

from pathlib import Path

import pytest

from dht.discovery.rendezvous import shard_key, shard_of
from tests.dht.discovery.overlays import neighbours, overlay, overlay_node
from tests.dht.discovery.records import NETWORK, Author, validate

pytestmark = pytest.mark.anyio


def authors(count: int) -> list[Author]:
    return [Author(address=(f"10.{number}.0.1", 4000)) for number in range(count)]


async def test_a_record_published_by_one_of_twelve_is_found_by_every_other() -> None:
    async with overlay(12) as nodes:
        record = Author(address=("10.1.2.3", 4000)).record()
        assert await nodes[5].publish(record) == 8
        for node in nodes:
            assert await node.find() == [record]


async def test_a_reader_of_three_shards_finds_a_sixteenth_of_the_network_at_a_time() -> None:
    """With one record in each shard, three of sixteen are read, and other three the next time."""
    async with overlay(4) as nodes:
        by_shard = {shard_of(author.position): author for author in authors(200)}
        assert len(by_shard) == 16
        for author in by_shard.values():
            await nodes[0].publish(author.record())
        reader = overlay_node(50, [nodes[0].endpoint], shards_read=3)
        await reader.start()
        first, second = await reader.find(), await reader.find()
        await reader.stop()
        assert len(first) == len(second) == 3
        assert set(first) != set(second)


async def test_the_halves_of_a_split_ring_find_each_other_by_kademlia_alone() -> None:
    """Two rings of six that know nobody of the other; their overlay nodes share one."""
    async with overlay(13) as nodes:
        one = [Author(address=(f"10.{n}.0.1", 4000)) for n in range(6)]
        other = [Author(address=(f"172.{n}.0.1", 4000)) for n in range(6)]
        for node, author in zip(nodes[1:], one + other, strict=True):
            assert await node.publish(author.record()) > 0
        everybody = {author.peer_id for author in one + other}
        for node in (nodes[1], nodes[12]):
            facts = [validate(record) for record in await node.find()]
            assert {fact.peer_id for fact in facts if fact is not None} == everybody


async def test_overlays_started_apart_join_through_one_contact() -> None:
    async with overlay(6) as nodes:
        lonely = [overlay_node(number) for number in range(20, 26)]
        for node in lonely:
            await node.start()
            if node is not lonely[0]:
                assert await node.greet([lonely[0].endpoint]) == {lonely[0].endpoint}
        record = Author(address=("10.1.2.3", 4000)).record()
        await nodes[0].publish(record)
        assert await lonely[3].find() == []
        assert await lonely[2].greet([nodes[4].endpoint]) == {nodes[4].endpoint}
        assert await lonely[2].find() == [record]
        for node in lonely:
            await node.stop()


async def test_only_the_newest_record_of_a_peer_is_found() -> None:
    async with overlay(4) as nodes:
        author = Author(address=("10.1.2.3", 4000))
        await nodes[1].publish(author.record(incarnation=1))
        newest = author.record(incarnation=2)
        await nodes[2].publish(newest)
        assert await nodes[3].find() == [newest]


async def test_publishing_without_any_neighbour_answers_zero() -> None:
    """The stock package raises ValueError here."""
    node = overlay_node(1)
    await node.start()
    assert await node.publish(Author(address=("10.1.2.3", 4000)).record()) == 0
    await node.stop()


async def test_publishing_when_all_neighbours_are_dead_answers_zero() -> None:
    async with overlay(3) as nodes:
        for node in nodes[1:]:
            await node.stop()
        assert await nodes[0].publish(Author(address=("10.1.2.3", 4000)).record()) == 0
        assert neighbours(nodes[0]) == 0


async def test_an_expired_record_of_our_own_is_kept_back_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As after a step of the clock: no reason to stop the peer."""
    async with overlay(2) as nodes:
        assert await nodes[0].publish(Author(address=("10.1.2.3", 4000)).record(life_s=-1)) == 0
        assert await nodes[1].find() == []
    assert "own record not published" in caplog.text


async def test_a_newcomer_is_given_the_records_it_should_hold() -> None:
    async with overlay(5) as nodes:
        author = Author(address=("10.1.2.3", 4000))
        await nodes[0].publish(author.record())
        newcomer = overlay_node(60, [nodes[0].endpoint])
        await newcomer.start()
        for node in nodes:
            await node.find()
        assert newcomer._store.records(shard_key(NETWORK, shard_of(author.position))) == [author.record()]
        await newcomer.stop()


async def test_neighbours_are_remembered_over_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "state" / "overlay.msgpack"
    async with overlay(4) as nodes:
        record = Author(address=("10.1.2.3", 4000)).record()
        await nodes[2].publish(record)
        first = overlay_node(70, [nodes[0].endpoint], state_path=path)
        await first.start()
        await first.stop()
        again = overlay_node(70, state_path=path)
        await again.start()
        assert neighbours(again) == 4
        assert await again.find() == [record]
        await again.stop()


async def test_a_torn_state_file_is_forgotten_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "overlay.msgpack"
    path.write_bytes(b"\x80\x04pickle")
    node = overlay_node(1, state_path=path)
    await node.start()
    await node.stop()
    assert "state file unreadable" in caplog.text


async def test_stopping_twice_and_working_after_it_is_harmless() -> None:
    node = overlay_node(1)
    await node.start()
    await node.stop()
    await node.stop()
    assert await node.find() == []
    assert await node.publish(Author(address=("10.1.2.3", 4000)).record()) == 0
    assert node._running is None


async def test_a_contact_that_was_down_is_greeted_again_though_others_answered() -> None:
    """Else its part of the overlay would stay unknown to ours: only this contact links the two."""
    async with overlay(2) as here:
        there = overlay_node(30)
        await there.start()
        endpoint = there.endpoint
        await there.stop()
        link = overlay_node(40, [here[0].endpoint, endpoint])
        await link.start()
        there = overlay_node(30, port=endpoint[1])
        await there.start()
        record = Author(address=("10.1.2.3", 4000)).record()
        await there.publish(record)
        assert await link.find() == [record]
        for node in (link, there):
            await node.stop()
