"""How do many small stores share one flush?

One thread per archive takes whatever has queued up while the last flush ran, commits it as one batch and then
tells each waiter. Under load a batch is large and the flush costs each capture little; alone, a capture waits
for one flush. When a commit fails, all that is queued behind it fails too: it may refer to what was lost.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from threading import Condition, Thread

from herodotus.core.archive_errors import ArchiveError, StoreRefusedError
from herodotus.store.engine import Archive
from herodotus.store.intake import Intake
from herodotus.store.items import Item

logger = logging.getLogger(__name__)

BATCH_ITEMS_MAX = 128  # beyond 64 records a flush is a small part of the cost
QUEUE_ITEMS_MAX = 4_096

Done = Callable[[ArchiveError | None], None]


class PreparedInVainError(ArchiveError):
    """Something was deleted or lost between preparing an item and committing it: prepare it again."""


class Committer:
    def __init__(self, archive: Archive, intake: Intake) -> None:
        self._archive = archive
        self._intake = intake
        self._queue: deque[tuple[Item, Done, int | None]] = deque()
        self._changed = Condition()
        self._is_stopping = False
        self._thread = Thread(target=self._run, name="archive-committer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, item: Item, done: Done, generation: int | None = None) -> bool:
        """False when the item was prepared in a hope that has failed since: prepare it again. `done` is
        called once,
        in the committer's thread, with the error that refused the item or with None when it is durable."""
        with self._changed:
            if generation is not None and generation != self._intake.generation:
                return False
            if self._is_stopping:
                raise StoreRefusedError("the archive is closing")
            if len(self._queue) >= QUEUE_ITEMS_MAX:
                raise StoreRefusedError(f"{QUEUE_ITEMS_MAX} stores are waiting for the disk")
            self._queue.append((item, done, generation))
            self._changed.notify()
            return True

    def stop(self) -> None:
        """What was submitted is still committed."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while batch := self._take():
            # A deletion bumps the generation under the archive's lock: what was prepared before must not go
            # in after.
            with self._archive.lock:
                stale = [
                    done for _, done, generation in batch if generation not in (None, self._intake.generation)
                ]
                fresh = [
                    (item, done)
                    for item, done, generation in batch
                    if generation in (None, self._intake.generation)
                ]
                error = self._commit([item for item, _ in fresh]) if fresh else None
            for done in stale:
                self._tell(done, PreparedInVainError())
            if error is not None:
                with self._changed:
                    self._intake.forget()
                    fresh += [(item, done) for item, done, _ in self._queue]
                    self._queue.clear()
            for _, done in fresh:
                self._tell(done, error)

    def _tell(self, done: Done, error: ArchiveError | None) -> None:
        try:
            done(error)
        except Exception:  # a waiter's own failure must not stop the thread that all others wait for
            logger.exception("waiter failed")

    def _take(self) -> list[tuple[Item, Done, int | None]]:
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._is_stopping)
            return [self._queue.popleft() for _ in range(min(len(self._queue), BATCH_ITEMS_MAX))]

    def _commit(self, items: Sequence[Item]) -> ArchiveError | None:
        try:
            self._archive.commit(items)
        except ArchiveError as error:
            return error
        except Exception as error:
            logger.exception("commit failed")
            return StoreRefusedError(f"commit failed: {error!r}")
        return None
