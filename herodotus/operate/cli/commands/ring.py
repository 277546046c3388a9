"""How does a tester start, watch, hurt and end a ring of real peers on this machine? `ring ...`."""

import shlex
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from subprocess import Popen

import anyio
import click
from platformdirs import user_data_path
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from herodotus.core.charter import Charter
from herodotus.core.errors import Misuse, NotFound
from herodotus.core.orders import Begin
from herodotus.home.clock import unix_seconds
from herodotus.home.folder import Home, check_network, running_on
from herodotus.home.seeds import add_seeds
from herodotus.operate import lab_ring, lab_web
from herodotus.operate.cli.choices import BUILT_IN_CHARTERS, chosen_charter
from herodotus.operate.cli.frame import SECONDS, CommandFrame, framed, main
from herodotus.operate.lab_ring import Lab, LabPeer

_IDEAL_S = 180.0
DEMO_DELAY_S = 0.1  # polite enough to be seen, quick enough to be watched

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
    """Run a ring of real peers on this machine, for tests and demonstrations.

    \b
    Examples:
      herodotus ring up --peers 8
      herodotus ring up --peers 4 --web demo
      herodotus ring kill 3 5
      herodotus ring revive 3
      herodotus ring down
    """


def _charter_of(folder: Path, network: str, *, has_web: bool, day_length_s: int | None) -> Charter:
    """A ring without a web keeps the charter as it is, so that other rings and peers of that network can join it."""
    charter = chosen_charter(network)
    if network in BUILT_IN_CHARTERS:
        if day_length_s is not None:
            charter = replace(charter, day_length_s=day_length_s)
        if has_web:
            charter = replace(charter, name=f"{charter.name} demo", delay_floor_s=DEMO_DELAY_S)
            charter = lab_ring.with_day_of(folder, charter, unix_seconds())
        return charter
    if day_length_s is not None:
        raise click.UsageError(
            "--day-length works with the built-in charters: write day_length_s into your file"
        )
    if has_web and not charter.allow_private_addresses:
        raise click.UsageError(f"--web is on this machine, and {network} does not allow_private_addresses")
    return charter


@ring.command()
@click.option("--peers", "count", type=click.IntRange(1, lab_ring.PEERS_MAX), default=5, show_default=True)
@click.option("--base-port", type=click.IntRange(1024, 60_000), default=4484, show_default=True, metavar="P")
@click.option("--network", metavar="FILE", default="test", show_default=True, help="Charter of the ring.")
@click.option(
    "--web",
    type=click.Choice(["demo"]),
    help="Also serve a made-up web and let the ring crawl it. The day of a new ring begins at once.",
)
@click.option(
    "--web-hosts",
    type=click.IntRange(1, lab_web.HOSTS_MAX),
    default=lab_web.HOSTS,
    show_default=True,
    metavar="N",
    help="Hosts of the made-up web.",
)
@click.option(
    "--web-pages",
    type=click.IntRange(lab_web.PAGES_LEAST),
    default=lab_web.PAGES_MAX,
    show_default=True,
    metavar="N",
    help="Pages of its largest host.",
)
@click.option(
    "--day-length",
    "day_length_s",
    type=click.IntRange(10, 86_400),
    metavar="S",
    help="Seconds in a day of the ring and its web (default: the charter's day; the web does not change).",
)
@wait_option
@folder_option
@framed(json=True)
def up(
    frame: CommandFrame,
    count: int,
    base_port: int,
    network: str,
    web: str | None,
    web_hosts: int,
    web_pages: int,
    day_length_s: int | None,
    wait_s: float,
    folder: Path,
) -> None:
    """Start peers, each with its own home, and wait until their ring is ideal."""
    folder = folder.absolute()
    if running := len(lab_ring.processes_on(lab_ring.homes_of(folder))):
        down = f"herodotus ring down --dir {shlex.quote(str(folder))}"
        raise Misuse(
            f"{folder} already holds a ring of which {running} peers run; end it with `{down}`, or use another --dir"
        )
    lab_web.end(folder)  # of a ring whose `up` was killed
    charter = _charter_of(folder, network, has_web=web is not None, day_length_s=day_length_s)
    peers = tuple(lab_ring.place(folder, number, base_port) for number in range(count))
    for peer in peers:
        home = Home(Path(peer.home))
        lab_ring.make_home(home, charter)
        check_network(charter, home, file=Path(network))
    with ExitStack() as undo:
        control = None
        if web is not None:
            process, control = lab_web.start(
                folder, base_port + lab_web.PORT_OFFSET, day_length_s, hosts=web_hosts, pages_max=web_pages
            )
            undo.callback(lab_web.end_process, process)
        try:
            _start_all(frame, folder, peers, wait_s, control)
        except lab_ring.NotIdeal:
            undo.pop_all()  # the ring keeps running, and its web with it
            raise
        if control is not None:
            _seed(Home(Path(peers[0].home)), lab_web.front_pages(control), unix_seconds())
        undo.pop_all()
    lab = Lab(peers=tuple(map(_with_pid, peers)), web=control)
    lab_ring.save(folder, lab)
    lines = [f"{peer.peer}  {peer.http}/  pid {peer.pid}" for peer in lab.peers]
    if control is not None:
        lines.append(f"web   {control}  log {lab_web.log_in(folder)}")
    frame.show(asdict(lab), lines)


