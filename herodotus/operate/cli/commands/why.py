"""What stands for a capture? `why`."""

import sys
from collections.abc import Iterator
from typing import Any

import click

from herodotus.core.orders import Why
from herodotus.operate.cli.archive_access import NOT_FOUND, archive_access
from herodotus.operate.cli.console import parse_moment
from herodotus.operate.cli.frame import CommandFrame, framed, main
from herodotus.operate.cli.printing import say

_ANSWERS = {True: "has it", False: "has it not", None: "does not answer"}


@main.command()
@click.argument("url")
@click.argument("date", required=False)
@framed(json=True)
def why(frame: CommandFrame, url: str, date: str | None) -> None:
    """Tell who fetched a capture, by whose leave, who holds it, and who differs.

    It is the newest capture up to DATE. While the peer runs, the holders are asked.

    \b
    Example: herodotus why https://example.org/ 2026-11-19
    """
    with archive_access(frame) as archive:
        facts = archive.perform(Why(url=url, not_after_s=parse_moment(date, is_end=True))).facts
    if facts is None:
        say(f"{url} is not in the archive" + (f" at {date} or before" if date else ""))
        sys.exit(NOT_FOUND)
    frame.show(facts, _lines(facts))


def _lines(facts: dict[str, Any]) -> Iterator[str]:
    from herodotus.core.doors import SHOWN_KEY, door_shown

    yield f"{facts['url']}  {facts['date']}  {facts['digest']}"
    by, window = facts["fetched_by"][:SHOWN_KEY], facts["window"]
    sound = "" if facts["is_signature_sound"] else " (its signature does not fit)"
    yield f"signed by    {by or 'nobody'}{sound if by else ''}"
    if facts["helper"]:
        yield f"fetched by   {facts['helper'][:SHOWN_KEY]}, which nobody can call, for its signer"
    yield f"came in      {door_shown(facts['door'], '') or facts['door']}"
    if window is None:
        yield "permitted by no window in its record"
    else:
        steward, lasts_s = window["permitted_by"][:SHOWN_KEY], window["lasts_ms"] / 1000
        yield (
            f"permitted by {steward}  window {window['number']} of {window['granted']}, {lasts_s:.0f} s, "
            f"{window['count']} fetches"
        )
    for other in facts["differs"]:
        signer = other["fetched_by"][:SHOWN_KEY] or "nobody"
        yield f"differs      {other['date']}  {other['digest']}  signed by {signer}"
    for holder in facts.get("holders") or ():
        yield _holder(holder)
    if facts.get("holders") is None:
        yield "holders      not asked: the peer does not run"


def _holder(holder: dict[str, Any]) -> str:
    from herodotus.core.doors import SHOWN_KEY

    name = "this peer" if holder["is_this_peer"] else holder["peer"][:SHOWN_KEY]
    place = f"  in {holder['place']}" if holder["place"] else ""
    proofs = f", proofs: {holder['proofs']}" if holder["proofs"] else ""
    away = ", absent" if holder["is_absent"] else ""
    return f"holder       {name}{place}  {_ANSWERS[holder['has_it']]}{proofs}{away}"
