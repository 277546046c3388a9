"""How does a paused peer crawl again? `resume`."""

from herodotus.core.orders import Resume
from herodotus.home.clock import unix_seconds
from herodotus.home.folder import open_home
from herodotus.home.pauses import left_of_pause
from herodotus.operate.cli.archive_access import order_running_peer
from herodotus.operate.cli.commands.pause import tell_state
from herodotus.operate.cli.frame import CommandFrame, framed, main


@main.command()
@framed(json=True)
def resume(frame: CommandFrame) -> None:
    """Continue crawling and copying after `pause`."""
    open_home(frame.home)
    was_paused = left_of_pause(frame.home.paused, unix_seconds()) > 0
    if order_running_peer(frame, Resume()) is None:
        frame.home.paused.unlink(missing_ok=True)
    tell_state(frame, "crawling again" if was_paused else "it was not paused")
