"""Where do crawls begin? `seed add`, `seed list`, `seed remove`: URLs that the home keeps."""

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from crawler.core.recrawl import (
    DEPTH_BOUND_MAX,
    EVERY_DAYS_MAX,
    LIMIT_MAX,
    SEED_CHARS_MAX,
    ContentName,
    ScopeName,
)
from crawler.core.scope import ContentChoice, ScopeKind
from herodotus.core.charter import Charter
from herodotus.core.errors import HerodotusError, NotFound
from herodotus.home.clock import unix_seconds
from herodotus.home.folder import open_home
from herodotus.home.seeds import (
    NAME_CHARS_MAX,
    NO_OPTIONS,
    SEEDS_MAX,
    Seed,
    add_seeds,
    remove_seeds,
    seeds_of,
)
from herodotus.operate.cli.commands.crawl import checked_seeds
from herodotus.operate.cli.console import parse_duration, parse_moment, shown_duration
from herodotus.operate.cli.frame import CommandFrame, framed, main

FILE_CHARACTERS_MAX = 64 * 2**20
STATES_MAX = 1_000
"""Of the first seeds; each 200 may take two seconds, where stewards are slow."""
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
@click.option(
    "--scope",
    type=click.Choice([kind.value for kind in ScopeKind]),
    help="How far links are followed: the page alone, its site (or what is below its path), its host, ... (default: as "
    "far as the network's charter says). What pages embed is taken from anywhere.",
)
@click.option(
    "--depth",
    type=click.IntRange(0, DEPTH_BOUND_MAX),
    metavar="N",
    help="At most so many clicks from the seed.",
)
@click.option("--every", metavar="TIME", help="Visit it and what it leads to so often: 1d, 3d, 1w.")
@click.option("--until", metavar="DATE", help="The last day of visits, as 2026-12-31.")
@click.option(
    "--content",
    type=click.Choice([content.value for content in ContentChoice]),
    help="What is archived (default: what the charter says, which is the most).",
)
@click.option(
    "--limit",
    type=click.IntRange(1, LIMIT_MAX),
    metavar="N",
    help="At most so many pages at each peer, with what they embed.",
)
@click.option("--name", metavar="WORDS", help='What it is for, as "Elections"; shown by `seed list`.')
@framed(json=True)
def add(
    frame: CommandFrame,
    /,
    urls: tuple[str, ...],
    file: str | None,
    **asked: Any,
) -> None:
    """Keep URLs as seeds. A URL without a scheme means https.

    Options hold for all URLs of the command; a URL that is a seed already gets them. They travel with the links that a
    seed leads to, so all peers obey them. No peer visits a page more often than once a day of the network.

    \b
    Examples:
      herodotus seed add https://example.org/
      herodotus seed add https://vote.example/ --scope site --depth 3 --every 1d --until 2026-12-31 --name "Elections"
      herodotus seed add https://example.org/essay.html --scope page --every 1w
    """
    typed = urls + (_lines_of(file) if file is not None else ())
    if not typed:
        raise click.UsageError("name at least one URL, or a --file of them")
    charter = open_home(frame.home)
    wanted = checked_seeds(typed, charter, frame.effective().settings.crawl.opt_out)
    options = seed_options(charter, now=unix_seconds(), **asked)
    if options.is_bounded and (long := [url for url in wanted if len(url) > SEED_CHARS_MAX]):
        raise click.UsageError(
            f"{long[0][:60]}... is longer than {SEED_CHARS_MAX} characters, the most of a seed with options: "
            "add it without them"
        )
    new = add_seeds(frame.home.path, wanted, now=unix_seconds(), options=options)
    _tell_running_peer(frame, new if options == NO_OPTIONS else wanted, options)
    frame.show({"added": new, "known": len(set(wanted)) - len(new)})
    if frame.is_json:
        return
    for url in new:
        frame.say(f"added {url}")
    for url in sorted(set(wanted) - set(new)):
        frame.say(f"already a seed: {url}" + ("" if options == NO_OPTIONS else "; it has these options now"))


def seed_options(
    charter: Charter,
    *,
    now: float,
    scope: ScopeName | None,
    depth: int | None,
    every: str | None,
    until: str | None,
    content: ContentName | None,
    limit: int | None,
    name: str | None,
) -> Seed:
    """What was asked of seeds; raises click's errors, which name the option and the way out."""
    order = list(ContentChoice)
    if content is not None and order.index(ContentChoice(content)) > order.index(
        ContentChoice(charter.content)
    ):
        raise _bad(
            "--content",
            f"{content!r} is more than network {charter.name!r} archives, which is {charter.content!r}: choose that or "
            "less, or begin a network of your own (`herodotus network`)",
        )
    if name is not None and (len(name) > NAME_CHARS_MAX or not name.isprintable()):
        raise _bad(
            "--name", f"it is longer than {NAME_CHARS_MAX} characters, or has some that cannot be printed"
        )
    return Seed(
        url="",
        added=0,
        scope=scope,
        depth=depth,
        content=content,
        every_s=None if every is None else _every_s(every, charter),
        until_s=None if until is None else _until_s(until, now),
        limit=limit,
        name=name or "",
    )


