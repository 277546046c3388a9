"""How does a volunteer leave for good, so that nothing is lost with the peer? `drain`."""

from collections.abc import Callable

import click

from herodotus.core.errors import WorldFailure
from herodotus.core.orders import Drain, Stay
from herodotus.operate.cli.commands.stop import end_process
from herodotus.operate.cli.frame import SECONDS, CommandFrame, framed, main

_ENDS_WITHIN_S = 30.0


@main.command()
@click.option(
    "--wait", "wait_s", type=SECONDS, metavar="S", help="Watch for at most so long (default: to the end)."
)
@click.option("--cancel", is_flag=True, help="Stay after all: the peer crawls again.")
@framed(json=True)
def drain(frame: CommandFrame, wait_s: float | None, cancel: bool) -> None:
    """Leave for good: hand over everything that the peer holds, then stop it.

    The peer stops crawling, delivers its links, and compares with the next holders of its share until they have all
    of it. Ctrl-C only ends the watching. Draining continues, also after a restart.

    \b
    Examples:
      herodotus drain
      herodotus drain --wait 0        start it, then watch `herodotus status`
      herodotus drain --cancel
    """
    from herodotus.copies.hand_over import said_at_end
    from herodotus.operate.order_socket import ask_at_door

    pid = frame.running_pid()
    if cancel:
        facts = ask_at_door(frame.home, Stay(), frame.say).facts
        frame.say("the peer stays" if facts["was_draining"] else "it was not leaving")
        frame.show(facts)
        return
    facts = ask_at_door(frame.home, Drain(wait_s=wait_s), _once(frame)).facts
    if not facts["is_over"] and wait_s:
        raise WorldFailure(
            f"after {wait_s:g} s the peer has not handed over everything; it continues and ends by itself: "
            "`herodotus drain` shows its progress, `herodotus drain --cancel` keeps the peer"
        )
    if facts["is_over"]:
        frame.say(said_at_end(facts))
        end_process(frame, pid, _ENDS_WITHIN_S)
    frame.show(facts)


def _once(frame: CommandFrame) -> Callable[[str], None]:
    """Prints only what is new, because the peer repeats itself."""
    last = ""

    def say(words: str) -> None:
        nonlocal last
        if words != last:
            frame.say(words)
        last = words

    return say
