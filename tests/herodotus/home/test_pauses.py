"""Does a pause last for as long as it was ordered, through restarts and wrong clocks?"""

import math
from dataclasses import dataclass
from pathlib import Path

import pytest

from herodotus.home.pauses import OperatorPause, left_of_pause, write_pause

NOW_S = 1_795_000_000.0


@dataclass
class Clocks:
    wall: float = NOW_S
    steady: float = 5.0

    def pass_by(self, seconds: float) -> None:
        self.wall += seconds
        self.steady += seconds


def begun(path: Path, clocks: Clocks) -> OperatorPause:
    pause = OperatorPause(path, lambda: clocks.wall, lambda: clocks.steady)
    pause.recall()
    return pause


def test_the_file_has_these_bytes(tmp_path: Path) -> None:
    write_pause(tmp_path / "paused", NOW_S + 0.4, 1_800.0)
    assert (tmp_path / "paused").read_bytes() == (b'{"format":1,"from_s":1795000000,"until_s":1795001800}')
    write_pause(tmp_path / "paused", NOW_S, None)
    assert (tmp_path / "paused").read_bytes() == b""
    assert left_of_pause(tmp_path / "paused", NOW_S) == math.inf


def test_a_pause_ends_by_itself_and_the_rest_of_it_outlives_a_restart(tmp_path: Path) -> None:
    path, clocks = tmp_path / "paused", Clocks()
    pause = begun(path, clocks)
    assert (pause.left_s(), left_of_pause(path, NOW_S)) == (0.0, 0.0)
    pause.begin(1_800.0)
    clocks.pass_by(600.0)
    assert pause.left_s() == 1_200.0
    assert begun(path, clocks).left_s() == 1_200.0
    clocks.pass_by(1_200.0)
    assert pause.left_s() == begun(path, clocks).left_s() == 0.0
    assert pause.end() is False
    assert not path.exists()


def test_a_pause_without_an_end_waits_for_a_word(tmp_path: Path) -> None:
    path, clocks = tmp_path / "paused", Clocks()
    begun(path, clocks).begin(None)
    clocks.pass_by(1e9)
    again = begun(path, clocks)
    assert again.left_s() == math.inf
    assert again.end() is True
    assert begun(path, clocks).left_s() == 0.0


def test_a_machine_that_slept_has_paused_meanwhile(tmp_path: Path) -> None:
    clocks = Clocks()
    pause = begun(tmp_path / "paused", clocks)
    pause.begin(1_800.0)
    clocks.wall += 1_700.0
    assert pause.left_s() == 100.0


@pytest.mark.parametrize("leap_s", [-1e9, -86_400.0])
def test_a_clock_that_is_set_back_lengthens_no_pause(tmp_path: Path, leap_s: float) -> None:
    path, clocks = tmp_path / "paused", Clocks()
    pause = begun(path, clocks)
    pause.begin(1_800.0)
    clocks.wall += leap_s
    assert pause.left_s() == begun(path, clocks).left_s() == 1_800.0
    clocks.pass_by(1_800.0)
    assert pause.left_s() == 0.0


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"\xff",
        b'{"format":2,"from_s":0,"until_s":1}',
        b'{"format":1,"from_s":0,"until_s":1e300}',
        b'{"format":1,"from_s":9,"until_s":1}',
        b"x" * 2_000,
    ],
)
def test_a_file_that_cannot_be_read_is_a_pause_until_it_is_ended_by_hand(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "paused"
    path.write_bytes(content)
    assert left_of_pause(path, NOW_S) == math.inf
