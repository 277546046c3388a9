"""Is what was removed hidden from readers alone, and are its bytes there until the grace is over, and no longer?"""

import os
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from herodotus.core.captures import Deposit
from herodotus.core.errors import StoreRefusedError
from herodotus.core.index_rows import TOMBSTONE, capture_key
from herodotus.core.reconciliation import member_of
from herodotus.core.removals import DAY_S, Removals, Subject, subject_of
from herodotus.home.removed import note_removed, read_removed, removals_of
from herodotus.home.second_copies import second_of
from herodotus.store import removal
from herodotus.store.catalogue import ArchiveCatalogue
from herodotus.store.faces import Held
from herodotus.store.grace import keep_grace
from herodotus.store.holdings import ArchiveHoldings
from herodotus.store.intake import StoreOutcome
from herodotus.store.reader import Reader
from herodotus.store.recovery import rebuild
from herodotus.store.removal import RemovalReport, erase_rules
from herodotus.store.sealing import seal
from herodotus.store.streams import Query, Stream
from tests.herodotus.store.copying import take
from tests.herodotus.store.making import NOW_S, page
from tests.herodotus.store.memory_store import MemoryStore

pytestmark = pytest.mark.anyio

HOST = subject_of("host", "example.org")
ALL = (bytes(12), None)
SECRET = b"what is to be hidden"
PAGES = [page(f"http://example.org/{n}", NOW_S, SECRET + b"%d" % n) for n in range(5)]
OTHER = page("http://other.example/", NOW_S, b"of somebody else")
START_S = 1_795_000_000.0


class Clock:
    """A wall clock, which may be wrong, and time as it is lived."""

    def __init__(self) -> None:
        self.wall = START_S
        self.lived = 50.0

    def unix_s(self) -> float:
        return self.wall

    def elapsed_s(self) -> float:
        return self.lived

    def steady_s(self) -> float:
        return self.lived

    def local_offset_s(self, unix_s: float) -> float:
        return 0.0 * unix_s

    def run(self, days: float) -> None:
        self.wall += days * DAY_S
        self.lived += days * DAY_S


async def filled() -> MemoryStore:
    store = MemoryStore(lambda: START_S)
    for deposit in (*PAGES, OTHER):
        await store.store(deposit)
    return store


def hide(store: MemoryStore, state: Path, *subjects: Subject, now: float = START_S) -> None:
    note_removed(state, subjects, now=now)
    store.archive.removed = removals_of(state)


async def seen(store: MemoryStore) -> set[str]:
    streamed = {capture.url for capture in Stream(store.archive, Query())}
    listed = {one.capture.url for one in (*PAGES, OTHER) if await store.history(one.capture.url)}
    assert streamed == listed
    return streamed


def key_of(deposit: Deposit) -> bytes:
    return capture_key(deposit.id)[1:]


def member(deposit: Deposit) -> bytes:
    return member_of(capture_key(deposit.id))


@pytest.mark.parametrize("is_sealed", [False, True])
async def test_hidden_captures_are_compared_proven_and_counted_and_come_back_as_they_were(
    tmp_path: Path, is_sealed: bool
) -> None:
    store = await filled()
    if is_sealed:
        seal(store.archive)
    holdings = ArchiveHoldings(store)

    async def as_others_see_it() -> tuple[object, ...]:
        members = await holdings.members([ALL])
        parcels = [(await holdings.parcel(key_of(one), lambda deposit: deposit)) for one in PAGES]
        return (
            await holdings.digests(*ALL),
            members,
            await holdings.counts([ALL]),
            await holdings.held([key_of(one) for one in PAGES]),
            await holdings.proofs(members, b"n" * 16),
            [one and one.data for one in parcels],
        )

    before, files = await as_others_see_it(), _bytes_of(store)
    hide(store, tmp_path, HOST)
    assert await seen(store) == {OTHER.capture.url}
    assert await as_others_see_it() == before, "hidden is counted"
    rebuild(store.archive)
    assert await seen(store) == {OTHER.capture.url}
    assert await as_others_see_it() == before
    (tmp_path / "removed.json").unlink()
    second_of(tmp_path / "removed.json").unlink()
    store.archive.removed = removals_of(tmp_path)
    assert len(await seen(store)) == 6
    after = _bytes_of(store)  # a rebuilt index begins another log
    assert all(file in after for file in files)


