"""Does every threat that the security page names have a defence and a test that exist?"""

import ast
import itertools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "understand" / "security.md"
SECTIONS = ("Peers", "Origins", "Archived pages", "Readers", "The operator's machine and browser")
COLUMNS = 4
_NAMED = re.compile(r"`([^`]+)`")


def rows_of(page: str) -> list[list[str]]:
    """Cells of every threat. A table of threats begins with the word; others tell figures."""
    found, is_of_threats = [], False
    for before, line in itertools.pairwise(["", *page.splitlines()]):
        if not line.startswith("|"):
            continue
        row = [cell.strip() for cell in line.strip("|").split("|")]
        if not before.startswith("|"):
            is_of_threats = row[0] == "threat"
        elif is_of_threats and row[0] != "---":
            found.append(row)
    return found


def functions_in(file: Path) -> set[str]:
    return {
        node.name
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def missing(page: str, root: Path) -> list[str]:
    """Rows without a module or test, and what they name that is not there."""
    found = []
    for row in rows_of(page):
        if len(row) != COLUMNS:
            found.append(f"{row[0]}: {len(row)} cells")
            continue
        modules, tests = (_NAMED.findall(cell) for cell in row[2:])
        if not modules or not tests:
            found.append(f"{row[0]}: no module or no test")
        found += [name for name in modules if not (root / name).is_file()]
        for name in tests:
            path, _, test = name.partition("::")
            if not (root / path).is_file() or test not in functions_in(root / path):
                found.append(name)
    return found


def test_every_threat_has_a_defence_and_a_test_that_exist() -> None:
    assert missing(PAGE.read_text(), ROOT) == []


@pytest.mark.parametrize("heading", SECTIONS)
def test_every_kind_of_attacker_has_threats(heading: str) -> None:
    section = PAGE.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    assert len(rows_of(section)) >= 5


def test_what_is_not_defended_is_said() -> None:
    section = PAGE.read_text().partition("\n## Not defended\n")[2]
    assert section.count("\n- ") >= 5


def test_what_is_missing_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def test_one() -> None: ...\n")
    head = "| threat | defence | module | test |\n|---|---|---|---|\n"
    good = "| x | y | `a.py` | `a.py::test_one` |\n"
    assert missing(head + good, tmp_path) == []
    bad = (
        head
        + "| x | y | `b.py` | `a.py::test_two`, `c.py::test_one` |\n| z | y | words | words |\n| w | y |\n"
    )
    assert missing(bad, tmp_path) == [
        "b.py", "a.py::test_two", "c.py::test_one", "z: no module or no test", "w: 2 cells",
    ]  # fmt: skip
