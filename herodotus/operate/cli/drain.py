"""How does a volunteer leave for good, so that nothing is lost with the peer? `drain`."""

from collections.abc import Callable

import click

from herodotus.core.errors import WorldFailure
from herodotus.core.orders import Drain, Stay
from herodotus.home.folder import HomeMissing, running_on
from herodotus.operate.cli.daemon import end_process
from herodotus.operate.cli.frame import (
    SECONDS,
    CommandFrame,
    NotRunning,
    common_options,
    json_option,
    main,
    pass_frame,
)

_ENDS_WITHIN_S = 30.0


class StillDraining(WorldFailure):
    def __init__(self, waited_s: float) -> None:
        self.waited_s = waited_s

    def __str__(self) -> str:
        return (
            f"not all that the peer holds is with others after {self.waited_s:g} s; it goes on and ends by itself: "
            "`herodotus drain` shows how far it is, `herodotus drain --cancel` keeps the peer"
        )


@main.command()
@click.option(
    "--wait", "wait_s", type=SECONDS, metavar="S", help="Look on for so long at most (default: to the end)."
)
@click.option("--cancel", is_flag=True, help="Take it back: the peer stays and crawls again.")
@common_options
@json_option
@pass_frame
def drain(frame: CommandFrame, wait_s: float | None, cancel: bool) -> None:
    """Hand over all that the peer holds to others, then stop it: for who leaves for good.

    The peer stops crawling, delivers its links, and compares with those who will hold its share until they have all
    of it. Ctrl-C ends the looking on, not the draining, which outlives restarts, too.

    \b
    Examples:
      herodotus drain
      herodotus drain --wait 0        begin it, and look at `herodotus status` now and then
      herodotus drain --cancel
    """
    from herodotus.copies.hand_over import others
    from herodotus.operate.order_socket import ask_at_door

    if not frame.home.exists():
        raise HomeMissing(frame.home)
    running = running_on(frame.home)
    if running is None or not running.pid:
        raise NotRunning(frame.home)
    if cancel:
        facts = ask_at_door(frame.home, Stay(), frame.say).facts
        frame.say("the peer stays" if facts["was_draining"] else "it was not leaving")
        if frame.is_json:
            frame.print_json(facts)
        return
    facts = ask_at_door(frame.home, Drain(wait_s=wait_s), _once(frame)).facts
    if not facts["is_over"] and wait_s:
        raise StillDraining(wait_s)
    if facts["is_over"]:
        frame.say(f"what it held is with {others(facts['peers'])}" if facts["peers"] else "it held nothing")
        end_process(frame, running.pid, _ENDS_WITHIN_S)
    if frame.is_json:
        frame.print_json(facts)


def _once(frame: CommandFrame) -> Callable[[str], None]:
    """Tells only what is new: the peer repeats itself."""
    last = ""

    def say(words: str) -> None:
        nonlocal last
        if words != last:
            frame.say(words)
        last = words

    return say
