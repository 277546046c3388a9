"""Are the promised numbers reached here? Runs every comparison that the design promises, and writes the table of goals.

    scripts/bench all                     everything, some hours; then the table in docs/understand/measurements.md
    scripts/bench all --short             so little work that only coarse faults show (exit 1); nothing is written
    scripts/bench all --only crawl,store  these programs; the other rows keep what was measured before
    scripts/bench all --table             write the table again from the figures measured before

The figures are kept as JSON in docs/understand/numbers.json, each with its conditions, so that rows of several runs
may stand side by side.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from scripts.benches.goals import GOALS, PROGRAMS, Goal, Program

ROOT = Path(__file__).parents[2]
NUMBERS, PAGE = (
    ROOT / "docs" / "understand" / "numbers.json",
    ROOT / "docs" / "understand" / "measurements.md",
)
BEGIN, END = "<!-- scripts/bench all: begin -->", "<!-- scripts/bench all: end -->"
BUSY_LOAD = 1.0
"""Above, besides the bench itself, figures are marked: others had the machine, too."""
HOURS_MAX = 3 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    figure: float | None
    day: str
    machine: str
    load: float
    """Before it began."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/bench all", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--short", action="store_true", help="little work, and nothing written")
    parser.add_argument("--only", default="", help="programs by words of their names, separated by commas")
    parser.add_argument("--table", action="store_true", help="measure nothing")
    asked = parser.parse_args(arguments)
    words = [word for word in asked.only.split(",") if word]
    chosen = [one for one in PROGRAMS if not words or any(word in one.name for word in words)]
    known = read_numbers(NUMBERS)
    measured = {} if asked.table else measure_all(chosen, is_short=asked.short)
    if asked.short:
        print(table(measured))
        return 1 if told_of_fallen(measured) else 0
    known |= measured
    write_numbers(NUMBERS, known)
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), table(known)), encoding="utf-8")
    return 0


def told_of_fallen(measured: Mapping[str, Measured]) -> bool:
    """Whether a ratio became several times worse. One that could not be measured here is said, and is no fault."""
    has_fallen = False
    for goal in GOALS:
        one = measured.get(goal.what)
        if one is None or goal.short_limit is None:
            continue
        if one.figure is None:
            print(f"bench: {goal.what}: not measured here", file=sys.stderr)
        elif goal.has_fallen(one.figure):
            has_fallen = True
            limit = f"{goal.short_limit:g} {goal.unit}"
            print(f"bench: {goal.what}: {shown(one.figure)} {goal.unit}, far from {limit}", file=sys.stderr)
    return has_fallen


def measure_all(programs: Sequence[Program], *, is_short: bool) -> dict[str, Measured]:
    found: dict[str, Measured] = {}
    for program in programs:
        load = os.getloadavg()[0]
        print(f"bench: {program.name} (load {load:.1f})", file=sys.stderr, flush=True)
        text = output_of(program.short if is_short else program.full)
        for goal in GOALS:
            if goal.program is program:
                found[goal.what] = Measured(
                    figure=None if text is None else goal.find(text),
                    day=datetime.now(UTC).date().isoformat(),
                    machine=f"{os.cpu_count()} cores {platform.machine()}, Python {platform.python_version()}",
                    load=round(load, 1),
                )
    return found


def output_of(command: Sequence[str]) -> str | None:
    """What it printed; None where it failed, which is said and ends no other. A missed goal is no failure."""
    try:
        done = subprocess.run(
            [sys.executable, *command],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            timeout=HOURS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired:
        print(f"bench: {' '.join(command)} took more than {HOURS_MAX / 3600:g} hours", file=sys.stderr)
        return None
    if done.returncode:
        print(f"bench: {' '.join(command)} ended with {done.returncode}", file=sys.stderr)
    return done.stdout


# -- the page ---------------------------------------------------------------------------------------------


def read_numbers(file: Path) -> dict[str, Measured]:
    if not file.exists():
        return {}
    return {what: Measured(**one) for what, one in json.loads(file.read_text(encoding="utf-8")).items()}


def write_numbers(file: Path, numbers: Mapping[str, Measured]) -> None:
    kept = {goal.what: asdict(numbers[goal.what]) for goal in GOALS if goal.what in numbers}
    file.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def table(numbers: Mapping[str, Measured]) -> str:
    lines = ["| what | goal | measured | | when, and at which load |", "|---|---|---|---|---|"]
    lines += [_row(goal, numbers.get(goal.what)) for goal in GOALS]
    counted = [_standing(goal, numbers.get(goal.what)) for goal in GOALS]
    lines.append("")
    lines.append(
        ", ".join(f"{counted.count(word)} {word}" for word in ("met", "missed", "not measured")) + "."
    )
    return "\n".join(lines)


def _standing(goal: Goal, measured: Measured | None) -> str:
    if measured is None or measured.figure is None:
        return "not measured"
    return "met" if goal.is_met(measured.figure) else "missed"


def _row(goal: Goal, measured: Measured | None) -> str:
    sign = "≥" if goal.is_least else "≤"
    wanted = f"{sign} {goal.limit:,.10g} {goal.unit}".rstrip()
    standing = _standing(goal, measured)
    if measured is None:
        return f"| {goal.what} | {wanted} | | {standing} | |"
    if measured.figure is None:
        return f"| {goal.what} | {wanted} | | {standing}: `{goal.program.name}` gave no such figure | {measured.day} |"
    busy = " †" if measured.load > BUSY_LOAD else ""
    cause = f": {goal.cause}" if standing == "missed" and goal.cause else ""
    mark = f"**{standing}**{cause}" if standing == "missed" else standing
    when = f"{measured.day}, load {measured.load:g}{busy}, {measured.machine}"
    return f"| {goal.what} | {wanted} | {shown(measured.figure)} {goal.unit} | {mark} | {when} |"


def shown(figure: float) -> str:
    """With as many digits as a single run is worth."""
    if figure == 0 or abs(figure) >= 100:
        return f"{figure:,.0f}"
    return f"{figure:.1f}" if abs(figure) >= 10 else f"{figure:.2g}"


def with_table(page: str, made: str) -> str:
    """The page with the table between its marks; all else stays."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"bench: {PAGE} has no place for the table: {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{made}\n{END}{after}"


if __name__ == "__main__":
    sys.exit(main())
