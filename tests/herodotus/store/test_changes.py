"""Is each capture told that came or went, once, and is it said when some could not be kept?"""

from itertools import pairwise

import pytest

from herodotus.core.captures import position_of
from herodotus.core.removals import Removals, subject_of
from herodotus.store import changes as changing
from herodotus.store.changes import ArchiveChanges
from herodotus.store.deletion import delete
from herodotus.store.engine import Archive
from herodotus.store.intake import Intake
from herodotus.store.reader import Reader
from herodotus.store.sealing import seal
from tests.herodotus.store.making import NOW_S, open_on, page, store
from tests.herodotus.store.memory_store import MemoryDisk

A, B = "https://a.example/", "https://b.example/x"


@pytest.fixture
def archive() -> Archive:
    return open_on(MemoryDisk())


def urls_of(keys: tuple[bytes, ...]) -> set[str]:
    named = {position_of(url)[:12]: url for url in (A, B)}
    return {named[key[:12]] for key in keys}


def test_what_came_and_what_went_is_told_once(archive: Archive) -> None:
    store(archive, page(A, NOW_S))
    changes = ArchiveChanges(archive)
    tail = changes.begin(lambda: None)
    store(archive, page(B, NOW_S), page(B, NOW_S + 1, b"other"))
    delete(archive, Intake(archive), [version.id for version in Reader(archive).history(A)])
    taken = changes.take()
    assert (urls_of(taken.came), urls_of(taken.gone), taken.is_whole) == ({B}, {A}, True)
    assert len(taken.came) == 2
    assert taken.tail > tail
    again = changes.take()
    assert (again.came, again.gone, again.tail) == ((), (), taken.tail)


def test_a_sealed_log_changes_nothing(archive: Archive) -> None:
    changes = ArchiveChanges(archive)
    changes.begin(lambda: None)
    store(archive, page(A, NOW_S))
    changes.take()
    archive.roll()
    seal(archive)
    taken = changes.take()
    assert (taken.came, taken.gone) == ((), ())


def test_more_than_can_be_kept_is_not_told_and_said_to_be_missing(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changing, "KEPT_MAX", 2)
    changes = ArchiveChanges(archive)
    changes.begin(lambda: None)
    store(archive, *(page(f"https://a.example/{n}", NOW_S) for n in range(3)))
    taken = changes.take()
    assert (taken.came, taken.is_whole) == ((), False)
    assert changes.take().is_whole


def test_nothing_is_told_before_and_after(archive: Archive) -> None:
    told: list[str] = []
    changes = ArchiveChanges(archive)
    changes.begin(lambda: told.append("removed"))
    archive.removed = Removals.of_subjects([subject_of("host", "a.example")])
    changes.end()
    archive.removed = Removals()
    store(archive, page(A, NOW_S))
    assert told == ["removed"]
    assert changes.take().came == ()


def test_a_removed_capture_is_not_shown_and_found_by_its_subject(archive: Archive) -> None:
    changes = ArchiveChanges(archive)
    store(archive, page(A, NOW_S), page(B, NOW_S))
    subject = subject_of("host", "a.example")
    archive.removed = Removals.of_subjects([subject])
    assert [capture.url for capture in changes.shown(b"")] == [B]
    assert [*changes.positions_under(subject)] == [position_of(A)[:12]]
    assert [changes.capture(key) is None for key, _ in changes.keys(b"", 9)] == [
        key[:12] == position_of(A)[:12] for key, _ in changes.keys(b"", 9)
    ]


def test_keys_come_in_order_with_their_arrival(archive: Archive) -> None:
    store(archive, *(page(f"https://a.example/{n}", NOW_S) for n in range(9)))
    changes = ArchiveChanges(archive)
    first = changes.keys(b"", 4)
    rest = changes.keys(first[-1][0], 9)
    assert len(first + rest) == 9
    assert all(one < other for (one, _), (other, _) in pairwise(first + rest))
    assert len({arrival for _, arrival in first + rest}) == 9


def test_the_latest_of_a_url_is_known_by_its_key(archive: Archive) -> None:
    store(archive, page(A, NOW_S, b"one"), page(A, NOW_S + 5, b"two"), page(B, NOW_S + 9))
    changes = ArchiveChanges(archive)
    keys = [key for key, _ in changes.keys(b"", 9) if key[:12] == position_of(A)[:12]]
    assert [changes.is_latest(key) for key in keys] == [False, True]
    newest = changes.newest_at(keys[0], NOW_S + 5)
    assert newest is not None
    assert newest.body == b"two"
    assert changes.newest_at(keys[0], NOW_S + 4) is None
