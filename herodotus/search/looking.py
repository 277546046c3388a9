"""How does a question reach the index that answers now, and what does a reader hear without one?"""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from herodotus.core.errors import SearchRestsError
from herodotus.core.search.answers import After, Results
from herodotus.core.search.questions import Question
from herodotus.store import Catalogue

if TYPE_CHECKING:
    from herodotus.search.index import WordIndex


class WordLook:
    """`words` gives the index that answers, or None. The library is loaded with the first question."""

    def __init__(self, words: "Callable[[], WordIndex | None]", unix_s: Callable[[], float]) -> None:
        self._words = words
        self._unix_s = unix_s

    def __call__(self, catalogue: Catalogue, question: Question, limit: int, after: After | None) -> Results:
        """In a thread."""
        words = self._words()
        if words is None:
            raise SearchRestsError(
                "this peer has no index of words now; look up an address, or ask another peer"
            )
        from herodotus.search.results import results

        now_s = int(self._unix_s())
        found = results(words.index, catalogue, question, now_s=now_s, limit=limit, after=after)
        return found if words.is_filled else replace(found, is_filled=False)
