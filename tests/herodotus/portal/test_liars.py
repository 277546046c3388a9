"""What can one lying peer do to an answer of all? Hide no rows, add none that were not asked for, hold nobody."""

import json
from collections.abc import Callable
from random import Random
from typing import Any
from urllib.parse import quote

import pytest

from herodotus.core.captures import position_of
from herodotus.core.index_rows import KEY_BYTES, address_key
from herodotus.core.warc import parse_digits
from herodotus.portal import peer_rows
from herodotus.portal.answer import Answer, Request
from herodotus.portal.api.completeness import read_nearest
from herodotus.portal.cdx import FIELDS, decode_resume_key, encode_resume_key, parse_question
from herodotus.portal.other_holders import PortalAddress
from herodotus.portal.peer_rows import SHORT_PARTS_MAX, earliest, read_share
from herodotus.portal.targets import URL_CHARS_MAX
from tests.herodotus.portal.library import HOME, SITE, response
from tests.herodotus.portal.rooms import Ring, Room
from tests.herodotus.portal.test_ring_lists import ORIGINS, first, ring_of

QUESTION = f"url={SITE}/*&fl=original,timestamp,digest"
LIAR = "http://192.0.2.66:5484"


def row(url: str = f"{SITE}/invented", digits: str = "20260301000000", **fields: str) -> list[str]:
    known = dict(zip(FIELDS, ["x", digits, url, "text/html", "200", "L" * 32, "10"], strict=True))
    return list({**known, **fields}.values())


def cdx(*rows: list[str], stop: tuple[str, int] | None = None) -> Answer:
    table: list[Any] = [list(FIELDS), *rows]
    if stop is not None:
        table += [[], [encode_resume_key((address_key(stop[0]), stop[1]))]]
    return Answer(content_type="application/json", body=json.dumps(table).encode())


def with_liar(ring: Ring, lie: Callable[[Request], Answer | None]) -> None:
    """One peer more; the others stay as they are."""
    honest = ring.fetch

    async def fetch(place: PortalAddress, request: Request) -> Answer | None:
        return lie(request) if place.origin == LIAR else await honest(place, request)

    ring.stale.append(LIAR)
    ring.fetch = fetch  # type: ignore[method-assign]  # one peer is not what it seems


def every_part(ring: Ring, question: str) -> list[str]:
    lines: list[str] = []
    key = ""
    for _ in range(200):
        body = first(ring).ask(f"/cdx/search/cdx?{question}&output=json&showResumeKey=true{key}").body
        table = json.loads(body)
        resume = table.pop()[0] if table[-2:-1] == [[]] else ""
        lines += [" ".join(found) for found in table[1:] if found]
        if not resume:
            return lines
        key = f"&resumeKey={quote(resume)}"
    raise AssertionError("the parts do not end")


def disbelieved(ring: Ring) -> int:
    return first(ring).rooms.disbelieved


# -- rows -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lie",
    [
        cdx(row("https://other.example/")),
        cdx(row(f"{SITE}.evil.example/")),
        cdx(row("mailto:somebody")),
        cdx(row(f"{SITE}/b"), row(f"{SITE}/a")),
        cdx(row(digits="20260302000000"), row(digits="20260301000000")),
        cdx(row(digits="20240101000000")),
        cdx(row(f"{SITE}/b"), stop=(f"{SITE}/a", 0)),
        cdx(stop=("https://other.example/", 0)),
        cdx(*(row(f"{SITE}/z{number:05}") for number in range(12_000))),
        Answer(content_type="application/json", body=b'[["head"], [], ["' + b"A" * 50 + b'"]]'),
    ],
    ids=["other site", "other host", "no page", "out of order", "times out of order", "other year",
         "stops before its rows", "stops elsewhere", "more than asked for", "no place"],
)  # fmt: skip
def test_who_does_not_answer_the_question_is_left_out_as_a_whole_and_counted(lie: Answer) -> None:
    ring, whole = ring_of(Random(1), pages=6)
    with_liar(ring, lambda request: lie)
    answer = first(ring).ask(f"/cdx/search/cdx?{QUESTION}&from=2025")
    assert answer.body.decode().splitlines() == whole
    assert (answer.headers["X-Herodotus-Peers"], answer.headers["X-Herodotus-Partial"]) == ("4 of 5", "true")
    assert disbelieved(ring) == 1


