"""How do tests run the command as its users do: as a process of its own, waited for by what it says?"""

import contextlib
import io
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from herodotus.operate.cli import main

HERODOTUS = str(Path(sys.executable).with_name("herodotus"))
WAIT_S = 60.0  # far more than a loaded machine needs; a test that waits so long has failed


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Nothing of the developer's own settings reaches a test."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HERODOTUS_")}
    return {**kept, "PYTHONWARNINGS": "error", **(extra or {})}


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def herodotus(*arguments: str | Path, environment: Mapping[str, str] | None = None, **options: Any) -> Result:
    command = [HERODOTUS, *map(str, arguments)]
    done = subprocess.run(
        command, env=clean_environment(environment), capture_output=True, text=True, timeout=WAIT_S,
        check=False, stdin=subprocess.DEVNULL, **options,
    )  # fmt: skip
    return Result(done.returncode, done.stdout, done.stderr)


def called(*arguments: str | Path, environment: Mapping[str, str] | None = None) -> Result:
    """The same command inside this process: where no process is at stake, starting none is quicker."""
    out, err, before = io.StringIO(), io.StringIO(), dict(os.environ)
    umask = os.umask(0o022)
    os.environ.clear()
    os.environ.update(clean_environment(environment))
    try:
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            pytest.raises(SystemExit) as left,
        ):
            main([str(one) for one in arguments], prog_name="herodotus")
    finally:
        os.umask(umask)
        os.environ.clear()
        os.environ.update(before)
    return Result(int(left.value.code or 0), out.getvalue(), err.getvalue())


# As another user: imported first, because that user may not read the interpreter or this repository.
_AS_ANOTHER = """
import ctypes, os, sys
import getpass, rich.traceback
import herodotus.operate.cli, herodotus.peer, uvloop, anyio._backends._asyncio
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
sys.argv[0] = "herodotus"
herodotus.operate.cli.main()
"""


def herodotus_as_nobody(*arguments: str | Path) -> Result:
    command = [sys.executable, "-c", _AS_ANOTHER, *map(str, arguments)]
    done = subprocess.run(
        command, env=clean_environment(), capture_output=True, text=True, timeout=WAIT_S, check=False, cwd="/"
    )
    return Result(done.returncode, done.stdout, done.stderr)


def new_home(folder: Path, *arguments: str) -> Path:
    result = called("init", "--home", folder, "--network", "test", "--preset", "test", *arguments)
    assert result.code == 0, result.err
    return folder


@dataclass
class RunningPeer:
    process: "subprocess.Popen[str]"
    home: Path
    facts: dict[str, Any]

    @property
    def http(self) -> str:
        return str(self.facts["http"])

    def end(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str, str]:
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=WAIT_S)
        return self.process.returncode, out, err


@contextlib.contextmanager
def running(
    home: Path, *arguments: str, environment: Mapping[str, str] | None = None, options: Sequence[str] = ()
) -> Iterator[RunningPeer]:
    """A peer that says it is ready; killed at the end unless the test ended it."""
    reader, writer = os.pipe()
    command = [HERODOTUS, *options, "run", "--home", str(home), "--ready-fd", str(writer), *arguments]
    process = subprocess.Popen(
        command, env=clean_environment(environment), pass_fds=[writer], text=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    os.close(writer)
    try:
        with os.fdopen(reader) as channel:
            is_readable, _, _ = select.select([channel], [], [], WAIT_S)
            line = channel.readline() if is_readable else ""
        if not line:
            process.kill()
            raise AssertionError(f"the peer did not become ready: {process.communicate(timeout=WAIT_S)}")
        yield RunningPeer(process, home, json.loads(line))
    finally:
        if process.poll() is None:
            process.kill()
        if process.stdout is not None and not process.stdout.closed:
            process.communicate(timeout=WAIT_S)
