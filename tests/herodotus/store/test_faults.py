"""Disks fail, fill up, turn read-only, rot and go missing: storing says no, what is there is served."""

import errno
import os
import random
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from herodotus.core.bundles import Visit
from herodotus.core.captures import Deposit
from herodotus.core.errors import DamagedRecordError, StoreRefusedError, UnusableArchiveError
from herodotus.store.deletion import delete
from herodotus.store.disk import Disk, OsDisk
from herodotus.store.engine import Archive
from herodotus.store.files import Files
from herodotus.store.index import RocksIndex
from herodotus.store.intake import Intake, StoreOutcome
from herodotus.store.log import TAIL_PATH
from herodotus.store.reader import Reader
from herodotus.store.recovery import open_archive
from herodotus.store.sealing import compact, seal
from herodotus.store.settings import ArchiveSettings
from herodotus.store.slices import add_slice, archive_at
from herodotus.store.verification import verify
from simnet.world.disk import Failure, SimulatedDisk
from tests.herodotus.store.making import NOW_S, note_visits, open_on, page, random_text, store
from tests.herodotus.store.memory_store import MemoryIndex

URL = "http://example.org/"


def _pages(count: int) -> list[Deposit]:
    rng = random.Random(9)
    return [page(f"http://example.org/{n}", NOW_S + n, random_text(rng, 800)) for n in range(count)]


def _slices(disks: Sequence[Disk | None], index: MemoryIndex | None = None) -> Archive:
    archive = Archive(Files(disks), index or MemoryIndex(), now=lambda: float(NOW_S))
    open_archive(archive)
    return archive


@pytest.mark.parametrize("call", ["fdatasync", "pwrite"])
def test_after_a_failed_flush_a_new_log_is_begun_and_nothing_is_tried_again(call: str) -> None:
    disk = SimulatedDisk()
    archive = open_on(disk)
    kept, refused, later = _pages(3)
    store(archive, kept)
    log = archive.log.number
    disk.fail(Failure(calls=frozenset({call}), error=errno.EIO, times=1))
    with pytest.raises(StoreRefusedError, match="the disk failed"):
        store(archive, refused)
    assert Reader(archive).read(refused.id) is None
    assert store(archive, later) == [StoreOutcome.NEW]
    assert archive.log.number == log + 1
    assert store(archive, refused) == [StoreOutcome.NEW]
    again = open_on(disk)
    assert all(Reader(again).read(deposit.id) is not None for deposit in (kept, refused, later))


