"""Does `scripts/audit` tell "no weakness is known" from "nobody could be asked"? pip-audit is played by a script."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def audited(root: Path, says: str, code: int) -> int:
    (root / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "audit", root / "scripts")
    program = root / ".venv" / "audit-tools" / "bin" / "pip-audit"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{says}'\nexit {code}\n")
    program.chmod(0o755)
    done = subprocess.run([str(root / "scripts" / "audit")], capture_output=True, timeout=60, check=False)
    return done.returncode


@pytest.mark.parametrize(
    ("says", "code", "means"),
    [
        ("No known vulnerabilities found", 0, 0),
        ("Found 1 known vulnerability in 1 package", 1, 1),
        ("requests.exceptions.ConnectionError: Max retries exceeded", 1, 2),
        (
            "No known vulnerabilities found\nanyio  Dependency not found on PyPI and could not be audited",
            0,
            2,
        ),
        ("Found 1 known vulnerability in 1 package\nanyio  could not be audited", 1, 2),
    ],
)
def test_an_audit_that_could_not_ask_is_no_good_news(
    tmp_path: Path, says: str, code: int, means: int
) -> None:
    assert audited(tmp_path, says, code) == means
