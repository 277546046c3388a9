"""How is the peer started, asked and stopped? `run`, `status`, `stop`."""

import json
import os
import signal
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
import click

from herodotus import peer as peers
from herodotus.asking import NoAnswer, ask
from herodotus.cli.frame import Frame, NotRunning, common_options, json_option, main, pass_frame
from herodotus.cli.setup import chosen_charter, passphrase_from_environment
from herodotus.config.load import text_layer
from herodotus.core.errors import WorldFailure
from herodotus.core.status import PeerStatus
from herodotus.home import HomeMissing, check_network, locked, open_home, running_on, wait_released
from herodotus.identity import load_key, peer_id


class StillRunning(WorldFailure):
    def __init__(self, pid: int, waited_s: float) -> None:
        self.pid = pid
        self.waited_s = waited_s

    def __str__(self) -> str:
        return f"process {self.pid} still runs after {self.waited_s:g} s; `herodotus stop --force` kills it"


@main.command()
@click.option("--http", metavar="IP:PORT", help="Where readers reach the portal (default: 0.0.0.0:5484).")
@click.option("--network", metavar="FILE", help="Refuse to start unless the home belongs to this network.")
@click.option(
    "--ready-fd", metavar="N", type=click.IntRange(0), help="Write one JSON line there when serving."
)
@common_options
@json_option
@pass_frame
def run(frame: Frame, http: str | None, network: str | None, ready_fd: int | None) -> None:
    """Run the peer until Ctrl-C.

    The first SIGINT or SIGTERM ends open work and stops, a second one stops at once.

    \b
    Examples:
      herodotus run
      herodotus run --home /srv/herodotus --http 127.0.0.1:8080
    """
    os.umask(0o077)
    charter = open_home(frame.home)
    if network is not None:
        check_network(chosen_charter(network), frame.home, file=Path(network))
    flags = {"http.listen": ("--http", http)} if http is not None else {}
    effective = frame.effective(text_layer(flags))
    key = load_key(frame.home.key, passphrase_from_environment())
    parts = peers.PeerParts(
        home=frame.home, charter=charter, settings=effective.settings, peer_id=peer_id(key.public_key())
    )
    with locked(frame.home):
        frame.configure_logs(effective, into_home=True)
        on_ready = partial(_announce, frame, ready_fd)
        anyio.run(peers.run, parts, on_ready, backend="asyncio", backend_options={"use_uvloop": True})


def _announce(frame: Frame, ready_fd: int | None, status: PeerStatus) -> None:
    facts = {"peer_id": status.peer_id, "http": status.http, "home": str(frame.home.path), "pid": status.pid}
    if ready_fd is not None:
        with os.fdopen(ready_fd, "w") as channel:
            channel.write(json.dumps(facts) + "\n")
    if frame.is_json:
        frame.print_json(facts)
    else:
        click.echo(f"ready: {status.http}/ (peer {status.peer_id[:14]}, Ctrl-C stops)")


@main.command()
@click.option("--peer", metavar="URL", help="Ask this peer instead of the one of the home.")
@common_options
@json_option
@pass_frame
def status(frame: Frame, peer: str | None) -> None:
    """Show what a peer holds and does.

    \b
    Examples:
      herodotus status
      herodotus status --json --peer http://192.0.2.7:5484
    """
    if peer is None:
        if not frame.home.exists():
            raise HomeMissing(frame.home)
        running = running_on(frame.home)
        if running is None or not running.http:
            raise NotRunning(frame.home)
        peer = running.http
    facts = ask(peer, "/api/v1/status")
    if not isinstance(facts, dict):
        raise NoAnswer(peer, "what came back is not a peer's status")
    if frame.is_json:
        frame.print_json(facts)
        return
    for name in (
        "peer_id",
        "nickname",
        "version",
        "network",
        "network_id",
        "http",
        "pid",
        "started",
        "uptime_s",
    ):
        click.echo(f"{name:<11} {facts.get(name, '')}")
    for name in ("ring", "crawl", "store", "copies"):
        part = facts.get(name)
        if isinstance(part, dict):
            shown = "  ".join(f"{key} {value}" for key, value in part.items() if not isinstance(value, list))
            click.echo(f"{name:<11} {shown or '-'}")


@main.command()
@click.option("--force", is_flag=True, help="Kill it when it does not stop by itself.")
@click.option("--wait", "wait_s", default=15.0, show_default=True, metavar="S", help="Seconds to wait.")
@common_options
@pass_frame
def stop(frame: Frame, force: bool, wait_s: float) -> None:
    """Stop the peer of this home and wait until it is gone."""
    if not frame.home.exists():
        raise HomeMissing(frame.home)
    running = running_on(frame.home)
    if running is None or not running.pid:
        raise NotRunning(frame.home)
    os.kill(running.pid, signal.SIGTERM)
    if anyio.run(_gone, frame, wait_s):
        frame.say(f"stopped process {running.pid}")
        return
    if not force:
        raise StillRunning(running.pid, wait_s)
    os.kill(running.pid, signal.SIGKILL)
    if not anyio.run(_gone, frame, wait_s):
        raise StillRunning(running.pid, wait_s)
    frame.say(f"killed process {running.pid}")


async def _gone(frame: Frame, wait_s: float) -> bool:
    with anyio.move_on_after(wait_s):
        await anyio.to_thread.run_sync(wait_released, frame.home, abandon_on_cancel=True)
        return True
    return False
