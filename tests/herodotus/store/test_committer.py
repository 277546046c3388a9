"""What is committed together, what is refused behind a failure, and who is told."""

import errno
from collections.abc import Callable

import pytest

from herodotus.core.captures import Deposit
from herodotus.core.errors import ArchiveError, StoreRefusedError
from herodotus.store import committer
from herodotus.store.committer import CommitQueue, Done, PreparedInVainError
from herodotus.store.intake import Intake
from herodotus.store.reader import Reader
from simnet.world.disk import Failure, SimulatedDisk
from tests.herodotus.store.making import NOW_S, open_on, page


class Scene:
    """An archive on a disk that may fail, and what each waiter was told."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk()
        self.archive = open_on(self.disk)
        self.intake = Intake(self.archive)
        self.queue = CommitQueue(self.archive, self.intake)
        self.told: dict[str, ArchiveError | None] = {}

    def submit(self, deposit: Deposit) -> bool:
        prepared = self.intake.prepare(deposit)
        assert prepared.item is not None
        is_taken = self.queue.submit(prepared.item, self._noting(deposit.capture.url), prepared.generation)
        if is_taken:
            self.intake.promise(prepared)
        return is_taken

    def _noting(self, url: str) -> Callable[[ArchiveError | None], None]:
        def note(error: ArchiveError | None) -> None:
            assert url not in self.told, "each is told once"
            self.told[url] = error

        return note

    def tell(self, told: list[tuple[Done, ArchiveError | None]]) -> None:
        for done, error in told:
            done(error)


def deposits(count: int) -> list[Deposit]:
    return [page(f"http://example.org/{number}", NOW_S, b"body %d" % number) for number in range(count)]


def test_a_batch_that_the_disk_refused_is_refused_to_all_who_wait_for_it_and_behind_it() -> None:
    scene = Scene()
    first, second, behind, later = deposits(4)
    assert scene.submit(first)
    assert scene.submit(second)
    batch = scene.queue.take()
    assert scene.submit(behind)
    scene.disk.fail(Failure(calls=frozenset({"fdatasync"}), error=errno.EIO, times=1))
    told, error = scene.queue.commit(batch)
    assert isinstance(error, StoreRefusedError)
    scene.tell(told)
    scene.tell(scene.queue.give_up(error))
    assert [type(scene.told[one.capture.url]) for one in (first, second, behind)] == [StoreRefusedError] * 3
    assert len(scene.queue) == 0
    assert scene.submit(later)
    told, error = scene.queue.commit(scene.queue.take())
    scene.tell(told)
    assert (error, scene.told[later.capture.url]) == (None, None)
    again = open_on(scene.disk)
    assert [Reader(again).read(one.id) is not None for one in (first, second, behind, later)] == [
        False, False, False, True,
    ]  # fmt: skip


def test_what_was_prepared_before_something_was_lost_is_not_committed_after_it() -> None:
    scene = Scene()
    (one,) = deposits(1)
    prepared = scene.intake.prepare(one)
    assert scene.submit(one)
    batch = scene.queue.take()
    scene.intake.forget()  # a deletion came in between
    told, error = scene.queue.commit(batch)
    scene.tell(told)
    assert error is None
    assert isinstance(scene.told[one.capture.url], PreparedInVainError)
    assert scene.archive.captures == 0
    assert prepared.item is not None
    assert not scene.queue.submit(prepared.item, lambda _error: None, prepared.generation)


def test_a_slow_disk_makes_those_wait_elsewhere_for_whom_there_is_no_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(committer, "QUEUE_ITEMS_MAX", 2)
    scene = Scene()
    first, second, third = deposits(3)
    assert scene.submit(first)
    assert scene.submit(second)
    with pytest.raises(StoreRefusedError, match="2 stores are waiting"):
        scene.submit(third)
    assert len(scene.queue) == 2


def test_an_archive_that_closes_takes_nothing_more() -> None:
    scene = Scene()
    scene.queue.is_stopping = True
    with pytest.raises(StoreRefusedError, match="closing"):
        scene.submit(deposits(1)[0])
