"""Are the bytes of notices those of the protocol's page, and is everything else refused?"""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from herodotus.copies.notice_wire import (
    decode_flags,
    decode_ids,
    decode_notices,
    decode_question,
    digest_of_ids,
    encode_ids,
    encode_notices,
    encode_question,
)
from herodotus.core.errors import MalformedError
from herodotus.core.notices import draft, encode_notice, issue, statement
from herodotus.core.removals import Subject
from herodotus.peers.calls import encode

PAGE = Path(__file__).parents[3] / "docs" / "protocol" / "notices.md"
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
NOTICE = issue(
    KEY,
    b"network1",
    draft(
        Subject("host", "example.org"),
        reason="legal",
        text="order 12",
        contact="abuse@example.net",
        issued=1_795_000_000,
        count=600,
    ),
)


def shown(data: bytes) -> str:
    return data.hex()


def test_the_example_of_the_page_is_what_is_sent() -> None:
    text = "".join(PAGE.read_text().split()).replace("`", "")
    assert shown(encode_notice(NOTICE)) in text
    assert shown(statement(b"network1", NOTICE)) in text
    assert shown(digest_of_ids([NOTICE.id])) in text


def test_lists_travel_whole() -> None:
    assert decode_question(encode_question([NOTICE.id], has_news=True)) == (digest_of_ids([NOTICE.id]), True)
    ids = [bytes([number]) * 16 for number in range(3)]
    assert decode_ids(encode_ids(ids)) == ids
    assert decode_ids(encode_ids([*ids, ids[0]])) == ids
    assert digest_of_ids(ids) == digest_of_ids(reversed(ids)) != digest_of_ids(ids[1:])
    assert decode_notices(encode_notices([NOTICE])) == [NOTICE]
    assert decode_flags(b"\x01\x00", 2) == b"\x01\x00"


def test_what_is_no_list_is_malformed() -> None:
    for question in (bytes(16), bytes(16) + b"\x02", bytes(18)):
        with pytest.raises(MalformedError):
            decode_question(question)
    with pytest.raises(MalformedError):
        decode_ids(bytes(17))
    with pytest.raises(MalformedError):
        decode_ids(bytes(16 * 3), 2)
    with pytest.raises(MalformedError):
        decode_flags(b"\x02", 1)
    with pytest.raises(MalformedError):
        decode_flags(b"\x01", 2)
    for body in (b"", b"\x90", encode([[b"x"]]), encode([[encode_notice(NOTICE)] * 65]), encode([["text"]])):
        with pytest.raises(MalformedError):
            decode_notices(body)
