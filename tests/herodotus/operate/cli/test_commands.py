"""Does each command say and do what its help promises, with data on stdout, talk on stderr and the right exit code?"""

import errno
import os
import subprocess
import tempfile
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from herodotus.core.charter import TEST_CHARTER, shown_network_id
from herodotus.home.clock import unix_seconds
from herodotus.home.folder import read_charter
from tests.herodotus.operate.cli.processes import (
    HERODOTUS,
    called,
    clean_environment,
    herodotus,
    herodotus_as_nobody,
    new_home,
)
from tests.herodotus.trees import tree

pytestmark = pytest.mark.e2e
IS_ROOT = os.geteuid() == 0
needs_root = pytest.mark.skipif(
    not IS_ROOT and os.environ.get("CI") != "true", reason="mounting and changing user need root"
)
ERROR = "herodotus: error: "


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Read by the tests, changed by none."""
    return new_home(tmp_path_factory.mktemp("commands") / "peer", "--contact", "https://example.org/about")


def test_init_tells_people_and_machines_what_it_made(tmp_path: Path) -> None:
    people = called("init", "--home", tmp_path / "people", "--network", "test", environment={"NO_COLOR": "1"})
    assert (people.code, people.out) == (0, "")
    assert people.err.splitlines()[0] == f"home     {tmp_path / 'people'}"
    assert people.err.splitlines()[2] == "network  test (1e92efc560cfbcc8)"
    assert "\x1b" not in people.err
    machines = called("init", "--json", "-q", "--home", tmp_path / "machines", "--network", "test")
    assert (machines.code, machines.err) == (0, "")
    shown = called("identity", "show", "--home", tmp_path / "machines").out.strip()
    assert machines.json == {
        "home": str(tmp_path / "machines"), "peer_id": shown, "network": "test", "network_id": "1e92efc560cfbcc8",
    }  # fmt: skip


def test_a_path_with_odd_characters_is_told_as_it_is(tmp_path: Path) -> None:
    home = tmp_path / "a :cat: [bold]é"
    assert f"home     {home}\n" in called("init", "--home", home, "--network", "test").err


def test_a_command_that_is_offered_can_be_pasted_though_the_home_has_a_space(tmp_path: Path) -> None:
    home = tmp_path / "my peer"
    offered = f"--home '{home}'`\n"
    assert called("status", "--home", home).err.endswith(f"`herodotus init {offered}")
    new_home(home)
    assert called("status", "--home", home).err.endswith(f"`herodotus run {offered}")
    assert called("init", "--home", home).err.endswith(f"`herodotus run --home '{home}'` starts its peer\n")


def test_the_public_network_asks_for_a_contact_before_the_first_run(tmp_path: Path) -> None:
    home = tmp_path / "peer"
    made = called("init", "--home", home)
    assert f"Set operator.contact in {home}/config.toml" in made.err
    run = called("run", "--home", home, "--http", "127.0.0.1:0")
    assert run.code == 2
    assert "operator.contact must be set: the charter of network 'herodotus' requires" in run.err


def test_init_joins_the_network_of_a_file_and_no_other(tmp_path: Path) -> None:
    file = tmp_path / "library.toml"
    file.write_text(TEST_CHARTER.to_toml().replace('name = "test"', 'name = "library"'))
    home = tmp_path / "peer"
    assert called("init", "--home", home, "--network", file, "--json").json["network"] == "library"
    before = tree(home)
    other = called("init", "--home", home, "--network", "test")
    assert other.code == 2
    assert "networks never mix" in other.err
    run = called("run", "--home", home, "--network", "public")
    assert run.code == 2
    assert "public describes network 'herodotus' (bb81b25462452e26)" in run.err
    assert tree(home) == before


def test_a_network_that_is_founded_begins_today_and_others_join_it_by_its_file(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    made = called("init", "--home", first, "--network", "test", "--found", "library", "--json")
    assert f"Give {first}/network.toml to all who join" in made.err
    charter = read_charter(first / "network.toml")
    age_s = unix_seconds() - 86_400 * (date.fromisoformat(charter.founded) - date(1970, 1, 1)).days
    assert (charter.name, charter.id_check, 0 <= age_s < 2 * 86_400) == ("library", "off", True)
    joined = called("init", "--home", second, "--network", first / "network.toml", "--json")
    assert joined.json["network_id"] == made.json["network_id"] != shown_network_id(TEST_CHARTER.network_id())
    nameless = called("init", "--home", tmp_path / "third", "--found", "")
    assert (nameless.code, "name must be" in nameless.err) == (2, True), nameless.err


def test_config_show_says_each_value_and_where_it_came_from(home: Path) -> None:
    shown = called("config", "show", "--home", home, "--json", environment={"HERODOTUS_LOG_LEVEL": "debug"})
    assert shown.json["log.level"] == {"value": '"debug"', "origin": "environment HERODOTUS_LOG_LEVEL"}
    assert shown.json["http.listen"] == {"value": '"127.0.0.1:0"', "origin": "preset test"}
    assert shown.json["http.idle_s"] == {"value": "30.0", "origin": "default"}
    assert shown.json["operator.contact"] == {
        "value": '"https://example.org/about"', "origin": str(home / "config.toml"),
    }  # fmt: skip
    people = called("config", "show", "--home", home)
    assert any(
        line.startswith("http.listen ") and line.endswith("# preset test") for line in people.out.splitlines()
    )
    assert people.err == ""


@pytest.mark.parametrize(
    "place",
    [
        ["--home", "{home}", "config", "show"],
        ["config", "--home", "{home}", "show"],
        ["config", "show", "--home", "{home}"],
        ["--home", "/nowhere", "config", "show", "--home", "{home}"],
    ],
)
def test_the_home_may_stand_anywhere_and_the_last_one_counts(home: Path, place: list[str]) -> None:
    shown = called(*[word.format(home=home) for word in place])
    assert "https://example.org/about" in shown.out


def test_the_home_may_come_from_the_environment(home: Path) -> None:
    shown = called("config", "show", environment={"HERODOTUS_HOME": str(home)})
    assert "https://example.org/about" in shown.out


def test_identity_export_writes_the_public_key_and_a_backup_of_the_private_one(
    home: Path, tmp_path: Path
) -> None:
    public = called("identity", "export", "--home", home)
    assert public.out.startswith("-----BEGIN PUBLIC KEY-----\n")
    assert called("identity", "export", "--private", "--home", home).code == 2
    backup = tmp_path / "backup.key"
    assert called("identity", "export", "--private", "-o", backup, "--home", home).code == 0
    assert backup.stat().st_mode & 0o777 == 0o600
    assert backup.read_bytes() == (home / "identity.key").read_bytes()
    again = called("identity", "export", "--private", "-o", backup, "--home", home)
    assert (again.code, again.err) == (2, f"{ERROR}{backup} already exists; choose another name\n")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_completion_script(shell: str) -> None:
    script = called("completion", shell)
    assert script.code == 0
    assert f"_HERODOTUS_COMPLETE={shell}_complete" in script.out


def test_completion_offers_the_commands() -> None:
    offered = herodotus(
        environment={"_HERODOTUS_COMPLETE": "bash_complete", "COMP_WORDS": "herodotus st", "COMP_CWORD": "1"}
    )
    assert offered.out.split() == ["plain,stats", "plain,status", "plain,stop"]


@pytest.mark.parametrize("program", ["herodotus", "simnet"])
def test_each_program_tells_its_version_and_help(program: str) -> None:
    command = str(Path(HERODOTUS).with_name(program))
    for flag, words in {
        "--version": f"{program}, version 0.1.0",
        "--help": f"Usage: {program} ",
        "-h": "Usage",
    }.items():
        done = subprocess.run(
            [command, flag], env=clean_environment(), capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith(words)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["frobnicate"], 2, "No such command 'frobnicate'."),
        (["status", "--frobnicate"], 2, "No such option"),
        (["run", "--ready-fd", "x"], 2, "'x' is not a valid integer"),
        (["status", "--home", "/nowhere"], 3, f"{ERROR}/nowhere is not a home; make one with `herodotus init --home"),
        (["stop", "--home", "/nowhere"], 3, f"{ERROR}/nowhere is not a home"),
        (["run", "--home", "/nowhere"], 3, f"{ERROR}/nowhere is not a home"),
        (["identity", "show", "--home", "/nowhere"], 3, f"{ERROR}/nowhere is not a home"),
        (["status", "--peer", "ftp://x"], 2, "--peer takes a peer's http:// address, not 'ftp://x'"),
        (["status", "--peer", "http://127.0.0.1:9"], 1, f"{ERROR}no answer from http://127.0.0.1:9/api/v1/status: "),
        (["status", "--peer", "http://a b/"], 1, f"{ERROR}no answer from http://a b/api/v1/status: "),
        (["init", "--home", "{new}", "--network", "/none.toml"], 1, f"{ERROR}cannot read /none.toml: no such file"),
        (["init", "--home", "{new}", "--contact", "me"], 2, f"{ERROR}--contact: operator.contact must be an http://"),
        (["init", "--home", "{new}", "--preset", "wam"], 2, "'wam' is not one of 'wan', 'lan', 'test'"),
        (["init", "--home", "/dev/null"], 2, f"{ERROR}/dev/null is not a folder"),
        (["init", "--home", "/dev/null/x"], 1, f"{ERROR}cannot create /dev/null/x: file exists"),
        (["init", "--home", "{new}" + "x" * 300], 1, "file name too long"),
        (["run", "--home", "{home}", "--http", "localhost:80"], 2, f"{ERROR}--http: http.listen must begin with an IP"),
    ],
)  # fmt: skip
def test_a_wrong_command_line_is_one_sentence_and_changes_nothing(
    home: Path, tmp_path: Path, arguments: list[str], code: int, words: str
) -> None:
    before = tree(home)
    result = called(*[word.format(home=home, new=tmp_path / "new") for word in arguments])
    assert (result.code, result.out) == (code, "")
    assert words in result.err
    assert "Traceback" not in result.err
    assert tree(home) == before
    assert list(tmp_path.iterdir()) == []


def test_a_traceback_is_shown_only_when_asked_for() -> None:
    plain, debug = (called(*flag, "status", "--home", "/nowhere") for flag in ([], ["--debug"]))
    assert "Traceback" not in plain.err
    assert "Traceback" in debug.err
    assert debug.code == plain.code == 3


def test_a_full_standard_output_is_one_sentence(home: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [HERODOTUS, "config", "show", "--home", str(home)], stdout=full, stderr=subprocess.PIPE, text=True,
            env=clean_environment(), check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == f"{ERROR}no space left on device; add --debug for where\n"


# What stands in a home, and what is said about it: (file, content, exit code, words).
# fmt: off
DAMAGES: dict[str, tuple[str, bytes, int, str]] = {
    "toml": ("config.toml", b"[http]\nlisten = \n", 2, "{home}/config.toml is not valid TOML: Invalid value (at line"),
    "key": ("config.toml", b"[http]\nlisen = 1\n", 2, "{home}/config.toml: http.lisen is not a setting; did you mean"),
    "type": ("config.toml", b"[http]\nidle_s = []\n", 2, "{home}/config.toml: http.idle_s must be a number from 1"),
    "charter toml": ("network.toml", b"name = 'a\n", 2, "{home}/network.toml is not valid TOML: "),
    "charter": ("network.toml", b"name = 'a'\n", 2, "{home}/network.toml describes network 'a' ("),
    "charter key": ("network.toml", b"copis = 3\n", 2, "{home}/network.toml: copis is not a setting; did you mean cop"),
    "identity": ("identity.key", b"-----BEGIN RSA", 2, "{home}/identity.key is not a private key in PEM form"),
    "mark": ("state/home.json", b"{", 2, "{home}/state/home.json is damaged; it should hold"),
}
# fmt: on


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_home_is_told_by_file_and_left_as_it_is(tmp_path: Path, home: Path, damage: str) -> None:
    name, content, code, words = DAMAGES[damage]
    copy = tmp_path / "peer"
    subprocess.run(["cp", "-a", str(home), str(copy)], check=True)
    (copy / name).write_bytes(content)
    before = tree(copy)
    result = called("run", "--home", copy)
    assert (result.code, result.out) == (code, "")
    assert result.err.startswith(ERROR + words.format(home=copy))
    assert len(result.err.splitlines()) == 1
    assert tree(copy) == before


def test_a_key_open_to_others_is_told_with_the_command_that_mends_it(tmp_path: Path, home: Path) -> None:
    copy = tmp_path / "peer"
    subprocess.run(["cp", "-a", str(home), str(copy)], check=True)
    (copy / "identity.key").chmod(0o644)
    result = called("run", "--home", copy)
    assert result.code == 2
    assert result.err.endswith(
        f"can be read by others (mode 0644); correct it with: chmod 600 {copy}/identity.key\n"
    )


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 64 kB."""
    place = tmp_path / "disk"
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode and os.environ.get("CI") != "true":
        pytest.skip(f"this machine does not let us mount: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def fill(disk: Path) -> None:
    with (disk / "ballast").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 512)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise


