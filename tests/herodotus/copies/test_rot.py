"""A flipped bit anywhere on one peer: is it noticed and mended, byte for byte, with nobody giving a command?"""

import random
from dataclasses import replace
from functools import partial

import anyio
import pytest

from herodotus.core.captures import Deposit
from herodotus.core.doors import DOOR
from herodotus.core.index_rows import CAPTURE, after
from herodotus.store.engine import Archive
from herodotus.store.reader import Reader
from herodotus.store.scan import scan_file
from herodotus.store.scrub import keep_scrubbed
from herodotus.store.sealing import seal
from herodotus.store.segments import line_of
from herodotus.store.stored_records import StoredCapture
from herodotus.store.upkeep import keep_tidy
from herodotus.store.verification import verify
from simnet.world.disk import SimulatedDisk
from tests.herodotus.copies.world import Net, Peer, in_world, ring_of
from tests.herodotus.store.making import NOW_S, page, random_text
from tests.herodotus.store.memory_store import MemoryStore

KINDS = ("log", "segment", "cdxj")
WITHIN_S = 4 * 3_600.0


def _everything(archive: Archive) -> dict[bytes, Deposit]:
    """Each capture with its head, body, request, signature: what a reader can be given."""
    reader, found = Reader(archive), dict[bytes, Deposit]()
    for key, value in archive.index.scan(CAPTURE, after(CAPTURE)):
        capture = reader.try_read(key, value)
        if capture is not None:
            deposit = capture.as_deposit()
            extra = tuple(pair for pair in deposit.extra if pair[0] != DOOR)  # each receiver's own word
            found[key] = replace(deposit, extra=extra)
    return found


def _paths(disk: SimulatedDisk, kind: str) -> list[str]:
    ends = {"log": "log/", "segment": ".warc.zst", "cdxj": ".cdxj"}[kind]
    return [path for path in disk.paths() if ends in path and disk.read_bytes(path)]


def _lists_fit(archive: Archive, disk: SimulatedDisk) -> bool:
    for number in archive.files.segments():
        name, size = archive.files.catalogue[number].name, archive.files.size(number)
        found = scan_file(archive.files, number, 0, size)
        file_name = name.path.rpartition("/")[2]
        lines = sorted(line_of(one, one.place, file_name) for one in found if isinstance(one, StoredCapture))
        if disk.read_bytes(name.cdxj) != "".join(f"{line}\n" for line in lines).encode():
            return False
    return True


async def _rots_and_is_mended(net: Net, *, seed: int) -> None:
    rng, disk = random.Random(seed), SimulatedDisk()
    await ring_of(net, MemoryStore(lambda: float(NOW_S), disk=disk), None, None)
    victim = net.peers[0]
    await _fill(net, rng)
    archive = victim.store.archive
    before = _everything(archive)
    assert len(before) == 24
    path = rng.choice(_paths(disk, KINDS[seed % len(KINDS)]))
    bit = rng.randrange(len(disk.read_bytes(path)) * 8)
    disk.rot(path, bit)
    net.tasks.start_soon(keep_tidy, victim.store)
    net.tasks.start_soon(keep_scrubbed, victim.store)
    await anyio.sleep(WITHIN_S)
    assert _everything(archive) == before, (path, bit)
    found = verify(archive)
    assert found.is_sound, (path, bit, found)
    assert _lists_fit(archive, disk), (path, bit)


async def _fill(net: Net, rng: random.Random) -> None:
    """Some in segments, some in the log; some versions of a page share a frame, some a payload."""
    victim = net.peers[0]
    keys = set[bytes]()
    for batch in range(2):
        for number in range(12):
            url = f"http://example.org/{number % 5}"
            body = random_text(rng, rng.choice((50, 700, 3_000)))
            source = rng.choice(net.peers)
            stored = await source.store.store(page(url, NOW_S + 3_600 * (12 * batch + number), body))
            keys.add(stored.id.key[:12] + stored.id.time_s.to_bytes(4, "big") + stored.id.digest[:3])
        await net.settle(keys, within_s=1_800)
        if not batch:
            seal(victim.store.archive)


@pytest.mark.parametrize("seed", range(6))
def test_a_flipped_bit_is_noticed_and_mended_without_a_command(seed: int) -> None:
    in_world(partial(_rots_and_is_mended, seed=seed), seed=seed)


@pytest.mark.sweep
def test_a_thousand_flipped_bits_are_mended() -> None:
    for seed in range(1_000):
        in_world(partial(_rots_and_is_mended, seed=seed), seed=seed)


async def _nobody_else(net: Net) -> None:
    disk = SimulatedDisk()
    await ring_of(net, MemoryStore(lambda: float(NOW_S), disk=disk), None)
    alone: Peer = net.peers[0]
    stored = await alone.store.store(page("http://example.org/", NOW_S, b"only here"))
    await anyio.sleep(1_800)
    place = Reader(alone.store.archive).find(stored.id)
    assert place is not None
    net.crash(net.peers[1])
    disk.rot(alone.store.archive.files.path(place.place.file), (place.place.offset + 60) * 8)
    net.tasks.start_soon(keep_tidy, alone.store)
    net.tasks.start_soon(keep_scrubbed, alone.store)
    await anyio.sleep(WITHIN_S)
    status = alone.copies.status()
    assert (status.under_repair, status.without_source) == (1, 1)
    assert not verify(alone.store.archive).is_sound


def test_what_nobody_else_has_is_said_to_be_with_nobody() -> None:
    in_world(_nobody_else)
