"""How does one crawl run from its first page to its last, watched by a person or not?

SIGINT or SIGTERM lets the fetches that are under way end and keeps everything; a second one does not wait for them.
SIGTSTP (Ctrl-Z) lets them end, too, and then stops the process until it is continued: no answer is left half read.
Started again with the same home, the crawl continues.
"""

import logging
import os
import signal
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from heapq import nlargest
from pathlib import Path
from typing import Protocol

import anyio
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from crawler.worker import Crawler
from herodotus.core.settings.sections import BudgetSettings, Settings
from herodotus.crawl.gear import CrawlOrder, WebWorld, open_crawler, summary
from herodotus.home.folder import Home
from herodotus.peers.budget import Budget, BudgetedFetcher, moment_by
from herodotus.store import (
    ArchiveSettings,
    StoreWorld,
    archive_at,
    archive_settings,
    open_store,
    tidy_before_leaving,
)

logger = logging.getLogger(__name__)

PROGRESS_EVERY_S = 0.5
RATE_OVER_S = 5.0
LOG_EVERY_S = 30.0
HOSTS_SHOWN = 5
RESTS_SHOWN = 3
LANDING_S_MAX = 10.0
"""What Ctrl-Z waits for fetches; those that take longer are tried again later."""


class SingleRunWorld(StoreWorld, WebWorld, Protocol):
    """What a crawl without a running peer asks of the world."""


async def crawl_into(
    home: Path,
    order: CrawlOrder,
    world: SingleRunWorld,
    *,
    wall_clock: Callable[[], float],
    console: Console | None,
    budget: BudgetSettings | None = None,
    files: ArchiveSettings | None = None,
    when_open: Callable[[], None] = lambda: None,
) -> dict[str, object]:
    """One crawl into the home's archive until nothing is due, the limit is reached or a signal comes."""
    line = Budget(budget or BudgetSettings(), Home(home).traffic, lambda: moment_by(world))
    async with (
        line.kept(),
        open_store(archive_at(home, wall_clock, files or archive_settings(Settings())), world) as store,
        open_crawler(
            home,
            store,
            order,
            world,
            wall_clock=wall_clock,
            within=lambda fetcher: BudgetedFetcher(fetcher, line),
        ) as crawler,
        anyio.create_task_group() as tasks,
    ):
        when_open()
        run = _Run(crawler, console)
        tasks.start_soon(run.heed_signals, tasks.cancel_scope)
        tasks.start_soon(run.show if console is not None else run.log)
        await crawler.run()
        run.is_over = True
        if not run.is_interrupted:
            await tidy_before_leaving(store)
        tasks.cancel_scope.cancel()
    return {"ended": _ending(run, crawler), **summary(crawler)}


def _ending(run: "_Run", crawler: Crawler) -> str:
    if run.is_interrupted:
        return "interrupted"
    if crawler.is_limit_reached:
        return "limit"
    return "waiting" if crawler.given_up else "done"


def _clock(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


class _Run:
    def __init__(self, crawler: Crawler, console: Console | None) -> None:
        self.is_interrupted = False
        self.is_over = False
        """Only the archive is being tidied, which may end at any time."""
        self._crawler = crawler
        self._console = console
        self._start = anyio.current_time()
        self._seen: deque[tuple[float, int, int]] = deque([(self._start, 0, 0)])

    async def heed_signals(self, scope: anyio.CancelScope) -> None:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGTSTP) as signals:
            async for number in signals:
                if number == signal.SIGTSTP:
                    await self._suspend()
                elif self.is_interrupted or self.is_over:
                    scope.cancel()
                    return
                else:
                    self.is_interrupted = True
                    self._crawler.stop()

    async def _suspend(self) -> None:
        with anyio.move_on_after(LANDING_S_MAX):
            await self._crawler.pause()
        if self._console is not None:
            self._console.show_cursor(True)
        os.kill(os.getpid(), signal.SIGSTOP)  # returns when somebody continues us
        if not self.is_interrupted:
            self._crawler.resume()

    async def log(self) -> None:
        """For readers of a log without a terminal."""
        while True:
            await anyio.sleep(LOG_EVERY_S)
            counts, progress = self._crawler.counts, self._crawler.progress()
            logger.info(
                "crawling fetched=%d stored=%d bytes=%d unchanged=%d failed=%d due=%d hosts=%d resting=%d",
                *(counts.fetched, counts.stored, counts.stored_bytes, counts.unchanged, counts.failed),
                *(progress.due, progress.origins, len(progress.resting)),
            )
            for rest in progress.resting[:RESTS_SHOWN]:
                logger.info("host rests origin=%s until=%s", rest.origin, _clock(rest.until))

    async def show(self) -> None:
        with Live(console=self._console, transient=True, auto_refresh=False) as live:
            while True:
                live.update(self._picture(), refresh=True)
                await anyio.sleep(PROGRESS_EVERY_S)

    def _rates(self) -> tuple[float, float]:
        """Fetches and stored bytes a second, of the last seconds."""
        now, counts = anyio.current_time(), self._crawler.counts
        self._seen.append((now, counts.fetched, counts.stored_bytes))
        while len(self._seen) > 2 and self._seen[1][0] <= now - RATE_OVER_S:
            self._seen.popleft()
        at, fetched, stored = self._seen[0]
        seconds = max(now - at, 0.001)
        return (counts.fetched - fetched) / seconds, (counts.stored_bytes - stored) / seconds

    def _picture(self) -> Table:
        counts, progress = self._crawler.counts, self._crawler.progress()
        pages, received = self._rates()
        seconds = anyio.current_time() - self._start
        table = Table.grid(padding=(0, 2))

        def row(*cells: object) -> None:
            # Not as markup: servers choose some of these words.
            table.add_row(*(Text("".join(c for c in str(cell) if c.isprintable())) for cell in cells))

        row("pages/s", f"{pages:,.1f}", "fetched", f"{counts.fetched:,}", "time", f"{seconds:,.0f} s")
        row(
            "MB/s",
            f"{received / 1e6:,.2f}",
            "stored",
            f"{counts.stored:,}",
            "MB",
            f"{counts.stored_bytes / 1e6:,.1f}",
        )
        row(
            "to do", f"{progress.due:,}", "unchanged", f"{counts.unchanged:,}", "known", f"{progress.known:,}"
        )
        row(
            "hosts",
            f"{progress.origins:,}",
            "failed",
            f"{counts.failed:,}",
            "forbidden",
            f"{counts.forbidden:,}",
        )
        busiest = nlargest(HOSTS_SHOWN, counts.by_host.items(), key=lambda item: item[1].fetched)
        for host, one in busiest:
            row(host[:40], f"{one.fetched:,}", "failed", f"{one.failed:,}", one.problem[:40])
        for name, count in counts.by_error.most_common(3):
            row("", "", name, f"{count:,}")
        for rest in progress.resting[:RESTS_SHOWN]:
            row(rest.origin[:40], "rests until", _clock(rest.until))
        if len(progress.resting) > RESTS_SHOWN:
            row("", f"{len(progress.resting) - RESTS_SHOWN:,} hosts more rest")
        row("Ctrl-C ends and keeps everything, Ctrl-Z pauses")
        return table
