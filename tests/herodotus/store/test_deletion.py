"""A deletion may have much to move. It does so in steps: nobody waits for it, and no crash between two is seen."""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Thread

import pytest

from herodotus.core.captures import Deposit
from herodotus.store import deletion
from herodotus.store.deletion import delete, expunge
from herodotus.store.engine import Archive
from herodotus.store.files import Files
from herodotus.store.holdings import drop
from herodotus.store.intake import Intake, StoreOutcome
from herodotus.store.log import Item, NewCapture, NewTombstones
from herodotus.store.reader import Reader
from herodotus.store.recovery import rebuild
from herodotus.store.verification import verify
from simnet.world.disk import PowerCut, SimulatedDisk
from tests.herodotus.store.making import NOW_S, open_on, page, random_text, store
from tests.herodotus.store.power import JournalledIndex

URL = "http://example.org/"
BODY = random_text(random.Random(3), 5_000)


def _archive_with_revisits(
    count: int, disk: SimulatedDisk | None = None, index: JournalledIndex | None = None
) -> tuple[Archive, Deposit, list[Deposit]]:
    archive = open_on(disk or SimulatedDisk(), index)
    original, *revisits = [page(URL, NOW_S + n, BODY) for n in range(count + 1)]
    assert store(archive, original, *revisits) == [StoreOutcome.NEW] + [StoreOutcome.REVISIT] * count
    return archive, original, revisits


def _is_free(archive: Archive) -> bool:
    """Whether somebody else could store now."""
    found: list[bool] = []

    def ask() -> None:
        found.append(archive.lock.acquire(blocking=False))
        if found[0]:
            archive.lock.release()

    other = Thread(target=ask)
    other.start()
    other.join()
    return found[0]


@contextmanager
def _watched(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[list[bool], list[int]]]:
    """At each read whether the lock was free, and how many captures each commit wrote."""
    free: list[bool] = []
    written: list[int] = []
    read_at, commit = Files.read_at, Archive.commit

    def asked(self: Files, number: int, offset: int, length: int) -> bytes:
        free.append(_is_free(archive))
        return read_at(self, number, offset, length)

    def counted(self: Archive, items: Sequence[Item]) -> None:
        written.append(sum(isinstance(item, NewCapture) for item in items))
        commit(self, items)

    with monkeypatch.context() as patched:
        patched.setattr(Files, "read_at", asked)
        patched.setattr(Archive, "commit", counted)
        yield free, written


