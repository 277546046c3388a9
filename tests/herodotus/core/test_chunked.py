"""Chunks are taken away only from what is wholly chunks."""

import pytest

from herodotus.core.chunked import told_again, told_aside, without_chunks

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("recorded", "body"),
    [
        (b"5\r\nhello\r\n0\r\n\r\n", b"hello"),
        (b"5;name=value\r\nhello\r\n6 \r\n world\r\n0\r\nX-Trailer: yes\r\n\r\n", b"hello world"),
        (b"A\r\n0123456789\r\n0\r\n", b"0123456789"),
        (b"0\r\n\r\n", b""),
    ],
)
def test_chunks_are_put_together(recorded: bytes, body: bytes) -> None:
    assert without_chunks(HEAD, recorded) == body


@pytest.mark.parametrize(
    "recorded",
    [
        b"<p>the tool had put it together",
        b"5\r\nhello\r\n",  # cut before the last chunk
        b"5\r\nhel",
        b"-5\r\nhello\r\n0\r\n\r\n",
        b"+5\r\nhello\r\n0\r\n\r\n",
        b"0x5\r\nhello\r\n0\r\n\r\n",
        b"fffffffffffffffff\r\nhello\r\n0\r\n\r\n",
        b"ffffffff\r\nhello\r\n0\r\n\r\n",
        b"4\r\nhello\r\n0\r\n\r\n",
        b"5\r\nhello\r\n0\r\n\r\nand more",
        b"5\r\nhello\r\n0\r\nno trailer",
        b"5\nhello\n0\n\n",  # with bare line feeds it may be a list of numbers
        b"5\nhello\r\n0\r\n\r\n",
        b"1\n2\n0\n",
        b"0\r\n",
        b"export const a = 1;",
    ],
)
def test_what_is_not_wholly_chunks_stays(recorded: bytes) -> None:
    assert without_chunks(HEAD, recorded) == recorded


def test_without_the_header_nothing_is_taken_for_chunks() -> None:
    recorded = b"5\r\nhello\r\n0\r\n\r\n"
    assert without_chunks(b"HTTP/1.1 200 OK\r\nX-Chunked: chunked\r\n\r\n", recorded) == recorded
    assert without_chunks(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", recorded) == recorded


@pytest.mark.parametrize("name", [b"Transfer-Encoding", b"transfer-encoding", b"TRANSFER-Encoding "])
def test_a_head_that_leaves_the_archive_claims_no_chunks_and_comes_back_as_it_was(name: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\n" + name + b": chunked\r\nX: Transfer-Encoding: chunked\r\n\r\n"
    outside = told_aside(head)
    assert outside == head.replace(b"\r\n" + name, b"\r\nX-Archive-Orig-" + name, 1)
    assert without_chunks(outside, b"5\r\nhello\r\n0\r\n\r\n") == b"5\r\nhello\r\n0\r\n\r\n"
    assert told_again(outside) == head
