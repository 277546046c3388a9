"""Where do crawls begin? `seed add`, `seed list`, `seed remove`: URLs that the home keeps."""

import sys
from datetime import UTC, datetime
from pathlib import Path

import click

from herodotus.core.errors import HerodotusError, NotFound
from herodotus.home.clock import unix_seconds
from herodotus.home.folder import open_home
from herodotus.home.seeds import SEEDS_MAX, add_seeds, remove_seeds, seeds_of
from herodotus.operate.cli.commands.crawl import checked_seeds
from herodotus.operate.cli.frame import CommandFrame, framed, main

FILE_CHARACTERS_MAX = 64 * 2**20
SEEDS_TOLD_AT_ONCE = 200  # of at most some 2,000 characters each: an order may have 1 MB


@main.group()
def seed() -> None:
    """Keep the URLs at which crawls begin.

    \b
    Examples:
      herodotus seed add https://example.org/ www.example.net
      herodotus seed list
      herodotus crawl
    """


@seed.command()
@click.argument("urls", nargs=-1)
@click.option(
    "--file",
    "file",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    metavar="FILE",
    help="Also the URLs in a file, one on each line; - is stdin, # starts a comment.",
)
@framed(json=True)
def add(frame: CommandFrame, urls: tuple[str, ...], file: str | None) -> None:
    """Keep URLs as seeds. A URL without a scheme means https."""
    typed = urls + (_lines_of(file) if file is not None else ())
    if not typed:
        raise click.UsageError("name at least one URL, or a --file of them")
    charter = open_home(frame.home)
    wanted = checked_seeds(typed, charter, frame.effective().settings.crawl.opt_out)
    new = add_seeds(frame.home.path, wanted, now=unix_seconds())
    _tell_running_peer(frame, new)
    frame.show({"added": new, "known": len(set(wanted)) - len(new)})
    if frame.is_json:
        return
    for url in new:
        frame.say(f"added {url}")
    for url in sorted(set(wanted) - set(new)):
        frame.say(f"already a seed: {url}")


def _tell_running_peer(frame: CommandFrame, new: list[str]) -> None:
    """The peer reads the list when a day begins. Told about new seeds, it starts now."""
    if not new or not frame.home.door.exists():
        return
    from herodotus.core.orders import Begin
    from herodotus.operate.cli.archive_access import order_running_peer

    try:
        for at in range(0, len(new), SEEDS_TOLD_AT_ONCE):
            order_running_peer(frame, Begin(urls=tuple(new[at : at + SEEDS_TOLD_AT_ONCE])))
    except HerodotusError as error:
        frame.say(f"kept; the peer reads them when its next day begins: {error}")


@seed.command(name="list")
@framed(json=True)
def list_(frame: CommandFrame) -> None:
    """Print the seeds, one a line."""
    open_home(frame.home)
    seeds = seeds_of(frame.home.path)
    shown = [{"url": one.url, "added": datetime.fromtimestamp(one.added, UTC).isoformat()} for one in seeds]
    frame.show(shown, (one.url for one in seeds))
    if not seeds and not frame.is_json:
        frame.say("no seeds yet: `herodotus seed add URL` keeps one")


@seed.command()
@click.argument("urls", nargs=-1, required=True)
@framed()
def remove(frame: CommandFrame, urls: tuple[str, ...]) -> None:
    """Remove seeds. Archived pages and known URLs stay."""
    from crawler.core.errors import MalformedUrlError
    from herodotus.crawl.gear import canonical_seeds, url_rules

    charter = open_home(frame.home)
    try:
        wanted = canonical_seeds(urls, url_rules(charter))
    except MalformedUrlError as error:
        raise click.UsageError(str(error)) from error
    unknown = remove_seeds(frame.home.path, wanted)
    for url in wanted:
        if url not in unknown:
            frame.say(f"removed {url}")
    if unknown:
        more = f" and {len(unknown) - 3} more" if len(unknown) > 3 else ""
        raise NotFound(f"not a seed: {', '.join(unknown[:3])}{more}; `herodotus seed list` shows the seeds")


def _lines_of(file: str) -> tuple[str, ...]:
    if file == "-":
        text = sys.stdin.read(FILE_CHARACTERS_MAX)
    else:
        with Path(file).open(encoding="utf-8", errors="replace") as opened:
            text = opened.read(FILE_CHARACTERS_MAX)
    lines = (line.partition(" #")[0].strip() for line in text.splitlines())
    found = tuple(line for line in lines if line and not line.startswith("#"))
    if len(found) > SEEDS_MAX:
        raise click.UsageError(
            f"{len(found):,} lines are more than the {SEEDS_MAX:,} seeds that a home keeps"
        )
    return found
