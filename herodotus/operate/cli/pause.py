"""How does the operator keep a peer from crawling for a while? `pause`, `resume`."""

from contextlib import ExitStack
from typing import Any

from herodotus.core.errors import HomeInUse
from herodotus.core.orders import CrawlControl, Pause, Resume
from herodotus.home.durable import write_durably
from herodotus.home.folder import locked, open_home
from herodotus.operate.cli.frame import CommandFrame, common_options, json_option, main, pass_frame


def order_running_peer(frame: CommandFrame, order: CrawlControl) -> dict[str, Any] | None:
    """The report of the peer that runs on the home; None when none does."""
    from herodotus.operate.order_socket import ask_at_door

    with ExitStack() as held:
        try:
            held.enter_context(locked(frame.home))
        except HomeInUse:
            if not frame.home.door.exists():  # the holder is another command, such as a crawl
                raise
            facts: dict[str, Any] = ask_at_door(frame.home, order, frame.say).facts
            return facts
    return None


@main.command()
@common_options
@json_option
@pass_frame
def pause(frame: CommandFrame) -> None:
    """Pause crawling until `resume`. Readers are still served.

    Returns when the fetches under way have ended. The pause lasts through restarts. The peer need not be running.
    """
    open_home(frame.home)
    found = order_running_peer(frame, Pause())
    if found is None:
        write_durably(frame.home.paused, b"")
    _tell(frame, "paused" if found is not None else "paused: the peer will not crawl when you run it")


@main.command()
@common_options
@json_option
@pass_frame
def resume(frame: CommandFrame) -> None:
    """Continue crawling after `pause`."""
    open_home(frame.home)
    was_paused = frame.home.paused.exists()
    if order_running_peer(frame, Resume()) is None:
        frame.home.paused.unlink(missing_ok=True)
    _tell(frame, "crawling again" if was_paused else "it was not paused")


def _tell(frame: CommandFrame, words: str) -> None:
    if frame.is_json:
        frame.print_json({"state": "paused" if frame.home.paused.exists() else "crawling"})
    else:
        frame.say(words)
