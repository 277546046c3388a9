"""When was an address archived? `history`."""

import sys
from typing import Any

import click

from herodotus.core.orders import History
from herodotus.operate.cli.archive_access import NOT_FOUND, archive_access
from herodotus.operate.cli.frame import CommandFrame, framed, main
from herodotus.operate.cli.printing import say


@main.command()
@click.argument("url")
@click.option("--peer", metavar="URL", help="Ask this peer instead of the home's archive.")
@framed(json=True)
def history(frame: CommandFrame, url: str, peer: str | None) -> None:
    """List the captures of a URL, oldest first."""
    with archive_access(frame, peer=peer) as archive:
        versions = archive.perform(History(url=url)).facts
    if not versions:
        say(f"{url} is not in the archive")
        sys.exit(NOT_FOUND)
    frame.show(versions, [*map(_line, versions), *_unreachable(versions[-1].get("unreachable"))])


def _line(version: dict[str, Any]) -> str:
    from herodotus.core.doors import door_shown

    visits, last_seen = version.get("visits"), version.get("last_seen")
    unchanged = f"  unchanged {visits}x until {last_seen}" if visits else ""
    door = door_shown(str(version.get("door") or ""), str(version.get("fetched_by") or ""))
    told = f"  {door}" if door else ""
    return f"{version['date']}  {version['status'] or '-'}  {version['mime']}{unchanged}{told}"


def _unreachable(found: object) -> list[str]:
    """Of a peer that was asked, anything may come."""
    if not isinstance(found, dict):
        return []
    since, last, reason, tries = (found.get(name) for name in ("since", "last", "reason", "tries"))
    return [f"unreachable since {since}: {reason} (tries: {tries}, the last on {last})"]
