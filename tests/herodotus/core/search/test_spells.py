"""Do the spells of a URL follow from its captures, whatever the order in which these came?"""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from herodotus.core.search.fields import OPEN
from herodotus.core.search.spells import Newest, Step, spells, step

DAY_S = 86_400
A, B = 11, 22
CAPTURES = st.dictionaries(st.integers(1, 12), st.sampled_from([A, B, 33]), max_size=12)


def derived(captures: dict[int, int]) -> list[tuple[int, int, int]]:
    return list(spells((time_s, captures[time_s], captures[time_s]) for time_s in sorted(captures)))


def test_a_page_that_flips_is_three_spells() -> None:
    assert derived({1: A, 2: B, 3: A}) == [(1, 2, A), (2, 3, B), (3, OPEN, A)]


def test_six_hundred_unchanged_days_are_one_spell() -> None:
    days = {day * DAY_S: A for day in range(1, 601)}
    assert derived(days) == [(DAY_S, OPEN, A)]
    assert {step(Newest(DAY_S, A), time_s, A, is_latest=True) for time_s in days} == {Step.NOTHING}


def test_of_several_captures_in_one_second_the_last_counts() -> None:
    assert list(spells([(1, A, "a"), (1, B, "b"), (2, B, "c"), (3, A, "d"), (3, B, "e")])) == [(1, OPEN, "b")]


def test_a_second_text_in_the_first_second_of_a_spell_derives_all_of_it_again() -> None:
    assert step(Newest(5, A), 5, B, is_latest=True) is Step.DERIVES


def test_no_captures_make_no_spell() -> None:
    assert derived({}) == []


@given(CAPTURES)
def test_each_moment_belongs_to_the_newest_capture_that_is_not_later(captures: dict[int, int]) -> None:
    found = derived(captures)
    for moment in range(14):
        earlier = [time_s for time_s in captures if time_s <= moment]
        wanted = [captures[max(earlier)]] if earlier else []
        assert [digest for first, until, digest in found if first <= moment < until] == wanted


def test_a_capture_that_cuts_an_unchanged_spell_derives_all_of_it_again() -> None:
    """B on days 1 and 3 is one spell without a trace of day 3; A on day 2 comes last."""
    assert step(Newest(1, B), 2, A, is_latest=False) is Step.DERIVES


@given(CAPTURES, st.randoms(use_true_random=False))
def test_captures_in_any_order_give_the_same_spells(captures: dict[int, int], chance: Random) -> None:
    """As the writer does: step by step, and all of the URL again where a step says so."""
    order = list(captures)
    chance.shuffle(order)
    written: list[tuple[int, int, int]] = []
    known: dict[int, int] = {}
    for time_s in order:
        known[time_s] = captures[time_s]
        newest = Newest(written[-1][0], written[-1][2]) if written else None
        match step(newest, time_s, captures[time_s], is_latest=time_s == max(known)):
            case Step.BEGINS:
                written = [(time_s, OPEN, captures[time_s])]
            case Step.FOLLOWS:
                written[-1] = (written[-1][0], time_s, written[-1][2])
                written.append((time_s, OPEN, captures[time_s]))
            case Step.DERIVES:
                written = derived(known)
            case Step.NOTHING:
                pass
    assert written == derived(captures)
