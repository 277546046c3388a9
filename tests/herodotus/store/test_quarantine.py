"""What was acknowledged and cannot be read any more: is it kept, named, asked for and repaired?"""

import errno
import random

import pytest

from herodotus.core.captures import Deposit
from herodotus.core.errors import DamagedRecordError, StoreRefusedError
from herodotus.store.engine import Archive
from herodotus.store.files import Files
from herodotus.store.holdings import drop
from herodotus.store.intake import Intake, StoreOutcome
from herodotus.store.log import NewTombstones
from herodotus.store.losses import KEPT_S, settle
from herodotus.store.quarantine import Lost, Quarantined, format_note, parse_note
from herodotus.store.reader import Reader
from herodotus.store.recovery import open_archive, rebuild
from herodotus.store.sealing import compact, seal
from herodotus.store.settings import ArchiveSettings
from herodotus.store.verification import verify
from simnet.world.disk import Failure, PowerCut, SimulatedDisk
from tests.herodotus.store.making import NOW_S, open_on, page, random_text, store
from tests.herodotus.store.memory_store import MemoryIndex
from tests.herodotus.store.power import JournalledIndex

FOLDER = "quarantine"
GOLDEN = b"""{
 "version": 1,
 "file": 12,
 "offset": 227,
 "length": 405,
 "source": "log/00000012.warc.gz",
 "reason": "broken gzip member: Error -6",
 "found": 1700000000,
 "sha256": "0000000000000000000000000000000000000000000000000000000000000000",
 "in_place": false,
 "captures": [
  {
   "url": "http://example.org/",
   "date": "1976-05-29T01:42:39Z",
   "digest": "101112",
   "key": "000102030405060708090a0b0c0d0e0f101112",
   "arrival": 51539607779,
   "records": 0
  }
 ],
 "repaired": null
}
"""


def _pages(seed: int, count: int = 5) -> list[Deposit]:
    rng = random.Random(seed)
    return [page(f"http://example.org/{n}", NOW_S + n, random_text(rng, 900)) for n in range(count)]


def _replays(archive: Archive, deposit: Deposit) -> bool:
    try:
        found = Reader(archive).read(deposit.id)
    except DamagedRecordError:
        return False
    return found is not None and found.body == deposit.capture.body


def _place(archive: Archive, deposit: Deposit) -> tuple[str, int, int]:
    entry = Reader(archive).find(deposit.id)
    assert entry is not None
    return archive.files.path(entry.place.file), entry.place.offset, entry.place.length


def _kept(disk: SimulatedDisk) -> list[bytes]:
    if not disk.exists(FOLDER):
        return []
    return [
        disk.read_bytes(f"{FOLDER}/{name}") for name in sorted(disk.listdir(FOLDER)) if name.endswith(".bin")
    ]


