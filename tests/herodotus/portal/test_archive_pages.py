"""Is every question about an address answered as the standards and DESIGN 9 say?"""

import json
import re
import zlib
from datetime import UTC, datetime
from email.utils import format_datetime
from html import unescape
from random import Random
from typing import NoReturn
from urllib.parse import quote

import anyio
import pytest

from herodotus.core.doors import Door, Passage, through
from herodotus.core.errors import UnusableArchiveError
from herodotus.core.replay import NEWER_MARK
from herodotus.core.warc import TIME_MAX_S, format_digits
from herodotus.machine import Machine
from herodotus.portal.archive_pages import ArchivePages
from herodotus.portal.archive_questions import Shelf
from herodotus.portal.handlers import Handlers
from herodotus.portal.memento import header_url
from herodotus.portal.replay import our_script
from herodotus.portal.targets import http_date
from tests.herodotus.portal.library import HOME, HOST, ORIGIN, SITE, Library, at, response
from tests.herodotus.store.making import NOW_S

FIVE_DAYS = [response(HOME, f"202601{day:02}060000", b"<p>day %d" % day) for day in (1, 2, 5, 9, 20)]


@pytest.fixture(scope="module")
def library() -> Library:
    return Library(
        *FIVE_DAYS,
        response(f"{SITE}/style.css", "20260101060001", b"p{background:url(/i.png)}", "text/css"),
        response(f"{SITE}/i.png", "20260101060002", b"\x89PNG" + bytes(range(256)) * 20, "image/png"),
        response(f"{SITE}/old", "20260101060003", b"", "text/html", 301, "Location: /new?a=1"),
        response(f"{SITE}/page", "20260102", b'<a href="/">home</a><img src=i.png>', "text/html", 200,
                 "Set-Cookie: a=1", "X-Frame-Options: DENY", "Content-Security-Policy: default-src *"),
        response("http://www.example.org/only-www", "20260102", b"www"),
        visits=((HOME, "20260107060000"), (HOME, "20260106060000")),
    )  # fmt: skip


# -- which version ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ("20260102", "20260102060000"),
        ("20260102050000", "20260102060000"),  # of that day, though another one is older
        ("20260103", "20260102060000"),  # nothing on that day: the newest older one
        ("20260104235959", "20260102060000"),  # though the next one is nearer
        ("2025", "20260101060000"),  # nothing older: the nearest newer one
        ("19990101000000", "20260101060000"),
        ("202601", "20260120060000"),  # a month means its last state
        ("2026", "20260120060000"),
        ("20260120060001", "20260120060000"),
        ("2027", "20260120060000"),
        ("20260109060", "20260109060000"),  # an odd digit more
    ],
)
def test_the_version_shown_is_that_of_the_design(library: Library, asked: str, shown: str) -> None:
    assert library.location(f"/web/{asked}/{HOME}") == f"/web/{shown}/{HOME}"


def test_a_window_that_asks_for_a_day_before_all_captures_is_led_to_where_it_is_told_so(
    library: Library,
) -> None:
    window = {"sec-fetch-dest": "document"}
    first, last = (f"/web/202601{day}060000/{HOME}" for day in ("01", "20"))
    for early in ("2025", "19990101000000", "20251231235959"):
        assert library.location(f"/web/{early}/{HOME}", window) == f"{first}#{NEWER_MARK}"
        assert library.location(f"/web/{early}/{HOME}") == first  # a program sees the date
        assert library.location(f"/web/{early}im_/{HOME}") == first.replace("/https", "im_/https")
    assert library.location(f"/web/20260101000000/{HOME}", window) == first  # of that day
    assert library.location(f"/web/2027/{HOME}", window) == last
    told = library.get(first, window).body.decode()
    assert f'<p id="{NEWER_MARK}">Nothing older is archived: this is the nearest newer version.</p>' in told


def test_of_two_versions_of_a_day_the_nearer_is_shown() -> None:
    library = Library(response(HOME, "20260101080000", b"a"), response(HOME, "20260101120000", b"b"))
    assert library.location(f"/web/20260101090000/{HOME}") == f"/web/20260101080000/{HOME}"
    assert library.location(f"/web/20260101110000/{HOME}") == f"/web/20260101120000/{HOME}"
    assert library.location(f"/web/20260101/{HOME}") == f"/web/20260101120000/{HOME}"


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ("20260103060001", "20260101060000"),  # it was looked at a second before, and was still the old one
        ("20260103070000", "20260101060000"),  # nearer to that look than to the change
        ("20260103030000", "20260101060000"),  # surely the old one: it was seen before and after
        ("20260103150000", "20260103180000"),
        ("20260103", "20260103180000"),
    ],
)
def test_a_look_that_found_nothing_new_counts_like_a_capture_of_its_day(asked: str, shown: str) -> None:
    days = [response(HOME, "20260101060000", b"old"), response(HOME, "20260103180000", b"new")]
    library = Library(days[0], visits=((HOME, "20260103060000"),))
    library.add(days[1])
    assert library.location(f"/web/{asked}/{HOME}") == f"/web/{shown}/{HOME}"


