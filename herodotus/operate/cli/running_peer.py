"""How does a command give an order to the peer that runs on its home?"""

from contextlib import ExitStack
from typing import Any

from herodotus.core.errors import HomeInUse
from herodotus.core.orders import CrawlControl
from herodotus.home.folder import locked
from herodotus.operate.cli.frame import CommandFrame


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
