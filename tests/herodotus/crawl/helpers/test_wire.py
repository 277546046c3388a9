"""The bytes of work: as the protocol's page has them, there and back, and safe from whatever a stranger sends."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from herodotus.core.errors import MalformedError
from herodotus.core.signatures import SignedWindow
from herodotus.crawl.helpers import wire
from herodotus.crawl.helpers.wire import BODY_BYTES_MAX, Item, Result, Tls, Work

WINDOW = SignedWindow(
    steward=bytes(range(32)),
    number=12,
    granted_s=1_700_000_000,
    starts_ms=1_500,
    lasts_ms=7_000,
    count=3,
    addresses=["93.184.0.1"],
    signature=bytes(64),
)
ITEM = Item("http://a.example/", '"1"', "", 6_500, "93.184.0.1", BODY_BYTES_MAX, WINDOW)
RESULT = Result(
    0, 200, b"HTTP/1.1 200 OK\r\n\r\n", b"hello", "93.184.0.1", 20, 110, b"GET / HTTP/1.1\r\n\r\n"
)
TAKE = "95 01 10 cd c350 ce 00700000 03"
WORK = (
    "95 01 c408 6261746368303031 cd 04e2 cd 8e94 91 97 b1 687474703a2f2f612e6578616d706c652f a3 223122 a0 cd 1964"
    " aa 39332e3138342e302e31 ce 00700000"
)
WINDOW_SHOWN = (
    "98 c420 000102…1e1f 0c ce 6553f100 cd 05dc cd 1b58 03 91 aa 39332e3138342e302e31 c440 000000…0000"
)
GIVE = (
    "93 01 c408 6261746368303031 91 9a 00 cc c8 c413 485454502f312e3120323030204f4b0d0a0d0a c405 68656c6c6f"
    " aa 39332e3138342e302e31 14 6e"
)
GIVE_END = "c412 474554202f20485454502f312e310d0a0d0a a0 c0"
TAKEN = "92 01 01"


def test_the_bytes_of_version_1_stay_what_they_are() -> None:
    assert wire.encode_take(want=16, wait_ms=50_000) == bytes.fromhex(TAKE)
    window = WINDOW_SHOWN.replace("000102…1e1f", bytes(range(32)).hex()).replace("000000…0000", "00" * 64)
    work = wire.encode_work(b"batch001", [ITEM], waited_ms=1_250, deadline_ms=36_500)
    assert work == bytes.fromhex(WORK + window)
    assert wire.encode_give(b"batch001", [RESULT]) == bytes.fromhex(GIVE + GIVE_END)
    assert wire.encode_taken(1) == bytes.fromhex(TAKEN)


def test_the_page_shows_these_bytes() -> None:
    page = (Path(__file__).parents[4] / "docs" / "protocol" / "work.md").read_text()
    for shown in (TAKE, WORK, WINDOW_SHOWN, GIVE, GIVE_END, TAKEN):
        assert shown in page


def test_what_was_sent_arrives() -> None:
    work = Work(1, b"batch001", 1_250, 36_500, [ITEM, ITEM])
    assert (
        wire.decode_work(wire.encode_work(b"batch001", work.items, waited_ms=1_250, deadline_ms=36_500))
        == work
    )
    secured = msgspec.structs.replace(RESULT, tls=Tls("TLSv1.3", "AES", bytes(32), "expired"), word="time")
    assert wire.decode_give(wire.encode_give(b"batch001", [secured])).results == [secured]
    assert wire.decode_taken(wire.encode_taken(3)).results == 3


def test_fields_of_a_later_version_are_ignored() -> None:
    told = msgspec.msgpack.decode(wire.encode_take(want=1, wait_ms=0))
    assert wire.decode_take(msgspec.msgpack.encode([*told, "more"])).want == 1


@pytest.mark.parametrize(
    ("decode", "body"),
    [
        (wire.decode_take, [2, 1, 0, 1, 3]),
        (wire.decode_take, [1, 0, 0, 1, 3]),
        (wire.decode_take, [1, 65, 0, 1, 3]),
        (wire.decode_take, [1, 1, 50_001, 1, 3]),
        (wire.decode_take, [1, 1, 0, BODY_BYTES_MAX + 1, 3]),
        (wire.decode_take, [1, 1, 0, 1, 0]),
        (wire.decode_take, [1, 1, 0, 1, 4]),
        (wire.decode_give, [1, b"short", []]),
        (wire.decode_give, [1, b"batch001", [[64, 200]]]),
        (wire.decode_give, [1, b"batch001", [[0, 1_000]]]),
        (wire.decode_give, [1, b"batch001", [[0, 200, b"", b"", "1" * 46]]]),
        (wire.decode_give, [1, b"batch001", [[0, 200, bytes((256 << 10) + 1)]]]),
        (wire.decode_give, [1, b"batch001", [[0, 200, b"", bytes(BODY_BYTES_MAX + 1)]]]),
        (wire.decode_give, [1, b"batch001", [[0, 200]] * 65]),
        (wire.decode_work, [1, b"batch001", 0, 0, [["http://a.example/", "", "", 0, "", 1]]]),
    ],
)
def test_what_breaks_a_bound_is_malformed(decode: Callable[[bytes], object], body: list[object]) -> None:
    with pytest.raises(MalformedError):
        decode(msgspec.msgpack.encode(body))


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_malformed(body: bytes) -> None:
    for decode in (wire.decode_take, wire.decode_work, wire.decode_give, wire.decode_taken):
        with suppress(MalformedError):
            decode(body)