def test_half_a_record_is_cut_before_a_shorter_one_takes_its_place(tmp_path: Path) -> None:
    """Else its end would lie behind what is written next, and be taken for rot when another log is begun."""
    archive = open_on(tmp_path)
    kept, torn, short = (
        page(URL, NOW_S + n, random_text(random.Random(n), size)) for n, size in enumerate((100, 9_000, 200))
    )
    store(archive, kept)
    whole = archive.log.tail
    store(archive, torn)
    log = tmp_path / archive.files.path(archive.log.number)
    archive.close()
    os.truncate(log, whole + (log.stat().st_size - whole) // 2)
    (tmp_path / TAIL_PATH).unlink()
    again = open_on(tmp_path)
    assert log.stat().st_size == again.log.tail == whole
    store(again, short)
    again.roll()
    found = verify(again)
    assert (found.is_sound, found.damaged, found.unknown) == (True, 0, 0)
    assert seal(again).skipped == 0
    again.close()


def test_a_full_disk_refuses_and_goes_on_when_there_is_room() -> None:
    disk = SimulatedDisk(capacity_bytes=6_000 + 4_500)  # the manifest has what comes behind
    archive = open_on(disk)
    stored = []
    deposits = iter(_pages(40))
    with suppress(StoreRefusedError):
        for deposit in deposits:
            store(archive, deposit)
            stored.append(deposit)
    with pytest.raises(StoreRefusedError, match="full"):
        store(archive, page(URL, NOW_S, random.Random(1).randbytes(5_000)))
    assert len(stored) > 2
    assert all(Reader(archive).read(deposit.id) is not None for deposit in stored)
    disk.capacity_bytes = 100_000
    assert store(archive, next(deposits)) == [StoreOutcome.NEW]
    again = open_on(disk)
    assert all(Reader(again).read(deposit.id) is not None for deposit in stored)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("call", ["open", "pwrite"])
def test_a_log_that_found_no_room_is_begun_when_there_is_some(call: str, error: int) -> None:
    disk = SimulatedDisk()
    archive = open_on(disk)
    kept, refused, later, last = _pages(4)
    store(archive, kept)
    logs = [path for path in disk.paths() if "log/" in path]
    disk.fail(Failure(calls=frozenset({"fdatasync"}), error=errno.EIO, times=1))
    disk.fail(Failure(calls=frozenset({call}), error=error, path="*log/*[2-9].*"))
    with pytest.raises(StoreRefusedError, match="the disk failed"):
        store(archive, refused)
    for _ in range(5):
        with pytest.raises(StoreRefusedError, match="the disk is full"):
            store(archive, later)
    assert "the disk is full" in str(archive.problem)
    assert [path for path in disk.paths() if "log/" in path] == logs
    assert Reader(archive).read(kept.id) is not None
    disk.mend()
    assert store(archive, refused, later) == [StoreOutcome.NEW] * 2
    assert archive.problem is None
    again = open_on(disk)
    assert all(Reader(again).read(deposit.id) is not None for deposit in (kept, refused, later))
    assert store(again, last) == [StoreOutcome.NEW]


def test_a_log_that_is_long_enough_stays_in_use_until_another_finds_room() -> None:
    disk = SimulatedDisk()
    archive = open_on(disk)
    first, second, third = _pages(3)
    store(archive, first)
    disk.fail(Failure(calls=frozenset({"open"}), error=errno.ENOSPC, path="*log/*[2-9].*"))
    with pytest.raises(StoreRefusedError, match="the disk is full"):
        seal(archive)
    assert store(archive, second) == [StoreOutcome.NEW]
    disk.mend()
    assert seal(archive).captures == 2
    assert store(archive, third) == [StoreOutcome.NEW]


def test_an_archive_that_is_opened_on_a_full_disk_stores_when_there_is_room() -> None:
    disk = SimulatedDisk()
    kept, later = _pages(2)
    archive = open_on(disk)
    store(archive, kept)
    seal(archive)
    archive.close()
    disk.fail(Failure(calls=frozenset({"open", "pwrite"}), error=errno.ENOSPC, path="*log/*[4-9].*"))
    again = open_on(disk)  # which needs a log with a number above the segment's
    with pytest.raises(StoreRefusedError, match="the disk is full"):
        store(again, later)
    assert Reader(again).read(kept.id) is not None
    disk.mend()
    assert store(again, later) == [StoreOutcome.NEW]


def test_a_new_log_whose_flush_failed_is_not_tried_again() -> None:
    disk = SimulatedDisk()
    archive = open_on(disk)
    first, second = _pages(2)
    disk.fail(Failure(calls=frozenset({"fdatasync"}), error=errno.EIO, times=1))
    disk.fail(Failure(calls=frozenset({"fsync"}), error=errno.ENOSPC, times=1, path="*log*"))
    with pytest.raises(StoreRefusedError, match="the disk failed"):
        store(archive, first)
    for deposit in (first, second):
        with pytest.raises(StoreRefusedError, match="no new log can be begun"):
            store(archive, deposit)


def test_the_reserve_is_not_stored_into() -> None:
    free = [1_000_000]
    archive = Archive(
        Files([SimulatedDisk()]),
        MemoryIndex(),
        now=lambda: 0.0,
        settings=ArchiveSettings(reserve_bytes=500_000),
        free_bytes=lambda slice_: free[slice_],
    )
    open_archive(archive)
    first, second = _pages(2)
    store(archive, first)
    free[0] = 499_000
    with pytest.raises(StoreRefusedError, match="reserve"):
        store(archive, second)
    assert Reader(archive).read(first.id) is not None


def test_when_the_first_disk_has_only_its_reserve_left_the_log_goes_on_on_the_next() -> None:
    free = [1_000_000, 1_000_000]
    archive = Archive(
        Files([SimulatedDisk(), SimulatedDisk()]),
        MemoryIndex(),
        now=lambda: 0.0,
        settings=ArchiveSettings(reserve_bytes=500_000),
        free_bytes=lambda slice_: free[slice_],
    )
    open_archive(archive)
    first, second, third, fourth = _pages(4)
    store(archive, first)
    free[0] = 499_000
    assert archive.has_room(0)
    store(archive, second, third)
    assert archive.files.catalogue[archive.log.number].slice == 1
    assert len(archive.files.logs()) == 2
    free[1] = 499_000
    assert not archive.has_room(0)
    with pytest.raises(StoreRefusedError, match="reserve"):
        store(archive, fourth)
    free[0] = 1_000_000
    store(archive, fourth)
    assert archive.files.catalogue[archive.log.number].slice == 0
    assert all(Reader(archive).read(deposit.id) is not None for deposit in (first, second, third, fourth))


def _on_disks(free: list[int], *disks: Disk) -> Archive:
    archive = Archive(
        Files(disks),
        MemoryIndex(),
        now=lambda: 0.0,
        settings=ArchiveSettings(reserve_bytes=500_000),
        free_bytes=lambda slice_: free[slice_],
    )
    open_archive(archive)
    return archive


def test_sealing_begins_only_where_all_of_it_has_room() -> None:
    free, disk = [1_000_000], SimulatedDisk()
    archive = _on_disks(free, disk)
    deposits = _pages(40)
    store(archive, *deposits)
    free[0] = 2_000  # of the reserve, which is there for this
    with pytest.raises(StoreRefusedError, match="no room for"):
        seal(archive)
    assert not [path for path in disk.paths() if path.endswith((".part", ".zst"))]
    delete(archive, Intake(archive), [deposit.id for deposit in deposits[1:]])
    assert seal(archive).captures == 1
    assert Reader(archive).read(deposits[0].id) is not None


def test_segments_of_a_full_disk_go_to_the_next() -> None:
    free = [1_000_000, 1_000_000]
    archive = _on_disks(free, SimulatedDisk(), SimulatedDisk())
    deposits = _pages(40)
    store(archive, *deposits)
    free[0] = 100
    assert seal(archive).captures == 40
    segments = archive.files.segments()
    assert {archive.files.catalogue[number].slice for number in segments} == {1}
    assert all(Reader(archive).read(deposit.id) is not None for deposit in deposits)


def test_compaction_takes_what_there_is_room_for() -> None:
    free = [1_000_000]
    archive = _on_disks(free, SimulatedDisk())
    deposits = _pages(40)
    store(archive, *deposits)
    seal(archive)
    whole = {deposit.key[0] >> 4 for deposit in deposits[:20]}
    dead = [deposit for deposit in deposits if deposit.key[0] >> 4 not in whole]
    delete(archive, Intake(archive), [deposit.id for deposit in dead])
    free[0] = 0
    before = archive.files.segments()
    assert compact(archive).captures == 0  # of those that hold nothing more nothing is written again
    assert len(archive.files.segments()) == len(before) - len({deposit.key[0] >> 4 for deposit in dead})
    left = [deposit for deposit in deposits if deposit not in dead]
    assert all(Reader(archive).read(deposit.id) is not None for deposit in left)


def test_a_read_only_disk_is_served_and_refuses_to_store() -> None:
    disk = SimulatedDisk()
    archive = open_on(disk)
    first, second = _pages(2)
    store(archive, first)
    archive.close()
    disk.is_read_only = True
    again = open_on(disk)
    assert Reader(again).read(first.id) is not None
    with pytest.raises(StoreRefusedError, match="cannot be written"):
        store(again, second)


def test_a_missing_slice_takes_only_its_own_captures_along(tmp_path: Path) -> None:
    disks = [OsDisk(tmp_path / str(n)) for n in range(3)]
    for disk in disks:
        disk.root.mkdir()
    archive = _slices(disks)
    deposits = _pages(80)
    store(archive, *deposits)
    seal(archive)
    by_slice = {n: [at for at in archive.files.catalogue.values() if at.slice == n] for n in range(3)}
    assert all(by_slice.values())
    on_second = [deposit for deposit in deposits if _slice_of(archive, deposit) == 1]
    archive.close()
    without = _slices([disks[0], None, disks[2]])
    reader = Reader(without)
    assert {deposit.capture.url for deposit in deposits if reader.read(deposit.id) is None} == {
        deposit.capture.url for deposit in on_second
    }
    assert store(without, page(URL, NOW_S + 999)) == [StoreOutcome.NEW]
    without.close()
    whole = _slices(disks)
    assert all(Reader(whole).read(deposit.id) is not None for deposit in deposits)
    assert Reader(whole).newest(URL, NOW_S + 999) is not None
    whole.close()


def _slice_of(archive: Archive, deposit: Deposit) -> int:
    entry = Reader(archive).find(deposit.id)
    assert entry is not None
    return archive.files.catalogue[entry.place.file].slice


def test_a_segment_on_another_slice_than_its_formula_says_is_found(tmp_path: Path) -> None:
    disks = [OsDisk(tmp_path / str(n)) for n in range(2)]
    for disk in disks:
        disk.root.mkdir()
    archive = _slices(disks)
    deposits = _pages(30)
    store(archive, *deposits)
    seal(archive)
    archive.close()
    for path in list((tmp_path / "1" / "segments").rglob("*.*")):
        target = tmp_path / "0" / path.relative_to(tmp_path / "1")
        target.parent.mkdir(parents=True, exist_ok=True)
        path.rename(target)
    moved = _slices(disks)
    assert all(Reader(moved).read(deposit.id) is not None for deposit in deposits)
    moved.close()


def test_rot_is_found_by_reading_or_verifying_and_costs_one_frame() -> None:
    rng = random.Random(4)
    for _ in range(30):
        disk = SimulatedDisk()
        index = MemoryIndex()
        archive = open_on(disk, index)
        deposits = _pages(20)
        store(archive, *deposits)
        seal(archive)
        segments = [path for path in disk.paths() if ".warc." in path and "segments" in path]
        victim = rng.choice(segments)
        disk.rot(victim, rng.randrange(len(disk.read_bytes(victim)) * 8))
        found = verify(archive)
        lost = []
        for deposit in deposits:
            got = Reader(archive).newest(deposit.capture.url, 2**32 - 1)
            if got is None:
                lost.append(deposit)
            else:
                assert got.body == deposit.capture.body
        assert len(lost) <= 1
        assert found.damage, victim
        rebuilt = open_on(disk)
        kept = [deposit for deposit in deposits if Reader(rebuilt).newest(deposit.capture.url, 2**32 - 1)]
        assert len(kept) >= 19


def test_foreign_files_are_reported_and_left_alone(tmp_path: Path) -> None:
    archive = open_on(tmp_path)
    store(archive, page(URL, NOW_S))
    archive.close()
    (tmp_path / "log" / "holiday.jpg").write_bytes(b"not ours")
    (tmp_path / "segments" / "a").mkdir()
    (tmp_path / "segments" / "a" / "..warc.gz").write_bytes(b"nor this")
    again = open_on(tmp_path)
    found = verify(again)
    assert found.is_sound
    assert found.foreign == ("log/holiday.jpg", "segments/a/..warc.gz")
    assert (tmp_path / "log" / "holiday.jpg").read_bytes() == b"not ours"
    again.close()


@pytest.mark.parametrize(
    "path",
    [
        "log/00000099.warc.gz/",
        "segments/a/000001-00000099.warc.zst/",
        "log.part/",
        "segments/x.part/",
        "segments/a/x.part/",
        "journal/000009.txt.part/",
        "segments/x",
        "log/9999999999.warc.gz",
    ],
)
def test_a_foreign_name_does_not_keep_the_archive_from_opening_and_storing(path: str, tmp_path: Path) -> None:
    archive = open_on(tmp_path)
    deposits = _pages(30)
    store(archive, *deposits)
    archive.close()
    foreign = tmp_path / path
    if path.endswith("/"):
        foreign.mkdir(parents=True)
    else:
        foreign.write_bytes(b"not ours")
    again = open_on(tmp_path)
    assert store(again, page(URL, NOW_S)) == [StoreOutcome.NEW]
    note_visits(again, Visit(url=URL, time_s=NOW_S + 1, status=304))
    assert seal(again).captures == 31
    assert verify(again).is_sound
    assert again.files.foreign == ([] if ".part" in path else [path.rstrip("/")])
    assert foreign.exists()
    again.close()


def test_an_index_of_another_archive_or_version_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    archive = open_on(tmp_path / "a")
    deposits = _pages(5)
    store(archive, *deposits)
    assert isinstance(archive.index, MemoryIndex)
    ahead = archive.index.content()
    archive.close()
    (tmp_path / "b").mkdir()
    shorter = open_on(tmp_path / "b")
    store(shorter, deposits[0])
    shorter.close()
    other_version = [(key, b"99" if key == b"mformat" else value) for key, value in ahead]
    for content in (ahead, other_version):
        again = open_on(tmp_path / "b", MemoryIndex(content))
        found = [Reader(again).read(deposit.id) is not None for deposit in deposits]
        assert found == [True, False, False, False, False]
        again.close()


def test_a_broken_rocksdb_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / "archive").mkdir()
    archive = open_on(tmp_path / "archive", RocksIndex(tmp_path / "index"))
    deposits = _pages(5)
    store(archive, *deposits)
    archive.close()
    for path in (tmp_path / "index").glob("MANIFEST-*"):
        path.write_bytes(b"rubbish")
    again = open_on(tmp_path / "archive", RocksIndex(tmp_path / "index"))
    assert all(Reader(again).read(deposit.id) is not None for deposit in deposits)
    again.close()


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("call", ["pwrite", "fsync"])
def test_sealing_on_a_failing_disk_changes_nothing_and_is_refused(call: str, error: int) -> None:
    disk = SimulatedDisk()
    archive = open_on(disk)
    deposits = _pages(40)
    store(archive, *deposits)
    archive.roll()
    before = sorted(path for path in disk.paths() if "segments" in path)
    disk.fail(Failure(calls=frozenset({call}), error=error, times=1, path="*segments*"))
    with pytest.raises(StoreRefusedError, match="no segment can be written"):
        seal(archive)
    assert sorted(path for path in disk.paths() if "segments" in path) == before
    assert all(Reader(archive).read(deposit.id) is not None for deposit in deposits)
    disk.mend()
    assert seal(archive).captures == 40
    assert all(Reader(archive).read(deposit.id) is not None for deposit in deposits)


