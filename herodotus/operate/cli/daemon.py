"""How is the peer started, asked and stopped? `run`, `status`, `stop`."""

import contextlib
import fcntl
import json
import os
import signal
import threading
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import click

from herodotus import machine
from herodotus.core.errors import WorldFailure
from herodotus.core.orders import HandOver
from herodotus.core.status import PeerStatus
from herodotus.home.folder import (
    Home,
    HomeMissing,
    check_network,
    locked,
    open_home,
    running_on,
    wait_released,
)
from herodotus.home.rotation import standing_previous_key
from herodotus.home.seeds import add_seeds
from herodotus.operate.cli.crawl import checked_seeds
from herodotus.operate.cli.frame import (
    SECONDS,
    CommandFrame,
    NotRunning,
    common_options,
    json_option,
    main,
    pass_frame,
)
from herodotus.operate.cli.printing import print_line, print_text
from herodotus.operate.cli.setup import chosen_charter, unlocked_key
from herodotus.operate.cli.status_text import harmless, status_lines
from herodotus.operate.http_questions import NoAnswer, ask
from herodotus.operate.logs import log_tail
from herodotus.operate.settings.load import text_layer, with_http_beside_ring

_WATCH_PERIOD_S = 2.0
_LOG_LINES = 5


class StillRunning(WorldFailure):
    def __init__(self, pid: int, waited_s: float) -> None:
        self.pid = pid
        self.waited_s = waited_s

    def __str__(self) -> str:
        return f"process {self.pid} is still running after {self.waited_s:g} s; `herodotus stop --force` kills it"


class StillHolding(WorldFailure):
    def __init__(self, waited_s: float) -> None:
        self.waited_s = waited_s

    def __str__(self) -> str:
        return (
            f"after {self.waited_s:g} s the peer has not handed over everything, so it keeps running; "
            "nothing handed over is lost: try again, or stop the peer without --hand-over"
        )


class NotOurs(WorldFailure):
    def __init__(self, pid: int) -> None:
        self.pid = pid

    def __str__(self) -> str:
        return f"process {self.pid} belongs to another user; stop it as that user, or as root"


@main.command()
@click.option(
    "--listen", metavar="IP:PORT", help="Where other peers reach this peer (default: 0.0.0.0:4484)."
)
@click.option(
    "--http", metavar="IP:PORT", help="Where readers reach the portal (default: the peer's port + 1000)."
)
@click.option(
    "--join", metavar="IP:PORT", multiple=True, help="A peer to join the ring through; several are better."
)
@click.option(
    "--seed", metavar="URL", multiple=True, help="A page to start at; kept, as by `herodotus seed add`."
)
@click.option(
    "--service-worker",
    metavar="FILE",
    help="For archived pages, instead of ours; needs http.replay_url (docs/look-up/http.md).",
)
@click.option("--virtual", metavar="N", help="Positions on the ring (default: by the offered disk).")
@click.option("--network", metavar="FILE", help="Refuse to start unless the home belongs to this network.")
@click.option(
    "--ready-fd",
    metavar="N",
    type=click.IntRange(0),
    help="Write one JSON line to this descriptor when serving.",
)
@common_options
@json_option
@pass_frame
def run(
    frame: CommandFrame,
    listen: str | None,
    http: str | None,
    join: tuple[str, ...],
    seed: tuple[str, ...],
    service_worker: str | None,
    virtual: str | None,
    network: str | None,
    ready_fd: int | None,
) -> None:
    """Run the peer until Ctrl-C. It serves readers, takes part in the ring, and crawls its share every day.

    The first SIGINT or SIGTERM finishes open work and stops; a second one stops at once.

    \b
    Examples:
      herodotus run
      herodotus run --join 192.0.2.7:4484 --seed https://example.org/
      herodotus run --home /srv/herodotus --listen 0.0.0.0:4500 --http 127.0.0.1:8080
    """
    from herodotus import peer as peers  # with the HTTP server and all, which no other command needs
    from herodotus.operate.heap import keep_heap_small
    from herodotus.operate.offer import step_back, with_offered_positions

    os.umask(0o077)
    if ready_fd is not None:
        _check_open(ready_fd)
    charter = open_home(frame.home)
    if network is not None:
        check_network(chosen_charter(network), frame.home, file=Path(network))
    given = {
        "http.listen": ("--http", http),
        "ring.listen": ("--listen", listen),
        "ring.join": ("--join", ",".join(join) or None),
        "http.service_worker": ("--service-worker", service_worker),
        "ring.virtual_nodes": ("--virtual", virtual),
    }
    flags = {key: (source, text) for key, (source, text) in given.items() if text is not None}
    effective = with_http_beside_ring(frame.effective(text_layer(flags)))
    key, passphrase = unlocked_key(frame.home.key)
    step_back(effective.settings.budget.niceness)
    keep_heap_small()
    with locked(frame.home):
        parts = peers.PeerParts(
            home=frame.home,
            charter=charter,
            settings=with_offered_positions(frame.home, charter, effective.settings),
            key=key,
            previous_key=standing_previous_key(frame.home, key, passphrase, machine.unix_seconds()),
        )
        frame.configure_logs(effective, into_home=True)
        if seed:
            wanted = checked_seeds(seed, charter, effective.settings.crawl.opt_out)
            add_seeds(frame.home.path, wanted, now=machine.unix_seconds())
        on_ready = partial(_announce, frame, ready_fd)
        anyio.run(
            peers.run,
            parts,
            machine.Machine(),
            on_ready,
            backend="asyncio",
            backend_options={"use_uvloop": True},
        )


