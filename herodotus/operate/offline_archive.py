"""How does a program work on the archive of a home that no peer runs on? By orders, or for as long as it is opened.

The caller holds the lock of the home.
"""

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import anyio

from herodotus.core.orders import ArchiveOrder, Import, OrderReport, Performer, Say
from herodotus.home import clock
from herodotus.store import (
    ArchiveSettings,
    DiskStore,
    ThreadWorkers,
    archive_at,
    open_store,
    perform,
    tidy_before_leaving,
)


def opened(home: Path, settings: ArchiveSettings | None = None) -> AbstractAsyncContextManager[DiskStore]:
    return open_store(archive_at(home, clock.unix_seconds, settings), ThreadWorkers())


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