@pytest.mark.parametrize("flag", ["", "id_", "ir_", "if_", "im_", "js_", "cs_", "oe_", "mp_"])
def test_an_exact_date_is_shown_with_every_flag(library: Library, flag: str) -> None:
    answer = library.get(f"/web/20260105060000{flag}/{HOME}")
    assert answer.status == 200
    assert b"<p>day 5" in answer.body
    assert answer.headers["Memento-Datetime"] == "Mon, 05 Jan 2026 06:00:00 GMT"
    assert library.location(f"/web/20260105{flag}/{HOME}") == f"/web/20260105060000{flag}/{HOME}"


@pytest.mark.parametrize(
    "spelling",
    ["https://EXAMPLE.org", "https:/example.org/", "example.org", "https://example.org/#top",
     "https%3A%2F%2Fexample.org%2F", "https://example.org:443/", "https://example.org/?utm_source=x"],
)  # fmt: skip
def test_every_spelling_of_an_address_leads_to_its_page(library: Library, spelling: str) -> None:
    window = {"upgrade-insecure-requests": "1"}
    assert library.location(f"/web/20260105060000/{spelling}", window) == f"/web/20260105060000/{HOME}"
    answer = library.get(f"/web/20260105060000/{spelling}")  # programs have no address bar
    assert (answer.status, answer.headers["Content-Location"]) == (200, f"/web/20260105060000/{HOME}")


def test_an_imported_spelling_that_no_crawler_would_write_is_shown(library: Library) -> None:
    odd = "http://example.org/a?utm_source=1"
    other = Library(response(odd, "20260101", b"odd"))
    assert b"odd" in other.get(f"/web/20260101000000/{odd}").body


KEPT_BY_PROGRAMS = "!#$%&'()*+,/:;=?@[]~"
"""As `requests` has it; browsers keep more."""


def _followed(library: Library, target: str) -> int:
    """The status at the end of the way that a client is led."""
    for _ in range(4):
        answer = library.get(target)
        if "Location" not in answer.headers:
            return answer.status
        target = answer.headers["Location"].removeprefix(ORIGIN)
    raise AssertionError(f"a circle at {target}")


@pytest.mark.parametrize(
    "url",
    [
        "https://fonts.example/css?family=Open+Sans:400,700|Roboto",  # as a crawler writes them, by the URL standard
        "https://example.org/a|b^c[d]?e={f}^`\\g",
        "https://example.org/a%7Cb?c=%7Bd%7D",
        "https://example.org/%C3%BC?q=%C3%BC|",
        'https://example.org/a b<c>"d{e}`f',  # as files of others may have them
        "https://example.org/ü?ü=\\|",
    ],
)
def test_no_character_of_an_address_loses_its_page_on_the_way(url: str) -> None:
    library = Library(response(url, "20260101", b"one"), response(url, "20260102", b"two"))
    told = header_url(url)
    page = library.get(f"/web/*/{told}").body.decode()
    dates = [unescape(one) for one in re.findall(r'href="(/web/2026[^"]*)"', page)]
    assert len(dates) > 4
    for target in [
        *dates,
        f"/web/2026/{told}",
        f"/web/{told}",
        f"/web/20260102cs_/{told}",
        f"/search?url={quote(url)}",
    ]:
        for sent in (target, quote(target, safe=KEPT_BY_PROGRAMS)):
            assert _followed(library, sent) == 200, sent
    assert b"two" in library.get(f"/web/20260102000000id_/{told}").body


def test_an_address_that_is_stored_in_both_spellings_is_each_time_the_one_that_was_asked_for() -> None:
    raw, escaped = "https://example.org/?a=b|c", "https://example.org/?a=b%7Cc"
    library = Library(response(raw, "20260101", b"raw"), response(escaped, "20260101", b"escaped"))
    for url in (raw, escaped):
        assert library.location(f"/web/2026/{url}") == f"/web/20260101000000/{url}"
        expected = b"raw" if url == raw else b"escaped"
        assert expected in library.get(f"/web/20260101000000/{url}").body


