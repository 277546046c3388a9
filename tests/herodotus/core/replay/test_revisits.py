"""Is every form of "nothing new" shown as the page it refers to?"""

import hashlib
from collections.abc import Callable

import pytest

from herodotus.core.replay import Reference, Shown, Unresolved, merged_head, resolution
from herodotus.core.warc import NOT_MODIFIED_PROFILE, REVISIT_PROFILE, Fields, WarcRecord, sha1_of

BODY = b"<p>day one"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nETag: a\r\nContent-Length: 10\r\n\r\n"
HEAD_304 = b"HTTP/1.1 304 Not Modified\r\nETag: b\r\nContent-Length: 0\r\nX-Day: 2\r\n\r\n"
UPDATED = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 10\r\nETag: b\r\nX-Day: 2\r\n\r\n"
HEAD_200 = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n"
URL = "http://a.example/"
HTTP = ("Content-Type", "application/http;msgtype=response")
DIGEST = ("WARC-Payload-Digest", sha1_of(BODY))


def original(url: str = URL, record_id: str = "<urn:1>", body: bytes = BODY) -> WarcRecord:
    fields = (("WARC-Type", "response"), ("WARC-Record-ID", record_id), ("WARC-Target-URI", url), HTTP)
    return WarcRecord(
        fields=(*fields, ("WARC-Date", "2026-01-01T06:00:00Z"), ("WARC-Payload-Digest", sha1_of(body))),
        block=HEAD + body,
    )


def revisit(profile: str, block: bytes, *more: tuple[str, str], record_id: str = "<urn:2>") -> WarcRecord:
    fields: Fields = (
        ("WARC-Type", "revisit"), ("WARC-Record-ID", record_id), ("WARC-Target-URI", URL), HTTP,
        ("WARC-Date", "2026-01-02T06:00:00Z"), ("WARC-Profile", profile), *more,
    )  # fmt: skip
    return WarcRecord(fields=fields, block=block)


BY_ID = ("WARC-Refers-To", "<urn:1>")
BY_DATE = (("WARC-Refers-To-Target-URI", URL), ("WARC-Refers-To-Date", "2026-01-01T06:00:00Z"))
ELSEWHERE = (("WARC-Refers-To-Target-URI", "http://b.example/"), BY_DATE[1])


def archive(*records: WarcRecord) -> Callable[[Reference], WarcRecord | None]:
    def find(reference: Reference) -> WarcRecord | None:
        for record in sorted(records, key=lambda one: one.time_s, reverse=True):
            is_that = (
                record.record_id == reference.record_id
                if reference.record_id is not None
                else record.get("WARC-Payload-Digest") == reference.digest
                if reference.digest is not None
                else record.url == reference.url
                and (reference.time_s in (None, record.time_s))
                and (reference.before_s is None or record.time_s < reference.before_s)
            )
            if is_that:
                return record
        return None

    return find


def resolve(record: WarcRecord, find: Callable[[Reference], WarcRecord | None]) -> Shown | Unresolved:
    steps = resolution(record)
    found: WarcRecord | None = None
    asked = 0
    try:
        reference = next(steps)
        while True:
            asked += 1
            assert asked < 100
            found = find(reference)
            reference = steps.send(found)
    except StopIteration as end:
        value: Shown | Unresolved = end.value
        return value


@pytest.mark.parametrize(
    ("record", "head"),
    [
        (revisit(NOT_MODIFIED_PROFILE, HEAD_304, BY_ID, *BY_DATE), UPDATED),
        (revisit(NOT_MODIFIED_PROFILE, HEAD_304), UPDATED),
        (revisit(NOT_MODIFIED_PROFILE, b"", *BY_DATE), HEAD),
        (revisit(REVISIT_PROFILE, HEAD_304, DIGEST), UPDATED),
        (revisit(REVISIT_PROFILE, HEAD_200, DIGEST, *BY_DATE), HEAD_200),
        (revisit(REVISIT_PROFILE, b"", DIGEST), HEAD),
        (revisit(REVISIT_PROFILE, HEAD_200, DIGEST, *ELSEWHERE), HEAD_200),
    ],
    ids=["304", "304 alone", "304 empty", "same 304", "same 200", "same empty", "same elsewhere"],
)
def test_each_of_the_seven_forms_shows_the_page(record: WarcRecord, head: bytes) -> None:
    url = "http://b.example/" if record.get("WARC-Refers-To-Target-URI") == "http://b.example/" else URL
    shown = resolve(record, archive(original(url)))
    assert isinstance(shown, Shown)
    assert (shown.head, shown.body, shown.original.url) == (head, BODY, url)


