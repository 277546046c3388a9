"""When does the log become segments? A running peer looks every minute, a command that stored looks before it ends.

Sealing is paced, so it may take a while; a peer that stops and a command that is interrupted give it up, and the next
one begins it again.

Is the manifest on the disk, and are the files there? Rows of the log's tail are synced some seconds after they were
written. Now and then all files are looked for, and losses for which captures came.
"""

import logging

import anyio

from herodotus.core.errors import ArchiveError, StoreRefusedError, UpkeepStoppedError
from herodotus.core.ports import Lane
from herodotus.store.committer import current_bell
from herodotus.store.companions import make_missing_lists
from herodotus.store.mending import look
from herodotus.store.missing_files import are_all_here
from herodotus.store.recovery import notice
from herodotus.store.sealing import NOTHING, Sealed
from herodotus.store.store import READING, DiskStore

logger = logging.getLogger(__name__)

SEALED_FROM_BYTES = 64 * 1024 * 1024
"""Of the log: some 20,000 captures, whose sealing takes seconds; fewer would make many small segments."""
PERIOD_S = 60.0
SYNC_S = 5.0
"""So much of a log may be cut after a power cut without anybody here noticing; other holders have it."""
WATCH_S = 60.0
MENDING_S = 5.0
"""While something is lost."""
WATCHING = Lane("archive manifest", 2)


async def tidy(store: DiskStore, from_bytes: int = SEALED_FROM_BYTES) -> Sealed:
    """Seal when the log is long enough, then rewrite segments of which a good part is dead. Files with damaged members
    are written again at once: what is whole leaves the bad place, what is not goes into quarantine, where it counts as
    missing, and other holders send it."""
    await store.settle()
    is_long = await store.workers.work(lambda: _log_bytes(store), READING) >= from_bytes
    rotten = store.archive.rotten_files()
    if not is_long and not rotten:
        return NOTHING
    sealed = NOTHING
    try:
        if is_long or not rotten.isdisjoint(store.archive.files.logs()):
            sealed = await store.seal()
    except StoreRefusedError:
        await store.compact()  # deletions may free the missing room for the next sealing
        raise
    await store.compact()
    return sealed


async def keep_tidy(
    store: DiskStore, period_s: float = PERIOD_S, from_bytes: int = SEALED_FROM_BYTES
) -> None:
    """Until it is cancelled or the store ends its upkeep. A disk that refuses is asked again the next time."""
    while True:
        await anyio.sleep(period_s)
        try:
            sealed = await tidy(store, from_bytes)
        except UpkeepStoppedError:
            return
        except (ArchiveError, OSError) as error:
            logger.warning("upkeep of the archive failed error=%s", error)
        except Exception:  # a fault of upkeep must not stop readers and writers
            logger.exception("upkeep of the archive failed")
        else:
            if sealed is not NOTHING:
                logger.info("archive sealed captures=%d", sealed.captures)


async def tidy_before_leaving(store: DiskStore, from_bytes: int = SEALED_FROM_BYTES) -> Sealed:
    """The last act of a command that stored captures. If tidying fails now, the next command does it."""
    sealed = NOTHING
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_end_upkeep_with, store)
        try:
            sealed = await tidy(store, from_bytes)
        except UpkeepStoppedError:
            pass
        except (ArchiveError, OSError) as error:
            logger.warning("upkeep of the archive failed error=%s", error)
        tasks.cancel_scope.cancel()
    return sealed


async def _end_upkeep_with(store: DiskStore) -> None:
    """A thread cannot be cancelled: it is told to give up as soon as its waiting task is cancelled."""
    try:
        await anyio.sleep_forever()
    finally:
        store.end_upkeep()


async def keep_manifest(store: DiskStore, watch_s: float = WATCH_S) -> None:
    """Until it is cancelled."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_sync_tail, store)
        tasks.start_soon(_watch_files, store, watch_s)


async def _sync_tail(store: DiskStore) -> None:
    bell, tail_file = current_bell(store.workers), store.archive.log.tail_file
    changed = anyio.Event()

    def tell() -> None:
        changed.set()

    tail_file.on_dirty = lambda: bell.ring(tell)
    while True:
        await store.workers.work(tail_file.sync, WATCHING)
        await changed.wait()
        changed = anyio.Event()
        await anyio.sleep(SYNC_S)


async def _watch_files(store: DiskStore, watch_s: float) -> None:
    while True:
        try:
            await store.workers.work(lambda: _watch(store), WATCHING)
        except (ArchiveError, OSError) as error:
            logger.warning("the archive's files could not be looked at error=%s", error)
        await anyio.sleep(min(MENDING_S, watch_s) if store.archive.lost_files.open else watch_s)


def _watch(store: DiskStore) -> None:
    archive = store.archive
    if not are_all_here(archive):
        notice(archive)
    with archive.lock:
        archive.manifest.watch()
    look(archive)
    make_missing_lists(archive)


def _log_bytes(store: DiskStore) -> int:
    files = store.archive.files
    return sum(_size(store, number) for number in files.logs() if number not in files.unreadable)


def _size(store: DiskStore, number: int) -> int:
    try:
        return store.archive.files.size(number)
    except (KeyError, FileNotFoundError):
        return 0  # sealed meanwhile