@pytest.mark.parametrize("way", ["deleted", "expunged", "dropped"])
def test_nobody_waits_while_bodies_are_read_that_move(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    archive, original, revisits = _archive_with_revisits(30)
    monkeypatch.setattr(deletion, "MOVED_CAPTURES_MAX", 10)
    intake = Intake(archive)
    if way == "expunged":
        store(archive, page(URL, NOW_S + 100, b"newer"))
    if way == "dropped":
        others = [page(f"{URL}{n}", NOW_S, BODY) for n in range(200)]
        revisits = [one for one in others if one.key[0] >> 4 == original.key[0] >> 4]
        assert set(store(archive, *revisits)) == {StoreOutcome.REVISIT}
    with _watched(archive, monkeypatch) as (free, written):
        if way == "deleted":
            assert delete(archive, intake, [original.id]) == 1
        elif way == "expunged":
            assert expunge(archive, intake, NOW_S + 1) == [original.id]
        else:
            position = original.key[:12]
            assert drop(archive, intake, position, _next(position)) == 31
    assert free
    assert all(free)
    assert sum(written) == len(revisits)
    assert max(written) <= 10
    for deposit in revisits:
        found = Reader(archive).read(deposit.id)
        assert found is not None
        assert found.body == BODY
    assert Reader(archive).read(original.id) is None


def _next(position: bytes) -> bytes:
    return (int.from_bytes(position, "big") + 1).to_bytes(12, "big")


def test_what_is_written_at_once_is_bounded_by_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    archive, original, _ = _archive_with_revisits(30)
    monkeypatch.setattr(deletion, "MOVED_BYTES_MAX", 4_000)
    with _watched(archive, monkeypatch) as (_, written):
        delete(archive, Intake(archive), [original.id])
    assert sum(written) == 30
    assert 3 < len(written) < 30


def test_what_comes_between_two_steps_does_not_refer_to_what_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    archive, original, revisits = _archive_with_revisits(6)
    monkeypatch.setattr(deletion, "MOVED_CAPTURES_MAX", 2)
    intake = Intake(archive)
    early = intake.prepare(page(URL, NOW_S + 500, BODY))
    assert early.outcome is StoreOutcome.REVISIT
    commit = Archive.commit
    arrived: list[Deposit] = []

    def storing_too(self: Archive, items: Sequence[Item]) -> None:
        assert early.generation != intake.generation  # so the committer has it prepared again
        commit(self, items)
        if len(arrived) < 4:
            deposit = page(URL, NOW_S + 100 + len(arrived), BODY)
            prepared = intake.prepare(deposit)
            assert prepared.item is not None
            arrived.append(deposit)
            commit(self, [prepared.item])

    with monkeypatch.context() as patched:
        patched.setattr(Archive, "commit", storing_too)
        assert delete(archive, intake, [original.id]) == 1
    assert len(arrived) == 4
    for deposit in (*revisits, *arrived):
        found = Reader(archive).read(deposit.id)
        assert found is not None
        assert found.body == BODY
        named = found.record.get("WARC-Refers-To-Date")
        assert named in (None, "2023-11-14T22:13:21Z")  # of the oldest revisit, which has the body now
    assert verify(archive).is_sound
    assert intake.prepare(page(URL, NOW_S + 200, BODY)).outcome is StoreOutcome.REVISIT


def test_a_power_cut_between_two_steps_leaves_everything_readable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletion, "MOVED_CAPTURES_MAX", 1)
    images, is_done = 0, False
    for changes in range(200):
        disk, index = SimulatedDisk(), JournalledIndex()
        archive, original, revisits = _archive_with_revisits(4, disk, index)
        index.flush()
        disk.cut_after(changes)
        is_done = True
        try:
            delete(archive, Intake(archive), [original.id])
        except PowerCut:
            is_done = False
        rng = random.Random(changes)
        for image in disk.crash_images(rng, limit=10):
            again = open_on(image, index.after_crash(rng))
            _check(again, revisits)
            if Reader(again).find(original.id) is not None:
                _check(again, [original])
                assert delete(again, Intake(again), [original.id]) == 1  # and it goes on from there
                _check(again, revisits)
                assert _named(again, revisits) <= {None, "2023-11-14T22:13:21Z"}
            images += 1
        if is_done:
            break
    assert is_done
    assert images > 40


def _check(archive: Archive, deposits: list[Deposit]) -> None:
    for deposit in deposits:
        found = Reader(archive).read(deposit.id)
        assert found is not None
        assert found.body == BODY


def _named(archive: Archive, deposits: list[Deposit]) -> set[str | None]:
    captures = [Reader(archive).read(deposit.id) for deposit in deposits]
    return {capture.record.get("WARC-Refers-To-Date") for capture in captures if capture is not None}


def test_an_index_made_again_brings_nothing_back_that_was_written_after_its_tombstone() -> None:
    """As a copy may have been, by a peer that deleted while an older one was on its way."""
    disk = SimulatedDisk()
    archive = open_on(disk)
    deposit = page(URL, NOW_S)
    prepared = Intake(archive).prepare(deposit)
    assert prepared.item is not None
    archive.commit([NewTombstones(ids=(deposit.id,))])
    archive.commit([prepared.item])
    rebuild(archive)
    assert Reader(archive).read(deposit.id) is None
    assert archive.captures == 0
    assert store(archive, deposit) == [StoreOutcome.DELETED]
