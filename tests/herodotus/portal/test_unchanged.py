"""Is a day on which other archives found nothing new shown as the page that it was, in each of their seven forms?"""

from functools import partial
from io import BytesIO

import anyio
import pytest

from herodotus.core.warc import NOT_MODIFIED_PROFILE, REVISIT_PROFILE, format_record
from herodotus.store.warc_import import ImportReport, import_file
from tests.herodotus.portal.library import HOME, ORIGIN, SITE, Library
from tests.herodotus.store.making import sha1_text

BODY = b"<p>day one"
STYLE = f"{SITE}/style.css"
OTHER = "https://other.example/same"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 10\r\n\r\n"
HEAD_304 = b'HTTP/1.1 304 Not Modified\r\nETag: "b"\r\nContent-Length: 0\r\n\r\n'
HEAD_200 = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n"
HTTP = ("Content-Type", "application/http;msgtype=response")
BY_ID = (("WARC-Refers-To", "<urn:uuid:00000000-0000-4000-8000-000000000001>"),)
BY_DATE = (("WARC-Refers-To-Target-URI", HOME), ("WARC-Refers-To-Date", "2026-01-01T06:00:00Z"))
ELSEWHERE = (("WARC-Refers-To-Target-URI", OTHER), BY_DATE[1])
DIGEST = (("WARC-Payload-Digest", sha1_text(BODY)),)


def original(url: str = HOME, body: bytes = BODY, day: int = 1) -> bytes:
    fields = (
        ("WARC-Type", "response"), ("WARC-Record-ID", f"<urn:uuid:00000000-0000-4000-8000-{day:012}>"),
        ("WARC-Target-URI", url), ("WARC-Date", f"2026-01-{day:02}T06:00:00Z"),
        ("WARC-Payload-Digest", sha1_text(body)), HTTP,
    )  # fmt: skip
    return format_record(fields, HEAD.replace(b"10", b"%d" % len(body)) + body)


def revisit(profile: str, block: bytes, *more: tuple[str, str], url: str = HOME, day: int = 2) -> bytes:
    fields = (
        ("WARC-Type", "revisit"), ("WARC-Record-ID", f"<urn:uuid:00000000-0000-4000-8000-{day:012}>"),
        ("WARC-Target-URI", url), ("WARC-Date", f"2026-01-{day:02}T06:00:00Z"), ("WARC-Profile", profile), *more,
        HTTP,
    )  # fmt: skip
    return format_record(fields, block)


def taken_in(library: Library, *records: bytes) -> ImportReport:
    return anyio.run(partial(import_file, library.store, BytesIO(b"".join(records))))


def shown(library: Library, asked: str) -> tuple[int, bytes]:
    """As a browser gets it: redirects within the archive are followed."""
    for _ in range(5):
        answer = library.get(asked)
        if answer.status not in (301, 302):
            return answer.status, answer.body
        asked = answer.headers["Location"]
    raise AssertionError(f"round and round: {asked}")


FORMS: dict[str, tuple[str, bytes, *tuple[tuple[str, str], ...]]] = {
    "304": (NOT_MODIFIED_PROFILE, HEAD_304, *BY_ID, *BY_DATE),
    "304 alone": (NOT_MODIFIED_PROFILE, HEAD_304),
    "304 empty": (NOT_MODIFIED_PROFILE, b"", *BY_DATE),
    "same 304": (REVISIT_PROFILE, HEAD_304, *DIGEST),
    "same 200": (REVISIT_PROFILE, HEAD_200, *DIGEST, *BY_DATE),
    "same empty": (REVISIT_PROFILE, b"", *DIGEST),
    "same elsewhere": (REVISIT_PROFILE, HEAD_200, *DIGEST, *ELSEWHERE),
}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_is_shown_as_the_page_of_its_day(form: str) -> None:
    library = Library()
    first = original(OTHER if form == "same elsewhere" else HOME)
    report = taken_in(library, first, revisit(*FORMS[form]), original(body=b"<p>day five", day=5))
    assert (report.skipped, report.orphans) == (0, 0), report.problems
    assert report.visits == form.startswith("304")
    for asked in ("20260102", "20260102060000", "20260103", "20260104120000"):
        assert shown(library, f"/web/{asked}id_/{HOME}") == (200, BODY)
        assert BODY in shown(library, f"/web/{asked}/{HOME}")[1]
    assert shown(library, f"/web/20260105id_/{HOME}") == (200, b"<p>day five")
    page = library.get(f"/web/*/{HOME}").body
    assert b'href="/web/20260102/' in page  # the day is in the calendar


