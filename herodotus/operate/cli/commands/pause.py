"""How does the operator keep a peer from crawling for a while? `pause`."""

from herodotus.core.orders import Pause
from herodotus.home.durable import write_durably
from herodotus.home.folder import open_home
from herodotus.operate.cli.archive_access import order_running_peer
from herodotus.operate.cli.frame import CommandFrame, framed, main


@main.command()
@framed(json=True)
def pause(frame: CommandFrame) -> None:
    """Pause crawling until `resume`. Readers are still served.

    Returns when the fetches under way have ended. The pause lasts through restarts. The peer need not be running.
    """
    open_home(frame.home)
    found = order_running_peer(frame, Pause())
    if found is None:
        write_durably(frame.home.paused, b"")
    tell_state(frame, "paused" if found is not None else "paused: the peer will not crawl when you run it")


def tell_state(frame: CommandFrame, words: str) -> None:
    frame.show({"state": "paused" if frame.home.paused.exists() else "crawling"})
    if not frame.is_json:
        frame.say(words)