@pytest.mark.parametrize("field", ["mimetype", "statuscode", "length", "urlkey"])
def test_another_s_word_about_a_capture_changes_nothing_of_ours(field: str) -> None:
    ring = Ring()
    Room(response(HOME, "20260101", b"1"), ring=ring, origin=ORIGINS[0])
    (honest,) = json.loads(first(ring).ask(f"/cdx/search/cdx?url={SITE}/*&output=json").body)[1:]
    lie = dict(zip(FIELDS, honest, strict=True)) | {field: "404"}
    with_liar(ring, lambda request: cdx(list(lie.values())))
    for more in ("", "&filter=statuscode:200", "&filter=mimetype:text/html"):
        found = json.loads(first(ring).ask(f"/cdx/search/cdx?url={SITE}/*&output=json{more}").body)[1:]
        assert honest in found


def test_an_invented_key_makes_no_row_of_others_vanish_when_addresses_are_collapsed() -> None:
    ring = Ring()
    Room(*(response(f"{SITE}/{n}", "20260101", b"1") for n in "ac"), ring=ring, origin=ORIGINS[0])
    with_liar(ring, lambda request: cdx(row(f"{SITE}/b", urlkey="org,example)/c")))
    found = first(ring).ask(f"/cdx/search/cdx?url={SITE}/*&fl=original&collapse=urlkey")
    assert found.body.decode().split() == [f"{SITE}/{n}" for n in "abc"]


# -- places to go on --------------------------------------------------------------------------------------


def resumed(request: Request) -> tuple[bytes, int] | None:
    key = request.parameter("resumeKey")
    return decode_resume_key(key)[0] if key else None


def a_step_behind(request: Request) -> Answer:
    """As little further as can be, without a row."""
    at = resumed(request) or (address_key(f"{SITE}/"), 0)
    key = encode_resume_key((at[0], at[1] + 1))
    return Answer(content_type="application/json", body=json.dumps([[], [key]]).encode())


@pytest.mark.parametrize("more", ["", "&filter=statuscode:200"])
def test_who_never_comes_further_holds_the_others_for_so_many_parts_only(more: str) -> None:
    ring, whole = ring_of(Random(2), pages=6)
    with_liar(ring, a_step_behind)
    assert every_part(ring, f"{QUESTION}{more}") == whole


def test_the_part_for_which_nobody_waits_any_more_says_that_it_may_have_gaps() -> None:
    ring, whole = ring_of(Random(3), pages=6)
    with_liar(ring, a_step_behind)
    key = encode_resume_key((address_key(f"{SITE}/"), 0), SHORT_PARTS_MAX)
    answer = first(ring).ask(f"/cdx/search/cdx?{QUESTION}&showResumeKey=true&resumeKey={quote(key)}")
    assert answer.body.decode().splitlines() == whole
    assert answer.headers["X-Herodotus-Partial"] == "true"


def test_a_place_that_is_no_further_is_a_lie() -> None:
    ring, whole = ring_of(Random(4), pages=6)

    def lie(request: Request) -> Answer:
        at = resumed(request)
        return cdx(stop=(f"{SITE}/", 0)) if at is None else cdx(stop=(f"{SITE}/", at[1]))

    with_liar(ring, lie)
    assert every_part(ring, QUESTION) == whole
    assert disbelieved(ring) >= 1


def test_other_peers_are_told_the_place_and_not_the_count() -> None:
    ring, _ = ring_of(Random(5), pages=6)
    at = (address_key(f"{SITE}/2"), 7)
    first(ring).ask(f"/cdx/search/cdx?{QUESTION}&resumeKey={quote(encode_resume_key(at, 12))}")
    assert {request.parameter("resumeKey") for _, request in ring.questions} == {encode_resume_key(at)}


@pytest.mark.parametrize("count", ["x", "-1", "12345", "1.2", "²"])
def test_a_count_that_is_none_makes_a_key_that_nobody_gave(count: str) -> None:
    ring, _ = ring_of(Random(6), pages=6)
    key = encode_resume_key((address_key(HOME), 0)) + "." + count
    assert first(ring).ask(f"/cdx/search/cdx?{QUESTION}&resumeKey={quote(key)}").status == 400


