"""`herodotus crawl URL…`: archive some pages now, without a ring, and show how it goes.

Data to stdout, talk to stderr. Ctrl-C lets the fetches that are under way end and keeps everything; a second
one does not wait for them. Started again with the same home, the crawl goes on.
"""

import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import click
from rich.console import Console
from rich.live import Live
from rich.table import Table

from crawler.core.errors import MalformedUrlError
from crawler.core.politeness import PolitenessPolicy
from crawler.core.recrawl import Recrawl
from crawler.core.scope import Content, ScopeKind
from crawler.worker import Crawler
from herodotus.clock import unix_seconds
from herodotus.crawling import CrawlOrder, canonical_seeds, open_archive_at, open_crawler, summary

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


@click.command(name="crawl")
@click.argument("urls", nargs=-1, required=True)
@click.option("--home", type=click.Path(path_type=Path), envvar="HERODOTUS_HOME", required=True)
@click.option(
    "--scope", type=click.Choice([kind.value for kind in ScopeKind]), default="host", show_default=True
)
@click.option("--depth", type=click.IntRange(0), help="Clicks away from the seeds, at most.")
@click.option("--limit", type=click.IntRange(1), help="Fetches, at most.")
@click.option(
    "--content", type=click.Choice([kind.value for kind in Content]), default="html+images", show_default=True
)
@click.option(
    "--delay",
    type=click.FloatRange(0),
    default=1.0,
    show_default=True,
    help="Seconds between requests to a host.",
)
@click.option("--connections", type=click.IntRange(1, 512), default=56, show_default=True)
@click.option("--contact", help="A page that tells site owners who you are.")
@click.option(
    "--allow-private-addresses", is_flag=True, help="For tests: also fetch from this machine and its network."
)
@click.option("--json", "is_json", is_flag=True, help="End with the counts as JSON.")
def crawl(
    urls: tuple[str, ...],
    home: Path,
    scope: str,
    depth: int | None,
    limit: int | None,
    content: str,
    delay: float,
    connections: int,
    contact: str | None,
    allow_private_addresses: bool,
    is_json: bool,
) -> None:
    """Archive pages now; no ring is needed.

    \b
    herodotus crawl https://example.org/ --depth 2
    herodotus crawl example.org www.example.net --scope domain --limit 1000
    """
    if delay < 1.0 and not allow_private_addresses:
        raise click.UsageError("--delay below 1 second needs --allow-private-addresses: be polite to others")
    try:
        seeds = canonical_seeds(urls)
    except MalformedUrlError as error:
        raise click.UsageError(str(error)) from error
    order = CrawlOrder(
        urls=seeds,
        scope=ScopeKind(scope),
        depth_max=depth,
        fetches_max=limit,
        content=Content(content),
        recrawl=Recrawl.DAILY,
        connections=connections,
        contact=contact,
        allow_private_addresses=allow_private_addresses,
        politeness=PolitenessPolicy(delay_floor_s=delay),
    )
    console = Console(stderr=True) if sys.stderr.isatty() else None
    found = anyio.run(
        lambda: crawl_into(home, order, wall_clock=unix_seconds, console=console),
        backend="asyncio",
        backend_options={"use_uvloop": sys.platform != "win32"},
    )
    if is_json:
        click.echo(json.dumps(found))
    else:
        click.echo(
            f"{found['fetched']} fetched, {found['stored']} stored, {found['unchanged']} unchanged, "
            f"{found['gone']} gone, {found['refused']} refused, {found['failed']} failed, "
            f"{found['forbidden']} forbidden",
            err=True,
        )
