"""How does an attack's judge give an operator's command, and read what it prints?"""

import json
import subprocess
from pathlib import Path
from typing import Any

from scripts.demos.frame import HERODOTUS

COMMAND_S = 300.0


class CommandFailed(Exception):
    pass


def command(home: Path, *words: str) -> str:
    return _ended(home, *words).stdout


def _ended(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [HERODOTUS, *words, "--home", str(home)],
        capture_output=True, text=True, timeout=COMMAND_S, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if done.returncode not in (0, 1, 3):
        raise CommandFailed(f"`herodotus {words[0]}` ended with {done.returncode}: {done.stderr.strip()}")
    return done


def facts(home: Path, *words: str) -> Any:
    done = _ended(home, *words, "--json")
    lines = done.stdout.splitlines()
    if not lines:
        raise CommandFailed(f"`herodotus {words[0]}` said nothing ({done.returncode}): {done.stderr.strip()}")
    return json.loads(lines[-1])
