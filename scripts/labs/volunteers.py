"""How is a real peer run on a line of the laboratory, and what does it say of itself? With everybody's settings."""

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from herodotus.core.charter import Charter
from herodotus.home.folder import Home, NewHome, create_home
from herodotus.home.identity import key_to_pem
from herodotus.operate.settings.load import Layer, resolve
from herodotus.operate.settings.render import commented_file
from scripts.demos.frame import HERODOTUS
from scripts.labs.internet import Host, inside
from scripts.labs.routers import RING_PORT

HTTP_PORT = RING_PORT + 1_000
CONTACT = "https://lab.example/archive"
ANSWER_S, COMMAND_S = 5.0, 120.0
Facts = Mapping[str, Any]


class CommandFailed(Exception):
    pass


class Volunteer:
    """A home folder on a line, and the process that runs there."""

    def __init__(self, name: str, host: Host, home: Path) -> None:
        self.name, self.host, self.home = name, host, Home(home)
        self.process: subprocess.Popen[bytes] | None = None

    def settle(self, charter: Charter, chosen: Mapping[str, object] = MappingProxyType({})) -> bytes:
        """Makes the home, with everybody's settings but those `chosen`; gives the peer's key."""
        key = Ed25519PrivateKey.generate()
        config = commented_file(resolve(Layer()).preset, {"operator.contact": CONTACT, **chosen})
        create_home(self.home, NewHome(config=config, charter=charter, key_pem=key_to_pem(key, None)))
        return key.public_key().public_bytes_raw()

    def start(self, *words: str) -> None:
        """`herodotus run`, or another command that ends in it."""
        command = [
            sys.executable,
            "-m",
            "herodotus",
            *(words or ("run",)),
            "--home",
            str(self.home.path),
            "--quiet",
        ]
        with Path(f"{self.home.path}.console").open("ab") as console:
            self.process = subprocess.Popen(
                self.host.command(*command),
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                start_new_session=True,
            )

    def signal(self, number: signal.Signals) -> None:
        if self.process is not None and self.process.poll() is None:
            os.kill(self.process.pid, number)

    def end(self, wait_s: float) -> None:
        if self.process is not None:
            try:
                self.process.wait(wait_s)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None

    @property
    def last_words(self) -> str:
        lines = Path(f"{self.home.path}.console").read_text(encoding="utf-8", errors="replace").splitlines()
        return lines[-1] if lines else "it wrote nothing"

    # -- as its operator

    def status(self) -> Facts | None:
        """None while it does not answer."""
        try:
            found: Facts = self.asked("/api/v1/status")
        except (OSError, http.client.HTTPException, ValueError):
            return None
        return found

    def asked(self, path: str) -> Any:
        """Its portal's JSON; raises OSError, HTTPException or ValueError."""
        return json.loads(self.page(path))

    def page(self, path: str) -> bytes:
        token = self.home.token.read_text(encoding="ascii").strip()
        connection = http.client.HTTPConnection("127.0.0.1", HTTP_PORT, timeout=ANSWER_S)
        with inside(self.host.name):
            connection.connect()
        try:
            connection.request(
                "GET", path, headers={"Authorization": f"Bearer {token}", "Accept": "application/json"}
            )
            return connection.getresponse().read()
        finally:
            connection.close()

    def command(self, *words: str) -> str:
        """What it prints. Raises CommandFailed."""
        done = subprocess.run(
            self.host.command(HERODOTUS, *words, "--home", str(self.home.path)),
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        if done.returncode:
            raise CommandFailed(f"`herodotus {words[0]}` ended with {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def complaints(self) -> list[str]:
        """Mistakes of ours in its log: the line before each traceback."""
        found = []
        for log in sorted(self.home.log.glob("*.log*")):
            lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
            for at, line in enumerate(lines):
                if line.lstrip().startswith("Traceback (most recent"):
                    found.append(f"{self.name} {log.name}:{at + 1} {lines[max(0, at - 1)][:160]}")
        return found


def end_all(volunteers: Sequence[Volunteer], wait_s: float = 12.0) -> None:
    """All are asked first."""
    for one in volunteers:
        one.signal(signal.SIGCONT)
        one.signal(signal.SIGTERM)
    for one in volunteers:
        one.end(wait_s)
