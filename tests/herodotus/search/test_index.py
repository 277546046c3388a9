"""Is damage to the files of an index found, wherever it is?"""

import random
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from dht.core.arcs import WHOLE
from herodotus.core.errors import SearchFailedError
from herodotus.search.index import FORMAT, STATE, WHOLE_FORMAT, WordIndex
from tests.herodotus.search.indexing import URLS, Bench

FLIPS = 100


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    bench = Bench(tmp_path / "words")
    for day in range(2):
        for url in URLS:
            bench.put(url, day, f"words of day {day}")
        bench.catch_up()
    bench.close()
    return bench.folder


def test_a_sound_index_has_no_damaged_file(folder: Path) -> None:
    assert WordIndex(folder).damaged_file() is None


def test_each_flipped_byte_is_found(folder: Path) -> None:
    words, chance = WordIndex(folder), random.Random(7)
    files = sorted(path for path in folder.iterdir() if path.suffix not in ("", ".json", ".lock", ".temp"))
    assert {path.suffix for path in files} >= {
        ".idx",
        ".pos",
        ".term",
        ".fast",
        ".fieldnorm",
        ".store",
    }
    for number in range(FLIPS):
        path = files[number % len(files)]
        sound = path.read_bytes()
        at = chance.randrange(len(sound))
        path.write_bytes(sound[:at] + bytes((sound[at] ^ 1 << chance.randrange(8),)) + sound[at + 1 :])
        found = words.damaged_file()
        path.write_bytes(sound)
        # The version in the footer is not covered, and means nothing here.
        assert found == path.name or b'"version"' in sound[max(0, at - 80) : at + 12]


def test_a_file_that_a_kill_left_is_no_damage(folder: Path) -> None:
    segment = next(folder.glob("*.idx"))
    (folder / f"{32 * 'a'}.idx").write_bytes(segment.read_bytes()[:-1])
    (folder / f"{segment.stem}.9999.del").write_bytes(b"half")
    assert WordIndex(folder).damaged_file() is None


def test_an_index_of_an_earlier_release_has_all_words(folder: Path) -> None:
    state = msgspec.json.decode((folder / STATE).read_bytes())
    of_before = {
        name: state[name] for name in ("incarnation", "tail", "walked", "rules", "erased", "is_clean")
    }
    (folder / STATE).write_bytes(msgspec.json.encode({**of_before, "format": WHOLE_FORMAT}))
    words = WordIndex(folder)
    assert (words.answered, words.state.format) == (WHOLE, FORMAT)


def _without_state(folder: Path) -> None:
    (folder / STATE).unlink()


def _with_half_a_state(folder: Path) -> None:
    (folder / STATE).write_bytes((folder / STATE).read_bytes()[:20])


def _of_a_later_format(folder: Path) -> None:
    state = msgspec.json.decode((folder / STATE).read_bytes())
    (folder / STATE).write_bytes(msgspec.json.encode({**state, "format": FORMAT + 1}))


def _with_half_a_list(folder: Path) -> None:
    (folder / "meta.json").write_bytes((folder / "meta.json").read_bytes()[:200])


def _without_words(folder: Path) -> None:
    next(folder.glob("*.idx")).unlink()


@pytest.mark.parametrize(
    "break_it", [_without_state, _with_half_a_state, _of_a_later_format, _with_half_a_list, _without_words]
)
def test_an_index_that_lacks_a_part_is_not_opened(folder: Path, break_it: Callable[[Path], None]) -> None:
    break_it(folder)
    with pytest.raises(SearchFailedError):
        WordIndex(folder)
