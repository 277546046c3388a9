"""How does a program work on the archive of a home that no peer runs on? By orders, or for as long as it is opened.

The caller holds the lock of the home.
"""

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import anyio

from herodotus.core.orders import ArchiveOrder, Import, OrderReport, Performer, Say
from herodotus.home import clock
from herodotus.store.engine import Archive
from herodotus.store.performer import perform
from herodotus.store.settings import ArchiveSettings
from herodotus.store.slices import archive_at
from herodotus.store.store import DiskStore, open_store
from herodotus.store.threads import ThreadWorkers
from herodotus.store.upkeep import tidy_before_leaving


def archive_of(home: Path, settings: ArchiveSettings | None = None) -> Archive:
    return archive_at(home, clock.unix_seconds, settings)


def opened(home: Path, settings: ArchiveSettings | None = None) -> AbstractAsyncContextManager[DiskStore]:
    return open_store(archive_of(home, settings), ThreadWorkers())


def performer_of(home: Path, settings: ArchiveSettings | None = None) -> Performer:
    """The archive of the home, opened for each order, performs it."""

    def work(order: ArchiveOrder, say: Say) -> OrderReport:
        async def main() -> OrderReport:
            async with opened(home, settings) as store:
                report = await perform(store, order, say, home / "state")
                if isinstance(order, Import):
                    await tidy_before_leaving(store)
                return report

        return anyio.run(main)

    return work
