"""Do connections stay within their bound, with room for each use whatever the others do?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herodotus.core.connections import Connections, Use


def taken(most: int, *uses: Use) -> Connections:
    found = Connections(most)
    for use in uses:
        while found.take(use):
            pass
    return found


def test_of_a_hundred_each_use_has_its_floor() -> None:
    assert Connections(100).floors == {Use.WEB: 36, Use.CALLED: 20, Use.CALLING: 20, Use.READING: 4}


@pytest.mark.parametrize("first", list(Use))
def test_who_comes_first_has_what_is_left_over_and_nobody_s_floor(first: Use) -> None:
    others = [use for use in Use if use is not first]
    found = taken(100, first, *others)
    assert found.of(first) == found.floors[first] + 20
    assert [found.of(use) for use in others] == [found.floors[use] for use in others]
    assert sum(found.status().values()) == 100


def test_what_is_left_is_free_again() -> None:
    found = taken(100, Use.CALLED)
    assert not found.take(Use.CALLED)
    found.leave(Use.CALLED)
    assert found.take(Use.CALLED)


def test_what_rests_gives_way_where_it_is_above_its_floor() -> None:
    found = taken(100, Use.WEB)
    assert found.giving(Use.CALLED) == [Use.WEB, Use.CALLED]
    assert found.giving(Use.WEB) == [Use.WEB]
    for _ in range(20):
        found.leave(Use.WEB)
    assert found.giving(Use.CALLED) == [Use.CALLED], "at its floor nobody is asked"


@given(st.integers(25, 300), st.lists(st.tuples(st.sampled_from(Use), st.booleans()), max_size=400))
def test_whatever_comes_and_goes_the_bound_and_the_floors_hold(
    most: int, steps: list[tuple[Use, bool]]
) -> None:
    found = Connections(most)
    for use, comes in steps:
        if comes:
            found.take(use)
        elif found.of(use):
            found.leave(use)
    assert sum(found.status().values()) <= most
    for use in Use:
        while found.of(use) < found.floors[use]:
            assert found.take(use), "a floor is always free"
    assert sum(found.status().values()) <= most
