"""When does background work rest for the volunteer's sake? Tells the budget, whenever something changes.

Three things count: the operator's pause, the machine's battery, and a line that is paid by the byte. What rests is
crawling and copies; the ring and readers go on, so that nobody copies again what this peer holds.
"""

import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Protocol

import anyio

from herodotus.core.budgets import Rest
from herodotus.core.settings.sections import BudgetSettings
from herodotus.core.supplies import Supplies, rests_of
from herodotus.peers.budget import Budget

logger = logging.getLogger(__name__)

LOOK_EVERY_S = 5.0
"""A pause ends by itself, and so does the leaving that ends it; both tell nobody."""

Watch = Callable[[Callable[[Supplies], None]], Coroutine[object, object, None]]
"""Tells what the machine lives on, at first and at each change, until it is cancelled."""


class SuppliedWorld(Protocol):
    """What resting asks of the world."""

    async def watch_supplies(self, tell: Callable[[Supplies], None]) -> None:
        """`tell` is called at each change; returns at once where nobody knows."""
        ...


class Rests:
    def __init__(
        self,
        settings: BudgetSettings,
        budget: Budget,
        *,
        is_paused: Callable[[], bool],
        on_change: Callable[[], None],
    ) -> None:
        self._settings, self._budget = settings, budget
        self._is_paused, self._on_change = is_paused, on_change
        self._supplies = Supplies()

    def look(self) -> None:
        rests = rests_of(self._supplies, self._settings, is_paused=self._is_paused())
        if self._budget.rest(rests):
            words = ", ".join(rest.value for rest in Rest if rest in rests)
            logger.info("background work %s", f"rests reason={words}" if rests else "goes on")
            self._on_change()

    def _note(self, supplies: Supplies) -> None:
        self._supplies = supplies
        self.look()

    @asynccontextmanager
    async def kept(self, watch: Watch) -> AsyncIterator[None]:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch, self._note)
            tasks.start_soon(self._keep_looking)
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()

    async def _keep_looking(self) -> None:
        while True:
            self.look()
            await anyio.sleep(LOOK_EVERY_S)
