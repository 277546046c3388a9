"""Cuts and kills at any point raise no false alarm; what is taken away before the last row on the disk is missed."""

import copy
import os
import random
from collections.abc import Iterator, Sequence

import pytest

from herodotus.core.index_rows import CAPTURE, after, decode_entry
from herodotus.core.layout import LOG_FOLDER
from herodotus.core.manifest import TailRow, decode_slots
from herodotus.store.engine import Archive
from herodotus.store.log import TAIL_PATH, Item
from herodotus.store.manifest import Manifest
from herodotus.store.spools import Lying
from herodotus.store.verification import verify
from simnet.world.disk import SimulatedDisk
from tests.herodotus.store.memory_store import MemoryIndex
from tests.herodotus.store.power import (
    JournalledIndex,
    Slice,
    Workload,
    compacting,
    new_disk,
    open_over,
    sealing,
)

UPKEEP = (sealing, compacting)


class RowFirst(Archive):
    """The mutant whose row leads the log."""

    def _perform(self, items: Sequence[Item], notes: list[Item], buffers: list[Lying]) -> None:
        start = self.log.write(buffers)
        self.log.note_durable(len(items))
        self.log.flush()
        self._apply_committed(items, notes, buffers, start)


Image = tuple[SimulatedDisk, JournalledIndex]


def _ends(workload: Workload, seed: int, changes: int, limit: int) -> Iterator[Image] | None:
    """What a power cut after so many changes may leave, and what a kill leaves; None where the run ends before."""
    disk = new_disk(workload.slices)
    disk.cut_after(changes)
    before = disk.changes
    run = workload.run(disk, seed)
    if disk.changes - before < changes:
        return None
    rng = random.Random(changes)

    def ends() -> Iterator[Image]:
        for image in disk.crash_images(rng, limit=limit):
            yield image, run.index.after_crash(rng) if rng.random() < 0.7 else JournalledIndex()

    return ends()


def _images(workload: Workload, seed: int, limit: int, step: int = 1) -> Iterator[tuple[int, Image]]:
    changes = step
    while (found := _ends(workload, seed, changes, limit)) is not None:
        for image in found:
            yield changes, image
        changes += step


def _disks(image: SimulatedDisk, workload: Workload) -> list[SimulatedDisk | Slice]:
    return [image] if workload.slices == 1 else [Slice(image, number) for number in range(workload.slices)]


def _alarms(image: SimulatedDisk, index: MemoryIndex, workload: Workload) -> list[str]:
    row = _last_row(image)
    archive = open_over(_disks(image, workload), index)
    found = [loss.path for loss in archive.lost_files.open]
    if row is not None:
        durable = [(path, at) for path, at in archive.damage if f"{row.log:08}" in path and at < row.tail]
        found += [f"{path} at {at}" for path, at in durable]
    archive.close()
    return found


def _false_alarms(workload: Workload, seeds: range, limit: int, step: int) -> tuple[int, list[object]]:
    tried, found = 0, list[object]()
    for seed in seeds:
        for changes, (image, index) in _images(workload, seed, limit, step):
            tried += 1
            alarms = _alarms(image, index, workload)
            if alarms:
                found.append((seed, changes, alarms))
    return tried, found


ONE_DISK = Workload(upkeep=UPKEEP, commits=6)
TWO_DISKS = Workload(upkeep=UPKEEP, commits=5, slices=2, deletes_originals=True)


@pytest.mark.parametrize("workload", [ONE_DISK, TWO_DISKS])
def test_no_cut_raises_a_false_alarm(workload: Workload) -> None:
    tried, found = _false_alarms(workload, range(2), limit=2, step=9)
    assert found == []
    assert tried > 30


def test_no_cut_of_a_short_run_raises_a_false_alarm_and_a_row_that_leads_the_log_is_found_out() -> None:
    tried, found = _false_alarms(Workload(commits=3), range(2), limit=6, step=1)
    assert found == []
    assert tried > 300
    _, found = _false_alarms(Workload(RowFirst, commits=3), range(1), limit=6, step=1)
    assert found


def test_files_that_go_before_the_list_says_so_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Manifest, "swapping", lambda self, installed, leaving: None)
    _, found = _false_alarms(ONE_DISK, range(1), limit=2, step=2)
    assert found


# -- what is taken away -----------------------------------------------------------------------------------


