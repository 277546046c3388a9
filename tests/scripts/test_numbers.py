"""Does the numbers page say what was measured, and own to what is missed or missing?"""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from scripts.benches import all as bench
from scripts.benches.all import BEGIN, END, Measured, shown, table, told_of_fallen, with_table
from scripts.benches.goals import (
    GOALS,
    PROGRAMS,
    Goal,
    carrier,
    differing,
    figure,
    last_of,
    line,
    quotient,
    ratio,
)

MEASURED = Measured(figure=1.0, day="2026-11-18", machine="2 cores x86_64, Python 3.11.7", load=0.2)
STORE = """
ratios, by rate and by CPU; goals of DESIGN
  new stores / plain files                  2.70     1.44   goal 3
  cold reads / bare pread                   0.22     0.12   goal 0.5
1,000,000 captures: bytes a capture merged                              62.71 B
"""
PORTAL = """
html 29 kB       8  36,460  11.4  1,308  750  7.1  160  6,199  51.0  543.8x     8.3x
redirect to a date  8  45,380   8.5  3,402  237  2.1  2,147  453  4.0  53.3x     1.9x
4 kB raw         8  28,767  12.6  1,913  482  4.0  354  2,735  20.0  217.1x     5.7x
nginx, 4 kB      8  19,248  16.0
"""
REPLICATION = """   members differing       bytes
 1,000,000         0          89       6,000    1,310,720
 1,000,000     1,000      44,226      48,000
"""
RATIO = '{"client": "x"}\n{"ratio": "whole path beside wget storing WARC (goal 2.5)", "is": 1.7}'


def goal(what: str) -> Goal:
    return next(one for one in GOALS if one.what == what)


@pytest.mark.parametrize(
    ("what", "text", "expected"),
    [
        ("store, new pages beside plain files and fsync", STORE, 2.7),
        ("cold reads beside a bare pread", STORE, 0.22),
        ("index, merged, for a capture", STORE, 62.71),
        ("replay of HTML of 29 kB, CPU time beside pywb", PORTAL, 8.3),
        ("redirects to the exact date, asked again", PORTAL, 45_380.0),
        ("4 kB raw, asked again, beside nginx", PORTAL, 28_767 / 19_248),
        ("bytes to reconcile 1,000,000 captures, 0 differences", REPLICATION, 89.0),
        ("bytes to reconcile 1,000,000 captures, 1,000 differences", REPLICATION, 44_226.0),
        ("crawl, whole path, beside wget storing WARC", RATIO, 1.7),
        ("memory for a known URL", '{"a": 1}\n{"memory_bytes_per_1000_more": 1037}\n', 1.037),
    ],
)  # fmt: skip
def test_a_figure_is_found_in_what_its_program_prints(what: str, text: str, expected: float) -> None:
    assert goal(what).find(text) == pytest.approx(expected)


@pytest.mark.parametrize(
    "find",
    [
        ratio("x"),
        figure("x"),
        last_of("x"),
        line(r"x (\d)"),
        quotient(r"(\d)a", r"(\d)b"),
        differing(7),
        carrier("x", 1),
    ],
)
def test_what_is_not_there_is_no_figure(find: object) -> None:
    assert callable(find)
    for text in (
        "",
        "no such words",
        '{"figures": {}}',
        "[1, 2]",
        '{"results": [{"carrier": "y", "peers": 1}]}',
    ):
        assert find(text) is None


def test_every_goal_belongs_to_a_program_and_has_a_name_of_its_own() -> None:
    assert {one.program for one in GOALS} <= set(PROGRAMS)
    assert len({one.what for one in GOALS}) == len(GOALS)


def test_a_shortfall_is_named_with_its_cause_and_a_busy_machine_marked() -> None:
    wanted = goal("cold reads beside a bare pread")
    rows = table({wanted.what: replace(MEASURED, figure=0.22, load=3.0)}).splitlines()
    row = next(one for one in rows if wanted.what in one)
    assert f"| ≥ 0.5 x | 0.22 x | **missed**: {wanted.cause} |" in row
    assert "load 3 †" in row
    assert rows[-1] == f"0 met, 1 missed, {len(GOALS) - 1} not measured."


def test_a_goal_that_is_just_reached_is_met_whichever_way_it_points() -> None:
    least, most = goal("cold reads beside a bare pread"), goal("index, merged, for a capture")
    assert (least.is_met(0.5), least.is_met(0.49)) == (True, False)
    assert (most.is_met(60.0), most.is_met(60.1)) == (True, False)


def test_the_short_form_fails_on_ratios_that_are_several_times_worse_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    wanted = goal("rewriting HTML of 29 kB beside pywb's rewriter")
    assert wanted.short_limit is not None
    assert wanted.short_limit < 14.5 / 3, "a busy machine is no regression"

    def fallen(figure: float | None) -> bool:
        return told_of_fallen({wanted.what: replace(MEASURED, figure=figure)})

    assert not fallen(wanted.short_limit)
    assert not fallen(None), "where there is no pywb nothing is known"
    assert "not measured here" in capsys.readouterr().err
    assert fallen(wanted.short_limit * 0.9)
    assert wanted.what in capsys.readouterr().err
    least = goal("cold reads beside a bare pread")
    assert not told_of_fallen({least.what: replace(MEASURED, figure=0.001)}), (
        "so little work says nothing of it"
    )
    assert not told_of_fallen({})


def test_a_figure_that_its_program_did_not_give_is_said_to_be_missing() -> None:
    wanted = GOALS[0]
    assert f"not measured: `{wanted.program.name}` gave no such figure" in table(
        {wanted.what: replace(MEASURED, figure=None)}
    )


def test_the_rest_of_the_page_stays_and_the_table_is_replaced() -> None:
    page = f"# M\n\n{BEGIN}\nold\n{END}\n\nprose\n"
    once = with_table(page, "new")
    assert once == f"# M\n\n{BEGIN}\nnew\n{END}\n\nprose\n"
    assert with_table(once, "new") == once
    with pytest.raises(SystemExit):
        with_table("# M\n", "new")


def test_the_page_in_the_repository_is_made_from_the_numbers_beside_it() -> None:
    page = bench.PAGE.read_text(encoding="utf-8")
    assert with_table(page, table(bench.read_numbers(bench.NUMBERS))) == page


def test_numbers_are_read_as_they_were_written(tmp_path: Path) -> None:
    file = tmp_path / "numbers.json"
    numbers = {GOALS[0].what: MEASURED, GOALS[1].what: replace(MEASURED, figure=None)}
    bench.write_numbers(file, {**numbers, "a goal of an older release": MEASURED})
    assert bench.read_numbers(file) == numbers
    assert json.loads(file.read_text())[GOALS[0].what]["load"] == 0.2


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0"), (0.217, "0.22"), (8.3, "8.3"), (14.94, "14.9"), (45_380, "45,380")]
)
def test_figures_are_shown_with_the_digits_they_are_worth(number: float, text: str) -> None:
    assert shown(number) == text
