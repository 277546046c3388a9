"""Is what we ship with under licences that we allow, pinned by hash, and listed in a bill of materials?"""

import json
import re
from pathlib import Path

import pytest

from scripts.sbom import LOCK, bill, installed, licence_of, locked, main

ROOT = Path(__file__).parents[2]
PERMISSIVE = {
    "0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MIT-0", "PSF-2.0", "Unlicense", "Zlib"
}  # fmt: skip
# Each is justified in docs/adr/0007-dependencies.md.
EXCEPTIONS = {"zeroconf": "LGPL-2.1-or-later", "pathspec": "MPL-2.0"}
FOR_TESTS = {"certifi": "MPL-2.0", "hypothesis": "MPL-2.0", "tqdm": "MPL-2.0 AND MIT"}


def is_allowed(name: str, licence: str, exceptions: dict[str, str]) -> bool:
    """Any of alternatives, all of what is joined."""
    if exceptions.get(name) == licence:
        return True
    choices = licence.replace("(", "").replace(")", "").split(" OR ")
    return any(all(part.strip() in PERMISSIVE for part in choice.split(" AND ")) for choice in choices)


def not_allowed(lock: Path, exceptions: dict[str, str]) -> list[str]:
    found = [(one.name, installed(one.name)) for one in locked(lock.read_text())]
    return [
        f"{name}: {licence_of(package)}"
        for name, package in found
        if package is not None and not is_allowed(name, licence_of(package), exceptions)
    ]


def test_everything_that_we_ship_with_is_under_a_licence_that_we_allow() -> None:
    assert not_allowed(LOCK, EXCEPTIONS) == []


def test_what_tests_need_is_permissive_too() -> None:
    assert not_allowed(ROOT / "requirements" / "dev.txt", EXCEPTIONS | FOR_TESTS) == []


@pytest.mark.parametrize(
    ("licence", "allowed"),
    [
        ("MIT", True), ("MIT AND Apache-2.0", True), ("GPL-3.0-only OR MIT", True), ("GPL-3.0-only", False),
        ("MIT AND GPL-3.0-only", False), ("unknown", False), ("", False), ("LGPL-2.1-or-later", False),
    ],
)  # fmt: skip
def test_alternatives_are_open_and_joined_ones_all_count(licence: str, allowed: bool) -> None:
    assert is_allowed("some", licence, EXCEPTIONS) is allowed


def test_nearly_everything_locked_is_looked_at() -> None:
    """A lock of which little is installed would make the check above say nothing."""
    packages = locked(LOCK.read_text())
    assert len(packages) > 40
    assert len([one for one in packages if installed(one.name) is None]) <= 2
    assert all(one.hashes for one in packages)


def test_the_installed_versions_are_those_of_the_lock() -> None:
    pairs = [(one, installed(one.name)) for one in locked(LOCK.read_text())]
    assert [one.name for one, found in pairs if found is not None and found.version != one.version] == []


def test_the_bill_of_materials_lists_all_of_it_and_is_always_the_same(tmp_path: Path) -> None:
    made = bill()
    names = {one["name"] for one in made["components"]}
    assert names == {one.name for one in locked(LOCK.read_text())}
    assert (made["bomFormat"], made["specVersion"]) == ("CycloneDX", "1.6")
    assert re.fullmatch(r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", made["serialNumber"])
    references = [one["bom-ref"] for one in made["components"]]
    assert len(set(references)) == len(references)
    known = {*references, made["metadata"]["component"]["bom-ref"]}
    for row in made["dependencies"]:
        assert {row["ref"], *row["dependsOn"]} <= known
    aiohttp = next(row for row in made["dependencies"] if row["ref"].startswith("pkg:pypi/aiohttp@"))
    assert any(one.startswith("pkg:pypi/yarl@") for one in aiohttp["dependsOn"])
    assert main([str(tmp_path / "one.json")]) == main([str(tmp_path / "two.json")]) == 0
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
    assert json.loads((tmp_path / "one.json").read_text()) == made
