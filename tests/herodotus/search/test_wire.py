"""The bytes of questions in words: as the protocol's page has them, there and back, and safe from whatever a stranger
sends."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from herodotus.core.errors import MalformedError
from herodotus.core.search.answers import Answer, Hit, Run, Shown, Told, place_of
from herodotus.core.search.cover import Arc
from herodotus.core.search.fields import OPEN, spell_id
from herodotus.core.search.grammar import parse
from herodotus.core.search.questions import Order
from herodotus.core.search.weights import Frequencies, Having, Weight
from herodotus.search import wire
from herodotus.search.wire import Asked

NOW_S = 1_772_352_000
ASKED = Asked(
    question=parse('ferry "net loft" OR boat -site:b.example on:2026-03-01', NOW_S),
    hits=10,
    arcs=(Arc(0x3000000000000000, 0x5000000000000000),),
    weights={"ferry": Weight(4.5, 2.25)},
    after=(-1.5, 7),
    now_s=NOW_S,
)
ASK = (
    "99 01 0a 92 05 93 92 01 a5 6665727279 92 06 92 92 02 a8 6e6574206c6f6674 92 01 a4 626f6174"
    " 92 04 93 03 a4 73697465 a9 622e6578616d706c65 a9 72656c6576616e6365 93 a2 6f6e ce 69a4d2ff ce 69a4d2ff"
    " 91 92 c408 3000000000000000 c408 5000000000000000 91 93 a5 6665727279 cb 4012000000000000 cb 4002000000000000"
    " 92 cb bff8000000000000 c408 0000000000000007 ce 69a3f200"
)
POSITION = 0x4000000000000001
HIT = Hit(
    id=spell_id(POSITION, 1_772_000_000),
    position=POSITION,
    first_s=1_772_000_000,
    until_s=OPEN,
    score=1.25,
    versions=2,
    place=place_of(Order.RELEVANCE, POSITION, score=1.25, first_s=1_772_000_000, versions=2),
)
ANSWERED = Answer(
    hits=(HIT,),
    pages=1,
    versions=2,
    is_whole=True,
    has_more=False,
    documents=300,
    facets={"host": (("a.example", 1),)},
    likelier={},
)
ANSWER = (
    "98 01 01 02 cd 012c c3 c2 91 95 c408 4000000000000001 ce 699e9300 ce ffffffff cb 3ff4000000000000 02"
    " 81 a4 686f7374 91 92 a9 612e6578616d706c65 01"
)
WORDS = "92 01 92 a5 6665727279 a4 62656c6c"
HAVING = "93 01 cd 012c 92 92 01 07 92 00 02"
SHOW = "93 01 91 a5 6665727279 91 92 c408 4000000000000001 ce 699e9300"
TOLD = Told(
    Shown(
        url="https://a.example/",
        title="Ferry",
        snippet=(Run("the "), Run("ferry", True)),
        first_s=0,
        until_s=None,
        status=200,
        media_type="text/html",
        language="en",
        digest="sha1:AB",
        versions=0,
    ),
    b"\0\0\0\1",
)
SHOWN = (
    "92 01 91 99 00 b2 68747470733a2f2f612e6578616d706c652f a5 4665727279 92 92 a4 74686520 c2 92 a5 6665727279 c3"
    " cc c8 a9 746578742f68746d6c a2 656e a7 736861313a4142 c404 00000001"
)


def test_the_bytes_of_version_1_stay_what_they_are() -> None:
    assert wire.encode_ask(ASKED) == bytes.fromhex(ASK)
    assert wire.encode_answer(ANSWERED) == bytes.fromhex(ANSWER)
    assert wire.encode_ask_words(["ferry", "bell"]) == bytes.fromhex(WORDS)
    assert wire.encode_words(Frequencies(300, (Having(1, 7), Having(0, 2)))) == bytes.fromhex(HAVING)
    assert wire.encode_ask_shown(["ferry"], [(POSITION, 1_772_000_000)]) == bytes.fromhex(SHOW)
    assert wire.encode_shown({0: TOLD}) == bytes.fromhex(SHOWN)


def test_the_page_shows_these_bytes() -> None:
    page = (Path(__file__).parents[3] / "docs" / "protocol" / "search.md").read_text()
    lines = " ".join(page.split())
    for shown in (ASK, ANSWER, WORDS, HAVING, SHOW, SHOWN):
        assert " ".join(shown.split()) in lines


def test_what_was_sent_arrives() -> None:
    assert wire.decode_ask(bytes.fromhex(ASK)) == ASKED
    first = msgspec.structs.replace(ASKED, after=None)
    assert wire.decode_answer(bytes.fromhex(ANSWER), first) == ANSWERED
    assert wire.decode_ask_words(bytes.fromhex(WORDS)) == ("ferry", "bell")
    assert wire.decode_words(bytes.fromhex(HAVING), 2) == Frequencies(300, (Having(1, 7), Having(0, 2)))
    assert wire.decode_ask_shown(bytes.fromhex(SHOW)) == (("ferry",), [(POSITION, 1_772_000_000)])
    assert wire.decode_shown(bytes.fromhex(SHOWN)) == {0: TOLD}


@pytest.mark.parametrize(
    "text", ["ferry", "title:a -b", "(a b) OR c", "status:404 d order:oldest", "e vanished:2026"]
)
def test_every_question_arrives_as_it_was_asked(text: str) -> None:
    asked = msgspec.structs.replace(ASKED, question=parse(text, NOW_S), after=None)
    assert wire.decode_ask(wire.encode_ask(asked)) == asked


def test_fields_of_a_later_version_are_ignored() -> None:
    told = msgspec.msgpack.decode(bytes.fromhex(WORDS))
    assert wire.decode_ask_words(msgspec.msgpack.encode([*told, "more"])) == ("ferry", "bell")


def asked_with(place: int, value: Any) -> bytes:
    told = msgspec.msgpack.decode(bytes.fromhex(ASK))
    told[place] = value
    return msgspec.msgpack.encode(told)


def nested(depth: int) -> Any:
    tree: Any = [1, "ferry"]
    for _ in range(depth):
        tree = [5, [tree, [1, "bell"]]]
    return tree


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (0, 2),
        (1, 0),
        (1, 101),
        (2, [7, "ferry"]),
        (2, [1]),
        (2, [4, [1, "ferry"]]),
        (2, [6, [[1, "ferry"], [4, [1, "bell"]]]]),
        (2, [5, []]),
        (2, nested(8)),
        (2, nested(100)),
        (2, [5, [[1, "a"]] * 65]),
        (2, [5, [[1, "a" * 1_100], [1, "b" * 1_100]]]),
        (2, [3, "colour", "red"]),
        (2, [3, "status", "²²²"]),
        (2, [3, "status", "4040"]),
        (3, "best"),
        (4, ["on", 5, 6]),
        (4, ["between", 6, 5]),
        (4, ["between", 0, 2**40]),
        (4, ["ever", 0, 1]),
        (5, []),
        (5, [[b"\0" * 8, b"\0" * 7]]),
        (5, [[b"\0" * 8, b"\0" * 8]] * 65),
        (6, [["ferry", float("nan"), 1.0]]),
        (6, [["ferry", float("inf"), 1.0]]),
        (6, [["ferry", 0.0, 1.0]]),
        (6, [["ferry", 1.0, 51.0]]),
        (6, [["f" * 65, 1.0, 1.0]]),
        (6, [["f", 1.0, 1.0]] * 65),
        (7, [float("nan"), b"\0" * 8]),
        (7, [1.0, b"\0" * 9]),
        (8, -1),
    ],
)
def test_a_question_that_breaks_a_bound_is_refused(place: int, value: Any) -> None:
    with pytest.raises(MalformedError):
        wire.decode_ask(asked_with(place, value))


def test_what_is_longer_than_its_bound_is_not_even_read() -> None:
    for decode, most in (
        (wire.decode_ask, wire.ASK_BYTES_MAX),
        (wire.decode_ask_words, wire.ASK_BYTES_MAX),
        (wire.decode_ask_shown, wire.ASK_BYTES_MAX),
        (wire.decode_shown, wire.SHOW_BYTES_MAX),
        (lambda body: wire.decode_words(body, 1), wire.ANSWER_BYTES_MAX),
        (lambda body: wire.decode_answer(body, ASKED), wire.ANSWER_BYTES_MAX),
    ):
        with pytest.raises(MalformedError, match="bytes where"):
            decode(b"\xc1" * (most + 1))


def test_endless_nesting_is_refused() -> None:
    begin, _, end = bytes.fromhex(ASK).partition(bytes.fromhex("92 05"))
    with pytest.raises(MalformedError):
        wire.decode_ask(begin + b"\x92\x04" * 5_000 + b"\x92\x01\xa1a" + end)


def answered_with(place: int, value: Any) -> bytes:
    told = msgspec.msgpack.decode(bytes.fromhex(ANSWER))
    told[place] = value
    return msgspec.msgpack.encode(told)


def hit_with(place: int, value: Any) -> bytes:
    told = msgspec.msgpack.decode(bytes.fromhex(ANSWER))[6][0]
    told[place] = value
    return answered_with(6, [told])


@pytest.mark.parametrize(
    "body",
    [
        answered_with(1, -1),
        answered_with(1, 2**32),
        answered_with(6, [msgspec.msgpack.decode(bytes.fromhex(ANSWER))[6][0]] * 2),
        answered_with(6, [[]] * 1_000),
        answered_with(7, {"colour": [["red", 1]]}),
        answered_with(7, {"host": [["a", 1]] * 21}),
        answered_with(7, {"host": [["a" * 256, 1]]}),
        answered_with(7, {"host": [["a", 3]]}),
        hit_with(0, b"\x60" + b"\0" * 7),
        hit_with(1, 1_780_000_000),
        hit_with(2, 1_772_000_000),
        hit_with(3, float("inf")),
        hit_with(3, float("nan")),
        hit_with(3, -1.0),
        hit_with(3, 1e7),
        hit_with(4, 0),
        hit_with(4, 3),
    ],
)
def test_an_answer_that_lies_is_refused_as_a_whole(body: bytes) -> None:
    with pytest.raises(MalformedError):
        wire.decode_answer(body, msgspec.structs.replace(ASKED, after=None))


def test_counts_of_words_must_fit_their_question() -> None:
    for told in (
        Frequencies(5, (Having(1, 1),)),
        Frequencies(5, (Having(1, 6), Having(0, 0))),
        Frequencies(5, (Having(6, 1), Having(0, 0))),
    ):
        with pytest.raises(MalformedError):
            wire.decode_words(wire.encode_words(told), 2)


def test_a_page_told_twice_or_at_length_is_refused() -> None:
    one = msgspec.msgpack.decode(bytes.fromhex(SHOWN))[1][0]
    for told in (
        [one, one],
        [[*one[:3], [["a" * 600, False], ["b" * 600, True]], *one[4:]]],
        [[*one[:3], [["a", False]] * 257, *one[4:]]],
        [[*one[:2], "t" * 401, *one[3:]]],
        [[100, *one[1:]]],
        [[*one[:6], "<b>", *one[7:]]],
        [[*one[:7], "sha1:<script>", *one[8:]]],
        [[*one[:8], bytes(257)]],
    ):
        with pytest.raises(MalformedError):
            wire.decode_shown(msgspec.msgpack.encode([1, told]))


def test_halves_of_characters_do_not_stop_an_answer() -> None:
    told = wire.encode_shown(
        {0: Told(TOLD.shown.__class__(**{**_fields(TOLD.shown), "title": "a\ud800"}), b"")}
    )
    assert wire.decode_shown(told)[0].shown.title == "a?"


def _fields(shown: Shown) -> dict[str, Any]:
    return {name: getattr(shown, name) for name in Shown.__dataclass_fields__}


DECODERS: list[Callable[[bytes], object]] = [
    wire.decode_ask,
    wire.decode_ask_words,
    wire.decode_ask_shown,
    wire.decode_shown,
    lambda body: wire.decode_words(body, 2),
    lambda body: wire.decode_answer(body, ASKED),
]
GOOD = [bytes.fromhex(one) for one in (ASK, WORDS, SHOW, SHOWN, HAVING, ANSWER)]


@given(st.sampled_from(range(6)), st.binary(max_size=60), st.integers(0, 200), st.integers(0, 255))
@settings(max_examples=150, deadline=None)
def test_no_bytes_of_a_stranger_do_more_than_be_refused(kind: int, body: bytes, at: int, value: int) -> None:
    good = bytearray(GOOD[kind])
    good[at % len(good)] = value
    for sent in (body, bytes(good), bytes(good) + body):
        with suppress(MalformedError):
            DECODERS[kind](sent)
