"""Is a page found however its address is spelled, by every question, and is it said what was bent?"""

import json

import pytest

from crawler.core.urls import canonical
from herodotus.core.removals import Removals
from herodotus.portal.archive_pages import MATCH
from tests.herodotus.portal.library import Library, response

HOST = "http://a.example"
DATE = "20260101000000"
KINDS = [
    ("https", "https://a.example/page", f"{HOST}/page", "scheme"),
    ("port", "https://a.example:80/page", f"{HOST}/page", "scheme"),
    ("www", f"{HOST}/page", "http://www.a.example/page", "www"),
    ("slash", f"{HOST}/dir/", f"{HOST}/dir", "slash"),
    ("index", f"{HOST}/dir", f"{HOST}/dir/index.html", "slash"),
    ("slashes", f"{HOST}//dir//page", f"{HOST}/dir/page", "slash"),
    ("session", f"{HOST}/page?sid=8fa1c0ffee", f"{HOST}/page", "session"),
    ("order", f"{HOST}/?b=2&a=1", f"{HOST}/?a=1&b=2", "order"),
    ("empty", f"{HOST}/?a=1&b=", f"{HOST}/?a=1", "order"),
    ("busted", f"{HOST}/data?_=1778300000000", f"{HOST}/data?_=1700000000000", "cache"),
    ("callback", f"{HOST}/data?callback=mine", f"{HOST}/data?callback=theirs", "cache"),
    ("case", f"{HOST}/PAGE", f"{HOST}/page", "case"),
    ("all", "https://a.example/Dir/?b=1&a=2", "http://www.a.example/dir/index.html?a=2&b=1",
     "scheme, www, slash, order, case"),
]  # fmt: skip
CANONICAL = [
    ("capitals", "HTTP://A.EXAMPLE/page", f"{HOST}/page"),
    ("port of the scheme", "http://a.example:80/page", f"{HOST}/page"),
    ("unicode", "http://bücher.example/", "http://xn--bcher-kva.example/"),
    ("escapes", f"{HOST}/%7ea", f"{HOST}/~a"),
    ("part", f"{HOST}/page#part", f"{HOST}/page"),
]
WINDOW = {"upgrade-insecure-requests": "1"}
JSON = {"accept": "application/json"}


@pytest.mark.parametrize(("kind", "asked", "held", "match"), KINDS)
def test_every_question_finds_another_spelling_and_says_what_was_bent(
    kind: str, asked: str, held: str, match: str
) -> None:
    library = Library(response(held, "20260101", b"theirs(1)", "text/javascript"))
    page = library.get(f"/web/{DATE}/{asked}", WINDOW)
    assert (page.status, page.headers["Location"]) == (302, f"/web/{DATE}/{held}")
    gate = library.get(f"/web/{asked}")
    assert (gate.status, gate.headers["Location"].partition("/web/")[2]) == (302, f"{DATE}/{held}")
    part = library.get(f"/web/{DATE}js_/{asked}")
    assert part.status == 200
    history = library.get(f"/web/*/{asked}")
    assert (history.status, history.headers["Location"]) == (302, f"/web/*/{held}")
    rows = library.get(f"/web/*/{asked}", JSON)
    assert [row["url"] for row in json.loads(rows.body)] == [held]
    timemap = library.get(f"/web/timemap/link/{asked}")
    assert f'<{held}>; rel="original"'.encode() in timemap.body
    quoted = asked.replace("&", "%26")
    cdx = library.get(f"/cdx/search/cdx?url={quoted}")
    assert held.encode() in cdx.body
    available = library.get(f"/wayback/available?url={quoted}")
    assert json.loads(available.body)["archived_snapshots"]["closest"]["url"].endswith(f"/web/{DATE}/{held}")
    told = [
        answer.headers.get(MATCH) for answer in (page, gate, part, history, rows, timemap, cdx, available)
    ]
    assert told == [match] * 8, kind


@pytest.mark.parametrize("flag", ["", "id_"])
@pytest.mark.parametrize("asked", ["https://a.example/page", "http://www.a.example/page", "a.example/page"])
def test_programs_get_what_a_list_names_by_any_address_of_its_key(asked: str, flag: str) -> None:
    """Many follow no redirect, and put each date of the list before the address that they were given."""
    dates = ("20260101000000", "20260201000000", "20260301000000")
    held = ("http://a.example/page", "https://www.a.example/page", "https://a.example/page")
    library = Library(*(response(*one, b"of " + one[1].encode()) for one in zip(held, dates, strict=True)))
    for url, date in zip(held, dates, strict=True):
        answer = library.get(f"/web/{date}{flag}/{asked}")
        assert (answer.status, f"of {date}".encode() in answer.body) == (200, True)
        assert answer.headers["Content-Location"] == f"/web/{date}{flag}/{url}"
    assert library.get(f"/web/20260201000001{flag}/{asked}").status == 302
    other_date = library.get(f"/web/{dates[1]}{flag}/http://a.example/pages")
    assert other_date.status == 404