def _every_s(text: str, charter: Charter) -> int:
    seconds, day_s = parse_duration(text), charter.day_length_s
    if seconds is None:
        raise _bad("--every", f"{text[:40]!r} is no time such as 1d, 3d or 1w")
    if seconds < day_s:
        raise _bad(
            "--every",
            f"{text} is too often: network {charter.name!r} visits no page more than once in {shown_duration(day_s)}. "
            f"Say --every {shown_duration(day_s)}, or begin a network of your own with a shorter `day_length_s`",
        )
    if seconds > EVERY_DAYS_MAX * day_s or seconds % day_s:
        raise _bad(
            "--every",
            f"{text} is not a whole number of days of network {charter.name!r} ({shown_duration(day_s)} each), "
            f"or more than {EVERY_DAYS_MAX} of them",
        )
    return seconds


def _until_s(text: str, now: float) -> int:
    try:
        until_s = parse_moment(text, is_end=True)
    except click.BadParameter as error:
        raise _bad("--until", error.message) from error
    if until_s <= now:
        raise _bad("--until", f"{text} is over: name a day to come, or leave the option out")
    return until_s


def _bad(option: str, words: str) -> click.BadParameter:
    return click.BadParameter(words, param_hint=option)


def _tell_running_peer(frame: CommandFrame, new: list[str], options: Seed) -> None:
    """The peer reads the list when a day begins. Told about new seeds, it starts now."""
    if not new or not frame.home.door.exists():
        return
    from herodotus.core.orders import Begin
    from herodotus.operate.cli.archive_access import order_running_peer

    try:
        for at in range(0, len(new), SEEDS_TOLD_AT_ONCE):
            order_running_peer(frame, Begin(urls=tuple(new[at : at + SEEDS_TOLD_AT_ONCE]), **options.options))
    except HerodotusError as error:
        frame.say(f"kept; the peer reads them when its next day begins: {error}")


@seed.command(name="list")
@framed(json=True)
def list_(frame: CommandFrame) -> None:
    """Print the seeds, and what has become of each if the peer runs.

    Counts are of the seed's host, at this peer: known addresses, those of which there is a capture, those that wait
    to be visited today, and those whose last visit failed. In a ring other peers have theirs.
    """
    open_home(frame.home)
    seeds = seeds_of(frame.home.path)
    states = _states(frame, [one.url for one in seeds[:STATES_MAX]])
    shown = [{**_facts_of(one), **states.get(one.url, {})} for one in seeds]
    frame.show(shown, (line for one in seeds for line in _lines_about(one, states.get(one.url))))
    if not seeds and not frame.is_json:
        frame.say("no seeds yet: `herodotus seed add URL` keeps one")


def _states(frame: CommandFrame, urls: list[str]) -> dict[str, dict[str, Any]]:
    """Of each seed, as the running peer sees it; empty where none runs."""
    if not urls or not frame.home.door.exists():
        return {}
    from herodotus.core.orders import Seeds
    from herodotus.operate.cli.archive_access import order_running_peer

    found: dict[str, dict[str, Any]] = {}
    try:
        for at in range(0, len(urls), SEEDS_TOLD_AT_ONCE):
            some = urls[at : at + SEEDS_TOLD_AT_ONCE]
            report = order_running_peer(frame, Seeds(urls=tuple(some)))
            found |= dict(zip(some, (report or {}).get("seeds", ()), strict=False))
    except HerodotusError as error:
        frame.say(f"what has become of them is not known: {error}")
    return found


def _facts_of(seed: Seed) -> dict[str, Any]:
    return {
        "url": seed.url,
        "added": _date(seed.added),
        "scope": seed.scope,
        "depth": seed.depth,
        "content": seed.content,
        "every_s": seed.every_s,
        "until": None if seed.until_s is None else _date(seed.until_s),
        "limit": seed.limit,
        "name": seed.name,
    }


def _date(unix_s: int) -> str:
    return datetime.fromtimestamp(unix_s, UTC).isoformat()


def _lines_about(seed: Seed, state: dict[str, Any] | None) -> Iterator[str]:
    told = (
        (seed.name, f'"{seed.name}"'),
        (seed.scope, f"scope {seed.scope}"),
        (seed.depth is not None, f"depth {seed.depth}"),
        (seed.every_s, f"every {shown_duration(seed.every_s or 0)}"),
        (seed.until_s, f"until {_date(seed.until_s or 0)[:10]}"),
        (seed.content, f"content {seed.content}"),
        (seed.limit, f"limit {seed.limit}"),
    )
    yield "  ".join((seed.url, *(words for is_said, words in told if is_said)))
    if state is None:
        return
    times = "".join(
        f", {words} {_shown_time(state[key])}"
        for key, words in (("since", "since"), ("next_visit", "next visit"), ("last_capture", "last capture"))
        if state[key]
    )
    problem = f": {state['problem']}" if state["problem"] else ""
    yield f"    {state['state']}{problem}{times}"
    yield (
        f"    host: found {state['found']:,}, stored {state['stored']:,}, waiting {state['waiting']:,}, "
        f"failed {state['failed']:,}"
    )


def _shown_time(text: str) -> str:
    return f"{datetime.fromisoformat(text):%Y-%m-%d %H:%M:%S} UTC"


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