def test_a_capture_is_its_own_page() -> None:
    assert resolve(original(), archive()) == Shown(head=HEAD, body=BODY, original=original())


def test_a_revisit_of_a_revisit_is_followed() -> None:
    first = revisit(NOT_MODIFIED_PROFILE, HEAD_304, BY_ID, record_id="<urn:3>")
    second = revisit(NOT_MODIFIED_PROFILE, b"", ("WARC-Refers-To", "<urn:3>"))
    shown = resolve(second, archive(first, original()))
    assert isinstance(shown, Shown)
    assert (shown.head, shown.body) == (UPDATED, BODY)


def test_revisits_in_a_circle_end() -> None:
    one = revisit(NOT_MODIFIED_PROFILE, b"", ("WARC-Refers-To", "<urn:4>"), record_id="<urn:3>")
    other = revisit(NOT_MODIFIED_PROFILE, b"", ("WARC-Refers-To", "<urn:3>"), record_id="<urn:4>")
    assert isinstance(resolve(one, archive(one, other)), Unresolved)


def test_a_long_chain_ends() -> None:
    chain = [
        revisit(
            NOT_MODIFIED_PROFILE, b"", ("WARC-Refers-To", f"<urn:{number + 1}>"), record_id=f"<urn:{number}>"
        )
        for number in range(2, 40)
    ]
    shown = resolve(chain[0], archive(*chain))
    assert shown == Unresolved(reason="more than 8 visits refer to each other")


def test_what_is_not_there_is_said() -> None:
    shown = resolve(revisit(NOT_MODIFIED_PROFILE, HEAD_304), archive())
    assert shown == Unresolved(reason="what this day's visit found unchanged is not in the archive")


def test_another_payload_is_not_taken_for_the_one_that_is_meant() -> None:
    same = revisit(REVISIT_PROFILE, HEAD_200, DIGEST, *BY_DATE)
    assert isinstance(resolve(same, archive(original(body=b"<p>another"))), Unresolved)
    silent = original()
    silent = WarcRecord(fields=tuple(one for one in silent.fields if one[0] != DIGEST[0]), block=silent.block)
    assert isinstance(resolve(same, archive(silent)), Shown)


def test_the_digest_of_nothing_means_nothing() -> None:
    empty = ("WARC-Payload-Digest", sha1_of(b""))
    assert isinstance(
        resolve(revisit(REVISIT_PROFILE, HEAD_304, empty, *BY_DATE), archive(original())), Shown
    )
    odd = ("WARC-Payload-Digest", "blake3:" + hashlib.sha256(b"x").hexdigest())
    assert isinstance(resolve(revisit(REVISIT_PROFILE, HEAD_304, odd, *BY_DATE), archive(original())), Shown)


def test_dates_and_brackets_of_careless_writers_do_no_harm() -> None:
    careless = revisit(
        NOT_MODIFIED_PROFILE,
        b"",
        ("WARC-Refers-To-Target-URI", f"<{URL}>"),
        ("WARC-Refers-To-Date", "yesterday"),
    )
    assert isinstance(resolve(careless, archive(original())), Shown)


def test_a_304_brings_the_head_up_to_date_and_says_nothing_of_the_body() -> None:
    folded = b"HTTP/1.0 200 OK\nA: 1\n 2\nB: 3\n\n"
    newer = b"HTTP/1.1 304 X\r\nb: 4\r\nContent-Encoding: gzip\r\n\r\n"
    assert merged_head(newer, folded) == b"HTTP/1.0 200 OK\r\nA: 1 2\r\nb: 4\r\n\r\n"
    assert merged_head(b"nonsense", folded) == folded
