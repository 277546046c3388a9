"""Validators, ranges and compression: each as RFC 9110 has it, byte by byte."""

import gzip
from http import HTTPStatus

import pytest

from herodotus.portal.answer import Answer, Request, accepts, finished

BODY = b"0123456789"
TEXT = b"archive " * 500


def of(body: bytes = BODY, content_type: str = "image/png", **fields: str) -> Answer:
    headers = {name.replace("_", "-"): value for name, value in fields.items()}
    return finished(Request(headers=headers), Answer(content_type=content_type, body=body, headers={}))


@pytest.mark.parametrize(
    ("asked", "part", "told"),
    [
        ("bytes=0-0", b"0", "bytes 0-0/10"),
        ("bytes=2-4", b"234", "bytes 2-4/10"),
        ("bytes=7-", b"789", "bytes 7-9/10"),
        ("bytes=9-99", b"9", "bytes 9-9/10"),
        ("bytes=-3", b"789", "bytes 7-9/10"),
        ("bytes=-99", BODY, "bytes 0-9/10"),
    ],
)
def test_a_range_is_its_first_to_its_last_byte(asked: str, part: bytes, told: str) -> None:
    answer = of(range=asked)
    assert (answer.status, answer.body) == (HTTPStatus.PARTIAL_CONTENT, part)
    assert answer.headers["Content-Range"] == told


@pytest.mark.parametrize("asked", ["bytes=10-", "bytes=10-12", "bytes=99-", "bytes=-0"])
def test_a_range_behind_the_end_is_refused(asked: str) -> None:
    answer = of(range=asked)
    assert (answer.status, answer.body) == (HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, b"")
    assert answer.headers["Content-Range"] == "bytes */10"


@pytest.mark.parametrize("asked", ["bytes=4-2", "bytes=-", "bytes=1-2,4-5", "lines=1-2", "bytes=a-b"])
def test_what_is_no_single_range_gets_the_whole(asked: str) -> None:
    answer = of(range=asked)
    assert (answer.status, answer.body) == (HTTPStatus.OK, BODY)


def test_a_range_of_another_version_gets_the_whole_of_this_one() -> None:
    tag = of().headers["ETag"]
    assert of(range="bytes=5-", if_range=tag).body == b"56789"
    changed = of(b"9876543210", range="bytes=5-", if_range=tag)
    assert (changed.status, changed.body) == (HTTPStatus.OK, b"9876543210")


def test_each_coding_has_a_tag_of_its_own() -> None:
    plain, packed = of(TEXT, "text/html"), of(TEXT, "text/html", accept_encoding="gzip")
    assert gzip.decompress(packed.body) == TEXT
    assert packed.headers["Content-Encoding"] == "gzip"
    assert plain.headers["ETag"] != packed.headers["ETag"]
    for answer in (plain, packed):
        assert answer.headers["Vary"] == "Accept-Encoding"
    again = of(TEXT, "text/html", accept_encoding="gzip", if_none_match=packed.headers["ETag"])
    assert (again.status, again.body) == (HTTPStatus.NOT_MODIFIED, b"")
    assert of(TEXT, "text/html", if_none_match=packed.headers["ETag"]).status == HTTPStatus.OK


@pytest.mark.parametrize(
    ("said", "is_taken"),
    [("gzip", True), ("*", True), ("br, gzip;q=0.1", True), ("", False), ("br", False)]
    + [(f"gzip;q={none}", False) for none in ("0", "0.", "0.000")]
    + [("gzip; q=0", False)],
)
def test_a_coding_is_sent_only_to_who_takes_it(said: str, is_taken: bool) -> None:
    assert accepts(Request(headers={"accept-encoding": said}), "gzip") is is_taken


def test_what_is_no_whole_good_answer_goes_as_it_is() -> None:
    missing = Answer(status=HTTPStatus.NOT_FOUND, content_type="text/html", body=TEXT, headers={})
    assert finished(Request(headers={"accept-encoding": "gzip", "range": "bytes=0-1"}), missing) is missing