def _bytes_of(store: MemoryStore) -> list[bytes]:
    files = store.archive.files
    return [files.read_at(number, 0, files.size(number)) for number in files.catalogue]


async def test_what_comes_in_later_is_hidden_too_and_brought_in_by_nobody_here(tmp_path: Path) -> None:
    store = await filled()
    hide(store, tmp_path, HOST)
    late = page("http://www.example.org/late", NOW_S, b"late")
    assert (await store.store(late)).outcome is StoreOutcome.DELETED
    assert store.is_removed("http://www.example.org/late")
    assert (await take(ArchiveHoldings(store), late)).outcome is StoreOutcome.NEW
    assert await store.history(late.capture.url) == []
    assert await ArchiveHoldings(store).held([key_of(late)]) == [Held.HERE]


async def test_what_was_erased_is_declined_and_said_to_be_unwanted(tmp_path: Path) -> None:
    store = await filled()
    hide(store, tmp_path, HOST)
    await erase_rules(store, tmp_path, [HOST], RemovalReport(), print)
    assert store.archive.captures == 1
    assert b"".join(_bytes_of(store)).count(SECRET) == 0
    late = page("http://example.org/late", NOW_S, b"late")
    holdings = ArchiveHoldings(store)
    assert await holdings.held([key_of(PAGES[0]), key_of(late)]) == [Held.DELETED, Held.LACKING]
    for _ in range(2):
        assert (await take(holdings, late)).outcome is StoreOutcome.DELETED
    assert await holdings.held([key_of(late)]) == [Held.DELETED], "so it is not sent again"
    rebuild(store.archive)
    assert await holdings.held([key_of(late)]) == [Held.DELETED]
    assert await holdings.members([ALL]) == [
        member(OTHER),
        *sorted(member(one)[:-1] + TOMBSTONE for one in (*PAGES, late)),
    ]


async def looked(store: MemoryStore, state: Path, clock: Clock, *waits: Callable[[], None]) -> None:
    """One run of the peer, with a look after each of the waits."""
    async with anyio.create_task_group() as tasks:
        step = anyio.Event()
        turns = iter(waits)

        async def next_turn(_: float) -> None:
            wait = next(turns, None)
            if wait is None:
                step.set()
                await anyio.sleep_forever()
            else:
                wait()

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(anyio, "sleep", next_turn)
            tasks.start_soon(keep_grace, store, state, clock)
            await step.wait()
        tasks.cancel_scope.cancel()


async def test_bytes_go_after_thirty_days_that_were_lived_through_and_no_earlier(tmp_path: Path) -> None:
    store, clock = await filled(), Clock()
    hide(store, tmp_path, HOST)
    await looked(store, tmp_path, clock, *[lambda: clock.run(0.5)] * 59)
    assert store.archive.captures == 6
    assert await seen(store) == {OTHER.capture.url}
    await looked(store, tmp_path, clock, *[lambda: clock.run(0.5)] * 2)
    assert store.archive.captures == 1
    assert [rule.state for rule in read_removed(tmp_path).rules] == ["erased"]
    assert b"".join(_bytes_of(store)).count(SECRET) == 0


