"""What do all demonstrations need? A voice, the commands as a user has them, and a reason for not going on."""

import http.client
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

HERODOTUS = str(Path(sys.executable).with_name("herodotus"))
SIMNET = str(Path(sys.executable).with_name("simnet"))
COMMAND_S = 180.0
"""No command of a demonstration takes so long; one that does is not waited for."""
_ANSWER_S = 30.0


class DemoFailed(Exception):
    """What was to be shown cannot be; the message says why, in one line."""


def say(line: str) -> None:
    print(f"demo: {line}", file=sys.stderr, flush=True)


def perform(name: str, *arguments: str) -> str:
    """What the command prints for machines, or people."""
    command = [HERODOTUS, *name.split(), *arguments, "--quiet"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_S, check=False)
    except subprocess.TimeoutExpired:
        raise DemoFailed(f"`herodotus {name}` took more than {COMMAND_S:g} s") from None
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["it wrote nothing"]
        raise DemoFailed(f"`herodotus {name}` ended with {done.returncode}: {said[-1]}")
    return done.stdout


def call(name: str, *arguments: str) -> Any:
    """What the command says in JSON."""
    return json.loads(perform(name, *arguments, "--json").splitlines()[-1])


def lines_of(control: str, path: str) -> list[str]:
    """What a made-up web tells its testers in plain text."""
    return _asked(control, "GET", path).split()


def turn_the_day(control: str) -> None:
    """Of a made-up web."""
    _asked(control, "POST", "/day/next")


def _asked(control: str, method: str, path: str) -> str:
    connection = http.client.HTTPConnection(urlsplit(control).netloc, timeout=_ANSWER_S)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        text = answer.read().decode()
    except (OSError, http.client.HTTPException) as error:
        raise DemoFailed(f"{control} does not answer: {error}") from error
    finally:
        connection.close()
    if answer.status != http.HTTPStatus.OK:
        raise DemoFailed(f"{control.rstrip('/')}{path} answered {answer.status}")
    return text


def end_politely(process: subprocess.Popen[Any]) -> int:
    """As Ctrl-C would, for one in a session of its own; gives its exit code."""
    process.send_signal(signal.SIGINT)
    return process.wait()
