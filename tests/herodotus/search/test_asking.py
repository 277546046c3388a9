"""Does the index answer as the texts themselves would? A small web of some days, asked everything about its words."""

import random
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tantivy import Index

from herodotus.core.errors import QuestionError
from herodotus.core.search.answers import Answer
from herodotus.core.search.cover import Arc
from herodotus.core.search.fields import OPEN
from herodotus.core.search.grammar import parse
from herodotus.core.search.weights import Weight
from herodotus.core.warc import parse_date
from herodotus.search.asking import SHOWN_MAX, answer
from tests.herodotus.search.archives import indexed, page

DAY_S = 86_400
BEGIN_S = parse_date("2026-03-01T08:00:00Z")
NOW_S = parse_date("2026-03-12T12:00:00Z")


def asked(index: Index, text: str, **more: int) -> Answer:
    return answer(index, parse(text, NOW_S), now_s=NOW_S, limit=more.get("limit", SHOWN_MAX))


def positions(found: Answer) -> list[int]:
    return [hit.position for hit in found.hits]


# -- days: each page's words on each day; "" is a day on which it answered 404, None one before it was known

VOCABULARY = ("ferry", "bell", "boat", "harbour", "net", "loft", "salt", "rope")
DAYS = 10
History = list[str | None]


def made_web(seed: int, pages: int) -> dict[int, History]:
    """Texts stay, change, go away, and come back as they were."""
    chance = random.Random(seed)
    web: dict[int, History] = {}
    for _ in range(pages):
        texts = [" ".join(chance.choices(VOCABULARY, k=5)) for _ in range(3)] + [""]
        born = chance.choice((0, 0, 0, chance.randrange(DAYS)))
        days: History = [None] * born
        current = texts[0]
        for _ in range(born, DAYS):
            current = chance.choice(texts) if chance.random() < 0.4 else current
            days.append(current)
        web[chance.getrandbits(64)] = days
    return web


def spells_of(days: History) -> Iterator[tuple[int, int, str]]:
    starts = [
        day for day in range(DAYS) if days[day] is not None and (day == 0 or days[day] != days[day - 1])
    ]
    for start, following in pairwise([*starts, None]):
        assert start is not None
        until_s = OPEN if following is None else BEGIN_S + following * DAY_S
        yield BEGIN_S + start * DAY_S, until_s, days[start] or ""


def index_of(web: Mapping[int, History]) -> Index:
    return indexed(
        page(position, first_s, until_s, body=text, status=200 if text else 404)
        for position, days in web.items()
        for first_s, until_s, text in spells_of(days)
    )


WEB = made_web(21, 200)
INDEX = index_of(WEB)
Fits = Callable[[str | None], bool]
QUESTIONS: dict[str, Fits] = {
    "ferry": lambda text: "ferry" in (text or "").split(),
    '"ferry bell"': lambda text: " ferry bell " in f" {text} ",
    "ferry -bell": lambda text: "ferry" in (text or "").split() and "bell" not in (text or "").split(),
    "salt OR rope net": lambda text: (
        {"salt", "rope"} & {*(text or "").split()} != set() and "net" in (text or "").split()
    ),
    "status:404": lambda text: text == "",
}


def _on(days: History, day: int, fits: Fits) -> bool:
    return fits(days[day])


def _came(days: History, day: int, fits: Fits) -> bool:
    return fits(days[day]) and (day == 0 or not fits(days[day - 1]))


def _went(days: History, day: int, fits: Fits) -> bool:
    return day > 0 and not fits(days[day]) and fits(days[day - 1])


def _date(day: int) -> str:
    return f"2026-03-{1 + day:02}"


RULES = {"between": _on, "appeared": _came, "vanished": _went}


@pytest.mark.parametrize("words", QUESTIONS)
def test_on_a_day_exactly_the_pages_answer_that_had_the_words_as_it_ended(words: str) -> None:
    for day in range(DAYS):
        wanted = {position for position, days in WEB.items() if QUESTIONS[words](days[day])}
        assert 2 < len(wanted) < SHOWN_MAX, "or the question shows nothing"
        found = asked(INDEX, f"{words} on:{_date(day)}")
        assert {*positions(found)} == wanted
        assert (found.pages, found.versions, found.is_whole) == (len(wanted), len(wanted), True)


@pytest.mark.parametrize("dating", RULES)
@pytest.mark.parametrize("words", QUESTIONS)
def test_in_some_days_exactly_the_pages_answer_whose_texts_say_so(words: str, dating: str) -> None:
    rule = RULES[dating]
    for first, last in ((0, 0), (2, 2), (0, 3), (4, 6), (9, 9), (0, 9)):
        # The text of the day before was there until the visit in the morning.
        span = range(max(first - (dating == "between"), 0), last + 1)
        wanted = {
            position
            for position, days in WEB.items()
            if any(rule(days, day, QUESTIONS[words]) for day in span)
        }
        found = asked(INDEX, f"{words} {dating}:{_date(first)}..{_date(last)}")
        assert found.pages == len(wanted)
        assert {*positions(found)} == wanted or found.pages > SHOWN_MAX


