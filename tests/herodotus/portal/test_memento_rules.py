"""Does a portal keep the rules of Memento? Each MUST and SHOULD of RFC 7089 that a server can break, by its section.

Written from the RFC: what a link says is read by a parser of its own, not by the code that writes it.
"""

import re
from collections.abc import Mapping
from email.utils import format_datetime, parsedate_to_datetime

import pytest

from herodotus.portal.answer import Answer
from tests.herodotus.portal.library import HOME, SITE, Library, response

DATES = ("20250101000000", "20250601120000", "20260101000000")
URLS = [HOME, f"{SITE}/page?a=1&b=2", "http://www.example.org/bent"]
_LINK = re.compile(r'\s*<([^<>]*)>((?:\s*;\s*[a-z]+="[^"]*")*)\s*(?:,|\Z)')
_PARAMETER = re.compile(r';\s*([a-z]+)="([^"]*)"')
Link = tuple[str, frozenset[str], Mapping[str, str]]


def links(text: str) -> list[Link]:
    """RFC 8288. Nothing may be left over."""
    found: list[Link] = []
    at = 0
    while at < len(text.rstrip()):
        match = _LINK.match(text, at)
        assert match is not None, text[at : at + 200]
        parameters = dict(_PARAMETER.findall(match[2]))
        found.append((match[1], frozenset(parameters.get("rel", "").split()), parameters))
        at = match.end()
    return found


def related(found: list[Link], relation: str) -> list[Link]:
    return [one for one in found if relation in one[1]]


def path_of(address: str) -> str:
    return "/" + address.split("/", 3)[3]


@pytest.fixture(scope="module")
def library() -> Library:
    versions = [response(url, date, f"<p>{date} of {url}".encode()) for url in URLS for date in DATES]
    return Library(
        *versions,
        response(f"{SITE}/moved", DATES[0], b"", "text/html", 302, f"Location: {HOME}"),
        response(f"{SITE}/gone", DATES[0], b"<p>not found", "text/html", 404),
    )


def gate(library: Library, url: str, date: str = "") -> Answer:
    return library.get(f"/web/{url}", {"accept-datetime": date} if date else {})


@pytest.mark.parametrize("url", URLS)
def test_a_timegate_negotiates_as_section_4_1_says(library: Library, url: str) -> None:
    answer = gate(library, url, "Sun, 01 Jun 2025 00:00:00 GMT")
    assert answer.status == 302  # 4.2.1, a redirecting TimeGate
    assert "accept-datetime" in answer.headers["Vary"].lower()  # 2.1.2: MUST
    assert "Memento-Datetime" not in answer.headers  # 4.2.1: MUST NOT
    found = links(answer.headers["Link"])
    assert [one[0] for one in related(found, "original")] == [url]  # 2.2.1: MUST, and one alone
    # 2.1.1: without a date the most recent one SHOULD be chosen
    assert gate(library, url).headers["Location"].partition("/web/")[2].startswith(DATES[-1])
    chosen = gate(library, url, "Thu, 01 Jan 1998 00:00:00 GMT").headers["Location"]
    assert chosen.partition("/web/")[2].startswith(DATES[0])  # 4.5.3: before the first is the first
    chosen = gate(library, url, "Fri, 01 Jan 2100 00:00:00 GMT").headers["Location"]
    assert chosen.partition("/web/")[2].startswith(DATES[-1])


@pytest.mark.parametrize("date", ["yesterday", "2025-06-01", "Sun, 99 Jun 2025 00:00:00 GMT"])
def test_a_date_that_is_none_is_refused(library: Library, date: str) -> None:
    assert gate(library, HOME, date).status == 400  # 4.5.3: MUST


def test_there_is_no_gate_to_what_is_not_archived(library: Library) -> None:
    answer = gate(library, f"{SITE}/never")
    assert (answer.status, "Memento-Datetime" in answer.headers) == (404, False)  # 4.5.5


