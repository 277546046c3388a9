"""Ways in which an acknowledged capture was lost, or given back wrong, before these tests were written."""

import errno
import gzip
import io
import random
import tracemalloc
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

import pytest

from herodotus.core.bundles import Visit
from herodotus.core.captures import Deposit
from herodotus.core.errors import (
    DamagedRecordError,
    MalformedRecordError,
    StoreRefusedError,
    UnusableArchiveError,
)
from herodotus.core.warc import COMPANIONS_BYTES_MAX, format_record
from herodotus.store.deletion import delete
from herodotus.store.disk import Disk, OsDisk
from herodotus.store.engine import Archive
from herodotus.store.files import Files
from herodotus.store.index import IndexBatch, RocksIndex
from herodotus.store.intake import Intake, StoreOutcome
from herodotus.store.members import scan_members
from herodotus.store.notes import all_visits, note_places
from herodotus.store.reader import Reader
from herodotus.store.recovery import open_archive, rebuild
from herodotus.store.sealing import compact, seal
from herodotus.store.slices import add_slice, archive_at
from herodotus.store.verification import verify
from herodotus.store.warc_import import import_file
from simnet.world.disk import Failure, PowerCut, SimulatedDisk
from tests.herodotus.deposits import make_deposit
from tests.herodotus.operate.cli.test_archive import run
from tests.herodotus.store.making import (
    NOW_S,
    foreign_response,
    note_visits,
    open_on,
    page,
    random_text,
    store,
)
from tests.herodotus.store.memory_store import MemoryIndex, MemoryStore
from tests.herodotus.store.power import JournalledIndex

URL = "http://example.org/"


def _pages(count: int) -> list[Deposit]:
    rng = random.Random(9)
    return [page(f"http://example.org/{n}", NOW_S + n, random_text(rng, 800)) for n in range(count)]


def _same_bucket(count: int) -> list[str]:
    """URLs whose captures are deduplicated against each other."""
    urls = (f"http://example.org/same/{n}" for n in range(10_000))
    return list(islice((url for url in urls if page(url, NOW_S).key[0] >> 4 == 7), count))


@pytest.mark.parametrize("batches", range(8))
def test_an_index_whose_making_was_killed_is_made_again(batches: int) -> None:
    disk = SimulatedDisk()
    archive = open_on(disk)
    deposits = _pages(40)
    store(archive, *deposits)
    seal(archive)
    index = JournalledIndex()
    archive = Archive(Files([disk]), index, now=lambda: float(NOW_S))
    open_archive(archive)
    survivor = MemoryIndex()
    for batch in index.batches[: batches + 1]:
        if batch is None:
            survivor.clear()
        else:
            survivor.write(IndexBatch(list(batch.changes)))
    again = open_on(disk, survivor)
    assert all(Reader(again).read(deposit.id) is not None for deposit in deposits)


def test_no_power_cut_leaves_a_revisit_without_the_original_that_came_with_it() -> None:
    first, second = _same_bucket(2)
    body = random.Random(3).randbytes(20_000)
    original, revisit = page(first, NOW_S, body), page(second, NOW_S + 1, body)
    images = 0
    for changes in range(1, 40):
        disk = SimulatedDisk()
        disk.cut_after(changes)
        with suppress(PowerCut):
            store(open_on(disk), original, revisit)
        for image in disk.crash_images(random.Random(changes), limit=50):
            reader = Reader(open_on(image))
            images += 1
            if reader.find(revisit.id) is not None:
                found = reader.read(revisit.id)
                assert found is not None
                assert found.body == body
    assert images > 100


