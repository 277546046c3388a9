"""How are pages archived now, without a ring? `crawl URL...`, and what it continues from."""

import dataclasses
import math
import os
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import click
from msgspec.structs import replace

from crawler.core.politeness import PolitenessPolicy
from crawler.core.recrawl import DEPTH_BOUND_MAX, SEED_CHARS_MAX, Bounds, Recrawl
from crawler.core.scope import ContentChoice, ScopeKind
from herodotus.core.charter import Charter
from herodotus.core.errors import Misuse, WorldFailure
from herodotus.home.clock import unix_seconds
from herodotus.home.folder import locked, open_home, running_on
from herodotus.operate.cli.frame import SECONDS, CommandFrame, framed, main
from herodotus.operate.settings.load import Effective

if TYPE_CHECKING:
    from herodotus.core.orders import Begin
    from herodotus.crawl.gear import CrawlOrder
    from herodotus.home.seeds import LastCrawl, Seed

_DEFAULT = click.core.ParameterSource.DEFAULT


WATCHED_EVERY_S = 1.0
SEEDS_WATCHED_MAX = 200
"""URLs whose progress is asked for, once a second."""
_ASKABLE = frozenset({"scope", "depth", "content", "limit", "wait", "resume"})
"""Options that a running peer takes. The others are settings of that peer."""
_COUNTS = ("found", "stored", "waiting", "failed")
_STANDING = frozenset({"waiting", "new"})


class RunningPeerCrawls(Misuse):
    def __init__(self, problem: str, home: str) -> None:
        super().__init__(
            f"a peer runs on this home: {problem}, or stop it first (`herodotus stop --home {home}`)"
        )


@main.command()
@click.argument("urls", nargs=-1)
@click.option("--resume", is_flag=True, help="Continue the last crawl: its URLs, scope, depth and delay.")
@click.option(
    "--scope",
    type=click.Choice([kind.value for kind in ScopeKind]),
    help="How far links are followed from the seeds (default: host). With `page` and `site` what pages embed is taken "
    "from anywhere.",
)
@click.option("--depth", type=click.IntRange(0), metavar="N", help="At most so many clicks from the seeds.")
@click.option(
    "--content",
    type=click.Choice([content.value for content in ContentChoice]),
    help="What is archived (default: the charter's).",
)
@click.option("--limit", type=click.IntRange(1), metavar="N", help="At most so many fetches.")
@click.option(
    "--delay",
    type=SECONDS,
    metavar="S",
    help="Pause between requests to a host; the charter's or longer.",
)
@click.option(
    "--patience",
    type=SECONDS,
    default=600.0,
    metavar="S",
    help="End if all remaining hosts rest longer (default: 600); their URLs stay due.",
)
@click.option(
    "--connections", type=click.IntRange(1, 512), metavar="N", help="Connections open at once (default: 56)."
)
@click.option(
    "--wait",
    type=SECONDS,
    metavar="S",
    help="If a peer runs: watch its progress for at most so long (default: to the end at a terminal, else not at all).",
)
@framed(json=True)
def crawl(
    frame: CommandFrame,
    /,
    urls: tuple[str, ...],
    resume: bool,
    **asked: Any,
) -> None:
    """Archive pages now; no ring is needed.

    Without URLs the crawl starts at the seeds of `herodotus seed`. On a later day the same command visits all pages
    again and stores only what changed. Ctrl-C waits for fetches under way and keeps everything; --resume continues.
    Ctrl-Z pauses, `fg` continues.

    If a peer runs on the home, it does the work: it gets the URLs with scope, depth, content and limit, which its
    whole ring obeys. The command shows its progress; Ctrl-C ends only the watching, and --resume watches again.

    \b
    Examples:
      herodotus crawl https://example.org/ --depth 2
      herodotus crawl example.org www.example.net --scope domain --limit 1000
      herodotus crawl --resume
    """
    from herodotus.operate.heap import importing, keep_heap_small

    with importing():  # the fetcher and the store, which no other command needs
        from herodotus.crawl.single_run import crawl_into
        from herodotus.home.seeds import note_crawl
        from herodotus.machine import Machine
        from herodotus.operate.daemon import check_contact
        from herodotus.operate.offer import own_peer_id, step_back
        from herodotus.store import archive_settings

    if resume and (urls or any(asked[name] is not None for name in ("scope", "depth", "content"))):
        raise click.UsageError(
            "--resume takes URLs, scope, depth and content from the last crawl: do not name them"
        )
    charter = open_home(frame.home)
    effective = frame.effective()
    check_contact(charter, effective.settings)
    os.umask(0o077)
    if frame.home.door.exists() and running_on(frame.home) is not None:
        source = click.get_current_context().get_parameter_source
        options = {name for name in ("resume", *asked) if source(name) is not _DEFAULT}
        _hand_over(frame, charter, effective, urls, options, is_resumed=resume, **asked)
        return
    del asked["wait"]
    step_back(effective.settings.budget.niceness)
    keep_heap_small()
    with locked(frame.home):
        frame.configure_logs(effective, into_home=True)
        order, asked_for = _order(frame, charter, effective, urls, is_resumed=resume, **asked)
        home = frame.home.path
        console = frame.console if frame.console.is_terminal and frame.loudness >= 0 else None

        async def work() -> dict[str, Any]:
            return await crawl_into(
                home,
                order,
                Machine(),
                wall_clock=unix_seconds,
                console=console,
                budget=effective.settings.budget,
                files=archive_settings(effective.settings, charter, own_peer_id(frame.home)),
                when_open=partial(note_crawl, home, asked_for),
            )

        found = anyio.run(work, backend="asyncio", backend_options={"use_uvloop": sys.platform != "win32"})
    _tell(frame, found)


