"""How does a tester start, look at, hurt and end a ring of real peers on this machine? `ring ...`."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from subprocess import Popen

import anyio
import click
from platformdirs import user_data_path
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from herodotus import ringlab
from herodotus.cli.frame import SECONDS, Frame, common_options, json_option, main, pass_frame
from herodotus.cli.setup import chosen_charter
from herodotus.home import Home, running_on
from herodotus.ringlab import Lab, LabPeer

_IDEAL_S = 180.0

folder_option = click.option(
    "--dir",
    "folder",
    metavar="D",
    type=click.Path(file_okay=False, path_type=Path),
    default=lambda: user_data_path("herodotus", appauthor=False) / "ring",
    show_default="the platform's data folder, ring/",
    help="Folder of the ring's homes.",
)

wait_option = click.option(
    "--wait",
    "wait_s",
    type=SECONDS,
    default=_IDEAL_S,
    show_default=True,
    metavar="S",
    help="At most.",
)


@main.group()
def ring() -> None:
    """A ring of real peers on this machine, for tests and demonstrations.

    \b
    Examples:
      herodotus ring up --peers 8
      herodotus ring kill 3 5
      herodotus ring revive 3
      herodotus ring down
    """


@ring.command()
@click.option("--peers", "count", type=click.IntRange(1, ringlab.PEERS_MAX), default=5, show_default=True)
@click.option("--base-port", type=click.IntRange(1024, 60_000), default=4484, show_default=True, metavar="P")
@click.option("--network", metavar="FILE", default="test", show_default=True, help="Charter of the ring.")
@wait_option
@folder_option
@common_options
@json_option
@pass_frame
def up(frame: Frame, count: int, base_port: int, network: str, wait_s: float, folder: Path) -> None:
    """Start peers with homes of their own, each joining the first, and wait until the ring is ideal."""
    folder = folder.absolute()
    _refuse_running(folder)
    charter = chosen_charter(network)
    peers = tuple(ringlab.place(folder, number, base_port) for number in range(count))
    for peer in peers:
        ringlab.make_home(Home(Path(peer.home)), charter)
    first = peers[0].peer
    ringlab.save(folder, Lab(peers=peers))
    started: dict[str, Popen[bytes]] = {}
    try:
        for number, peer in enumerate(peers):
            with _interrupted_afterwards():  # between a process and its name in `started` it would be lost
                started[peer.home] = _start(peer, join=first if number else None)
        _wait(frame, peers, started, wait_s, "forming the ring")
    except ringlab.NotIdeal:
        raise
    except BaseException:  # Ctrl-C takes several forms, and whatever it was: nobody is left behind
        ringlab.give_up(folder, started.values())
        raise
    lab = Lab(peers=tuple(map(_with_pid, peers)))
    ringlab.save(folder, lab)
    if frame.is_json:
        frame.print_json(lab.to_json())
        return
    for peer in lab.peers:
        click.echo(f"{peer.peer}  {peer.http}/  pid {peer.pid}")


@contextmanager
def _interrupted_afterwards() -> Iterator[None]:
    """Ctrl-C waits until the block is done."""
    noted: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: noted.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if noted:
        raise KeyboardInterrupt


def _refuse_running(folder: Path) -> None:
    if running := len(ringlab.processes_on(ringlab.homes_of(folder))):
        raise ringlab.LabExists(folder, running)


def _start(peer: LabPeer, join: str | None) -> Popen[bytes]:
    return ringlab.start(Path(peer.home), peer.peer, peer.http.removeprefix("http://"), join)


def _with_pid(peer: LabPeer) -> LabPeer:
    running = running_on(Home(Path(peer.home)))
    return LabPeer(home=peer.home, peer=peer.peer, http=peer.http, pid=running.pid if running else 0)


def _wait(
    frame: Frame, peers: tuple[LabPeer, ...], started: dict[str, Popen[bytes]], wait_s: float, words: str
) -> None:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} peers"),
    )
    is_shown = frame.console.is_terminal and frame.loudness >= 0
    with Progress(*columns, TimeElapsedColumn(), console=frame.console, disable=not is_shown) as bar:
        task = bar.add_task(words, total=len(peers))
        anyio.run(ringlab.wait_ideal, peers, started, wait_s, partial(_advance, bar, int(task)))


def _advance(bar: Progress, task: int, ideal: int) -> None:
    bar.update(bar.tasks[task].id, completed=ideal)


@ring.command("status")
@folder_option
@common_options
@json_option
@pass_frame
def ring_status(frame: Frame, folder: Path) -> None:
    """Show each peer of the ring and how it sees the ring."""
    lab = ringlab.load(folder.absolute())
    rows = [
        (number, peer, ringlab.ring_view(peer) if ringlab.is_running(peer) else None)
        for number, peer in enumerate(lab.peers)
    ]
    if frame.is_json:
        shown = [
            {"home": peer.home, "peer": peer.peer, "http": peer.http, "ring": view} for _, peer, view in rows
        ]
        frame.print_json({"peers": shown, "web": lab.web})
        return
    for number, peer, view in rows:
        state = "down" if view is None else f"members {view.get('members')}  ideal {view.get('ideal')}"
        click.echo(f"{number:>3}  {peer.peer}  {peer.http}/  {state}")


@ring.command()
@click.argument("numbers", nargs=-1, required=True, type=click.IntRange(0))
@folder_option
@common_options
@pass_frame
def kill(frame: Frame, numbers: tuple[int, ...], folder: Path) -> None:
    """Kill these peers (0 is the first) with SIGKILL, as a power cut would."""
    for number, peer in _chosen(ringlab.load(folder.absolute()), numbers):
        frame.say(f"killed peer {number}" if ringlab.kill(peer) else f"peer {number} was not running")


@ring.command()
@click.argument("numbers", nargs=-1, required=True, type=click.IntRange(0))
@wait_option
@folder_option
@common_options
@pass_frame
def revive(frame: Frame, numbers: tuple[int, ...], wait_s: float, folder: Path) -> None:
    """Start these peers again with the homes they had, and wait until the ring is ideal."""
    folder = folder.absolute()
    lab = ringlab.load(folder)
    alive = [peer for peer in lab.peers if ringlab.is_running(peer)]
    started = {}
    for _number, peer in _chosen(lab, numbers):
        if not ringlab.is_running(peer):
            started[peer.home] = _start(peer, join=alive[0].peer if alive else None)
            alive.append(peer)
    _wait(frame, tuple(alive), started, wait_s, "mending the ring")
    ringlab.save(folder, Lab(peers=tuple(map(_with_pid, lab.peers)), web=lab.web))


def _chosen(lab: Lab, numbers: tuple[int, ...]) -> list[tuple[int, LabPeer]]:
    for number in numbers:
        if number >= len(lab.peers):
            raise ringlab.NoSuchPeer(number, len(lab.peers))
    return [(number, lab.peers[number]) for number in sorted(set(numbers))]


@ring.command()
@folder_option
@common_options
@pass_frame
def down(frame: Frame, folder: Path) -> None:
    """Stop all peers of the ring; their homes stay."""
    folder = folder.absolute()
    homes = ringlab.homes_of(folder)
    if not ringlab.note_in(folder).exists() and not ringlab.processes_on(homes):
        raise ringlab.NoLab(folder)
    stopped, killed = anyio.run(ringlab.end, homes, 15.0)
    ringlab.note_in(folder).unlink(missing_ok=True)
    frame.say(f"stopped {stopped} peers" + (f", killed {killed} that would not stop" if killed else ""))