def _rot(disk: SimulatedDisk, archive: Archive, deposit: Deposit) -> None:
    entry = Reader(archive).find(deposit.id)
    assert entry is not None
    disk.rot(archive.files.path(entry.place.file), (entry.place.offset + entry.place.length // 2) * 8)


@pytest.mark.parametrize("is_sealed", [False, True])
@pytest.mark.parametrize("index_is_lost", [False, True])
def test_a_revisit_whose_original_rotted_stays_known_and_is_reported(
    is_sealed: bool, index_is_lost: bool
) -> None:
    first, second, third = _same_bucket(3)
    body = random_text(random.Random(3), 3_000)
    original, revisit, other = page(first, NOW_S, body), page(second, NOW_S + 1, body), page(third, NOW_S)
    disk = SimulatedDisk()
    archive = open_on(disk)
    assert store(archive, original, revisit, other) == [
        StoreOutcome.NEW,
        StoreOutcome.REVISIT,
        StoreOutcome.NEW,
    ]
    if is_sealed:
        seal(archive)
    _rot(disk, archive, original)
    if index_is_lost:
        archive = open_on(disk)
    found = verify(archive)
    assert (found.damaged, found.orphans, len(found.damage)) == (2, 1, 2)
    entry = Reader(archive).find(revisit.id)
    assert entry is not None
    assert (archive.files.path(entry.place.file), entry.place.offset) in archive.damage
    seal(archive)
    compact(archive, dead_min=0)
    with pytest.raises(DamagedRecordError):
        Reader(archive).read(revisit.id)
    assert Reader(archive).read(other.id) is not None
    # From another copy: the one that lost its body gets it, and then the other has it, too.
    assert store(archive, original) == [StoreOutcome.NEW]
    for deposit in (original, revisit):
        capture = Reader(archive).read(deposit.id)
        assert capture is not None
        assert capture.body == body
    assert verify(archive).orphans == 0


class _DiesWhileRelocating(JournalledIndex):
    """The power goes when the new segments have their names and the index has not heard of them."""

    is_dying = False

    def write(self, batch: IndexBatch) -> None:
        if self.is_dying:
            raise PowerCut
        super().write(batch)


def test_visits_that_were_being_sealed_in_a_power_cut_are_still_exported_and_compacted() -> None:
    disk, index = SimulatedDisk(), _DiesWhileRelocating()
    archive = open_on(disk, index)
    deposits = _pages(3)
    store(archive, *deposits)
    visits = [Visit(url=deposit.capture.url, time_s=NOW_S + 500, status=304) for deposit in deposits]
    note_visits(archive, *visits)
    index.is_dying = True
    with pytest.raises(PowerCut):
        seal(archive)
    index.is_dying = False
    again = open_on(disk, index)
    assert sorted(all_visits(again)) == visits
    assert again.damage == {}
    compact(again, dead_min=0)
    assert sorted(all_visits(again)) == visits
    assert [Reader(again).history(visit.url)[0].visits for visit in visits] == [1, 1, 1]


def test_no_power_cut_leaves_the_tombstone_of_an_original_without_the_body_of_its_revisits() -> None:
    first, second = _same_bucket(2)
    body = random_text(random.Random(3), 9_000)
    original, revisit = page(first, NOW_S, body), page(second, NOW_S + 1, body)
    images, is_done = 0, False
    for changes in range(200):
        disk, index = SimulatedDisk(), JournalledIndex()
        archive = open_on(disk, index)
        assert store(archive, original, revisit) == [StoreOutcome.NEW, StoreOutcome.REVISIT]
        index.flush()
        disk.cut_after(changes)
        is_done = True
        try:
            delete(archive, Intake(archive), [original.id])
        except PowerCut:
            is_done = False
        rng = random.Random(changes)
        for image in disk.crash_images(rng, limit=40):
            again = open_on(image, index.after_crash(rng))
            found = Reader(again).read(revisit.id)
            assert found is not None
            assert found.body == body
            images += 1
        if is_done:
            break
    assert is_done
    assert images > 15


def test_a_head_whose_lines_end_in_both_ways_is_split_where_the_crawler_split_it() -> None:
    disk = SimulatedDisk()
    archive = open_on(disk)
    heads = [b"HTTP/1.1 200 OK\nA: b\n\r\n", b"HTTP/1.1 200 OK\r\nA: b\r\n\n", b"HTTP/1.1 200 OK\nA: b\n\n"]
    deposits = [
        make_deposit(url=f"{URL}{n}", time_s=NOW_S, head=head, body=b"x\r\n\r\ny\n\nz%d" % n)
        for n, head in enumerate(heads)
    ]
    store(archive, *deposits)
    for deposit in deposits:
        found = Reader(archive).read(deposit.id)
        assert found is not None
        assert (found.head, found.body) == (deposit.capture.head, deposit.capture.body)
    assert verify(archive).is_sound


def test_an_original_is_not_deleted_while_a_slice_with_revisits_of_it_is_away(tmp_path: Path) -> None:
    disks = [OsDisk(tmp_path / str(n)) for n in range(2)]
    for disk in disks:
        disk.root.mkdir()
    index = MemoryIndex()
    archive = _opened(disks, index)
    original, revisit = page(URL, NOW_S, b"the same"), page(URL, NOW_S + 9, b"the same")
    for deposit in (original, revisit):  # one epoch each, and so one slice each
        store(archive, deposit)
        seal(archive)
    entry = Reader(archive).find(revisit.id)
    assert entry is not None
    away = archive.files.catalogue[entry.place.file].slice
    archive.close()
    without = _opened([disk if n != away else None for n, disk in enumerate(disks)], index)
    with pytest.raises(StoreRefusedError, match="missing"):
        delete(without, Intake(without), [original.id])
    without.close()
    whole = _opened(disks, index)
    assert delete(whole, Intake(whole), [original.id]) == 1
    found = Reader(whole).read(revisit.id)
    assert found is not None
    assert found.body == b"the same"


def test_deleting_an_original_holds_few_of_the_bodies_that_move() -> None:
    archive = open_on(SimulatedDisk())
    body = random.Random(9).randbytes(1_000_000)
    first, *others = [page(url, NOW_S, body) for url in _same_bucket(30)]
    for deposit in (first, *others):
        store(archive, deposit)
    tracemalloc.start()
    assert delete(archive, Intake(archive), [first.id]) == 1
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 15 * len(body)
    assert all(Reader(archive).read(deposit.id) is not None for deposit in others)


def _opened(disks: Sequence[Disk | None], index: MemoryIndex) -> Archive:
    archive = Archive(Files(disks), index, now=lambda: float(NOW_S))
    open_archive(archive)
    return archive


def test_what_could_not_be_read_again_is_refused() -> None:
    whole = page(URL, NOW_S)
    for url in ("http://example.org/\x1b", "http://example.org/ ", "<http://example.org/>"):
        with pytest.raises(MalformedRecordError, match="URL"):
            page(url, NOW_S)
    with pytest.raises(MalformedRecordError, match="no end"):
        make_deposit(url=URL, time_s=NOW_S, head=b"HTTP/1.1 200 OK\r\n", body=whole.capture.body)
    for visit in (("", 304), ("http://a/\nb", 304), (URL, 1_000)):
        with pytest.raises(MalformedRecordError, match="visit"):
            Visit(url=visit[0], time_s=NOW_S, status=visit[1])


@pytest.mark.parametrize("by_seal", [False, True])
def test_a_damaged_capture_is_repaired_by_storing_it_again(by_seal: bool, tmp_path: Path) -> None:
    archive = open_on(tmp_path)
    first, second = _same_bucket(2)
    original, revisit = page(first, NOW_S), page(second, NOW_S + 1)
    store(archive, original, revisit)
    entry = Reader(archive).find(original.id)
    assert entry is not None
    log = tmp_path / archive.files.path(entry.place.file)
    data = bytearray(log.read_bytes())
    data[entry.place.offset + 200] ^= 0x10
    log.write_bytes(data)
    if by_seal:
        assert seal(archive).skipped == 1
    with pytest.raises(DamagedRecordError):
        Reader(archive).read(original.id)
    assert store(archive, original) == [StoreOutcome.NEW]
    assert store(archive, original) == [StoreOutcome.KNOWN]
    for deposit in (original, revisit):
        found = Reader(archive).read(deposit.id)
        assert found is not None
        assert found.body == deposit.capture.body
    assert archive.captures == 2
    rebuild(archive)
    assert all(Reader(archive).read(deposit.id) is not None for deposit in (original, revisit))
    archive.close()


def test_a_broken_member_is_given_up_without_reading_all_that_follows() -> None:
    data = gzip.compress(random.Random(1).randbytes(1_000))
    broken = bytearray(data[:10] + b"\xff" + data[11:] + bytes(40_000_000))
    asked = []

    def read_at(offset: int, length: int) -> bytes:
        asked.append(length)
        return bytes(broken[offset : offset + length])

    with pytest.raises(MalformedRecordError, match="broken gzip member"):
        next(scan_members(read_at, 0, len(broken)))
    assert sum(asked) < 5_000_000


def test_a_capture_that_comes_twice_at_once_is_no_revisit_of_itself() -> None:
    archive = open_on(SimulatedDisk())
    twice = page(URL, NOW_S)
    store(archive, twice, twice)
    found = Reader(archive).read(twice.id)
    assert found is not None
    assert (found.body, archive.captures) == (twice.capture.body, 1)
    rebuild(archive)
    assert Reader(archive).read(twice.id) is not None


def test_a_damaged_original_can_be_deleted(tmp_path: Path) -> None:
    archive = open_on(tmp_path)
    first, second = _same_bucket(2)
    original, revisit = page(first, NOW_S), page(second, NOW_S + 1)
    store(archive, original, revisit)
    entry = Reader(archive).find(original.id)
    assert entry is not None
    log = tmp_path / archive.files.path(entry.place.file)
    data = bytearray(log.read_bytes())
    data[entry.place.offset + 200] ^= 0x10
    log.write_bytes(data)
    assert delete(archive, Intake(archive), [original.id]) == 1
    assert Reader(archive).read(original.id) is None
    archive.close()


def test_a_promise_that_comes_after_the_refusal_is_no_original() -> None:
    archive = open_on(SimulatedDisk())
    intake = Intake(archive)
    first, second = _same_bucket(2)
    refused = intake.prepare(page(first, NOW_S))
    intake.forget()  # the committer was quicker than whoever submitted
    intake.promise(refused)
    for url in (first, second):
        assert intake.prepare(page(url, NOW_S)).outcome is StoreOutcome.NEW


def test_a_rotten_visit_log_does_not_keep_the_rest_from_being_sealed(tmp_path: Path) -> None:
    archive = open_on(tmp_path)
    deposits = _pages(5)
    store(archive, *deposits)
    at = archive.log.tail
    note_visits(archive, Visit(url=deposits[0].capture.url, time_s=NOW_S + 99, status=304))
    log = tmp_path / archive.files.path(archive.log.number)
    data = bytearray(log.read_bytes())
    data[at + 40] ^= 0x10
    log.write_bytes(data)
    sealed = seal(archive)
    assert (sealed.captures, sealed.skipped) == (5, 1)
    assert all(Reader(archive).read(deposit.id) is not None for deposit in deposits)
    archive.close()


class _BadSectors(SimulatedDisk):
    """Reading that touches one of them is an error of the device."""

    def __init__(self) -> None:
        super().__init__()
        self.bad: set[int] = set()

    def pread(self, fd: int, length: int, offset: int) -> bytes:
        data = super().pread(fd, length, offset)
        if any(offset < (sector + 1) * 4_096 and sector * 4_096 < offset + len(data) for sector in self.bad):
            raise OSError(errno.EIO, "Input/output error")
        return data


@pytest.mark.parametrize("index_is_lost", [False, True])
def test_a_sector_that_cannot_be_read_costs_what_is_in_it_and_nothing_is_cut(index_is_lost: bool) -> None:
    disk, index = _BadSectors(), MemoryIndex()
    archive = open_on(disk, index)
    deposits = _pages(60)
    store(archive, *deposits)
    path = archive.files.path(archive.log.number)
    size = len(disk.read_bytes(path))
    lost = []
    for deposit in deposits:
        entry = Reader(archive).find(deposit.id)
        assert entry is not None
        if entry.place.offset // 4_096 <= 2 <= (entry.place.offset + entry.place.length - 1) // 4_096:
            lost.append(deposit.capture.url)
    archive.close()
    disk.bad = {2}
    archive = open_on(disk, None if index_is_lost else index)
    reader = Reader(archive)
    assert lost
    assert [
        deposit.capture.url for deposit in deposits if reader.newest(deposit.capture.url, 2**32 - 1) is None
    ] == lost
    assert verify(archive).damage
    assert len(disk.read_bytes(path)) == size
    seal(archive)
    assert [
        deposit.capture.url for deposit in deposits if reader.newest(deposit.capture.url, 2**32 - 1) is None
    ] == lost


def test_a_tail_that_cannot_be_read_today_is_not_cut() -> None:
    disk = _BadSectors()
    archive = open_on(disk)
    deposits = _pages(60)
    store(archive, *deposits)
    path = archive.files.path(archive.log.number)
    size = len(disk.read_bytes(path))
    archive.close()
    disk.bad = set(range(2, size // 4_096 + 1))
    store(open_on(disk), page(URL, NOW_S + 999))
    disk.bad = set()
    mended = open_on(disk)
    assert all(Reader(mended).read(deposit.id) is not None for deposit in deposits)
    assert Reader(mended).newest(URL, NOW_S + 999) is not None


def test_what_cannot_be_read_while_sealing_is_not_taken_away() -> None:
    disk = _BadSectors()
    archive = open_on(disk)
    deposits = _pages(60)
    store(archive, *deposits)
    disk.bad = {2}
    with pytest.raises(StoreRefusedError, match="could not be read"):
        seal(archive)
    store(archive, page(URL, NOW_S + 999))
    assert seal(archive).captures == 1  # the others go on without it
    archive.close()
    disk.bad = set()
    mended = open_on(disk)
    assert seal(mended).captures == 60
    assert all(Reader(mended).read(deposit.id) is not None for deposit in deposits)


def test_a_sealing_that_is_given_up_for_a_bad_sector_puts_nothing_of_other_logs_into_quarantine() -> None:
    disk = _BadSectors()
    archive = open_on(disk)
    rng = random.Random(9)
    rotting, sound = (
        [page(f"http://example.org/{n}", NOW_S + n, random_text(rng, size)) for n in numbers]
        for size, numbers in ((300, range(3)), (3_000, range(3, 63)))
    )
    store(archive, *rotting)
    place = Reader(archive).find(rotting[0].id)
    assert place is not None
    disk.rot(archive.files.path(archive.log.number), (place.place.offset + 60) * 8)
    archive.roll()
    store(archive, *sound)
    disk.bad = {2}  # the log before is shorter
    with pytest.raises(StoreRefusedError, match="could not be read"):
        seal(archive)
    assert archive.quarantine.items == {}
    archive.close()


def test_what_cannot_be_read_while_compacting_is_not_taken_away() -> None:
    disk = _BadSectors()
    archive = open_on(disk)
    rng = random.Random(9)
    deposits = [page(f"http://example.org/{n}", NOW_S, random_text(rng, 9_000)) for n in range(60)]
    store(archive, *deposits)
    seal(archive)
    disk.bad = {1}  # of the segments, not of the shorter lists beside them
    with pytest.raises(StoreRefusedError, match="could not be read"):
        compact(archive, dead_min=0.0)
    archive.close()
    disk.bad = set()
    mended = open_on(disk)
    assert all(Reader(mended).read(deposit.id) is not None for deposit in deposits)


def test_an_index_made_while_a_slice_was_away_is_made_anew_when_it_is_back(tmp_path: Path) -> None:
    home, second = tmp_path / "home", tmp_path / "second"
    second.mkdir()
    (home / "archive").mkdir(parents=True)
    add_slice(home / "archive", second)
    archive = archive_at(home, lambda: float(NOW_S))
    open_archive(archive)
    deposits = _pages(60)
    store(archive, *deposits)
    seal(archive)
    archive.close()
    second.rename(tmp_path / "unmounted")
    archive = archive_at(home, lambda: float(NOW_S))
    open_archive(archive)
    rebuild(archive)
    assert 0 < archive.captures < 60
    archive.close()
    (tmp_path / "unmounted").rename(second)
    archive = archive_at(home, lambda: float(NOW_S))
    open_archive(archive)
    assert all(Reader(archive).read(deposit.id) is not None for deposit in deposits)
    assert verify(archive).is_sound
    archive.close()


def test_verifying_misses_captures_whose_file_is_gone(tmp_path: Path) -> None:
    archive = open_on(tmp_path)
    store(archive, *_pages(30))
    seal(archive)
    victim = archive.files.segments()[0]
    (tmp_path / archive.files.path(victim)).unlink()
    archive.files.forget(victim)
    found = verify(archive)
    assert found.missing > 0
    assert not found.is_sound
    archive.close()


def test_verifying_misses_captures_behind_the_end_of_a_shorter_file(tmp_path: Path) -> None:
    index = MemoryIndex()
    archive = open_on(tmp_path, index)
    deposits = _pages(30)
    store(archive, *deposits)
    seal(archive)
    last = Reader(archive).find(max(deposits, key=lambda deposit: deposit.key).id)
    assert last is not None
    path = tmp_path / archive.files.path(last.place.file)
    archive.close()
    path.write_bytes(path.read_bytes()[: last.place.offset])  # between two members: what is left is whole
    again = open_on(tmp_path, index)
    assert verify(again).missing == 1
    again.close()


@pytest.mark.parametrize("is_cut", [False, True])
def test_verifying_misses_notes_that_are_gone(is_cut: bool, tmp_path: Path) -> None:
    """Visits and deletions; of a file that has nothing else, or at the end of one."""
    index = MemoryIndex()
    archive = open_on(tmp_path, index)
    store(archive, page(URL, NOW_S))
    seal(archive)
    note_visits(archive, Visit(url=URL, time_s=NOW_S + 9, status=304))
    seal(archive)
    assert verify(archive).is_sound
    (place,) = note_places(archive)
    path = tmp_path / archive.files.path(place[0])
    archive.close()
    if is_cut:
        path.write_bytes(path.read_bytes()[: place[1]])
    else:
        path.unlink()
    again = open_on(tmp_path, index)
    found = verify(again, repair=True)
    assert (found.missing, found.is_sound, found.is_repaired) == (1, False, True)
    assert verify(again).is_sound
    again.close()


def test_a_rotten_block_of_the_index_is_an_error_and_not_the_end(tmp_path: Path) -> None:
    index = RocksIndex(tmp_path)
    rng = random.Random(1)
    index.write(IndexBatch([(b"c" + rng.randbytes(19), rng.randbytes(12)) for _ in range(20_000)]))
    index.flush()
    assert sum(1 for _ in index.scan(b"c", b"d")) == 20_000
    index.close()
    [table] = tmp_path.glob("*.sst")
    data = bytearray(table.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 2_000] = bytes(2_000)
    table.write_bytes(data)
    index = RocksIndex(tmp_path)
    with pytest.raises(UnusableArchiveError, match="rebuild-index"):
        list(index.scan(b"c", b"d"))
    index.close()


def _memory() -> MemoryStore:
    return MemoryStore(lambda: float(NOW_S))


def _companion(kind: str, block: bytes, *extra: tuple[str, str]) -> bytes:
    fields = (
        ("WARC-Type", kind),
        ("WARC-Record-ID", "<urn:uuid:cccccccc-1234-4234-8234-123456789abc>"),
        ("WARC-Date", "2020-01-01T00:00:00Z"),
        ("Content-Type", "application/octet-stream"),
        *extra,
    )
    return format_record(fields, block)


@pytest.mark.anyio
async def test_a_stranger_with_too_many_fields_is_skipped_and_not_stored_unreadable() -> None:
    many = tuple((f"X-{n}", "y") for n in range(250))
    memory = _memory()
    data = foreign_response(f"{URL}many", "2020-01-01T00:00:00Z", b"1", *many)
    data += foreign_response(f"{URL}few", "2020-01-01T00:00:00Z", b"2")
    report = await import_file(memory, io.BytesIO(data))
    assert (report.stored, report.skipped) == (1, 1)
    found = await memory.newest(f"{URL}few", 2**32 - 1)
    assert found is not None
    assert found.body == b"2"
    assert (await memory.verify()).is_sound


@pytest.mark.anyio
async def test_records_beside_a_capture_are_bounded_and_checked() -> None:
    memory = _memory()
    large = random.Random(1).randbytes(COMPANIONS_BYTES_MAX // 2 + 1)
    data = gzip.compress(foreign_response(URL, "2020-01-01T00:00:00Z", b"page"))
    data += gzip.compress(_companion("metadata", large), 1) * 2
    data += gzip.compress(_companion("metadata", b"x", ("WARC-Block-Digest", "sha1:" + "A" * 32)))
    report = await import_file(memory, io.BytesIO(data))
    assert [problem.reason for problem in report.problems] == [
        f"more than 64 records or {COMPANIONS_BYTES_MAX} bytes beside one capture",
        "the block does not match its digest",
    ]
    seal(memory.archive)
    found = await memory.newest(URL, 2**32 - 1)
    assert found is not None
    assert [len(companion.block) for companion in found.companions] == [len(large)]


@pytest.mark.anyio
@pytest.mark.timeout(30)
async def test_a_page_that_packs_well_does_not_stop_the_import_at_its_end() -> None:
    pages = [foreign_response(f"{URL}{n}", "2020-01-01T00:00:00Z", bytes(3_000_000 + n)) for n in range(3)]
    memory = _memory()
    report = await import_file(memory, io.BytesIO(b"".join(map(gzip.compress, pages))))
    assert (report.stored, report.skipped) == (3, 0)
    for number in range(3):
        found = await memory.newest(f"{URL}{number}", 2**32 - 1)
        assert found is not None
        assert len(found.body) == 3_000_000 + number


@pytest.mark.anyio
async def test_a_visit_of_no_url_is_skipped_and_the_archive_opens_again() -> None:
    memory = _memory()
    revisit = format_record(
        (
            ("WARC-Type", "revisit"),
            ("WARC-Record-ID", "<urn:uuid:dddddddd-1234-4234-8234-123456789abc>"),
            ("WARC-Date", "2020-01-01T00:00:00Z"),
            ("WARC-Profile", "http://netpreserve.org/warc/1.1/revisit/server-not-modified"),
        ),
        b"",
    )
    report = await import_file(memory, io.BytesIO(revisit))
    assert (report.visits, report.skipped) == (0, 1)
    rebuild(memory.archive)


@pytest.mark.anyio
async def test_a_segment_with_tombstones_comes_in_whole(tmp_path: Path) -> None:
    archive = open_on(tmp_path)
    deposits = [page(url, NOW_S, url.encode()) for url in _same_bucket(4)]
    store(archive, *deposits)
    delete(archive, Intake(archive), [deposits[0].id])
    seal(archive)
    archive.close()
    [segment] = (tmp_path / "segments").rglob("*.warc.zst")
    memory = _memory()
    with segment.open("rb") as file:
        report = await import_file(memory, file)
    assert (report.stored, report.skipped) == (3, 0)


@pytest.mark.anyio
async def test_a_full_disk_ends_an_import_with_its_own_words() -> None:
    disk = SimulatedDisk()
    memory = MemoryStore(lambda: float(NOW_S), disk=disk)
    disk.fail(Failure(calls=frozenset({"pwrite"}), error=errno.ENOSPC))
    data = b"".join(foreign_response(f"{URL}{n}", "2020-01-01T00:00:00Z", b"%d" % n) for n in range(3))
    with pytest.raises(StoreRefusedError, match="full"):
        await import_file(memory, io.BytesIO(data))


def test_a_plain_warc_that_ends_in_a_zip_is_a_warc(tmp_path: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as package:
        package.writestr("data.warc", b"")
    data = foreign_response(URL, "2020-01-01T00:00:00Z", packed.getvalue())
    (tmp_path / "ends.warc").write_bytes(data)
    imported = run(tmp_path / "home", "import", str(tmp_path / "ends.warc"))
    assert imported.exit_code == 0
    assert run(tmp_path / "home", "get", URL).stdout_bytes == packed.getvalue()