# -- Memento ------------------------------------------------------------------------------------------------


def test_a_memento_names_its_neighbours_and_its_original(library: Library) -> None:
    answer = library.get(f"/web/20260105060000/{HOME}")
    assert answer.headers["Link"] == (
        f'<{HOME}>; rel="original", <{ORIGIN}/web/{HOME}>; rel="timegate", '
        f'<{ORIGIN}/web/timemap/link/{HOME}>; rel="timemap"; type="application/link-format", '
        f'<{ORIGIN}/web/20260101060000/{HOME}>; rel="first memento"; datetime="Thu, 01 Jan 2026 06:00:00 GMT", '
        f'<{ORIGIN}/web/20260102060000/{HOME}>; rel="prev memento"; datetime="Fri, 02 Jan 2026 06:00:00 GMT", '
        f'<{ORIGIN}/web/20260105060000/{HOME}>; rel="memento"; datetime="Mon, 05 Jan 2026 06:00:00 GMT", '
        f'<{ORIGIN}/web/20260106060000/{HOME}>; rel="next memento"; datetime="Tue, 06 Jan 2026 06:00:00 GMT", '
        f'<{ORIGIN}/web/20260120060000/{HOME}>; rel="last memento"; datetime="Tue, 20 Jan 2026 06:00:00 GMT"'
    )
    assert answer.headers["Content-Location"] == f"/web/20260105060000/{HOME}"


def test_the_time_gate_chooses_by_accept_datetime(library: Library) -> None:
    def gate(when: str) -> str:
        return library.location(f"/web/{HOME}", {"accept-datetime": when})

    assert gate("Mon, 05 Jan 2026 09:00:00 GMT") == f"{ORIGIN}/web/20260105060000/{HOME}"
    assert gate("Thu, 01 Jan 1970 00:00:00 GMT") == f"{ORIGIN}/web/20260101060000/{HOME}"
    assert library.location(f"/web/{HOME}") == f"{ORIGIN}/web/20260120060000/{HOME}"
    assert library.get(f"/web/{HOME}").headers["Vary"] == "Accept-Datetime"
    assert library.get(f"/web/{HOME}", {"accept-datetime": "yesterday"}).status == 400
    assert library.get("/web/https://nobody.example/").status == 404


def test_time_maps_list_every_memento(library: Library) -> None:
    link = library.get(f"/web/timemap/link/{HOME}")
    assert link.content_type == "application/link-format"
    lines = link.body.decode().split(",\n")
    assert lines[0] == f'<{HOME}>; rel="original"'
    assert lines[3] == (
        f'<{ORIGIN}/web/20260101060000/{HOME}>; rel="first memento"; datetime="Thu, 01 Jan 2026 06:00:00 GMT"'
    )
    assert len(lines) == 3 + 5 + 2  # with two visits
    listed = json.loads(library.get(f"/web/timemap/json/{HOME}").body)
    assert [one["datetime"] for one in listed["mementos"]["list"]][::3] == [
        "2026-01-01T06:00:00Z", "2026-01-06T06:00:00Z", "2026-01-20T06:00:00Z",
    ]  # fmt: skip
    cdxj = library.get(f"/web/timemap/cdxj/{HOME}").body.decode().splitlines()
    assert next(line.split(" ")[:2] for line in cdxj if line[0] != "!") == ["org,example)/", "20260101060000"]
    assert library.get("/web/timemap/link/https://nobody.example/").status == 404


def test_availability_answers_as_the_wayback_machine_does(library: Library) -> None:
    found = json.loads(library.get(f"/wayback/available?url={HOME}&timestamp=20260104").body)
    assert found["archived_snapshots"]["closest"] == {
        "status": "200", "available": True, "timestamp": "20260102060000",
        "url": f"{ORIGIN}/web/20260102060000/{HOME}",
    }  # fmt: skip
    none = json.loads(library.get("/wayback/available?url=https://nobody.example/").body)
    assert none == {"url": "https://nobody.example/", "archived_snapshots": {}}
    assert library.get("/wayback/available").status == 400


# -- history ------------------------------------------------------------------------------------------------


