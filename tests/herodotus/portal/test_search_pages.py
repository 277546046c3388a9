"""What does a reader get who asks in words, by each of the ways in?"""

import csv
import io
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from herodotus.core.errors import SearchRestsError
from herodotus.core.search.answers import After, Results, RingPart
from herodotus.core.search.questions import Question
from herodotus.portal.word_search import DEPTH_MAX, Look, WordSearch
from herodotus.store import Catalogue
from tests.herodotus.portal.library import HOME, ORIGIN, SITE, response
from tests.herodotus.portal.rooms import Room

EVIL = "\u202eferry <script>alert(1)</script> \x07"


def page(title: str, body: str, language: str = "en") -> bytes:
    return f"<html lang={language}><title>{title}</title><article><p>{body}</p></article>".encode()


def deposits() -> list[Any]:
    return [
        response(HOME, "20260101", page("Saltby", "The ferry bell of Saltby rings every morning at nine.")),
        response(HOME, "20260201", page("Saltby", "The ferry has lost its bell, and nobody knows where it went.")),
        response(f"{SITE}/news", "20260115", page("News", "Where is the bell? The harbour master does not know.")),
        response("https://b.example/", "20250601", page("Boats", "A ferry, two boats and a harbour.")),
        response(f"{SITE}/evil", "20260301", page(EVIL.replace("<", "&lt;"), f"quartz {EVIL.replace('<', '&lt;')}")),
        *(response(f"{SITE}/many/{n}", "20260101", page(f"Many {n}", f"granite stone {'x' * n}")) for n in range(25)),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def room() -> Room:
    return Room(*deposits())


def body(room: Room, target: str, **headers: str) -> str:
    answer = room.ask(target, headers)
    assert answer.status == 200, (answer.status, answer.body[:300])
    return answer.body.decode()


def found(room: Room, target: str) -> dict[str, Any]:
    told = json.loads(body(room, target))
    assert isinstance(told, dict)
    return told


def links(text: str, words: str) -> list[str]:
    return [
        unescape(one) for one in re.findall(r'<a href="([^"]*)"[^>]*>(?:<bdi>)?' + re.escape(words), text)
    ]


def test_words_in_the_box_are_searched_and_an_address_goes_to_its_history(room: Room) -> None:
    assert "<mark>ferry</mark>" in body(room, "/search?q=ferry")
    assert room.location("/search?q=example.org") == "/search?url=example.org"
    assert (
        room.location("/search?q=https%3A%2F%2Fexample.org%2Fa+b")
        == "/search?url=https%3A%2F%2Fexample.org%2Fa%20b"
    )
    assert room.location("/search?q=") == "/"
    assert room.location("/search?url=example.org") == f"/web/*/{HOME}"


def test_a_hit_tells_title_address_lines_and_days_and_opens_the_page_as_it_was(room: Room) -> None:
    text = body(room, "/search?q=lost+bell")
    assert links(text, "Saltby") == [f"/web/20260201000000/{HOME}"]
    assert f"<bdi>{HOME}</bdi>" in text
    assert "The ferry has <mark>lost</mark> its <mark>bell</mark>" in text
    assert "Since <time>2026-02-01</time>. " in text
    assert f'<a href="/web/*/{HOME}">Its history</a>' in text
    assert "1 page. This peer alone was asked: it knows the words of 30 versions." in text


def test_as_of_a_day_the_page_is_opened_as_that_day_ended(room: Room) -> None:
    for target in ("/search?q=rings+on:2026-01-10", "/search?q=rings&on=2026-01-10"):
        text = body(room, target)
        assert links(text, "Saltby") == [f"/web/20260110235959/{HOME}"]
        assert "From <time>2026-01-01</time> to <time>2026-02-01</time>. " in text
    assert 'value="2026-01-10"' in body(room, "/search?q=rings&on=2026-01-10")
    assert "No page has all of this" in body(room, "/search?q=rings&on=2026-02-10")


def test_the_reader_narrows_by_links_that_carry_the_question(room: Room) -> None:
    text = body(room, "/search?q=ferry")
    (narrowed,) = links(text, "b.example")
    assert narrowed == "/search?q=ferry%20site%3Ab.example"
    assert "<h1>Pages with <q>ferry site:b.example</q></h1>" in body(room, narrowed)
    assert links(body(room, narrowed), "Saltby") == []
    (year,) = links(text, "2025")
    assert links(body(room, year), "Boats") != []
    assert links(body(room, "/search?q=ferry&order=oldest"), "b.example") == [
        "/search?q=ferry%20site%3Ab.example&order=oldest"
    ]


def test_the_form_keeps_what_was_asked_for(room: Room) -> None:
    text = body(room, "/search?q=%22ferry+bell%22&order=newest&on=2026-01-05")
    assert 'value="&quot;ferry bell&quot;"' in text
    assert '<option value="newest" selected>' in text
    assert links(body(room, "/search?q=ferry&order=newest"), "Saltby") == [f"/web/20260201000000/{HOME}"]


def test_pages_of_results_follow_one_another(room: Room) -> None:
    target, seen, text = "/search?q=granite", [], ""
    while target:
        text = body(room, target)
        seen += re.findall(r"<bdi>(\S+/many/\d+)</bdi>", text)
        assert "25 pages." in text
        following = links(text, "More")
        target = "".join(following)
        assert len(target) < 300
    assert sorted(seen) == sorted(f"{SITE}/many/{n}" for n in range(25))
    assert links(text, "The first pages") == ["/search?q=granite"]


def test_a_token_is_of_one_question_and_of_this_peer(room: Room) -> None:
    token = found(room, "/api/v1/search?q=granite")["next"]
    assert len(token) <= 300
    for target in (
        f"/api/v1/search?q=granite+stone&after={token}",
        f"/api/v1/search?q=granite&after={token[:-4]}AAAA",
        f"/api/v1/search?q=granite&after=B{token[1:]}",
        "/api/v1/search?q=granite&after=x",
        f"/search?q=granite&after={token}x",
    ):
        answer = room.ask(target)
        assert answer.status == 400, target
        assert b"this archive did not give this token" in answer.body


def test_nobody_leafs_deeper_than_the_bound(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    assert DEPTH_MAX == 1_000
    monkeypatch.setattr("herodotus.portal.word_search.DEPTH_MAX", 15)
    first = found(room, "/api/v1/search?q=granite")
    second = found(room, f"/api/v1/search?q=granite&after={first['next']}")
    assert (len(first["hits"]), len(second["hits"]), second["next"]) == (10, 5, None)


def test_nothing_found_tells_what_may_have_been_meant(room: Room) -> None:
    text = body(room, "/search?q=grannite+stone")
    assert links(text, "granite stone") == ["/search?q=granite%20stone"]
    assert "No page has all of this." in text


def test_what_is_not_understood_is_told_beside_the_question(room: Room) -> None:
    answer = room.ask("/search?q=ferry+colour:red")
    text = answer.body.decode()
    assert answer.status == 400
    assert "colour:red names no field: there are site, type" in text
    assert 'value="ferry colour:red"' in text
    told = json.loads(room.ask("/api/v1/search?q=ferr*").body)
    assert told["detail"].startswith("ferr* has a `*`, and parts of words cannot be looked for")
    assert room.ask("/search.json?q=on:2026").status == 400
    assert room.ask("/search?q=" + "a+OR+" * 4_000).status == 400


def test_what_a_page_says_of_itself_cannot_hurt_its_reader(room: Room) -> None:
    text = body(room, "/search?q=quartz")
    assert "<script>" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "\u202e" not in text
    assert "\x07" not in text
    hostile = room.ask("/search?q=%22%3E%3Cscript%3E+%E2%80%AE")
    assert b"<script>" not in hostile.body
    assert room.ask("/search?q=quartz").headers["Content-Security-Policy"].startswith("default-src 'none'")


def test_programs_get_json_by_suffix_and_by_accept(room: Room) -> None:
    asked = found(room, "/search.json?q=lost")
    assert asked == json.loads(body(room, "/search?q=lost", accept="application/json"))
    assert asked == found(room, "/api/v1/search?q=lost")
    (hit,) = asked["hits"]
    assert hit == {
        "url": HOME,
        "title": "Saltby",
        "snippet": "The ferry has lost its bell, and nobody knows where it went.",
        "marked": ["lost"],
        "first": "2026-02-01T00:00:00Z",
        "until": None,
        "memento": f"{ORIGIN}/web/20260201000000/{HOME}",
        "history": f"{ORIGIN}/web/*/{HOME}",
        "status": 200,
        "type": "text/html",
        "language": "en",
        "digest": hit["digest"],
        "versions": 1,
        "alike": [],
    }
    assert hit["digest"].startswith("sha1:")
    assert (asked["pages"], asked["versions"], asked["documents"], asked["is_whole"]) == (1, 1, 30, True)
    assert asked["facets"]["host"] == {"example.org": 1}


def test_a_feed_can_be_followed(room: Room) -> None:
    answer = room.ask("/search.atom?q=ferry+OR+quartz")
    assert answer.content_type == "application/atom+xml; charset=utf-8"
    feed = ET.fromstring(answer.body)
    space = {"a": "http://www.w3.org/2005/Atom"}
    entries = feed.findall("a:entry", space)
    assert len(entries) == 3
    told = {entry.findtext("a:id", "", space): entry.find("a:link", space) for entry in entries}
    link = told[f"{ORIGIN}/web/*/{HOME}"]
    assert link is not None
    assert link.get("href") == f"{ORIGIN}/web/20260201000000/{HOME}"
    assert feed.findtext("a:updated", "", space) == "2026-03-01T00:00:00Z"
    (offered,) = re.findall(r'application/atom\+xml" href="([^"]*)"', body(room, "/search?q=ferry+OR+quartz"))
    assert room.ask(unescape(offered)).status == 200


def test_browsers_are_offered_to_search_here(room: Room) -> None:
    assert 'type="application/opensearchdescription+xml" href="/opensearch.xml"' in body(room, "/")
    answer = room.ask("/opensearch.xml")
    assert answer.content_type == "application/opensearchdescription+xml; charset=utf-8"
    description = ET.fromstring(answer.body)
    urls = description.findall("{http://a9.com/-/spec/opensearch/1.1/}Url")
    assert [one.get("template") for one in urls] == [
        f"{ORIGIN}/search{form}?q={{searchTerms}}" for form in ("", ".json", ".atom")
    ]


def test_results_are_taken_along_as_a_table_and_as_lines_of_an_index(room: Room) -> None:
    answer = room.ask("/api/v1/search/list?q=ferry+-quartz+order:oldest")
    rows = list(csv.DictReader(io.StringIO(answer.body.decode())))
    assert [row["url"] for row in rows] == ["https://b.example/", HOME]
    assert rows[0]["memento"] == f"{ORIGIN}/web/20250601000000/https://b.example/"
    lines = body(room, "/api/v1/search/list?q=ferry+-quartz+order:oldest&form=cdxj").splitlines()
    assert [line.split(" ", 2)[:2] for line in lines] == [
        ["example,b)/", "20250601000000"],
        ["org,example)/", "20260101000000"],
    ]
    assert json.loads(lines[1].split(" ", 2)[2])["url"] == HOME
    first = room.ask("/api/v1/search/list?q=granite&limit=20")
    (following,) = re.findall(r'<([^>]*)>; rel="next"', first.headers["Link"])
    second = room.ask(following)
    assert len(first.body.splitlines()) + len(second.body.splitlines()) == 25 + 2


def test_a_cell_of_the_table_is_no_formula() -> None:
    room = Room(response(HOME, "2026", page("=HYPERLINK(1)", "granite")))
    (row,) = csv.DictReader(io.StringIO(body(room, "/api/v1/search/list?q=granite")))
    assert row["title"] == "'=HYPERLINK(1)"


def test_a_reader_from_elsewhere_is_rationed(room: Room) -> None:
    room.client = "198.51.100.7"
    try:
        assert room.ask("/search?q=granite").status == 200
        assert any(room.ask("/search?q=granite").status == 429 for _ in range(400))
    finally:
        room.client = "127.0.0.1"


def test_an_index_that_rests_is_told() -> None:
    room = Room(response(HOME, "2026", page("Saltby", "granite")))

    def rests(catalogue: Catalogue, question: Question, limit: int, after: object) -> Any:
        raise SearchRestsError("this peer is making its index of words; try again in an hour")

    _look_with(room, rests)
    answer = room.ask("/search?q=granite")
    assert answer.status == 503
    assert b"making its index of words" in answer.body
    assert room.ask("/api/v1/search?q=granite").status == 503


def test_an_index_that_is_not_filled_yet_says_so() -> None:
    room = Room(response(HOME, "2026", page("Saltby", "granite")))

    def fills(catalogue: Catalogue, question: Question, limit: int, after: Any) -> Results:
        return replace(room.look(catalogue, question, limit, after), is_filled=False)

    assert "not read all" not in body(room, "/search?q=granite")
    _look_with(room, fills)
    assert "1 version, and has not read all that it holds yet." in body(room, "/search?q=granite")
    assert found(room, "/search.json?q=granite")["is_filled"] is False


class SmallRing:
    """Others that answer with what this peer has."""

    others = 7

    def __init__(self, room: Room, part: RingPart) -> None:
        self._room, self._part = room, part
        self.asked: list[int] = []

    async def ask(self, question: Question, *, limit: int, after: After | None, section: int = 0) -> Results:
        self.asked.append(section)
        found = self._room.look(self._room.catalogue, question, limit, after)
        return replace(found, ring=replace(self._part, section=section))


@pytest.fixture
def beside(room: Room) -> Iterator[SmallRing]:
    ring = SmallRing(room, RingPart(share=0.978, peers=3, has_more=True))
    _set(room, "ring", ring)
    yield ring
    _set(room, "ring", None)


def test_the_reader_is_told_what_part_of_the_ring_answered(room: Room, beside: SmallRing) -> None:
    text = body(room, "/search?q=granite")
    assert "97 % of the ring answered (3 peers)." in text
    assert links(text, "Ask more peers") == ["/search?q=granite&section=1"]
    assert links(text, "Ask this peer alone") == ["/search?q=granite&here=1"]
    body(room, "/search?q=granite&section=1")
    body(room, "/search?q=granite&section=no")
    assert beside.asked == [0, 1, 0]


def test_a_question_stays_here_where_the_reader_says_so(room: Room, beside: SmallRing) -> None:
    text = body(room, "/search?q=granite&here=1")
    assert "This peer alone was asked" in text
    assert links(text, "Ask all peers") == ["/search?q=granite"]
    assert found(room, "/api/v1/search?q=granite&here=true")["ring"] is None
    assert beside.asked == []


def test_programs_are_told_what_part_of_the_ring_answered(room: Room, beside: SmallRing) -> None:
    told = found(room, "/search.json?q=granite")["ring"]
    assert told == {"share": 0.978, "peers": 3, "section": 0, "has_more": True}


def test_the_next_page_asks_where_the_first_was_asked(room: Room, beside: SmallRing) -> None:
    first = found(room, "/api/v1/search?q=granite&limit=1&section=2")
    found(room, f"/api/v1/search?q=granite&limit=1&after={first['next']}")
    assert beside.asked == [2, 2]
    alone = found(room, "/api/v1/search?q=granite&limit=1&here=true")
    assert found(room, f"/api/v1/search?q=granite&limit=1&after={alone['next']}")["ring"] is None
    assert beside.asked == [2, 2]


def _look_with(room: Room, look: Look) -> None:
    _set(room, "look", look)


def _set(room: Room, name: str, value: object) -> None:
    for part in room.rooms.all:
        words = getattr(part, "words", None)
        if isinstance(words, WordSearch):
            object.__setattr__(words, name, value)