@pytest.mark.parametrize(("kind", "asked", "held"), CANONICAL)
def test_one_canonical_form_is_the_address_itself(kind: str, asked: str, held: str) -> None:
    library = Library(response(held, "20260101", b"<p>x"))
    answer = library.get(f"/web/*/{asked}", JSON)
    assert ([row["url"] for row in json.loads(answer.body)], answer.headers.get(MATCH)) == ([held], None), (
        kind
    )


def test_the_exact_address_comes_first_and_a_part_of_it_is_not_bent() -> None:
    library = Library(
        response(f"{HOST}/page", "20260101", b"small"), response(f"{HOST}/PAGE", "20250101", b"large")
    )
    assert (
        library.get(f"/web/20250101000000id_/{HOST}/page").headers["Location"]
        == f"/web/{DATE}id_/{HOST}/page"
    )
    assert library.get(f"/web/20250101000000id_/{HOST}/PAGE").body == b"large"
    assert library.get(f"/web/{DATE}/{HOST}/Page").status == 404
    assert library.get(f"/web/2025*/{HOST}/page", JSON).status == 404


def test_of_equally_near_spellings_the_nearest_time_is_shown() -> None:
    library = Library(
        response(f"{HOST}/?_=1000000", "20250101", b"old"), response(f"{HOST}/?_=2000000", "20260101", b"new")
    )
    assert (
        library.location(f"/web/20250102000000/{HOST}/?_=3000000") == f"/web/20250101000000/{HOST}/?_=1000000"
    )
    assert library.location(f"/web/20251231000000/{HOST}/?_=3000000") == f"/web/{DATE}/{HOST}/?_=2000000"


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        (b"theirs(1)", b"mine(1)"),
        (b"/**/ theirs ({})", b"/**/ mine ({})"),
        (b"theirsToo(1)", b"theirsToo(1)"),
        (b"other(theirs(1))", b"other(theirs(1))"),
    ],
)
def test_a_script_calls_the_function_that_the_page_waits_with(stored: bytes, shown: bytes) -> None:
    library = Library(response(f"{HOST}/d?callback=theirs&q=1", "20260101", stored, "text/javascript"))
    answer = library.get(f"/web/{DATE}js_/{HOST}/d?callback=mine&q=1")
    assert answer.body == shown
    assert answer.headers["Cache-Control"] == "max-age=60"
    exact = library.get(f"/web/{DATE}js_/{HOST}/d?callback=theirs&q=1")
    assert (exact.body, MATCH in exact.headers) == (stored, False)


@pytest.mark.parametrize("headers", [{}, WINDOW], ids=["program", "browser"])
@pytest.mark.parametrize("flag", ["", "id_", "im_"])
@pytest.mark.parametrize(
    ("held", "location"),
    [
        (f"{HOST}/page", "https://a.example/page"),
        (f"{HOST}/page", "/page/"),
        (f"{HOST}/page", "//www.a.example/page#x"),
    ],
)
def test_a_redirect_to_another_spelling_that_is_not_archived_leads_nobody_round_and_round(
    held: str, location: str, flag: str, headers: dict[str, str]
) -> None:
    library = Library(response(held, "20260101", b"", "text/html", 301, f"Location: {location}"))
    at = f"/web/{DATE}{flag}/{held}"
    statuses = [0]
    while len(statuses) < 5 and statuses[-1] != 404:
        answer = library.get(at, headers)
        statuses.append(int(answer.status))
        at = answer.headers.get("Location", at)
    assert statuses[-1] == 404, at
    library.add(response(canonical(location, held), "20250601", b"<p>there"))
    assert b"there" in arrived(library, f"/web/{DATE}{flag}/{held}", headers)


def arrived(library: Library, at: str, headers: dict[str, str]) -> bytes:
    for _ in range(5):
        answer = library.get(at, headers)
        if not 300 <= answer.status < 400:
            return answer.body + library.get(at).body  # a browser is shown it in a frame
        at = answer.headers["Location"]
    raise AssertionError(f"round and round: {at}")


def test_what_was_removed_is_found_by_no_other_name() -> None:
    library = Library(response("http://www.a.example/page", "20260101", b"gone"))
    assert library.get(f"/web/{DATE}id_/{HOST}/page").body == b"gone"
    library.store.archive.removed = Removals.of(urls=[f"{HOST}/page"])
    assert library.get(f"/web/{DATE}id_/{HOST}/page").status == 404
    library.store.archive.removed = Removals.of(hosts=["a.example"])
    assert library.get(f"/web/{DATE}id_/https://www.a.example/page/").status == 404
