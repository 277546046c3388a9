"""Is what all peers have one list, whole by its parts, and marked where somebody did not answer?"""

import json
from collections.abc import Callable
from http import HTTPStatus
from random import Random
from urllib.parse import quote

import pytest

from herodotus.core.index_rows import address_key
from herodotus.core.warc import parse_digits
from herodotus.portal import ring_questions
from herodotus.portal.answer import Answer, Request
from herodotus.portal.cdx import encode_resume_key, parse_question
from herodotus.portal.other_holders import RELAYED, PortalAddress
from herodotus.portal.peer_rows import read_share
from tests.herodotus.portal.library import HOME, SITE, Library, response
from tests.herodotus.portal.rooms import Ring, Room

ORIGINS = [f"http://192.0.2.{number}:5484" for number in range(10, 14)]


def ring_of(chance: Random, pages: int = 40, copies: int = 2) -> tuple[Ring, list[str]]:
    """Captures on some peers each; the list is what one archive with all of them answers."""
    deposits = [
        response(
            f"{SITE}/{chance.randrange(pages)}",
            f"2026{1 + number // 20:02}{1 + number % 20:02}",
            b"%d" % number,
        )
        for number in range(pages * 2)
    ]
    ring, shares = Ring(), {origin: list(deposits[:0]) for origin in ORIGINS}
    for deposit in deposits:
        for origin in chance.sample(ORIGINS, copies):
            shares[origin].append(deposit)
    for origin in ORIGINS:
        Room(*shares[origin], ring=ring, origin=origin)
    everything = Library(*deposits).get(f"/cdx/search/cdx?url={SITE}/*&fl=original,timestamp,digest")
    return ring, everything.body.decode().splitlines()


def first(ring: Ring) -> Room:
    return ring.rooms[ORIGINS[0]]


def all_parts(room: Room, question: str) -> list[str]:
    lines: list[str] = []
    key = ""
    for _ in range(200):
        answer = room.ask(f"/cdx/search/cdx?{question}&showResumeKey=true{key}")
        assert answer.status == 200, answer.body
        head, _, resume = answer.body.decode().partition("\n\n")
        lines += head.splitlines() if head.strip() else []
        if not resume:
            return lines
        key = f"&resumeKey={quote(resume.strip())}"
    raise AssertionError("the parts do not end")


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("limit", [7, 1000])
def test_parts_of_all_peers_together_are_the_list_of_one_archive(seed: int, limit: int) -> None:
    ring, whole = ring_of(Random(seed))
    question = f"url={SITE}/*&fl=original,timestamp,digest&limit={limit}"
    assert all_parts(first(ring), question) == whole


