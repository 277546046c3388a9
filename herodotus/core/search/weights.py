"""How rare is a word? Weights that all peers use for one question, so that what they find can be put into one order."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Weight(NamedTuple):
    """How rare a word is in all of the ring (BM25's idf)."""

    title: float
    body: float


Weights = Mapping[str, Weight]
"""By a word as the index has it; one that is not there weighs as in this index alone."""


class Having(NamedTuple):
    """Documents with a word."""

    title: int
    body: int


class Frequencies(NamedTuple):
    """Of one index or several; `having` is in the order of the words that were asked about."""

    documents: int
    having: tuple[Having, ...]


def idf(documents: int, having: int) -> float:
    """As BM25 has it; never zero."""
    having = min(having, documents)
    return math.log(1 + (documents - having + 0.5) / (having + 0.5))


def added(of_peers: Sequence[Frequencies], words: int) -> Frequencies:
    """Several peers hold the same document. URLs are spread by their hashes, so each index is a fair sample, and the
    sum is one as well."""
    sums = (
        Having(sum(one.having[at].title for one in of_peers), sum(one.having[at].body for one in of_peers))
        for at in range(words)
    )
    return Frequencies(sum(one.documents for one in of_peers), tuple(sums))


def weights_of(words: Sequence[str], told: Frequencies) -> dict[str, Weight]:
    return {
        word: Weight(idf(told.documents, having.title), idf(told.documents, having.body))
        for word, having in zip(words, told.having, strict=True)
    }
