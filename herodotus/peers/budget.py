"""How do the peer's parts keep within the volunteer's offer? `await budget.spend(...)` before bytes flow.

The core decides (`core/budgets.py`); this shell reads the clocks, waits, and keeps the month's ledger in the home:
`state/traffic.json`, replaced in one step now and then and at the end, so that a killed peer forgets at most a
minute of its spendings. Format 1 (golden bytes in a test):

    {"format":1,"months":[["2026-11",1200,34000]]}      month, bytes up, bytes down; the month booked last comes last
"""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import msgspec

from crawler.core.capture import Capture
from crawler.core.politeness import Wait
from crawler.ports import Fetcher, FetchRequest, Skipped
from herodotus.core.budgets import (
    ASK_AGAIN_S,
    MONTHS_KEPT,
    Budgets,
    ClockReading,
    Rest,
    Spending,
    TrafficLedger,
    Volume,
)
from herodotus.core.errors import FileSyntaxError, StorageFailure
from herodotus.core.ports import Clocks
from herodotus.core.settings.sections import BudgetSettings
from herodotus.core.status import BudgetStatus
from herodotus.home.state_files import read_state_file, write_state_file

logger = logging.getLogger(__name__)

FORMAT = 1
FILE_BYTES_MAX = 100_000  # some 600 bytes are usual
SAVE_EVERY_S = 60.0
LOOKS_A_SAVE = 12
"""At the line: a rate that was passed by unbooked bytes is noticed after five seconds."""

Traffic = Callable[[], tuple[int, int]]
"""Bytes in and out since the start."""


def no_traffic() -> tuple[int, int]:
    return 0, 0


class _File(msgspec.Struct, kw_only=True):
    format: int
    months: list[tuple[str, int, int]]


def moment_by(clocks: Clocks) -> ClockReading:
    wall_s = clocks.unix_s()
    return ClockReading(
        steady_s=anyio.current_time(), wall_s=wall_s, local_offset_s=clocks.local_offset_s(wall_s)
    )


