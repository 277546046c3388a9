"""Which bugs are planted? The list, read from `mutants/*.toml`, and the source of a file with one of them in it.

An entry of the list, whose `text` must occur exactly once in the file, or in the class or function `within`:

    [[mutant]]
    name = "parcel-unsigned"
    file = "herodotus/copies/fetch_queue.py"
    within = "_take_in"
    text = "if signer is None:"
    becomes = "if False:"
    breaks = "A parcel with a forged signature is stored."
    tests = ["tests/herodotus/copies/test_parcels.py::test_a_parcel_without_its_signature_is_refused"]
    survives = "Only where no test can notice it: the reason."

Texts are short, one line at most, so that they outlive a refactoring of what stands around them. What does not
fit any more is an error that a unit test finds: the list cannot rot in silence.
"""

import ast
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from textwrap import dedent
from typing import Any

LISTS = Path(__file__).parent / "mutants"
_REQUIRED = frozenset({"name", "file", "text", "becomes", "breaks", "tests"})
_OPTIONAL = frozenset({"within", "survives"})


class NotPlantedError(Exception):
    """The list says something of the source, or of a test, that is not so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceMutant:
    """One bug: what stands where, and what stands there instead."""

    name: str
    file: str
    text: str
    becomes: str
    breaks: str
    """What a user or an operator would lose."""
    tests: tuple[str, ...]
    """The nearest tests, as pytest takes them: a file, or a file and a function."""
    within: str = ""
    """A class or function of the file, with its class where there are several: there alone `text` is looked for."""
    survives: str = ""
    """Why no test notices it; empty where one must."""


def read_mutants(folder: Path = LISTS) -> list[SourceMutant]:
    """All of them, list by list. Raises NotPlantedError where an entry is not one, or a name is taken."""
    found: list[SourceMutant] = []
    for path in sorted(folder.glob("*.toml")):
        found += (_mutant(path.name, row) for row in tomllib.loads(path.read_text()).get("mutant", []))
    names = [mutant.name for mutant in found]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise NotPlantedError(f"two mutants of one name: {', '.join(doubled)}")
    return found


def _mutant(where: str, row: dict[str, Any]) -> SourceMutant:
    name = row.get("name", "one without a name")
    missing, unknown = _REQUIRED - row.keys(), row.keys() - _REQUIRED - _OPTIONAL
    if missing or unknown:
        raise NotPlantedError(f"{where}: {name}: lacks {sorted(missing)}, has unknown {sorted(unknown)}")
    if not row["tests"]:
        raise NotPlantedError(f"{where}: {name}: names no test")
    return SourceMutant(**{**row, "tests": tuple(row["tests"])})


def source_with(mutant: SourceMutant, source: str) -> str:
    """The file's source with the bug in it. Raises NotPlantedError where the text is not there exactly once."""
    start, end = 0, len(source)
    if mutant.within:
        start, end = _span(mutant, source)
    count = source.count(mutant.text, start, end)
    if count != 1:
        raise NotPlantedError(f"{mutant.name}: found {count} times in {mutant.file}: {mutant.text!r}")
    at = source.index(mutant.text, start, end)
    planted = source[:at] + mutant.becomes + source[at + len(mutant.text) :]
    with suppress(SyntaxError):  # of a definition alone it is seen in a tenth of the time
        if mutant.within:
            ast.parse(dedent(planted[start : end + len(planted) - len(source)]))
            return planted
    try:
        ast.parse(planted)
    except SyntaxError as error:
        raise NotPlantedError(
            f"{mutant.name}: what becomes of {mutant.file} is no Python: {error}"
        ) from error
    return planted


def _span(mutant: SourceMutant, source: str) -> tuple[int, int]:
    """Where the definition begins and ends, in characters."""
    definitions = list(_definitions_of(source))
    found = [node for name, node in definitions if name == mutant.within]
    if not found:
        found = [node for name, node in definitions if name.endswith(f".{mutant.within}")]
    if len(found) != 1:
        raise NotPlantedError(f"{mutant.name}: {mutant.file} has {len(found)} times {mutant.within}")
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    (node,) = found
    return starts[node.lineno - 1], starts[node.end_lineno or node.lineno]


Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@lru_cache(maxsize=256)
def _definitions_of(source: str) -> tuple[tuple[str, Definition], ...]:
    """With their names. Many mutants share a file."""
    return tuple(_definitions(ast.parse(source)))


def _definitions(node: ast.AST, before: str = "") -> Iterator[tuple[str, Definition]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Definition):
            yield before + child.name, child
            yield from _definitions(child, f"{before}{child.name}.")
        else:
            yield from _definitions(child, before)


def missing_tests(mutant: SourceMutant, root: Path) -> list[str]:
    """Those of its tests that the tree does not have."""
    return [test for test in mutant.tests if not _is_there(test, root)]


def _is_there(test: str, root: Path) -> bool:
    file, *inside = test.split("::")
    path = root / file
    if not path.exists() or not inside:
        return path.exists()
    wanted = ".".join(inside).partition("[")[0]
    return any(name == wanted for name, _ in _definitions_of(path.read_text()))
