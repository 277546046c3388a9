import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.core.capture import Capture, FetchOutcome, payload_digests

HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-type: text/html\r\nX-Folded: one\r\n two\r\nLink: <a>\r\nLINK: <b>\r\n\r\n"
)


def capture(**changes: object) -> Capture:
    sha256, sha1 = payload_digests(b"hello")
    fields: dict[str, object] = {
        "url": "http://a.example/",
        "requested_at": 1.0,
        "duration_s": 0.1,
        "request": b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n",
        "status": 200,
        "head": HEAD,
        "body": b"hello",
        "sha256": sha256,
        "sha1": sha1,
        "remote_ip": "192.0.2.1",
    }
    return Capture(**{**fields, **changes})  # type: ignore[arg-type]  # the test names fields by key


def test_headers_keep_order_and_case_and_join_folded_lines() -> None:
    assert capture().headers() == [
        ("Content-type", "text/html"),
        ("X-Folded", "one two"),
        ("Link", "<a>"),
        ("LINK", "<b>"),
    ]


def test_a_header_is_found_in_any_case() -> None:
    assert capture().header("content-TYPE") == "text/html"
    assert capture().header("Date") is None
    assert capture().header_values("link") == ["<a>", "<b>"]


def test_the_key_is_the_sha1_of_the_url() -> None:
    assert capture().key == hashlib.sha1(b"http://a.example/").digest()


def test_an_unchanged_visit_carries_no_body() -> None:
    with pytest.raises(ValueError, match="no body"):
        capture(outcome=FetchOutcome.NOT_MODIFIED)
    assert not capture(outcome=FetchOutcome.NOT_MODIFIED, body=b"").is_new


@given(
    st.lists(
        st.sampled_from(
            [
                "ETag",
                "etag ",
                "X",
                "\tETag",
                " folded",
                "\x0bETag",
                ":",
                " ",
                "a: b",
                "\xa0",
                "ETag:",
                "\r",
                "v ",
            ]
        ),
        max_size=12,
    ),
    st.sampled_from(["\r\n", "\n"]),
)
def test_a_field_is_found_as_the_list_of_all_fields_has_it(pieces: list[str], ending: str) -> None:
    lines = "".join(piece + (ending if number % 2 else ":") for number, piece in enumerate(pieces))
    head = f"HTTP/1.1 200 OK{ending}{lines}{ending}".encode("latin-1")
    found = capture(head=head)
    for name in ("ETag", "x"):
        expected = [value for field, value in found.headers() if field.lower() == name.lower()]
        assert found.header_values(name) == expected
        assert found.header(name) == (expected[0] if expected else None)
