"""Cut the power at every point of a workload, open what each image leaves, and compare with what was
promised.

The index that a crash leaves is a prefix of its batches, at least up to its last flush: which one is drawn.
Promised is what a commit returned for; whatever a reader could see before the cut counts as promised too,
since somebody may have acted on it.

Slices are folders of one simulated disk: the power goes for all of them at once, and what each had not synced is
lost or kept on its own. One of two may be missing at an opening; what was promised is asked for when it is back.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from herodotus.core.bundles import Visit
from herodotus.core.captures import CaptureId, Deposit
from herodotus.core.errors import DamagedRecordError, StoreRefusedError
from herodotus.core.index_rows import CAPTURE, IndexEntry, RowKind, after, decode_entry
from herodotus.store.deletion import delete
from herodotus.store.disk import Disk as AnyDisk
from herodotus.store.disk import FileStatus, sync_folder
from herodotus.store.engine import Archive
from herodotus.store.files import Files
from herodotus.store.index import IndexBatch
from herodotus.store.intake import Intake
from herodotus.store.log import Item, NewCapture, NewTombstones, NewVisits
from herodotus.store.reader import Reader
from herodotus.store.recovery import open_archive
from herodotus.store.sealing import compact, seal
from herodotus.store.settings import ArchiveSettings
from simnet.world.disk import PowerCut, SimulatedDisk
from tests.herodotus.store.making import NOW_S, page, random_text
from tests.herodotus.store.memory_store import MemoryIndex

URLS = [f"http://example.org/{n}" for n in range(6)]


class Slice:
    """A folder of a simulated disk."""

    def __init__(self, disk: SimulatedDisk, number: int) -> None:
        self._disk = disk
        self._root = f"slice{number}"
        if not disk.exists(self._root):
            disk.mkdir(self._root)

    def _at(self, path: str) -> str:
        return self._root if path == "." else f"{self._root}/{path}"

    def open(self, path: str, flags: int, mode: int = 0o777) -> int:
        return self._disk.open(self._at(path), flags, mode)

    def close(self, fd: int) -> None:
        self._disk.close(fd)

    def pread(self, fd: int, length: int, offset: int) -> bytes:
        return self._disk.pread(fd, length, offset)

    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        return self._disk.pwrite(fd, data, offset)

    def ftruncate(self, fd: int, length: int) -> None:
        self._disk.ftruncate(fd, length)

    def fdatasync(self, fd: int) -> None:
        self._disk.fdatasync(fd)

    def fsync(self, fd: int) -> None:
        self._disk.fsync(fd)

    def rename(self, source: str, target: str) -> None:
        self._disk.rename(self._at(source), self._at(target))

    def unlink(self, path: str) -> None:
        self._disk.unlink(self._at(path))

    def mkdir(self, path: str, mode: int = 0o777) -> None:
        self._disk.mkdir(self._at(path), mode)

    def listdir(self, path: str) -> list[str]:
        return self._disk.listdir(self._at(path))

    def stat(self, path: str) -> FileStatus:
        return self._disk.stat(self._at(path))


class JournalledIndex(MemoryIndex):
    """Remembers its batches, so that any state a crash may leave can be made again."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[IndexBatch | None] = []
        self.flushed = 0

    def write(self, batch: IndexBatch) -> None:
        self.batches.append(IndexBatch(list(batch.changes)))
        super().write(batch)

    def clear(self) -> None:
        self.batches.append(None)
        super().clear()

    def flush(self) -> None:
        self.flushed = len(self.batches)

    def after_crash(self, rng: random.Random) -> "JournalledIndex":
        survivor = JournalledIndex()
        for batch in self.batches[: rng.randint(self.flushed, len(self.batches))]:
            if batch is None:
                survivor.clear()
            else:
                survivor.write(batch)
        survivor.flush()
        return survivor


@dataclass(slots=True)
class Run:
    """What was promised up to the cut."""

    index: JournalledIndex = field(default_factory=JournalledIndex)
    bodies: dict[CaptureId, bytes] = field(default_factory=dict)
    deleted: set[CaptureId] = field(default_factory=set)
    visits: int = 0
    attempted_visits: int = 0
    being_deleted: set[CaptureId] = field(default_factory=set)


Step = Callable[[Archive, random.Random], None]