@pytest.mark.parametrize("was_at", [HOME, "http://example.org/"])
@pytest.mark.parametrize("form", FORMS)
def test_each_form_is_a_memento_of_its_day_in_every_list(form: str, was_at: str) -> None:
    library = Library()
    profile, block, *fields = FORMS[form]
    led = [(name, was_at if value == HOME else value) for name, value in fields]
    first = original(OTHER if form == "same elsewhere" else was_at)
    report = taken_in(library, first, revisit(profile, block, *led))
    assert (report.skipped, report.orphans) == (0, 0), report.problems
    rows = [line.split(" ") for line in library.get(f"/cdx/search/cdx?url={HOME}").body.decode().splitlines()]
    assert [row[1] for row in rows if row[1][:8] == "20260102"] == ["20260102060000"]
    _, _, address, mime, status, digest, length = rows[-1]
    assert (address in (HOME, was_at), status, f"sha1:{digest}") == (True, "200", sha1_text(BODY))
    assert mime in ("warc/revisit", "text/html")
    assert int(length) > 0
    memento = f"{ORIGIN}/web/20260102060000/{address}"
    assert f"<{memento}>".encode() in library.get(f"/web/timemap/link/{address}").body
    answer = library.get(f"/web/20260102060000id_/{address}")
    assert (answer.status, answer.body) == (200, BODY)
    assert answer.headers["Memento-Datetime"] == "Fri, 02 Jan 2026 06:00:00 GMT"


@pytest.mark.parametrize("form", FORMS)
def test_a_form_whose_original_comes_later_is_told_and_then_shown(form: str) -> None:
    library = Library()
    first = original(OTHER if form == "same elsewhere" else HOME)
    report = taken_in(library, revisit(*FORMS[form]))
    assert (report.orphans, report.visits, report.stored) == (1, 0, 0)
    assert report.problems[0].reason == "a revisit whose original the archive does not have"
    status, page = shown(library, f"/web/20260102/{HOME}")
    assert (status, b"Not archived" in page) == (404, True)  # said plainly, and never a blank page
    assert taken_in(library, first, revisit(*FORMS[form])).skipped == 0
    assert shown(library, f"/web/20260102id_/{HOME}") == (200, BODY)


def test_an_unchanged_visit_that_refers_to_another_address_is_a_page_of_its_own() -> None:
    library = Library()
    report = taken_in(library, original(OTHER), revisit(NOT_MODIFIED_PROFILE, HEAD_304, *ELSEWHERE, *DIGEST))
    assert (report.visits, report.skipped) == (0, 0), report.problems
    answer = library.get(f"/web/20260102060000id_/{HOME}")
    assert (answer.status, answer.body, answer.content_type) == (200, BODY, "text/html")
    assert ("X-Archive-Orig-ETag", '"b"') in answer.repeated  # the head brought up to date


def test_a_day_that_refers_to_an_older_version_shows_that_one() -> None:
    """The page went back to what it was, and the server said 304."""
    library = Library()
    taken_in(
        library,
        original(),
        original(body=b"<p>day three", day=3),
        revisit(NOT_MODIFIED_PROFILE, HEAD_304, *BY_DATE, day=4),
    )
    assert shown(library, f"/web/20260103id_/{HOME}") == (200, b"<p>day three")
    assert shown(library, f"/web/20260104id_/{HOME}") == (200, BODY)


def test_a_page_and_what_it_embeds_are_whole_on_an_unchanged_day() -> None:
    page = b"<link rel=stylesheet href=/style.css><p>x"
    style = b"p { color: red }"
    library = Library()
    report = taken_in(
        library,
        original(body=page),
        original(STYLE, style, day=1),
        revisit(NOT_MODIFIED_PROFILE, HEAD_304, ("WARC-Payload-Digest", sha1_text(b""))),
        revisit(NOT_MODIFIED_PROFILE, HEAD_304, url=STYLE),
    )
    assert (report.stored, report.visits) == (2, 2)
    assert shown(library, f"/web/20260102id_/{HOME}") == (200, page)
    assert shown(library, f"/web/20260102060000cs_/{STYLE}") == (200, style)


def test_a_digest_that_nobody_has_is_not_answered_with_another_page() -> None:
    library = Library()
    wrong = ("WARC-Payload-Digest", sha1_text(b"never seen"))
    report = taken_in(library, original(), revisit(REVISIT_PROFILE, HEAD_200, wrong, *BY_DATE))
    assert (report.orphans, report.revisits) == (1, 0)
    assert (
        library.location(f"/web/20260102/{HOME}") == f"/web/20260101060000/{HOME}"
    )  # the nearest day, by its date
