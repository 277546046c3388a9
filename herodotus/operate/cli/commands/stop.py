"""How is the peer of a home stopped? `stop`."""

import contextlib
import os
import signal
import threading

import click

from herodotus.core.errors import WorldFailure
from herodotus.core.orders import HandOver
from herodotus.home.folder import Home, wait_released
from herodotus.operate.cli.frame import SECONDS, CommandFrame, framed, main


@main.command()
@click.option("--force", is_flag=True, help="Kill the peer if it does not stop by itself.")
@click.option(
    "--wait",
    "wait_s",
    type=SECONDS,
    default=15.0,
    show_default=True,
    metavar="S",
    help="Seconds to wait.",
)
@click.option(
    "--hand-over",
    "hand_over_s",
    type=SECONDS,
    metavar="S",
    help="For a peer that leaves for good: first give what it holds to others, in S seconds at most.",
)
@framed()
def stop(frame: CommandFrame, force: bool, wait_s: float, hand_over_s: float | None) -> None:
    """Stop the peer of this home and wait until it is gone."""
    pid = frame.running_pid()
    if hand_over_s is not None:
        _hand_over(frame, hand_over_s)
    end_process(frame, pid, wait_s, force=force)


def end_process(frame: CommandFrame, pid: int, wait_s: float, *, force: bool = False) -> None:
    """The peer of the frame's home; it may be ending by itself already."""
    _signal(pid, signal.SIGTERM)
    if _gone(frame.home, wait_s):
        frame.say(f"stopped process {pid}")
        return
    if force:
        _signal(pid, signal.SIGKILL)
        if _gone(frame.home, wait_s):
            frame.say(f"killed process {pid}")
            return
    raise WorldFailure(
        f"process {pid} is still running after {wait_s:g} s; `herodotus stop --force` kills it"
    )


def _hand_over(frame: CommandFrame, wait_s: float) -> None:
    from herodotus.copies.hand_over import said_at_end
    from herodotus.operate.order_socket import ask_at_door

    facts = ask_at_door(frame.home, HandOver(wait_s=wait_s), frame.say).facts
    if not facts["is_over"]:
        raise WorldFailure(
            f"after {wait_s:g} s the peer has not handed over everything, so it keeps running; "
            "nothing handed over is lost: try again, or stop the peer without --hand-over"
        )
    frame.say(said_at_end(facts))


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):  # gone by itself in the meantime: what was wanted
        try:
            os.kill(pid, number)
        except PermissionError as error:
            sentence = f"process {pid} belongs to another user; stop it as that user, or as root"
            raise WorldFailure(sentence) from error


def _gone(home: Home, wait_s: float) -> bool:
    """A daemon thread waits, because only a daemon thread lets us end if the peer never does."""
    released = threading.Event()

    def wait() -> None:
        wait_released(home)
        released.set()

    threading.Thread(target=wait, daemon=True).start()
    return released.wait(wait_s)
