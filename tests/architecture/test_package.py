"""Does what we publish install and run away from this repository, as pip, pipx and uv would install it?

The built wheel goes into a fresh environment without asking any index: what it depends on is lent by the environment
of the tests, of which nothing else is seen there.
"""

import os
import signal
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.herodotus.operate.cli.processes import WAIT_S, clean_environment

pytestmark = pytest.mark.e2e
ROOT = Path(__file__).parents[2]
PACKAGES = ("dht", "crawler", "herodotus", "simnet")
BUILD_S = 100


def build(out: Path) -> Path:
    """sdist from the tree, wheel from the sdist: what is missing in the one is missing in the other."""
    done = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)], cwd=out.parent,
        env={**clean_environment(), "PYTHONWARNINGS": "ignore"}, capture_output=True, text=True, timeout=BUILD_S,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("built") / "dist")


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (found,) = built.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of a fresh environment with the wheel in it."""
    place = tmp_path_factory.mktemp("a stranger's machine") / "environment"
    subprocess.run(
        [sys.executable, "-m", "venv", str(place)], check=True, timeout=BUILD_S, capture_output=True
    )
    python = place / "bin" / "python"
    offline = {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = subprocess.run(
        [str(python), "-m", "pip", "install", "--no-deps", str(wheel)], env={**clean_environment(), **offline,
        "PYTHONWARNINGS": "ignore"}, capture_output=True, text=True, timeout=BUILD_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (site,) = (place / "lib").glob("python*/site-packages")
    # A path in a .pth file lends the modules there; the .pth files there, such as that of the editable install,
    # stay unread.
    (site / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return place / "bin"


def run(*command: str | Path, cwd: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [str(word) for word in command], cwd=cwd, env=clean_environment(), capture_output=True, text=True,
        timeout=WAIT_S, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def test_the_wheel_holds_every_module_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        packed = {name for name in opened.namelist() if ".dist-info/" not in name}
    ours = {
        str(file.relative_to(ROOT))
        for package in PACKAGES
        for file in (ROOT / package).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert packed == ours
    assert all(f"{package}/py.typed" in packed for package in PACKAGES)


def test_the_source_package_can_be_tested_and_packaged(built: Path) -> None:
    (source,) = built.glob("*.tar.gz")
    with tarfile.open(source) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    wanted = {"LICENSE", "README.md", "SECURITY.md", "Containerfile", "packaging/systemd/herodotus.service"}
    wanted |= {"requirements/run.txt", "scripts/test", "tests/conftest.py", "docs/do/operate.md"}
    assert wanted - names == set()


def test_building_twice_gives_the_same_bytes(built: Path, tmp_path: Path) -> None:
    again = build(tmp_path / "dist")
    assert {file.name: file.read_bytes() for file in again.iterdir()} == {
        file.name: file.read_bytes() for file in built.iterdir()
    }


def test_the_installed_commands_tell_their_version(programs: Path, tmp_path: Path) -> None:
    where = run(programs / "python", "-c", "import herodotus; print(herodotus.__file__)", cwd=tmp_path)
    assert Path(where.stdout.strip()).is_relative_to(programs.parent), "the repository's own was imported"
    for name in ("herodotus", "simnet"):
        done = run(programs / name, "--version", cwd=tmp_path)
        assert (done.returncode, done.stdout) == (0, f"{name}, version 0.1.0\n"), done.stderr


def test_an_installed_peer_runs_and_stops(programs: Path, tmp_path: Path) -> None:
    herodotus, home = programs / "herodotus", tmp_path / "home"
    made = run(herodotus, "init", "--home", home, "--network", "test", "--preset", "test", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    with subprocess.Popen(
        [str(herodotus), "run", "--home", str(home)], cwd=tmp_path, env=clean_environment(), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        ready = process.stdout.readline()
        assert ready.startswith("ready: http://127.0.0.1:")
        with urlopen(ready.split()[1], timeout=WAIT_S) as page:
            assert b"<h1>Herodotus</h1>" in page.read(), "its templates were not packed"
        unit = run(herodotus, "service", "install", "--print", "--home", home, cwd=tmp_path).stdout
        assert f"--home {home} run --quiet" in unit
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=WAIT_S)
        assert process.returncode == 0, err


def test_the_simulator_is_installed_whole(programs: Path, tmp_path: Path) -> None:
    listed = run(programs / "simnet", "list", cwd=tmp_path)
    assert listed.returncode == 0, listed.stderr
    assert "rumour" in listed.stdout
