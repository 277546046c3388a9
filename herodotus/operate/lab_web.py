"""Where does a ring on one machine get something to crawl? A made-up web, served by a process of its own.

It is the testers' program `simnet web`; only its command line is used. Its log, a line for each request, lies beside
the homes of the ring, and its process is found again by that path.
"""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from herodotus.core.errors import WorldFailure
from herodotus.operate.http_questions import NoAnswer, ask

PORT_OFFSET = 3000
HOSTS, HOSTS_MAX = 6, 10_000
PAGES_MAX = 60
"""Of one host; most have fewer. With six hosts about 480 URLs in all."""
PAGES_LEAST = 20
READY_S = 30.0
_LINE_BYTES_MAX = 10_000
_END_S = 10.0


def log_in(folder: Path) -> Path:
    return folder / "web.jsonl"


def start(
    folder: Path, port: int, day_length_s: int | None, *, hosts: int = HOSTS, pages_max: int = PAGES_MAX
) -> tuple[subprocess.Popen[bytes], str]:
    """The process, and the address at which testers ask it: its state, what can be reached, what is expected."""
    command = [
        *(sys.executable, "-m", "simnet", "web", "--log", str(log_in(folder)), "--port", str(port)),
        *("--hosts", str(hosts), "--pages-max", str(pages_max), "--tidy"),
    ]
    command += ["--day-length", str(day_length_s)] if day_length_s is not None else []
    folder.mkdir(parents=True, exist_ok=True)
    return started(command)


def started(command: list[str]) -> tuple[subprocess.Popen[bytes], str]:
    """In its own session, so that Ctrl-C at our terminal does not reach it."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return process, _control_of(process, command)
    except BaseException:  # Ctrl-C takes several forms; in any case no process is left behind
        end_process(process)
        raise


def _control_of(process: subprocess.Popen[bytes], command: list[str]) -> str:
    assert process.stdout is not None
    with process.stdout as said:
        is_readable, _, _ = select.select([said], [], [], READY_S)
        line = said.readline(_LINE_BYTES_MAX) if is_readable else b""
    try:
        return str(json.loads(line)["control"])
    except (ValueError, KeyError, TypeError) as error:
        reason = "it ended" if is_readable else f"it was silent for {READY_S:g} s"
        sentence = f"the made-up web did not start ({reason}); `{' '.join(command)}` says why"
        raise WorldFailure(sentence) from error


def front_pages(control: str) -> list[str]:
    facts: Any = ask(control, "/")
    try:
        return [str(url) for url in facts["hosts"]]
    except (KeyError, TypeError) as error:
        raise NoAnswer(control, "what came back is not the state of a made-up web") from error


def end_process(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def processes_of(folder: Path) -> list[int]:
    """Webs of the ring in this folder that run now."""
    wanted = ["-m", "simnet", "web", "--log", str(log_in(folder))]
    return [pid for pid, words in running_commands() if words[1:6] == wanted]


def running_commands() -> Iterator[tuple[int, list[str]]]:
    """Of all processes of this machine: their numbers, and the words that they were started with."""
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it ended meanwhile
            yield int(command.parent.name), os.fsdecode(command.read_bytes()).split("\0")


def end(folder: Path) -> int:
    """Returns how many there were. They have no work to finish."""
    pids = processes_of(folder)
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    return len(pids)
