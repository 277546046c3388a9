"""Does every threat that the security page names have a defence and a test that exist?"""

import ast
import itertools
import re
from pathlib import Path

import pytest

from scripts.planting.bugs import read_mutants

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "understand" / "security.md"
SECTIONS = ("Peers", "Origins", "Archived pages", "Readers", "The operator's machine and browser")
COLUMNS = 4
PRICED_COLUMNS = 5
_NAMED = re.compile(r"`([^`]+)`")


def rows_of(page: str) -> list[list[str]]:
    """Cells of every threat."""
    return rows_under("threat", page)


def rows_under(word: str, page: str) -> list[list[str]]:
    """Cells of all tables that begin with this word; others tell other things."""
    found, is_of_threats = [], False
    for before, line in itertools.pairwise(["", *page.splitlines()]):
        if not line.startswith("|"):
            continue
        row = [cell.strip() for cell in line.strip("|").split("|")]
        if not before.startswith("|"):
            is_of_threats = row[0] == word
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


def unpriced(page: str, root: Path) -> list[str]:
    """Attackers without a price in money, or the word for nothing, and those whose test is not there, or notices no
    planted fault: then nobody knows whether it fails when its rule is switched off."""
    leant_on = {test.partition("::")[0] for mutant in read_mutants() for test in mutant.tests}
    found = []
    for row in rows_under("who", page):
        if len(row) != PRICED_COLUMNS:
            found.append(f"{row[0]}: {len(row)} cells")
            continue
        if not re.search(r"\d €|nothing", row[1]) or not row[2] or not row[3]:
            found.append(f"{row[0]}: no price, aim or answer")
        tests = _NAMED.findall(row[4])
        if not tests:
            found.append(f"{row[0]}: no test")
        for name in tests:
            path, _, test = name.partition("::")
            if not (root / path).is_file() or test not in functions_in(root / path) or path not in leant_on:
                found.append(name)
    return found


def test_every_attacker_has_a_price_and_a_test_that_notices_planted_faults() -> None:
    page = PAGE.read_text()
    assert unpriced(page, ROOT) == []
    assert len(rows_under("who", page)) >= 15
    assert "*Left:*" in page
    assert "*Not stopped:*" in page


def test_an_attacker_without_a_price_or_with_a_test_of_nothing_is_found() -> None:
    head = "| who | price | wants | what stops them, and what is left | test |\n|---|---|---|---|---|\n"
    path = "tests/dht/test_holders.py"
    good = f"| a | 5 € | b | c | `{path}::test_an_empty_table_has_no_answers` |\n"
    assert unpriced(head + good, ROOT) == []
    for spoilt in (
        good.replace("5 €", "much"),
        good.replace("| c |", "|  |"),
        good.replace("an_empty", "a_full"),
    ):
        assert len(unpriced(head + spoilt, ROOT)) == 1, spoilt
    assert unpriced(head + good.replace(path, "tests/test_cli.py"), ROOT) != []
    assert unpriced(head + "| a | 5 € | b | c |\n", ROOT) == ["a: 4 cells"]


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
