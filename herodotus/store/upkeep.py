"""When does the log become segments? A running peer looks every minute, a command that stored looks before it ends.

Sealing is paced, so it may take a while; a peer that stops and a command that is interrupted give it up, and the next
one begins it again.
"""

import logging

import anyio

from herodotus.core.errors import ArchiveError, StoreRefusedError, UpkeepStoppedError
from herodotus.store.sealing import NOTHING, Sealed
from herodotus.store.store import READING, DiskStore

logger = logging.getLogger(__name__)

SEALED_FROM_BYTES = 64 * 1024 * 1024
"""Of the log: some 20,000 captures, whose sealing takes seconds; fewer would make many small segments."""
PERIOD_S = 60.0


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


def _log_bytes(store: DiskStore) -> int:
    files = store.archive.files
    return sum(_size(store, number) for number in files.logs() if number not in files.unreadable)


def _size(store: DiskStore, number: int) -> int:
    try:
        return store.archive.files.size(number)
    except (KeyError, FileNotFoundError):
        return 0  # sealed meanwhile