def test_slices_are_spread_over_and_an_unmounted_one_is_not_mistaken_for_it(tmp_path: Path) -> None:
    home, second = tmp_path / "home", tmp_path / "second"
    second.mkdir()
    (home / "archive").mkdir(parents=True)
    assert add_slice(home / "archive", second) == 1
    with pytest.raises(UnusableArchiveError, match="empty folder"):
        add_slice(home / "archive", second)
    archive = archive_at(home, lambda: float(NOW_S))
    open_archive(archive)
    deposits = _pages(60)
    store(archive, *deposits)
    seal(archive)
    there = [deposit for deposit in deposits if _slice_of(archive, deposit) == 1]
    assert 0 < len(there) < 60
    archive.close()
    second.rename(tmp_path / "unmounted")
    second.mkdir()  # the empty mount point
    without = archive_at(home, lambda: float(NOW_S))
    open_archive(without)
    unreadable = []
    for deposit in deposits:
        try:
            assert Reader(without).read(deposit.id) is not None
        except DamagedRecordError:
            unreadable.append(deposit)
    assert unreadable == there
    store(without, page(URL, NOW_S + 5_000))
    seal(without)
    assert list(second.iterdir()) == []
    without.close()
    second.rmdir()
    (tmp_path / "unmounted").rename(second)
    whole = archive_at(home, lambda: float(NOW_S))
    open_archive(whole)
    assert all(Reader(whole).read(deposit.id) is not None for deposit in deposits)
    assert Reader(whole).newest(URL, NOW_S + 5_000) is not None
    whole.close()


