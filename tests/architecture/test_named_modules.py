"""Does every module that the map of the code names exist?"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = (ROOT, ROOT / "herodotus")
"""Pages may leave `herodotus/` away where they speak of its rooms."""
PAGES = ("ARCHITECTURE.md", "docs/look-up/limits.md", "docs/understand/security.md", "CONTRIBUTING.md")
_NAMED = re.compile(r"`((?:[\w.-]+/)*[\w-]+\.py|(?:[\w.-]+/)+)`")


def missing(page: str, folders: tuple[Path, ...] = FOLDERS) -> list[str]:
    return sorted(
        {one for one in _NAMED.findall(page) if not any((folder / one).exists() for folder in folders)}
    )


@pytest.mark.parametrize("name", PAGES)
def test_the_modules_that_a_page_names_exist(name: str) -> None:
    assert missing((ROOT / name).read_text(encoding="utf-8")) == []


def test_a_module_that_is_gone_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.py").touch()
    assert missing("`a.py` and `gone/b.py`, `room/`", (tmp_path,)) == ["gone/b.py", "room/"]


def test_one_urls_life_is_told_with_the_module_of_each_step() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    life = page.partition("\n## One URL's life\n")[2].partition("\n## ")[0]
    steps = [row.strip("| ").split(" | ") for row in life.splitlines() if row.startswith("| ")][1:]
    assert [step[0] for step in steps if not _NAMED.findall(step[-1])] == []
    assert len(steps) > 10
    assert len(set(_NAMED.findall(life))) <= 90
