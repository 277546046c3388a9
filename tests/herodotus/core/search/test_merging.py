"""Do several answers become the one that a single index would give, and which are not believed?"""

from dataclasses import replace

import pytest

from herodotus.core.search.answers import Answer, Hit, place_of
from herodotus.core.search.cover import Arc
from herodotus.core.search.fields import OPEN, spell_id
from herodotus.core.search.grammar import parse
from herodotus.core.search.merging import contradiction, merged
from herodotus.core.search.questions import Order, Question

QUESTION = parse("ferry", 0)
ARCS = [Arc(0, 100)]


def hit(
    position: int, score: float = 1.0, order: Order = Order.RELEVANCE, first_s: int = 10, versions: int = 1
) -> Hit:
    return Hit(
        id=spell_id(position, first_s),
        position=position,
        first_s=first_s,
        until_s=OPEN,
        score=score,
        versions=versions,
        place=place_of(order, position, score=score, first_s=first_s, versions=versions),
    )


def answer(*hits: Hit, pages: int | None = None, **facets: tuple[tuple[str, int], ...]) -> Answer:
    count = len(hits) if pages is None else pages
    return Answer(
        hits=hits,
        pages=count,
        versions=count,
        is_whole=True,
        has_more=count > len(hits),
        documents=100,
        facets=facets,
        likelier={},
    )


def test_the_best_of_all_stand_first_and_counts_add_up() -> None:
    one = answer(hit(5, 9.0), hit(7, 2.0), pages=30, host=(("a.example", 20), ("b.example", 10)))
    other = answer(hit(200, 4.0), hit(201, 2.0), host=(("b.example", 2),), year=(("2026", 2),))
    found = merged([one, other], 3, values=10, likelier={"fery": "ferry"})
    assert [one.position for one in found.hits] == [5, 200, 7]
    assert (found.pages, found.versions, found.documents) == (32, 32, 200)
    assert (found.is_whole, found.has_more) == (True, True)
    assert found.facets["host"] == (("a.example", 20), ("b.example", 12))
    assert found.likelier == {}


def test_nothing_more_where_all_is_told() -> None:
    found = merged([answer(hit(5)), answer(hit(200))], 2, values=10, likelier={})
    assert not found.has_more
    assert merged([answer()], 2, values=10, likelier={"fery": "ferry"}).likelier == {"fery": "ferry"}


def test_one_answer_that_is_not_whole_makes_the_sum_a_least() -> None:
    assert not merged(
        [answer(hit(5)), replace(answer(hit(6)), is_whole=False)], 9, values=1, likelier={}
    ).is_whole


def test_years_stand_from_the_newest_and_others_by_their_count() -> None:
    one = answer(hit(5), year=(("2026", 1), ("2024", 5)), type=(("text/html", 3), ("text/plain", 3)))
    other = answer(hit(6), year=(("2025", 7),), type=(("application/pdf", 9),))
    found = merged([one, other], 9, values=2, likelier={})
    assert found.facets["year"] == (("2026", 1), ("2025", 7), ("2024", 5))
    assert found.facets["type"] == (("application/pdf", 9), ("text/html", 3))


def wrong(told: Answer, question: Question = QUESTION, limit: int = 3) -> str | None:
    return contradiction(told, question, arcs=ARCS, limit=limit, after=None)


HONEST = answer(hit(5, 3.0), hit(7, 2.0), hit(9, 2.0), pages=8, host=(("a.example", 8),))


def test_an_honest_answer_contradicts_nothing() -> None:
    assert wrong(HONEST) is None
    assert wrong(answer()) is None
    behind = answer(hit(9, 2.0), pages=8)
    after = HONEST.hits[1].place
    assert contradiction(replace(behind, has_more=False), QUESTION, arcs=ARCS, limit=3, after=after) is None


@pytest.mark.parametrize(
    ("lie", "word"),
    [
        (replace(HONEST, hits=HONEST.hits[::-1]), "order"),
        (replace(HONEST, hits=(*HONEST.hits, hit(11, 1.0))), "too many"),
        (replace(HONEST, hits=HONEST.hits[:2]), "not told"),
        (replace(HONEST, pages=2), "counts"),
        (replace(HONEST, versions=7), "counts"),
        (replace(HONEST, documents=7), "counts"),
        (replace(HONEST, hits=(hit(5, float("inf")), *HONEST.hits[1:])), "a hit"),
        (replace(HONEST, hits=(hit(5, 3.0, versions=9), *HONEST.hits[1:])), "a hit"),
        (replace(HONEST, hits=(hit(5, 4.0), *HONEST.hits[:2])), "twice"),
        (replace(HONEST, hits=(hit(101, 3.0), *HONEST.hits[1:])), "not asked for"),
        (replace(HONEST, hits=(hit(0, 3.0), *HONEST.hits[1:])), "not asked for"),
        (replace(HONEST, facets={"host": (("a.example", 9),)}), "values"),
    ],
)
def test_an_answer_that_cannot_be_true_is_named(lie: Answer, word: str) -> None:
    assert word in (wrong(lie) or "")


def test_hits_of_an_earlier_page_are_not_taken_again() -> None:
    told = contradiction(HONEST, QUESTION, arcs=ARCS, limit=3, after=HONEST.hits[0].place)
    assert told == "hits of another page"


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("ferry on:1970-01-02", (0, OPEN)),
        ("ferry on:1970-01-02", (172_799, 172_800)),
        ("ferry between:1970-01-02", (0, 86_401)),
        ("ferry appeared:1970-01-02", (86_400, OPEN)),
        ("ferry vanished:1970-01-02", (5, 86_400)),
    ],
)
def test_hits_are_of_the_days_that_were_asked_for(text: str, fits: tuple[int, int]) -> None:
    first_s, until_s = fits
    told = replace(hit(5, first_s=first_s), until_s=until_s)
    assert wrong(answer(told), parse(text, 0)) is None


@pytest.mark.parametrize(
    ("text", "misses"),
    [
        ("ferry on:1970-01-02", (172_800, OPEN)),
        ("ferry on:1970-01-02", (0, 172_799)),
        ("ferry between:1970-01-02", (0, 86_400)),
        ("ferry appeared:1970-01-02", (86_399, OPEN)),
        ("ferry vanished:1970-01-02", (5, OPEN)),
    ],
)
def test_hits_of_other_days_are_a_contradiction(text: str, misses: tuple[int, int]) -> None:
    first_s, until_s = misses
    told = replace(hit(5, first_s=first_s), until_s=until_s)
    assert wrong(answer(told), parse(text, 0)) == "other days"
