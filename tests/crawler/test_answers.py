"""Answers out of bytes: framed as RFC 9112 says, however the bytes are cut."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.core.answers import (
    FIELD_BYTES_MAX,
    HEAD_BYTES_MAX,
    INTERIM_MAX,
    AnswerReader,
    BadAnswerError,
)


def read(*pieces: bytes, ends: bool = False) -> AnswerReader:
    reader = AnswerReader()
    for piece in pieces:
        reader.receive(piece)
    if ends:
        reader.end()
    return reader


@pytest.mark.parametrize(
    ("answer", "ends", "body", "is_reusable"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", False, b"hi", True),
        (b"HTTP/1.1 200\nContent-Length:2\n\nhi", False, b"hi", True),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2, 2\r\nContent-Length: 2\r\n\r\nhi", False, b"hi", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: X, Close\r\n\r\nhi", False, b"hi", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", False, b"hi", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nhi", False, b"hi", True),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 500\r\n\r\n", False, b"", True),
        (b"HTTP/1.1 204 None\r\nTransfer-Encoding: chunked\r\n\r\n", False, b"", True),
        (b"HTTP/1.1 200 OK\r\n\r\nto the end", True, b"to the end", False),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\nhi\r\n0\r\nT: x\r\n\r\n",
            False,
            b"hi",
            True,
        ),
        # Both a length and chunks: the chunks count, and the connection is not trusted any more (6.1).
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: Chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
            False,
            b"a",
            False,
        ),
        (b"HTTP/1.1 100 Go on\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na", False, b"a", True),
        # A folded line belongs to its field, so this is no length.
        (b"HTTP/1.1 200 OK\r\nX: 1\r\n Content-Length: 9\r\nContent-Length: 1\r\n\r\na", False, b"a", True),
    ],
)
def test_an_answer_ends_where_the_standard_says(
    answer: bytes, ends: bool, body: bytes, is_reusable: bool
) -> None:
    reader = read(answer, ends=ends)
    assert (reader.is_done, reader.body(), reader.is_reusable) == (True, body, is_reusable)


@pytest.mark.parametrize(
    "answer",
    [
        b"<html>",
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 99 No\r\n\r\n",
        b"HTTP/1.1 600 No\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno field\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: \0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9999999999999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"T: x\r\n" * 4_000,
        b"HTTP/1.1 100 Go on\r\n\r\n" * (INTERIM_MAX + 1),
        b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * (HEAD_BYTES_MAX // 6),
        b"HTTP/1.1 200 OK\r\nA: " + b"b" * FIELD_BYTES_MAX,
        b"HTTP/1.1 200 OK\r\nA: " + b"b" * FIELD_BYTES_MAX + b"\r\n\r\n",
    ],
)
def test_what_could_pass_for_something_else_is_refused(answer: bytes) -> None:
    with pytest.raises(BadAnswerError):
        read(answer)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
        b"HTTP/1.1 304 Not Modified\r\n\r\n",
    ],
)
def test_what_follows_an_answer_is_dropped_and_its_connection_not_used_again(answer: bytes) -> None:
    more = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    assert read(answer).is_reusable
    for pieces in ([answer + more], [answer, more], [answer[:-1], answer[-1:] + more]):
        reader = read(*pieces)
        assert (reader.is_done, reader.is_reusable, reader.body()) == (True, False, read(answer).body())


def test_an_answer_that_ended_early_is_not_whole() -> None:
    for answer in (
        b"",
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n",
    ):
        assert not read(answer, ends=True).is_done


def test_a_head_of_long_fields_is_read_in_one_pass() -> None:
    field = b"A: " + b"b" * (FIELD_BYTES_MAX - 10) + b"\r\n"
    reader = read(b"HTTP/1.1 200 OK\r\n" + field * 3 + b"Content-Length: 0\r\n\r\n")
    assert reader.is_done  # quadratic work would take most of a minute for a hundred of these
    for _ in range(100):
        read(reader.head)


def test_a_body_of_tiny_chunks_takes_little_more_than_its_size() -> None:
    reader = read(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    reader.receive(b"2\r\nhi\r\n" * 10_000)
    assert reader.body() == b"hi" * 10_000
    assert len(reader._pieces) < 300


whole = st.sampled_from(
    [
        b"HTTP/1.1 103 Early\r\nA: b\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x\r\nabc\r\nA\r\n0123456789\r\n0\r\nT: u\r\n\r\n",
        b"HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n3\nabc\n0\n\n",
    ]
)


@given(answer=whole, data=st.data())
def test_how_the_bytes_are_cut_changes_nothing(answer: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(answer)), max_size=30)))
    edges = [0, *cuts, len(answer)]
    pieces = [answer[start:end] for start, end in itertools.pairwise(edges)]
    reader, expected = read(*(piece for piece in pieces if piece)), read(answer)
    assert reader.is_done
    assert (reader.head, reader.body(), reader.status) == (expected.head, expected.body(), expected.status)


@given(st.lists(st.binary(max_size=60), max_size=8), st.booleans())
def test_no_bytes_do_anything_but_be_read_or_be_refused(pieces: list[bytes], ends: bool) -> None:
    reader = AnswerReader()
    try:
        reader.receive(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" if ends else b"HTTP/1.1 ")
        for piece in pieces:
            if not reader.is_done and piece:
                reader.receive(piece)
    except BadAnswerError:
        return
    assert reader.body_bytes == len(reader.body())