def test_the_history_as_json_is_that_of_the_contract(library: Library) -> None:
    listed = json.loads(library.get(f"/web/*/{HOME}", {"accept": "application/json"}).body)
    assert [one["date"] for one in listed] == [
        f"2026-01-{day:02}T06:00:00Z" for day in (1, 2, 5, 9, 20)
    ]  # fmt: skip
    assert set(listed[0]) >= {"url", "date", "digest", "status", "mime", "first_seen", "last_seen"}
    assert (listed[2]["visits"], listed[2]["last_seen"]) == (2, "2026-01-07T06:00:00Z")
    narrowed = json.loads(library.get(f"/web/20260102*/{HOME}", {"accept": "application/json"}).body)
    assert [one["date"] for one in narrowed] == ["2026-01-02T06:00:00Z"]


def test_the_history_page_shows_days_versions_and_what_is_unchanged(library: Library) -> None:
    page = library.get(f"/web/*/{HOME}").body.decode()
    assert "Stored 5 times" in page
    assert "found unchanged 2 times" in page
    assert f'<td class="stored"><a href="/web/20260105/{HOME}" title="stored">5</a></td>' in page
    assert f'<td class="same"><a href="/web/20260107/{HOME}" title="unchanged">7</a></td>' in page
    assert "<td>8</td>" in page
    assert "unchanged until <time>2026-01-07</time>" in page


def test_a_history_says_since_when_its_page_is_out_of_reach() -> None:
    library = Library(response(HOME, "20260101", b"one"), response(HOME, "20260103", b"other"))
    page_before = library.get(f"/web/*/{HOME}").body.decode()
    assert "Unreachable" not in page_before
    for digits, problem in (("20260104070503", "refused"), ("20260105", "<b>gone</b>")):
        anyio.run(library.store.note_failure, HOME, at(digits), problem)
    page = library.get(f"/web/*/{HOME}").body.decode()
    assert "<strong>Unreachable since <time" in page
    assert ">2026-01-04 07:05 UTC</time></strong>: &lt;b&gt;gone&lt;/b&gt;. Tried 2 times" in page
    assert page.count("<tr><td><a href=") == 2
    listed = json.loads(library.get(f"/web/*/{HOME}", {"accept": "application/json"}).body)
    assert [one.get("unreachable") for one in listed] == [
        None,
        {
            "since": "2026-01-04T07:05:03Z",
            "last": "2026-01-05T00:00:00Z",
            "reason": "<b>gone</b>",
            "tries": 2,
        },
    ]
    narrowed = library.get(f"/web/20260101*/{HOME}").body.decode()
    assert "Unreachable" not in narrowed  # the version there is not the newest
    assert len(json.loads(library.get(f"/web/timemap/json/{HOME}").body)["mementos"]["list"]) == 2
    assert len(library.get(f"/cdx?url={HOME}").body.splitlines()) == 2


def test_a_content_that_comes_back_is_called_the_same() -> None:
    library = Library(*(response(HOME, f"2026010{n}", body) for n, body in ((1, b"a"), (2, b"b"), (3, b"a"))))
    page = library.get(f"/web/*/{HOME}").body.decode()
    assert "2 different contents" in page
    assert f'the same as on <a href="/web/20260101000000/{HOME}">' in page


def test_two_versions_of_a_minute_are_told_apart() -> None:
    library = Library(
        *(response(f"{SITE}/", f"202601010600{second}", second.encode()) for second in ("05", "45"))
    )
    page = library.get(f"/web/*/{SITE}/").body.decode()
    assert ">2026-01-01 06:00:05<" in page
    assert ">2026-01-01 06:00:45<" in page


def test_how_a_version_came_into_the_network_is_said_in_its_line_and_above_the_page() -> None:
    brought = through(Passage(Door.BROUGHT_IN), response(HOME, "20260101080000", b"a"))
    healed = through(Passage(Door.LATE, is_healed=True), response(HOME, "20260102080000", b"b"))
    library = Library(brought, healed, through(Passage(Door.CRAWLED), response(HOME, "20260103080000", b"c")))
    rows = library.get(f"/web/*/{HOME}").body.decode().split("<tbody>")[-1]
    assert re.findall(r"<em>(.*?)</em>", rows) == ["came late, from other holders", "brought in"]
    facts = json.loads(library.get(f"/web/*/{HOME}", {"accept": "application/json"}).body)
    assert [one["door"] for one in facts] == ["brought-in", "late healed", "crawled"]
    window = {"sec-fetch-dest": "document"}
    pages = [library.get(f"/web/2026010{day}080000/{HOME}", window).body.decode() for day in (1, 2, 3)]
    assert ["brought in" in page for page in pages] == [True, False, False]
    assert ["came late, from other holders" in page for page in pages] == [False, True, False]