@pytest.mark.parametrize("seed", range(3))
def test_peers_that_stop_early_leave_no_gap(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ring, whole = ring_of(Random(seed))
    monkeypatch.setattr("herodotus.portal.ring_lists.ROWS_OF_PEER_MIN", 3)
    monkeypatch.setattr("herodotus.portal.ring_lists.ROWS_MAX", 12)
    monkeypatch.setattr("herodotus.portal.archive_questions.ADDRESSES_MAX", 5)
    assert all_parts(first(ring), f"url={SITE}/*&fl=original,timestamp,digest") == whole


def test_contents_of_one_second_are_not_given_twice() -> None:
    ring = Ring()
    for number, origin in enumerate(ORIGINS):
        Room(
            *(response(f"{SITE}/{n}", "20260101", b"%d" % number) for n in range(6)), ring=ring, origin=origin
        )
    found = all_parts(first(ring), f"url={SITE}/*&fl=original,digest&limit=5")
    assert len(found) == len(set(found)) == 24


def test_collapsing_and_counting_happen_over_all_peers() -> None:
    ring, whole = ring_of(Random(5))
    urls = [line.split()[0] for line in whole]
    collapsed = first(ring).ask(f"/cdx/search/cdx?url={SITE}/*&fl=original&collapse=urlkey")
    assert collapsed.body.decode().split() == list(dict.fromkeys(urls))
    last = first(ring).ask(f"/cdx/search/cdx?url={SITE}/*&fl=original,timestamp,digest&limit=-3")
    assert last.body.decode().splitlines() == whole[-3:]
    skipped = first(ring).ask(f"/cdx/search/cdx?url={SITE}/*&fl=original,timestamp,digest&offset=5&limit=4")
    assert skipped.body.decode().splitlines() == whole[5:9]


def test_pages_are_those_of_the_peer_with_most_and_hold_everything() -> None:
    ring, whole = ring_of(Random(6))
    room = first(ring)
    count = int(room.ask(f"/cdx/search/cdx?url={SITE}/*&showNumPages=true").body)
    found = [
        line
        for page in range(count)
        for line in room.ask(
            f"/cdx/search/cdx?url={SITE}/*&fl=original,timestamp,digest&page={page}"
        ).body.decode().splitlines()
    ]  # fmt: skip
    assert sorted(found) == sorted(whole)


def test_a_listing_has_the_addresses_of_all_peers() -> None:
    ring, whole = ring_of(Random(7))
    urls = {line.split()[0] for line in whole}
    answer = first(ring).ask(f"/web/*/{SITE}/*", {"accept": "application/json"})
    facts = json.loads(answer.body)
    assert set(facts["urls"]) == urls
    assert (facts["is_whole"], facts["is_partial"]) == (True, False)
    page = first(ring).ask(f"/web/*/{SITE}/*", {"accept": "text/html"})
    assert all(f"/web/*/{url}".encode() in page.body for url in urls)


def test_who_does_not_answer_is_counted_and_the_answer_marked() -> None:
    ring, _ = ring_of(Random(8))
    answer = first(ring).ask(f"/cdx/search/cdx?url={SITE}/*")
    assert answer.headers["X-Herodotus-Peers"] == "4 of 4"
    assert "X-Herodotus-Partial" not in answer.headers
    ring.stale.append("http://192.0.2.99:5484")
    for target in (f"/cdx/search/cdx?url={SITE}/*", f"/web/*/{SITE}/*"):
        answer = first(ring).ask(target)
        assert (answer.status, answer.headers["X-Herodotus-Peers"]) == (200, "4 of 5")
        assert answer.headers["X-Herodotus-Partial"] == "true"


def test_a_question_goes_to_each_peer_once_however_stale_their_views_are() -> None:
    ring, _ = ring_of(Random(9))
    for room_origin in ORIGINS:
        ring.stale.append(room_origin)  # everybody is named twice, and names everybody
    first(ring).ask(f"/cdx/search/cdx?url={SITE}/*")
    assert all(request.header(RELAYED) for _, request in ring.questions)
    assert len(ring.questions) <= 2 * len(ORIGINS)


def test_no_more_peers_are_asked_than_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring_questions, "PEERS_ASKED_MAX", 2)
    ring, _ = ring_of(Random(10))
    answer = first(ring).ask(f"/cdx/search/cdx?url={SITE}/*")
    assert len(ring.questions) == 2
    assert answer.headers["X-Herodotus-Peers"] == "3 of 4"
    assert answer.headers["X-Herodotus-Partial"] == "true"


