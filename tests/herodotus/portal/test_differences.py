"""Do two versions of a page show what changed, whatever is in them?"""

import gzip
import re
from html.parser import HTMLParser

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from herodotus.core.errors import UnusableArchiveError
from herodotus.core.readable import readable_text
from herodotus.portal import differences
from tests.herodotus.portal.library import HOME, SITE, response
from tests.herodotus.portal.rooms import Room

FIRST, SECOND = "20260101060000", "20260105060000"
BEFORE = "<title>News</title>" + "".join(f"<p>paragraph {n}</p>" for n in range(20)) + "<p>the quick fox</p>"
AFTER = BEFORE.replace("paragraph 3<", "paragraph three<").replace("quick", "slow") + "<p>a new end</p>"


@pytest.fixture(scope="module")
def room() -> Room:
    return Room(
        response(HOME, FIRST, BEFORE.encode()),
        response(HOME, SECOND, AFTER.encode()),
        response(f"{SITE}/i.png", FIRST, b"\x89PNG1", "image/png"),
        response(f"{SITE}/i.png", SECOND, b"\x89PNG22", "image/png"),
        response(f"{SITE}/markup", FIRST, b"<p>text</p>"),
        response(f"{SITE}/markup", SECOND, b"<div class=new>text</div>"),
    )


