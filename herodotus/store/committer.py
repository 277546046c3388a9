"""How do many small stores share one flush?

Whatever has queued up while the last flush ran is committed as one batch, and then each waiter is told. Under load a
batch is large and the flush costs each capture little; alone, a capture waits for one flush. When a commit fails,
everything queued behind it fails too: it may refer to lost captures.

`CommitQueue` decides; a driver says when. A daemon has a thread for it, so that the next batch begins while the loop is
busy. Where there are no threads, as in a simulation, a task of the loop does the same.

How does another thread wake tasks, whichever loop they run on? Without waiting for that loop.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from threading import Condition, Thread
from typing import NamedTuple, Protocol

import anyio

from herodotus.core.errors import ArchiveError, StoreRefusedError
from herodotus.core.ports import Workers
from herodotus.store.engine import Archive
from herodotus.store.intake import Intake
from herodotus.store.log import Item

logger = logging.getLogger(__name__)

BATCH_ITEMS_MAX = 128  # beyond 64 records a flush is a small part of the cost
QUEUE_ITEMS_MAX = 4_096

Done = Callable[[ArchiveError | None], None]


class PreparedInVainError(ArchiveError):
    """Something was deleted or lost between preparing an item and committing it: prepare it again."""


class _Waiting(NamedTuple):
    item: Item
    done: Done
    generation: int | None
    """The intake's generation when the item was prepared; None for an item that depends on no other."""


Submitted = tuple[Item, Done, int | None]


class CommitQueue:
    """`submit`, `take` and `give_up` are for one at a time, which the driver sees to; `commit` may run beside them."""

    def __init__(self, archive: Archive, intake: Intake) -> None:
        self._archive = archive
        self._intake = intake
        self._queue: deque[_Waiting] = deque()
        self.is_stopping = False

    def __len__(self) -> int:
        return len(self._queue)

    def submit(self, item: Item, done: Done, generation: int | None) -> bool:
        if generation is not None and generation != self._intake.generation:
            return False
        if self.is_stopping:
            raise StoreRefusedError("the archive is closing")
        if len(self._queue) >= QUEUE_ITEMS_MAX:
            raise StoreRefusedError(f"{QUEUE_ITEMS_MAX} stores are waiting for the disk")
        self._queue.append(_Waiting(item, done, generation))
        return True

    def submit_all(self, some: Sequence[Submitted]) -> list[bool | ArchiveError]:
        found: list[bool | ArchiveError] = []
        for one in some:
            try:
                found.append(self.submit(*one))
            except StoreRefusedError as error:
                found.append(error)
        return found

    def take(self) -> list[_Waiting]:
        return [self._queue.popleft() for _ in range(min(len(self._queue), BATCH_ITEMS_MAX))]

    def commit(
        self, batch: Sequence[_Waiting]
    ) -> tuple[list[tuple[Done, ArchiveError | None]], ArchiveError | None]:
        """The callbacks with their results, and the error that ends everything queued behind."""
        # A deletion bumps the generation under the archive's lock: an item prepared before must not go in after.
        with self._archive.lock:
            now = self._intake.generation
            fresh = [one for one in batch if one.generation in (None, now)]
            error = self._committed([one.item for one in fresh]) if fresh else None
        stale = [one.done for one in batch if one.generation not in (None, now)]
        told: list[tuple[Done, ArchiveError | None]] = [(done, PreparedInVainError()) for done in stale]
        return told + [(one.done, error) for one in fresh], error

    def give_up(self, error: ArchiveError) -> list[tuple[Done, ArchiveError | None]]:
        """Fail everything queued. Later items are prepared without the lost ones."""
        self._intake.forget()
        rest = [one.done for one in self._queue]
        self._queue.clear()
        return [(done, error) for done in rest]

    def _committed(self, items: Sequence[Item]) -> ArchiveError | None:
        try:
            self._archive.commit(items)
        except ArchiveError as error:
            return error
        except Exception as error:
            logger.exception("commit failed")
            return StoreRefusedError(f"commit failed: {error!r}")
        return None