def _seed(home: Home, urls: list[str], now_s: float) -> None:
    """Given to one peer when the ring is ideal: who owns what is then agreed on."""
    from herodotus.operate.order_socket import ask_at_door

    add_seeds(home.path, urls, now=now_s)
    ask_at_door(home, Begin(urls=tuple(urls)), lambda _words: None)


def _start_all(
    frame: CommandFrame, folder: Path, peers: tuple[LabPeer, ...], wait_s: float, control: str | None
) -> None:
    first = peers[0].peer
    lab_ring.save(folder, Lab(peers=peers, web=control))
    started: dict[str, Popen[bytes]] = {}
    try:
        for number, peer in enumerate(peers):
            with _interrupted_afterwards():  # between a process and its name in `started` it would be lost
                started[peer.home] = _start(peer, join=first if number else None)
        _wait(frame, peers, started, wait_s, "forming the ring")
    except lab_ring.NotIdeal:
        raise
    except BaseException:  # Ctrl-C takes several forms; in any case no process is left behind
        lab_ring.give_up(folder, started.values())
        raise


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


def _start(peer: LabPeer, join: str | None) -> Popen[bytes]:
    return lab_ring.start(Path(peer.home), peer.peer, peer.http.removeprefix("http://"), join)


def _with_pid(peer: LabPeer) -> LabPeer:
    running = running_on(Home(Path(peer.home)))
    return replace(peer, pid=running.pid if running else 0)


def _wait(
    frame: CommandFrame,
    peers: tuple[LabPeer, ...],
    started: dict[str, Popen[bytes]],
    wait_s: float,
    words: str,
) -> None:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} peers"),
    )
    is_shown = frame.console.is_terminal and frame.loudness >= 0
    with Progress(*columns, TimeElapsedColumn(), console=frame.console, disable=not is_shown) as bar:
        task = bar.add_task(words, total=len(peers))
        anyio.run(
            lab_ring.wait_ideal, peers, started, wait_s, lambda ideal: bar.update(task, completed=ideal)
        )


@ring.command("status")
@folder_option
@framed(json=True)
def ring_status(frame: CommandFrame, folder: Path) -> None:
    """Show each peer of the ring and how it sees the ring."""
    lab = lab_ring.load(folder.absolute())
    shown, lines = [], []
    for number, peer in enumerate(lab.peers):
        view = lab_ring.ring_view(peer) if lab_ring.is_running(peer) else None
        shown.append({"home": peer.home, "peer": peer.peer, "http": peer.http, "ring": view})
        state = "down" if view is None else f"members {view.get('members')}  ideal {view.get('ideal')}"
        lines.append(f"{number:>3}  {peer.peer}  {peer.http}/  {state}")
    frame.show({"peers": shown, "web": lab.web}, lines)


@ring.command()
@click.argument("numbers", nargs=-1, required=True, type=click.IntRange(0))
@folder_option
@framed()
def kill(frame: CommandFrame, numbers: tuple[int, ...], folder: Path) -> None:
    """Kill these peers with SIGKILL, as a power cut would (0 is the first)."""
    for number, peer in _chosen(lab_ring.load(folder.absolute()), numbers):
        frame.say(f"killed peer {number}" if lab_ring.kill(peer) else f"peer {number} was not running")


@ring.command()
@click.argument("numbers", nargs=-1, required=True, type=click.IntRange(0))
@wait_option
@folder_option
@framed()
def revive(frame: CommandFrame, numbers: tuple[int, ...], wait_s: float, folder: Path) -> None:
    """Start these peers again in their homes, and wait until the ring is ideal."""
    folder = folder.absolute()
    lab = lab_ring.load(folder)
    alive = [peer for peer in lab.peers if lab_ring.is_running(peer)]
    started = {}
    for _number, peer in _chosen(lab, numbers):
        if not lab_ring.is_running(peer):
            started[peer.home] = _start(peer, join=alive[0].peer if alive else None)
            alive.append(peer)
    _wait(frame, tuple(alive), started, wait_s, "repairing the ring")
    lab_ring.save(folder, Lab(peers=tuple(map(_with_pid, lab.peers)), web=lab.web))


def _chosen(lab: Lab, numbers: tuple[int, ...]) -> list[tuple[int, LabPeer]]:
    for number in numbers:
        if number >= len(lab.peers):
            raise NotFound(f"the ring has no peer {number}: its peers are 0 to {len(lab.peers) - 1}")
    return [(number, lab.peers[number]) for number in sorted(set(numbers))]


@ring.command()
@folder_option
@framed()
def down(frame: CommandFrame, folder: Path) -> None:
    """Stop all peers of the ring and its web. Their homes stay."""
    folder = folder.absolute()
    homes = lab_ring.homes_of(folder)
    webs = lab_web.end(folder)
    if not webs and not lab_ring.note_in(folder).exists() and not lab_ring.processes_on(homes):
        raise lab_ring.NoLab(folder)
    stopped, killed = anyio.run(lab_ring.end, homes, 15.0)
    lab_ring.note_in(folder).unlink(missing_ok=True)
    frame.say(f"stopped {stopped} peers" + (f", killed {killed} that did not stop" if killed else ""))
