"""Does every copy outlive full disks, rot, power cuts, stalled lines, wrong clocks and lies? In virtual time."""

import random
from dataclasses import replace

import anyio
import pytest

from dht.core.ids import Key
from herodotus.copies import wire
from herodotus.core.captures import CaptureId
from herodotus.core.copies.ledger import PROMISE_KEPT_S
from herodotus.core.disputes import disputed
from herodotus.core.index_rows import CAPTURE, decode_entry
from herodotus.store.reader import Reader
from herodotus.store.settings import ArchiveSettings
from simnet.world.disk import SimulatedDisk
from tests.herodotus.copies.world import SETTINGS, Net, Peer, deposit, in_world, key_of, ring_of
from tests.herodotus.store.making import DAY_S, NOW_S, page
from tests.herodotus.store.memory_store import MemoryStore


def now() -> float:
    return float(NOW_S)


def test_a_receiver_whose_disk_is_full_keeps_nobody_waiting_and_gets_the_rest_when_there_is_room() -> None:
    async def play(net: Net) -> None:
        small = ArchiveSettings(archive_bytes_max=12_000)
        await ring_of(net, *[None] * 5, MemoryStore(now, small))
        full = net.peers[5]
        keys = {await deposit(net.peers[0], f"http://example.org/{n}") for n in range(40)}
        await anyio.sleep(120)
        assert len(full.ids()) < 40
        assert all(keys <= peer.ids() for peer in net.peers[:5])
        held = set(full.ids())
        assert not any(
            other.copies.parts.ledger.is_held(full.me, key) for other in net.peers[:5] for key in keys - held
        )
        full.store.archive.settings = ArchiveSettings()
        await net.settle(keys, within_s=1_500)

    in_world(play)


def test_a_full_holder_is_named_costs_no_line_and_the_next_peer_has_its_copies() -> None:
    async def play(net: Net) -> None:
        net.settings = replace(
            SETTINGS, full_share=1.0, compare_s=7_200.0
        )  # nothing goes; it stays full for 720 s
        small = ArchiveSettings(archive_bytes_max=12_000)
        await ring_of(net, *[None] * 7, MemoryStore(now, small))
        full, sender = net.peers[7], net.peers[0]
        for number in range(40):  # until it is full
            await deposit(sender, f"http://example.org/{number}")
        await anyio.sleep(120)
        assert full.copies.status().to_fetch == 0
        asked: list[str] = []

        def listen(service: str, answer: bytes) -> bytes:
            asked.append(service)
            return answer

        full.tamper = listen
        assert full.me.hex()[:16] in sender.copies.status().full
        keys = {await deposit(sender, f"http://example.com/{number}") for number in range(20)}
        await anyio.sleep(15)  # before those with room look for what they may hold besides
        lacking = {key for key in keys if full.me in net.holders(key)} - full.ids()
        assert lacking
        for key in lacking:
            following = net.by_key[net.table().of(Key(key[:12]), 1)[net.copies].peer]
            assert following.number in net.copies_of(key), "the next on the ring has it"
        assert wire.PUT not in asked, "nothing is sent to be refused"
        assert full.tenure.may_have_turned_away(int(net.wall_s(full)) - 60, 60), (
            "it never says that this never came"
        )
        assert not any(sender.copies.parts.ledger.is_held(full.me, key) for key in lacking)

    in_world(play)


def test_a_copy_that_rots_is_fetched_again_from_another_holder() -> None:
    async def play(net: Net) -> None:
        disk = SimulatedDisk()
        await ring_of(net, MemoryStore(now, disk=disk), *[None] * 6)
        keys = {
            await deposit(net.peers[n], f"http://example.org/{n % 20}", time_s=NOW_S + n) for n in range(7)
        }
        await net.settle(keys, within_s=900)
        await anyio.sleep(700)  # all have compared: who has what is known
        victim, key = net.peers[0], min(net.peers[0].ids())
        rot(victim, disk, key)
        assert body_at(victim, key) is None
        with anyio.fail_after(900):
            while body_at(victim, key) is None:  # noqa: ASYNC110  # an archive in virtual time tells nobody
                await anyio.sleep(10)
        await anyio.sleep(60)  # until it looks again
        assert victim.copies.parts.counts.repaired == 1
        assert not victim.copies.parts.suspects.counts

    in_world(play)


