"""Does every command of the tutorial run, and print what the tutorial says?"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.herodotus.test_ring_lab import free_base

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

PAGE = Path(__file__).parents[4] / "docs" / "learn" / "first-archive.md"
ASKED_AT_MOST = 300
"""Times that a block which is to be repeated is repeated: each takes a third of a second or longer."""


class Shell:
    """One bash for all commands, so that variables and background jobs last as they do for a reader."""

    def __init__(self, folder: Path) -> None:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self._bash = subprocess.Popen(
            ["bash"],
            cwd=folder,
            env={**os.environ, "PATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, command: str) -> tuple[str, int]:
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        self._bash.stdin.write(f'{command}\necho "the end: $?"\n')
        self._bash.stdin.flush()
        lines: list[str] = []
        for line in self._bash.stdout:
            if line.startswith("the end: "):
                return "".join(lines), int(line.removeprefix("the end: "))
            lines.append(line)
        raise AssertionError(f"bash ended at {command}")

    def close(self) -> None:
        self.run("jobs -p | xargs -r kill -9")
        self._bash.communicate(timeout=10)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    one = Shell(tmp_path)
    yield one
    one.close()


def blocks() -> list[tuple[list[str], list[str]]]:
    """(commands, what their output holds) of each block, on ports that are free now."""
    base = free_base(3)
    ports = {"8080": base + 2, "4484": base, "4485": base + 1}
    page = re.sub("|".join(ports), lambda found: str(ports[found[0]]), PAGE.read_text(encoding="utf-8"))
    found = re.findall(r"```sh\n(.*?)```(?:\n```text\n(.*?)```)?", page, re.DOTALL)
    return [(commands.splitlines(), expected.splitlines()) for commands, expected in found]


def test_the_tutorial_holds(shell: Shell) -> None:
    for commands, expected in blocks():
        printed = []
        for command in commands:
            said, code = shell.run(command)
            if command.startswith("herodotus status"):
                for _ in range(ASKED_AT_MOST):
                    if code == 0 and all(line in said for line in expected):
                        break
                    said, code = shell.run(command)
            assert code == 0, (command, said)
            printed.append(said)
        missing = [line for line in expected if line not in "".join(printed)]
        assert missing == [], "".join(printed)
    assert shell.run("cmp page.html copy.html")[1] == 0
