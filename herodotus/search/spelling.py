"""Which words might have been meant, where one of the question's is on no page?

Words of the index that differ in one letter, or two of a longer word, and begin with one of its first two letters: the
one on most pages. Asked only where nothing was found, so a walk along two stretches of the dictionary is cheap enough.
"""

from collections.abc import Sequence

from tantivy import Searcher

from herodotus.core.search.fields import BODY, TITLE

TERMS_MAX = 20_000
"""Words that are compared, those on most pages first: some 20 ms."""
WORDS_MAX = 8
"""Of a question that are looked at."""


def likelier(searcher: Searcher, words: Sequence[str]) -> dict[str, str]:
    """By a word that is on no page the one that may have been meant."""
    lacking = [word for word in words if not _pages(searcher, word)]
    found = ((word, _nearest(searcher, word)) for word in lacking[:WORDS_MAX])
    return {word: near for word, near in found if near}


def _pages(searcher: Searcher, word: str) -> int:
    return searcher.doc_freq(BODY, word) + searcher.doc_freq(TITLE, word)


def _nearest(searcher: Searcher, word: str) -> str:
    if len(word) < 3 or not word.isascii():
        return ""
    most = 1 if len(word) < 6 else 2
    best = (most + 1, 0, "")
    for letter in dict.fromkeys(word[:2]):
        for term, pages in searcher.terms_with_prefix(BODY, letter, None, TERMS_MAX):
            if abs(len(term) - len(word)) <= most:
                far = distance(word, term, most)
                best = min(best, (far, -pages, term))
    return best[2] if best[0] <= most else ""


def distance(one: str, other: str, most: int) -> int:
    """Letters to insert, delete, replace, or swap with the next; anything above `most` is `most` + 1."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, start=1):
        older, before, row = before, row, [i]
        for j, beside in enumerate(other, start=1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != beside))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == beside:
                cost = min(cost, older[j - 2] + 1)
            row.append(cost)
        if min(row) > most:
            return most + 1
    return min(row[-1], most + 1)