@pytest.mark.parametrize("seed", range(12))
def test_one_rotten_bit_of_a_log_costs_no_byte_and_no_capture_that_still_replays(seed: int) -> None:
    disk, rng = SimulatedDisk(), random.Random(seed)
    archive = open_on(disk)
    deposits = _pages(seed)
    store(archive, *deposits)
    victim = rng.choice(deposits)
    path, offset, length = _place(archive, victim)
    # Every third time in the request beside the page. The first bytes of a gzip member matter to nobody.
    first = Reader(archive).read(victim.id)
    assert first is not None
    at = (
        offset + length - 12 - rng.randrange(60)
        if seed % 3 == 0
        else offset + 40 + rng.randrange(length // 2)
    )
    disk.rot(path, at * 8 + rng.randrange(8))
    rotten = disk.read_bytes(path)[offset : offset + length]
    replayed = [_replays(archive, deposit) for deposit in deposits]
    seal(archive)
    assert all(_replays(archive, deposit) for deposit, did in zip(deposits, replayed, strict=True) if did)
    assert _kept(disk) == [rotten]
    rebuild(archive)
    assert all(_replays(archive, deposit) for deposit, did in zip(deposits, replayed, strict=True) if did)
    assert not verify(archive).is_sound
    # It comes from somebody else, with its request.
    store(archive, victim)
    again = Reader(archive).read(victim.id)
    assert again is not None
    assert [one.block for one in again.companions] == [one.block for one in first.companions]
    seal(archive)
    compact(archive, dead_min=0)
    settle(archive)
    assert verify(archive).is_sound
    assert all(_replays(archive, deposit) for deposit in deposits)


def _bytes_are_somewhere(disk: SimulatedDisk, rotten: bytes) -> bool:
    """In the file that had them, or in quarantine with a note beside them."""
    for path in disk.paths():
        is_kept = path.startswith(f"/{FOLDER}/") and path.endswith(".bin")
        if is_kept and disk.read_bytes(path) == rotten and disk.exists(path.removesuffix("bin") + "json"):
            return True
        if ".warc." in path and not path.endswith(".part") and rotten in disk.read_bytes(path):
            return True
    return False


def _rotten(
    seed: int, index: JournalledIndex, deposits: list[Deposit], *, is_sealed: bool = False
) -> tuple[SimulatedDisk, Archive, bytes]:
    """An archive of some pages, the second of which rots."""
    disk = SimulatedDisk()
    archive = open_on(disk, index)
    store(archive, *deposits)
    if is_sealed:
        seal(archive)
    index.flush()
    path, offset, length = _place(archive, deposits[1])
    disk.rot(path, (offset + 60 + seed) * 8)
    return disk, archive, disk.read_bytes(path)[offset : offset + length]


@pytest.mark.parametrize("is_sealed", [False, True])
def test_no_power_cut_while_sealing_loses_the_bytes_or_any_other_capture(is_sealed: bool) -> None:
    def upkeep(archive: Archive) -> None:
        if is_sealed:
            compact(archive, dead_min=0)
        else:
            seal(archive)

    deposits, images, is_done = _pages(1), 0, False
    others = [deposit for deposit in deposits if deposit is not deposits[1]]
    for changes in range(200):
        index = JournalledIndex()
        disk, archive, rotten = _rotten(changes % 40, index, deposits, is_sealed=is_sealed)
        disk.cut_after(changes)
        is_done = True
        try:
            upkeep(archive)
        except PowerCut:
            is_done = False
        rng = random.Random(changes)
        for image in disk.crash_images(rng, limit=3):
            images += 1
            assert _bytes_are_somewhere(image, rotten)
            survivor = index.after_crash(rng) if rng.random() < 0.7 else MemoryIndex()
            again = open_on(image, survivor)
            assert _bytes_are_somewhere(image, rotten)
            assert all(_replays(again, deposit) for deposit in others)
            assert not verify(again).is_sound
            # What comes later finishes what was begun, and the capture counts as missing then.
            upkeep(again)
            assert _bytes_are_somewhere(image, rotten)
            # Where only the checksum rotted, it replays, and another holder's copy is taken all the same.
            assert again.captures == len(others) + _replays(again, deposits[1])
            assert store(again, deposits[1]) == [StoreOutcome.NEW]
            assert _replays(again, deposits[1])
        if is_done:
            break
    assert is_done
    assert images > 60


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("calls", ["pwrite", "fsync", "rename", "mkdir"])
def test_where_quarantine_takes_nothing_the_log_stays(error: int, calls: str) -> None:
    deposits = _pages(2)
    disk, archive, rotten = _rotten(0, JournalledIndex(), deposits)
    disk.fail(Failure(calls=frozenset({calls}), error=error, path=f"*{FOLDER}*"))
    with pytest.raises(StoreRefusedError):
        seal(archive)
    assert _bytes_are_somewhere(disk, rotten)
    assert [_replays(archive, deposit) for deposit in deposits] == [True, False, True, True, True]
    disk.mend()
    seal(archive)
    assert _kept(disk) == [rotten]
    assert archive.captures == len(deposits) - 1


def test_more_than_a_hundredth_of_the_offer_stays_where_it_is() -> None:
    deposits = _pages(3)
    disk = SimulatedDisk()
    archive = open_on(disk, settings=ArchiveSettings(archive_bytes_max=100_000))
    store(archive, *deposits)
    log = archive.files.path(archive.log.number)
    for deposit in deposits[:2]:
        path, offset, _ = _place(archive, deposit)
        disk.rot(path, (offset + 60) * 8)
    with pytest.raises(StoreRefusedError, match="quarantine"):
        seal(archive)
    assert disk.exists(log)
    seal(archive)  # the rest can be sealed
    assert disk.exists(log)
    assert all(_replays(archive, deposit) for deposit in deposits[2:])


def test_what_rotted_before_the_index_was_lost_is_kept_named_and_goes_on_being_known() -> None:
    disk = SimulatedDisk()
    archive = open_on(disk)
    deposits = _pages(4)
    store(archive, *deposits)
    path, offset, length = _place(archive, deposits[1])
    disk.rot(path, (offset + length // 3) * 8)
    again = open_on(disk)  # without its index
    (item,) = again.quarantine.waiting
    assert (item.source, item.offset, item.length) == (path, offset, length)
    assert [one.url for one in item.captures] == [deposits[1].capture.url]
    rebuild(again)
    assert [one.url for one in again.quarantine.waiting[0].captures] == [deposits[1].capture.url]
    seal(again)
    assert not disk.exists(path)
    assert verify(again).quarantined == 1
    rebuild(again)
    assert verify(again).quarantined == 1
    store(again, deposits[1])
    settle(again)
    assert verify(again).is_sound


def test_a_repaired_file_goes_after_thirty_days_and_an_unrepaired_one_never() -> None:
    disk, now = SimulatedDisk(), [float(NOW_S)]
    archive = Archive(Files([disk]), MemoryIndex(), now=lambda: now[0])
    open_archive(archive)
    deposits = _pages(5)
    store(archive, *deposits)
    for deposit in deposits[:2]:
        path, offset, _ = _place(archive, deposit)
        disk.rot(path, (offset + 60) * 8)
    seal(archive)
    store(archive, deposits[0])
    settle(archive)
    assert (len(_kept(disk)), archive.quarantine.captures) == (2, 1)
    now[0] += KEPT_S - 1
    settle(archive)
    assert len(_kept(disk)) == 2
    now[0] += 2
    settle(archive)
    assert len(_kept(disk)) == 1
    now[0] += 100 * KEPT_S
    settle(archive)
    assert (len(_kept(disk)), archive.quarantine.captures) == (1, 1)


def test_what_is_deleted_for_good_leaves_quarantine_too() -> None:
    disk = SimulatedDisk()
    archive = open_on(disk)
    deposits = _pages(6)
    store(archive, *deposits)
    path, offset, _ = _place(archive, deposits[0])
    disk.rot(path, (offset + 60) * 8)
    seal(archive)
    archive.commit([NewTombstones(ids=(deposits[0].id,))])
    settle(archive)
    assert _kept(disk) == []
    assert verify(archive).is_sound


def test_versions_that_share_a_rotten_frame_are_salvaged_where_their_digests_fit() -> None:
    """A checksum counts for a whole frame; each record in it has its own."""
    disk = SimulatedDisk()
    archive = open_on(disk)
    rng = random.Random(7)
    versions = [page("http://example.org/", NOW_S + n, rng.randbytes(700)) for n in range(8)]
    store(archive, *versions)
    seal(archive)
    path, offset, length = _place(archive, versions[3])
    body = disk.read_bytes(path).find(versions[3].capture.body[:40])
    assert offset < body < offset + length  # nobody could compress it
    disk.rot(path, (body + 100) * 8)
    rotten = disk.read_bytes(path)[offset : offset + length]
    assert not any(_replays(archive, version) for version in versions)
    compact(archive, dead_min=0)
    assert _kept(disk) == [rotten]
    assert [_replays(archive, version) for version in versions] == [n != 3 for n in range(8)]
    assert verify(archive).quarantined == 8
    for version in versions:
        store(archive, version)
    settle(archive)
    assert verify(archive).is_sound


@pytest.mark.parametrize("index_is_lost", [False, True])
def test_the_last_member_of_a_log_that_rotted_is_not_cut_for_a_torn_end(index_is_lost: bool) -> None:
    disk, index = SimulatedDisk(), MemoryIndex()
    archive = open_on(disk, index)
    deposits = _pages(8)
    store(archive, *deposits)
    path, offset, _ = _place(archive, deposits[-1])
    disk.rot(path, (offset + 60) * 8)
    rotten = disk.read_bytes(path)[offset:]
    if index_is_lost:
        archive.close()  # which syncs the manifest's last row
        archive = open_on(disk)
    else:
        rebuild(archive)
    assert _bytes_are_somewhere(disk, rotten)
    assert [one.url for one in archive.quarantine.waiting[0].captures] == [deposits[-1].capture.url]
    assert verify(archive).quarantined == 1


def test_what_a_damaged_note_said_was_deleted_stays_deleted() -> None:
    disk = SimulatedDisk()
    archive = open_on(disk)
    deposits = _pages(9)
    store(archive, *deposits)
    at = archive.log.tail
    archive.commit([NewTombstones(ids=(deposits[0].id,))])
    store(archive, page("http://example.org/behind", NOW_S))
    disk.rot(archive.files.path(archive.log.number), (at + 40) * 8)
    seal(archive)
    assert len(_kept(disk)) == 1
    rebuild(archive)
    assert archive.captures == len(deposits)
    assert store(archive, deposits[0]) == [StoreOutcome.DELETED]


def test_a_surplus_copy_that_cannot_be_read_is_kept_when_others_take_it_over_and_not_waited_for() -> None:
    disk = SimulatedDisk()
    archive = open_on(disk)
    deposits = _pages(10)
    store(archive, *deposits)
    path, offset, length = _place(archive, deposits[3])
    disk.rot(path, (offset + 60) * 8)
    rotten = disk.read_bytes(path)[offset : offset + length]
    assert drop(archive, Intake(archive), b"", None) == len(deposits)
    assert _kept(disk) == [rotten]
    assert verify(archive).quarantined == 0


def test_a_bad_sector_s_captures_are_not_sealed_as_zeros() -> None:
    """The disk may read them tomorrow; what it gave today is not what was there."""
    deposits = _pages(11)
    disk, archive, rotten = _rotten(0, JournalledIndex(), deposits)
    log = archive.files.path(archive.log.number)
    disk.fail(Failure(calls=frozenset({"pread"}), error=errno.EIO, path=log))
    with pytest.raises(StoreRefusedError):
        seal(archive)
    assert _kept(disk) == []
    assert _bytes_are_somewhere(disk, rotten)


def test_a_note_has_one_form() -> None:
    item = Quarantined(
        file=12,
        offset=227,
        length=405,
        source="log/00000012.warc.gz",
        reason="broken gzip member: Error -6",
        found_s=NOW_S,
        captures=(Lost(key=bytes(range(19)), url="http://example.org/", arrival=12 << 32 | 227, records=0),),
        sha256=bytes(32),
    )
    note = format_note(item)
    assert note == GOLDEN
    assert parse_note(note, 0) == item