def test_patience_is_for_those_who_stop_short_alone() -> None:
    assert earliest([(3, False), (5, True)], 0) == earliest([(3, False)], 0)
    short = earliest([(3, True), (5, False)], 7)
    assert (short.at, short.short_parts, short.was_left) == (3, 8, False)
    over = earliest([(3, True), (5, False)], SHORT_PARTS_MAX)
    assert (over.at, over.short_parts, over.was_left) == (5, SHORT_PARTS_MAX, True)
    alone = earliest([(3, True)], SHORT_PARTS_MAX)
    assert (alone.at, alone.was_left) == (None, True)


def test_honest_peers_that_look_at_many_addresses_in_vain_are_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("herodotus.portal.archive_questions.ADDRESSES_MAX", 4)
    ring, whole = ring_of(Random(7), pages=6)
    (digest,) = {line.split()[2] for line in whole[-1:]}
    wanted = [line for line in whole if line.split()[2] == digest]
    assert every_part(ring, f"{QUESTION}&filter==digest:{digest}") == wanted
    assert disbelieved(ring) == 0


# -- pages, listings, links -------------------------------------------------------------------------------


def test_a_count_of_pages_beyond_all_bounds_is_not_believed() -> None:
    ring, _ = ring_of(Random(8), pages=6)
    with_liar(ring, lambda request: Answer(content_type="text/plain", body=b"9999999\n"))
    assert first(ring).ask(f"/cdx/search/cdx?{QUESTION}&showNumPages=true").body == b"1\n"
    assert disbelieved(ring) == 1


def test_pages_end_where_nobody_gives_a_row() -> None:
    ring, _ = ring_of(Random(9), pages=6)
    with_liar(ring, lambda request: cdx())
    assert first(ring).ask(f"/cdx/search/cdx?{QUESTION}&page=0").status == 200
    answer = first(ring).ask(f"/cdx/search/cdx?{QUESTION}&page=1")
    assert (answer.status, b"fewer pages" in answer.body) == (400, True)


def test_who_stops_early_on_a_page_takes_nothing_from_the_others_page() -> None:
    ring, whole = ring_of(Random(10), pages=6)
    with_liar(ring, lambda request: cdx(row(f"{SITE}/0"), stop=(f"{SITE}/0", parse_digits("20270101000000"))))
    found = first(ring).ask(f"/cdx/search/cdx?{QUESTION}&page=0").body.decode().splitlines()
    assert set(whole) <= set(found)


@pytest.mark.parametrize(
    "facts",
    [
        {"urls": ["https://evil.example/"], "is_whole": True},
        {"urls": [f"{SITE}/{n}" for n in range(1_000)], "is_whole": True},
        {"urls": [7], "is_whole": True},
        {"urls": [f"{SITE}/" + "a" * URL_CHARS_MAX], "is_whole": True},
        {"urls": f"{SITE}/"},
    ],
)
def test_a_listing_takes_only_what_was_asked_for(facts: dict[str, Any]) -> None:
    ring, whole = ring_of(Random(11), pages=6)
    with_liar(ring, lambda request: Answer(content_type="application/json", body=json.dumps(facts).encode()))
    found = json.loads(first(ring).ask(f"/web/*/{SITE}/*", {"accept": "application/json"}).body)
    assert set(found["urls"]) == {line.split()[0] for line in whole}
    assert (found["is_partial"], disbelieved(ring)) == (True, 1)


def links_ring() -> tuple[Ring, list[str]]:
    ring = Ring()
    sources = [f"{SITE}/{number}" for number in range(8)]
    for number, origin in enumerate(ORIGINS):
        own = sources[number * 2 : number * 2 + 2]
        Room(*(response(url, "20260101", b'<a href="/to">x') for url in own), ring=ring, origin=origin)
    return ring, sources