def _last_row(image: SimulatedDisk) -> TailRow | None:
    rows = decode_slots(image.read_bytes(TAIL_PATH)) if image.exists(TAIL_PATH) else []
    return rows[0] if rows else None


def _live(image: SimulatedDisk, row: TailRow, cut_at: int) -> set[bytes]:
    """The captures of the log that a cut there takes away, as the files have them now."""
    archive = open_over([copy.deepcopy(image)], MemoryIndex())
    found = archive.index.scan(CAPTURE, after(CAPTURE))
    places = ((key, decode_entry(value).place) for key, value in found)
    gone = {key for key, place in places if place.file == row.log and cut_at < place.end <= row.tail}
    archive.close()
    return gone


def _missed(image: SimulatedDisk, index: MemoryIndex, rng: random.Random) -> str | None:
    """Take away the log that the last row names, or cut it before that row. What nobody noticed; "" where there is
    nothing to notice."""
    row = _last_row(image)
    if row is None or not image.exists(path := f"{LOG_FOLDER}/{row.log:08}.warc.gz"):
        return ""  # none yet, or sealed since
    is_cut = rng.random() < 0.5
    cut_at = rng.randrange(row.tail) if is_cut else 0
    live = _live(image, row, cut_at)
    if not live:
        return ""
    if is_cut:
        fd = image.open(path, os.O_RDWR)
        image.ftruncate(fd, cut_at)
        image.close(fd)
    else:
        image.unlink(path)
    image.sync()
    archive = open_over([image], index)
    lost = {key for key in live if archive.index.get(key) is None}
    waiting = archive.lost_files.waiting
    problem = (
        None
        if waiting >= len(lost) > 0 or not lost
        else f"{path} cut_at={cut_at} {row} {waiting} {len(lost)}"
    )
    if verify(archive).is_sound and lost:
        problem = "verify finds it sound"
    archive.close()
    return problem


def _unnoticed(seeds: range, limit: int, step: int) -> tuple[int, list[object]]:
    tried, found = 0, list[object]()
    workload = Workload(commits=8)
    for seed in seeds:
        for changes, (image, index) in _images(workload, seed, limit, step):
            missed = _missed(image, index, random.Random(changes))
            tried += missed != ""
            if missed:
                found.append((seed, changes, missed))
    return tried, found


def test_whatever_is_taken_before_the_last_row_is_missed() -> None:
    tried, found = _unnoticed(range(2), limit=2, step=9)
    assert found == []
    assert tried > 10


def _torn(image: SimulatedDisk) -> None:
    """As a crash leaves the slot that was being written."""
    data = bytearray(image.read_bytes(TAIL_PATH))
    newest = _last_row(image)
    assert newest is not None
    data[newest.slot] ^= 0xFF
    fd = image.open(TAIL_PATH, os.O_RDWR)
    image.pwrite(fd, bytes(data), 0)
    image.close(fd)
    image.sync()


def _rows_left_by_torn_writes() -> tuple[int, int]:
    tried = left = 0
    for _, (image, _) in _images(Workload(commits=6), 1, limit=1, step=11):
        row = _last_row(image)
        if row is not None and row.log:
            _torn(image)
            tried += 1
            left += _last_row(image) is not None
    return tried, left


def test_a_torn_row_leaves_the_one_before_and_one_slot_alone_would_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried, left = _rows_left_by_torn_writes()
    assert left >= tried - 2 > 2
    monkeypatch.setattr(TailRow, "slot", property(lambda self: 0))
    tried, left = _rows_left_by_torn_writes()
    assert left == 0 < tried


@pytest.mark.sweep
@pytest.mark.timeout(3600)
def test_four_thousand_cuts_raise_no_false_alarm() -> None:
    tried = 0
    for seed in range(1_000):
        for workload in (ONE_DISK, TWO_DISKS):
            count, found = _false_alarms(workload, range(seed, seed + 1), limit=4, step=3)
            assert found == [], f"seed={seed}"
            tried += count
        if tried >= 4_000:
            break
    assert tried >= 4_000


@pytest.mark.sweep
@pytest.mark.timeout(3600)
def test_four_thousand_things_that_are_taken_away_are_missed() -> None:
    tried = 0
    for seed in range(1_000):
        count, found = _unnoticed(range(seed, seed + 1), limit=4, step=2)
        assert found == [], f"seed={seed}"
        tried += count
        if tried >= 4_000:
            break
    assert tried >= 4_000