class Cells(HTMLParser):
    """Rows of the table as lists of texts, and every element's name."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.tags: list[str] = []
        self._is_in_cell = False
        self.feed(page.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag == "td":
            self.rows[-1].append("")
            self._is_in_cell = True

    def handle_endtag(self, tag: str) -> None:
        self._is_in_cell = self._is_in_cell and tag != "td"

    def handle_data(self, data: str) -> None:
        if self._is_in_cell:
            self.rows[-1][-1] += data


def test_versions_stand_side_by_side_with_some_lines_around_each_change(room: Room) -> None:
    page = room.ask(f"/web/diff/{FIRST}/{SECOND}/{HOME}")
    assert page.status == 200
    assert b"2 lines went, 3 lines came." in page.body
    assert Cells(page.body).rows == [
        [],
        ["News", "News"],
        ["paragraph 0", "paragraph 0"], ["paragraph 1", "paragraph 1"], ["paragraph 2", "paragraph 2"],
        ["paragraph 3", "paragraph three"],
        ["paragraph 4", "paragraph 4"], ["paragraph 5", "paragraph 5"], ["paragraph 6", "paragraph 6"],
        ["… 10 lines are the same …"],
        ["paragraph 17", "paragraph 17"], ["paragraph 18", "paragraph 18"], ["paragraph 19", "paragraph 19"],
        ["the quick fox", "the slow fox"],
        ["", "a new end"],
    ]  # fmt: skip
    assert b"the <del>quick</del> fox" in page.body
    assert b"the <ins>slow</ins> fox" in page.body


def test_one_column_has_the_old_line_above_the_new_one(room: Room) -> None:
    page = room.ask(f"/web/diff/inline/{FIRST}/{SECOND}/{HOME}")
    texts = [row[0] for row in Cells(page.body).rows if row]
    at = texts.index("paragraph 3")
    assert texts[at + 1] == "paragraph three"
    assert texts[-1] == "a new end"


def test_inexact_dates_lead_to_the_exact_ones(room: Room) -> None:
    assert room.ask("/web/diff/2025/20260106/example.org").headers["Location"] == (
        f"/web/diff/{FIRST}/{SECOND}/{HOME}"
    )
    assert room.ask(f"/web/diff/inline/2025/2026/{HOME}").headers["Location"].startswith("/web/diff/inline/")


def test_a_client_that_escapes_an_address_is_not_led_back_to_it_for_ever() -> None:
    url = f"{SITE}/?a=b|c"
    room = Room(response(url, FIRST, b"<p>one"), response(url, SECOND, b"<p>two"))
    assert room.ask(f"/web/diff/{FIRST}/{SECOND}/{url}").status == 200
    assert room.ask(f"/web/diff/{FIRST}/{SECOND}/{SITE}/?a=b%7Cc").status == 200


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        (f"{SITE}/i.png", b"They differ (5 and 6 bytes)"),
        (f"{SITE}/markup", b"Only markup or invisible content differs"),
    ],
)
def test_what_has_no_text_to_compare_says_so(room: Room, path: str, sentence: bytes) -> None:
    assert sentence in room.ask(f"/web/diff/{FIRST}/{SECOND}/{path}").body


def test_a_version_beside_itself_is_the_same(room: Room) -> None:
    page = room.ask(f"/web/diff/{FIRST}/{FIRST}/{HOME}")
    assert b"identical, byte for byte" in page.body
    assert "table" not in Cells(page.body).tags


@pytest.mark.parametrize(
    ("target", "status"),
    [
        (f"/web/diff/{FIRST}/{SECOND}/https://nobody.example/", 404),
        (f"/web/diff/{FIRST}/{HOME}", 400),
        (f"/web/diff/20261341/{SECOND}/{HOME}", 400),
        (f"/web/diff/{FIRST}/{SECOND}/mailto:a@b.example", 400),
        (f"/web/diff/{FIRST}/{SECOND}/", 400),
    ],
)
def test_what_cannot_be_compared_is_a_page_that_says_why(room: Room, target: str, status: int) -> None:
    answer = room.ask(target)
    assert (answer.status, answer.content_type) == (status, "text/html; charset=utf-8")


def test_no_reader_is_told_of_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    room = Room(response(HOME, FIRST, b"1"))

    async def torn(*_: object) -> None:
        raise UnusableArchiveError("/home/somebody", "torn")

    monkeypatch.setattr(room.shelf, "choose", torn)
    answer = room.ask(f"/web/diff/{FIRST}/{SECOND}/{HOME}")
    assert (answer.status, answer.headers["Retry-After"]) == (503, "5")
    assert b"torn" in answer.body
    assert b"somebody" not in answer.body


def test_the_history_leads_to_the_changes_between_neighbours(room: Room) -> None:
    history = room.ask(f"/web/*/{HOME}").body.decode()
    (link,) = re.findall(r'href="(/web/diff/[^"]+)"', history)
    assert room.ask(link).status == 200


HOSTILE = [
    b"<script>alert(1)</script><img src=x onerror=alert(1)>&lt;script&gt;alert(2)&lt;/script&gt;",
    b"<div>" * 100_000 + b"deep",
    b"<table>" * 2_000 + b"x",
    b"a\n" * 300_000,
    ("\u202egnirts\u202c \u0000 \ud7ff" * 1000).encode("utf-16"),
    b"<title>" + b"t" * 1_000_000,
    b"\xff\xfe\x00" * 1000,
    b"<plaintext>" + b"</table></html>" * 1000,
    b"<!--" * 10_000,
    b"",
]


@pytest.mark.parametrize("one", range(len(HOSTILE)))
@pytest.mark.parametrize(
    "mime", ["text/html", "text/plain; charset=punycode", "text/html; charset=utf-16", ""]
)
def test_hostile_pages_become_text_and_nothing_else(one: int, mime: str) -> None:
    room = Room(response(HOME, FIRST, HOSTILE[one], mime), response(HOME, SECOND, HOSTILE[one - 1], mime))
    for form in ("", "inline/"):
        page = room.ask(f"/web/diff/{form}{FIRST}/{SECOND}/{HOME}")
        assert page.status == 200
        assert len(page.body) < 2 * differences.SHOWN_CHARS_MAX
        tags = set(Cells(page.body).tags)
        assert not tags & {"script", "img", "iframe", "object"}
        assert "\u202e" not in page.body.decode()


TAGS = {
    "html", "head", "meta", "title", "link", "style", "body", "header", "a", "main", "h1", "p", "time", "table",
    "thead", "tr", "th", "tbody", "td", "del", "ins", "form", "label", "span", "input", "button", "footer",
}  # fmt: skip


@given(st.text(max_size=200), st.text(max_size=200))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_text_becomes_markup(before: str, after: str) -> None:
    pages = [response(HOME, day, text.encode("utf-8", "replace"), "text/plain; charset=utf-8")
             for day, text in ((FIRST, before), (SECOND, after))]  # fmt: skip
    page = Room(*pages).ask(f"/web/diff/{FIRST}/{SECOND}/{HOME}")
    assert page.status == 200
    assert set(Cells(page.body).tags) <= TAGS


def test_a_very_long_difference_is_cut_and_says_so() -> None:
    old = "\n".join(f"old {n}" for n in range(5_000)).encode()
    new = "\n".join(f"new {n}" for n in range(5_000)).encode()
    page = Room(response(HOME, FIRST, old, "text/plain"), response(HOME, SECOND, new, "text/plain")).ask(
        f"/web/diff/{FIRST}/{SECOND}/{HOME}"
    )
    assert b"There are more changes than are shown here." in page.body
    assert page.body.count(b"<tr") == differences.ROWS_MAX + 1


def test_text_is_read_in_its_charset_and_behind_its_coding() -> None:
    assert readable_text("Grüße".encode("latin-1"), "text/plain; charset=iso-8859-1") == "Grüße"
    assert readable_text(gzip.compress(b"<p>packed"), "text/html", "gzip") == "packed"
    assert readable_text("día".encode("utf-16"), "text/plain; charset=utf-16") == "día"
    assert readable_text(b'{"a": 1}', "application/ld+json") == '{"a": 1}'
    assert readable_text(b"%PDF", "application/pdf") is None
    assert readable_text(b"\0\1\2", "") is None
