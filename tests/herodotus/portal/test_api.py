"""Does every endpoint of `/api/v1` say what is so, go on where it stopped, and refuse what makes no sense?"""

import base64
import json
from dataclasses import replace
from io import BytesIO
from typing import Any
from urllib.parse import quote

import anyio
import pytest
from jsonschema_rs import Draft202012Validator
from warcio.archiveiterator import ArchiveIterator

from herodotus.core.errors import UnusableArchiveError
from herodotus.core.orders import Order, OrderReport, Say, Why
from herodotus.core.removals import Removals, subject_of
from herodotus.core.signatures import SignedWindow, helper_field, signed, window_field
from herodotus.portal.api import streams
from herodotus.store.evidence import evidence
from herodotus.store.sealing import seal
from herodotus.store.streams import Cursor
from tests.herodotus.copies.world import key_number
from tests.herodotus.deposits import delete_url
from tests.herodotus.portal.library import HOME, SITE, response
from tests.herodotus.portal.rooms import Room

DAYS = ("20260101060000", "20260102060000", "20260103060000", "20260109060000")
PAGE = b'<a href="/b">b</a><a href="https://other.example/">o</a><img src="/i.png"><link rel=stylesheet href=/s.css>'


@pytest.fixture(scope="module")
def room() -> Room:
    return Room(
        response(HOME, DAYS[0], b"<p>one"),
        response(HOME, DAYS[1], b"<p>two"),
        response(HOME, DAYS[2], b"<p>one"),
        response(HOME, DAYS[3], b"<p>three"),
        response(f"{SITE}/a", "20260105", PAGE),
        response(f"{SITE}/b", "20260105", b'<a href="/c">c</a>'),
        response(f"{SITE}/c", "20260106", b'<a href="/">home</a>'),
        response(f"{SITE}/i.png", "20260101", b"\x89PNG", "image/png"),
        response(f"{SITE}/gone", "20260101", b"no", "text/html", 404),
        response("https://sub.example.org/News", "20260101", b"<p>news"),
        response("https://example.org-x.example/", "20260101", b"<p>another host"),
        visits=((f"{SITE}/i.png", "20260108"), (HOME, "20260104060000")),
    )


def asked(room: Room, target: str) -> Any:
    """A good answer, checked against what the description says of it."""
    answer = room.ask(target)
    assert answer.status == 200, answer.body
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    facts = json.loads(answer.body)
    validator_of(room, target).validate(facts)
    return facts


def described(room: Room) -> Any:
    return json.loads(room.ask("/api/v1/openapi.json").body)


def validator_of(room: Room, target: str) -> Draft202012Validator:
    document, path = described(room), target.partition("?")[0]
    for template, operations in document["paths"].items():
        parts, given = template.split("/"), path.split("/")
        if len(parts) == len(given) and all(
            a == b or a.startswith("{") for a, b in zip(parts, given, strict=True)
        ):
            schema = operations["get"]["responses"]["200"]["content"]["application/json"]["schema"]
            return Draft202012Validator({**schema, "components": document["components"]})
    raise AssertionError(f"{path} is not described")


def problem(room: Room, target: str, status: int) -> str:
    answer = room.ask(target)
    assert (answer.status, answer.content_type) == (status, "application/problem+json"), answer.body
    facts = json.loads(answer.body)
    assert facts["status"] == status
    return str(facts["detail"])


def whole(room: Room, target: str, name: str, *, parts_min: int = 2) -> list[Any]:
    """All parts of a long answer, by its tokens and by its links."""
    found: list[Any] = []
    count = 0
    following: str | None = target
    while following is not None:
        count += 1
        assert count < 100
        answer = room.ask(following)
        facts = json.loads(answer.body)
        found += facts[name]
        link = answer.headers.get("Link")
        assert (link is None) == (facts["next"] is None)
        following = None if link is None else link.removeprefix("<").partition(">")[0]
    assert count >= parts_min
    return found


# -- captures ---------------------------------------------------------------------------------------------


