"""Can an archive hold an answer that a browser shows as something nobody looked at? By its type, coding or size."""

import gzip
import zlib
from collections.abc import Callable

import brotli
import pytest
import zstandard

from herodotus.portal import replay
from herodotus.portal.answer import Answer
from herodotus.portal.answer_cache import Front
from herodotus.portal.differences import compare
from herodotus.store.reader import Reader
from tests.herodotus.deposits import make_deposit
from tests.herodotus.portal.library import HOME, SITE, Library, at, response

DATE = "20260101000000"
LIVE = b"<html><body><a href='http://live.example/'>x</a></body></html>"
LED = f"'/web/{DATE}/http://live.example/'".encode()
WINDOW = {"sec-fetch-dest": "document"}


def stored(body: bytes, *fields: str, url: str = HOME) -> Library:
    """An answer with just these fields."""
    head = "\r\n".join(["HTTP/1.1 200 OK", *fields, "", ""]).encode()
    return Library(make_deposit(url=url, time_s=at("20260101"), head=head, body=body))


def shown(library: Library, flag: str = "", url: str = HOME, **headers: str) -> Answer:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return library.get(f"/web/{DATE}{flag}/{url}", given)


def sandbox(answer: Answer) -> str:
    return answer.headers["Content-Security-Policy"].partition(";")[0]


@pytest.mark.parametrize("name", ["Content-type", "content-type", "CONTENT-TYPE"])
def test_a_type_counts_however_its_name_is_written_and_is_sent_once(name: str) -> None:
    answer = shown(stored(LIVE, f"{name}: text/html; charset=utf-8"))
    assert answer.content_type == "text/html; charset=utf-8"
    assert [one for one in answer.headers if one.lower() == "content-type"] == []
    assert LED in answer.body


@pytest.mark.parametrize(
    "name", ["Content-type", "content-disposition", "LINK", "set-COOKIE", "cache-control"]
)
def test_no_archived_field_is_sent_beside_one_of_ours(name: str) -> None:
    library = stored(LIVE, "Content-Type: text/html", f"{name}: text/html", f"{name.swapcase()}: text/html")
    answer = shown(library)
    names = [one.lower() for one in answer.headers] + ["content-type"]
    assert len(names) == len(set(names))
    front = Front(lambda: 1, lambda: 0.0)
    asked = f"GET /web/{DATE}/{HOME} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
    question = front.question(asked)
    assert question is not None
    front.keep(question, answer, 1)
    parts = front.answer(question)
    assert parts is not None
    assert b"".join(parts).partition(b"\r\n\r\n")[0].lower().count(b"\r\ncontent-type:") == 1


@pytest.mark.parametrize(
    "types", [("text/plain", "text/html"), ("image/png", "rubbish", "text/html"), ("text/plain, text/html",)]
)
def test_of_several_types_the_one_that_is_sent_is_the_one_that_was_rewritten(types: tuple[str, ...]) -> None:
    answer = shown(stored(LIVE, *(f"Content-Type: {one}" for one in types)))
    assert (answer.content_type, LED in answer.body) == ("text/html", True)
    other = shown(stored(LIVE, *(f"Content-Type: {one}" for one in (*types, "text/plain"))))
    assert (other.content_type, LIVE in other.body) == ("text/plain", True)


@pytest.mark.parametrize(
    "kind",
    ["text/html", "application/xhtml+xml", "text/xml", "application/xml", "image/svg+xml", "text/xsl",
     "application/atom+xml", "application/vnd.wap.xhtml+xml"],
)  # fmt: skip
def test_whatever_browsers_run_as_a_page_is_led_into_the_archive_and_framed(kind: str) -> None:
    page = (
        b"<html xmlns='http://www.w3.org/1999/xhtml'><body><a href='http://live.example/'>x</a></body></html>"
    )
    library = stored(page, f"Content-Type: {kind}")
    answer = shown(library, "mp_")
    assert f"'/web/{DATE}mp_/http://live.example/'".encode() in answer.body
    assert sandbox(answer).startswith("sandbox allow-scripts ")
    frame = library.get(f"/web/{DATE}/{HOME}", {**WINDOW, "host": "192.0.2.7:5484"})
    assert f'src="/web/{DATE}mp_/{HOME}"'.encode() in frame.body
    assert "frame-src http://192.0.2.7:5484/web/;" in frame.headers["Content-Security-Policy"]