@needs_root
def test_a_home_is_not_begun_on_a_full_disk(small_disk: Path) -> None:
    fill(small_disk)
    before = tree(small_disk)
    home = small_disk / "some" / "peer"
    result = called("init", "--home", home, "--network", "test")
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith(f"{ERROR}cannot ")
    assert result.err.endswith(": no space left on device; free some space, or choose another place\n")
    assert tree(small_disk) == before


@needs_root
def test_a_mounted_disk_becomes_a_home_and_a_peer_does_not_start_when_it_is_full(small_disk: Path) -> None:
    assert called("init", "--home", small_disk, "--network", "test", "--preset", "test").code == 0
    fill(small_disk)
    before = tree(small_disk)
    result = called("run", "--home", small_disk)
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith(
        f"{ERROR}cannot write {small_disk}/state/lock: no space left on device; free some"
    )
    after = tree(small_disk)
    assert after.pop("state/lock")[1] == b""
    assert after == before


@needs_root
def test_a_read_only_disk_is_told_by_init_and_run(small_disk: Path) -> None:
    home = small_disk / "peer"
    assert called("init", "--home", home, "--network", "test", "--preset", "test").code == 0
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    before = tree(small_disk)
    hint = "read-only file system; the file system is mounted read-only: choose another place\n"
    run = called("run", "--home", home)
    assert (run.code, run.err) == (1, f"{ERROR}cannot open {home}/state/lock: {hint}")
    init = called("init", "--home", small_disk / "other" / "peer", "--network", "test")
    assert (init.code, init.err) == (1, f"{ERROR}cannot create {small_disk}/other/peer: {hint}")
    assert called("identity", "show", "--home", home).code == 0
    assert tree(small_disk) == before


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder of ours that other users can reach but not change; pytest's own are closed to them."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@needs_root
def test_a_folder_that_belongs_to_somebody_else_is_told(open_folder: Path, home: Path) -> None:
    closed = open_folder / "closed"
    subprocess.run(["cp", "-a", str(home), str(closed)], check=True)
    before = tree(open_folder)
    hint = "permission denied; it belongs to another user: change its owner or mode, or choose another place"
    made = herodotus_as_nobody("init", "--home", open_folder / "peer", "--network", "test")
    assert (made.code, made.err) == (1, f"{ERROR}cannot create {open_folder}/peer: {hint}\n")
    for command in (["run"], ["status"], ["stop"], ["identity", "show"]):
        denied = herodotus_as_nobody(*command, "--home", closed)
        assert (denied.code, denied.out) == (1, "")
        assert denied.err == f"{ERROR}cannot look into {closed}: {hint}\n"
    assert tree(open_folder) == before


def test_a_home_whose_settings_are_gone_does_not_run_on_others(tmp_path: Path) -> None:
    home = new_home(tmp_path / "home")
    (home / "config.toml").unlink()
    for command in (("config", "show"), ("run",)):
        refused = called(*command, "--home", home)
        assert refused.code == 1
        assert f"cannot read {home}/config.toml" in refused.err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["http://["], "is not a URL to crawl"),
        (["ftp://a.example/"], "only http and https"),
        (["mailto:x@example.org"], "only http and https"),
        (["a.example", "--delay", "0"], "be polite"),
        (["a.example", "--scope", "world"], "world"),
    ],
)
def test_a_crawl_refuses_nonsense_in_a_sentence(tmp_path: Path, arguments: list[str], sentence: str) -> None:
    home = tmp_path / "home"  # of the public network, which is polite
    contact = ("--contact", "https://example.org/about")
    assert called("init", "--home", home, *contact).code == 0
    refused = called("crawl", *arguments, "--home", home)
    assert refused.code == 2
    assert sentence in refused.err


def test_a_crawl_of_nothing_says_how_to_name_something(tmp_path: Path) -> None:
    nothing = called("crawl", "--home", new_home(tmp_path / "home"))
    assert nothing.code == 3
    assert "herodotus seed add URL" in nothing.err


def test_a_number_of_seconds_is_a_number() -> None:
    done = called("stop", "--wait", "nan")
    assert (done.code, done.out) == (2, "")
    assert "not a number of seconds" in done.err
