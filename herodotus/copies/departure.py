"""How does a peer leave for good? It stops crawling, delivers its links, hands over what it holds, and ends.

The peer does it by itself once it was ordered; the command that gave the order may watch or end. A mark in the home
lets the peer continue after a restart, until the order is taken back. Everything handed over then stays where it is.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import Enum

import anyio

from herodotus.copies.hand_over import HandedOver
from herodotus.core.errors import HerodotusError, WorldFailure
from herodotus.core.status import LeavingStatus
from herodotus.home.durable import write_durably
from herodotus.home.folder import Home

logger = logging.getLogger(__name__)

LINKS_PATIENCE_S = 120.0
"""A peer that does not take its links meanwhile learns of those URLs when their pages change."""
LOOK_EVERY_S = 0.5
LAST_WORD_S = 5.0
"""For watchers to hear that it is over, before the peer ends."""
AGAIN_S = 30.0
_WAS_PAUSED = b"the crawl was paused before\n"


class LeavingState(Enum):
    STAYING = "staying"
    RESTING = "ending the crawl"
    LINKS = "delivering links"
    WAITING = "waiting for the archive, or for other members"
    HANDING_OVER = "handing over"
    OVER = "handed over, ending"


class NobodyToHandTo(WorldFailure):
    def __str__(self) -> str:
        return (
            "there is nobody to hand over to: this peer sees no other member of its ring, and only it has what it"
            " holds; `herodotus status` shows the ring, `herodotus export --wacz FILE` saves the archive"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LeavingPorts:
    """What leaving asks of the rest of the peer."""

    home: Home
    pause: Callable[[], Awaitable[object]]
    resume: Callable[[], Awaitable[object]]
    others: Callable[[], int]
    """Members of the ring that this peer sees besides itself."""
    links_waiting: Callable[[], int]
    holds: Callable[[], int | None]
    """Captures in the archive; None where it is not open."""
    hand_over: Callable[[Callable[[HandedOver], None]], Awaitable[HandedOver]]


class Leaving:
    """Works inside `opened`. `left` is set when the peer may end."""

    def __init__(self, ports: LeavingPorts) -> None:
        self._ports = ports
        self._state = LeavingState.STAYING
        self._handed_over = HandedOver()
        self._ordered = anyio.Event()
        self._over = anyio.Event()
        self._scope: anyio.CancelScope | None = None
        self._followers = 0
        self.left = anyio.Event()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        async with anyio.create_task_group() as tasks:
            if self._ports.home.draining.exists():
                self._ordered.set()
            tasks.start_soon(self._obey)
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()

    # -- orders

    async def begin(self) -> None:
        """Raises NobodyToHandTo. Ordered twice is ordered once."""
        if self._ordered.is_set():
            return
        if not self._ports.others():
            raise NobodyToHandTo
        home = self._ports.home
        write_durably(home.draining, _WAS_PAUSED if home.paused.exists() else b"")
        self._state = LeavingState.RESTING
        self._ordered.set()

    async def follow(self, say: Callable[[str], None], within_s: float | None) -> HandedOver | None:
        """What was handed over, at the end; None if it takes longer and continues."""
        self._followers += 1
        try:
            with anyio.move_on_after(within_s):
                while not self._over.is_set():
                    say(self.words)
                    with anyio.move_on_after(LOOK_EVERY_S):
                        await self._over.wait()
        finally:
            self._followers -= 1
        return self._handed_over if self._over.is_set() else None

    async def stay(self) -> bool:
        """Take the order back; says whether there was one that is not over."""
        if not self._ordered.is_set() or self._over.is_set():
            return False
        crawls_again = self._forget()  # the disk may refuse it: then the order stands
        self._ordered = anyio.Event()
        if self._scope is not None:
            self._scope.cancel()
        if crawls_again:
            await self._ports.resume()
        logger.info("staying; others keep what was handed over")
        return True

    async def only_hand_over(self, say: Callable[[str], None], within_s: float | None) -> HandedOver | None:
        """Without the rest of leaving; None when it takes longer, and then no more is given. Raises NobodyToHandTo."""
        if not self._ports.others():
            raise NobodyToHandTo
        with anyio.move_on_after(within_s):
            return await self._given(lambda so_far: say(str(so_far)))
        return None

    def status(self) -> LeavingStatus:
        done = self._handed_over
        return LeavingStatus(
            state=self._state.value,
            peers=done.peers,
            parts=done.parts,
            parts_over=done.parts_over,
            silent=done.silent,
            turned_away=done.turned_away,
            kept_out=done.kept_out,
        )

    @property
    def is_leaving(self) -> bool:
        return self._state is not LeavingState.STAYING

    @property
    def words(self) -> str:
        if self._state is LeavingState.LINKS:
            return f"{self._state.value}: {self._ports.links_waiting():,} wait"
        is_handing = self._state is LeavingState.HANDING_OVER and self._handed_over.parts
        return f"{self._state.value}: {self._handed_over}" if is_handing else self._state.value

    # -- the task

    async def _obey(self) -> None:
        while not self._over.is_set():
            await self._ordered.wait()
            with anyio.CancelScope() as self._scope:
                await self._leave_somehow()
            if self._scope.cancelled_caught:
                self._state, self._handed_over = LeavingState.STAYING, HandedOver()
        if self._followers:
            await anyio.sleep(LAST_WORD_S)  # who follows ends the peer sooner
        self.left.set()

    async def _leave_somehow(self) -> None:
        """A disk that takes no mark, or gives none back, ends no peer."""
        while not self._over.is_set():
            try:
                await self._leave()
            except (HerodotusError, OSError) as error:
                logger.warning("leaving failed, trying again in_s=%g error=%s", AGAIN_S, error)
                await anyio.sleep(AGAIN_S)

    async def _leave(self) -> None:
        logger.info("leaving for good")
        self._state = LeavingState.RESTING
        await self._ports.pause()
        self._state = LeavingState.LINKS
        with anyio.move_on_after(LINKS_PATIENCE_S):
            await self._wait_until(lambda: not self._ports.links_waiting())
        self._state = LeavingState.WAITING
        self._handed_over = await self._given(self._note)
        self._state = LeavingState.OVER
        logger.info("handed over peers=%d parts=%d", self._handed_over.peers, self._handed_over.parts)
        if self._forget():
            self._ports.home.paused.unlink(missing_ok=True)  # for the next start; nothing begins now
        self._over.set()

    async def _given(self, tell: Callable[[HandedOver], None]) -> HandedOver:
        """Nobody has it where nothing is held. Where something is, a ring that is too young to know who will hold
        what is asked again."""
        ports = self._ports
        while True:
            await self._wait_until(lambda: ports.others() > 0 or ports.holds() == 0)
            done = await ports.hand_over(tell)
            if done.peers or ports.holds() == 0:
                return done
            await anyio.sleep(LOOK_EVERY_S)

    def _note(self, so_far: HandedOver) -> None:
        if so_far.peers:
            self._state = LeavingState.HANDING_OVER
        self._handed_over = so_far

    async def _wait_until(self, fact: Callable[[], bool]) -> None:
        while not fact():  # noqa: ASYNC110  # the ring and the outbox tell nobody
            await anyio.sleep(LOOK_EVERY_S)

    def _forget(self) -> bool:
        """The order; says whether the crawl rested because of it."""
        mark = self._ports.home.draining
        was_paused = mark.exists() and mark.read_bytes() == _WAS_PAUSED
        mark.unlink(missing_ok=True)
        return not was_paused
