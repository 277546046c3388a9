"""When do the bytes of what was hidden go? Once this peer has lived through `removals.grace_days` since.

It looks every hour, and notes how far its own clock came. Time that a running peer did not live through does not count,
whatever the wall clock says; of the time while it was off, a day counts at most. So a clock of 2100 erases nothing.
"""

import logging
from functools import partial
from pathlib import Path

import anyio

from herodotus.core.errors import HerodotusError, UpkeepStoppedError
from herodotus.core.ports import Clocks
from herodotus.core.removals import CREDIT_MAX_S, credit_s
from herodotus.home.removed import RemovedFile, Rule, change, due_for_erasing, lived, read_removed
from herodotus.store.removal import RemovalReport, erase_rules
from herodotus.store.store import UPKEEP, DiskStore

logger = logging.getLogger(__name__)

LOOK_S = 3_600.0
ERASED_AT_ONCE = 1_000
"""Rules of one look, whose files are rewritten together."""


async def keep_grace(store: DiskStore, state: Path, clocks: Clocks, look_s: float = LOOK_S) -> None:
    """Until it is cancelled or the store ends its upkeep."""
    lived_before: float | None = None
    while True:
        now, elapsed_s = clocks.unix_s(), clocks.elapsed_s()
        since_s = None if lived_before is None else elapsed_s - lived_before
        try:
            due = await store.workers.work(
                partial(_due, state, now, since_s, store.archive.settings.grace_s), UPKEEP
            )
            if due:
                report = RemovalReport()
                subjects = [rule.subject for rule in due[:ERASED_AT_ONCE]]
                await erase_rules(store, state, subjects, report, lambda _: None)
                logger.info("removed pages erased rules=%d", len(subjects))
        except UpkeepStoppedError:
            return
        except (HerodotusError, OSError) as error:
            logger.warning("removed pages could not be erased error=%s", error)
        lived_before = elapsed_s
        await anyio.sleep(look_s)


def _due(state: Path, now: float, since_s: float | None, grace_s: float) -> list[Rule]:
    """Move the clock of removals, and say what it has come to."""
    if not read_removed(state).rules:
        return []

    def move(file: RemovedFile) -> RemovedFile:
        most_s = CREDIT_MAX_S if since_s is None else since_s
        return lived(file, credit_s(file.seen_s, now, most_s), now)

    return due_for_erasing(change(state, move), grace_s)