async def test_a_clock_of_2100_erases_nothing_and_one_that_comes_back_has_forgotten_nothing(
    tmp_path: Path,
) -> None:
    store, clock = await filled(), Clock()
    hide(store, tmp_path, HOST)

    def leap() -> None:
        clock.wall += 74 * 365 * DAY_S

    def back() -> None:
        clock.wall = START_S

    await looked(store, tmp_path, clock, leap, back, leap, lambda: clock.run(20))
    leap()  # while the peer is off: a day counts at most
    await looked(store, tmp_path, clock)
    assert store.archive.captures == 6
    assert 20 * DAY_S <= read_removed(tmp_path).lived_s <= 21 * DAY_S
    back()
    await looked(store, tmp_path, clock, lambda: clock.run(8))
    assert store.archive.captures == 6
    await looked(store, tmp_path, clock, lambda: clock.run(3))
    assert store.archive.captures == 1


async def test_erasing_that_was_killed_goes_on_at_the_next_start_and_nothing_comes_back_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, "VERSIONS_AT_ONCE", 2)
    store, clock = await filled(), Clock()
    hide(store, tmp_path, HOST)
    deleted = store.delete
    calls = 0

    async def dies_at_the_second(ids: list[object]) -> int:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise StoreRefusedError("killed")
        return await deleted(ids)  # type: ignore[arg-type]  # as it was given

    monkeypatch.setattr(store, "delete", dies_at_the_second)
    await looked(store, tmp_path, clock, lambda: clock.run(31))
    assert store.archive.captures == 4
    assert [rule.state for rule in read_removed(tmp_path).rules] == ["erasing"]
    store.archive.removed = removals_of(tmp_path)  # as after a start
    assert (await take(ArchiveHoldings(store), PAGES[0])).outcome is StoreOutcome.DELETED
    assert await seen(store) == {OTHER.capture.url}
    await looked(store, tmp_path, clock)
    assert store.archive.captures == 1
    assert [rule.state for rule in read_removed(tmp_path).rules] == ["erased"]


@pytest.mark.parametrize("is_sealed", [False, True])
async def test_what_the_disk_could_not_read_is_erased_too_and_nothing_of_others(
    tmp_path: Path, is_sealed: bool
) -> None:
    store = await filled()
    files = store.archive.files
    entry = Reader(store.archive).find(PAGES[1].id)
    assert entry is not None
    path = files.path(entry.place.file)
    disk = files.disk(0)
    descriptor = disk.open(path, os.O_RDWR)
    disk.pwrite(descriptor, b"!rot!", entry.place.offset + 40)
    disk.close(descriptor)
    if is_sealed:
        seal(store.archive)
        assert store.archive.quarantine.captures == 1
    hide(store, tmp_path, HOST)
    report = RemovalReport()
    await erase_rules(store, tmp_path, [HOST], report, print)
    holdings = ArchiveHoldings(store)
    assert (await take(holdings, PAGES[1])).outcome is StoreOutcome.DELETED
    assert set(await holdings.held([key_of(one) for one in PAGES])) == {Held.DELETED}
    assert store.archive.captures == 1
    assert await seen(store) == {OTHER.capture.url}
    assert not store.archive.quarantine.items
    assert report.quarantined_left == 0
    assert b"".join(_bytes_of(store)).count(SECRET) == 0
    rebuild(store.archive)
    assert store.archive.captures == 1


@pytest.mark.parametrize("kind", ["host", "prefix"])
async def test_addresses_behind_a_removed_site_are_listed_without_a_walk_through_it(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore(lambda: START_S)
    for n in range(200):
        await store.store(page(f"http://example.org/a/{n}", NOW_S, b"%d" % n))
    await store.store(page("http://example.orga/", NOW_S, b"behind"))
    hide(store, tmp_path, subject_of(kind, "example.org" if kind == "host" else "http://example.org/a/"))
    asked: list[str] = []
    covers = type(store.archive.removed).covers

    def noted(removals: Removals, url: str) -> bool:
        asked.append(url)
        return covers(removals, url)

    monkeypatch.setattr(type(store.archive.removed), "covers", noted)
    assert list(ArchiveCatalogue(store.archive).addresses(b"u", b"v")) == ["http://example.orga/"]
    assert len(asked) < 10
