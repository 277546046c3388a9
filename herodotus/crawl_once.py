"""How does one crawl run from its first page to its last, watched by a person or not?

SIGINT or SIGTERM lets the fetches that are under way end and keeps everything; a second one does not wait for them.
Started again with the same home, the crawl goes on.
"""

import signal
from collections.abc import Callable
from pathlib import Path

import anyio
from rich.console import Console
from rich.live import Live
from rich.table import Table

from crawler.worker import Crawler
from herodotus.crawling import CrawlOrder, open_archive_at, open_crawler, summary

PROGRESS_EVERY_S = 0.5


async def crawl_into(
    home: Path, order: CrawlOrder, *, wall_clock: Callable[[], float], console: Console | None
) -> dict[str, object]:
    """One crawl into the home's archive until nothing is due, the limit is reached or a signal comes."""
    async with (
        open_archive_at(home, wall_clock=wall_clock) as store,
        open_crawler(home, store, order, wall_clock=wall_clock) as crawler,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(_heed_signals, crawler, tasks.cancel_scope)
        if console is not None:
            tasks.start_soon(_show, crawler, console)
        await crawler.run()
        tasks.cancel_scope.cancel()
    return summary(crawler)


async def _heed_signals(crawler: Crawler, scope: anyio.CancelScope) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            if crawler.is_stopping:
                scope.cancel()
                return
            crawler.stop()


async def _show(crawler: Crawler, console: Console) -> None:
    start = anyio.current_time()
    before, before_at = 0, start
    with Live(console=console, transient=True, auto_refresh=False) as live:
        while True:
            now = anyio.current_time()
            fetched = crawler.counts.fetched
            rate = (fetched - before) / max(now - before_at, 0.001)
            before, before_at = fetched, now
            live.update(_table(crawler, rate), refresh=True)
            await anyio.sleep(PROGRESS_EVERY_S)


def _table(crawler: Crawler, rate: float) -> Table:
    counts, progress = crawler.counts, crawler.progress()
    table = Table.grid(padding=(0, 2))
    table.add_row("pages/s", f"{rate:,.0f}", "fetched", f"{counts.fetched:,}")
    table.add_row("stored", f"{counts.stored:,}", "bytes", f"{counts.stored_bytes:,}")
    table.add_row("unchanged", f"{counts.unchanged:,}", "failed", f"{counts.failed:,}")
    table.add_row("known", f"{progress.known:,}", "fetching now", f"{progress.busy:,}")
    table.add_row("hosts in turn", f"{progress.origins:,}", "forbidden", f"{counts.forbidden:,}")
    for name, count in counts.by_error.most_common(3):
        table.add_row("", "", name, f"{count:,}")
    return table