def _hand_over(
    frame: CommandFrame,
    charter: Charter,
    effective: Effective,
    urls: tuple[str, ...],
    options: set[str],
    *,
    is_resumed: bool,
    wait: float | None,
    **asked: Any,
) -> None:
    """Make it work of the peer that runs on this home, and watch that. The peer keeps what is left to do."""
    from herodotus.home.seeds import LastCrawl, NothingToResume, last_crawl, note_crawl, seeds_of
    from herodotus.operate.cli.archive_access import order_running_peer
    from herodotus.operate.cli.commands.seed import seed_options

    if not_its := options - _ASKABLE:
        named = ", ".join(f"--{name}" for name in sorted(not_its))
        raise RunningPeerCrawls(f"leave out {named}, which its settings say", frame.home.quoted)
    last = last_crawl(frame.home.path)
    if is_resumed and last is None:
        raise NothingToResume(home=str(frame.home.path))
    if not is_resumed and not urls:
        raise RunningPeerCrawls("it crawls its seeds by itself; name URLs", frame.home.quoted)
    terms = {name: asked[name] for name in ("scope", "depth", "content", "limit")}
    if is_resumed and last is not None:
        wanted = last.urls
        terms |= {"scope": last.scope, "depth": last.depth, "content": last.content}
    else:
        wanted = checked_seeds(urls, charter, effective.settings.crawl.opt_out)
        seed_options(charter, now=unix_seconds(), every=None, until=None, name=None, **terms)
    if any(one is not None for one in terms.values()) and (
        long := [url for url in wanted if len(url) > SEED_CHARS_MAX]
    ):
        raise click.UsageError(f"{long[0][:60]}... is too long for options: leave them out")
    new = (
        _unknown(frame, wanted) if is_resumed else wanted
    )  # what it knows it goes on with by itself, as it was told
    found: dict[str, Any] | None = {"urls": 0, "new": 0}
    for begin in _begins(new, terms, seeds_of(frame.home.path)):
        one = order_running_peer(frame, begin)
        found = None if one is None or found is None else {name: found[name] + one[name] for name in found}
    if found is None:
        raise RunningPeerCrawls("it ended just now; try again", frame.home.quoted)
    if not is_resumed:
        scope, content = terms["scope"] or ScopeKind.ANY.value, terms["content"] or charter.content
        asked_for = LastCrawl(urls=wanted, scope=scope, depth=terms["depth"], content=content)
        note_crawl(frame.home.path, asked_for)
        frame.say(f"given to the running peer: {found['urls']} URLs, {found['new']} of them new to it")
    wait_s = (
        wait if wait is not None else (math.inf if frame.console.is_terminal and not frame.is_json else 0.0)
    )
    told = _watched(frame, wanted[:SEEDS_WATCHED_MAX], wait_s) if wait_s else []
    frame.show({"ended": "handed over", **found, **({"seeds": told} if told else {})})


