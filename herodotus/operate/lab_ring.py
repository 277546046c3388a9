"""How does a tester get a ring of real peers on one machine? Homes, processes and the note that remembers them.

Each peer is an ordinary `herodotus run` with its own home and its own port on loopback. The others join the first one.
`ring.json` in the lab's folder lists them, so that later commands find them again.
"""

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import anyio
import anyio.to_thread
import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from herodotus.core.charter import Charter, founded_on
from herodotus.core.errors import Misuse, NotFound, WorldFailure
from herodotus.core.settings.sections import HTTP_PORT_OFFSET
from herodotus.home.durable import write_durably
from herodotus.home.folder import Home, NewHome, create_home, read_charter, running_on, wait_released
from herodotus.home.identity import key_to_pem
from herodotus.operate.http_questions import NoAnswer, ask
from herodotus.operate.lab_web import end_process, running_commands
from herodotus.operate.settings.load import Layer, resolve
from herodotus.operate.settings.render import commented_file

PEERS_MAX = 999  # so the last peer's ring port stays below the first peer's portal port
_ASK_PERIOD_S = 0.25
_END_PERIOD_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class LabPeer:
    home: str
    peer: str
    http: str
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lab:
    """What `ring up --json` prints and `ring.json` holds."""

    peers: tuple[LabPeer, ...]
    web: str | None = None


class NoLab(NotFound):
    def __init__(self, folder: Path) -> None:
        super().__init__(
            f"{folder} holds no ring; start one with `herodotus ring up --dir {shlex.quote(str(folder))}`"
        )


class NotIdeal(WorldFailure):
    def __init__(self, waited_s: float, ideal: int, wanted: int) -> None:
        super().__init__(
            f"after {waited_s:.0f} s {ideal} of {wanted} peers see an ideal ring; it keeps running: "
            "look with `herodotus ring status`, or end it with `herodotus ring down`"
        )


def note_in(folder: Path) -> Path:
    return folder / "ring.json"


def load(folder: Path) -> Lab:
    try:
        return msgspec.json.decode(note_in(folder).read_bytes(), type=Lab)
    except FileNotFoundError:
        raise NoLab(folder) from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise LabDamaged(folder) from error


class LabDamaged(Misuse):
    def __init__(self, folder: Path) -> None:
        way_out = f"`herodotus ring down --dir {shlex.quote(str(folder))}` ends its peers and deletes it"
        super().__init__(f"{note_in(folder)} is damaged; {way_out}")


def save(folder: Path, lab: Lab) -> None:
    write_durably(note_in(folder), json.dumps(asdict(lab), indent=1).encode())


def place(folder: Path, number: int, base_port: int) -> LabPeer:
    port = base_port + number
    return LabPeer(
        home=str(folder / f"peer-{number:03}"),
        peer=f"127.0.0.1:{port}",
        http=f"http://127.0.0.1:{port + HTTP_PORT_OFFSET}",
        pid=0,
    )


def with_day_of(folder: Path, charter: Charter, now_s: float) -> Charter:
    """With the day of the homes in this folder. Where there are none yet, the network is founded today, and a day
    begins now, to the minute: a ring that crawls at once has a whole day for it, rather than the rest of one, in which
    stand-ins soon help the owners.
    """
    first = Home(Path(place(folder, 0, 0).home))
    if first.exists():
        known = read_charter(first.charter)
        return replace(charter, day_start=known.day_start, founded=known.founded)
    # Days need not divide 24 hours: of all starts that can be written down, the one whose last day began most lately.
    minute = min(range(24 * 60), key=lambda minute: (now_s - 60 * minute) % charter.day_length_s)
    return replace(founded_on(charter, now_s), day_start=f"{minute // 60:02}:{minute % 60:02}")


def make_home(home: Home, charter: Charter, chosen: Mapping[str, object] = MappingProxyType({})) -> None:
    """`chosen` are settings by dotted key, beside those of the test preset."""
    if home.exists():
        return  # the peers of an earlier ring keep their homes
    config = commented_file(resolve(Layer(preset="test")).preset, chosen)
    key_pem = key_to_pem(Ed25519PrivateKey.generate(), None)
    create_home(home, NewHome(config=config, charter=charter, key_pem=key_pem))


def is_running(peer: LabPeer) -> bool:
    return running_on(Home(Path(peer.home))) is not None


def herodotus(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "herodotus", *arguments]