def test_versions_come_with_their_duplicates_grouped(room: Room) -> None:
    facts = asked(room, f"/api/v1/captures?url={HOME}")
    assert [(one["first_seen"], one["last_seen"], one["count"]) for one in facts["contents"]] == [
        ("2026-01-01T06:00:00Z", "2026-01-04T06:00:00Z", 2),
        ("2026-01-02T06:00:00Z", "2026-01-02T06:00:00Z", 1),
        ("2026-01-09T06:00:00Z", "2026-01-09T06:00:00Z", 1),
    ]
    first = facts["contents"][0]["captures"]
    assert [(one["date"], one["visits"], one["memento"]) for one in first] == [
        ("2026-01-01T06:00:00Z", 0, f"/web/20260101060000/{HOME}"),
        ("2026-01-03T06:00:00Z", 1, f"/web/20260103060000/{HOME}"),
    ]
    of_two_days = asked(room, "/api/v1/captures?url=EXAMPLE.org&from=20260102&to=20260103")
    assert [one["count"] for one in of_two_days["contents"]] == [1, 1]
    assert len(whole(room, f"/api/v1/captures?url={HOME}&limit=1", "contents")) == 3


def test_an_address_that_nobody_has_is_a_problem(room: Room) -> None:
    assert problem(room, "/api/v1/captures?url=https://nobody.example/", 404) == (
        "https://nobody.example/ is not in this peer's archive"
    )


def test_records_of_a_capture_are_told_and_given(room: Room) -> None:
    facts = asked(room, f"/api/v1/records?url={HOME}&date=20260103")
    assert (facts["date"], facts["records"][0]["type"]) == ("2026-01-03T06:00:00Z", "revisit")
    assert facts["http_head"].startswith("HTTP/1.1 200")
    answer = room.ask(f"/api/v1/records/warc?url={HOME}&date=20260103")
    records = [(one.rec_type, one.content_stream().read()) for one in ArchiveIterator(BytesIO(answer.body))]
    assert records[0] == ("response", b"<p>one"), "a file of its own refers to nothing outside"


def test_a_search_finds_addresses_by_words_in_any_case(room: Room) -> None:
    assert asked(room, "/api/v1/addresses?q=NEWS+sub")["urls"] == ["https://sub.example.org/News"]
    assert asked(room, "/api/v1/addresses?q=nowhere")["urls"] == []
    found = whole(room, "/api/v1/addresses?q=example&limit=2", "urls")
    assert len(found) == len(set(found)) == 8