def test_search_moves_to_the_history_of_what_is_held(library: Library) -> None:
    assert library.location("/search?url=example.org") == f"/web/*/{HOME}"
    assert library.get("/search?url=example.org").status == 301
    assert (
        library.location("/search?url=www.example.org/only-www") == "/web/*/http://www.example.org/only-www"
    )
    assert library.location("/search?url=example.org/*") == "/web/*/example.org/*"
    assert library.location("/search?url=") == "/"


def test_what_is_not_archived_offers_what_is_near(library: Library) -> None:
    library.add(*(response(f"{SITE}/{case}.html", "20260101", b"x") for case in ("Case", "CASE")))
    answer = library.get("/web/2026/https://example.org/case.html")
    page = answer.body.decode()
    assert answer.status == 404
    assert f'href="/web/*/{SITE}/Case.html"' in page
    assert f'href="/web/*/{SITE}/CASE.html"' in page
    assert f'href="/web/*/{SITE}/style.css"' in page
    assert f'href="/web/*/{SITE}/*"' in page


@pytest.mark.parametrize("flag", ["im_", "js_", "cs_", "oe_"])
def test_a_part_that_is_missing_has_a_status_that_scripts_can_read_and_no_body(
    library: Library, flag: str
) -> None:
    answer = library.get(f"/web/2026{flag}/https://example.org/gone", {"origin": "null"})
    assert (answer.status, answer.body) == (404, b"")
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert answer.headers["Content-Security-Policy"].startswith("sandbox allow-forms; ")


@pytest.mark.parametrize("flag", ["mp_", "if_"])
def test_a_frame_whose_page_is_missing_says_so_and_names_what_comes_nearest(
    library: Library, flag: str
) -> None:
    library.add(
        response(f"{SITE}/Case.html", "20260101", b"x"), response(f"{SITE}/CASE.html", "20260102", b"x")
    )
    answer = library.get(f"/web/2026{flag}/https://example.org/case.html")
    assert answer.status == 404
    assert answer.headers["Content-Security-Policy"].startswith("sandbox allow-forms; ")
    assert "frame-ancestors" not in answer.headers["Content-Security-Policy"]
    page = answer.body.decode()
    assert "<p>Not archived: https://example.org/case.html</p>" in page
    near = re.search(r'<p>Nearest: <a href="/web/(\d{14})(\w+)/([^"]+)">([^<]+)</a>, \d January 2026', page)
    assert near is not None
    assert near[2] == flag
    assert near[3] == near[4] in (f"{SITE}/Case.html", f"{SITE}/CASE.html")
    assert library.get(f"/web/{near[1]}{flag}/{near[3]}").status == 200
    nothing = library.get(f"/web/2026{flag}/https://nowhere.example/<m>").body
    assert nothing.endswith(b"<p>Not archived: https://nowhere.example/%3Cm%3E</p>")
    told = library.get(f"/web/2026{flag}/https://nowhere.example/", {"accept": "application/json"})
    assert (told.status, told.content_type) == (404, "application/problem+json")


def test_a_page_in_the_sandbox_learns_that_nothing_takes_what_it_sends(library: Library) -> None:
    asked = {
        "origin": "null",
        "access-control-request-method": "POST",
        "access-control-request-headers": "x-a",
    }
    leave = library.get(f"/web/20260105060000oe_/{HOME}", asked, "OPTIONS")
    assert leave.status == 204
    assert "POST" in leave.headers["Access-Control-Allow-Methods"]
    refused = library.get(f"/web/20260105060000oe_/{HOME}", {"origin": "null"}, "POST")
    assert (refused.status, refused.headers["Access-Control-Allow-Origin"]) == (405, "*")
    for path in ("/", "/api/v1/status", "/save/https://example.org/"):
        assert library.get(path, asked, "OPTIONS").status in (403, 405)


def test_a_listing_shows_the_addresses_below(library: Library) -> None:
    page = library.get(f"/web/*/{SITE}/*").body.decode()
    for path in ("", "style.css", "i.png", "old", "page"):
        assert f'href="/web/*/{SITE}/{path}"' in page
    assert 'href="/web/*/http://www.example.org/only-www"' in page
    listed = json.loads(library.get(f"/web/*/{SITE}/i*", {"accept": "application/json"}).body)
    assert listed == {"prefix": f"{SITE}/i", "urls": [f"{SITE}/i.png"], "is_whole": True}
    assert library.get("/web/*/https://nobody.example/*").status == 404


# -- replay -------------------------------------------------------------------------------------------------


