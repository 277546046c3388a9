"""The machine's time follows the wall clock forward, and goes back only for a new machine."""

import pytest

from dht.core.clock import CLOCK_STEP_S, RingClock

EPOCH_S = 1_790_000_000.0


def test_the_machines_time_is_the_walls_and_runs_like_the_steady_clock() -> None:
    clock = RingClock(EPOCH_S)
    assert clock.now(5.0) == EPOCH_S + 5


def test_a_wall_clock_a_little_ahead_is_followed() -> None:
    clock = RingClock(EPOCH_S)
    assert clock.look(EPOCH_S + 30) == 0
    assert clock.now(5.0) == EPOCH_S + 35


def test_a_wall_clock_a_little_behind_does_not_take_the_machine_back() -> None:
    clock = RingClock(EPOCH_S)
    assert clock.look(EPOCH_S - 30) == 0
    assert clock.now(5.0) == EPOCH_S + 5


@pytest.mark.parametrize("step_s", [CLOCK_STEP_S, -CLOCK_STEP_S, 3_600.0, -3_600.0])
def test_a_minute_or_more_is_a_jump_which_is_reported_once_and_taken_over(step_s: float) -> None:
    clock = RingClock(EPOCH_S)
    assert clock.look(EPOCH_S + step_s) == step_s
    assert clock.now(5.0) == EPOCH_S + step_s + 5
    assert clock.look(EPOCH_S + step_s) == 0