class Budget:
    """One for the whole peer. Tasks that wait for the same kind of spending wait in the order of asking."""

    def __init__(self, settings: BudgetSettings, file: Path, moment: Callable[[], ClockReading]) -> None:
        self._file = file
        self._moment = moment
        self._budgets = Budgets(settings.traffic, read_ledger(file))
        self._saved = self._budgets.ledger.months()
        # Without a turn of the loop when nobody waits: each fetch asks.
        self._turns = {kind: anyio.Lock(fast_acquire=True) for kind in Spending}
        self._ring_seen = (0, 0)
        self._booked = [0, 0]
        """In and out, of what connections carry."""
        self._rests_changed = anyio.Event()

    async def spend(self, kind: Spending, size: int) -> None:
        """Wait until `size` bytes may flow, and book them. This may take until the next month."""
        if not size and self._budgets.is_free(kind):
            return
        async with self._turns[kind]:
            while True:
                wait_s = self._budgets.grant(kind, size, self._moment())
                if wait_s == 0.0:
                    self._booked[kind.is_upload] += size
                    return
                with anyio.move_on_after(min(wait_s, ASK_AGAIN_S)):  # the calendar may be set in the meantime
                    await self._rests_changed.wait()

    def rest(self, rests: frozenset[Rest]) -> bool:
        """For these reasons background work rests from now on; says whether they are others than before."""
        is_news, self._budgets.rests = rests != self._budgets.rests, rests
        if is_news:
            changed, self._rests_changed = self._rests_changed, anyio.Event()
            changed.set()
        return is_news

    def grant(self, kind: Spending, size: int) -> float:
        """0: booked, go ahead. Else seconds to wait, for callers that refuse instead of waiting."""
        wait_s = self._budgets.grant(kind, size, self._moment())
        self._booked[kind.is_upload] += 0 if wait_s else size
        return wait_s

    def closed_s(self, kind: Spending) -> float:
        """How long it is not the hour, or not the month, for it."""
        return self._budgets.closed_s(kind, self._moment())

    def charge(self, kind: Spending, size: int) -> None:
        """Book bytes that have flowed already."""
        self._budgets.charge(kind, size, self._moment())
        self._booked[kind.is_upload] += size

    @asynccontextmanager
    async def kept(
        self, ring_traffic: Traffic = no_traffic, carried: Traffic = no_traffic
    ) -> AsyncIterator[None]:
        """Inside, the ledger is saved, and what the line really had is booked: the ring's datagrams, and of what all
        connections `carried` the part that nobody has booked by its purpose (headers, calls, robots.txt). Leaving does
        it a last time."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._keep, ring_traffic, carried)
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()
                self._book_line(ring_traffic, carried)
                self.save()

    async def _keep(self, ring_traffic: Traffic, carried: Traffic) -> None:
        while True:
            for _ in range(LOOKS_A_SAVE):
                await anyio.sleep(SAVE_EVERY_S / LOOKS_A_SAVE)
                self._book_line(ring_traffic, carried)
            self.save()

    def _book_line(self, ring_traffic: Traffic, carried: Traffic) -> None:
        seen_in, seen_out = ring_traffic()
        before_in, before_out = self._ring_seen
        self._ring_seen = seen_in, seen_out
        self._charge_line(max(0, seen_in - before_in), max(0, seen_out - before_out))
        carried_in, carried_out = carried()
        # What is booked by its purpose is booked at once, what connections carried when they close: so it may be ahead.
        rest_in, rest_out = carried_in - self._booked[False], carried_out - self._booked[True]
        self._charge_line(max(0, rest_in), max(0, rest_out))
        self._booked[False] += max(0, rest_in)
        self._booked[True] += max(0, rest_out)

    def _charge_line(self, bytes_in: int, bytes_out: int) -> None:
        now = self._moment()
        self._budgets.charge(Spending.LINE_IN, bytes_in, now)
        self._budgets.charge(Spending.LINE_OUT, bytes_out, now)

    def save(self) -> None:
        """If the disk does not accept it, the peer continues: the next time may succeed."""
        months = self._budgets.ledger.months()
        if months == self._saved:
            return
        rows = [(name, volume.up, volume.down) for name, volume in months.items()]
        try:
            write_state_file(self._file, _File(format=FORMAT, months=rows))
        except StorageFailure as error:
            logger.warning("traffic of the month not saved error=%s", error)
        else:
            self._saved = months

    def statistics(self) -> BudgetStatus:
        now, limits = self._moment(), self._budgets.limits
        spent = self._budgets.spent(now)
        return BudgetStatus(
            month=self._budgets.month_name(now),
            month_up_bytes=spent.up,
            month_down_bytes=spent.down,
            month_bytes_max=limits.month_bytes or 0,
            closed_by=self._budgets.closed_by(now),
            closed_s=round(self._budgets.closed_s(Spending.CRAWL, now)),
            waits_s={kind.value: self._budgets.wait_s(kind, now) for kind in Spending if kind.is_background},
        )


def read_ledger(file: Path) -> TrafficLedger:
    """A file that is damaged or of a newer release is refused: a forgotten month may cost money."""
    hint = "restore it, or remove it: this month's traffic is then forgotten"
    found = read_state_file(file, _File, newest=FORMAT, bytes_max=FILE_BYTES_MAX, hint=hint)
    if found is None:
        return TrafficLedger()
    if any(up < 0 or down < 0 for _, up, down in found.months):
        raise FileSyntaxError(file=str(file), problem="is damaged (less than nothing was spent)", hint=hint)
    rows = found.months[-MONTHS_KEPT:]
    return TrafficLedger({name: Volume(up=up, down=down) for name, up, down in rows})


class BudgetedFetcher:
    """A `Fetcher` that keeps the rate and books the bytes afterwards, as a page's size is unknown before.

    It never waits for hours: the crawl asks `closed_s` and starts nothing.
    """

    def __init__(self, inner: Fetcher, budget: Budget) -> None:
        self._inner = inner
        self._budget = budget

    async def fetch(self, request: FetchRequest) -> Capture | Skipped:
        await self._budget.spend(Spending.FETCHED, 0)
        found = await self._inner.fetch(request)
        if isinstance(found, Capture):
            self._budget.charge(Spending.FETCHED, len(found.request) + len(found.head) + len(found.body))
        return found

    async def address_of(self, host: str) -> str | Wait:
        return await self._inner.address_of(host)