class Workload:
    """Some commits of captures, visits and deletions, with whatever upkeep is asked for between them.

    With two slices the log moves from one to the other now and then, as the first is full; the archive is opened
    again without the second, and with it; and originals are deleted that have revisits."""

    def __init__(
        self,
        make: type[Archive] = Archive,
        upkeep: tuple[Step, ...] = (),
        commits: int = 8,
        slices: int = 1,
        *,
        deletes_originals: bool = False,
    ) -> None:
        self.slices = slices
        self._deletes_originals = deletes_originals
        self._make = make
        self._upkeep = upkeep
        self._commits = commits

    def run(self, disk: SimulatedDisk, seed: int) -> Run:
        run = Run()
        with suppress(PowerCut):
            self._run(disk, run, random.Random(seed))
        return run

    def _run(self, disk: SimulatedDisk, run: Run, rng: random.Random) -> None:
        archive = self._open(disk, run, rng)
        intake = Intake(archive)
        deposits: dict[CaptureId, Deposit] = {}
        for step in range(self._commits):
            if self.slices > 1 and rng.random() < 0.3:
                archive.close()
                archive = self._open(disk, run, rng)
                intake = Intake(archive)
            items = list[Item]()
            for _ in range(rng.randint(1, 4)):
                deposit = page(rng.choice(URLS), NOW_S + step * 10 + rng.randrange(9), _body(rng))
                prepared = intake.prepare(deposit)
                intake.promise(prepared)
                if prepared.item is not None and deposit.id not in deposits:
                    items.append(prepared.item)
                    deposits[deposit.id] = deposit
            if rng.random() < 0.4:
                items.append(NewVisits(visits=(Visit(url=URLS[0], time_s=NOW_S + 1_000 + step, status=304),)))
                run.attempted_visits += 1
            victims = _unreferenced(archive, run, items) if rng.random() < 0.3 else []
            if victims:
                victim = rng.choice(victims)
                items.append(NewTombstones(ids=(victim,)))
                run.being_deleted.add(victim)
                intake.forget()
            if items:
                archive.commit(items)
                self._acknowledge(run, items, deposits)
            if self._deletes_originals and rng.random() < 0.4:
                self._delete_any(archive, intake, run, rng)
            for upkeep in self._upkeep:
                with suppress(StoreRefusedError):
                    upkeep(archive, rng)
        archive.close()

    def _open(self, disk: SimulatedDisk, run: Run, rng: random.Random) -> Archive:
        if self.slices == 1:
            return open_over([disk], run.index, self._make)
        is_whole = rng.random() < 0.7
        slices = [Slice(disk, 0), Slice(disk, 1) if is_whole else None]
        is_full = is_whole and rng.random() < 0.5
        return open_over(slices, run.index, self._make, full=0 if is_full else None)

    def _delete_any(self, archive: Archive, intake: Intake, run: Run, rng: random.Random) -> None:
        live = [id_ for id_ in run.bodies if id_ not in run.deleted and Reader(archive).find(id_) is not None]
        if not live:
            return
        victim = rng.choice(live)
        was_begun = victim in run.being_deleted
        run.being_deleted.add(victim)
        try:
            delete(archive, intake, [victim])
        except StoreRefusedError:
            if not was_begun:
                run.being_deleted.discard(victim)  # it and what refers to it stay as they were
        else:
            run.deleted.add(victim)

    def _acknowledge(self, run: Run, items: list[Item], deposits: dict[CaptureId, Deposit]) -> None:
        for item in items:
            if isinstance(item, NewCapture):
                run.bodies[item.id] = deposits[item.id].capture.body
            elif isinstance(item, NewVisits):
                run.visits += len(item.visits)
            elif isinstance(item, NewTombstones):
                run.deleted.update(item.ids)


def _body(rng: random.Random) -> bytes:
    # Few different bodies, so that revisits occur; one in five large enough to span pages and sectors.
    return random_text(random.Random(rng.randrange(9)), 9_000 if rng.random() < 0.2 else 300)


def _unreferenced(archive: Archive, run: Run, items: list[Item]) -> list[CaptureId]:
    """Captures that no revisit needs, not even one on its way."""
    reader = Reader(archive)
    coming = {item.id.digest for item in items if isinstance(item, NewCapture)}
    return [
        id_
        for id_ in run.bodies
        if id_ not in run.deleted
        and id_.digest not in coming
        and len(reader.of_payload(id_.digest, range(id_.key[0] >> 4, (id_.key[0] >> 4) + 1))) == 1
    ]


def sealing(archive: Archive, rng: random.Random) -> None:
    if rng.random() < 0.4:
        seal(archive)


def compacting(archive: Archive, rng: random.Random) -> None:
    if rng.random() < 0.3:
        compact(archive, dead_min=rng.choice((0.0, 0.2)))


