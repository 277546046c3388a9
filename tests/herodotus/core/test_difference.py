"""Is a difference always true, shortest where there is time for it, and never slow?"""

import random
from difflib import SequenceMatcher
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from herodotus.core.difference import (
    LINE_CHARS_MAX,
    LINES_MAX,
    Change,
    EqualRun,
    difference,
    lines_of,
    word_difference,
)

LINES = st.lists(st.sampled_from("abcdefgh"), max_size=40)


def sides(runs: list[EqualRun]) -> tuple[list[str], list[str]]:
    old = [line for run in runs if run.change is not Change.ADDED for line in run.lines]
    new = [line for run in runs if run.change is not Change.REMOVED for line in run.lines]
    return old, new


def changed(runs: list[EqualRun]) -> int:
    return sum(len(run.lines) for run in runs if run.change is not Change.KEPT)


def shown(runs: list[EqualRun]) -> str:
    return " ".join(f"{run.change.value}{''.join(run.lines)}" for run in runs)


@pytest.mark.parametrize(
    ("old", "new", "script"),
    [
        ("", "", ""),
        ("abc", "abc", " abc"),
        ("abc", "", "-abc"),
        ("", "abc", "+abc"),
        ("abc", "axc", " a -b +x  c"),
        ("abcd", "bcde", "-a  bcd +e"),
        ("aab", "aba", " a -a  b +a"),
        ("abcabba", "cbabac", "-ab  c +b  ab -b  a +c"),
    ],
)
def test_small_differences_read_as_a_person_would_write_them(old: str, new: str, script: str) -> None:
    assert shown(difference(old, new)) == script


@given(LINES, LINES, st.integers(0, 300))
@settings(max_examples=400)
def test_both_texts_can_be_read_from_a_difference_whatever_its_budget(
    old: list[str], new: list[str], steps_max: int
) -> None:
    assert sides(difference(old, new, steps_max=steps_max)) == (old, new)


@given(st.lists(st.sampled_from("ab"), max_size=14), st.lists(st.sampled_from("ab"), max_size=14))
@settings(max_examples=300)
def test_without_lines_that_stand_once_the_script_is_shortest(old: list[str], new: list[str]) -> None:
    """Doubled, so that no line is an anchor; the judge is the quadratic table."""
    twice_old, twice_new = [*old, *old], [*new, *new]
    assert changed(difference(twice_old, twice_new)) == (
        len(twice_old) + len(twice_new) - 2 * common(twice_old, twice_new)
    )


def common(old: list[str], new: list[str]) -> int:
    row = [0] * (len(new) + 1)
    for line in old:
        before = row
        row = [0]
        for at, other in enumerate(new):
            row.append(before[at] + 1 if line == other else max(row[at], before[at + 1]))
    return row[-1]


def test_a_day_s_change_of_a_long_page_is_found_line_by_line() -> None:
    chance = random.Random(7)
    old = [f"line {chance.randrange(500)}" for _ in range(5_000)]
    new = list(old)
    for _ in range(50):
        new[chance.randrange(len(new))] = f"new {chance.random()}"
    runs = difference(old, new)
    assert sides(runs) == (old, new)
    assert changed(runs) <= 2 * 50 + 20


@pytest.mark.parametrize("kind", ["random", "same", "reversed", "mirrored pairs"])
def test_hostile_texts_cost_no_more_than_others(kind: str) -> None:
    """Where difflib takes minutes."""
    chance = random.Random(5)
    if kind == "random":
        old, new = ([chance.choice("ab") for _ in range(LINES_MAX)] for _ in range(2))
    elif kind == "same":
        old, new = ["a"] * LINES_MAX, ["a", "b"] * (LINES_MAX // 2)
    elif kind == "reversed":
        old = [str(number) for number in range(LINES_MAX)]
        new = old[::-1]
    else:
        old = ["a", "b"] * (LINES_MAX // 2)
        new = ["b", "c"] * (LINES_MAX // 2)
    started = process_time()
    assert sides(difference(old, new)) == (list(old), list(new))
    assert process_time() - started < 5


def test_words_of_a_changed_line_are_told_apart() -> None:
    assert word_difference("the quick brown fox", "the slow brown fox") == [
        EqualRun(change=Change.KEPT, lines=("the",)),
        EqualRun(change=Change.REMOVED, lines=("quick",)),
        EqualRun(change=Change.ADDED, lines=("slow",)),
        EqualRun(change=Change.KEPT, lines=("brown", "fox")),
    ]
    assert [run.change for run in word_difference("a " * 500, "b")] == [Change.REMOVED, Change.ADDED]


def test_lines_are_bounded_and_layout_is_no_change() -> None:
    assert lines_of("  a \t b\r\n\n\x0bc  ") == (("a b", "c"), False)
    lines, is_cut = lines_of("x\n" * (LINES_MAX + 1))
    assert (len(lines), is_cut) == (LINES_MAX, True)
    assert lines_of("y" * (LINE_CHARS_MAX + 1))[0] == ("y" * LINE_CHARS_MAX, "y")


@given(st.text(max_size=300), st.text(max_size=300))
def test_any_text_can_be_compared(old: str, new: str) -> None:
    before, after = lines_of(old)[0], lines_of(new)[0]
    runs = difference(before, after)
    assert sides(runs) == (list(before), list(after))
    assert (changed(runs) == 0) == (SequenceMatcher(None, before, after).ratio() == 1)