def _check_open(descriptor: int) -> None:
    """Must be called before anything else is opened, because that could get this very number."""
    try:
        is_open = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
    except OSError:
        is_open = False
    if not is_open:
        raise click.BadParameter(f"{descriptor} is not open for writing", param_hint="'--ready-fd'")


def _announce(frame: CommandFrame, ready_fd: int | None, status: PeerStatus) -> None:
    facts = {"peer_id": status.peer_id, "http": status.http, "home": str(frame.home.path), "pid": status.pid}
    if ready_fd is not None:
        with contextlib.suppress(BrokenPipeError), os.fdopen(ready_fd, "w", closefd=ready_fd > 2) as channel:
            channel.write(json.dumps(facts) + "\n")  # the starter may have left; the peer serves anyway
    if frame.is_json:
        frame.print_json(facts)
    else:
        print_line(f"ready: {status.http}/ (peer {status.peer_id[:14]}, Ctrl-C stops)")


@main.command()
@click.option("--peer", metavar="URL", help="Ask this peer instead of the one of the home.")
@click.option("--watch", is_flag=True, help="Repeat until Ctrl-C; rates are then those of the moment.")
@common_options
@json_option
@pass_frame
def status(frame: CommandFrame, peer: str | None, watch: bool) -> None:
    """Show what a peer holds and does, and how it sees its ring.

    \b
    Examples:
      herodotus status
      herodotus status --watch
      herodotus status --json --peer http://192.0.2.7:5484
    """
    address = peer or _running_address(frame)
    token = "" if peer else _operator_token(frame.home)  # which is for no other peer's eyes
    facts = _facts_of(address, token)
    log = None if peer else frame.home.log
    _show(frame, facts, None, log)
    with contextlib.suppress(KeyboardInterrupt):  # the way out that `--watch` names
        while watch:
            anyio.run(anyio.sleep, _WATCH_PERIOD_S)
            facts, previous = _facts_of(address, token), facts
            if not frame.is_json:
                click.clear()
            _show(frame, facts, previous, log)


def _running_address(frame: CommandFrame) -> str:
    if not frame.home.exists():
        raise HomeMissing(frame.home)
    running = running_on(frame.home)
    if running is None:
        raise NotRunning(frame.home)
    if not running.http:
        raise NoAnswer(str(frame.home.path), f"process {running.pid} is still starting")
    return running.http


def _operator_token(home: Home) -> str:
    """Proves the operator at any address; without it the peer recognises its operator at a loopback address only."""
    try:
        return home.token.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _facts_of(address: str, token: str) -> dict[str, Any]:
    facts = ask(address, "/api/v1/status", token)
    if not isinstance(facts, dict):
        raise NoAnswer(address, "the answer is not a peer's status")
    return facts


def _show(
    frame: CommandFrame, facts: dict[str, Any], previous: dict[str, Any] | None, log: Path | None
) -> None:
    if frame.is_json:
        frame.print_json(facts)
        return
    tail = log_tail(log)[-_LOG_LINES:] if log is not None else []
    lines = ["", "the log's last lines", *map(harmless, tail)] if tail else []
    print_text("\n".join([*status_lines(facts, previous), *lines, ""]))


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
@common_options
@pass_frame
def stop(frame: CommandFrame, force: bool, wait_s: float, hand_over_s: float | None) -> None:
    """Stop the peer of this home and wait until it is gone."""
    if not frame.home.exists():
        raise HomeMissing(frame.home)
    running = running_on(frame.home)
    if running is None or not running.pid:
        raise NotRunning(frame.home)
    if hand_over_s is not None:
        _hand_over(frame, hand_over_s)
    end_process(frame, running.pid, wait_s, force=force)


def end_process(frame: CommandFrame, pid: int, wait_s: float, *, force: bool = False) -> None:
    """The peer of the frame's home; it may be ending by itself already."""
    _signal(pid, signal.SIGTERM)
    if _gone(frame.home, wait_s):
        frame.say(f"stopped process {pid}")
        return
    if not force:
        raise StillRunning(pid, wait_s)
    _signal(pid, signal.SIGKILL)
    if not _gone(frame.home, wait_s):
        raise StillRunning(pid, wait_s)
    frame.say(f"killed process {pid}")


def _hand_over(frame: CommandFrame, wait_s: float) -> None:
    from herodotus.copies.hand_over import others
    from herodotus.operate.order_socket import ask_at_door

    facts = ask_at_door(frame.home, HandOver(wait_s=wait_s), frame.say).facts
    if not facts["is_over"]:
        raise StillHolding(wait_s)
    frame.say(
        f"everything it held is with {others(facts['peers'])}" if facts["peers"] else "it holds nothing"
    )


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):  # gone by itself in the meantime: what was wanted
        try:
            os.kill(pid, number)
        except PermissionError as error:
            raise NotOurs(pid) from error


def _gone(home: Home, wait_s: float) -> bool:
    """A daemon thread waits, because only a daemon thread lets us end if the peer never does."""
    released = threading.Event()

    def wait() -> None:
        wait_released(home)
        released.set()

    threading.Thread(target=wait, daemon=True).start()
    return released.wait(wait_s)
