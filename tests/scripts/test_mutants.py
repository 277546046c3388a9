"""The list of planted bugs fits the source it is planted in, and the command tells what became of each."""

from dataclasses import replace
from pathlib import Path

import pytest

from scripts.planting.bugs import NotPlantedError, SourceMutant, missing_tests, read_mutants, source_with
from scripts.planting.command import chosen, share_of
from scripts.planting.trial import Verdict, copies_of

ROOT = Path(__file__).parent.parent.parent
MUTANTS = read_mutants()
SOURCE = """\
def first(a: int) -> bool:
    return a > 1


class Second:
    def next(self, a: int) -> bool:
        return a > 1 or a == 0


class Third:
    def next(self, a: int) -> bool:
        return a > 3
"""


def a_mutant(**changes: str) -> SourceMutant:
    one = SourceMutant(
        name="one",
        file="thing.py",
        text="a > 1",
        becomes="a > 2",
        breaks="It is wrong.",
        tests=("test_thing.py::test_it",),
        within="first",
    )
    return replace(one, **changes)  # type: ignore[arg-type]  # a test's shorthand: all of these are text


def test_the_list_is_long_enough_to_be_worth_a_run() -> None:
    assert len(MUTANTS) >= 120


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_mutant_can_be_planted_and_has_its_tests(mutant: SourceMutant) -> None:
    source = (ROOT / mutant.file).read_text()
    assert source_with(mutant, source) != source
    assert missing_tests(mutant, ROOT) == []
    assert mutant.breaks.endswith(".")


def test_a_mutant_is_planted_in_the_function_that_it_names() -> None:
    assert source_with(a_mutant(), SOURCE) == SOURCE.replace("a > 1\n", "a > 2\n")
    assert source_with(a_mutant(within="Second"), SOURCE) == SOURCE.replace("a > 1 or", "a > 2 or")
    assert source_with(a_mutant(within="Second.next"), SOURCE) == SOURCE.replace("a > 1 or", "a > 2 or")


@pytest.mark.parametrize(
    ("mutant", "said"),
    [
        (a_mutant(within=""), "found 2 times"),
        (a_mutant(text="a < 1"), "found 0 times"),
        (a_mutant(text="a == 0"), "found 0 times"),
        (a_mutant(within="last"), "0 times last"),
        (a_mutant(within="next"), "2 times next"),
        (a_mutant(becomes="a >"), "no Python"),
    ],
)
def test_what_the_source_does_not_say_is_an_error(mutant: SourceMutant, said: str) -> None:
    with pytest.raises(NotPlantedError, match=said):
        source_with(mutant, SOURCE)


def test_an_entry_that_lacks_something_is_refused(tmp_path: Path) -> None:
    (tmp_path / "some.toml").write_text('[[mutant]]\nname = "one"\nfile = "thing.py"\n')
    with pytest.raises(NotPlantedError, match="lacks"):
        read_mutants(tmp_path)


def test_ten_parts_are_all_mutants_each_once_and_another_day_has_other_parts() -> None:
    parts = [share_of(MUTANTS, f"{part}/10", "2026-01-01") for part in range(1, 11)]
    names = [mutant.name for part in parts for mutant in part]
    assert sorted(names) == sorted(mutant.name for mutant in MUTANTS)
    assert parts[0] == share_of(MUTANTS, "1/10", "2026-01-01")
    assert parts[0] != share_of(MUTANTS, "1/10", "2026-01-02")
    with pytest.raises(ValueError, match="no part"):
        share_of(MUTANTS, "11/10", "2026-01-01")


def test_mutants_are_chosen_by_name_or_file() -> None:
    some = [a_mutant(), a_mutant(name="two", file="other.py")]
    assert chosen(some, "two") == chosen(some, "other") == chosen(some, "*.py")[1:] == some[1:]


@pytest.mark.e2e
def test_a_trial_tells_what_is_noticed_what_hangs_and_what_nobody_notices(tmp_path: Path) -> None:
    (tmp_path / "thing.py").write_text(SOURCE)
    (tmp_path / "test_thing.py").write_text(
        "from thing import first\n\n\ndef test_it() -> None:\n    assert first(2)\n"
    )
    trials = {
        Verdict.KILLED: a_mutant(),
        Verdict.SURVIVED: a_mutant(becomes="a > 0"),
        Verdict.EXPLAINED: a_mutant(becomes="a >= 2", survives="It is the same."),
        Verdict.OUTDATED: a_mutant(survives="It is the same."),
        Verdict.NOT_PLANTED: a_mutant(text="a > 9"),
        Verdict.NOT_TRIED: a_mutant(text="def first(a", becomes="def other(a"),
        Verdict.HUNG: a_mutant(text="return a > 1", becomes="while True:\n        pass"),
    }
    (tmp_path / "test_slow.py").write_text("def test_it() -> None:\n    while True:\n        pass\n")
    with copies_of(tmp_path, 1) as (copy,):
        assert copy.run(["test_thing.py"], 60.0).code == 0
        for expected, mutant in trials.items():
            trial = copy.attempt(mutant, 20.0 if expected is Verdict.HUNG else 60.0)
            assert trial.verdict is expected, trial
            assert (copy.root / "thing.py").read_text() == SOURCE
        assert copy.attempt(trials[Verdict.KILLED], 60.0).told == "test_it"
        slow = copy.attempt(replace(a_mutant(), tests=("test_slow.py",)), 1.0)
        assert (slow.verdict, slow.told) == (
            Verdict.NOT_TRIED,
            "they take longer than 1 s without the bug, too",
        )
    assert (tmp_path / "thing.py").read_text() == SOURCE