def start(home: Path, listen: str, http: str, join: str | None) -> subprocess.Popen[bytes]:
    """A peer in its own session, so that Ctrl-C at our terminal does not reach it."""
    command = herodotus("run", "--home", str(home), "--listen", listen, "--http", http, "--quiet")
    command += ["--join", join] if join else []
    with (home / "log" / "console.log").open("ab") as console:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=console, stderr=console, start_new_session=True
        )


def give_up(folder: Path, started: Collection[subprocess.Popen[bytes]]) -> None:
    """Ends a ring that could not form: no peer and no note is left behind."""
    for process in started:
        process.terminate()
    for process in started:
        end_process(process)
    note_in(folder).unlink(missing_ok=True)


async def wait_ideal(
    peers: Sequence[LabPeer],
    started: Mapping[str, subprocess.Popen[bytes]],
    wait_s: float,
    progress: Callable[[int], None],
) -> None:
    """Waits until each peer sees exactly these peers in an ideal ring. `started` are processes by home."""
    ideal: set[str] = set()
    with anyio.move_on_after(wait_s):
        while True:
            for peer in peers:
                _check_alive(peer, started.get(peer.home))
            ideal = await _who_sees_ideal(peers)
            progress(len(ideal))
            if len(ideal) == len(peers):
                return
            await anyio.sleep(_ASK_PERIOD_S)
    raise NotIdeal(wait_s, len(ideal), len(peers))


def _check_alive(peer: LabPeer, process: subprocess.Popen[bytes] | None) -> None:
    if process is not None and process.poll() is not None:
        log = Path(peer.home) / "log" / "console.log"
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        said = (lines[-1] if lines else "") or "it said nothing"
        raise WorldFailure(f"the peer of {peer.home} ended while starting: {said}; see {log}")


async def _who_sees_ideal(peers: Sequence[LabPeer]) -> set[str]:
    ideal: set[str] = set()

    async def look(peer: LabPeer) -> None:
        view = await anyio.to_thread.run_sync(ring_view, peer)
        if view is not None and view.get("ideal") and view.get("members") == len(peers):
            ideal.add(peer.home)

    async with anyio.create_task_group() as tasks:
        for peer in peers:
            tasks.start_soon(look, peer)
    return ideal


def ring_view(peer: LabPeer) -> dict[str, Any] | None:
    """How the peer sees the ring; None while it does not answer."""
    try:
        view = ask(peer.http, "/api/v1/status")["ring"]
    except (NoAnswer, KeyError, TypeError):
        return None
    return view if isinstance(view, dict) else None


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):  # it has just ended by itself
        os.kill(pid, number)


def kill(peer: LabPeer) -> bool:
    """Kills as a power cut would; False if the peer was not running."""
    running = running_on(Home(Path(peer.home)))
    if running is None or not running.pid:
        return False
    _signal(running.pid, signal.SIGKILL)
    wait_released(Home(Path(peer.home)))
    return True


def homes_of(folder: Path) -> set[str]:
    """The ring that is or was here; its note may be missing or damaged."""
    noted: set[str] = set()
    with suppress(NoLab, LabDamaged):
        noted = {peer.home for peer in load(folder).peers}
    return noted | {str(home) for home in folder.glob("peer-[0-9][0-9][0-9]") if Home(home).exists()}


def processes_on(homes: Collection[str]) -> dict[int, str]:
    """Processes of these homes: those that hold a home, and those just started, which will in a moment."""
    found = {}
    for home in homes:
        running = running_on(Home(Path(home)))
        if running is not None and running.pid:
            found[running.pid] = home
    for pid, words in running_commands():
        if words[1:5] == ["-m", "herodotus", "run", "--home"] and words[5] in homes:
            found[pid] = words[5]
    return found


async def end(homes: Collection[str], wait_s: float) -> tuple[int, int]:
    """(stopped by themselves, killed). All are asked to stop first, at once."""
    asked = processes_on(homes)
    for pid in asked:
        _signal(pid, signal.SIGTERM)
    with anyio.move_on_after(wait_s):
        while True:
            if not processes_on(homes).keys() & asked.keys():
                break
            await anyio.sleep(_END_PERIOD_S)
    stubborn = processes_on(homes).keys() & asked.keys()
    for pid in stubborn:
        _signal(pid, signal.SIGKILL)
    for home in {asked[pid] for pid in stubborn}:
        wait_released(Home(Path(home)))
    return len(asked) - len(stubborn), len(stubborn)