@pytest.mark.parametrize("flag", ["if_", "mp_", "im_", "js_", "cs_", "oe_"])
def test_no_flag_gives_a_window_a_page_without_its_frame(flag: str) -> None:
    library = stored(LIVE, "Content-Type: text/html")
    answer = library.get(f"/web/{DATE}{flag}/{HOME}", WINDOW)
    assert (answer.status, answer.headers["Location"]) == (302, f"/web/{DATE}/{HOME}")


@pytest.mark.parametrize("flag", ["id_", "ir_"])
def test_a_page_as_it_was_stored_runs_no_scripts(flag: str) -> None:
    answer = shown(stored(LIVE, "Content-Type: text/html"), flag)
    assert (answer.body, sandbox(answer)) == (LIVE, "sandbox allow-forms")


def test_a_page_without_a_type_is_one_and_other_bytes_are_bytes() -> None:
    assert shown(stored(LIVE)).content_type == "text/html"
    assert LED in shown(stored(LIVE)).body
    assert (
        b"<iframe"
        in stored(gzip.compress(LIVE), "Content-Encoding: gzip").get(f"/web/{DATE}/{HOME}", WINDOW).body
    )
    assert shown(stored(b"\x89PNG")).content_type == "application/octet-stream"
    assert shown(stored(b"a {}"), "cs_").content_type == "text/css"


@pytest.mark.parametrize("label", ["utf-16", "UTF-16LE", "unicode", "utf-16be", "iso-2022-jp"])
def test_a_charset_that_was_not_read_is_not_sent(label: str) -> None:
    """A browser would read behind a harmless start what nobody looked at."""
    page = b"<p>" + b"x" * 1_100 + "<a href='http://live.example/'>".encode("utf-16-le")
    assert (
        shown(stored(page, f"Content-Type: text/html; charset={label}")).content_type
        == "text/html; charset=utf-8"
    )


def zstd(body: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(body)


def raw_deflate(body: bytes) -> bytes:
    packed = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packed.compress(body) + packed.flush()


@pytest.mark.parametrize(
    ("codings", "pack"),
    [
        (("gzip",), gzip.compress), (("x-gzip",), gzip.compress), (("br",), brotli.compress), (("zstd",), zstd),
        (("deflate",), zlib.compress), (("deflate",), raw_deflate), (("ZSTD ",), zstd), (("identity, zstd",), zstd),
        (("gzip, zstd",), lambda body: zstd(gzip.compress(body))),
        (("gzip", "br"), lambda body: brotli.compress(gzip.compress(body))),
    ],
)  # fmt: skip
@pytest.mark.parametrize("accepted", ["", "gzip, deflate, br, zstd"])
def test_a_page_is_looked_into_behind_every_coding(
    codings: tuple[str, ...], pack: Callable[[bytes], bytes], accepted: str
) -> None:
    fields = [f"Content-Encoding: {coding}" for coding in codings]
    answer = shown(stored(pack(LIVE), "Content-Type: text/html", *fields), accept_encoding=accepted)
    assert LED in answer.body
    assert "Content-Encoding" not in answer.headers


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip, gzip, gzip", gzip.compress(gzip.compress(gzip.compress(LIVE)))),
        ("zstd", zstandard.ZstdCompressor(
            compression_params=zstandard.ZstdCompressionParameters(window_log=27)).compress(LIVE * 200_000)),
        ("dcb", brotli.compress(LIVE)), ("compress", LIVE),
        ("deflate", b"\x78\x9c\x01\x63\xfe" + LIVE.ljust(0x019C) + b"\x03\x00"), ("gzip", LIVE),
    ],
    ids=["three of them", "a window too large", "unknown", "old", "of two meanings", "none at all"],
)  # fmt: skip
@pytest.mark.parametrize("flag", ["", "mp_", "im_", "id_"])
def test_what_cannot_be_decoded_here_is_not_left_to_the_browser(coding: str, body: bytes, flag: str) -> None:
    """But who asks for it as it came has it so, in a window without scripts."""
    library = stored(body, "Content-Type: text/html", f"Content-Encoding: {coding}")
    answer = shown(library, flag, accept_encoding="gzip, deflate, br, zstd" if flag != "id_" else "br")
    if flag == "id_":
        assert (answer.body, answer.headers["Content-Encoding"]) == (body, coding)
        assert sandbox(answer) == "sandbox allow-forms"
    else:
        assert answer.content_type == "application/octet-stream"
        assert "Content-Encoding" not in answer.headers
    assert ("X-Archive-Orig-Content-Encoding", coding) in answer.repeated