def open_over(
    slices: Sequence[AnyDisk | None],
    index: MemoryIndex,
    make: type[Archive] = Archive,
    *,
    full: int | None = None,
) -> Archive:
    # Small logs, so that the points between two files are met often.
    settings = ArchiveSettings(log_bytes_max=4_000, index_flush_bytes=6_000)
    archive = make(
        Files(slices),
        index,
        now=lambda: float(NOW_S),
        settings=settings,
        free_bytes=lambda slice_: (
            1 << 24 if slice_ == full else 1 << 40
        ),  # less than the reserve, enough to seal
    )
    open_archive(archive)
    if full == archive.log.slice:
        archive.roll()
    return archive


def visible(run: Run) -> list[bytes]:
    return [key for key, _ in run.index.scan(CAPTURE, after(CAPTURE))]


def broken_promises(
    image: SimulatedDisk, run: Run, index: MemoryIndex, slices: int, rng: random.Random
) -> list[str]:
    """What the image lacks of what the run promised."""
    if slices == 1:
        return _lacking(open_over([image], index), run)
    disks = [Slice(image, number) for number in range(slices)]
    problems = _served_without_one(disks, run, index, rng) if rng.random() < 0.5 else []
    return problems + _lacking(open_over(disks, index), run)


def _served_without_one(
    disks: Sequence[Slice], run: Run, index: MemoryIndex, rng: random.Random
) -> list[str]:
    """Nobody is told anything wrong meanwhile, and what is stored then is promised as well."""
    archive = open_over([disks[0], None], index)
    reader = Reader(archive)
    problems = []
    for id_, body in run.bodies.items():
        with suppress(DamagedRecordError):
            found = reader.read(id_)
            if found is not None and found.body != body:
                problems.append("a capture has another body while a slice is missing")
    for key, entry in _entries(archive):
        if entry.kind is RowKind.BODY and entry.place.file in archive.files.catalogue:
            try:
                reader.read_entry(key, entry)
            except DamagedRecordError as error:
                problems.append(f"a capture on a slice that is here cannot be read: {error}")
    deposit = page(f"{URLS[0]}/meanwhile", NOW_S + 5_000, _body(rng))
    prepared = Intake(archive).prepare(deposit)
    if prepared.item is not None:
        archive.commit([prepared.item])
        run.bodies[deposit.id] = deposit.capture.body
    for upkeep in (sealing, compacting):
        with suppress(StoreRefusedError):
            upkeep(archive, rng)
    archive.close()
    return problems


def _lacking(archive: Archive, run: Run) -> list[str]:
    reader = Reader(archive)
    problems = []
    for id_, body in run.bodies.items():
        if id_ in run.deleted:
            if reader.read(id_) is not None:
                problems.append("a deleted capture is back")
        elif id_ not in run.being_deleted:
            try:
                found = reader.read(id_)
            except DamagedRecordError as error:
                problems.append(str(error))
                continue
            if found is None or found.body != body:
                problems.append("an acknowledged capture is lost")
    problems += [
        "a capture that was seen is lost"
        for key in visible(run)
        if archive.index.get(key) is None and archive.index.get(b"t" + key[1:]) is None
    ]
    for key, entry in _entries(archive):
        try:
            reader.read_entry(key, entry)
        except (DamagedRecordError, FileNotFoundError) as error:
            problems.append(f"a capture in the index cannot be read: {error}")
    archive.close()
    return problems


def new_disk(slices: int) -> SimulatedDisk:
    disk = SimulatedDisk()
    if slices > 1:
        for number in range(slices):
            Slice(disk, number)
        sync_folder(disk, "/")
    return disk


def cuts(
    workload: Workload, seed: int, images: int, first: int = 0, step: int = 1
) -> Iterator[tuple[int, list[str]]]:
    """Every image of every cut: how many changes came before, and what was found broken."""
    changes = first
    while True:
        disk = new_disk(workload.slices)
        disk.cut_after(changes)
        before = disk.changes
        run = workload.run(disk, seed)
        if disk.changes - before < changes:
            return
        rng = random.Random(changes)
        for image in disk.crash_images(rng, limit=images):
            index = run.index.after_crash(rng) if rng.random() < 0.7 else JournalledIndex()
            # A copy, as what is stored into one image is not in the next.
            known = replace(run, bodies=dict(run.bodies))
            yield changes, broken_promises(image, known, index, workload.slices, rng)
        changes += step


def _entries(archive: Archive) -> Iterator[tuple[bytes, IndexEntry]]:
    return ((key, decode_entry(value)) for key, value in archive.index.scan(CAPTURE, after(CAPTURE)))
