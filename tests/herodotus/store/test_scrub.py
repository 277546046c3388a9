"""Is everything read once in its days, no faster, and does a restart go on where it was?"""

import random
from pathlib import Path

import pytest

from herodotus.store.engine import Archive
from herodotus.store.files import Files
from herodotus.store.index import IndexBatch, RocksIndex
from herodotus.store.intake import StoreOutcome
from herodotus.store.reader import Reader
from herodotus.store.recovery import open_archive
from herodotus.store.scrub import DAY_S, NAME, STEP_BYTES_MIN, Scrub
from herodotus.store.sealing import seal
from herodotus.store.settings import ArchiveSettings
from herodotus.store.verification import verify
from simnet.world.disk import SimulatedDisk
from tests.herodotus.store.making import NOW_S, open_on, page, store
from tests.herodotus.store.memory_store import MemoryIndex

SIZE = 40_000


class Timed:
    """An archive whose clock is set by hand, with some files of incompressible pages."""

    def __init__(self, pages: int = 30) -> None:
        self.now = float(NOW_S)
        self.disk = SimulatedDisk()
        self.index = MemoryIndex()
        self.archive = self.opened()
        rng = random.Random(1)
        self.deposits = [
            page(f"http://example.org/{n}", NOW_S + n, rng.randbytes(SIZE)) for n in range(pages)
        ]
        store(self.archive, *self.deposits[: pages // 2])
        seal(self.archive)
        store(self.archive, *self.deposits[pages // 2 :])

    def opened(self) -> Archive:
        archive = Archive(Files([self.disk]), self.index, now=lambda: self.now, settings=ArchiveSettings())
        open_archive(archive)
        return archive

    @property
    def total(self) -> int:
        return self.archive.files.bytes_used()


def test_all_files_are_read_once_and_then_again_after_the_days() -> None:
    timed = Timed()
    scrub = Scrub(timed.archive)
    read = 0
    while not scrub.position.is_done:
        read += scrub.read(100_000)
    assert read == timed.total
    assert scrub.step(30, 300.0) == 0
    timed.now += 30 * DAY_S
    assert scrub.step(30, 300.0) == timed.total


def test_a_step_reads_its_share_of_the_days_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("herodotus.store.scrub.STEP_BYTES_MIN", 1)
    timed = Timed()
    scrub = Scrub(timed.archive)
    # A hundredth of the time, and one page more at most.
    assert 0 < scrub.step(30, 0.3 * DAY_S) < timed.total // 100 + 2 * SIZE
    timed.now += 20 * DAY_S
    left = timed.total - scrub.read(1)
    assert left // 10 - SIZE <= scrub.step(30, DAY_S) <= left // 10 + 2 * SIZE
    assert STEP_BYTES_MIN > 1_000_000, "a disk is not woken for a few kilobytes"


def test_a_restart_goes_on_where_the_last_one_was() -> None:
    timed = Timed()
    first = Scrub(timed.archive)
    done = first.read(timed.total // 3)
    timed.archive.close()
    timed.archive = timed.opened()
    again = Scrub(timed.archive)
    assert again.position == first.position
    while not again.position.is_done:
        done += again.read(100_000)
    assert timed.total <= done <= timed.total + 3 * SIZE
    assert Scrub(timed.archive).position.is_done


def test_a_place_that_rotted_is_no_place() -> None:
    timed = Timed(4)
    Scrub(timed.archive).read(1)
    timed.disk.rot(NAME, 0)
    scrub = Scrub(timed.archive)
    assert (scrub.position.file, scrub.position.offset) == (0, 0)


def test_what_is_damaged_is_noted_and_its_file_is_to_be_written_again() -> None:
    timed = Timed()
    archive = timed.archive
    entry = Reader(archive).find(timed.deposits[3].id)
    assert entry is not None
    timed.disk.rot(archive.files.path(entry.place.file), (entry.place.offset + 900) * 8)
    scrub = Scrub(archive)
    while not scrub.position.is_done:
        scrub.read(50_000)
    assert archive.rotten_files() == {entry.place.file}
    assert store(archive, timed.deposits[3]) == [StoreOutcome.NEW]


@pytest.mark.parametrize("how", ["flipped", "short", "gone", "a folder"])
def test_a_list_beside_a_segment_is_made_again_as_it_was(how: str) -> None:
    timed = Timed()
    archive, disk = timed.archive, timed.disk
    name = archive.files.catalogue[archive.files.segments()[0]].name
    before = disk.read_bytes(name.cdxj)
    if how == "flipped":
        disk.rot(name.cdxj, 8 * 20 + 1)
    elif how == "short":
        fd = disk.open(name.cdxj, 1)
        disk.ftruncate(fd, len(before) - 10)
        disk.close(fd)
    else:
        disk.unlink(name.cdxj)
        if how == "a folder":
            disk.mkdir(name.cdxj)
    Scrub(archive).read(timed.total)
    assert disk.read_bytes(name.cdxj) == before


def test_verify_makes_a_list_again_that_became_a_folder() -> None:
    timed = Timed()
    archive, disk = timed.archive, timed.disk
    name = archive.files.catalogue[archive.files.segments()[0]].name
    before = disk.read_bytes(name.cdxj)
    disk.unlink(name.cdxj)
    disk.mkdir(name.cdxj)
    found = verify(archive)
    assert found.is_sound
    assert found.lists == [name.cdxj]
    assert disk.read_bytes(name.cdxj) == before


def test_a_rotten_block_of_the_index_is_found_and_the_index_made_again_at_the_next_start(
    tmp_path: Path,
) -> None:
    (tmp_path / "files").mkdir()
    index = RocksIndex(tmp_path / "index")
    archive = open_on(tmp_path / "files", index)
    rng = random.Random(2)
    deposits = [page(f"http://example.org/{n}", NOW_S, rng.randbytes(40)) for n in range(400)]
    store(archive, *deposits)
    before = dict(index.scan(b"c", b"d"))
    index.write(IndexBatch([(b"u" + rng.randbytes(40), b"") for _ in range(20_000)]))
    archive.close()
    table = max((tmp_path / "index").glob("*.sst"), key=lambda path: path.stat().st_size)
    data = bytearray(table.read_bytes())
    data[len(data) // 2] ^= 4
    table.write_bytes(data)
    index = RocksIndex(tmp_path / "index")
    archive = open_on(tmp_path / "files", index)
    scrub = Scrub(archive)
    while not scrub.position.is_done:
        scrub.read(10_000_000)
    assert archive.is_index_damaged, "no opening reads all of it"
    assert Reader(archive).read(deposits[0].id) is not None, "what can be read, is read until then"
    archive.close()
    index = RocksIndex(tmp_path / "index")
    archive = open_on(tmp_path / "files", index)
    assert dict(index.scan(b"c", b"d")) == before
    assert verify(archive).is_sound
    archive.close()
