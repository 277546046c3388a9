"""How does the operator keep a peer from crawling for a while? `pause`."""

import math

import click

from herodotus.core.orders import Pause
from herodotus.home.clock import unix_seconds
from herodotus.home.folder import open_home
from herodotus.home.pauses import PAUSE_S_MAX, left_of_pause, write_pause
from herodotus.operate.cli.archive_access import order_running_peer
from herodotus.operate.cli.console import parse_duration, shown_duration
from herodotus.operate.cli.frame import CommandFrame, framed, main


def _seconds(_context: click.Context, _option: click.Parameter, text: str | None) -> float | None:
    if text is None:
        return None
    total = parse_duration(text) or 0
    if not 0 < total <= PAUSE_S_MAX:
        raise click.BadParameter(f"{text[:40]!r} is no time such as 30m, 2h, 1h30m or 2d (a year at most)")
    return float(total)


@main.command()
@click.option(
    "--for", "for_s", callback=_seconds, metavar="TIME", help="Only for so long: 30m, 2h, 1h30m, 2d."
)
@framed(json=True)
def pause(frame: CommandFrame, for_s: float | None) -> None:
    """Pause crawling and copying until `resume`, or for a time. Readers are still served, and the ring goes on.

    Returns when the fetches under way have ended. The pause lasts through restarts. The peer need not be running.

    \b
    Examples:
      herodotus pause
      herodotus pause --for 30m
    """
    open_home(frame.home)
    found = order_running_peer(frame, Pause(for_s=for_s))
    if found is None:
        write_pause(frame.home.paused, unix_seconds(), for_s)
    until = "" if for_s is None else f" for {shown_duration(for_s)}"
    tell_state(
        frame,
        f"paused{until}" if found is not None else f"paused{until}: the peer will not crawl when you run it",
    )


def tell_state(frame: CommandFrame, words: str) -> None:
    left_s = left_of_pause(frame.home.paused, unix_seconds())
    facts: dict[str, object] = {"state": "paused" if left_s else "crawling"}
    if 0 < left_s < math.inf:
        facts["paused_s"] = math.ceil(left_s)
    frame.show(facts)
    if not frame.is_json:
        frame.say(words)
