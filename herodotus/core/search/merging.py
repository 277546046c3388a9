"""How do the answers of several peers become one, and which answers are believed?

Each peer gave its best hits for positions of its own, so the best of all are among them, and counts add up. Strangers
wrote them: an answer that contradicts its question, or itself, is left out as a whole.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise

from herodotus.core.search.answers import After, Answer, Hit
from herodotus.core.search.cover import Arc
from herodotus.core.search.questions import Dated, Dating, Question

YEAR = "year"
Facets = Mapping[str, tuple[tuple[str, int], ...]]


def merged(answers: Sequence[Answer], limit: int, *, values: int, likelier: Mapping[str, str]) -> Answer:
    """`values`: how many of each kind stand beside the hits, where a reader narrows the question."""
    hits = sorted((hit for answer in answers for hit in answer.hits), key=lambda hit: hit.place)
    return Answer(
        hits=tuple(hits[:limit]),
        pages=sum(answer.pages for answer in answers),
        versions=sum(answer.versions for answer in answers),
        is_whole=all(answer.is_whole for answer in answers),
        has_more=len(hits) > limit or any(answer.has_more for answer in answers),
        documents=sum(answer.documents for answer in answers),
        facets=_facets([answer.facets for answer in answers], values),
        likelier=likelier if not hits else {},
    )


def _facets(of_peers: Sequence[Facets], most: int) -> Facets:
    found: dict[str, Counter[str]] = {}
    for facets in of_peers:
        for name, values in facets.items():
            found.setdefault(name, Counter()).update(dict(values))
    return {name: _first(name, counts, most) for name, counts in found.items()}


def _first(name: str, counts: Counter[str], most: int) -> tuple[tuple[str, int], ...]:
    """Years from the newest, all of them; of other values those with most pages."""
    if name == YEAR:
        return tuple(sorted(counts.items(), reverse=True)[: 2 * most])
    return tuple(sorted(counts.items(), key=lambda one: (-one[1], one[0]))[:most])


def contradiction(
    answer: Answer, question: Question, *, arcs: Sequence[Arc], limit: int, after: After | None
) -> str | None:
    """What cannot be true in an answer to this question; None: nothing that can be seen here."""
    places = [hit.place for hit in answer.hits]
    if len(places) > limit or any(one >= other for one, other in pairwise(places)):
        return "hits out of order, or too many"
    if after is not None and places and places[0] <= after:
        return "hits of another page"
    if answer.has_more and len(places) < limit:
        return "more hits, and not told"
    if not len(places) <= answer.pages <= answer.versions <= answer.documents:
        return "counts"
    if not all(math.isfinite(hit.score) and hit.versions <= answer.versions for hit in answer.hits):
        return "a hit"
    if len({hit.position for hit in answer.hits}) < len(places):
        return "one page twice"
    if not all(any(arc.has(hit.position) for arc in arcs) for hit in answer.hits):
        return "positions that were not asked for"
    if question.dated is not None and not all(_is_of(hit, question.dated) for hit in answer.hits):
        return "other days"
    if any(count > answer.versions for values in answer.facets.values() for _, count in values):
        return "counts of values"
    return None


def _is_of(hit: Hit, dated: Dated) -> bool:
    match dated.dating:
        case Dating.ON | Dating.BETWEEN:
            return hit.first_s <= dated.to_s and hit.until_s > dated.from_s
        case Dating.APPEARED:
            return dated.from_s <= hit.first_s <= dated.to_s
        case Dating.VANISHED:
            return dated.from_s <= hit.until_s <= dated.to_s