def test_a_replayed_page_leads_into_the_archive_and_nothing_it_said_reaches_the_reader(
    library: Library,
) -> None:
    answer = library.get(f"/web/20260102000000/{SITE}/page")
    assert f'href="/web/20260102000000/{SITE}/"'.encode() in answer.body
    assert f"src=/web/20260102000000im_/{SITE}/i.png".encode() in answer.body
    assert ("X-Archive-Orig-Set-Cookie", "a=1") in answer.repeated
    assert {"Set-Cookie", "X-Frame-Options"} & set(answer.headers) == set()
    assert answer.headers["Content-Security-Policy"].startswith("sandbox ")
    assert "allow-same-origin" not in answer.headers["Content-Security-Policy"]
    assert f"connect-src {ORIGIN}/web/ " in answer.headers["Content-Security-Policy"]
    assert f'href="/web/*/{SITE}/page"'.encode() in answer.body  # of the banner


def test_raw_bytes_stay_as_they_were(library: Library) -> None:
    assert library.get(f"/web/20260102000000id_/{SITE}/page").body == b'<a href="/">home</a><img src=i.png>'
    raw = library.get(f"/web/20260101060002im_/{SITE}/i.png")
    assert (raw.body[:4], raw.content_type) == (b"\x89PNG", "image/png")
    assert raw.headers["Cache-Control"] == "public, max-age=31536000, immutable"


def test_styles_are_led_into_the_archive(library: Library) -> None:
    style = library.get(f"/web/20260101060001cs_/{SITE}/style.css").body
    assert f"/web/20260101060001im_/{SITE}/i.png".encode() in style


def test_an_archived_redirect_stays_at_its_date(library: Library) -> None:
    answer = library.get(f"/web/20260101060003/{SITE}/old")
    assert (answer.status, answer.headers["Location"]) == (301, f"/web/20260101060003/{SITE}/new?a=1")


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_a_body_that_was_sent_compressed_is_shown(coding: str) -> None:
    plain = b"<p>hello</p>" * 300
    packed = zlib.compressobj(9, zlib.DEFLATED, 31 if coding == "gzip" else 15)
    body = packed.compress(plain) + packed.flush()
    library = Library(response(HOME, "20260101", body, "text/html", 200, f"Content-Encoding: {coding}"))
    answer = library.get(f"/web/20260101000000/{HOME}")
    assert plain in answer.body
    assert "Content-Encoding" not in answer.headers
    raw = library.get(f"/web/20260101000000id_/{HOME}", {"accept-encoding": "gzip"})
    assert (raw.body == body) == (coding == "gzip")
    assert raw.headers["Content-Encoding"] == "gzip"


@pytest.mark.parametrize(
    "body",
    [
        b"hello",
        b"5;x=1\r\nhello\r\n6\r\n world\r\n0\r\n\r\n",
        b"e\r\nxport const a=1;",
        b"export const a = 1;",
    ],
)
def test_what_a_head_says_of_chunks_is_told_and_not_believed(body: bytes) -> None:
    library = Library(response(HOME, "20260101", body, "text/plain", 200, "Transfer-Encoding: chunked"))
    answer = library.get(f"/web/20260101000000id_/{HOME}")
    assert answer.body == body
    assert ("X-Archive-Orig-Transfer-Encoding", "chunked") in answer.repeated
    assert "Transfer-Encoding" not in answer.headers


# -- validators, ranges, compression ------------------------------------------------------------------------


def test_what_has_not_changed_is_not_sent_again(library: Library) -> None:
    first = library.get(f"/web/20260101060002im_/{SITE}/i.png")
    tag = first.headers["ETag"]
    again = library.get(f"/web/20260101060002im_/{SITE}/i.png", {"if-none-match": f'"x", {tag}'})
    assert (again.status, again.body, again.headers["ETag"]) == (304, b"", tag)
    assert library.get(f"/web/20260101060002im_/{SITE}/i.png", {"if-none-match": '"x"'}).status == 200


@pytest.mark.parametrize(
    ("asked", "status", "start", "end"),
    [("bytes=0-9", 206, 0, 10), ("bytes=5120-", 206, 5120, 5124), ("bytes=-4", 206, 5120, 5124),
     ("bytes=10-99999", 206, 10, 5124), ("bytes=0-1,3-4", 200, 0, 5124), ("bytes=9-3", 200, 0, 5124),
     ("bytes=6000-", 416, 0, 0), ("bytes=-0", 416, 0, 0), ("lines=1-2", 200, 0, 5124)],
)  # fmt: skip
def test_ranges_are_parts_of_the_whole(
    library: Library, asked: str, status: int, start: int, end: int
) -> None:
    path = f"/web/20260101060002im_/{SITE}/i.png"
    whole = library.get(path).body
    assert len(whole) == 5124
    part = library.get(path, {"range": asked})
    assert (part.status, part.body) == (status, whole[start:end])
    if status == 206:
        assert part.headers["Content-Range"] == f"bytes {start}-{end - 1}/5124"
    other = library.get(path, {"range": "bytes=0-9", "if-range": '"another"'})
    assert (other.status, len(other.body)) == (200, 5124)