def _begins(urls: list[str], terms: dict[str, Any], seeds: "list[Seed]") -> "Iterator[Begin]":
    """What was typed counts; where nothing was, a kept seed keeps its own options."""
    from herodotus.core.orders import Begin

    has_terms = any(one is not None for one in terms.values())
    kept = {} if has_terms else {seed.url: seed for seed in seeds if seed.is_bounded}
    if plain := tuple(url for url in urls if url not in kept):
        yield Begin(urls=plain, **terms)
    for url in urls:
        if url in kept:
            yield Begin(urls=(url,), **kept[url].options)


def _unknown(frame: CommandFrame, urls: list[str]) -> list[str]:
    return [one["url"] for one in _told(frame, urls[:SEEDS_WATCHED_MAX]) if one["state"] == "new"]


def _told(frame: CommandFrame, urls: list[str]) -> list[dict[str, Any]]:
    """What the running peer says of each; nothing where none runs."""
    from herodotus.core.orders import Seeds
    from herodotus.operate.cli.archive_access import order_running_peer

    rows = (order_running_peer(frame, Seeds(urls=tuple(urls))) or {}).get("seeds", ())
    return [{"url": url, **row} for url, row in zip(urls, rows, strict=False)]


def _watched(frame: CommandFrame, urls: list[str], wait_s: float) -> list[dict[str, Any]]:
    """What has become of the URLs when nothing waits any more, the time is over, or somebody pressed Ctrl-C."""
    from herodotus.operate.cli.console import end_progress

    told: list[dict[str, Any]] = []
    try:
        anyio.run(_watch, frame, urls, wait_s, told)
    except KeyboardInterrupt:
        frame.say("the peer goes on; `herodotus crawl --resume` watches again")
    finally:
        end_progress()
    for one in told:
        frame.say(f"{one['url']}  {one['state']}" + (f": {one['problem']}" if one["problem"] else ""))
    frame.say(f"at these hosts: {_sums(told)}")
    return told


async def _watch(frame: CommandFrame, urls: list[str], wait_s: float, told: list[dict[str, Any]]) -> None:
    from herodotus.operate.cli.console import show_progress

    with anyio.move_on_after(wait_s):
        while True:
            told[:] = _told(frame, urls)
            show_progress(_sums(told))
            if not _is_at_work(told):
                return
            await anyio.sleep(WATCHED_EVERY_S)


def _is_at_work(told: list[dict[str, Any]]) -> bool:
    """A host that cannot be reached, or a crawl that rests, may take hours: that is told, and not watched."""
    return any(
        not one["problem"] and (one["state"] in _STANDING or one["waiting"] > one["failed"]) for one in told
    )


def _sums(told: list[dict[str, Any]]) -> str:
    hosts = {one["url"].split("/")[2]: one for one in told}
    return ", ".join(f"{name} {sum(one[name] for one in hosts.values()):,}" for name in _COUNTS)


