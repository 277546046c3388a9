"""What does an operator do with the notices of other peers that removed something? `notices`."""

from typing import Any, get_args

import click

from herodotus.core.orders import NoticeOrder, NoticeVerb
from herodotus.operate.cli.archive_access import archive_access
from herodotus.operate.cli.frame import CommandFrame, framed, main
from herodotus.operate.cli.printing import say

SHOWN_MAX = 50
SHORT = 8


@main.command()
@click.argument("verb", type=click.Choice(get_args(NoticeVerb)), default="list")
@click.argument("notice_id", required=False, metavar="[ID]")
@framed(json=True)
def notices(frame: CommandFrame, verb: NoticeVerb, notice_id: str | None) -> None:
    """See what other peers removed and why, and decide whether this peer does the same.

    A notice does nothing here by itself, unless you said so in `removals.follow`. What you follow is hidden at once and
    erased after `removals.grace_days`; until then `undo` brings it back.

    \b
    Examples:
      herodotus notices
      herodotus notices show 3f9a01c2
      herodotus notices follow 3f9a01c2
      herodotus notices undo 3f9a01c2
    """
    if (notice_id is None) != (verb == "list"):
        raise click.UsageError(f"{verb}: {'name no' if verb == 'list' else 'name a'} notice")
    with archive_access(frame) as archive:
        found = archive.perform(NoticeOrder(verb=verb, id=notice_id or "")).facts
    if verb == "list":
        _list(frame, found)
    elif verb == "show":
        frame.show(found, _lines_of(found))
    else:
        frame.show(found)
        say(f"{found['subject']}: {_DONE[verb]}")


_DONE = {
    "follow": "hidden here; its captures are erased after removals.grace_days, and undo brings them back until then",
    "dismiss": "dismissed; nothing changes here",
    "undo": "shown again",
}


def _list(frame: CommandFrame, found: list[dict[str, Any]]) -> None:
    frame.show(found, map(_line_of, found[:SHOWN_MAX]))
    if len(found) > SHOWN_MAX and not frame.is_json:
        say(f"and {len(found) - SHOWN_MAX:,} older ones (--json lists all)")
    if not found and not frame.is_json:
        say("no peer has sent a notice")


def _line_of(one: dict[str, Any]) -> str:
    by = "this peer" if one["is_own"] else one["issuer"][:9]
    what = f"{one['kind']} {one['name']}"
    return f"{one['id'][:SHORT]}  {one['state']:<9}  {one['issued'][:10]}  {by:<9}  {one['reason']:<8}  {what[:100]}"


def _lines_of(one: dict[str, Any]) -> list[str]:
    lines = [
        f"notice    {one['id']}",
        f"state     {one['state']}",
        f"removed   {one['kind']} {one['name']}",
        f"by        {one['issuer']}{' (this peer)' if one['is_own'] else ''}, {one['issued']}",
        f"because   {one['reason']}: {one['text']}" if one["text"] else f"because   {one['reason']}",
        f"contact   {one['contact'] or '(none given)'}",
        f"there     {one['captures_there']:,} captures",
        f"here      {one['captures_here']:,} captures of {len(one['listed']):,} addresses",
    ]
    if one["erased_in_days"] is not None:
        lines.append(f"erased    in {one['erased_in_days']} days")
    return lines + [f"{count:>6}  {url}" for url, count in one["listed"][:SHOWN_MAX]]
