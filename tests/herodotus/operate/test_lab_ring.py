"""When does the day of a tester's ring begin?"""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herodotus.core.charter import TEST_CHARTER
from herodotus.crawl.gear import day_offset_s
from herodotus.home.folder import Home
from herodotus.operate.lab_ring import make_home, place, with_day_of

MIDNIGHT = 1_795_046_400.0  # 2026-11-19, a Thursday, 00:00 UTC


@pytest.mark.parametrize(
    ("after_midnight_s", "length_s", "start"),
    [
        (15 * 3_600 + 7 * 60 + 59, 86_400, "15:07"),
        (0, 86_400, "00:00"),
        (86_399, 86_400, "23:59"),
        (15 * 3_600 + 7 * 60 + 59, 3_600, "00:07"),
        (15 * 3_600 + 7 * 60 + 59, 60, "00:00"),  # a day begins at each full minute
    ],
)
def test_a_day_of_a_new_ring_begins_in_the_minute_in_which_it_is_founded(
    tmp_path: Path, after_midnight_s: int, length_s: int, start: str
) -> None:
    charter = replace(TEST_CHARTER, day_length_s=length_s)
    made = with_day_of(tmp_path, charter, MIDNIGHT + after_midnight_s)
    assert (made.day_start, made.founded) == (start, "2026-11-19")


@given(now_s=st.floats(MIDNIGHT, MIDNIGHT + 86_400), length_s=st.integers(10, 86_400))
def test_no_new_ring_is_more_than_a_minute_into_its_day(now_s: float, length_s: int) -> None:
    charter = with_day_of(Path("/nowhere"), replace(TEST_CHARTER, day_length_s=length_s), now_s)
    assert (now_s - day_offset_s(charter)) % length_s <= 60


def test_a_ring_that_is_there_keeps_its_day(tmp_path: Path) -> None:
    charter = with_day_of(tmp_path, TEST_CHARTER, MIDNIGHT + 3_600)
    make_home(Home(Path(place(tmp_path, 0, 5_000).home)), charter)
    again = with_day_of(tmp_path, TEST_CHARTER, MIDNIGHT + 50_000)
    assert again.network_id() == charter.network_id() != TEST_CHARTER.network_id()
