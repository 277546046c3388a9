"""Years of unchanged visits go through recovery and sealing without filling the memory."""

import random
import tracemalloc
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from herodotus.core.bundles import Visit, format_bundle, format_tombstones, format_visits
from herodotus.core.captures import position_of
from herodotus.core.errors import UpkeepStoppedError
from herodotus.core.index_rows import after, family_key, url_prefix
from herodotus.store import log, notes, recovery
from herodotus.store.deletion import delete
from herodotus.store.engine import Archive
from herodotus.store.external_sort import SortedLines
from herodotus.store.index import IndexBatch, RocksIndex
from herodotus.store.intake import Intake
from herodotus.store.log import NOTE_TARGET
from herodotus.store.notes import all_visits
from herodotus.store.reader import Reader
from herodotus.store.recovery import open_archive, rebuild
from herodotus.store.sealing import compact, seal
from herodotus.store.slices import archive_at
from herodotus.store.stored_records import end_of_companion
from simnet.world.disk import SimulatedDisk
from tests.herodotus.deposits import altered
from tests.herodotus.store.making import DAY_S, NOW_S, note_visits, open_on, page, random_text, store
from tests.herodotus.store.memory_store import MemoryIndex
from tests.herodotus.store.power import JournalledIndex

URLS = [f"http://example.org/{n}" for n in range(40)]


def _visit(url: str, number: int) -> Visit:
    return Visit(url=url, time_s=NOW_S + number, status=304)


def _counted(archive: Archive) -> dict[str, int]:
    reader = Reader(archive)
    return {url: sum(version.visits for version in reader.history(url)) for url in URLS}


def test_what_belongs_to_a_capture_is_known_by_its_form_and_a_note_is_not_taken_for_it() -> None:
    capture = altered(page(URLS[0], NOW_S), duration_s=0.012)
    _, request, metadata = format_bundle(capture, None)
    assert end_of_companion(b"!" + request + metadata, 1) == 1 + len(request)
    assert end_of_companion(request + metadata, len(request)) == len(request + metadata)
    for note in (
        format_visits([_visit(URLS[0], 0)], NOTE_TARGET),
        format_tombstones([capture.id], NOTE_TARGET),
    ):
        assert b"\r\nWARC-Type: metadata\r\n" in note
        assert end_of_companion(note, 0) == -1
        hidden = note.replace(
            b"\r\nContent-Length", b"\r\nContent-Type: application/warc-fields\r\nContent-Length"
        )
        assert end_of_companion(hidden, 0) == -1
    assert end_of_companion(metadata[:-1], 0) == -1


def _peak_of_rebuilding(archive: Archive) -> int:
    tracemalloc.start()
    try:
        rebuild(archive)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_making_the_index_anew_holds_no_more_than_some_visits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "VISITS_AT_ONCE", 1_000, raising=False)
    (tmp_path / "archive").mkdir()
    archive = open_on(tmp_path / "archive", RocksIndex(tmp_path / "index"))
    store(archive, *(page(url, NOW_S) for url in URLS))
    for note in range(1, 101):
        note_visits(archive, *(_visit(URLS[n % 40], 1_000 * note + n) for n in range(400)))
    assert _peak_of_rebuilding(archive) < 6_000_000  # all 40,000 at once are 9 MB
    assert _counted(archive) == dict.fromkeys(URLS, 1_000)
    archive.close()


