"""How does a running peer keep its index of words? A task that follows the archive, slowly enough not to disturb.

The library (5 MB) is loaded when the archive is open. A failure here stops nothing else: the search rests, says why,
and tries again, ever more rarely. Simulated peers have none, as the library has threads of its own.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from dht.core.arcs import NONE, Arcs
from herodotus.core.doors import Door
from herodotus.core.errors import ArchiveError, NoRoomForWordsError, SearchFailedError
from herodotus.core.ports import Lane, Workers
from herodotus.core.search.cover import arcs_of, part_of_circle
from herodotus.core.settings.sections import SearchSettings
from herodotus.core.status import SearchStatus
from herodotus.store import ArchiveChanges, StoredCapture, current_bell, read_contents

if TYPE_CHECKING:
    from herodotus.search.index import WordIndex
    from herodotus.search.keeper import Keeper

logger = logging.getLogger(__name__)

PERIOD_S = 10.0
"""Between two looks for new captures: with a commit after 20 s, and the share of a processor, each is found within a
minute."""
PAUSE_MAX_S = 600.0
CLOSING_S = 2.0
"""For what is left to do when the peer stops."""
SEARCHING = Lane("index of words", 1)
_PROBLEM_SHOWN = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerParts:
    folder: Path
    settings: SearchSettings
    changes: Callable[[], Awaitable[ArchiveChanges]]
    """Waits for the archive."""
    workers: Workers
    free_bytes: Callable[[], int]
    unix_s: Callable[[], float]
    wanted: Callable[[], Arcs | None] = lambda: None
    """The keys for whose words others ask this peer; None: it knows no ring."""
    imports_spread: bool = False


class Follower:
    def __init__(self, parts: FollowerParts) -> None:
        self._parts = parts
        self._keeper: Keeper | None = None
        self._problem: str | None = None
        self._wake = anyio.Event()
        self._is_waiting = False

    @property
    def words(self) -> "WordIndex | None":
        """The index that answers; None before it is opened, and after a failure."""
        return None if self._keeper is None else self._keeper.words

    @property
    def answered(self) -> Arcs:
        """The keys of which it has all words."""
        return NONE if self._keeper is None else self._keeper.words.answered

    def rebuild(self) -> None:
        """Make the index again from the archive; the present one answers meanwhile. SearchFailedError where there is
        none."""
        if self._keeper is None:
            raise SearchFailedError(self._problem or "this peer has no index of words now")
        self._keeper.rebuild()
        self._wake.set()

    async def status(self) -> SearchStatus:
        keeper = self._keeper
        if keeper is None:
            state = "resting" if self._problem else "waiting" if self._is_waiting else "off"
            return SearchStatus(state=state, problem=self._problem)
        size = await self._parts.workers.work(keeper.bytes_used, Lane("index of words counting", 1))
        is_filling = keeper.share < 1 and not keeper.is_building
        return SearchStatus(
            state="resting" if self._problem else "filling" if is_filling else "level",
            documents=keeper.words.documents,
            bytes=size,
            waiting=keeper.waiting,
            share=round(keeper.share, 3),
            ring_share=round(part_of_circle(arcs_of(keeper.words.answered)), 3),
            is_rebuilding=keeper.is_building,
            problem=self._problem,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        parts = self._parts
        if not parts.settings.enabled or not parts.workers.has_threads:
            yield
            return
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._follow)
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()

    async def _follow(self) -> None:
        self._is_waiting = True
        self._bell = current_bell(self._parts.workers)
        changes = await self._parts.changes()
        pause_s = PERIOD_S
        try:
            while True:
                try:
                    await self._pass(changes)
                    self._problem, pause_s = None, PERIOD_S
                except NoRoomForWordsError as error:
                    self._say(str(error))
                    pause_s = min(2 * pause_s, PAUSE_MAX_S)
                except (ArchiveError, OSError) as error:
                    await self._rest(str(error))
                    pause_s = min(2 * pause_s, PAUSE_MAX_S)
                except Exception as error:  # a fault of the search must not stop readers and writers
                    logger.exception("the index of words failed")
                    await self._rest(f"{type(error).__name__}: {error}")
                    pause_s = min(2 * pause_s, PAUSE_MAX_S)
                with anyio.move_on_after(pause_s):
                    await self._wake.wait()
                self._wake = anyio.Event()
        finally:
            with anyio.CancelScope(shield=True):
                await self._close()

    async def _pass(self, changes: ArchiveChanges) -> None:
        """All that there is to do now."""
        parts = self._parts
        if self._keeper is None:
            self._keeper = await parts.workers.work(partial(self._opened, changes), SEARCHING)
        self._keeper.wanted = parts.wanted()
        while await read_contents(parts.workers, self._keeper.step, parts.settings.cpu_share):
            self._problem = None
            self._keeper.wanted = parts.wanted()

    def _opened(self, changes: ArchiveChanges) -> "Keeper":
        from herodotus.search.keeper import Keeper

        parts = self._parts
        return Keeper(
            parts.folder,
            changes,
            now=parts.workers.steady_s,
            free_bytes=parts.free_bytes,
            unix_s=parts.unix_s,
            stays=None if parts.imports_spread else stays_here,
            on_removals=partial(self._bell.ring, self._hurry),
        )

    def _hurry(self) -> None:
        self._wake.set()

    def _say(self, problem: str) -> None:
        logger.warning("words of new captures are not read error=%s", problem)
        self._problem = problem[:_PROBLEM_SHOWN]

    async def _rest(self, problem: str) -> None:
        self._say(problem)
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            with anyio.CancelScope(shield=True):  # the library's writer waits for its threads when it goes
                await self._parts.workers.work(keeper.give_up, SEARCHING)

    async def _close(self) -> None:
        keeper, self._keeper, self._is_waiting = self._keeper, None, False
        if keeper is None:
            return
        steady_s = self._parts.workers.steady_s
        end_s = steady_s() + CLOSING_S
        try:
            await self._parts.workers.work(
                lambda: keeper.close(may_go_on=lambda: steady_s() < end_s), SEARCHING
            )
        except (ArchiveError, OSError) as error:
            logger.warning("the index of words was not closed error=%s", error)


def stays_here(capture: StoredCapture) -> bool:
    """It was brought in here, by an import or a reader's order, and goes to no other peer."""
    return capture.door.startswith(Door.BROUGHT_IN.value)
