"""Bits flip between any steps of an archive's life: is all that was acknowledged here, or known to be lost?"""

import random

import pytest

from herodotus.core.captures import CaptureId, Deposit
from herodotus.core.errors import DamagedRecordError
from herodotus.core.index_rows import CAPTURE, after, capture_key, decode_entry
from herodotus.core.layout import Compression
from herodotus.store.deletion import delete
from herodotus.store.engine import Archive
from herodotus.store.files import Files
from herodotus.store.intake import Intake
from herodotus.store.losses import settle
from herodotus.store.reader import Reader
from herodotus.store.recovery import open_archive, rebuild
from herodotus.store.scrub import Position, Scrub
from herodotus.store.sealing import compact, seal
from herodotus.store.settings import ArchiveSettings
from herodotus.store.verification import verify
from simnet.world.disk import SimulatedDisk
from tests.herodotus.store.making import NOW_S, page, random_text, store
from tests.herodotus.store.memory_store import MemoryIndex


class Life:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.disk = SimulatedDisk()
        self.index = MemoryIndex()
        self.codec = self.rng.choice((Compression.ZSTD, Compression.ZSTD, Compression.GZIP))
        self.promised: dict[CaptureId, Deposit] = {}
        self.deleted: dict[CaptureId, Deposit] = {}
        self.time_s = NOW_S
        self.archive = self._opened()

    def _opened(self) -> Archive:
        archive = Archive(
            Files([self.disk]),
            self.index,
            now=lambda: float(NOW_S),
            settings=ArchiveSettings(codec=self.codec),
        )
        open_archive(archive)
        return archive

    def live(self, steps: int) -> None:
        acts = (self.add, self.add, self.add, self.flip, self.seal, self.compact, self.delete, self.reopen)
        for _ in range(steps):
            self.rng.choice((*acts, self.rebuild, self.scrub, self.repair))()

    # -- what happens -------------------------------------------------------------------------------------

    def add(self) -> None:
        deposits = []
        for _ in range(self.rng.randint(1, 6)):
            self.time_s += self.rng.randint(1, 100)
            body = random_text(self.rng, self.rng.choice((40, 600, 2_500)))
            deposits.append(page(f"http://example.org/{self.rng.randrange(8)}", self.time_s, body))
        store(self.archive, *deposits)
        self.promised |= {deposit.id: deposit for deposit in deposits}

    def flip(self) -> None:
        """In a capture, or in a file's head. Lists and notes rot in other tests: a list together with the frame that it
        names, or a deletion that nobody else knows of, is too much."""
        rows = list(self.archive.index.scan(CAPTURE, after(CAPTURE)))
        if not rows:
            return
        place = decode_entry(self.rng.choice(rows)[1]).place
        start, end = (place.offset, place.end) if self.rng.random() < 0.9 else (0, 200)
        if place.file in self.archive.files.catalogue:
            bit = self.rng.randrange(start * 8, end * 8)
            self.disk.rot(self.archive.files.path(place.file), bit)

    def seal(self) -> None:
        seal(self.archive)

    def compact(self) -> None:
        compact(self.archive, dead_min=self.rng.choice((0, 0.25)))

    def delete(self) -> None:
        if self.promised:
            id_ = self.rng.choice(list(self.promised))
            delete(self.archive, Intake(self.archive), [id_])
            self.deleted[id_] = self.promised.pop(id_)

    def reopen(self) -> None:
        self.archive.close()
        if self.rng.random() < 0.4:
            self.index = MemoryIndex()
        self.archive = self._opened()

    def rebuild(self) -> None:
        rebuild(self.archive)

    def scrub(self) -> None:
        scrub = Scrub(self.archive)
        scrub.position = Position(NOW_S)
        scrub.read(10_000_000)

    def repair(self) -> None:
        """Other holders have all of it, and give what is asked for."""
        waiting = set(self.archive.quarantine.keys())
        for deposit in self.promised.values():
            key = capture_key(deposit.id)
            if key in waiting or key[:17] in waiting or not self.replays(deposit):
                store(self.archive, deposit)
        settle(self.archive)

    # -- what must hold -----------------------------------------------------------------------------------

    def replays(self, deposit: Deposit) -> bool:
        try:
            found = Reader(self.archive).read(deposit.id)
        except DamagedRecordError:
            return False
        return found is not None and found.body == deposit.capture.body

    def check(self) -> None:
        """What does not replay is no more than what was flipped, and its bytes are somewhere."""
        self.scrub()
        for _ in range(3):  # a minute each
            seal(self.archive)
            compact(self.archive)
        unknown = sum(not item.captures for item in self.archive.quarantine.waiting)
        for deposit in self.promised.values():
            if not self.replays(deposit):
                assert self.archive.quarantine.lost(capture_key(deposit.id)) or unknown, deposit.capture.url
        self.repair()
        for _ in range(2):
            seal(self.archive)
            compact(self.archive)
        settle(self.archive)
        assert all(self.replays(deposit) for deposit in self.promised.values())
        found = verify(self.archive)
        assert (found.damaged, found.missing, found.unknown) == (0, 0, 0), found
        assert found.quarantined == sum(
            item.count for item in self.archive.quarantine.waiting if not item.captures
        )


@pytest.mark.parametrize("seed", range(12))
def test_an_archive_that_rots_all_its_life_knows_what_it_lost_and_takes_it_back(seed: int) -> None:
    life = Life(seed)
    life.live(25)
    life.check()


@pytest.mark.sweep
def test_a_thousand_lives_of_rot() -> None:
    for seed in range(1_000):
        life = Life(seed)
        life.live(60)
        life.check()
