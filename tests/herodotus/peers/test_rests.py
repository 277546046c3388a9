"""Is the budget told at once whether background work rests, and why?"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest
from trio.testing import MockClock

from herodotus.core.settings.sections import BudgetSettings
from herodotus.core.supplies import Supplies
from herodotus.peers.budget import Budget
from herodotus.peers.rests import LOOK_EVERY_S, Rests
from tests.herodotus.peers.test_budget import moment

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return "trio", {"clock": MockClock(autojump_threshold=0)}


@dataclass
class Machine:
    tell: Callable[[Supplies], None] = field(default=lambda _: None)
    pause_ends: float = 0.0
    changes: int = 0

    async def watch_supplies(self, tell: Callable[[Supplies], None]) -> None:
        self.tell = tell
        await anyio.sleep_forever()

    def is_paused(self) -> bool:
        return anyio.current_time() < self.pause_ends

    def change(self) -> None:
        self.changes += 1


@asynccontextmanager
async def resting(tmp_path: Path, machine: Machine) -> AsyncIterator[tuple[Rests, Budget]]:
    budget = Budget(BudgetSettings(), tmp_path / "traffic.json", moment)
    rests = Rests(BudgetSettings(), budget, is_paused=machine.is_paused, on_change=machine.change)
    async with rests.kept(machine.watch_supplies):
        await anyio.wait_all_tasks_blocked()
        yield rests, budget


def why(budget: Budget) -> tuple[str, ...]:
    return budget.statistics().closed_by


async def test_what_the_machine_lives_on_counts_at_once(tmp_path: Path) -> None:
    machine = Machine()
    async with resting(tmp_path, machine) as (_, budget):
        assert (why(budget), machine.changes) == ((), 0)
        machine.tell(Supplies(is_on_battery=True, is_metered=True))
        assert (why(budget), machine.changes) == (("battery", "metered line"), 1)
        machine.tell(Supplies(is_on_battery=True, is_metered=True))
        assert machine.changes == 1, "no news"
        machine.tell(Supplies())
        assert (why(budget), machine.changes) == ((), 2)


async def test_a_pause_ends_by_itself_within_seconds(tmp_path: Path) -> None:
    machine = Machine()
    async with resting(tmp_path, machine) as (rests, budget):
        machine.pause_ends = anyio.current_time() + 60.0
        rests.look()
        assert why(budget) == ("paused",)
        await anyio.sleep(60.0 + LOOK_EVERY_S)
        assert (why(budget), machine.changes) == ((), 2)