def test_what_has_not_ended_has_not_vanished() -> None:
    index = indexed([page(1, BEGIN_S, body="ferry"), page(2, BEGIN_S, BEGIN_S + DAY_S, body="ferry")])
    assert positions(asked(index, "ferry vanished:2026..")) == [2]


def test_without_a_date_an_address_is_found_once() -> None:
    index = indexed(
        [
            page(1, BEGIN_S, BEGIN_S + DAY_S, body="ferry bell"),
            page(1, BEGIN_S + DAY_S, BEGIN_S + 2 * DAY_S, body="bell"),
            page(1, BEGIN_S + 2 * DAY_S, body="ferry"),
            page(2, BEGIN_S, body="ferry boat"),
        ]
    )
    found = asked(index, "ferry")
    assert (found.pages, found.versions, found.documents) == (2, 3, 4)
    told = {hit.position: (hit.first_s, hit.versions, hit.is_open) for hit in found.hits}
    assert told == {1: (BEGIN_S + 2 * DAY_S, 2, True), 2: (BEGIN_S, 1, True)}
    oldest = {hit.position: hit.first_s for hit in asked(index, "ferry order:oldest").hits}
    assert oldest == {1: BEGIN_S, 2: BEGIN_S}
    assert positions(asked(index, "ferry order:versions")) == [1, 2]


def test_the_order_is_the_one_that_was_asked_for() -> None:
    index = indexed(page(place, BEGIN_S + place * DAY_S, body="ferry") for place in (3, 1, 2))
    assert positions(asked(index, "ferry order:newest")) == [3, 2, 1]
    assert positions(asked(index, "ferry order:oldest")) == [1, 2, 3]


def test_a_word_in_a_title_or_a_rare_word_comes_first() -> None:
    index = indexed(
        [
            page(1, BEGIN_S, body="a bell and much more besides"),
            page(2, BEGIN_S, title="The bell", body="it rang and much more besides"),
            page(3, BEGIN_S, rest="bell", body="something else and much more besides"),
            page(4, BEGIN_S, body="quartz bell and much more besides"),
            *(page(place, BEGIN_S, body="bell and more") for place in range(10, 40)),
        ]
    )
    assert positions(asked(index, "bell"))[0] == 2
    assert positions(asked(index, "bell"))[-1] == 3
    assert positions(asked(index, "bell OR quartz"))[0] == 4


FORMS = {
    "ferries": {1, 2}, '"ferries"': {2}, "läuten": {3}, "lauten": {3}, "FERRY": {1, 2}, "full-text": {4},
    '"text full"': {5}, "full text": {4, 5}, "首都": {6}, "都首": set(), "东京": {7}, "title:bell": {8},
    "inurl:news": {9}, "inurl:news/harbour": {9}, "type:pdf": {10}, "lang:de": {3}, "site:example.org": {*range(1, 11)},
    "site:b.example.org": {10}, "site:xample.org": set(), "linksto:salt.example": {1}, "status:404": {11},
    "ferry lang:en": {1, 2}, "läutet lang:de": {3}, "läutet lang:en": set(), "ferry -type:html": set(),
    "site:example.org -type:html": {10}, '"ferry bell"': {1},
}  # fmt: skip
FORMS_INDEX = indexed(
    [
        page(1, BEGIN_S, body="the ferry bell", linksto=["salt.example", "example"]),
        page(2, BEGIN_S, body="two ferries"),
        page(3, BEGIN_S, body="Die Glocken läuten", lang="de"),
        page(4, BEGIN_S, body="a full text"),
        page(5, BEGIN_S, body="the text full of words"),
        page(6, BEGIN_S, body="日本の首都"),
        page(7, BEGIN_S, body="iPhone在东京"),
        page(8, BEGIN_S, title="Bell", body="nothing"),
        page(9, BEGIN_S, urlwords="news 2026 harbour", body="nothing"),
        page(10, BEGIN_S, host="b.example.org", type="application/pdf", body="nothing"),
        page(11, BEGIN_S, host="else.test", status=404),
    ]
)


@pytest.mark.parametrize("text", FORMS)
def test_a_word_is_found_in_its_forms_and_a_quoted_one_as_written(text: str) -> None:
    assert {*positions(asked(FORMS_INDEX, text))} == FORMS[text]


