"""What does looking for damage cost, and what is counted?"""

import random
from collections.abc import Iterator

import anyio
import pytest

from dht.core.holders import Table
from dht.core.placement import Rule
from herodotus.copies import audits
from herodotus.copies.audits import SCAN_S, Repairs
from herodotus.copies.shared_state import Parts, View
from herodotus.core.index_rows import CAPTURE, decode_entry
from herodotus.store import engine
from herodotus.store.holdings import ArchiveHoldings
from herodotus.store.reader import Reader
from herodotus.store.sealing import seal
from simnet.world.disk import SimulatedDisk
from tests.herodotus.copies.world import key_of, new_store
from tests.herodotus.store.making import NOW_S, page
from tests.herodotus.store.memory_store import AtOnce, MemoryStore


class Looking:
    """A store of some captures that all lie in damage when asked to, and how often its index was read through."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, store: MemoryStore | None = None) -> None:
        self.store = store or new_store()
        self.now = 0.0
        self.scans = 0
        self.keys: list[bytes] = []
        self.repairs = Repairs(
            Parts(
                view=View(me=bytes(32), table=Table((), Rule(6))),
                holdings=lambda: ArchiveHoldings(self.store),
                calls=lambda: pytest.fail("nobody is called"),
                workers=AtOnce(),
                sign=lambda deposit: deposit,
                random=random.Random(1),
                now=lambda: self.now,
            )
        )
        index = self.store.archive.index
        scan = index.scan

        def counted(low: bytes, high: bytes) -> Iterator[tuple[bytes, bytes]]:
            self.scans += 1
            return scan(low, high)

        monkeypatch.setattr(index, "scan", counted)

    async def fill(self, count: int) -> None:
        for number in range(count):
            stored = await self.store.store(page(f"http://example.org/{number}", NOW_S, b"%d" % number))
            self.keys.append(key_of(stored.id))
        self.scans = 0

    def damage(self, number: int) -> None:
        archive = self.store.archive
        value = archive.index.get(CAPTURE + self.keys[number])
        assert value is not None
        place = decode_entry(value).place
        archive.note_damage(place.file, place.offset, "rotten")

    async def look_at(self, now: float) -> bool:
        self.now = now
        return await self.repairs.look(ArchiveHoldings(self.store))


def test_each_new_damage_does_not_read_the_whole_index_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> None:
        looking = Looking(monkeypatch)
        await looking.fill(20)
        assert not await looking.look_at(0.0)
        assert looking.scans == 0
        for number in range(15):
            looking.damage(number)
            assert await looking.look_at(30.0 * number)  # the first one is looked for at once
        assert (looking.scans, len(looking.repairs)) == (1, 1)
        assert await looking.look_at(SCAN_S)
        assert (looking.scans, len(looking.repairs)) == (2, 15)
        assert await looking.look_at(3 * SCAN_S)
        assert looking.scans == 2  # nothing was noted since

    anyio.run(play)


def test_more_than_can_be_repaired_at_once_is_not_looked_for_all_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(audits, "BROKEN_MAX", 3)

    async def play() -> None:
        looking = Looking(monkeypatch)
        await looking.fill(10)
        for number in range(10):
            looking.damage(number)
        for second in range(0, int(2 * SCAN_S), 30):
            assert await looking.look_at(float(second))
        assert (looking.scans, len(looking.repairs)) == (2, 3)

    anyio.run(play)


def test_damage_that_is_not_noted_is_not_counted_at_every_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "DAMAGE_MAX", 2)

    async def play() -> None:
        looking = Looking(monkeypatch)
        await looking.fill(4)
        for number in (0, 1, 2, 3, 3, 3):
            looking.damage(number)
        assert (looking.store.archive.counters.damaged, len(looking.store.archive.damage)) == (2, 2)

    anyio.run(play)


def test_what_others_have_and_we_need_not_hold_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody would be allowed to send it to us."""
    disk = SimulatedDisk()
    store = MemoryStore(lambda: float(NOW_S), disk=disk)

    async def play() -> None:
        looking = Looking(monkeypatch, store)
        await looking.fill(3)
        archive = store.archive
        entry = Reader(archive).find(page("http://example.org/1", NOW_S, b"1").id)
        assert entry is not None
        disk.rot(archive.files.path(entry.place.file), (entry.place.offset + 60) * 8)
        seal(archive)
        assert await looking.look_at(0.0)
        assert (archive.quarantine.captures, looking.repairs.without_source) == (1, 1)
        monkeypatch.setattr(Repairs, "_sources", lambda self, key: [bytes(32)])
        monkeypatch.setattr(View, "may_hold", lambda self, position: False)
        await looking.look_at(60.0)
        assert archive.quarantine.captures == 0
        assert [name for name in disk.listdir("quarantine") if name.endswith(".bin")], (
            "its bytes stay a while"
        )
        assert not await looking.look_at(120.0)

    anyio.run(play)