def test_text_is_compressed_for_those_who_take_it() -> None:
    library = Library(response(HOME, "20260101", b"<p>words</p>" * 500))
    plain = library.get(f"/web/20260101000000/{HOME}")
    packed = library.get(f"/web/20260101000000/{HOME}", {"accept-encoding": "br, gzip;q=0.5"})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert zlib.decompress(packed.body, 31) == plain.body
    assert packed.headers["ETag"] != plain.headers["ETag"]
    refused = library.get(f"/web/20260101000000/{HOME}", {"accept-encoding": "gzip;q=0"})
    assert refused.body == plain.body


# -- what strangers send ------------------------------------------------------------------------------------

HOSTILE = [
    "javascript:alert(1)", "file:///etc/passwd", "data:text/html,x", "ftp://example.org/", "mailto:a@b",
    "http://", "https://", "http://[::1", "http://exa mple.org/", "http://%00/", "//", "http:///", "*", "*.",
    "http://user:pass@example.org:99999/", "http://example.org/" + "a" * 20_000, "../../../../etc/passwd",
    "https://example.org/../../x", "http://ex%61mple.org/%0d%0aSet-Cookie:%20a=1", "http://a/\x00\x01",
    "https://example.org/<script>alert(1)</script>", "http://xn--/", "http://é.example/é?é", "\udcff\udcfe",
    "http://example.org/\u202egnp.exe", "https://example.org/%ff%fe", "http://1.2.3.4.5/", "http://0x7f.1/",
]  # fmt: skip


