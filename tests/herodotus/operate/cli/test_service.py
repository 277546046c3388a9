"""Does a peer become a service of its user, without harm to a unit that somebody changed?

systemd's user manager runs in no test: a program of its name notes what it was asked and answers as a file says.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from herodotus.core.service_unit import ServicePlan, is_unchanged, quoted, unit_text
from scripts.docs import UNIT
from tests.herodotus.operate.cli.processes import HERODOTUS, Result, called, new_home

_FAKE = """#!/bin/sh
echo "$@" >>"$ASKED"
case "$*" in
    *"$FAILS"*) echo "$SAYS" >&2; exit 1 ;;
    *show*) cat "$FACTS" ;;
esac
"""
_ACTIVE = """LoadState=loaded
ActiveState=active
SubState=running
UnitFileState=enabled
MainPID=4711
Result=success
StatusText=serving http://127.0.0.1:5484
"""


class Manager:
    """A systemctl that notes its arguments, and where units then are."""

    def __init__(self, folder: Path) -> None:
        self.config = folder / "config"
        self.asked = folder / "asked"
        self.facts = folder / "facts"
        self.facts.write_text(_ACTIVE)
        programs = folder / "programs"
        programs.mkdir()
        (programs / "systemctl").write_text(_FAKE)
        (programs / "systemctl").chmod(0o755)
        self.environment = {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "XDG_CONFIG_HOME": str(self.config),
            "ASKED": str(self.asked),
            "FACTS": str(self.facts),
            "FAILS": "nothing at all",
            "SAYS": "",
        }

    @property
    def unit(self) -> Path:
        return self.config / "systemd" / "user" / "herodotus.service"

    def service(self, *arguments: str | Path) -> Result:
        return called("service", *arguments, environment=self.environment)

    def orders(self) -> list[str]:
        """What the manager was asked to do, apart from questions, since the last time."""
        lines = self.asked.read_text().splitlines() if self.asked.exists() else []
        self.asked.unlink(missing_ok=True)
        words = [line.removeprefix("--user --no-pager --no-ask-password ") for line in lines]
        return [line for line in words if not line.startswith("show ")]


@pytest.fixture
def manager(tmp_path: Path) -> Manager:
    return Manager(tmp_path)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return new_home(tmp_path / "a home")


def test_installing_writes_the_unit_and_starts_it(manager: Manager, home: Path) -> None:
    done = manager.service("install", "--home", home)
    assert done.code == 0, done.err
    text = manager.unit.read_text()
    assert f'ExecStart={HERODOTUS} --home "{home}" run --quiet\n' in text
    assert is_unchanged(text)
    assert manager.orders() == ["daemon-reload", "enable herodotus.service", "start herodotus.service"]


def test_installing_again_changes_nothing(manager: Manager, home: Path) -> None:
    manager.service("install", "--home", home)
    before = manager.unit.read_bytes()
    again = manager.service("install", "--home", home)
    assert (again.code, manager.unit.read_bytes()) == (0, before)
    assert f"was there already {manager.unit}" in again.err


def test_a_unit_of_an_older_release_is_brought_up_to_date(manager: Manager, home: Path) -> None:
    manager.service("install", "--home", home)
    current = manager.unit.read_text()
    older = unit_text(ServicePlan(program=("/old/place/herodotus",), home=str(home)))
    manager.unit.write_text(older)
    manager.orders()
    again = manager.service("install", "--home", home)
    assert (again.code, manager.unit.read_text()) == (0, current)
    assert manager.orders()[-1] == "restart herodotus.service"
    assert not manager.unit.with_suffix(".service.before").exists()


def test_a_unit_that_its_owner_changed_is_left_and_said(manager: Manager, home: Path) -> None:
    manager.service("install", "--home", home)
    changed = manager.unit.read_text().replace("RestartSec=10", "RestartSec=99")
    manager.unit.write_text(changed)
    manager.orders()
    refused = manager.service("install", "--home", home)
    assert refused.code == 2
    assert "was changed since it was written; --replace" in refused.err
    assert manager.service("uninstall").code == 2
    assert (manager.unit.read_text(), manager.orders()) == (changed, [])

    replaced = manager.service("install", "--home", home, "--replace")
    assert replaced.code == 0
    assert is_unchanged(manager.unit.read_text())
    assert manager.unit.with_suffix(".service.before").read_text() == changed
    assert "kept yours as" in replaced.err


def test_print_only_shows(manager: Manager, home: Path) -> None:
    shown = manager.service("install", "--home", home, "--print")
    assert shown.code == 0
    assert is_unchanged(shown.out)
    assert (manager.unit.exists(), manager.asked.exists()) == (False, False)


def test_where_there_is_no_systemd_nothing_is_written(manager: Manager, home: Path, tmp_path: Path) -> None:
    manager.environment |= {"FAILS": "show", "SAYS": "Failed to connect to bus: No medium found"}
    refused = manager.service("install", "--home", home)
    assert refused.code == 1
    assert (
        "cannot be reached: Failed to connect to bus: No medium found; `herodotus service install --print`"
        in (refused.err)
    )
    assert not manager.unit.exists()

    (tmp_path / "empty").mkdir()
    manager.environment["PATH"] = str(tmp_path / "empty")
    refused = manager.service("install", "--home", home)
    assert (refused.code, "there is no systemctl on this machine" in refused.err) == (1, True)
    assert not manager.unit.exists()


def test_what_systemd_refuses_is_said_in_its_words(manager: Manager, home: Path) -> None:
    manager.environment |= {"FAILS": "start herodotus.service", "SAYS": "Job failed. See the journal."}
    refused = manager.service("install", "--home", home)
    assert refused.code == 1
    assert "systemd did not start the service: Job failed. See the journal;" in refused.err


def test_uninstalling_stops_and_removes_and_leaves_the_home(manager: Manager, home: Path) -> None:
    manager.service("install", "--home", home)
    manager.orders()
    done = manager.service("uninstall", "--home", home)
    assert done.code == 0, done.err
    assert manager.orders() == ["disable --now herodotus.service", "daemon-reload"]
    assert not manager.unit.exists()
    assert (home / "identity.key").exists()
    assert manager.service("uninstall").code == 3


def test_status_is_told_by_its_exit_code(manager: Manager, home: Path) -> None:
    assert manager.service("status").code == 3
    manager.service("install", "--home", home)
    running = manager.service("status", "--json")
    assert running.code == 0
    assert running.json == {
        "name": "herodotus",
        "file": str(manager.unit),
        "changed": False,
        "active": True,
        "state": "active (running)",
        "starts_at_boot": True,
        "pid": 4711,
        "result": "success",
        "says": "serving http://127.0.0.1:5484",
    }
    manager.facts.write_text(_ACTIVE.replace("active", "failed"))
    assert manager.service("status").code == 1


def test_a_second_peer_has_a_unit_of_its_own(manager: Manager, home: Path) -> None:
    manager.service("install", "--home", home, "--name", "herodotus-2")
    assert manager.unit.with_name("herodotus-2.service").exists()
    assert not manager.unit.exists()
    assert manager.service("install", "--home", home, "--name", "../escape").code == 2


def test_no_home_is_no_service(manager: Manager, tmp_path: Path) -> None:
    assert manager.service("install", "--home", tmp_path / "nothing").code == 3
    assert not manager.unit.exists()


def test_the_packaged_unit_is_made_from_the_same_text() -> None:
    packaged = UNIT.read_text() == unit_text(ServicePlan())
    assert packaged, f"{UNIT} is not current: run .venv/bin/python scripts/docs.py"


@pytest.mark.parametrize(
    ("word", "written"),
    [
        ("/usr/bin/herodotus", "/usr/bin/herodotus"),
        ("/a home/x", '"/a home/x"'),
        ("/100%/$x", '"/100%%/$$x"'),
        ('/say "so"\\', '"/say \\"so\\"\\\\"'),
        ("/two\nlines", '"/two\\nlines"'),
    ],
)
def test_a_path_reaches_systemd_as_it_is(word: str, written: str) -> None:
    assert quoted(word, in_command=True) == written


def test_a_dollar_is_special_in_commands_alone() -> None:
    assert quoted("/$x y") == '"/$x y"'


def test_systemd_gets_more_time_than_draining_takes() -> None:
    assert "\nTimeoutStopSec=67\n" in unit_text(ServicePlan(drain_s=60.0))


@pytest.fixture
def short_folder() -> Iterator[str]:
    """Names of sockets have 107 bytes."""
    with tempfile.TemporaryDirectory() as folder:
        yield folder


@pytest.mark.needs("systemd-analyze")
@pytest.mark.parametrize("is_confined", [False, True])
def test_systemd_understands_every_line(is_confined: bool, tmp_path: Path, short_folder: str) -> None:
    """Of a plan with a program that exists, and a home whose name has to be quoted."""
    program = shutil.which("true")
    assert program is not None
    plan = ServicePlan(program=(program,), home=str(tmp_path / 'a "100%" home'), is_confined=is_confined)
    unit = tmp_path / "herodotus.service"
    unit.write_text(unit_text(plan))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--user", str(unit)], env={**os.environ, "XDG_RUNTIME_DIR": short_folder},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    unit.write_text(unit_text(plan).replace("NoNewPrivileges=", "NoNewPriviliges="))
    misspelt = subprocess.run(
        ["systemd-analyze", "verify", "--user", str(unit)], env={**os.environ, "XDG_RUNTIME_DIR": short_folder},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "'NoNewPriviliges'" in misspelt.stderr