class Committer(Protocol):
    def submit(self, item: Item, done: Done, generation: int | None = None) -> bool:
        """False when the item was prepared in a hope that has failed since: prepare it again. `done` is called once,
        by the committer, with the error that refused the item or with None when it is durable."""
        ...

    def submit_all(self, some: Sequence[Submitted]) -> list[bool | ArchiveError]:
        """As `submit` for each, to be durable together; where it would raise, the error."""
        ...

    def stop(self) -> None:
        """Commit the submitted items, then stop. This may block."""
        ...


class ThreadCommitter:
    def __init__(self, queue: CommitQueue) -> None:
        self._queue = queue
        self._changed = Condition()
        self._thread = Thread(target=self._run, name="archive-committer", daemon=True)
        self._thread.start()

    def submit(self, item: Item, done: Done, generation: int | None = None) -> bool:
        with self._changed:
            is_taken = self._queue.submit(item, done, generation)
            self._changed.notify()
        return is_taken

    def submit_all(self, some: Sequence[Submitted]) -> list[bool | ArchiveError]:
        with self._changed:  # so that no commit begins with a part of them
            found = self._queue.submit_all(some)
            self._changed.notify()
        return found

    def stop(self) -> None:
        with self._changed:
            self._queue.is_stopping = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while batch := self._take():
            told, error = self._queue.commit(batch)
            if error is not None:
                with self._changed:
                    told += self._queue.give_up(error)
            _tell(told)

    def _take(self) -> list[_Waiting]:
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._queue.is_stopping)
            return self._queue.take()


class LoopCommitter:
    """`run` is its task."""

    def __init__(self, queue: CommitQueue) -> None:
        self._queue = queue
        self._changed = anyio.Event()

    def submit(self, item: Item, done: Done, generation: int | None = None) -> bool:
        is_taken = self._queue.submit(item, done, generation)
        self._changed.set()
        return is_taken

    def submit_all(self, some: Sequence[Submitted]) -> list[bool | ArchiveError]:
        found = self._queue.submit_all(some)
        self._changed.set()
        return found

    def stop(self) -> None:
        self._queue.is_stopping = True
        self._commit_all()

    async def run(self) -> None:
        while True:
            await self._changed.wait()
            self._changed = anyio.Event()
            self._commit_all()

    def _commit_all(self) -> None:
        while batch := self._queue.take():
            told, error = self._queue.commit(batch)
            if error is not None:
                told += self._queue.give_up(error)
            _tell(told)


def _tell(told: Sequence[tuple[Done, ArchiveError | None]]) -> None:
    for done, error in told:
        try:
            done(error)
        except Exception:  # a waiter's own failure must not stop the committer of all others
            logger.exception("waiter failed")


@asynccontextmanager
async def open_committer(queue: CommitQueue, workers: Workers) -> AsyncIterator[Committer]:
    """Leaving stops nothing: `stop` does, and may be called within."""
    if workers.has_threads:
        yield ThreadCommitter(queue)
        return
    committer = LoopCommitter(queue)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(committer.run)
        try:
            yield committer
        finally:
            tasks.cancel_scope.cancel()


Call = Callable[[], object]


class Bell:
    """Rung from any thread; the loop then makes the calls. Many rings wake the loop once."""

    def __init__(self, schedule: Callable[[Call], object], gone: type[Exception]) -> None:
        self._schedule = schedule
        self._gone = gone
        self._calls: deque[Call] = deque()
        self._is_ringing = False

    def ring(self, call: Call) -> None:
        self._calls.append(call)
        if not self._is_ringing:
            self._is_ringing = True
            with suppress(self._gone):  # nobody waits on a loop that ended
                self._schedule(self._answer)

    def _answer(self) -> None:
        # First, so that a call that comes from now on rings again.
        self._is_ringing = False
        while self._calls:
            self._calls.popleft()()


def _at_once(call: Call) -> object:
    return call()


def current_bell(workers: Workers) -> Bell:
    """Of the loop that runs the caller; where there are no other threads, a ring is a call."""
    if not workers.has_threads:
        return Bell(_at_once, RuntimeError)
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        import trio  # a peer on asyncio starts without it

        return Bell(trio.lowlevel.current_trio_token().run_sync_soon, trio.RunFinishedError)
    return Bell(loop.call_soon_threadsafe, RuntimeError)
