"""An index that cannot be written stops storing, takes nothing away, and is right again after the next opening."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from herodotus.core.captures import Deposit
from herodotus.core.errors import IndexFailedError, StoreRefusedError
from herodotus.core.index_rows import capture_key
from herodotus.machine import Machine
from herodotus.store.deletion import delete
from herodotus.store.index import INDEX_ROWS, IndexBatch, RocksIndex
from herodotus.store.intake import Intake, StoreOutcome
from herodotus.store.reader import Reader
from herodotus.store.sealing import seal
from herodotus.store.settings import ArchiveSettings
from herodotus.store.slices import archive_at
from herodotus.store.store import DiskStore, open_store
from herodotus.store.verification import verify
from simnet.world.disk import SimulatedDisk
from tests.herodotus.store.making import NOW_S, open_on, page, store
from tests.herodotus.store.memory_store import MemoryIndex


def _pages(count: int) -> list[Deposit]:
    return [page(f"http://example.org/{n}", NOW_S + n, b"%d" % n) for n in range(count)]


class _Failing(MemoryIndex):
    is_failing = False

    def write(self, batch: IndexBatch) -> None:
        self._fail()
        super().write(batch)

    def flush(self) -> None:
        self._fail()

    def _fail(self) -> None:
        if self.is_failing:
            raise IndexFailedError("no space left on device")


def test_nothing_is_acknowledged_after_the_index_failed_and_all_is_served() -> None:
    disk, index = SimulatedDisk(), _Failing()
    archive = open_on(disk, index)
    kept, refused, later = _pages(3)
    store(archive, kept)
    index.is_failing = True
    with pytest.raises(StoreRefusedError, match="the index cannot be written: no space left"):
        store(archive, refused)
    index.is_failing = False  # it lacks what was refused: nothing may come after that
    with pytest.raises(StoreRefusedError, match="the index cannot be written"):
        store(archive, later)
    with pytest.raises(StoreRefusedError, match="the index cannot be written"):
        delete(archive, Intake(archive), [kept.id])
    with pytest.raises(StoreRefusedError, match="the index cannot be written"):
        seal(archive)
    assert (archive.captures, archive.counters.stored) == (1, 1)
    assert Reader(archive).read(kept.id) is not None
    archive.close()
    again = open_on(disk, index)
    assert verify(again).is_sound
    assert store(again, kept, refused, later) == [StoreOutcome.KNOWN, StoreOutcome.KNOWN, StoreOutcome.NEW]


def test_sealing_that_cannot_tell_the_index_takes_nothing_away_and_is_finished_later() -> None:
    class FailsToHearOfSegments(_Failing):
        is_armed = False

        def write(self, batch: IndexBatch) -> None:
            self.is_failing = self.is_armed and any(key == b"mepoch" for key, _ in batch.changes)
            super().write(batch)

    disk, index = SimulatedDisk(), FailsToHearOfSegments()
    archive = open_on(disk, index)
    deposits = _pages(40)
    store(archive, *deposits)
    index.is_armed = True
    with pytest.raises(StoreRefusedError, match="the index cannot be written"):
        seal(archive)
    assert all(Reader(archive).read(deposit.id) is not None for deposit in deposits)
    archive.close()
    again = open_on(disk, MemoryIndex(index.content()))
    assert all(Reader(again).read(deposit.id) is not None for deposit in deposits)
    assert verify(again).is_sound


def test_an_index_that_cannot_be_flushed_keeps_no_archive_from_being_closed() -> None:
    disk, index = SimulatedDisk(), _Failing()
    archive = open_on(disk, index)
    (kept,) = _pages(1)
    store(archive, kept)
    index.is_failing = True
    archive.close()
    assert not archive.log.is_open
    again = open_on(disk, MemoryIndex())
    assert Reader(again).read(kept.id) is not None


@contextmanager
def _files_no_larger_than(size: int) -> Iterator[None]:
    """The kernel refuses to let any file of this process grow beyond it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.anyio
async def test_rocksdb_on_a_disk_that_takes_no_more_refuses_and_is_opened_again(tmp_path: Path) -> None:
    settings = ArchiveSettings(log_bytes_max=4_000, index_flush_bytes=40_000, reserve_bytes=0)
    deposits = iter(_pages(1_000))
    kept: list[Deposit] = []

    async def store_until_refused(store: DiskStore) -> None:
        for deposit in deposits:
            await store.store(deposit)
            kept.append(deposit)

    async with open_store(archive_at(tmp_path, lambda: float(NOW_S), settings), Machine()) as opened:
        with _files_no_larger_than(6_000), pytest.raises(StoreRefusedError, match="File too large"):
            await store_until_refused(opened)
        with pytest.raises(StoreRefusedError, match="the index cannot be written"):
            await opened.store(next(deposits))
        assert len(kept) > 10
        for deposit in kept:
            assert await opened.read(deposit.id) is not None
        assert (await opened.statistics()).refusal is not None
    async with open_store(archive_at(tmp_path, lambda: float(NOW_S), settings), Machine()) as opened:
        for deposit in kept:
            assert await opened.read(deposit.id) is not None
        await opened.store(next(deposits))
        assert (await opened.verify()).is_sound


def test_an_opened_index_has_the_whole_cache_again(tmp_path: Path) -> None:
    for _ in range(2):
        index = RocksIndex(tmp_path / "index")
        assert index.cache_bytes_max == INDEX_ROWS.cache_bytes
        index.close()


def test_rocksdb_says_what_is_wrong(tmp_path: Path) -> None:
    index = RocksIndex(tmp_path / "index")
    index.write(IndexBatch([(b"c%08d" % n, bytes(range(100))) for n in range(1_000)]))
    with _files_no_larger_than(1_000), pytest.raises(IndexFailedError, match="File too large"):
        index.flush()
    with pytest.raises(IndexFailedError):
        index.write(IndexBatch([(b"c", b"")]))
    assert index.get(b"c00000007") == bytes(range(100))
    index.close()


def test_an_index_in_which_damage_was_found_is_made_again_though_it_opens() -> None:
    disk, index = SimulatedDisk(), MemoryIndex()
    archive = open_on(disk, index)
    deposit = page("http://example.org/", NOW_S, b"here")
    store(archive, deposit)
    archive.close()
    index.write(IndexBatch([(capture_key(deposit.id), None)]))
    assert Reader(open_on(disk, index)).find(deposit.id) is None
    index.note_damage()
    again = open_on(disk, index)
    assert Reader(again).find(deposit.id) is not None
    assert not again.is_index_damaged