def test_a_search_looks_at_a_bounded_part_of_the_list(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("herodotus.portal.api.addresses.SEARCHED_MAX", 3)
    assert whole(room, "/api/v1/addresses?q=sub", "urls", parts_min=3) == ["https://sub.example.org/News"]


def test_a_search_goes_on_behind_addresses_of_any_length_and_alike() -> None:
    """16 kB, of which the first 8 are the same: tokens are of 2,048 characters at most."""
    long = [f"{SITE}/{'a' * 8_000}{n}{'b' * 8_000}" for n in range(4)]
    urls = [f"{SITE}/0", *long, f"{SITE}/z"]
    room = Room(*(response(url, "20260101", b"x") for url in urls))
    assert whole(room, "/api/v1/addresses?q=example&limit=1", "urls", parts_min=6) == urls
    token = asked(room, "/api/v1/addresses?q=example&limit=2")["next"]
    assert len(token) <= 2_048
    without = Room(*(response(url, "20260101", b"x") for url in urls if url != long[0]))
    assert "start again" in problem(without, f"/api/v1/addresses?q=example&after={token}", 410)
    for bad in (token[:-2], token + "00", token.replace(".", ".."), "." + token.partition(".")[2]):
        problem(without, f"/api/v1/addresses?q=example&after={bad}", 400)


def test_a_sample_is_the_same_for_the_same_seed_and_goes_once_around(room: Room) -> None:
    first = asked(room, "/api/v1/sample?seed=a&limit=3")["captures"]
    assert first == asked(room, "/api/v1/sample?seed=a&limit=3")["captures"]
    others = {asked(room, f"/api/v1/sample?seed={seed}&limit=1")["captures"][0]["url"] for seed in range(40)}
    assert len(others) > 3
    everything = whole(room, "/api/v1/sample?seed=a&limit=3", "captures")
    assert len({one["url"] for one in everything}) == len(everything) == 8
    assert next(one for one in everything if one["url"] == HOME)["date"] == "2026-01-09T06:00:00Z"


# -- files ------------------------------------------------------------------------------------------------


def test_files_are_listed_and_their_records_read() -> None:
    room = Room(*(response(f"{SITE}/{n}", "20260101", b"<p>%d" % n) for n in range(30)))
    (log,) = asked(room, "/api/v1/containers")["containers"]
    assert (log["kind"], log["codec"], log["path"]) == ("log", "gz", f"log/{log['number']:08}.warc.gz")
    assert asked(room, f"/api/v1/containers/{log['number']}") == log
    records = whole(room, f"/api/v1/containers/{log['number']}/records?limit=7", "records")
    assert [one["type"] for one in records].count("response") == 30
    assert records[0]["type"] == "warcinfo"
    token = json.loads(room.ask(f"/api/v1/containers/{log['number']}/records?limit=7").body)["next"]
    seal(room.store.archive)
    assert "sealed" in problem(room, f"/api/v1/containers/{log['number']}/records?after={token}", 410)
    problem(room, f"/api/v1/containers/{log['number']}", 404)
    problem(room, f"/api/v1/containers/{log['number']}/records", 404)
    segments = [
        one for one in whole(room, "/api/v1/containers?limit=1", "containers") if one["kind"] == "segment"
    ]
    urls = [
        record["url"]
        for one in segments
        for record in whole(
            room, f"/api/v1/containers/{one['number']}/records?limit=1", "records", parts_min=1
        )
        if record["type"] == "response"
    ]
    assert sorted(urls) == sorted(f"{SITE}/{n}" for n in range(30))


def test_a_place_in_a_file_where_no_record_begins_is_refused(room: Room) -> None:
    number = json.loads(room.ask("/api/v1/containers").body)["containers"][0]["number"]
    assert (
        problem(room, f"/api/v1/containers/{number}/records?after=7", 400) == "after: no record begins there"
    )


# -- statistics -------------------------------------------------------------------------------------------


def test_statistics_count_by_host_type_status_and_day(room: Room) -> None:
    total = asked(room, "/api/v1/statistics")
    assert (total["captures"], total["is_current"]) == (11, True)

    def counts(by: str, more: str = "") -> dict[str, int]:
        return {
            one["value"]: one["captures"] for one in asked(room, f"/api/v1/statistics/{by}{more}")["counts"]
        }

    assert counts("host") == {"example.org": 9, "example.org-x.example": 1, "sub.example.org": 1}
    assert counts("type") == {"text/html": 10, "image/png": 1}
    assert counts("status") == {"200": 10, "404": 1}
    assert counts("day")["20260105"] == 2
    assert list(counts("host", "?sort=captures&limit=1")) == ["example.org"]
    assert len(whole(room, "/api/v1/statistics/day?limit=2", "counts")) == len(counts("day"))


def test_statistics_say_when_they_lag_behind() -> None:
    room = Room(response(HOME, "2026", b"a"))
    room.add(response(f"{SITE}/b", "2026", b"b"))
    assert asked(room, "/api/v1/statistics")["is_current"] is False
    room.survey()
    assert asked(room, "/api/v1/statistics") == {"captures": 2, "bytes": 2, "is_current": True}


# -- streams ----------------------------------------------------------------------------------------------


def streamed(room: Room, target: str) -> list[bytes]:
    parts = []
    following: str | None = target
    while following is not None:
        answer = room.ask(following)
        assert answer.status == 200, answer.body
        parts.append(answer.body)
        link = answer.headers.get("Link")
        following = None if link is None else link.removeprefix("<").partition(">")[0]
        assert len(parts) < 100
    return parts


def lines(parts: list[bytes]) -> list[Any]:
    return [json.loads(line) for part in parts for line in part.splitlines()]


@pytest.mark.parametrize("limit", [1, 2, 100])
def test_a_stream_gives_each_capture_once_in_the_order_of_the_ring(room: Room, limit: int) -> None:
    found = lines(streamed(room, f"/api/v1/stream?limit={limit}"))
    assert len(found) == 11
    assert [one["key"] for one in found] == sorted(one["key"] for one in found)
    assert len({(one["url"], one["date"]) for one in found}) == 11


def test_parts_of_a_stream_together_are_a_warc_file(room: Room) -> None:
    parts = streamed(room, "/api/v1/stream?form=warc&limit=2")
    assert len(parts) > 4
    bodies = [
        one.content_stream().read()
        for one in ArchiveIterator(BytesIO(b"".join(parts)))
        if one.rec_type == "response"
    ]
    assert len(bodies) == 11
    assert PAGE in bodies


@pytest.mark.parametrize("limit", [1, 3, 100])
@pytest.mark.parametrize(
    ("host", "count"),
    [("example.org", 10), ("sub.example.org", 1), ("org", 10), ("EXAMPLE", 1), ("nobody.example", 0)],
)
def test_a_stream_of_a_host_takes_those_below_it_and_no_others(
    room: Room, host: str, count: int, limit: int
) -> None:
    found = lines(streamed(room, f"/api/v1/stream?host={host}&limit={limit}"))
    assert len(found) == len({(one["url"], one["date"]) for one in found}) == count


def test_streams_take_time_type_status_and_arcs(room: Room) -> None:
    def urls(question: str) -> list[str]:
        return [one["url"].removeprefix(SITE) for one in lines(streamed(room, f"/api/v1/stream?{question}"))]

    assert urls("type=image/") == ["/i.png"]
    assert urls("status=404&limit=1") == ["/gone"]
    assert sorted(urls("from=20260105&to=20260106")) == ["/a", "/b", "/c"]
    assert sorted(urls("from=20260105&to=20260106&host=example.org&limit=1")) == ["/a", "/b", "/c"]
    assert sorted(urls("key_to=80") + urls("key_from=80")) == sorted(urls(""))
    (line,) = lines(streamed(room, "/api/v1/stream?type=image/&bodies=true"))
    assert base64.b64decode(line["body"]) == b"\x89PNG"


def test_a_stream_leaves_out_what_came_after_it_began_and_survives_sealing() -> None:
    for question in ("", "host=example.org&"):
        room = Room(*(response(f"{SITE}/{n}", "20260101", b"<p>%d" % n) for n in range(20)))
        first = room.ask(f"/api/v1/stream?{question}limit=5")
        token = first.headers["X-Herodotus-Resume"]
        room.add(*(response(f"{SITE}/new/{n}", "20260102", b"<p>new %d" % n) for n in range(20)))
        seal(room.store.archive)
        rest = lines(streamed(room, f"/api/v1/stream?{question}limit=5&after={quote(token)}"))
        again = lines(streamed(room, f"/api/v1/stream?{question}limit=5&after={quote(token)}"))
        assert rest == again
        urls = [one["url"] for one in lines([first.body]) + rest]
        assert sorted(urls) == sorted(f"{SITE}/{n}" for n in range(20)), question


def test_a_part_looks_at_a_bounded_number_of_captures(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "LOOKED_AT_MAX", 2)
    for question in ("type=image/", "type=image/&host=example.org"):
        parts = streamed(room, f"/api/v1/stream?{question}")
        assert len(parts) >= 5
        assert [one["mime"] for one in lines(parts)] == ["image/png"]
    monkeypatch.setattr("herodotus.store.streams.WALKED_MAX", 1)
    assert len(lines(streamed(room, "/api/v1/stream?host=example.org&limit=100"))) == 10


def test_addresses_that_are_longer_than_a_token_are_told_apart() -> None:
    long = f"{SITE}/{'x' * 3_000}"
    urls = [f"{long}{n}" for n in range(5)]
    room = Room(*(response(url, "20260101", b"<p>") for url in urls))
    found = lines(streamed(room, "/api/v1/stream?host=example.org&limit=1"))
    assert [one["url"] for one in found] == urls


def test_tokens_of_other_streams_archives_and_inventions_are_refused(room: Room) -> None:
    token = room.ask("/api/v1/stream?host=example.org&limit=1").headers["X-Herodotus-Resume"]
    assert "another host" in problem(room, f"/api/v1/stream?host=other.example&after={token}", 400)
    ring_token = room.ask("/api/v1/stream?limit=1").headers["X-Herodotus-Resume"]
    for bad in (token, "x", "h", "haaaa", "%00", "A" * 2_000):
        problem(room, f"/api/v1/stream?after={bad}", 400)
    problem(room, f"/api/v1/stream?host=example.org&after={ring_token}", 400)
    # As after the index was rebuilt, with which arrivals are numbered anew.
    old = replace(Cursor.decode(ring_token), incarnation=b"rebuilt!").encode()
    assert "rebuilt" in problem(room, f"/api/v1/stream?after={old}", 410)
    stale = streams.encode_place(replace(streams.decode_place(token), incarnation=b"rebuilt!"))
    assert "rebuilt" in problem(room, f"/api/v1/stream?host=example.org&after={stale}", 410)


@pytest.mark.parametrize("key", [b"\0", b"c", b"c" + bytes(12), b"\xff" * 19])
def test_a_bent_token_of_a_host_leads_to_no_other_rows(key: bytes) -> None:
    """It named a place in the whole index, of any family."""
    others = [response(f"https://other.example/{n}", "20260101", b"<p>%d" % n) for n in range(20)]
    room = Room(*(response(f"{SITE}/{n}", "20260101", b"<p>") for n in range(3)), *others)
    place = streams.decode_place(
        room.ask("/api/v1/stream?host=example.org&limit=1").headers["X-Herodotus-Resume"]
    )
    bent = quote(streams.encode_place(replace(place, key=key)))
    found = lines(streamed(room, f"/api/v1/stream?host=example.org&after={bent}"))
    assert [one["url"] for one in found] == [f"{SITE}/{n}" for n in range(3)]


def test_a_stream_of_a_host_goes_on_behind_an_address_that_is_gone() -> None:
    room = Room(*(response(f"{SITE}/{n}", "20260101", b"<p>") for n in range(3)))
    place = streams.decode_place(
        room.ask("/api/v1/stream?host=example.org&limit=1").headers["X-Herodotus-Resume"]
    )
    gone = quote(
        streams.encode_place(replace(place, position=bytes(12), address=place.address[:-2] + b"0a\0"))
    )
    found = lines(streamed(room, f"/api/v1/stream?host=example.org&after={gone}"))
    assert [one["url"] for one in found] == [f"{SITE}/1", f"{SITE}/2"]


# -- links ------------------------------------------------------------------------------------------------


def test_links_of_a_page_are_told_with_their_kinds(room: Room) -> None:
    facts = asked(room, f"/api/v1/outlinks?url={SITE}/a")
    assert [(one["url"], one["kind"]) for one in facts["links"]] == [
        (f"{SITE}/b", "page"), ("https://other.example/", "page"), (f"{SITE}/i.png", "image"),
        (f"{SITE}/s.css", "requisite"),
    ]  # fmt: skip
    assert len(asked(room, f"/api/v1/outlinks?url={SITE}/a&kind=image")["links"]) == 1
    assert len(whole(room, f"/api/v1/outlinks?url={SITE}/a&limit=1", "links")) == 4


def test_links_to_a_page_are_found_and_those_of_deleted_pages_are_not() -> None:
    pages = [response(f"{SITE}/{n}", f"202601{n + 1:02}", b'<a href="/to">to</a>%d' % n) for n in range(9)]
    room = Room(*pages, response(f"{SITE}/0", "20260120", b'<a href="/to">still</a>'))
    found = whole(room, f"/api/v1/inlinks?url={SITE}/to&limit=2", "links")
    assert sorted(one["url"] for one in found) == [f"{SITE}/{n}" for n in range(9)]
    assert next(one for one in found if one["url"].endswith("/0")) == {
        "url": f"{SITE}/0", "first_seen": "2026-01-01T00:00:00Z", "last_seen": "2026-01-20T00:00:00Z",
    }  # fmt: skip
    on_a_day = asked(room, f"/api/v1/inlinks?url={SITE}/to&date=20260110")
    assert [one["url"] for one in on_a_day["links"]] == [f"{SITE}/0"]
    anyio.run(delete_url, room.store, f"{SITE}/3")
    left = asked(room, f"/api/v1/inlinks?url={SITE}/to")
    assert sorted(one["url"] for one in left["links"]) == [f"{SITE}/{n}" for n in range(9) if n != 3]


def test_paths_are_shortest_and_say_whether_the_search_was_whole(room: Room) -> None:
    def path(question: str) -> Any:
        return asked(room, f"/api/v1/paths?{question}")

    found = path(f"from={SITE}/a&to={HOME}")
    assert found["urls"] == [f"{SITE}/a", f"{SITE}/b", f"{SITE}/c", HOME]
    assert path(f"from={SITE}/a&to={SITE}/a")["urls"] == [f"{SITE}/a"]
    nothing = path(f"from={HOME}&to={SITE}/a")
    assert (nothing["urls"], nothing["is_exhaustive"]) == ([], True)
    short = path(f"from={SITE}/a&to={HOME}&steps=2")
    assert (short["urls"], short["is_exhaustive"]) == ([], False)
    assert path(f"from={SITE}/a&to={HOME}&date=20260105")["urls"] == []


# -- completeness -----------------------------------------------------------------------------------------


def test_completeness_tells_each_part_s_state_and_one_score() -> None:
    parts = b"".join(
        b'<img src="/%s">' % name for name in (b"same", b"seen", b"changed", b"old", b"new", b"none")
    )
    room = Room(
        response(HOME, "20260110000000", parts),
        response(f"{SITE}/same", "20260101", b"s", "image/png"),
        response(f"{SITE}/same", "20260111", b"s", "image/png"),
        response(f"{SITE}/seen", "20260101", b"v", "image/png"),
        response(f"{SITE}/changed", "20260109", b"1", "image/png"),
        response(f"{SITE}/changed", "20260112", b"2", "image/png"),
        response(f"{SITE}/old", "20260109", b"o", "image/png"),
        response(f"{SITE}/new", "20260111", b"n", "image/png"),
        visits=((f"{SITE}/seen", "20260110"),),
    )
    facts = asked(room, f"/api/v1/completeness?url={HOME}")
    assert [(one["url"].rpartition("/")[2], one["state"], one["offset_s"]) for one in facts["parts"]] == [
        ("same", "coherent", -9 * 86_400), ("seen", "coherent", -9 * 86_400), ("changed", "changed", -86_400),
        ("old", "older", -86_400), ("new", "newer", 86_400), ("none", "missing", None),
    ]  # fmt: skip
    assert facts["score"] == pytest.approx((1 + 1 + 0.5 + 0.5 + 0.5 + 0) / 6, abs=1e-4)
    assert asked(room, f"/api/v1/nearest?url={SITE}/changed&date=20260112000000")["state"] == "coherent"
    problem(room, f"/api/v1/nearest?url={SITE}/none", 404)


def test_the_parts_of_a_page_are_dated_as_they_are_shown() -> None:
    names = (b"same", b"seen", b"changed", b"old", b"new", b"none", b"near?b=1&a=2")
    page = b'<link rel=stylesheet href="/style.css">' + b"".join(b'<img src="/%s">' % name for name in names)
    room = Room(
        response(HOME, "20260510", page),
        response(f"{SITE}/style.css", "20260503", b"a{background:url(/in/style)}", "text/css"),
        response(f"{SITE}/in/style", "20251224", b"i", "image/png"),
        response(f"{SITE}/same", "20200101", b"s", "image/png"),
        response(f"{SITE}/same", "20260601", b"s", "image/png"),
        response(f"{SITE}/seen", "20200101", b"v", "image/png"),
        response(f"{SITE}/changed", "20260409", b"1", "image/png"),
        response(f"{SITE}/changed", "20260511", b"2", "image/png"),
        response(f"{SITE}/old", "20260410", b"o", "image/png"),
        response(f"{SITE}/new", "20260809", b"n", "image/png"),
        response(f"{SITE}/near?a=2&b=1", "20260509", b"n", "image/png"),
        visits=((f"{SITE}/seen", "20260510"), (HOME, "20260515")),
    )
    told = asked(room, f"/api/v1/parts?url={HOME}&date=20260510")
    shown = [
        (one["url"].removeprefix(f"{SITE}/"), one["state"], (one["date"] or "")[:10], one["is_far"])
        for one in told["parts"]
    ]
    assert shown == [
        ("style.css", "older", "2026-05-03", False), ("same", "coherent", "2020-01-01", False),
        ("seen", "coherent", "2020-01-01", False), ("changed", "changed", "2026-04-09", True),
        ("old", "older", "2026-04-10", False), ("new", "newer", "2026-08-09", True), ("none", "missing", "", False),
        ("near?b=1&a=2", "older", "2026-05-09", False), ("in/style", "older", "2025-12-24", True),
    ]  # fmt: skip
    for one in told["parts"]:
        if one["memento"]:
            path = one["memento"].replace("/https:", "im_/https:")
            asked_for = f"/web/20260510000000im_/{one['url']}"
            led = room.get(asked_for)
            assert led.headers.get("Location", path) == path, "as the page is given it"
    assert (told["first"][:10], told["last"][:10]) == ("2025-12-24", "2026-08-09")
    assert (told["far"], told["missing"], told["drift_days"], told["parts_left_out"]) == (3, 1, 30, 0)
    later = asked(
        room, f"/api/v1/parts?url={HOME}&date=20260515000000"
    )  # at a visit that found the page unchanged
    assert (later["date"][:10], later["parts"][3]["date"][:10]) == ("2026-05-15", "2026-05-11")
    problem(room, f"/api/v1/parts?url={SITE}/never", 404)
    assert json.loads(room.get(f"/web/parts/20260510/{HOME}").body) == told
    bent = json.loads(room.get(f"/web/parts/20260509/{SITE}/near?b=1&a=2").body)
    assert bent["url"] == f"{SITE}/near?a=2&b=1"


def test_what_a_script_only_may_mean_is_a_part_where_it_is_archived() -> None:
    page = b'<script>var a = "/one.png", b = "/two.png";</script>'
    room = Room(response(HOME, "20260510", page), response(f"{SITE}/two.png", "20260509", b"2", "image/png"))
    told = asked(room, f"/api/v1/parts?url={HOME}")
    assert [one["url"] for one in told["parts"]] == [f"{SITE}/two.png"]
    assert told["missing"] == 0


def test_a_page_of_many_parts_is_told_up_to_a_bound() -> None:
    page = b"".join(b"<img src=/%d>" % number for number in range(520))
    told = asked(Room(response(HOME, "20260510", page)), f"/api/v1/parts?url={HOME}")
    assert (len(told["parts"]), told["parts_left_out"], told["missing"]) == (500, 20, 500)


def test_a_page_that_shows_nothing_else_is_whole(room: Room) -> None:
    facts = asked(room, f"/api/v1/completeness?url={HOME}")
    assert (facts["score"], facts["parts"]) == (1.0, [])


# -- the peer ---------------------------------------------------------------------------------------------


def test_the_peer_its_ring_and_its_members_are_told(room: Room) -> None:
    stranger = Room(client="192.0.2.9")  # the operator gets more, which no page of another site may read
    assert asked(stranger, "/api/v1/status")["nickname"] == "Halikarnassos"
    assert asked(room, "/api/v1/ring")["members"] == 20
    assert asked(room, "/api/v1/peers")["peers"][0]["is_self"] is True


# -- the interface ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("/api/v1/captures", "object missing required field `url`"),
        ("/api/v1/captures?url=a&url=b", "'url' is given twice"),
        ("/api/v1/captures?url=a&limit=0", "limit: expected `int` >= 1"),
        ("/api/v1/captures?url=a&limit=x", "limit: expected `int`, got `str`"),
        ("/api/v1/captures?url=a&from=tomorrow", "from: expected `str` matching regex '^[0-9]{4,14}$'"),
        ("/api/v1/captures?url=a&from=20261341", "from='20261341' is not a date that the archive could have"),
        ("/api/v1/captures?url=a&limits=1", "object contains unknown field `limits`"),
        ("/api/v1/captures?url=mailto:a@b.example", "this is not the address of a web page: "),
        ("/api/v1/addresses?q=%20", "q: it has no word"),
        ("/api/v1/statistics/colour", "by: invalid enum value 'colour'"),
        ("/api/v1/stream?host=a&key_from=00", "host: an arc of the ring has pages of all hosts"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_a_problem_that_says_why(room: Room, target: str, sentence: str) -> None:
    assert problem(room, target, 400).startswith(sentence)


def test_what_can_only_be_read_is_not_posted_to_and_nothing_else_is_there(room: Room) -> None:
    refused = room.ask("/api/v1/captures?url=a", method="POST")
    assert (refused.status, refused.headers["Allow"]) == (405, "GET, HEAD")
    problem(room, "/api/v1/nothing", 404)
    problem(room, "/api/v1/captures/", 404)
    assert room.ask("/api/v1/statistics", {"origin": "null"}).status == 403


def test_an_archive_that_is_not_open_is_a_problem_with_a_time_to_come_back() -> None:
    room = Room()

    async def closed(work: object) -> object:
        raise UnusableArchiveError("/home", "torn")

    room.shelf.ask = closed  # type: ignore[method-assign, assignment]
    answer = room.ask("/api/v1/statistics")
    assert (answer.status, answer.headers["Retry-After"]) == (503, "30")


def test_the_description_names_every_parameter_and_answer(room: Room) -> None:
    document = described(room)
    assert document["openapi"] == "3.1.0"
    captures = document["paths"]["/api/v1/captures"]["get"]
    assert {one["name"]: one["required"] for one in captures["parameters"]} == {
        "url": True, "from": False, "to": False, "limit": False, "after": False,
    }  # fmt: skip
    assert set(captures["responses"]) == {"200", "400", "404", "429", "503"}
    order = document["paths"]["/api/v1/imports"]["post"]
    assert (order["security"], set(order["responses"])) == (
        [{"operator": []}],
        {"202", "400", "401", "403", "503"},
    )
    operations = [one for path in document["paths"].values() for one in path.values()]
    names = [one["operationId"] for one in operations]
    assert len(set(names)) == len(names) == 26
    assert all(one["description"] for op in operations for one in op["parameters"] if one["name"] != "number")


# -- whose word it is -------------------------------------------------------------------------------------


def test_who_stands_for_a_capture_is_told_to_anybody() -> None:
    signer, steward = key_number(1), key_number(2)
    fresh = response(HOME, "20260105", b"<p>one")
    window = SignedWindow(
        steward=steward.public_key().public_bytes_raw(), number=3, granted_s=fresh.capture.time_s - 2,
        starts_ms=0, lasts_ms=9_000, count=5, addresses=["192.0.2.1"],
    )  # fmt: skip
    told = (window_field(window), helper_field("5a" * 32))
    fresh = signed(signer, replace(fresh, extra=(*fresh.extra, *told)))
    other = signed(key_number(3), response(HOME, "20260105000100", b"<p>other"))
    holder = {"peer": "ab", "is_this_peer": False, "place": "192.0.2.0/24", "has_it": None, "is_absent": False,
              "proofs": "proven", "proven_s_ago": 7}  # fmt: skip
    orders: list[Order] = []
    rooms: list[Room] = []

    async def perform(order: Order, say: Say) -> OrderReport:
        assert isinstance(order, Why)
        orders.append(order)
        facts = await evidence(rooms[0].store, order.not_after_s, order.url)
        return OrderReport(facts={**(facts or {}), "holders": [holder]})

    room = Room(fresh, other, perform=perform)
    rooms.append(room)
    facts = asked(room, f"/api/v1/why?url={HOME}&date=20260105000000")
    assert (facts["fetched_by"], facts["is_signature_sound"]) == (
        signer.public_key().public_bytes_raw().hex(),
        True,
    )
    assert facts["helper"] == "5a" * 32
    assert (facts["window"]["permitted_by"], facts["window"]["addresses"]) == (
        window.steward.hex(),
        ["192.0.2.1"],
    )
    assert [one["date"] for one in facts["differs"]] == ["2026-01-05T00:01:00Z"]
    assert (facts["holders"], facts["memento"]) == ([holder], f"/web/20260105000000/{HOME}")
    newest = asked(room, f"/api/v1/why?url={HOME}")
    assert (newest["date"], newest["window"]) == ("2026-01-05T00:01:00Z", None)
    # Nothing is told of what was removed, also where it is another content of that day.
    digest = facts["differs"][0]["digest"].removeprefix("sha256:")
    room.store.archive.removed = Removals.of_subjects([subject_of("digest", digest)])
    assert asked(room, f"/api/v1/why?url={HOME}")["differs"] == []
    asked_before = len(orders)
    room.store.archive.removed = Removals.of_subjects([subject_of("host", "example.org")])
    assert room.ask(f"/api/v1/why?url={HOME}").status == 404
    assert room.ask(f"/api/v1/why?url={SITE}/never").status == 404
    assert len(orders) == asked_before


def test_a_reader_asks_a_few_times_a_second_for_the_word_of_holders() -> None:
    room = Room(response(HOME, "20260105", b"1"), client="192.0.2.5")
    statuses = [room.ask(f"/api/v1/why?url={HOME}").status for _ in range(30)]
    assert statuses[:20] == [404] * 20
    assert 429 in statuses
