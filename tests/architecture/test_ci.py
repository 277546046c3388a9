"""Does a landing fail on what it should, and on nothing that is not ours? The parts are played by scripts."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def landed(root: Path, **codes: int) -> int:
    """The exit code, where each part ends with the given one; they write down that they were run."""
    (root / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", root / ".ci")
    parts = {
        "test": "scripts/test",
        "mutants": "scripts/mutants",
        "bench": "scripts/bench",
        "realweb": "scripts/realweb",
        "audit": "scripts/audit",
        "sbom": ".venv/bin/python",
    }
    for name, path in parts.items():
        script = root / path
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(f"#!/bin/sh\necho {name} $* >>ran\nexit {codes.get(name, 0)}\n")
        script.chmod(0o755)
    return subprocess.run(
        [str(root / ".ci" / "run")], capture_output=True, timeout=60, check=False
    ).returncode


def test_a_landing_tests_plants_bugs_lists_what_it_is_made_of_measures_and_audits(tmp_path: Path) -> None:
    assert landed(tmp_path) == 0
    assert (tmp_path / "ran").read_text().splitlines() == [
        "test",
        "mutants --share 1/10 --no-baseline",
        "sbom scripts/sbom.py .venv/sbom.json",
        "bench all --short --only rewriting",
        "realweb --short",
        "audit",
    ]


@pytest.mark.parametrize("part", ["test", "mutants", "sbom", "bench", "realweb", "audit"])
def test_each_part_can_end_it(tmp_path: Path, part: str) -> None:
    assert landed(tmp_path, **{part: 1}) == 1


@pytest.mark.parametrize("part", ["audit", "realweb"])
def test_a_database_or_registry_that_does_not_answer_ends_no_landing(tmp_path: Path, part: str) -> None:
    assert landed(tmp_path, **{part: 2}) == 0