def test_facets_agree_with_the_list() -> None:
    index = indexed(
        [
            page(1, BEGIN_S, BEGIN_S + DAY_S, body="ferry bell"),
            page(1, BEGIN_S + DAY_S, body="ferry boat"),
            page(2, parse_date("2024-05-01T00:00:00Z"), parse_date("2025-01-01T00:00:00Z"), body="ferry"),
            page(3, parse_date("2025-05-01T00:00:00Z"), body="ferry", host="b.example", lang="de"),
        ]
    )
    assert asked(index, "ferry").facets == {
        "host": (("a.example.org", 2), ("b.example", 1)),
        "type": (("text/html", 3),),
        "lang": (("en", 2), ("de", 1)),
        "year": (("2026", 2), ("2025", 1), ("2024", 1)),
    }
    for year, count in asked(index, "ferry").facets["year"]:
        assert asked(index, f"ferry between:{year}").pages == count
    appeared = asked(index, "ferry appeared:2026")
    assert (appeared.pages, appeared.versions) == (1, 1)
    assert appeared.facets["host"] == (("a.example.org", 1),)
    assert "year" not in appeared.facets


def test_pages_of_an_answer_follow_one_another_without_gap_or_repetition() -> None:
    index = indexed(page(place, BEGIN_S, body="ferry " * (1 + place % 3)) for place in range(25))
    question = parse("ferry", NOW_S)
    found: list[int] = []
    after = None
    while True:
        part = answer(index, question, now_s=NOW_S, limit=10, after=after)
        found += positions(part)
        assert part.pages == 25
        if not part.has_more:
            break
        after = part.hits[-1].place
    assert found == positions(answer(index, question, now_s=NOW_S, limit=100))
    assert sorted(found) == list(range(25))


@given(st.lists(st.integers(0, 2**64 - 1), max_size=6, unique=True))
@settings(max_examples=40, deadline=None)
def test_each_document_lies_on_exactly_one_of_the_arcs(ends: list[int]) -> None:
    ends = sorted({0, *ends, 2**64 - 1}) if len(ends) % 2 else sorted(ends) or [5]
    arcs = [Arc(before, last) for before, last in zip(ends, [*ends[1:], ends[0]], strict=True)]
    question = parse("ferry", NOW_S)
    found = [
        position
        for arc in arcs
        for position in positions(answer(ARCS, question, now_s=NOW_S, limit=100, arcs=[arc]))
    ]
    assert sorted(found) == ARC_POSITIONS
    together = answer(ARCS, question, now_s=NOW_S, limit=100, arcs=arcs)
    assert sorted(positions(together)) == ARC_POSITIONS


ARC_POSITIONS = sorted({0, 1, 2**64 - 1, 2**63, *(random.Random(3).getrandbits(64) for _ in range(60))})
ARCS = indexed(page(position, BEGIN_S, body="ferry") for position in ARC_POSITIONS)


def test_given_weights_stand_for_those_of_this_index() -> None:
    """Here the bell is as rare as the ferry; in the ring it is rarer."""
    index = indexed([page(1, BEGIN_S, body="ferry salt"), page(2, BEGIN_S, body="bell salt")])
    question = parse("ferry OR bell", NOW_S)
    for rare, wanted in (("bell", [2, 1]), ("ferry", [1, 2])):
        weights = {word: Weight(9.0, 9.0) if word == rare else Weight(1.0, 1.0) for word in ("ferry", "bell")}
        assert positions(answer(index, question, now_s=NOW_S, weights=weights)) == wanted


def test_a_word_that_is_on_no_page_has_a_suggestion() -> None:
    index = indexed(page(place, BEGIN_S, body="ferry ferry harbour bell") for place in range(3))
    assert asked(index, "fery bell").likelier == {"fery": "ferry"}
    assert asked(index, "efrry").likelier == {"efrry": "ferry"}
    assert asked(index, "habrour").likelier == {"habrour": "harbour"}
    assert asked(index, "quartz").likelier == {}
    assert asked(index, "ferry").likelier == {}
    assert asked(index, "xy 都").likelier == {}


def test_sets_that_are_too_large_are_not_subtracted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("herodotus.search.asking.SET_ROWS_MAX", 2)
    index = indexed(page(place, BEGIN_S, body="ferry") for place in range(3))
    with pytest.raises(QuestionError, match="more than 2 versions to compare; name fewer days"):
        asked(index, "ferry appeared:2026")


def test_of_more_than_is_gathered_the_best_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("herodotus.search.asking.GATHERED_MAX", 2)
    index = indexed(page(place, BEGIN_S + place, body="ferry") for place in range(5))
    found = asked(index, "ferry order:newest")
    assert (positions(found), found.pages, found.versions, found.is_whole) == ([4, 3], 2, 5, False)
    assert found.facets["year"] == (("2026", 5),)


def test_a_word_that_no_index_holds_is_refused() -> None:
    with pytest.raises(QuestionError, match="is no word that an index holds"):
        asked(FORMS_INDEX, "ä" * 40)