@pytest.mark.parametrize("url", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize(
    "shape",
    ["/web/2026/{}", "/web/*/{}", "/web/{}", "/web/timemap/link/{}", "/web/20260101000000id_/{}", "/search?url={}",
     "/cdx/search/cdx?url={}", "/wayback/available?url={}", "/web/*/{}*", "/web/timemap/json/{}"],
)  # fmt: skip
def test_no_address_breaks_a_page_or_a_header(library: Library, shape: str, url: str) -> None:
    answer = library.get(shape.format(url))
    assert answer.status in (200, 301, 302, 303, 400, 404, 414)
    for value in answer.headers.values():
        assert value.isascii()
        assert value.isprintable()
    if answer.content_type.startswith("text/html"):
        assert b"<script>alert" not in answer.body
        assert len(answer.body) < 30_000


@pytest.mark.parametrize(
    "target",
    ["/web/", "/web/2026", "/web/2026/", "/web/20261345/http://a/", "/web/20260101xx_/http://a/", "/web/*/",
     "/web/123/http://a/", "/web/99999999999999/http://a/", "/web/20260230/http://a/"],
)  # fmt: skip
def test_what_names_no_page_is_told_so(library: Library, target: str) -> None:
    answer = library.get(target)
    assert answer.status in (400, 404), answer.status
    assert answer.content_type.startswith("text/html")


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:5484", "127.0.0.1.evil.example", "a\r\nb", "[::1", "x" * 300, "a/b@c"],
)
def test_a_name_that_is_not_ours_is_refused(library: Library, host: str) -> None:
    for target in ("/", "/api/v1/status", f"/web/20260105060000/{HOME}"):
        refused = library.get(target, {"host": host})
        assert refused.status == 421
        assert host not in refused.body.decode()


@pytest.mark.parametrize("host", [HOST, "localhost:5484", "[::1]:5484", "192.0.2.7"])
def test_addresses_and_localhost_are_ours(library: Library, host: str) -> None:
    answer = library.get(f"/web/20260105060000/{HOME}", {"host": host})
    assert f"<http://{host}/web/{HOME}>" in answer.headers["Link"]


def test_the_public_name_is_ours_with_its_scheme() -> None:
    library = Library(*FIVE_DAYS, public_url="https://archive.example.net")
    answer = library.get(f"/web/20260105060000/{HOME}", {"host": "archive.example.net"})
    assert f"<https://archive.example.net/web/{HOME}>" in answer.headers["Link"]
    assert library.get("/", {"host": "other.example.net"}).status == 421


def test_archived_pages_reach_the_archive_and_nothing_else(library: Library) -> None:
    null = {"origin": "null"}
    assert library.get(f"/web/20260105060000/{HOME}", null).status == 200
    for target in ("/", "/api/v1/status", "/search?url=a", "/healthz"):
        assert library.get(target, null).status == 403
    assert library.get(f"/web/20260105060000js_/{HOME}", {"service-worker": "script"}).status == 403
    assert library.get("/", null, "POST").status == 403
    assert library.get(f"/web/20260105060000/{HOME}", null, "POST").status == 405


def test_public_reads_are_open_to_every_page_of_the_web(library: Library) -> None:
    for target in (
        f"/web/timemap/link/{HOME}",
        f"/cdx/search/cdx?url={HOME}",
        f"/wayback/available?url={HOME}",
    ):
        assert (
            library.get(target, {"origin": "https://other.example"}).headers["Access-Control-Allow-Origin"]
            == "*"
        )
    asked = {"origin": "https://other.example", "access-control-request-method": "GET"}
    assert library.get(f"/web/timemap/link/{HOME}", asked, "OPTIONS").status == 204


def test_an_archive_that_is_not_open_is_told(library: Library) -> None:
    def closed() -> NoReturn:
        raise UnusableArchiveError("/home/x", "the disk is gone")

    library = Library()
    library.handlers = Handlers(library.status, ArchivePages(Shelf(closed, Machine())))
    answer = library.get(f"/web/2026/{HOME}")
    assert (answer.status, b"the disk is gone" in answer.body) == (503, True)
    assert library.get("/healthz").status == 200


def test_the_stored_times_are_those_of_the_library() -> None:
    assert at("20260101") == 1_767_225_600
    assert at("2026") > NOW_S


def test_a_browser_window_gets_the_page_in_a_frame_and_everybody_else_the_page(library: Library) -> None:
    path = f"/web/20260105060000/{HOME}"
    framed = library.get(path, {"host": "192.0.2.7:5484", "sec-fetch-dest": "document"})
    assert f'src="/web/20260105060000mp_/{HOME}"'.encode() in framed.body
    assert "frame-ancestors 'none'" in framed.headers["Content-Security-Policy"]
    assert framed.headers["Memento-Datetime"] == library.get(path).headers["Memento-Datetime"]
    assert "Sec-Fetch-Dest" in framed.headers["Vary"]
    assert b"<iframe" not in library.get(path, {"sec-fetch-dest": "iframe"}).body
    assert library.get(f"/web/20260101060003/{SITE}/old", {"sec-fetch-dest": "document"}).status == 301
    image = library.get(f"/web/20260101060002/{SITE}/i.png", {"sec-fetch-dest": "document"})
    assert image.content_type == "image/png"


def test_the_script_that_pages_load_is_served_by_either_way(library: Library) -> None:
    boxed = library.get("/web/_/client.js", {"origin": "null"})
    assert (boxed.status, boxed.content_type) == (200, "text/javascript; charset=utf-8")
    named = our_script("/_hd/client.js")
    assert named is not None
    assert b"labelOf" in named.body
    assert b"labelOf" not in boxed.body
    assert b"localStorage" in boxed.body
    assert b"memory" not in named.body
    for script in (named.body, boxed.body):
        assert b"//[" not in script
        assert b"//]" not in script
    assert len(named.body) < 20_000  # in each page
    assert len(boxed.body) < 28_000
    assert our_script("/web/_/other.js") is None


def test_every_answer_about_an_address_names_the_peer_that_gave_it(library: Library) -> None:
    for target in (f"/web/*/{HOME}", f"/web/2026/{HOME}", f"/web/20260105060000/{HOME}", f"/cdx/search/cdx?url={HOME}",
                   "/web/2026/https://nobody.example/", "/web/"):  # fmt: skip
        assert library.get(target).headers["X-Herodotus-Peer"] == "evzt-oa44"
    assert "X-Herodotus-Peer" not in library.get("/").headers


def test_a_date_of_http_is_as_the_standard_library_writes_it() -> None:
    chance = Random(7)
    for time_s in (0, 86_399, 951_782_400, TIME_MAX_S, *(chance.randrange(TIME_MAX_S) for _ in range(500))):
        moment = datetime.fromtimestamp(time_s, UTC)
        assert http_date(time_s) == format_datetime(moment, usegmt=True)
        assert format_digits(time_s) == moment.strftime("%Y%m%d%H%M%S")