@pytest.mark.parametrize("flag", ["", "id_", "if_"])
@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("number", range(3))
def test_a_memento_says_what_it_is(library: Library, url: str, number: int, flag: str) -> None:
    answer = library.get(f"/web/{DATES[number]}{flag}/{url}")
    assert answer.status == 200
    said = answer.headers["Memento-Datetime"]
    moment = parsedate_to_datetime(said)
    assert moment.strftime("%Y%m%d%H%M%S") == DATES[number]
    assert format_datetime(moment, usegmt=True) == said  # 2.1.1: an RFC 1123 date, GMT
    assert "accept-datetime" not in answer.headers.get("Vary", "").lower()  # 4.2.1: MUST NOT on a memento
    found = links(answer.headers["Link"])
    assert [one[0] for one in related(found, "original")] == [url]  # 2.2.1: MUST
    assert len(related(found, "timegate")) == len(related(found, "timemap")) == 1  # 2.2.2, 2.2.3: SHOULD
    for address, _, parameters in related(found, "memento"):
        when = parsedate_to_datetime(parameters["datetime"])  # 2.2.4: MUST
        there = library.get(path_of(address))
        assert there.headers["Memento-Datetime"] == format_datetime(when, usegmt=True)
    assert len(related(found, "first")) == len(related(found, "last")) == 1
    assert len(related(found, "prev")) == (number > 0)
    assert len(related(found, "next")) == (number < 2)


@pytest.mark.parametrize(("path", "status"), [("moved", 302), ("gone", 404)])
def test_archived_redirects_and_errors_are_mementos(library: Library, path: str, status: int) -> None:
    """4.5.8 and 4.5.9: the status is the archived one, and Memento-Datetime tells it from one of the archive."""
    for flag in ("", "id_"):
        answer = library.get(f"/web/{DATES[0]}{flag}/{SITE}/{path}")
        assert answer.status == status
        assert "Memento-Datetime" in answer.headers
        assert related(links(answer.headers["Link"]), "original")[0][0] == f"{SITE}/{path}"


@pytest.mark.parametrize("url", URLS)
def test_a_timemap_lists_all_that_is_there_and_what_it_lists_is_there(library: Library, url: str) -> None:
    answer = library.get(f"/web/timemap/link/{url}")
    assert (answer.status, answer.content_type) == (200, "application/link-format")  # 5: MUST
    found = links(answer.body.decode())
    assert [one[0] for one in related(found, "original")] == [url]  # 5: MUST
    own = related(found, "self")[0]  # 5: SHOULD, with its type and its span
    assert own[2]["type"] == "application/link-format"
    assert path_of(own[0]) == f"/web/timemap/link/{url}"
    assert len(related(found, "timegate")) == 1  # 5: SHOULD
    mementos = related(found, "memento")
    assert len({one[0] for one in mementos}) == len(mementos) == len(DATES)
    for address, _, parameters in mementos:
        there = library.get(path_of(address))
        assert (there.status, there.headers["Memento-Datetime"]) == (200, parameters["datetime"])
    dates = [parsedate_to_datetime(one[2]["datetime"]) for one in mementos]
    assert dates == sorted(dates)
    assert (own[2]["from"], own[2]["until"]) == (mementos[0][2]["datetime"], mementos[-1][2]["datetime"])
    page = links(library.get(f"/web/{DATES[1]}/{url}").headers["Link"])
    assert related(page, "first")[0][0] == related(found, "first")[0][0]
    assert related(page, "last")[0][0] == related(found, "last")[0][0]


def test_another_spelling_names_the_address_that_is_archived(library: Library) -> None:
    """2.2.1: the original of a memento is the resource it is of, whatever was asked for."""
    answer = gate(library, "https://example.org/bent")
    assert related(links(answer.headers["Link"]), "original")[0][0] == "http://www.example.org/bent"
    timemap = links(library.get("/web/timemap/link/https://example.org/bent").body.decode())
    assert related(timemap, "original")[0][0] == "http://www.example.org/bent"


@pytest.mark.parametrize("url", [f"{SITE}/a,b;c", f'{SITE}/q?x="y"&z=<w>', f"{SITE}/ä"])
def test_no_address_breaks_a_link(url: str) -> None:
    library = Library(response(url, DATES[0], b"<p>odd"))
    found = links(library.get(f"/web/timemap/link/{url}").body.decode())
    assert len(related(found, "original")) == len(related(found, "memento")) == 1
    assert library.get(path_of(related(found, "memento")[0][0])).status == 200
