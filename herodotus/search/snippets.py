"""Which lines of a page show why it answers a question, and where do the words stand in them?

The words are looked for in the text as the index cut it, each with its forms in the page's language. Nothing is asked
of the index, so a page that another peer found is shown alike.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from herodotus.core.search.answers import Run, Snippet
from herodotus.core.search.fields import BREAK, STEMMERS, prepared
from herodotus.core.search.text import PageText
from herodotus.search.schema import stems_of, words_of

SNIPPET_CHARS = 240
"""Two or three lines, as people know them."""
_BEFORE_CHARS = 60
_READ_CHARS_MAX = 200_000
"""Of a text: 4 ms. A word that first stands behind it is not shown."""
_PLACES_MAX = 500
"""Of the words that are weighed against each other."""
_WORD = re.compile(r"[^\W_]+")
_SPACE = re.compile(r"\s+")


def snippet_of(text: PageText, words: Sequence[str]) -> Snippet:
    """The lines with most of the words; the first lines of a page that has none in its texts."""
    for part in (text.body, text.description, text.rest):
        whole = prepared(part[:_READ_CHARS_MAX])
        marks = _marks(whole, words, text.language)
        if marks:
            return _cut(whole, marks, _best(marks))
    first = text.description or text.body or text.rest
    return _cut(prepared(first[: 4 * SNIPPET_CHARS]), [], 0)


class _Mark(NamedTuple):
    start: int
    end: int
    word: int
    """Which one of the question's."""


def _marks(text: str, words: Sequence[str], language: str) -> list[_Mark]:
    forms = _forms(set(_WORD.findall(text)), words, language)
    if not forms:
        return []
    longest_first = sorted(forms, key=len, reverse=True)
    found = re.compile(rf"(?<![^\W_])(?:{'|'.join(map(re.escape, longest_first))})(?![^\W_])")
    marks = [_Mark(*match.span(), forms[match[0]]) for match in found.finditer(text)]
    return marks[:_PLACES_MAX]


def _forms(held: Iterable[str], words: Sequence[str], language: str) -> dict[str, int]:
    """Which words of a text stand for which of the question. Most begin otherwise: that needs no library."""
    wanted = {word: number for number, word in enumerate(words)}
    stems: dict[str, int] = {}
    if language in STEMMERS:
        stems = {stem: number for word, number in wanted.items() for stem in stems_of(word, language)}
    begins = {word[0] for word in (*wanted, *stems)}
    found: dict[str, int] = {}
    for form in held:
        if form[0].isascii() and form[0].lower() not in begins:
            continue
        numbers = [wanted.get(word) for word in words_of(form)]
        if stems:
            numbers += [stems.get(stem) for stem in stems_of(form, language)]
        known = [number for number in numbers if number is not None]
        if known:
            found[form] = known[0]
    return found


def _best(marks: Sequence[_Mark]) -> int:
    """The place from which most different words are in sight; then the one with most of them beside each other."""
    starts = [mark.start for mark in marks]

    def worth(number: int) -> tuple[int, int]:
        seen = marks[number : bisect_right(starts, starts[number] + SNIPPET_CHARS - _BEFORE_CHARS)]
        beside = sum(
            one.end + 1 >= other.start and one.word + 1 == other.word for one, other in pairwise(seen)
        )
        return len({mark.word for mark in seen}), beside

    return marks[max(range(len(marks)), key=lambda number: (*worth(number), -number))].start


def _cut(text: str, marks: Sequence[_Mark], at: int) -> Snippet:
    """Whole words around a place. Of line ends and spaces one space is left, and nothing of what nobody sees."""
    start = max(0, at - _BEFORE_CHARS)
    if start:
        start = next((match.end() for match in _SPACE.finditer(text, start, at)), start)
    end = min(len(text), start + SNIPPET_CHARS)
    if end < len(text):
        last = text.rfind(" ", start, end)
        end = last if last > start else end
    runs: list[Run] = [Run("… ")] if start else []
    here = start
    for mark in marks:
        if start <= mark.start and mark.end <= end:
            runs += (Run(text[here : mark.start]), Run(text[mark.start : mark.end], True))
            here = mark.end
    runs.append(Run(text[here:end]))
    if end < len(text):
        runs.append(Run(" …"))
    return _joined(runs)


def _joined(runs: Iterable[Run]) -> Snippet:
    found: list[Run] = []
    for text, is_marked in runs:
        plain = _SPACE.sub(" ", text.replace(BREAK, ""))
        if not plain:
            continue
        if found and found[-1].is_marked == is_marked:
            found[-1] = Run(found[-1].text + plain, is_marked)
        else:
            found.append(Run(plain, is_marked))
    return tuple(found)
