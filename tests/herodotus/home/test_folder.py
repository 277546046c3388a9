"""Is a home made whole or not at all, kept to one network, and used by one process at a time?"""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from herodotus.core.charter import PUBLIC_CHARTER, TEST_CHARTER
from herodotus.core.errors import CharterMismatch, FileSyntaxError, HomeInUse, StorageFailure
from herodotus.home import folder
from herodotus.home.durable import write_durably
from herodotus.home.folder import (
    Home,
    HomeMissing,
    HomeOccupied,
    NewHome,
    check_network,
    choose_home,
    create_home,
    locked,
    open_home,
    running_on,
    wait_released,
)
from tests.herodotus.trees import tree

CONTENT = NewHome(config='preset = "test"\n', charter=TEST_CHARTER, key_pem=b"key")
HOLDER = """
import sys
from pathlib import Path
from herodotus.home.folder import Home, locked
with locked(Home(Path(sys.argv[1]))) as lock:
    lock.publish("http://127.0.0.1:1")
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "peer")
    create_home(made, CONTENT)
    return made


def holder_of(home: Home) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", HOLDER, str(home.path)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def end(process: "subprocess.Popen[str]", number: signal.Signals = signal.SIGKILL) -> None:
    process.send_signal(number)
    process.communicate(timeout=10)


def test_a_home_has_its_parts_and_only_its_owner_reads_the_secret_ones(home: Home) -> None:
    modes = {
        str(one.relative_to(home.path)): one.stat().st_mode & 0o777 for one in sorted(home.path.rglob("*"))
    }
    assert modes == {
        "archive": 0o700, "config.toml": 0o600, "identity.key": 0o600, "index": 0o700, "log": 0o700,
        "network.toml": 0o644, "queue": 0o700, "state": 0o700, "state/home.json": 0o644,
    }  # fmt: skip
    assert home.path.stat().st_mode & 0o777 == 0o700
    assert json.loads(home.mark.read_text()) == {
        "format": 1,
        "network": "1e92efc560cfbcc8356c017de54f2e0f1b8009d35c08811a06c08106f8620eb1",
    }
    assert open_home(home) == TEST_CHARTER


def test_nothing_is_left_beside_a_new_home(home: Home) -> None:
    assert list(home.path.parent.iterdir()) == [home.path]


def test_an_empty_folder_and_a_freshly_made_disk_become_homes(tmp_path: Path) -> None:
    empty, disk = Home(tmp_path / "empty"), Home(tmp_path / "disk")
    empty.path.mkdir()
    (disk.path / "lost+found").mkdir(parents=True)
    for one in (empty, disk):
        create_home(one, CONTENT)
        assert open_home(one) == TEST_CHARTER


@pytest.mark.parametrize("is_there", [False, True], ids=["new", "existing"])
@pytest.mark.parametrize("failing", ["identity.key", "config.toml", "network.toml", "home.json"])
def test_a_home_that_cannot_be_finished_is_not_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str, is_there: bool
) -> None:
    home = Home(tmp_path / "new" / "folders" / "peer")
    if is_there:
        home.path.mkdir(parents=True)
    before = tree(tmp_path)
    really_replace = Path.replace

    def full(self: Path, target: Path) -> Path:
        if target.name == failing:
            raise OSError(28, os.strerror(28))
        return really_replace(self, target)

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(StorageFailure, match="no space left on device; free some space"):
        create_home(home, CONTENT)
    assert tree(tmp_path) == before
    monkeypatch.undo()
    create_home(home, CONTENT)
    assert open_home(home) == TEST_CHARTER


def test_an_occupied_place_is_left_alone(home: Home, tmp_path: Path) -> None:
    other, file = tmp_path / "other", tmp_path / "file"
    other.mkdir()
    (other / "thesis.txt").touch()
    file.touch()
    before = tree(tmp_path)
    with pytest.raises(
        HomeOccupied, match=r"is already a home; `herodotus run --home .*peer` starts its peer"
    ):
        create_home(home, CONTENT)
    with pytest.raises(HomeOccupied, match="is not empty and not a home; choose another folder with --home"):
        create_home(Home(other), CONTENT)
    with pytest.raises(HomeOccupied, match="is not a folder; choose another place with --home"):
        create_home(Home(file), CONTENT)
    with pytest.raises(StorageFailure, match=r"cannot create .*: not a directory"):
        create_home(Home(file / "below" / "peer"), CONTENT)
    assert tree(tmp_path) == before


def test_the_flag_comes_before_the_variable_before_the_platforms_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    monkeypatch.setenv("HOME", "/home/reader")
    assert choose_home("/flag", {"HERODOTUS_HOME": "/variable"}).path == Path("/flag")
    assert choose_home(None, {"HERODOTUS_HOME": "~/variable"}).path == Path("/home/reader/variable")
    assert choose_home("relative", {}).path == Path.cwd() / "relative"
    if sys.platform == "linux":
        assert choose_home(None, {}).path == Path("/data/herodotus")


def test_a_folder_without_the_mark_is_no_home(tmp_path: Path) -> None:
    with pytest.raises(HomeMissing, match="is not a home; make one with `herodotus init --home"):
        open_home(Home(tmp_path))
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(HomeMissing):
        open_home(Home(file))


@pytest.mark.parametrize(
    "content",
    [
        "", "{", "[]", "3", '{"format": 1}', '{"format": "1", "network": "00"}', '{"format": 1, "network": "00"}',
        '{"format": 1, "network": "xyz"}', '{"format": 1, "network": 3}', "\x00" * 100, "[" * 9000,
        '{"format": Infinity, "network": ""}',
    ],
    ids=range(12),
)  # fmt: skip
def test_a_damaged_mark_is_said(home: Home, content: str) -> None:
    home.mark.write_text(content)
    with pytest.raises(FileSyntaxError) as caught:
        open_home(home)
    assert str(caught.value).startswith(f"{home.mark} is damaged; it should hold")


def test_a_home_of_a_newer_release_asks_for_an_upgrade_whatever_else_it_says(home: Home) -> None:
    home.mark.write_text('{"format": 2, "networks": []}')
    with pytest.raises(FileSyntaxError) as caught:
        open_home(home)
    assert str(caught.value) == (
        f"{home.path} was written by a newer release (format 2); "
        "upgrade herodotus: this release reads formats up to 1"
    )


def test_a_charter_of_another_network_is_refused(home: Home, tmp_path: Path) -> None:
    home.charter.write_text(TEST_CHARTER.to_toml().replace("# copies = 6", "copies = 5"))
    with pytest.raises(CharterMismatch) as caught:
        open_home(home)
    assert str(caught.value).startswith(f"{home.charter} describes network 'test' (")
    assert f"but {home.path} belongs to network 1e92efc560cfbcc8; networks never mix" in str(caught.value)
    with pytest.raises(CharterMismatch):
        check_network(PUBLIC_CHARTER, home, file=tmp_path / "public")


def test_a_second_holder_is_told_the_pid_of_the_first(home: Home) -> None:
    process = holder_of(home)
    try:
        with pytest.raises(HomeInUse) as caught, locked(home):
            pass
        assert str(caught.value) == (
            f"{home.path} is in use by process {process.pid}; "
            f"stop it with `herodotus stop --home {home.path}` or use another home"
        )
        running = running_on(home)
        assert running is not None
        assert (running.pid, running.http) == (process.pid, "http://127.0.0.1:1")
    finally:
        end(process)


def test_the_lock_of_a_killed_process_heals_itself(home: Home) -> None:
    end(holder_of(home), signal.SIGKILL)
    assert b"pid" in home.lock.read_bytes()  # its note is still there, and says nothing
    assert running_on(home) is None
    with locked(home) as lock:
        running = running_on(home)
        assert running is not None
        assert (running.pid, running.http) == (os.getpid(), "")
        lock.publish("http://[::1]:2")
        running = running_on(home)
        assert running is not None
        assert running.http == "http://[::1]:2"
    assert running_on(home) is None


@pytest.mark.parametrize("hurt", ["gone", "a folder"])
def test_a_lock_whose_file_is_gone_is_taken_anew(home: Home, hurt: str) -> None:
    with locked(home) as lock:
        lock.publish("http://127.0.0.1:1")
        assert not lock.hold_on()
        home.lock.unlink()
        if hurt == "a folder":
            home.lock.mkdir()
        assert lock.hold_on()
        assert not lock.hold_on()
        running = running_on(home)
        assert running is not None
        assert (running.pid, running.http) == (os.getpid(), "http://127.0.0.1:1")
        with pytest.raises(HomeInUse), locked(home):
            pass
    assert running_on(home) is None


def test_a_lock_that_another_took_is_not_taken_from_it(home: Home) -> None:
    with locked(home) as lock:
        home.lock.unlink()
        with locked(home), pytest.raises(HomeInUse):
            lock.hold_on()


def test_a_note_that_cannot_be_read_still_means_in_use(home: Home) -> None:
    with locked(home):
        home.lock.write_bytes(b"[" * 512)
        running = running_on(home)
        assert running is not None
        assert (running.pid, running.http) == (0, "")
        with pytest.raises(HomeInUse, match="is in use by another process"), locked(home):
            pass


def test_nobody_runs_on_a_home_never_started(home: Home) -> None:
    assert running_on(home) is None


def test_those_who_ask_about_a_home_are_never_taken_for_its_holder(home: Home) -> None:
    home.lock.touch()
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            running_on(home)

    askers = [threading.Thread(target=ask) for _ in range(3)]
    for one in askers:
        one.start()
    try:
        for _ in range(100):
            with locked(home):
                pass
    finally:
        stop.set()
        for one in askers:
            one.join()
    assert running_on(home) is None


def test_waiting_ends_when_the_holder_does(home: Home) -> None:
    process = holder_of(home)
    waited = threading.Event()

    def wait() -> None:
        wait_released(home)
        waited.set()

    waiter = threading.Thread(target=wait)
    waiter.start()
    assert not waited.is_set()
    end(process)
    waiter.join(10)
    assert waited.is_set()


@pytest.mark.parametrize("is_there", [True, False])
def test_the_mark_that_makes_a_folder_a_home_is_written_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    """A crash before leaves a folder that nothing takes for a home."""
    written: list[str] = []

    def watched(path: Path, content: bytes, *, mode: int = 0o644) -> None:
        written.append(path.name)
        write_durably(path, content, mode=mode)

    monkeypatch.setattr(folder, "write_durably", watched)
    made = Home(tmp_path / "peer")
    if is_there:
        made.path.mkdir()
    create_home(made, CONTENT)
    assert sorted(written) == ["config.toml", "home.json", "identity.key", "network.toml"]
    assert written[-1] == "home.json"
