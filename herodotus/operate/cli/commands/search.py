"""Which pages have these words? `search`."""

import sys
from collections.abc import Iterator
from typing import Any

import click

from herodotus.core.errors import NotFound
from herodotus.core.orders import Search
from herodotus.core.quantities import counted
from herodotus.operate.cli.archive_access import NOT_FOUND, order_running_peer
from herodotus.operate.cli.frame import CommandFrame, framed, main
from herodotus.operate.cli.printing import say

_LIMIT_MAX = 100


@main.command()
@click.argument("words", nargs=-1, required=True)
@click.option(
    "--limit", type=click.IntRange(1, _LIMIT_MAX), default=10, show_default=True, help="Pages at once."
)
@click.option("--after", metavar="TOKEN", help="Continue behind an earlier answer, whose `next` this is.")
@click.option("--here", is_flag=True, help="Ask this peer alone: the question goes to no other.")
@click.option("--peer", metavar="URL", help="Ask this peer instead of the one that runs on the home.")
@framed(json=True)
def search(
    frame: CommandFrame,
    words: tuple[str, ...],
    limit: int,
    after: str | None,
    here: bool,
    peer: str | None,
) -> None:
    """Find archived pages by their words. The peer must be running.

    Phrases stand in quotation marks, which your shell takes away: quote the whole question. Write `--` before a
    question that begins with a minus.

    \b
    Examples:
      herodotus search ferry bell
      herodotus search 'ferry "net loft" -bell site:example.org on:2026-05-01'
    """
    order = Search(text=" ".join(words), limit=limit, after=after, here=here)
    if peer is not None:
        from herodotus.operate.remote_archive import search_at

        facts = search_at(peer, order)
    else:
        found = order_running_peer(frame, order)
        if found is None:
            raise NotFound(
                "no peer runs on this home: start it with `herodotus run`, or ask another with --peer"
            )
        facts = found
    frame.show(facts, _lines(facts))
    if not facts["hits"]:
        say("no page has all of this" + _meant(facts["likelier"]))
        sys.exit(NOT_FOUND)


def _meant(likelier: dict[str, str]) -> str:
    if not likelier:
        return ""
    return "; did you mean " + ", ".join(f"{near} (not {word})" for word, near in likelier.items()) + "?"


def _lines(facts: dict[str, Any]) -> Iterator[str]:
    for hit in facts["hits"]:
        until = f" to {hit['until'][:10]}" if hit["until"] else ""
        yield hit["title"] or "(no title)"
        yield f"  {hit['url']}"
        yield f"  {'from' if until else 'since'} {hit['first'][:10]}{until}"
        if hit["snippet"]:
            yield f"  {hit['snippet']}"
        for other in hit["alike"]:
            yield f"  nearly the same: {other['url']}"
        yield ""
    ring = facts["ring"]
    if ring and (facts["hits"] or ring["share"] < 1):
        yield f"{int(ring['share'] * 100)} % of the ring answered ({counted(ring['peers'], 'peer')})"
    if facts["hits"]:
        least = "" if facts["is_whole"] else "at least "
        yield f"{least}{counted(facts['pages'], 'page')} in {counted(facts['versions'], 'version')}"
        if facts["next"]:
            yield f"more: --after {facts['next']}"
