"""Are the frames of calls as `docs/protocol/calls.md` shows them, and what of others is refused?"""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dht.core.handshake import is_signed
from dht.identity import peer_key
from herodotus.peers.calls import CALL_BYTES_MAX
from herodotus.peers.net.wire import (
    FROM_CALLED,
    FROM_CALLER,
    HEAD_BYTES,
    CallFrame,
    CallHello,
    CallQuestion,
    CallRefusal,
    FrameError,
    FrameKind,
    Greeting,
    frame,
    read_head,
    signed_by_caller,
)
from tests.dht.link_world import key_from

NETWORK = bytes(range(8))
EVERY = frozenset(FrameKind)
CALLER, CALLED = key_from("caller"), key_from("called")


def content(data: bytes) -> bytes:
    kind, length = read_head(data[:HEAD_BYTES], EVERY)
    assert len(data) == HEAD_BYTES + length
    assert data[0] == kind
    return data[HEAD_BYTES:]


def test_a_greeting_is_these_bytes() -> None:
    greeting = Greeting(network=NETWORK, nonce=bytes(32))
    assert greeting.pack().hex() == "01" + "00000028" + "0001020304050607" + "00" * 32
    assert Greeting.read(content(greeting.pack())) == greeting


def test_a_hello_is_these_bytes() -> None:
    caller, called = peer_key(CALLER), peer_key(CALLED)
    signed = signed_by_caller(network=NETWORK, called=called, nonce=bytes(32), caller=caller)
    assert signed == b"herodotus/calls/1/caller" + NETWORK + called + bytes(32) + caller
    hello = CallHello(network=NETWORK, caller=caller, signature=CALLER.sign(signed))
    assert hello.pack().hex() == (
        "02" + "00000068" + "0001020304050607"
        "0ccc195ffdf36cb57ada3c449a8818d886311cfd4f5d7b537e1a2f944a1e6bb8"
        "68849e7e0390e60e90fb382c1ebb2cc7e7e9ed63f53f833c03ea6ba658c7873"
        "34505548626b4c6cef9e17d3d513317117a5f3d714e0df80274b76cf43251b804"
    )  # fmt: skip
    found = CallHello.read(content(hello.pack()))
    assert found == hello
    assert is_signed(found.caller, found.signature, signed)


def test_questions_and_answers_are_these_bytes() -> None:
    question = CallQuestion(service="echo", deadline_s=30, is_stream=False, body=b"hi")
    assert question.pack().hex() == "03" + "0000000b" + "00007530" + "04" + "6563686f" + "6869"
    stream = CallQuestion(service="echo", deadline_s=30, is_stream=True, body=b"hi")
    assert stream.pack().hex() == "04" + question.pack().hex()[2:]
    assert frame(FrameKind.ANSWER, b"hi").hex() == "05" + "00000002" + "6869"
    assert frame(FrameKind.PIECE, b"hi").hex() == "06" + "00000002" + "6869"
    assert frame(FrameKind.END).hex() == "07" + "00000000"
    assert (
        CallRefusal(reason="busy", retry_after_s=1.5).pack().hex() == "0800000008" + "000005dc" + "62757379"
    )
    assert CallRefusal(reason="service").pack().hex() == "080000000b" + "ffffffff" + "73657276696365"


@given(
    st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=32),
    st.integers(0, 10**9),
    st.booleans(),
    st.binary(max_size=200),
)
def test_every_question_comes_out_as_it_went_in(
    service: str, milliseconds: int, is_stream: bool, body: bytes
) -> None:
    asked = CallQuestion(service=service, deadline_s=milliseconds / 1000, is_stream=is_stream, body=body)
    kind = FrameKind.STREAM if is_stream else FrameKind.CALL
    assert CallQuestion.read(CallFrame(kind, content(asked.pack()))) == asked


@given(st.binary(min_size=5, max_size=5), st.sampled_from([EVERY, FROM_CALLER, FROM_CALLED]))
def test_no_head_lets_more_in_than_its_kind_may_have(head: bytes, allowed: frozenset[FrameKind]) -> None:
    try:
        kind, length = read_head(head, allowed)
    except FrameError as error:
        word = str(error)
    else:
        word = "kind" if kind in allowed and length <= CALL_BYTES_MAX + 37 else "let in"
    assert word in ("kind", "length")


@given(st.sampled_from([FrameKind.CALL, FrameKind.STREAM]), st.binary(min_size=6, max_size=80))
def test_any_bytes_are_a_question_or_refused(kind: FrameKind, data: bytes) -> None:
    with suppress(FrameError):
        asked = CallQuestion.read(CallFrame(kind, data))
        assert asked.service.isascii()
        assert len(asked.body) < len(data)


@given(st.binary(min_size=4, max_size=68))
def test_any_bytes_are_a_refusal_that_can_be_printed_or_refused(data: bytes) -> None:
    with suppress(FrameError):
        assert CallRefusal.read(data).reason.isprintable()


@pytest.mark.parametrize(
    ("kind", "length", "word"),
    [
        (FrameKind.GREETING, 39, "length"),
        (FrameKind.GREETING, 941, "length"),
        (FrameKind.HELLO, 103, "length"),
        (FrameKind.HELLO, 1005, "length"),
        (FrameKind.CALL, 5, "length"),
        (FrameKind.CALL, 5 + 32 + CALL_BYTES_MAX + 1, "length"),
        (FrameKind.ANSWER, CALL_BYTES_MAX + 1, "length"),
        (FrameKind.END, 1, "length"),
        (FrameKind.REFUSED, 69, "length"),
        (9, 4, "kind"),
        (0, 4, "kind"),
        (0x16, 4, "kind"),
    ],
)
def test_what_is_too_long_is_refused_by_its_head(kind: int, length: int, word: str) -> None:
    with pytest.raises(FrameError, match=word):
        read_head(bytes((kind,)) + length.to_bytes(4, "big"), EVERY)


@pytest.mark.parametrize("kind", sorted(FROM_CALLED))
def test_a_caller_cannot_send_what_only_the_called_says(kind: FrameKind) -> None:
    with pytest.raises(FrameError, match="kind"):
        read_head(bytes((kind,)) + (40).to_bytes(4, "big"), FROM_CALLER)


@pytest.mark.parametrize(
    "changes", [{"service": ""}, {"service": "x" * 33}, {"body": bytes(CALL_BYTES_MAX + 1)}]
)
def test_a_question_beyond_the_bounds_is_not_made(changes: dict[str, Any]) -> None:
    fields = {"service": "echo", "deadline_s": 1.0, "is_stream": False, "body": b"", **changes}
    with pytest.raises(ValueError, match="no such question"):
        CallQuestion(**fields).pack()
