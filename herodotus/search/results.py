"""The whole answer to a question in words: which pages fit, and what a reader sees of each.

All of it is computed in one thread, as it waits for the processor and the disk.
"""

from tantivy import Index

from herodotus.core.search.answers import After, Results
from herodotus.core.search.questions import Question
from herodotus.search.asking import answer
from herodotus.search.queries import words_asked
from herodotus.search.showing import shown
from herodotus.store import Catalogue


def results(
    index: Index, catalogue: Catalogue, question: Question, *, now_s: int, limit: int, after: After | None
) -> Results:
    found = answer(index, question, now_s=now_s, limit=limit, after=after)
    return Results(answer=found, shown=tuple(shown(catalogue, found.hits, words_asked(question.tree))))
