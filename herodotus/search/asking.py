"""Which pages answer a question, by the index of this peer alone?

Documents are spells (`core/search/fields.py`). What is answered are pages: the spells of one URL that fit are one hit.
All that is computed in Python has a bound, and an answer says where it was met.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tantivy import DocAddress, Index, Query, Searcher
from tantivy import Order as Direction

from herodotus.core.errors import QuestionError
from herodotus.core.search.answers import After, Answer, Hit, place_of
from herodotus.core.search.cover import Arc
from herodotus.core.search.fields import BODY, FIRST, HOST, ID, LANGUAGE, POSITION, TITLE, TYPE, UNTIL
from herodotus.core.search.merging import YEAR
from herodotus.core.search.questions import Dated, Dating, Order, Question
from herodotus.core.search.weights import Frequencies, Having, Weights
from herodotus.core.warc import civil_date, parse_digits
from herodotus.search.queries import Queries, words_asked
from herodotus.search.spelling import likelier
from herodotus.search.wire import VALUES_MAX, Asked

GATHERED_MAX = 10_000
"""Documents of a question that are grouped by URL: some 10 ms. Of more the best, or the first in order, are shown."""
SET_ROWS_MAX = 100_000
"""Of each of the two sets that are subtracted; some 100 ms."""
SHOWN_MAX = 100
FACET_VALUES_MAX = 10
FACET_CUT = 10_000
"""Values of each of the library's segments that are counted exactly; it would take a tenth as many as are shown."""
YEARS_MAX = 20
_DAY_S = 86_400


class Spell(NamedTuple):
    score: float
    id: int
    position: int
    first_s: int
    until_s: int


def answer_for_ring(index: Index, asked: Asked) -> Answer:
    """A peer's part of an answer of the ring, its own or for another."""
    return answer(
        index,
        asked.question,
        now_s=asked.now_s,
        limit=asked.hits,
        after=asked.after,
        arcs=asked.arcs,
        weights=asked.weights,
        values=VALUES_MAX,
        suggests=False,
    )


def answer(
    index: Index,
    question: Question,
    *,
    now_s: int,
    limit: int = 10,
    after: After | None = None,
    arcs: Sequence[Arc] | None = None,
    weights: Weights | None = None,
    values: int = FACET_VALUES_MAX,
    suggests: bool = True,
) -> Answer:
    """In a thread. QuestionError: a word has no letter that the index keeps, or sets are too large to be subtracted.
    `arcs`: which positions to answer for; None is all of them. `values`: how many of each kind are told beside the
    hits. `suggests`: also what may have been meant by a word that is on no page."""
    searcher = index.searcher()
    queries = Queries(index, searcher, weights)
    asking = _Asking(searcher, queries)
    wanted = queries.of(question.tree)
    documents = searcher.num_docs
    if arcs is not None:
        there = queries.on(arcs)
        wanted, documents = queries.both(wanted, there), _count(searcher.search(there, 1))
    found = asking.found(wanted, question)
    groups = _grouped(found.spells, question.order)
    start = 0 if after is None else bisect_right(groups, after, key=_place)
    end = start + min(limit, SHOWN_MAX)
    return Answer(
        hits=tuple(map(_hit, groups[start:end])),
        pages=len(groups),
        versions=found.count,
        is_whole=found.is_whole,
        has_more=end < len(groups),
        documents=documents,
        facets=asking.facets(found, groups, None if question.dated else now_s, values),
        likelier={} if found.spells or not suggests else likelier(searcher, words_asked(question.tree)),
    )


def frequencies(index: Index, words: Sequence[str]) -> Frequencies:
    """In a thread: how common these words are here."""
    searcher = index.searcher()
    having = (Having(searcher.doc_freq(TITLE, word), searcher.doc_freq(BODY, word)) for word in words)
    return Frequencies(searcher.num_docs, tuple(having))


class _Group(NamedTuple):
    """The spells of one URL, in the order of groups."""

    place: After
    score: float
    told: Spell
    versions: int


@dataclass(frozen=True, slots=True)
class _Found:
    query: Query
    """Fits all of them, and maybe more."""
    spells: list[Spell]
    count: int

    @property
    def is_whole(self) -> bool:
        return self.count == len(self.spells)