def _order(
    frame: CommandFrame,
    charter: Charter,
    effective: Effective,
    urls: tuple[str, ...],
    *,
    is_resumed: bool,
    scope: str | None,
    depth: int | None,
    content: str | None,
    limit: int | None,
    delay: float | None,
    patience: float,
    connections: int | None,
) -> "tuple[CrawlOrder, LastCrawl]":
    """The crawl to do, and the note to keep once it has begun."""
    from herodotus.core.connections import NO_BOUND, Use
    from herodotus.crawl.gear import CrawlOrder, day_offset_s, opt_outs, rules_of, territory_of, url_rules
    from herodotus.home.seeds import LastCrawl, NoSeeds, NothingToResume, last_crawl, note_crawl, seeds_of
    from herodotus.peers.net.rooms import Rooms

    home, settings = frame.home.path, effective.settings
    last = last_crawl(home)
    if is_resumed:
        if last is None:
            raise NothingToResume(home=str(home))
        now = last if delay is None else replace(last, delay=delay)
    else:
        seeds = (
            checked_seeds(urls, charter, settings.crawl.opt_out)
            if urls
            else [one.url for one in seeds_of(home)]
        )
        if not seeds:
            raise NoSeeds
        now = LastCrawl(
            urls=list(seeds),
            scope=scope or ScopeKind.HOST.value,
            depth=depth,
            content=content or charter.content,
            delay=delay,
        )
        is_other = last is not None and not now.asks_the_same_as(last)
        now = replace(now, widens=is_other or (last is not None and last.widens))
        note_crawl(home, now)
    politeness = PolitenessPolicy(
        delay_floor_s=max(_delay(charter, delay), now.delay or 0.0),
        per_address_concurrency=charter.per_address_concurrency,
    )
    asked = 2 * (connections or 0)  # what was typed is meant
    most = NO_BOUND if charter.allow_private_addresses else max(asked, settings.budget.connections_max)
    kept = {one.url: one for one in seeds_of(home)}
    if urls or (is_resumed and now.urls != list(kept)):
        kept = {}  # the crawl is of what was typed, in the scope that was typed
    order = CrawlOrder(
        room=Rooms(most).room(Use.WEB),
        urls=tuple(now.urls),
        scope=ScopeKind(now.scope),
        depth_max=now.depth,
        fetches_max=limit,
        content=ContentChoice(now.content),
        recrawl=Recrawl(charter.recrawl),
        connections=connections or settings.crawl.connections,
        contact=settings.operator.contact or None,
        allow_private_addresses=charter.allow_private_addresses,
        politeness=politeness,
        opted_out=opt_outs(settings.crawl.opt_out),
        territory=territory_of(charter),
        rules=url_rules(charter),
        visits_per_host_max=settings.crawl.visits_per_host_max,
        urls_per_host_max=settings.crawl.urls_per_host_max,
        rules_off=rules_of(settings.crawl.rules_off),
        day_length_s=charter.day_length_s,
        day_offset_s=day_offset_s(charter),
        patience_s=max(patience, 2 * politeness.delay_floor_s),  # the ordinary pace is no rest
        widens=now.widens,
    )
    order = dataclasses.replace(order, bounds=_bounds(order, kept))
    return order, replace(now, widens=False)


def _bounds(order: "CrawlOrder", kept: "Mapping[str, Seed]") -> "dict[str, Bounds]":
    """Of the URLs: those of kept seeds with options of their own, and what `--scope page` and `site` mean."""
    from herodotus.crawl.gear import bounds_of_seed

    found = {url: bounds_of_seed(kept[url], order) for url in order.urls if url in kept}
    bounds = {url: one for url, one in found.items() if one is not None}
    if order.scope in (ScopeKind.PAGE, ScopeKind.SITE):
        if long := [url for url in order.urls if len(url) > SEED_CHARS_MAX]:
            raise click.UsageError(
                f"{long[0][:60]}... is longer than {SEED_CHARS_MAX} characters, the most with --scope "
                f"{order.scope.value}: choose another scope"
            )
        depth = None if order.depth_max is None else min(order.depth_max, DEPTH_BOUND_MAX)
        asked = {url: Bounds(seed=url, scope=order.scope.value, depth_max=depth) for url in order.urls}
        bounds = asked | bounds
    return bounds


def checked_seeds(texts: tuple[str, ...], charter: Charter, opted_out: tuple[str, ...]) -> list[str]:
    """What a person typed, as URLs that this network may archive."""
    from crawler.core.errors import MalformedUrlError
    from herodotus.crawl.gear import SeedRefusedError, canonical_seeds, check_seeds, url_rules

    try:
        return list(check_seeds(canonical_seeds(texts, url_rules(charter)), charter, opted_out))
    except (MalformedUrlError, SeedRefusedError) as error:
        raise click.UsageError(str(error)) from error


def _delay(charter: Charter, asked_s: float | None) -> float:
    floor_s = charter.delay_floor_s
    if asked_s is not None and asked_s < floor_s:
        raise click.UsageError(
            f"--delay {asked_s:g} is under the charter's {floor_s:g} s: be polite to others"
        )
    return floor_s if asked_s is None else asked_s


def _tell(frame: CommandFrame, found: Mapping[str, Any]) -> None:
    from herodotus.operate.cli.crawl_text import crawl_lines

    if frame.is_json:
        frame.show(found)
    else:
        resume = f"herodotus crawl --resume --home {frame.home.quoted}"
        for line in crawl_lines(found, resume):
            frame.say(line)
    good = ("stored", "unchanged", "gone", "refused", "skipped", "noarchive", "recovered", "reread")
    if (
        found["ended"] == "done"
        and not any(found[name] for name in good)
        and found["failed"] + found["forbidden"]
    ):
        host, counts = next(iter(found["by_host"].items()))
        raise WorldFailure(f"nothing could be archived; {host}: {counts['problem'] or 'see above'}")
