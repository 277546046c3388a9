"""Other people's archive tools, run as programs: from `.venv/judges` (requirements/judges.in) or from Debian."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

JUDGES = Path(sys.prefix) / "judges" / "bin"
PYTHON = JUDGES / "python"
WAIT_S = 60
# Nothing of ours and no proxy: only what a machine without Herodotus has.
BARE = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": "/nonexistent", "PYTHONWARNINGS": "ignore"}


def judge(name: str) -> str:
    """For `@pytest.mark.needs` and for running it."""
    return str(JUDGES / name)


def run(*command: str | Path, cwd: Path) -> bytes:
    """What it wrote to stdout; it must end well."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, env=BARE, capture_output=True, timeout=WAIT_S, check=False)
    assert done.returncode == 0, f"{words}: {done.stderr.decode(errors='replace')}"
    return done.stdout


def system_tool(name: str) -> str:
    """Found before the environment is bare; the tests that use it say so with `needs`."""
    found = shutil.which(name, path=os.defpath + ":" + os.environ.get("PATH", ""))
    assert found is not None
    return found


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


class Answer:
    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body


def fetch(url: str) -> Answer:
    """Just this one: a redirect is an answer, and so is an error page."""
    opener = build_opener(ProxyHandler({}), _NoRedirects())
    try:
        with opener.open(Request(url, headers={"Accept-Encoding": "gzip"}), timeout=WAIT_S) as response:
            return Answer(response.status, dict(response.headers), response.read())
    except HTTPError as error:
        with error:
            return Answer(error.code, dict(error.headers), error.read())


@contextmanager
def pywb(folder: Path, **config: Any) -> Iterator[str]:
    """A pywb that serves the collections in a folder: its address."""
    child = Path(__file__).with_name("pywb_child.py")
    command = [str(PYTHON), str(child), json.dumps(config)]
    with subprocess.Popen(
        command,
        cwd=folder,
        env=BARE,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        try:
            # It says other things, too, before it serves.
            port = next((line.split()[1] for line in process.stdout if line.startswith(b"port ")), None)
            assert port is not None, "pywb ended"
            yield f"http://127.0.0.1:{int(port)}"
        finally:
            process.kill()