def told(links: list[str], stopped: bytes | None) -> Answer:
    facts = {
        "url": f"{SITE}/to", "is_current": True, "is_partial": False, "next": stopped.hex() if stopped else None,
        "links": [{"url": url, "first_seen": "2026-01-01T00:00:00Z", "last_seen": "2026-01-01T00:00:00Z"}
                  for url in links],
    }  # fmt: skip
    return Answer(content_type="application/json", body=json.dumps(facts).encode())


def all_links(ring: Ring) -> list[str]:
    found: list[str] = []
    key = ""
    for _ in range(100):
        facts = json.loads(first(ring).ask(f"/api/v1/inlinks?url={SITE}/to&scope=ring&limit=3{key}").body)
        found += [one["url"] for one in facts["links"]]
        if facts["next"] is None:
            return found
        key = f"&after={facts['next']}"
    raise AssertionError("the parts do not end")


def test_links_of_all_peers_end_though_one_never_comes_further(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        peer_rows, "SHORT_PARTS_MAX", 5
    )  # more questions than that, and readers have had their share
    ring, sources = links_ring()

    def lie(request: Request) -> Answer:
        begun = request.parameter("after")
        at = int(begun, 16) if begun else 0
        return told([], (at + 1).to_bytes(KEY_BYTES, "big"))

    with_liar(ring, lie)
    assert sorted(all_links(ring)) == sources


@pytest.mark.parametrize(
    "lie",
    [
        lambda begun: told([f"{SITE}/x{n}" for n in range(9)], None),
        lambda begun: told([], begun or bytes(KEY_BYTES)),
        lambda begun: told([f"{SITE}/x"], bytes(KEY_BYTES - 1) + b"\1"),
    ],
    ids=["more than asked for", "no further", "a link behind its stop"],
)
def test_links_that_were_not_asked_for_are_left_out(lie: Callable[[bytes], Answer]) -> None:
    ring, sources = links_ring()
    with_liar(ring, lambda request: lie(bytes.fromhex(request.parameter("after"))))
    assert sorted(all_links(ring)) == sources
    assert disbelieved(ring) >= 1
    assert position_of(f"{SITE}/x")[:KEY_BYTES] > bytes(KEY_BYTES - 1) + b"\1"


def test_a_row_is_read_as_the_question_was_asked() -> None:
    question = parse_question([("url", f"{SITE}/*"), ("from", "2026"), ("to", "2026")])
    assert read_share(cdx(row(), row(f"{SITE}/j%20")), question) is not None
    assert read_share(cdx(row(digits="20250101000000")), question) is None
    assert read_share(cdx(row(digits="20270101000000")), question) is None


# -- the nearest capture of a part ------------------------------------------------------------------------


def nearest(**facts: Any) -> Answer:
    honest = {
        "url": f"{SITE}/i.png", "state": "older", "date": "2026-01-04T00:00:00Z", "offset_s": -86_400,
        "memento": f"/web/20260104000000/{SITE}/i.png",
    }  # fmt: skip
    return Answer(content_type="application/json", body=json.dumps({**honest, **facts}).encode())


@pytest.mark.parametrize(
    "facts",
    [
        {"memento": "https://evil.example/" + f"{SITE}/i.png"},
        {"memento": "javascript:alert(1)//" + f"{SITE}/i.png"},
        {"offset_s": 7},
        {},
    ],
)
def test_what_a_peer_says_of_a_part_leads_to_the_archive_alone(facts: dict[str, Any]) -> None:
    found = read_nearest(nearest(**facts), f"{SITE}/i.png", parse_digits("20260105000000"))
    assert found is not None
    assert (found.memento, found.offset_s) == (f"/web/20260104000000/{SITE}/i.png", -86_400)


@pytest.mark.parametrize(
    "facts",
    [
        {"url": f"{SITE}/j.png"},
        {"state": "newer"},
        {"state": "coherent", "date": "2026-01-06T00:00:00Z"},
        {"state": "missing"},
        {"state": "unasked"},
        {"state": "whole"},
        {"date": None},
        {"date": "yesterday"},
        {"memento": "x" * 70_000},
    ],
)
def test_what_a_peer_says_of_a_part_must_be_possible(facts: dict[str, Any]) -> None:
    assert read_nearest(nearest(**facts), f"{SITE}/i.png", parse_digits("20260105000000")) is None
