"""Where is a running peer's archive, and when may it be used? In its home, open for as long as the peer runs.

An archive that cannot be opened does not keep the peer from being a member and serving the rest: it reports the
trouble, and its operator may repair it. Opening may take long (a rebuilt index), so others wait only a little.
"""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import Enum
from typing import Protocol

import anyio

from herodotus.core.errors import ArchiveError
from herodotus.core.orders import ArchiveOrder, OrderReport, Say
from herodotus.core.ports import Clocks, Lane, Workers
from herodotus.core.status import StoreStatus
from herodotus.home.folder import Home
from herodotus.store.catalogue import ArchiveCatalogue
from herodotus.store.changes import ArchiveChanges
from herodotus.store.faces import Catalogue, Holdings
from herodotus.store.grace import keep_grace
from herodotus.store.holdings import ArchiveHoldings
from herodotus.store.performer import perform_in_peer
from herodotus.store.scrub import keep_scrubbed
from herodotus.store.settings import ArchiveSettings
from herodotus.store.slices import Storage, archive_at
from herodotus.store.store import OPENING, ArchiveStatistics, DiskStore, open_store, statistics_of
from herodotus.store.survey import keep_surveyed
from herodotus.store.upkeep import keep_manifest, keep_tidy

logger = logging.getLogger(__name__)

OPENING_PATIENCE_S = 5.0
"""A sound archive of some million captures opens within it."""
_FULL = "nothing more is stored: the disk is full, or the archive is as large as was offered"
COUNTING = Lane("archive counting", 1)  # verifying takes hours; a status must not wait for it
_COUNTING_TRIES = 3  # sealing may take a file away while its size is asked


class ArchiveState(Enum):
    CLOSED = "closed"
    OPENING = "opening"
    OPEN = "open"
    UNUSABLE = "unusable"


class StoreWorld(Clocks, Workers, Storage, Protocol):
    """An open archive's demands on the world."""


class NotOpenError(ArchiveError):
    def __init__(self, state: ArchiveState, problem: str) -> None:
        self.state = state
        super().__init__(problem)


class HomeArchive:
    """`opened` holds the archive open; the faces are None while it is not."""

    def __init__(
        self,
        home: Home,
        world: StoreWorld,
        settings: ArchiveSettings | None = None,
        *,
        is_surveyed: bool = False,
    ) -> None:
        self._home = home
        self._world = world
        self._settings = settings
        self._is_surveyed = is_surveyed
        self.store: DiskStore | None = None
        self.holdings: Holdings | None = None
        self._catalogue: Catalogue | None = None
        self.state = ArchiveState.CLOSED
        self._reason = ""
        self._settled = anyio.Event()

    @property
    def problem(self) -> str | None:
        """Why nothing can be read now, in a sentence, or None."""
        match self.state:
            case ArchiveState.OPEN:
                return None
            case ArchiveState.UNUSABLE:
                return f"this peer's archive cannot be opened: {self._reason}"
            case ArchiveState.OPENING:
                return "this peer is still opening its archive; rebuilding the index takes a while"
            case ArchiveState.CLOSED:
                return "this peer's archive is closed"

    def opened_store(self) -> DiskStore:
        if self.store is None:
            raise NotOpenError(self.state, self.problem or "")
        return self.store

    def catalogue(self) -> Catalogue:
        if self._catalogue is None:
            raise NotOpenError(self.state, self.problem or "")
        return self._catalogue

    async def wait_open(self) -> DiskStore:
        """For patient callers; never returns if the archive cannot be opened."""
        await self._settled.wait()
        if self.store is None:
            await anyio.sleep_forever()
        return self.opened_store()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Leaving closes the archive. Acknowledged captures are on the disk already."""
        self._settled, leave = anyio.Event(), anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._hold, self._settled, leave)
            try:
                with anyio.move_on_after(OPENING_PATIENCE_S):
                    await self._settled.wait()
                yield
            finally:
                leave.set()

    async def _hold(self, settled: anyio.Event, leave: anyio.Event) -> None:
        self.state = ArchiveState.OPENING
        # Closing must happen however the peer ends; recovery from a cancelled opening is that of any crash.
        with anyio.CancelScope(shield=True):
            try:
                archive = await self._world.work(
                    lambda: archive_at(self._home.path, self._world.unix_s, self._settings, self._world),
                    OPENING,
                )
                async with open_store(archive, self._world) as self.store:
                    self.holdings = ArchiveHoldings(self.store)
                    self._catalogue = ArchiveCatalogue(archive)
                    self.state = ArchiveState.OPEN
                    logger.debug("archive open captures=%d", archive.captures)
                    settled.set()
                    async with anyio.create_task_group() as tasks:
                        tasks.start_soon(keep_tidy, self.store)
                        tasks.start_soon(keep_grace, self.store, self._home.state, self._world)
                        tasks.start_soon(keep_scrubbed, self.store)
                        tasks.start_soon(keep_manifest, self.store)
                        if self._is_surveyed:
                            tasks.start_soon(keep_surveyed, self.store)
                        await leave.wait()
                        self.store.end_upkeep()
                        tasks.cancel_scope.cancel()
            except Exception as error:  # noqa: BLE001  # whatever a disk or RocksDB raises, the peer continues
                self._give_up(error)
            finally:
                self.store = self.holdings = self._catalogue = None
                if self.state is not ArchiveState.UNUSABLE:
                    self.state = ArchiveState.CLOSED
                settled.set()

    def _give_up(self, error: Exception) -> None:
        self.state = ArchiveState.UNUSABLE
        self._reason = str(error) or type(error).__name__
        expected = isinstance(error, ArchiveError | OSError)
        logger.error("archive unusable error=%s", error, exc_info=None if expected else error)

    async def wait_changes(self) -> ArchiveChanges:
        """As `wait_open`, for one that derives an index from the captures."""
        return ArchiveChanges((await self.wait_open()).archive)

    async def perform(self, order: ArchiveOrder, say: Say) -> OrderReport:
        """Performs a command's order that came through the order socket."""
        return await perform_in_peer(self.opened_store(), order, say, self._home.state)

    async def status(self) -> StoreStatus:
        store = self.store
        if store is None:
            return StoreStatus(state=self.state.value, problem=self.problem)
        counted, has_room = await self._world.work(lambda: _count(store), COUNTING)
        return StoreStatus(
            captures=counted.captures,
            bytes=counted.bytes,
            state=self.state.value,
            problem=counted.refusal or (None if has_room else _FULL),
            index_bytes=counted.index_bytes,
            files=counted.files,
            stored=counted.stored,
            damaged=counted.damaged,
            quarantined=counted.quarantined,
            quarantined_urls=counted.quarantined_urls,
            quarantine_bytes=counted.quarantine_bytes,
            is_index_damaged=store.archive.is_index_damaged,
            scrubbed_share=round(store.archive.scrubbed_share, 3),
            lost=counted.lost,
            lost_files=counted.lost_files,
        )


def _count(store: DiskStore) -> tuple[ArchiveStatistics, bool]:
    """And whether anything more could be stored."""
    for _ in range(_COUNTING_TRIES):
        try:
            return statistics_of(store.archive), store.archive.has_room(0)
        except (KeyError, FileNotFoundError):
            continue
    return statistics_of(store.archive), store.archive.has_room(0)
