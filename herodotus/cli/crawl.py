"""How are pages archived now, without a ring? `crawl URL...`."""

import sys
from collections.abc import Mapping

import anyio
import click

from crawler.core.errors import MalformedUrlError
from crawler.core.politeness import PolitenessPolicy
from crawler.core.recrawl import Recrawl
from crawler.core.scope import Content, ScopeKind
from herodotus.cli.frame import Frame, common_options, json_option, main, pass_frame
from herodotus.clock import unix_seconds
from herodotus.core.charter import Charter
from herodotus.home import locked, open_home


@main.command()
@click.argument("urls", nargs=-1, required=True)
@click.option(
    "--scope",
    type=click.Choice([kind.value for kind in ScopeKind]),
    default="host",
    show_default=True,
    help="How far links are followed from the seeds.",
)
@click.option("--depth", type=click.IntRange(0), metavar="N", help="Clicks away from the seeds, at most.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Fetches, at most.")
@click.option(
    "--delay",
    type=click.FloatRange(0),
    metavar="S",
    help="Pause between requests to a host; at least the charter's.",
)
@click.option(
    "--connections", type=click.IntRange(1, 512), default=56, show_default=True, help="Open at once."
)
@common_options
@json_option
@pass_frame
def crawl(
    frame: Frame,
    urls: tuple[str, ...],
    scope: str,
    depth: int | None,
    limit: int | None,
    delay: float | None,
    connections: int,
) -> None:
    """Archive pages now; no ring is needed.

    Ctrl-C lets the fetches under way end and keeps everything. Started again with the same home, it goes on.

    \b
    Examples:
      herodotus crawl https://example.org/ --depth 2
      herodotus crawl example.org www.example.net --scope domain --limit 1000
    """
    from herodotus.crawl_once import (
        crawl_into,  # with the fetcher and the store, which no other command needs
    )
    from herodotus.crawling import CrawlOrder, canonical_seeds
    from herodotus.peer import check_contact

    charter = open_home(frame.home)
    effective = frame.effective()
    check_contact(charter, effective.settings)
    try:
        seeds = canonical_seeds(urls)
    except MalformedUrlError as error:
        raise click.UsageError(str(error)) from error
    order = CrawlOrder(
        urls=seeds,
        scope=ScopeKind(scope),
        depth_max=depth,
        fetches_max=limit,
        content=Content(charter.content),
        recrawl=Recrawl(charter.recrawl),
        connections=connections,
        contact=effective.settings.operator.contact or None,
        allow_private_addresses=charter.allow_private_addresses,
        politeness=PolitenessPolicy(delay_floor_s=_delay(charter, delay)),
    )
    console = frame.console if frame.console.is_terminal and frame.loudness >= 0 else None
    with locked(frame.home):
        frame.configure_logs(effective, into_home=True)

        async def work() -> dict[str, object]:
            return await crawl_into(frame.home.path, order, wall_clock=unix_seconds, console=console)

        found = anyio.run(work, backend="asyncio", backend_options={"use_uvloop": sys.platform != "win32"})
    if frame.is_json:
        frame.print_json(found)
    else:
        frame.say(_sentence(found))


def _delay(charter: Charter, asked_s: float | None) -> float:
    floor_s = charter.delay_floor_s
    if asked_s is not None and asked_s < floor_s:
        raise click.UsageError(
            f"--delay {asked_s:g} is under the charter's {floor_s:g} s: be polite to others"
        )
    return floor_s if asked_s is None else asked_s


def _sentence(found: Mapping[str, object]) -> str:
    words = ("fetched", "stored", "unchanged", "gone", "refused", "failed", "forbidden")
    return ", ".join(f"{found[word]} {word}" for word in words)
