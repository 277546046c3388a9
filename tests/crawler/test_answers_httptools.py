"""Why answers are framed by our own reader: what httptools (llhttp, of Node.js) refuses or lets pass otherwise.

The archive keeps a head as it came in, and browsers read what these servers send. When a case below passes there,
ADR 10 is to be judged again.
"""

import httptools
import pytest

from crawler.core.answers import AnswerReader, BadAnswerError

LENIENT = {
    "lenient_headers": True,
    "lenient_chunked_length": True,
    "lenient_optional_cr_before_lf": True,
    "lenient_optional_crlf_after_chunk": True,
    "lenient_spaces_after_chunk_size": True,
}


class Told:
    def __init__(self) -> None:
        self.fields: list[tuple[bytes, bytes]] = []
        self.body = b""
        self.is_whole = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self.fields.append((name, value))

    def on_body(self, data: bytes) -> None:
        self.body += data

    def on_message_complete(self) -> None:
        self.is_whole = True


def told_by_httptools(answer: bytes, *, is_lenient: bool) -> Told:
    told = Told()
    parser = httptools.HttpResponseParser(told)
    if is_lenient:
        parser.set_dangerous_leniencies(**LENIENT)
    parser.feed_data(answer)
    return told


@pytest.mark.parametrize(
    "fields",
    [
        b"Server : old\r\nContent-Length: 2",
        b"Content-Length: 2\r\nContent-Length: 2",
        b"Content-Length: 2, 2",
    ],
)
@pytest.mark.parametrize("is_lenient", [False, True])
def test_what_servers_send_and_browsers_show_is_refused_by_httptools(fields: bytes, is_lenient: bool) -> None:
    answer = b"HTTP/1.1 200 OK\r\n" + fields + b"\r\n\r\nhi"
    reader = AnswerReader()
    reader.receive(answer)
    assert (reader.is_done, reader.body(), reader.head) == (True, b"hi", answer[:-2])
    with pytest.raises(httptools.HttpParserError):
        told_by_httptools(answer, is_lenient=is_lenient)


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (b"HTTP/1.1 200 OK\nContent-Length: 2\n\nhi", b"hi"),
        (b"HTTP/1.1 200 OK\r\nX: 1\r\n folded\r\nContent-Length: 2\r\n\r\nhi", b"hi"),
        (b"HTTP/1.1 200 OK\r\nSet-Cookie: a\x01b\r\nContent-Length: 2\r\n\r\nhi", b"hi"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
            b"a",
        ),
    ],
)
def test_what_httptools_takes_only_when_it_is_lenient_is_taken_by_us(answer: bytes, body: bytes) -> None:
    reader = AnswerReader()
    reader.receive(answer)
    assert (reader.is_done, reader.body()) == (True, body)
    with pytest.raises(httptools.HttpParserError):
        told_by_httptools(answer, is_lenient=False)
    assert told_by_httptools(answer, is_lenient=True).body == body


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nA: \0\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
        b"HTTP/1.1 600 No\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"T: x\r\n" * 4_000 + b"\r\n",
    ],
)
def test_a_lenient_httptools_lets_pass_what_we_refuse(answer: bytes) -> None:
    with pytest.raises(BadAnswerError):
        AnswerReader().receive(answer)
    assert told_by_httptools(answer, is_lenient=True).is_whole


def test_white_space_of_a_head_is_lost_to_httptools_and_kept_by_us() -> None:
    """So the head's bytes would have to be looked for all the same, which is most of our reader's work for a head."""
    answer = b"HTTP/1.1 200 OK\r\nA:\t b \r\nContent-Length:0\r\n\r\n"
    reader = AnswerReader()
    reader.receive(answer)
    assert reader.head == answer
    fields = told_by_httptools(answer, is_lenient=True).fields
    assert b"".join(b"%b: %b\r\n" % field for field in fields) not in answer