def test_when_the_first_disk_fails_for_good_storing_goes_on_on_the_next() -> None:
    disks = [SimulatedDisk(), SimulatedDisk()]
    archive = _slices(disks)
    kept, refused, *later = _pages(6)
    store(archive, kept)
    disks[0].fail(
        Failure(calls=frozenset({"fdatasync", "fsync", "pwrite", "open"}), error=errno.EIO, path="*log*")
    )
    with pytest.raises(StoreRefusedError, match="the disk failed"):
        store(archive, refused)
    assert store(archive, refused, *later) == [StoreOutcome.NEW] * 5
    assert archive.files.catalogue[archive.log.number].slice == 1
    disks[0].mend()
    again = _slices(disks)
    assert all(Reader(again).read(deposit.id) is not None for deposit in (kept, refused, *later))
    seal(again)
    assert all(Reader(again).read(deposit.id) is not None for deposit in (kept, refused, *later))


@pytest.mark.parametrize("index_is_lost", [False, True])
def test_rot_in_the_log_costs_one_capture_even_when_the_index_is_made_anew(
    index_is_lost: bool, tmp_path: Path
) -> None:
    archive = open_on(tmp_path)
    deposits = _pages(40)
    store(archive, *deposits)
    entry = Reader(archive).find(deposits[10].id)
    assert entry is not None
    log = tmp_path / archive.files.path(entry.place.file)
    data = bytearray(log.read_bytes())
    data[entry.place.offset + 200] ^= 0x10
    log.write_bytes(data)
    if index_is_lost:
        archive.close()
        archive = open_on(tmp_path)
    else:
        assert verify(archive, repair=True).is_repaired
    assert [archive.files.path(entry.place.file), entry.place.offset] in [
        [damage.path, damage.offset] for damage in archive.damage.values()
    ]
    reader = Reader(archive)
    assert [
        deposit.capture.url for deposit in deposits if not reader.newest(deposit.capture.url, 2**32 - 1)
    ] == [deposits[10].capture.url]
    with pytest.raises(DamagedRecordError, match="quarantine"):
        reader.read(deposits[10].id)
    assert log.stat().st_size == len(data)
    again = page(deposits[10].capture.url, NOW_S + 99, b"stored behind it")
    assert store(archive, again) == [StoreOutcome.NEW]
    archive.close()
    opened = open_on(tmp_path)
    assert Reader(opened).read(again.id) is not None
    assert len(verify(opened).damage) == 1
    opened.close()


