"""Does every link of every document lead somewhere, and can a reader get from the index to every page?"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def anchors_of(page: str) -> set[str]:
    """The names by which headings are linked to, as code hosts make them."""
    heads = re.findall(r"^#+ (.+)$", _FENCE.sub("", page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def links_of(page: Path) -> list[tuple[str, Path, str]]:
    """(as written, file, heading) of each link that stays in the repository."""
    found = []
    for written in _LINK.findall(_FENCE.sub("", page.read_text(encoding="utf-8"))):
        target, _, heading = written.partition("#")
        if "://" not in target:
            found.append((written, (page.parent / target).resolve() if target else page, heading))
    return found


def broken(page: Path) -> list[str]:
    return [
        written
        for written, target, heading in links_of(page)
        if not target.exists() or (heading and heading not in anchors_of(target.read_text(encoding="utf-8")))
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    assert broken(page) == []


def test_a_link_to_nowhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(
        "# What is it?\n```\n[code](c.md)\n```\n[b](b.md) [x](#what-is-it) [y](#no)"
    )
    assert broken(tmp_path / "a.md") == ["b.md", "#no"]


def test_every_page_can_be_reached_from_the_index() -> None:
    reached, todo = set[Path](), [ROOT / "docs" / "index.md"]
    while todo:
        page = todo.pop()
        if page.suffix == ".md" and page not in reached and page.exists():
            reached.add(page)
            todo += [target for _, target, _ in links_of(page)]
    assert [page for page in PAGES if page not in reached and page.is_relative_to(ROOT / "docs")] == []
