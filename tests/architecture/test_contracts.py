"""Does the linter catch what the architecture forbids? Each rule is shown a small tree that breaks it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PLANTED = {
    "dht imports crawler": ("dht/bad.py", "import crawler\n", "layers"),
    "crawler imports dht": ("crawler/bad.py", "import dht\n", "layers"),
    "dht imports herodotus": ("dht/bad.py", "import herodotus.core\n", "layers"),
    "herodotus imports simnet": ("herodotus/store/bad.py", "import simnet.cli\n", "layers"),
    "the store imports the portal": ("herodotus/store/bad.py", "import herodotus.portal\n", "rooms"),
    "copies import the crawl beside them": ("herodotus/copies/bad.py", "import herodotus.crawl\n", "rooms"),
    "copies import the search beside them": (
        "herodotus/copies/bad.py",
        "import herodotus.search\n",
        "rooms",
    ),
    "peers import the store beside them": ("herodotus/peers/bad.py", "import herodotus.store\n", "rooms"),
    "the home imports settings of the command line": (
        "herodotus/home/bad.py",
        "import herodotus.operate\n",
        "rooms",
    ),
    "a part builds a whole peer": ("herodotus/portal/bad.py", "import herodotus.peer\n", "rooms"),
    "a room of which the layers know nothing": ("herodotus/attic.py", "", "rooms"),
    "the portal looks behind the store's face": (
        "herodotus/portal/bad.py",
        "from herodotus.store.engine import Archive\n",
        "faces",
    ),
    "the composition root looks behind it, too": (
        "herodotus/peer.py",
        "import herodotus.store.engine\n",
        "faces",
    ),
    "a core reads a clock": ("dht/core/bad.py", "import time\n", "pure-cores"),
    "a core opens files": ("herodotus/core/bad.py", "import os\n", "pure-cores"),
    "a core uses a loop": ("crawler/core/deep/bad.py", "from asyncio import sleep\n", "pure-cores"),
    "a core logs": ("dht/core/bad.py", "def f() -> None:\n    import logging\n", "pure-cores"),
    "a core imports its shell": ("dht/core/bad.py", "import dht.shell\n", "pure-cores"),
    "a core imports another package's shell": ("herodotus/core/bad.py", "import dht.shell\n", "pure-cores"),
    "the world knows the ring": ("simnet/world/bad.py", "import dht\n", "world"),
    "the world knows its own users": ("simnet/world/bad.py", "import simnet.users\n", "world"),
    "the world uses a third party": ("simnet/world/bad.py", "import trio\n", "world"),
    "the world reads the wall clock": ("simnet/world/bad.py", "import time\n", "world"),
}


def small_tree(folder: Path) -> None:
    """The shape of our packages with nothing in them, under our own configuration."""
    packages = [
        "dht", "dht/core", "crawler", "crawler/core", "crawler/core/deep", "herodotus", "herodotus/core",
        "herodotus/home", "herodotus/store", "herodotus/peers", "herodotus/crawl", "herodotus/copies",
        "herodotus/search", "herodotus/portal", "herodotus/operate", "simnet", "simnet/world", "scripts",
    ]  # fmt: skip
    for package in packages:
        (folder / package).mkdir()
        (folder / package / "__init__.py").touch()
    (folder / "herodotus/store/engine.py").touch()
    (folder / "herodotus/store/faces.py").write_text("import herodotus.store.engine\n")
    (folder / "herodotus/portal/rendering.py").write_text("import herodotus.store\n")
    (folder / "herodotus/peer.py").touch()
    (folder / "simnet/cli.py").touch()
    (folder / "dht/shell.py").write_text("import asyncio\n")
    (folder / "simnet/users.py").write_text("import trio\nimport dht, herodotus, crawler\n")
    shutil.copy(ROOT / "pyproject.toml", folder)
    shutil.copy(ROOT / "scripts/contracts.py", folder / "scripts")


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    linter = Path(sys.executable).with_name("lint-imports")
    return subprocess.run(
        [str(linter), "--no-cache"], cwd=folder, capture_output=True, text=True, check=False
    )


def test_the_small_tree_itself_keeps_every_contract(tmp_path: Path) -> None:
    small_tree(tmp_path)
    result = lint(tmp_path)
    assert result.returncode == 0, result.stdout
    assert "Contracts: 5 kept, 0 broken." in result.stdout


@pytest.mark.parametrize(("path", "source", "contract"), PLANTED.values(), ids=PLANTED.keys())
def test_a_planted_violation_is_caught(tmp_path: Path, path: str, source: str, contract: str) -> None:
    small_tree(tmp_path)
    (tmp_path / path).write_text(source)
    result = lint(tmp_path)
    names = {
        "layers": "simnet above herodotus",
        "rooms": "the rooms of a peer",
        "faces": "the store is seen by its faces only",
        "pure-cores": "a core imports cores only",
        "world": "simnet.world knows",
    }
    assert result.returncode == 1, result.stdout
    broken = [line for line in result.stdout.splitlines() if line.strip().endswith("BROKEN")]
    assert [name for name, title in names.items() if any(title in line for line in broken)] == [contract]


RUFF_PLANTED = {
    "a task without a parent": ("import asyncio\n\nasyncio.create_task(f())\n", "TID251"),
    "gather": ("import asyncio\n\nasyncio.gather(f())\n", "TID251"),
    "the wall clock": ("import time\n\nnow = time.time()\n", "TID251"),
    "datetime.now": ("from datetime import datetime\n\nnow = datetime.now(None)\n", "TID251"),
    "a sleeping thread": ("import time\n\ntime.sleep(1)\n", "TID251"),
    "unseeded chance": ("import random\n\nx = random.random()\n", "TID251"),
    "a print in a package": ("print(1)\n", "T201"),
    "a swallowed exception": ("try:\n    pass\nexcept Exception:\n    pass\n", "BLE001"),
    "a relative import": ("from . import x\n", "TID252"),
}


@pytest.mark.parametrize(("source", "rule"), RUFF_PLANTED.values(), ids=RUFF_PLANTED.keys())
def test_a_banned_call_is_caught(source: str, rule: str) -> None:
    command = [
        str(Path(sys.executable).with_name("ruff")),
        "check",
        "--no-cache",
        "--stdin-filename",
        "herodotus/x.py",
        "-",
    ]
    result = subprocess.run(command, input=source, cwd=ROOT, capture_output=True, text=True, check=False)
    assert rule in result.stdout


def test_the_clock_module_alone_may_read_the_clock() -> None:
    command = [
        str(Path(sys.executable).with_name("ruff")),
        "check",
        "--no-cache",
        "--stdin-filename",
        "herodotus/home/clock.py",
        "-",
    ]
    source = "import time\n\nnow = time.time()\n"
    result = subprocess.run(command, input=source, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout
