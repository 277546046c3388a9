"""A small file of a home that is lost or damaged is there again as it was; what somebody wrote stays."""

import os
import random
from pathlib import Path

import msgspec
import pytest

from herodotus.core.errors import FileSyntaxError
from herodotus.home.durable import DAMAGED, set_aside, write_durably
from herodotus.home.folder import Home
from herodotus.home.identity import load_key, names_of_key
from herodotus.home.rotation import rotate
from herodotus.home.second_copies import (
    HomeWatch,
    Kept,
    encode,
    is_damage,
    keep_home,
    kept,
    restore_home,
    second_of,
)
from herodotus.home.state_files import read_state_file, write_state_file
from tests.herodotus.operate.cli.processes import new_home


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    format: int = 1
    words: list[str] = []


WORDS = Facts(words=["some", "words", "that", "stand", "here"])


def _read(path: Path) -> Facts | None:
    return read_state_file(path, Facts, newest=1, bytes_max=10_000)


def _turned(data: bytes, rng: random.Random) -> bytes:
    at, bit = rng.randrange(len(data)), rng.randrange(8)
    return data[:at] + bytes((data[at] ^ 1 << bit,)) + data[at + 1 :]


def test_the_bytes_of_a_second_copy() -> None:
    assert encode(b'{"format":1}').hex() == "7b22666f726d6174223a317d02e8d74514659227"


@pytest.mark.parametrize("hurt", ["delete", "empty", "halve", "folder"])
def test_a_state_file_that_is_lost_or_cut_is_put_back(tmp_path: Path, hurt: str) -> None:
    path = tmp_path / "facts.json"
    write_state_file(path, WORDS)
    before = path.read_bytes()
    match hurt:
        case "empty" | "halve":
            os.truncate(path, 0 if hurt == "empty" else len(before) // 2)
        case _:
            path.unlink()
    if hurt == "folder":
        path.mkdir()
    assert _read(path) == WORDS
    assert path.read_bytes() == before
    assert path.with_name(f"facts.json{DAMAGED}").exists() is (hurt != "delete")


@pytest.mark.parametrize("seed", range(30))
def test_any_bit_of_a_state_file_may_turn_over(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "facts.json"
    write_state_file(path, WORDS)
    before = path.read_bytes()
    path.write_bytes(_turned(before, random.Random(seed)))
    assert _read(path) == WORDS
    assert path.read_bytes() == before


@pytest.mark.parametrize("seed", range(10))
def test_a_second_copy_that_rots_is_none(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "facts.json"
    write_state_file(path, WORDS)
    second = second_of(path)
    second.write_bytes(_turned(second.read_bytes(), random.Random(seed)))
    assert kept(second) is None
    assert _read(path) == WORDS
    path.unlink()
    assert _read(path) is None


def test_what_was_written_later_counts_and_both_damaged_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "facts.json"
    write_state_file(path, WORDS)
    other = Facts(words=["restored from a backup"])
    path.write_bytes(msgspec.json.encode(other))
    assert _read(path) == other
    path.write_bytes(b"{")
    second_of(path).write_bytes(b"x" * 30)
    with pytest.raises(FileSyntaxError, match="second"):
        _read(path)


def test_a_disk_that_rots_changes_bytes_and_no_times(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(b"rate = 1")
    changed_s = path.stat().st_ctime
    assert is_damage(path, b"rate = 1", Kept(b"rate = 2", changed_s), is_by_hand=True)
    assert not is_damage(path, b"rate = 1", Kept(b"rate = 2", changed_s - 1), is_by_hand=True)
    assert is_damage(path, b"rate = 1", Kept(b"rate = 2", changed_s - 1))


def _home(folder: Path) -> Home:
    home = Home(new_home(folder / "home"))
    assert restore_home(home.path) == []
    keep_home(home.path)
    return home


NAMES = ["state/home.json", "network.toml", "config.toml", "identity.key"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("hurt", ["delete", "empty", "halve", "folder"])
def test_what_makes_a_home_is_put_back(tmp_path: Path, name: str, hurt: str) -> None:
    home = _home(tmp_path)
    path = home.path / name
    before, mode = path.read_bytes(), path.stat().st_mode
    if hurt in ("delete", "folder"):
        path.unlink()
    else:
        os.truncate(path, 0 if hurt == "empty" else len(before) // 2)
    if hurt == "folder":
        path.mkdir()
    assert restore_home(home.path) == [path.name]
    assert (path.read_bytes(), path.stat().st_mode) == (before, mode)


@pytest.mark.parametrize("seed", range(20))
def test_a_turned_bit_of_the_key_does_not_make_another_peer(tmp_path: Path, seed: int) -> None:
    home = _home(tmp_path)
    before = home.key.read_bytes()
    home.key.write_bytes(_turned(before, random.Random(seed)))
    assert restore_home(home.path) == ["identity.key"]
    assert home.key.read_bytes() == before


def test_settings_that_a_person_changed_stay(tmp_path: Path) -> None:
    home = _home(tmp_path)
    text = home.config.read_text()
    home.config.write_text(text.replace("[", "[", 1) + "\n# mine\n")
    assert restore_home(home.path) == []
    home.config.write_text(text[:-2] + "!\n")
    assert restore_home(home.path) == [], "a mistake is answered with the line that is wrong"


def test_the_last_settings_may_be_taken_out(tmp_path: Path) -> None:
    home = _home(tmp_path)
    home.config.write_text("[store]\n\n[budget]\nniceness = 5\n")
    keep_home(home.path)
    text = home.config.read_text()
    for left in (text.removesuffix("niceness = 5\n"), text.removesuffix("\nniceness = 5\n")):
        home.config.write_text(left)
        assert restore_home(home.path) == []
    home.config.write_text(text.removesuffix("= 5\n"))
    assert restore_home(home.path) == ["config.toml"], "a line that is cut off is damage"


@pytest.mark.parametrize("name", NAMES)
def test_a_running_peer_puts_back_what_stays_hurt(tmp_path: Path, name: str) -> None:
    home = _home(tmp_path)
    path, watch = home.path / name, HomeWatch(home.path, lambda: False)
    before = path.read_bytes()
    assert watch.look() == []
    path.unlink()
    assert watch.look() == [], "an editor may be about to write it"
    path.write_bytes(before)
    assert watch.look() == []
    path.unlink()
    path.mkdir()
    assert [watch.look(), watch.look(), watch.look()] == [[], [path.name], []]
    assert path.read_bytes() == before


def test_a_key_that_somebody_put_there_stays(tmp_path: Path) -> None:
    home, other = _home(tmp_path), Home(new_home(tmp_path / "other"))
    home.key.write_bytes(other.key.read_bytes())
    assert restore_home(home.path) == []


def test_of_a_key_that_was_replaced_no_copy_stays(tmp_path: Path) -> None:
    home = _home(tmp_path)
    old = home.key.read_bytes()
    done = rotate(home, None, now_s=1_800_000_000)
    assert all(
        one.read_bytes()[:-8] != old
        for one in (home.state / "second").iterdir()
        if "previous" not in one.name
    )
    home.key.unlink()
    assert restore_home(home.path) == ["identity.key"]
    found = load_key(home.key, None).public_key().public_bytes_raw()
    assert names_of_key(found) == names_of_key(done.new.public_key().public_bytes_raw())


def test_what_is_set_aside_takes_the_place_of_nothing(tmp_path: Path) -> None:
    path = tmp_path / "one"
    for number in range(12):
        path.write_text(str(number))
        set_aside(path)
    assert len(list(tmp_path.iterdir())) == 9
    path.mkdir()
    write_durably(path, b"a file again")
    assert path.read_bytes() == b"a file again"