def rot(peer: Peer, disk: SimulatedDisk, key: bytes) -> None:
    value = peer.store.archive.index.get(CAPTURE + key)
    assert value is not None
    place = decode_entry(value).place
    path = peer.store.archive.files.path(place.file).rpartition(":")[2]
    disk.rot(path, 8 * (place.offset + place.length // 2))


def body_at(peer: Peer, key: bytes) -> bytes | None:
    value = peer.store.archive.index.get(CAPTURE + key)
    assert value is not None
    capture = Reader(peer.store.archive).try_read(CAPTURE + key, value)
    return None if capture is None else capture.body


@pytest.mark.parametrize("seed", [1])
def test_nothing_acknowledged_is_lost_when_the_power_of_the_whole_ring_fails(seed: int) -> None:
    """At a random moment, copies on their way; what was not synced is gone, half of it or all."""

    async def play(net: Net) -> None:
        rng = random.Random(seed)
        disks = [SimulatedDisk() for _ in range(8)]
        await ring_of(net, *(MemoryStore(now, disk=disk) for disk in disks))
        keys: set[bytes] = set()
        for cut in range(3):
            for n in range(12):
                keys.add(await deposit(net.peers[n % 8], f"http://example.org/{cut}/{n}"))
            await anyio.sleep(rng.choice([0.0, 0.06, 0.2, 1.0, rng.uniform(0, 700)]))
            for peer, disk in zip(net.peers, disks, strict=True):
                net.crash(peer)
                disk.power_cut(rng)
                peer.store = MemoryStore(now, disk=disk)
            assert keys <= set().union(*(peer.ids() for peer in net.peers))
            for peer in rng.sample(net.peers, 8):
                await net.start(peer)
                await anyio.sleep(rng.uniform(0, 20))
        await net.settle(keys, within_s=2_000 + 2 * PROMISE_KEPT_S)

    in_world(play, seed=seed)


def test_a_holder_that_stops_in_the_middle_does_not_keep_the_others_from_giving() -> None:
    """Four holders begin to answer what they are asked to give, and never end."""

    async def play(net: Net) -> None:
        await ring_of(net, *[None] * 7)
        keys = {await deposit(net.peers[0], f"http://example.org/{n}") for n in range(60)}
        await net.settle(keys, within_s=900)
        lost = net.peers[3]
        net.crash(lost, loses_disk=True)
        for peer in net.peers[4:7]:
            peer.stalls = {wire.TAKE}
        await anyio.sleep(30)
        await net.start(lost)
        await net.settle(keys, within_s=2_000)

    in_world(play)


def skewed(skew_s: float) -> MemoryStore:
    return MemoryStore(lambda: NOW_S + skew_s)


def test_wrong_clocks_and_midnight_make_no_differences() -> None:
    async def play(net: Net) -> None:
        await ring_of(net, *map(skewed, skews))
        midnight = NOW_S // DAY_S * DAY_S + DAY_S
        keys = {
            await deposit(net.peers[n % 7], f"http://example.org/{n // 2}", time_s=midnight - 1 + n % 2)
            for n in range(40)
        }
        await net.settle(keys, within_s=900)
        await anyio.sleep(700)
        for peer in net.peers:
            assert peer.copies.histogram == {6: len(peer.ids())}
        for peer in net.peers:
            assert {met.differences for met in peer.copies.status().holders} == {0}

    skews = (0.0, -90_000.0, 90_000.0, 3_600.0, -1.0, 1.0, 400 * DAY_S)
    in_world(play)


def test_two_holders_that_repair_the_same_loss_send_little_twice() -> None:
    async def play(net: Net) -> None:
        await ring_of(net, *[None] * 8)
        keys = {await deposit(net.peers[0], f"http://example.org/{n}", body=body_of(n)) for n in range(80)}
        await net.settle(keys, within_s=900 + 2 * PROMISE_KEPT_S)
        lost = net.peers[2]
        size = sum(len(body_of(0)) for _ in lost.ids())
        net.crash(lost, loses_disk=True)
        before = sum(len(peer.ids()) for peer in net.peers)
        net.bytes.clear()
        await net.settle(keys, within_s=2_500)
        assert sum(len(peer.ids()) for peer in net.peers) > before
        moved = net.bytes.get(wire.PUT, 0) + net.bytes.get(wire.TAKE, 0)
        assert moved < 1.5 * size

    in_world(play)


def body_of(number: int) -> bytes:
    return random.Random(number).randbytes(8_000)


def test_both_contents_of_one_day_come_to_all_holders_and_neither_is_let_go_alone() -> None:
    """Digests are the same, as a member is a URL on a day: polls and exact questions find the other content."""

    async def play(net: Net) -> None:
        await ring_of(net, *[None] * 7)
        one = page("http://example.org/", NOW_S, b"<p>one</p>")
        other = page("http://example.org/", NOW_S + 5, b"<p>other</p>")
        first, second = net.peers[0], net.peers[1]
        net.split({0: 0, **dict.fromkeys(range(1, 7), 1)})
        await anyio.sleep(30)
        ids: list[CaptureId] = [
            (await first.store.store(one)).id,
            (await second.store.store(other)).id,
        ]
        net.heal()
        await net.settle({key_of(id_) for id_ in ids}, within_s=30_000)
        for peer in net.peers:
            if peer.store.archive.captures:
                history = await peer.store.history("http://example.org/")
                assert disputed(history) == set(ids)
                assert peer.copies.status().disputed == 1

    in_world(play)