def test_a_page_beyond_the_bound_goes_out_as_it_is_and_runs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "REWRITTEN_BYTES_MAX", 1_000)
    page = LIVE + b" " * 1_000
    for library in (
        stored(page, "Content-Type: text/html"),
        stored(gzip.compress(page), "Content-Type: text/html", "Content-Encoding: gzip"),
    ):
        answer = shown(library, "mp_")
        assert (answer.body, sandbox(answer)) == (page, "sandbox allow-forms")
        assert b"<iframe" in library.get(f"/web/{DATE}/{HOME}", WINDOW).body


def test_a_page_that_grows_beyond_its_bound_is_not_rewritten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "RESULT_BYTES_MAX", 1_000_000)
    page = b"<a href='/'>" * 30_000
    answer = shown(stored(page, "Content-Type: text/html"), "mp_")
    assert (answer.body, sandbox(answer)) == (page, "sandbox allow-forms")


@pytest.mark.parametrize(
    "page",
    [b"<a href=b>" * 6_000, b"<a href=?b>" * 6_000, b"<p style='" + b"background:url(b);" * 3_000 + b"'>",
     b"<base href='http://b.example/" + b"x/" * 8_000 + b"'>" + b"<img src=\"b\">" * 4_000,
     b"<base href='http://" + b"b" * 9_000 + b"/'>" + b"<img src=\"/b\">" * 4_000],
    ids=["names", "queries", "styles", "a base", "a host"],
)  # fmt: skip
def test_a_long_address_does_not_make_every_link_long(page: bytes) -> None:
    """A link of one letter would become four thousand, and a page of a megabyte some hundred."""
    url = f"{SITE}/{'x' * 3_900}/"
    answer = shown(stored(page, "Content-Type: text/html", url=url), "mp_", url)
    assert answer.status == 200
    assert len(answer.body) < 60 * len(page)


def test_a_difference_is_of_what_was_meant_and_not_of_its_coding() -> None:
    """What the head says of chunks is not so in the archive."""
    fields = ("Transfer-Encoding: chunked", "Content-encoding: gzip")
    text = b"<p>a word that is kept</p>"
    library = Library(
        response(HOME, "20260101", text, "text/html", 200, *fields[:1]),
        response(HOME, "20260102", text, "text/html"),
        response(HOME, "20260103", gzip.compress(b"<p>a word that is new</p>"), "text/html", 200, *fields),
    )
    reader = Reader(library.store.archive)
    captures = [reader.newest(HOME, at(f"2026010{day}")) for day in (1, 2, 3)]
    first, second, third = (one for one in captures if one is not None)
    same = compare(HOME, first, second).runs
    assert same is not None
    assert [run.lines for run in same] == [("a word that is kept",)]
    changed = compare(HOME, second, third).runs
    assert changed is not None
    assert [run.lines for run in changed] == [("a word that is kept",), ("a word that is new",)]
