"""How are real peers started, hurt and repaired, each with its own line and disk where the machine allows it?"""

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from herodotus.core.charter import Charter
from herodotus.home.folder import Home
from herodotus.operate import lab_web
from herodotus.operate.lab_ring import make_home
from scripts.sweeps.namespaces import Lines

PORT = 24484
"""Of the first peer where all share the machine's ports, and of each where it has an address of its own."""
ANSWER_S = 5.0
_ROOM = "2g"
_MARGIN_BYTES = 64 * 1024


@dataclass(slots=True)
class SweptPeer:
    number: int
    home: Path
    peer: str
    http: str
    has_disk: bool
    process: "subprocess.Popen[bytes] | None" = None
    is_stopped: bool = False
    ended: int | None = None
    """The exit code of one that nobody had killed."""

    @property
    def last_words(self) -> str:
        lines = (self.home / "log" / "console.log").read_text(encoding="utf-8", errors="replace").splitlines()
        return lines[-1] if lines else "it wrote nothing"

    @property
    def is_up(self) -> bool:
        return self.process is not None


class SweptRing:
    """`lines` is None on a machine without namespaces: then all are on loopback, and no disk can be filled."""

    def __init__(
        self,
        folder: Path,
        charter: Charter,
        count: int,
        lines: Lines | None,
        disks: int,
        lines_max: int | None = None,
    ) -> None:
        """Peers beyond the first `lines_max` share the last line, as those of one household or one attacker do."""
        self.lines = lines
        self._lines_max = count if lines_max is None else lines_max
        self.peers = [self._make(folder, charter, number, lines, number < disks) for number in range(count)]

    def _line(self, number: int) -> int:
        return min(number, self._lines_max - 1)

    def _make(
        self, folder: Path, charter: Charter, number: int, lines: Lines | None, has_disk: bool
    ) -> SweptPeer:
        home, line = folder / f"peer-{number:03}", self._line(number)
        has_disk = has_disk and lines is not None
        if has_disk:
            home.mkdir(parents=True)
            _run("mount", "-t", "tmpfs", "-o", f"size={_ROOM}", "none", home)
        host = "127.0.0.1" if lines is None else lines.address(line)
        port = PORT + (number if lines is None else number - line)
        make_home(Home(home), charter)
        return SweptPeer(number, home, f"{host}:{port}", f"http://{host}:{port + 1000}", has_disk)

    # -- life

    def start(self, number: int, chosen: Mapping[str, str] = MappingProxyType({})) -> None:
        """`chosen` are settings as variables of the environment."""
        one = self.peers[number]
        others = [other.peer for other in self.up() if other is not one]
        command = [
            *(self.lines.command(self._line(number)) if self.lines else []),
            *(sys.executable, "-m", "herodotus", "run", "--home", str(one.home), "--quiet"),
            *("--listen", one.peer, "--http", one.http.removeprefix("http://")),
            *(word for other in others[:3] for word in ("--join", other)),
        ]
        with (one.home / "log" / "console.log").open("ab") as console:
            one.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                start_new_session=True,
                env={**os.environ, **chosen},
            )

    def kill(self, number: int) -> None:
        one = self.peers[number]
        if one.process is not None:
            self._note_end(one)
            one.process.kill()
            one.process.wait()
            one.process, one.is_stopped = None, False

    def stand_still(self, number: int) -> None:
        self._signal(number, signal.SIGSTOP)
        self.peers[number].is_stopped = True

    def go_on(self, number: int) -> None:
        self._signal(number, signal.SIGCONT)
        self.peers[number].is_stopped = False

    def end(self, wait_s: float) -> None:
        for one in self.peers:
            if one.process is not None:
                self._note_end(one)
                self.go_on(one.number)
                one.process.terminate()
        for one in self.peers:
            if one.process is not None:
                try:
                    one.process.wait(wait_s)
                except subprocess.TimeoutExpired:
                    one.process.kill()
                    one.process.wait()
                one.process = None

    def _signal(self, number: int, which: signal.Signals) -> None:
        process = self.peers[number].process
        if process is not None and process.poll() is None:
            os.kill(process.pid, which)

    def fallen(self) -> list[SweptPeer]:
        """Who ended and was not killed."""
        for one in self.peers:
            self._note_end(one)
        return [one for one in self.peers if one.ended is not None]

    @staticmethod
    def _note_end(one: SweptPeer) -> None:
        if one.process is not None and one.process.poll() is not None and one.ended is None:
            one.ended = one.process.returncode

    # -- disks

    def fill(self, number: int) -> None:
        """From now on nothing can be written there, by anybody."""
        home = self.peers[number].home
        used = os.statvfs(home)
        size = (used.f_blocks - used.f_bfree) * used.f_frsize + _MARGIN_BYTES
        _run("mount", "-o", f"remount,size={size}", home)

    def empty(self, number: int) -> None:
        _run("mount", "-o", f"remount,size={_ROOM}", self.peers[number].home)

    # -- looking

    def up(self) -> list[SweptPeer]:
        return [one for one in self.peers if one.is_up and not one.is_stopped]

    def statuses(self) -> dict[int, Mapping[str, Any]]:
        """Of those that answer."""
        found = {}
        for one in self.up():
            try:
                found[one.number] = _as_operator(one)
            except (OSError, http.client.HTTPException, ValueError):
                continue  # it was killed a moment ago, or is busy
        return found

    def complaints(self) -> list[str]:
        """Mistakes of ours in the logs: the line before each traceback, and what Python said last."""
        found = []
        for one in self.peers:
            for log in sorted((one.home / "log").glob("*.log*")):
                lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
                for at, line in enumerate(lines):
                    if line.lstrip().startswith("Traceback (most recent"):
                        found.append(f"{one.number} {log.name}:{at + 1} {lines[max(0, at - 1)][:160]}")
        return found


def made_up_web(folder: Path, pages_max: int) -> "tuple[subprocess.Popen[bytes], str]":
    return lab_web.start(folder, PORT + lab_web.PORT_OFFSET, None, pages_max=pages_max)


def _as_operator(peer: SweptPeer) -> Mapping[str, Any]:
    """Strangers are told less, and from another namespace the tester is one."""
    token = (peer.home / "state" / "operator.token").read_text(encoding="ascii").strip()
    connection = http.client.HTTPConnection(urlsplit(peer.http).netloc, timeout=ANSWER_S)
    try:
        connection.request("GET", "/api/v1/status", headers={"Authorization": f"Bearer {token}"})
        found: Mapping[str, Any] = json.loads(connection.getresponse().read())
    finally:
        connection.close()
    return found


def _run(*words: str | Path) -> None:
    subprocess.run([*map(str, words)], check=True, stdin=subprocess.DEVNULL)