class _Asking:
    def __init__(self, searcher: Searcher, queries: Queries) -> None:
        self._searcher = searcher
        self._queries = queries

    def found(self, wanted: Query, question: Question) -> _Found:
        dated = question.dated
        if dated is None:
            return self._gathered(wanted, question.order)
        if dated.dating in (Dating.ON, Dating.BETWEEN):
            return self._gathered(self._queries.both(wanted, self._queries.at(dated)), question.order)
        return self._subtracted(wanted, dated)

    def _gathered(self, query: Query, order: Order) -> _Found:
        if order in (Order.NEWEST, Order.OLDEST):
            direction = Direction.Desc if order is Order.NEWEST else Direction.Asc
            found = self._searcher.search(query, GATHERED_MAX, True, FIRST, 0, direction)
        else:
            found = self._searcher.search(query, GATHERED_MAX)
        is_scored = order in (Order.RELEVANCE, Order.VERSIONS)
        spells = self._spells(found.hits, is_scored=is_scored)
        return _Found(query, spells, _count(found))

    def _subtracted(self, wanted: Query, dated: Dated) -> _Found:
        """A URL's next spell begins as the one before ends: where both have the words, nothing came or went."""
        begun_query = self._queries.both(wanted, self._queries.begun(dated))
        ended_query = self._queries.both(wanted, self._queries.ended(dated))
        begun, ended = self._all(begun_query, dated), self._all(ended_query, dated)
        if dated.dating is Dating.APPEARED:
            gone = {(spell.position, spell.until_s) for spell in ended}
            left = [spell for spell in begun if (spell.position, spell.first_s) not in gone]
            return _Found(begun_query, left, len(left))
        come = {(spell.position, spell.first_s) for spell in begun}
        left = [spell for spell in ended if (spell.position, spell.until_s) not in come]
        return _Found(ended_query, left, len(left))

    def _all(self, query: Query, dated: Dated) -> list[Spell]:
        found = self._searcher.search(query, SET_ROWS_MAX)
        if _count(found) > SET_ROWS_MAX:
            raise QuestionError(
                part=str(dated.dating),
                problem=f"has more than {SET_ROWS_MAX:,} versions to compare",
                hint="name fewer days, a site, or one more word",
            )
        return self._spells(found.hits, is_scored=True)

    def _spells(self, hits: Iterable[tuple[object, DocAddress]], *, is_scored: bool) -> list[Spell]:
        rows = list(hits)
        addresses = [address for _, address in rows]
        scores = [score if is_scored and isinstance(score, float) else 0.0 for score, _ in rows]
        columns = (self._numbers(name, addresses) for name in (ID, POSITION, FIRST, UNTIL))
        return [Spell(*row) for row in zip(scores, *columns, strict=True)]

    def _numbers(self, field: str, addresses: list[DocAddress]) -> list[int]:
        values = self._searcher.fast_field_values(field, addresses)
        return [int(value) for value in values if value is not None]

    def facets(
        self, found: _Found, groups: Sequence[_Group], now_s: int | None, values: int
    ) -> dict[str, tuple[tuple[str, int], ...]]:
        """`now_s` is None where a date is asked for, and years say nothing."""
        if not groups:
            return {}
        # Where each page is known they are counted by the spell that is told, so that numbers and list agree.
        query = self._queries.these(group.told.id for group in groups) if found.is_whole else found.query
        terms = {"size": values, "segment_size": FACET_CUT}
        wanted = {name: {"terms": {"field": name, **terms}} for name in (HOST, TYPE, LANGUAGE)}
        told = self._searcher.aggregate(query, wanted)
        facets = {
            name: tuple((str(one["key"]), int(one["doc_count"])) for one in told[name]["buckets"])
            for name in wanted
        }
        if now_s is not None:
            facets[YEAR] = self._years(found, now_s)
        return facets

    def _years(self, found: _Found, now_s: int) -> tuple[tuple[str, int], ...]:
        # Other peers' clocks go, too, and files of others have any date.
        last = _year_of(max(now_s, *(spell.first_s for spell in found.spells)))
        first = max(_year_of(min(spell.first_s for spell in found.spells)), last - YEARS_MAX + 1)
        counts = []
        for year in range(last, first - 1, -1):
            dated = Dated(
                Dating.BETWEEN, parse_digits(f"{year}0101000000"), parse_digits(f"{year}1231235959")
            )
            if found.is_whole:
                fit = (
                    one for one in found.spells if one.first_s <= dated.to_s and one.until_s > dated.from_s
                )
                count = len({one.position for one in fit})
            else:
                both = self._queries.both(found.query, self._queries.at(dated))
                count = _count(self._searcher.search(both, 1))
            if count:
                counts.append((str(year), count))
        return tuple(counts)


def _count(found: Any) -> int:
    """Of a result of the library, whose stubs leave it out."""
    return int(found.count or 0)


def _grouped(spells: Iterable[Spell], order: Order) -> list[_Group]:
    by_url: dict[int, list[Spell]] = {}
    for spell in spells:
        by_url.setdefault(spell.position, []).append(spell)
    sign = 1 if order is Order.OLDEST else -1
    groups = []
    for position, fitting in by_url.items():
        told, score = fitting[0], fitting[0].score
        if len(fitting) > 1:
            told = max(fitting, key=lambda spell: -sign * spell.first_s)
            score = max(spell.score for spell in fitting)
        place = place_of(order, position, score=score, first_s=told.first_s, versions=len(fitting))
        groups.append(_Group(place, score, told, len(fitting)))
    return sorted(groups)


def _place(group: _Group) -> After:
    return group.place


def _hit(group: _Group) -> Hit:
    return Hit(
        id=group.told.id,
        position=group.told.position,
        first_s=group.told.first_s,
        until_s=group.told.until_s,
        score=group.score,
        versions=group.versions,
        place=group.place,
    )


def _year_of(time_s: int) -> int:
    return civil_date(time_s // _DAY_S)[0]
