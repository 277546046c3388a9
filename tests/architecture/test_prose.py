"""Do the documents use the common word? A few words that our pages once used, and what stands there now."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
COMMON = {
    "anew": "again",
    "whoever": "the peer, the reader",
    "mended": "repaired",
    "let go of": "deleted, dropped",
    "by chance": "at random",
    "so many as": "as many as",
}
_RARE = re.compile(rf"\b({'|'.join(COMMON)})\b", re.IGNORECASE)


def rare(text: str) -> list[str]:
    """Lines with a rare word, and the common one."""
    found = [(line, _RARE.search(line)) for line in text.splitlines()]
    return [f"{line.strip()[:80]}: {COMMON[word[0].lower()]}" for line, word in found if word is not None]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_uses_the_common_word(page: Path) -> None:
    assert rare(page.read_text(encoding="utf-8")) == []


def test_a_rare_word_is_found_with_the_common_one() -> None:
    assert rare("Copies are\nmade Anew by\npeers.") == ["made Anew by: again"]


def test_the_glossary_has_each_word_once() -> None:
    page = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    rows = [line.split(" | ")[0].strip("| ") for line in page.splitlines() if line.startswith("| ")]
    words = [word for row in rows if row != "word" for word in row.split(", ")]
    assert sorted(word for word in set(words) if words.count(word) > 1) == []
    assert len(words) > 100
