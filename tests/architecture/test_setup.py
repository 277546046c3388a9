"""Does `scripts/setup` make a working environment from any place, and say in a sentence why it cannot?"""

import os
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e
ROOT = Path(__file__).parents[2]
WAIT_S = 100
TOOLS = ("sh", "cat", "cksum", "dirname", "grep", "flock", "mkdir", "rm", "sed", "tail", "id")


def setup(root: Path, cwd: Path, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "PIP_", "HERODOTUS_"))
    }
    return subprocess.run(
        [str(root / "scripts" / "setup"), *arguments], cwd=cwd, env={**kept, **environment}, capture_output=True,
        text=True, timeout=WAIT_S, check=False,
    )  # fmt: skip


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The repository without its environment, in a path with spaces."""
    place = tmp_path / "a path with spaces"
    place.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, place)
    for name in ("dht", "crawler", "herodotus", "simnet", "scripts", "requirements"):
        shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))
    return place


def path_with(folder: Path, programs: Mapping[str, str]) -> str:
    """A PATH of the tools that the script needs, and these made-up programs."""
    folder.mkdir()
    for tool in TOOLS:
        found = shutil.which(tool)
        if found:
            (folder / tool).symlink_to(found)
    for name, script in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    return str(folder)


def test_the_second_time_is_quick_and_silent_from_any_folder(tmp_path: Path) -> None:
    # The tests run in this very environment: with the same choice of interpreter there is nothing left to do.
    chosen = {name: value for name, value in os.environ.items() if name == "PYTHON"}
    first = setup(ROOT, ROOT, "dev", **chosen)
    assert first.returncode == 0, first.stderr
    started = time.perf_counter()
    second = setup(ROOT, tmp_path, "dev", **chosen)
    assert time.perf_counter() - started < 2
    assert (second.returncode, second.stdout) == (0, "")
    assert [line for line in second.stderr.splitlines() if "some tests will be skipped" not in line] == []


def test_it_works_in_a_path_with_spaces_without_a_network(copy: Path, tmp_path: Path) -> None:
    # An empty lock file: what would be installed is lent by this environment, and no index is asked.
    (copy / "requirements" / "run.txt").write_text("")
    lent = {"PIP_CONFIG_FILE": os.devnull, "PYTHONPATH": sysconfig.get_path("purelib"), "PIP_NO_INDEX": "1"}
    made = setup(copy, tmp_path, **lent)
    assert made.returncode == 0, made.stderr
    steps = [line.split(" with Python")[0] for line in made.stderr.splitlines()]
    assert steps == [
        "setup: making .venv",
        "setup: installing 0 locked packages (the first time takes a minute)",
        "setup: installing herodotus and simnet into .venv/bin",
    ]
    for program in ("herodotus", "simnet"):
        done = subprocess.run(
            [str(copy / ".venv" / "bin" / program), "--version"], cwd=tmp_path, env={**os.environ, **lent},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.stdout == f"{program}, version 0.1.0\n", done.stderr
    again = setup(copy, tmp_path, **lent)
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")


def test_an_index_that_cannot_be_reached_is_said(copy: Path) -> None:
    nowhere = {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_INDEX_URL": "http://127.0.0.1:9/",
        "PIP_NO_CACHE_DIR": "1",
        "PIP_RETRIES": "0",
    }
    done = setup(copy, copy, **nowhere)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "setup: error: the package index cannot be reached: check the network (or set PIP_INDEX_URL to a mirror) "
        f"and try again; log: {copy}/.venv/setup.log"
    )


def test_a_python_that_is_too_old_is_said(copy: Path, tmp_path: Path) -> None:
    old = 'case "$1" in --version) echo "Python 3.9.2" ;; *) exit 1 ;; esac'
    done = setup(copy, copy, PATH=path_with(tmp_path / "bin", {"python3": old}))
    assert done.returncode == 1
    assert "setup: error: Python 3.11 to 3.14 is needed, found Python 3.9.2." in done.stderr
    chosen = setup(copy, copy, PYTHON=str(tmp_path / "bin" / "python3"))
    assert chosen.returncode == 1
    assert "is not a Python 3.11 to 3.14" in chosen.stderr


def test_no_python_at_all_is_said(copy: Path, tmp_path: Path) -> None:
    done = setup(copy, copy, PATH=path_with(tmp_path / "bin", {}))
    assert done.returncode == 1
    assert "Python 3.11 to 3.14 is needed, found " in done.stderr


def test_a_python_without_venv_is_said(copy: Path, tmp_path: Path) -> None:
    bare = f'case "$*" in *ensurepip*) exit 1 ;; esac\nexec "{sys.executable}" "$@"'
    done = setup(copy, copy, PATH=path_with(tmp_path / "bin", {"python3": bare}))
    assert done.returncode == 1
    assert done.stderr.endswith("has no venv or pip: on Debian, apt-get install python3-venv\n")


def test_a_set_that_is_not_known_is_said(copy: Path) -> None:
    done = setup(copy, copy, "everything")
    assert (done.returncode, done.stderr) == (
        1,
        "setup: error: unknown set 'everything': use 'run' or 'dev'\n",
    )


def test_a_folder_that_cannot_be_written_is_said(copy: Path) -> None:
    (copy / ".venv").write_text("in the way")
    done = setup(copy, copy)
    assert done.returncode == 1
    assert (
        done.stderr
        == f"setup: error: {copy}/.venv cannot be written: check the folder's owner and free space\n"
    )
