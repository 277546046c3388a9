"""Cut the power at every point of a workload, open what each image leaves, and compare with what was
promised.

The index that a crash leaves is a prefix of its batches, at least up to its last flush: which one is drawn.
Promised is what a commit returned for; whatever a reader could see before the cut counts as promised too,
since somebody may have acted on it.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from herodotus.archive.engine import Archive, ArchiveSettings
from herodotus.archive.files import Files
from herodotus.archive.index import Batch, MemoryIndex
from herodotus.archive.intake import Intake
from herodotus.archive.items import Item, NewCapture, NewTombstones, NewVisits
from herodotus.archive.reading import Reader, entries
from herodotus.archive.recovery import open_archive
from herodotus.archive.sealing import compact, seal
from herodotus.core.archive_errors import DamagedRecordError
from herodotus.core.deposits import CaptureId, Deposit
from herodotus.core.entries import CAPTURE, after
from herodotus.core.notes import Visit
from simnet.world.disk import Disk, PowerCut
from tests.herodotus.archive.making import NOW_S, page, random_text

URLS = [f"http://example.org/{n}" for n in range(6)]


class JournalledIndex(MemoryIndex):
    """Remembers its batches, so that any state a crash may leave can be made again."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[Batch | None] = []
        self.flushed = 0

    def write(self, batch: Batch) -> None:
        self.batches.append(Batch(list(batch.changes)))
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
    """Some commits of captures, visits and deletions, with whatever upkeep is asked for between them."""

    def __init__(
        self, make: type[Archive] = Archive, upkeep: tuple[Step, ...] = (), commits: int = 8
    ) -> None:
        self._make = make
        self._upkeep = upkeep
        self._commits = commits

    def run(self, disk: Disk, seed: int) -> Run:
        run = Run()
        with suppress(PowerCut):
            self._run(disk, run, random.Random(seed))
        return run

    def _run(self, disk: Disk, run: Run, rng: random.Random) -> None:
        archive = open_over(disk, run.index, self._make)
        intake = Intake(archive)
        deposits: dict[CaptureId, Deposit] = {}
        for step in range(self._commits):
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
            for upkeep in self._upkeep:
                upkeep(archive, rng)
        archive.close()

    def _acknowledge(self, run: Run, items: list[Item], deposits: dict[CaptureId, Deposit]) -> None:
        for item in items:
            if isinstance(item, NewCapture):
                run.bodies[item.id] = deposits[item.id].body
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


def open_over(disk: Disk, index: MemoryIndex, make: type[Archive] = Archive) -> Archive:
    # Small logs, so that the points between two files are met often.
    settings = ArchiveSettings(log_bytes_max=4_000, index_flush_bytes=6_000)
    archive = make(Files([disk]), index, now=lambda: float(NOW_S), settings=settings)
    open_archive(archive)
    return archive


def visible(run: Run) -> list[bytes]:
    return [key for key, _ in run.index.scan(CAPTURE, after(CAPTURE))]


def broken_promises(image: Disk, run: Run, index: MemoryIndex) -> list[str]:
    """What the image lacks of what the run promised."""
    archive = open_over(image, index)
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
    for _, entry in entries(archive, CAPTURE, after(CAPTURE)):
        try:
            reader.read_entry(entry)
        except DamagedRecordError as error:
            problems.append(f"a capture in the index cannot be read: {error}")
    archive.close()
    return problems


def cuts(
    workload: Workload, seed: int, images: int, first: int = 0, step: int = 1
) -> Iterator[tuple[int, list[str]]]:
    """Every image of every cut: how many changes came before, and what was found broken."""
    changes = first
    while True:
        disk = Disk()
        disk.cut_after(changes)
        run = workload.run(disk, seed)
        if disk.changes < changes:
            return
        rng = random.Random(changes)
        for image in disk.crash_images(rng, limit=images):
            index = run.index.after_crash(rng) if rng.random() < 0.7 else JournalledIndex()
            yield changes, broken_promises(image, run, index)
        changes += step
