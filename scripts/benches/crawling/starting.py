"""How do the web and its clients get a core each? Imports nothing heavy, as a child starts with its parent's peak."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

CLIENT_CORE, ORIGIN_CORE = 0, 1


def pinned(command: list[str], core: int) -> list[str]:
    """The command on one core, where the system can do that and has the core."""
    program = shutil.which("taskset")
    is_there = hasattr(os, "sched_getaffinity") and core in os.sched_getaffinity(0)
    return [program, "-c", str(core), *command] if program and is_there else command


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def started_origin(port: int, hosts: int, pages_max: int, urls: Path) -> subprocess.Popen[bytes]:
    """Serving when this returns; its URLs are in the file."""
    module = "scripts.benches.crawling.origin"
    command = [sys.executable, "-m", module, str(port), str(hosts), str(pages_max), str(urls)]
    origin = subprocess.Popen(pinned(command, ORIGIN_CORE), stdout=subprocess.PIPE)
    assert origin.stdout is not None
    if not origin.stdout.readline():
        raise SystemExit("bench: the web did not start")
    return origin
