"""Does a test fail once the bug is there? Copies of the tree, one bug at a time in each, one pytest for each bug.

The working tree is never written to. A copy keeps the times of its files, so that the bytecode that came with them
is used, and only what is planted is compiled again. A bug that makes the tests hang counts as found: a user would
find it, too. It is one only where the same tests end in time without it, which is tried.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from importlib.util import cache_from_source
from pathlib import Path

from scripts.planting.bugs import NotPlantedError, SourceMutant, source_with

LEFT_OUT = (
    ".git",
    ".venv",
    ".mypy_cache",
    ".ruff_cache",
    ".pytest_cache",
    ".hypothesis",
    ".import_linter_cache",
)
# What is marked `sweep` has thousands of seeds, and a short form among the others.
_QUIET = (
    "-q",
    "-x",
    "-m",
    "not sweep",
    "-p",
    "no:cacheprovider",
    "--hypothesis-seed=0",
    "--tb=line",
    "--no-header",
)
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
# What pytest's exit codes mean.
_PASSED, _SOME_FAILED, _NOT_COLLECTED = 0, 1, 2


class Verdict(StrEnum):
    KILLED = "killed"
    HUNG = "killed (hung)"
    SURVIVED = "SURVIVED"
    EXPLAINED = "survived, with a reason"
    OUTDATED = "KILLED, THOUGH A REASON SAYS IT SURVIVES"
    NOT_PLANTED = "COULD NOT PLANT"
    NOT_TRIED = "TESTS DID NOT RUN"

    @property
    def is_fine(self) -> bool:
        return self in (Verdict.KILLED, Verdict.HUNG, Verdict.EXPLAINED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    mutant: SourceMutant
    verdict: Verdict
    seconds: float
    told: str = ""
    """Which test failed, or why there was no trial."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    code: int | None
    """Of pytest; None where it took too long."""
    output: str


class TreeCopy:
    """A copy of the tree that may be spoilt."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def run(self, tests: Sequence[str], limit_s: float) -> Answer:
        # In CI, hypothesis tries the same examples each time. A mutant that survives them must not die here by luck.
        environment = {**os.environ, "PYTHONPATH": str(self.root), "CI": "true"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        with subprocess.Popen(
            [sys.executable, "-m", "pytest", *_QUIET, *tests],
            cwd=self.root,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        ) as process:
            try:
                output, _ = process.communicate(timeout=limit_s)
            except subprocess.TimeoutExpired:
                return Answer(code=None, output="")
            finally:
                _end(process)
        return Answer(code=process.returncode, output=output)

    def attempt(self, mutant: SourceMutant, limit_s: float) -> Trial:
        """Plant it, run its tests, take it out."""
        start = time.monotonic()
        path = self.root / mutant.file
        try:
            source = path.read_text()
            planted = source_with(mutant, source)
        except (NotPlantedError, OSError) as error:
            return Trial(mutant=mutant, verdict=Verdict.NOT_PLANTED, seconds=0.0, told=str(error))
        try:
            self._write(path, planted)
            answer = self.run(mutant.tests, limit_s)
        finally:
            self._write(path, source)
        if answer.code is None and self.run(mutant.tests, limit_s).code is None:
            verdict, told = Verdict.NOT_TRIED, f"they take longer than {limit_s:g} s without the bug, too"
        else:
            verdict = verdict_of(answer.code, has_reason=bool(mutant.survives))
            told = _told(answer.output, verdict)
        return Trial(mutant=mutant, verdict=verdict, seconds=time.monotonic() - start, told=told)

    @staticmethod
    def _write(path: Path, source: str) -> None:
        path.write_text(source)
        # Bytecode is known by the second and the size of its source: too coarse for us.
        Path(cache_from_source(str(path))).unlink(missing_ok=True)


def _end(process: "subprocess.Popen[str]") -> None:
    """It, and all that its tests started and left behind."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def verdict_of(code: int | None, *, has_reason: bool) -> Verdict:
    if code is None:
        return Verdict.OUTDATED if has_reason else Verdict.HUNG
    if code == _PASSED:
        return Verdict.EXPLAINED if has_reason else Verdict.SURVIVED
    if code == _SOME_FAILED:
        return Verdict.OUTDATED if has_reason else Verdict.KILLED
    # The module cannot be imported, or there is no such test: nothing was tried.
    return Verdict.NOT_TRIED


def _told(output: str, verdict: Verdict) -> str:
    if verdict in (Verdict.KILLED, Verdict.OUTDATED):
        failed = _FAILED.search(output)
        return failed[1].rpartition("::")[2] if failed else ""
    return output.strip()[-400:] if verdict is Verdict.NOT_TRIED else ""


@contextmanager
def copies_of(root: Path, count: int) -> Iterator[list[TreeCopy]]:
    """So many copies of the tree, which are gone at the end."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        made = []
        for number in range(count):
            to = Path(folder) / str(number)
            shutil.copytree(root, to, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT))
            (to / ".venv").symlink_to(root / ".venv")  # some tests start what is installed
            made.append(TreeCopy(to))
        yield made
