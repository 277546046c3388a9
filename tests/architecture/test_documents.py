"""Is everything that people can set, call or wonder about written down?"""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from herodotus.operate.cli import main as herodotus
from herodotus.operate.settings.load import known_keys
from scripts.docs import PAGES, commands_of

ROOT = Path(__file__).parents[2]
PACKAGES = ("dht", "crawler", "herodotus", "simnet")


@pytest.mark.parametrize("name", PAGES)
def test_a_page_made_from_the_code_is_current(name: str) -> None:
    current = (ROOT / "docs" / "look-up" / name).read_text() == PAGES[name]()
    assert current, f"docs/look-up/{name} is not current: run .venv/bin/python scripts/docs.py"


def test_the_pages_hold_what_they_are_for() -> None:
    settings, commands = PAGES["settings.md"](), PAGES["commands.md"]()
    assert (
        "| `http.connections_max` | `512` | a whole number from 8 to 100000 | open connections at once;"
        in settings
    )
    assert "| `copies` | `6` | a whole number from 1 to 16 | k: how many peers keep each capture" in settings
    assert "- `lan`: `http.connections_max` = `128`, `http.idle_s` = `120.0`" in settings
    for name in (
        "init",
        "run",
        "status",
        "stop",
        "config show",
        "identity show",
        "identity export",
        "completion",
    ):
        assert f"\n## herodotus {name}\n```\nUsage: herodotus {name} " in commands
    assert "\n## simnet\n" in commands


def test_every_command_says_what_it_does() -> None:
    assert [name for name, command in commands_of(herodotus, "herodotus") if not command.help] == []


def unlisted(folder: Path) -> list[str]:
    """Decisions that the folder's own list leaves out, and those that it lists but are not there."""
    files = {one.name for one in folder.glob("[0-9][0-9][0-9][0-9]-*.md")}
    index = folder / "README.md"
    listed = set(re.findall(r"\((\d{4}-[^)]+\.md)\)", index.read_text())) if index.exists() else set()
    return sorted(files ^ listed)


def test_every_decision_is_listed() -> None:
    assert unlisted(ROOT / "docs" / "adr") == []


def test_a_decision_that_is_not_listed_is_found(tmp_path: Path) -> None:
    for name in ("0001-loops.md", "0002-wire.md"):
        (tmp_path / name).touch()
    assert unlisted(tmp_path) == ["0001-loops.md", "0002-wire.md"]
    (tmp_path / "README.md").write_text("- [Loops](0001-loops.md)\n- [Gone](0003-gone.md)\n")
    assert unlisted(tmp_path) == ["0002-wire.md", "0003-gone.md"]


def normal(name: str) -> str:
    """A distribution's name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def dependencies(*groups: str) -> set[str]:
    """What pyproject.toml names: the project's own, and those of these groups."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [
        *project["dependencies"],
        *(one for group in groups for one in project["optional-dependencies"][group]),
    ]
    return {normal(re.split(r"[<>=; ]", line)[0]) for line in lines}


def unjustified(page: str, names: set[str]) -> list[str]:
    rows = " ".join(line for line in page.splitlines() if line.startswith("| "))
    return sorted(name for name in names if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", rows))


def test_every_dependency_is_justified() -> None:
    page = (ROOT / "docs" / "adr" / "0007-dependencies.md").read_text()
    assert unjustified(page, dependencies("dev")) == []


def test_a_dependency_without_a_reason_is_found() -> None:
    assert unjustified("| pytest-socket | MIT | no network |\npytest\n", {"pytest", "pytest-socket"}) == [
        "pytest"
    ]


def imported(source: str) -> set[str]:
    """Top-level packages that the module imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
    return found


def test_what_is_imported_is_declared_and_not_merely_brought_in_by_something_else() -> None:
    plugin = ROOT / "simnet" / "testing.py"  # loaded by pytest alone, so pytest is there
    modules = [one for package in PACKAGES for one in (ROOT / package).rglob("*.py") if one != plugin]
    ours = set().union(*(imported(one.read_text()) for one in modules))
    foreign = ours - set(sys.stdlib_module_names) - set(PACKAGES) - {"scripts"}
    declared = dependencies()
    providers = packages_distributions()
    assert {
        module
        for module in foreign
        if not declared & {normal(one) for one in providers.get(module, [module])}
    } == set()


def unmapped(page: str) -> list[str]:
    """Packages with no row in a table of the page."""
    rows = [line for line in page.splitlines() if line.lstrip().startswith("|")]
    return [one for one in PACKAGES if not any(re.search(rf"`{one}/?`", row) for row in rows)]


def test_the_architecture_page_maps_every_package() -> None:
    assert [unmapped(page.read_text()) for page in ROOT.glob("ARCHITECTURE.md")] in ([[]], [])


def test_a_package_that_is_not_on_the_map_is_found() -> None:
    assert unmapped("| `dht/` | a |\n| `crawler` | b |\n`simnet`\n| `herodotus/` | c |\n") == ["simnet"]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_module_opens_with_what_it_is_for(package: str) -> None:
    modules = [
        one for one in (ROOT / package).rglob("*.py") if not one.read_text().lstrip().startswith('"""')
    ]
    assert modules == []


QUESTIONS = (
    "How do I join?",
    "How much will it cost me?",
    "Is it working?",
    "What do I do when the disk is full?",
    "What do I do when my address changes?",
    "How do I remove something that must not be archived?",
    "What do I back up, how do I leave?",
)


@pytest.mark.parametrize("question", QUESTIONS)
def test_an_operators_questions_are_answered(question: str) -> None:
    page = (ROOT / "docs" / "do" / "operate.md").read_text()
    answer = page.partition(f"\n## {question}\n")[2].partition("\n## ")[0]
    assert len(answer) > 200


def test_the_operators_page_names_only_commands_and_settings_that_there_are() -> None:
    page = (ROOT / "docs" / "do" / "operate.md").read_text()
    commands = {name for name, _ in commands_of(herodotus, "herodotus")}
    named = {" ".join(words) for words in re.findall(r"\b(herodotus) ([a-z]+(?:-[a-z]+)?)\b", page)}
    groups = {name.rpartition(" ")[0] for name in commands if name.count(" ") == 2}
    assert named - commands - groups == set()
    keys = set(re.findall(r"`((?:budget|crawl|discovery|http|log|ring|operator|lifecycle)\.[a-z_]+)\b", page))
    assert {key for key in keys if not key.endswith(".json")} - set(known_keys()) == set()
    assert len(named) > 10
    assert len(keys) > 8