EVERYTHING = parse_question([("url", f"{SITE}/*")])
ROW = ["org,example)/", "20260101000000", HOME, "text/html", "200", "A" * 32, "10"]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda row: [*row, "more"],
        lambda row: row[:-1],
        lambda row: [*row[:2], f"{HOME}\nx y z", *row[3:]],
        lambda row: [*row[:2], "", *row[3:]],
        lambda row: [row[0], "tomorrow", *row[2:]],
        lambda row: [*row[:-1], 10],
        lambda row: "row",
        lambda row: None,
    ],
)  # fmt: skip
def test_rows_that_make_no_sense_are_left_out(spoil: Callable[[list[str]], object]) -> None:
    body = json.dumps([["head"], ROW, spoil(ROW)]).encode()
    share = read_share(Answer(content_type="application/json", body=body), EVERYTHING)
    assert share is not None
    assert [list(row.values()) for _, row in share.rows.values()] == [ROW]


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", b"{}", b"[[", b'"', b"[" * 100_000, b'[["head"], [], ["x"]]', b"[[], [], [7]]", b"\xff"],
)
def test_what_is_no_list_counts_as_no_answer_and_breaks_nothing(body: bytes) -> None:
    ring, whole = ring_of(Random(11))
    fetch = ring.fetch

    async def spoilt(place: PortalAddress, request: Request) -> Answer | None:
        if place.origin == ORIGINS[1]:
            return Answer(content_type="application/json", body=body)
        return await fetch(place, request)

    ring.fetch = spoilt  # type: ignore[method-assign]  # one peer is not what it seems
    answer = first(ring).ask(f"/cdx/search/cdx?url={SITE}/*&fl=original,timestamp,digest")
    assert answer.status == 200
    assert set(answer.body.decode().splitlines()) <= set(whole)
    assert first(ring).ask(f"/web/*/{SITE}/*").status == 200
    assert first(ring).ask(f"/api/v1/inlinks?url={HOME}&scope=ring").status == 200


def test_a_peer_that_stops_where_it_began_does_not_hold_everybody_there() -> None:
    ring, _ = ring_of(Random(12))
    begun = parse_question([("url", f"{SITE}/*"), ("resumeKey", "")])
    assert begun.ranges
    answer = first(ring).ask(f"/cdx/search/cdx?url={SITE}/*&limit=1&showResumeKey=true")
    key = answer.body.decode().strip().splitlines()[-1]
    body = json.dumps([["head"], [], [key]]).encode()
    question = parse_question([("url", f"{SITE}/*"), ("resumeKey", key)])
    assert read_share(Answer(content_type="application/json", body=body), question) is None


def test_links_to_a_page_come_from_all_peers() -> None:
    ring = Ring()
    sources = [f"{SITE}/{number}" for number in range(12)]
    for number, origin in enumerate(ORIGINS):
        own = [*sources[number * 3 : number * 3 + 3], sources[0]]
        Room(*(response(url, f"202601{1 + number:02}", b'<a href="/to">x') for url in dict.fromkeys(own)),
             ring=ring, origin=origin)  # fmt: skip
    found: list[dict[str, str]] = []
    key = ""
    for _ in range(50):
        facts = json.loads(first(ring).ask(f"/api/v1/inlinks?url={SITE}/to&scope=ring&limit=2{key}").body)
        found += facts["links"]
        assert facts["is_partial"] is False
        if facts["next"] is None:
            break
        key = f"&after={facts['next']}"
    assert sorted(one["url"] for one in found) == sorted(sources)
    (everywhere,) = [one for one in found if one["url"] == sources[0]]
    assert everywhere["last_seen"] == "2026-01-04T00:00:00Z"


def test_completeness_asks_the_holders_of_what_is_not_here() -> None:
    ring = Ring()
    ring.holders_of = lambda url: ORIGINS[1:] if url.endswith("/there.png") else ORIGINS[2:]
    page = b'<img src="/here.png"><img src="/there.png"><img src="/nowhere.png">'
    here = Room(
        response(HOME, "20260105", page),
        response(f"{SITE}/here.png", "20260105", b"1", "image/png"),
        ring=ring, origin=ORIGINS[0],
    )  # fmt: skip
    Room(response(f"{SITE}/there.png", "20260104", b"2", "image/png"), ring=ring, origin=ORIGINS[1])
    Room(ring=ring, origin=ORIGINS[2])
    facts = json.loads(here.ask(f"/api/v1/completeness?url={HOME}").body)
    assert [(one["state"], one["is_here"]) for one in facts["parts"]] == [
        ("coherent", True), ("older", False), ("missing", False),
    ]  # fmt: skip
    assert facts["score"] == 0.5


def test_exact_questions_of_all_kinds_are_answered_from_what_others_have() -> None:
    ring = Ring()
    ring.holders_of = lambda url: ORIGINS[1:3]
    here = Room(ring=ring, origin=ORIGINS[0])
    there = [
        Room(response(HOME, "20260105", b'<a href="/to">x'), ring=ring, origin=origin)
        for origin in ORIGINS[1:3]
    ]
    for target in (
        f"/cdx/search/cdx?url={HOME}",
        f"/wayback/available?url={HOME}",
        f"/api/v1/captures?url={HOME}",
        f"/api/v1/records?url={HOME}",
        f"/api/v1/records/warc?url={HOME}&date=20260105",
        f"/api/v1/nearest?url={HOME}&date=20260106",
        f"/api/v1/completeness?url={HOME}",
        f"/api/v1/outlinks?url={HOME}",
    ):
        answer, own = here.ask(target), there[0].ask(target)
        assert (answer.status, answer.body) == (HTTPStatus.OK, own.body), target
        assert answer.headers["X-Herodotus-Confirmed"] == "true"
        assert here.ask(target, {RELAYED: "1"}).status in (200, 404)


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_many_contents_of_one_second_make_nobody_a_liar(limit: int) -> None:
    ring = Ring()
    deposits = [response(HOME, "20260101", b"%d" % number) for number in range(9)]
    for origin in ORIGINS[:2]:
        Room(*deposits, response(f"{SITE}/z", "20260101", b"z"), ring=ring, origin=origin)
    first_part = first(ring).ask(f"/cdx/search/cdx?url={SITE}/*&fl=digest&limit={limit}")
    assert first_part.status == 200
    found = all_parts(first(ring), f"url={SITE}/*&fl=original,digest&limit={limit}")
    assert len(set(found)) == 10
    assert first(ring).rooms.disbelieved == 0


ESCAPED = ["?q=ab", "?q={x}", "?q={y}", "?q=`|^", "a", "b", "b{", "c"]


@pytest.mark.parametrize("limit", [1, 2, 3, 50])
def test_parts_end_and_are_whole_where_addresses_are_escaped_to_be_told(
    limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("herodotus.portal.ring_lists.ROWS_ASKED_MIN", 2)
    ring = Ring()
    deposits = [response(f"{SITE}/{name}", "20260101", b"the same") for name in ESCAPED]
    for origin in ORIGINS[:2]:
        Room(*deposits, ring=ring, origin=origin)
    whole = Library(*deposits).get(f"/cdx/search/cdx?url={SITE}/*&fl=original").body.decode().split()
    found = all_parts(first(ring), f"url={SITE}/*&fl=original&limit={limit}")
    assert (len(whole), sorted(found)) == (len(ESCAPED), sorted(whole)), "each once"
    assert first(ring).rooms.disbelieved == 0


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("limit", [1, 3])
def test_parts_end_and_lack_nothing_where_peers_have_different_escaped_addresses(
    seed: int, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No peer can know of another's rows where they stand, so such a row may come in several parts."""
    monkeypatch.setattr("herodotus.portal.ring_lists.ROWS_ASKED_MIN", 2)
    chance, ring = Random(seed), Ring()
    names = {"".join(chance.choices("a?{|z", k=chance.randint(1, 4))) for _ in range(12)}
    deposits = [response(f"{SITE}/{name}", "20260101", name.encode()) for name in sorted(names)]
    for origin in ORIGINS[:3]:
        Room(*chance.sample(deposits, 6), *deposits[:1], ring=ring, origin=origin)
    held = [
        room.ask(f"/cdx/search/cdx?url={SITE}/*&fl=original", {RELAYED: "1"}) for room in ring.rooms.values()
    ]
    whole = {url for answer in held for url in answer.body.decode().split()}
    found = all_parts(first(ring), f"url={SITE}/*&fl=original&limit={limit}")
    assert set(found) == whole, f"seed {seed}"
    plain = [url for url in found if "%" not in url]
    assert len(plain) == len(set(plain)), f"seed {seed}"


def test_no_row_stands_before_the_part_that_was_asked_for_or_behind_its_end() -> None:
    at = (address_key(f"{SITE}/m"), 0)
    end = encode_resume_key((address_key(f"{SITE}/p"), 0))
    question = parse_question([("url", f"{SITE}/*"), ("resumeKey", encode_resume_key(at))])
    urls = [f"{SITE}/%41", f"{SITE}/n", f"{SITE}/z%41"]
    rows = [[*ROW[:2], url, *ROW[3:]] for url in urls]
    body = json.dumps([["head"], *rows, [], [end]]).encode()
    share = read_share(Answer(content_type="application/json", body=body), question)
    assert share is not None
    beside = (address_key(f"{SITE}/n"), parse_digits(ROW[1]))
    assert [place for place, _ in share.rows.values()] == [at, beside, beside]