@pytest.mark.parametrize("seed", range(5))
def test_visits_are_counted_the_same_however_often_recovery_stops_between(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index that a crash leaves is a prefix of its batches, also while visits are being counted."""
    monkeypatch.setattr(recovery, "VISITS_AT_ONCE", 7)
    rng = random.Random(seed)
    disk = SimulatedDisk()
    archive = open_on(disk)
    told = Counter[str]()
    known: list[tuple[bytes, bytes]] = []
    for number in range(30):
        if number == 5:
            assert isinstance(archive.index, MemoryIndex)
            known = archive.index.content()
        url = rng.choice(URLS)
        if url not in told or rng.random() < 0.2:
            store(archive, page(url, NOW_S + 100 * number, random_text(rng, 300)))
            told[url] += 0
        visits = [_visit(url, 100 * number + n) for n in range(1, rng.randint(2, 12))]
        note_visits(archive, *visits)
        told[url] += len(visits)
    index = _Interrupted(rng, known)
    stops = 0
    while True:
        try:
            archive = open_on(disk, index)
            break
        except _CrashError:
            stops += 1
    assert stops
    assert archive.counters.recovered < 30
    assert {url: count for url, count in _counted(archive).items() if count} == {
        url: count for url, count in told.items() if count
    }


class _CrashError(Exception):
    pass


class _Interrupted(MemoryIndex):
    """Stops the opening after some batches; what it has stays."""

    def __init__(self, rng: random.Random, content: list[tuple[bytes, bytes]]) -> None:
        super().__init__(content)
        self._rng = rng

    def write(self, batch: IndexBatch) -> None:
        super().write(batch)
        if self._rng.random() < 0.1:
            raise _CrashError


def test_days_of_many_visits_are_several_notes_and_equal_ones_count_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notes, "VISITS_PER_NOTE", 10)
    monkeypatch.setattr(notes, "TOMBSTONES_PER_NOTE", 3)
    monkeypatch.setattr(notes, "SortedLines", partial(SortedLines, run_bytes_max=2_000))
    archive = archive_at(tmp_path, lambda: float(NOW_S))
    open_archive(archive)
    store(archive, *(page(url, NOW_S) for url in URLS))
    doomed = [page(f"http://example.org/doomed/{n}", NOW_S, b"%d" % n) for n in range(80)]
    store(archive, *doomed)
    assert delete(archive, Intake(archive), [deposit.id for deposit in doomed]) == 80
    visits = [_visit(url, day * DAY_S + n) for day in range(3) for url in URLS for n in range(1, 6)]
    random.Random(1).shuffle(visits)
    for at in range(0, len(visits), 50):
        note_visits(archive, *visits[at : at + 50])
    note_visits(archive, *visits[:50])
    for upkeep in (seal, partial(compact, dead_min=0)):
        upkeep(archive)
        found = list(all_visits(archive))
        assert sorted(found) == sorted(visits)
        by_note = Counter((file, offset) for file, offset in notes.note_places(archive))
        assert len(by_note) > 48
        rebuild(archive)
        assert _counted(archive) == dict.fromkeys(URLS, 15)
        assert all(archive.is_deleted(_key_of(archive, deposit.capture.url)) for deposit in doomed)
        assert archive.damage == {}
    assert not list((tmp_path / "archive").glob(".sorting.*"))
    archive.close()


def test_many_visits_that_come_at_once_are_several_notes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A note of more lines than anybody reads would be lost with what came in the same flush."""
    monkeypatch.setattr(log, "VISITS_PER_NOTE", 10)
    archive = archive_at(tmp_path, lambda: float(NOW_S))
    open_archive(archive)
    store(archive, *(page(url, NOW_S) for url in URLS))
    visits = [_visit(URLS[0], n + 1) for n in range(25)]
    note_visits(archive, *visits)
    assert len(list(notes.note_places(archive))) == 3
    assert sorted(all_visits(archive)) == visits
    for _ in range(2):
        assert _counted(archive)[URLS[0]] == 25
        rebuild(archive)
    archive.close()


def test_sorting_notes_ends_when_upkeep_is_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notes, "SortedLines", partial(SortedLines, run_bytes_max=2_000))
    archive = archive_at(tmp_path, lambda: float(NOW_S))
    open_archive(archive)
    store(archive, *(page(url, NOW_S) for url in URLS))
    for number in range(20):
        note_visits(archive, *(_visit(url, number + 1) for url in URLS))
    calls = 0

    def stop(moved: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 10:
            raise UpkeepStoppedError

    with pytest.raises(UpkeepStoppedError):
        seal(archive, stop)
    assert not list((tmp_path / "archive").glob(".sorting.*"))
    assert not list((tmp_path / "archive").rglob("*.part"))
    assert seal(archive).captures == 40
    assert _counted(archive) == dict.fromkeys(URLS, 20)
    archive.close()


def _key_of(archive: Archive, url: str) -> bytes:
    prefix = family_key(b"t", url_prefix(position_of(url)))
    return next(archive.index.scan(prefix, after(prefix)))[0]


def test_what_a_killed_sealing_was_sorting_goes_at_the_next_opening(tmp_path: Path) -> None:
    left = tmp_path / "archive" / ".sorting.abc"
    left.mkdir(parents=True)
    (left / "0").write_bytes(b"lines\n")
    archive = archive_at(tmp_path, lambda: float(NOW_S))
    assert not left.exists()
    archive.index.close()


def test_visits_are_not_forgotten_when_the_power_goes_after_their_log_was_sealed() -> None:
    """The index counts visits once, from the log. Of what it wrote since its last flush the cut takes all."""

    class TakesAll(random.Random):
        def randint(self, a: int, b: int) -> int:
            del b
            return a

    disk, index = SimulatedDisk(), JournalledIndex()
    archive = open_on(disk, index)
    store(archive, page(URLS[0], NOW_S))
    note_visits(archive, _visit(URLS[0], 1), _visit(URLS[0], 2))
    assert seal(archive).captures == 1
    again = open_on(disk, index.after_crash(TakesAll()))
    assert _counted(again)[URLS[0]] == 2
    rebuild(again)
    assert _counted(again)[URLS[0]] == 2
