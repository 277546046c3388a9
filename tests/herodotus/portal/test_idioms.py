"""What clients of the Wayback Machine ask, in the ways in which they ask it."""

import json
from urllib.parse import quote

import pytest

from herodotus.portal.targets import parse_moment
from tests.herodotus.portal.library import HOME, SITE, Library, at, response

OLD, NEW = "20250101000000", "20260101000000"


@pytest.fixture
def library() -> Library:
    return Library(
        response(HOME, "20250101", b"<p>same"),
        response(HOME, "20260101", b"<p>new"),
        response(f"{SITE}/again", "20260102", b"<p>same"),
        response(f"{SITE}/moved", "20260101", b"", "text/html", 301, f"Location: {SITE}/again"),
        response(f"{SITE}/q?a=1&b=x%20y", "20260101", b"asked"),
    )


@pytest.mark.parametrize(
    ("date", "shown"), [("2", NEW), ("0", OLD), ("1", OLD), ("20", NEW), ("202", NEW), ("9", NEW)]
)
@pytest.mark.parametrize("flag", ["", "id_", "im_", "if_"])
def test_few_digits_name_the_years_that_begin_so(library: Library, date: str, shown: str, flag: str) -> None:
    assert library.location(f"/web/{date}{flag}/{HOME}") == f"/web/{shown}{flag}/{HOME}"


def test_years_outside_of_the_archive_are_its_ends() -> None:
    spans = {digits: parse_moment(digits) for digits in ("2", "0", "19", "202", "9")}
    assert {digits: (one.from_s, one.to_s) for digits, one in spans.items() if one is not None} == {
        "2": (at("20000101"), 2**32 - 1),
        "0": (0, 0),
        "19": (0, at("20000101") - 1),
        "202": (at("20200101"), at("20300101") - 1),
        "9": (2**32 - 1, 2**32 - 1),
    }


@pytest.mark.parametrize("flag", ["id_", "im_", "mp_"])
def test_a_flag_without_a_date_names_the_newest(library: Library, flag: str) -> None:
    assert library.location(f"/web/{flag}/{HOME}") == f"/web/{NEW}{flag}/{HOME}"
    window = {"upgrade-insecure-requests": "1"}
    led = library.location(f"/web/{flag}/{HOME}", window)
    assert (led if flag == "id_" else library.location(led, window)).startswith(f"/web/{NEW}")


def test_a_timemap_in_a_form_that_there_is_not_is_no_address(library: Library) -> None:
    assert library.get(f"/web/timemap/xml/{HOME}").status == 400
    assert library.get("/web/timemap/xml").status == 404


@pytest.mark.parametrize("flag", ["id_", "ir_"])
def test_a_redirect_as_it_came_is_a_redirect(library: Library, flag: str) -> None:
    answer = library.get(f"/web/{NEW}{flag}/{SITE}/moved")
    assert (answer.status, answer.headers["Location"]) == (301, f"/web/{NEW}{flag}/{SITE}/again")
    assert "Memento-Datetime" in answer.headers


def test_an_address_that_was_escaped_as_a_whole_is_answered_at_once(library: Library) -> None:
    for url in (HOME, f"{SITE}/q?a=1&b=x%20y"):
        answer = library.get(f"/web/{NEW}id_/{quote(url, safe='')}")
        assert (answer.status, "Memento-Datetime" in answer.headers) == (200, True)


@pytest.mark.parametrize("target", [f"/web/*/{SITE}/*", "/web/*/example.org/*", "/web/*/*.example.org/*",
                                    "/web/*/*.example.org", f"/web/2026*/{SITE}*"])  # fmt: skip
def test_what_is_below_an_address_is_listed(library: Library, target: str) -> None:
    listed = json.loads(library.get(target, {"accept": "application/json"}).body)
    assert HOME in listed["urls"]
    assert f"{SITE}/moved" in listed["urls"]


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("reverse=true", "sort=reverse"),
        ("collapseTime=4", "collapse=timestamp:4"),
        ("collapseTime=2", "limit=1"),
    ],
)
def test_a_question_in_the_words_of_older_servers(library: Library, older: str, newer: str) -> None:
    told = [library.get(f"/cdx/search/cdx?url={HOME}&{words}").body for words in (older, newer)]
    assert told[0] == told[1] != b""
    assert library.get(f"/cdx/search/cdx?url={HOME}&collapseTime=x").status == 400


@pytest.mark.parametrize("question", [f"url={HOME}", f"url={SITE}/*", "url=example.org&matchType=domain"])
@pytest.mark.parametrize("limit", [-1, -2])
def test_a_negative_limit_gives_the_last_rows(library: Library, question: str, limit: int) -> None:
    every = library.get(f"/cdx/search/cdx?{question}").body.decode().splitlines()
    last = library.get(f"/cdx/search/cdx?{question}&limit={limit}").body.decode().splitlines()
    assert last == every[limit:]


def test_a_page_that_another_one_had_before_has_its_size_and_type(library: Library) -> None:
    """Of forty pages at most sixteen have a body of their own."""
    pages = [f"{SITE}/same/{number}" for number in range(40)]
    library.add(*(response(page, "20260103", b"<p>alike") for page in pages))
    for page in pages:
        rows = json.loads(library.get(f"/web/*/{page}", {"accept": "application/json"}).body)
        assert [(row["size"], row["mime"], row["status"]) for row in rows] == [(8, "text/html", 200)]
        assert b"0 B" not in library.get(f"/web/*/{page}").body


def test_first_and_last_are_the_same_in_a_page_a_timemap_and_a_gate(library: Library) -> None:
    library.add(response(f"{SITE}/%7ea", "20240101", b"older"), response(f"{SITE}/~a", "20260101", b"newer"))
    for url in (HOME, f"{SITE}/%7ea", f"{SITE}/~a"):
        timemap = library.get(f"/web/timemap/link/{url}").body.decode()
        first = next(line for line in timemap.splitlines() if 'rel="first' in line)
        last = next(line for line in timemap.splitlines() if "last memento" in line)
        gate = library.get(f"/web/{url}").headers["Link"]
        page = library.get(library.location(f"/web/2026id_/{url}")).headers["Link"]
        for line in (first, last):
            assert line.partition(">")[0] in gate
            assert line.partition(">")[0] in page