@pytest.mark.parametrize("first", ["archive", "index"])
def test_a_home_that_was_copied_while_it_was_used_opens_with_what_it_has(first: str, tmp_path: Path) -> None:
    """A copy takes its time: what it takes of the archive and of the index are of different moments."""
    home, copy = tmp_path / "home", tmp_path / "copy"
    (home / "archive").mkdir(parents=True)
    archive = open_on(home / "archive", RocksIndex(home / "index"))
    deposits = _pages(60)
    store(archive, *deposits[:20])
    seal(archive)
    store(archive, *deposits[20:40])
    archive.flush_index()
    last = Reader(archive).find(deposits[39].id)
    assert last is not None
    shutil.copytree(home / first, copy / first)
    store(archive, *deposits[40:])
    seal(archive)
    archive.flush_index()
    other = "index" if first == "archive" else "archive"
    shutil.copytree(home / other, copy / other)
    if first == "archive":  # and the copy of the log that was being written ends somewhere
        [*_, log] = sorted((copy / "archive" / "log").iterdir())
        log.write_bytes(log.read_bytes()[: last.place.offset + 30])
    again = open_on(copy / "archive", RocksIndex(copy / "index"))
    found = [Reader(again).read(deposit.id) is not None for deposit in deposits]
    whole = 39 if first == "archive" else 60
    assert found == [number < whole for number in range(60)]
    assert verify(again).lost == (1 if first == "archive" else 0)  # the manifest knew of one more
    assert store(again, *deposits[whole:]) == [StoreOutcome.NEW] * (60 - whole)
    assert verify(again).damaged == verify(again).unknown == 0
    again.close()
    assert all(Reader(archive).read(deposit.id) is not None for deposit in deposits)
    archive.close()
