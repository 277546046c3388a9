"""The bytes of leases: as the protocol's page has them, there and back, and safe from whatever a stranger sends."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dht.core.messages import SHORT_BYTES_MAX
from herodotus.core.errors import MalformedError
from herodotus.crawl.stewards import wire
from herodotus.crawl.stewards.wire import (
    Ask,
    Asks,
    CarriedRules,
    Deputy,
    Granted,
    LeaseAnswers,
    NewRules,
    No,
    NoRules,
    NotYet,
    Return,
    RulesAnswer,
    RulesLater,
    SameRules,
)

ASKED = "93 02 91 95 ae 686f73743a612e6578616d706c65 03 00 00 b0 687474703a2f2f612e6578616d706c65 91 97 ae 686f73743a622e6578616d706c65 07 02 cc c8 78 ff a0"  # noqa: E501  # bytes as the page shows them
WITH_ADDRESS = (
    "96 ae 686f73743a612e6578616d706c65 03 00 00 b0 687474703a2f2f612e6578616d706c65 aa 39332e3138342e302e31"
)
GRANTED = "92 02 91 97 00 0c cd 05dc cd 1b58 03 cd 07d0 05"
WITH_RULES_WANTED = "97 ae 686f73743a612e6578616d706c65 03 00 00 b0 687474703a2f2f612e6578616d706c65 aa 39332e3138342e302e31 c4 00"  # noqa: E501  # bytes as the page shows them
WITH_RULES = "93 02 91 97 00 0c cd 05dc cd 1b58 03 cd 07d0 05 91 92 00 97 01 05 cd 03e8 c4 08 3132333435363738 c3 c4 0e 757365722d6167656e743a202a0a a0"  # noqa: E501  # bytes as the page shows them


def test_the_bytes_of_version_2_stay_what_they_are() -> None:
    asks = [Ask("host:a.example", 3, purpose="http://a.example")]
    returns = [Return("host:b.example", 7, 2, 200, 120)]
    assert wire.encode_asks(asks, returns) == bytes.fromhex(ASKED)
    with_address = Ask("host:a.example", 3, purpose="http://a.example", address="93.184.0.1")
    assert wire.encode_asks([with_address], []) == bytes.fromhex("93 02 91" + WITH_ADDRESS + "90")
    answers = [Granted(12, 1_500, 7_000, 3, 2_000, 5)]
    assert wire.encode_answers(answers) == bytes.fromhex(GRANTED)
    wants_rules = Ask("host:a.example", 3, purpose="http://a.example", address="93.184.0.1", known=b"")
    assert wire.encode_asks([wants_rules], []) == bytes.fromhex("93 02 91" + WITH_RULES_WANTED + "90")
    rules = NewRules(5, 1_000, b"12345678", True, b"user-agent: *\n")
    assert wire.encode_answers(answers, [CarriedRules(0, rules)]) == bytes.fromhex(WITH_RULES)
    assert wire.encode_rules(SameRules(5, 1_000)) == bytes.fromhex("92 02 93 00 05 cd 03e8")
    assert wire.encode_rules_ask("http://a.example", b"12345678") == bytes.fromhex(
        "93 02 b0 687474703a2f2f612e6578616d706c65 c4 08 3132333435363738"
    )


def test_a_deputy_is_made_and_called_back_by_these_bytes() -> None:
    page = "".join((Path(__file__).parents[4] / "docs" / "protocol" / "leases.md").read_text().split())
    for made, shown in (
        (wire.encode_answers([Deputy(3_600_000)]), "92 02 91 92 03 ce 0036ee80"),
        (
            wire.encode_called_back("address:93.184.0.1"),
            "92 02 b2 616464726573733a39332e3138342e302e31",
        ),
        (wire.encode_ends([8.0, 120.0]), "92 02 92 ce 0001d4c0 cd 1f40"),
    ):
        assert made == bytes.fromhex(shown)
        assert "".join(shown.split()) in page
    assert wire.decode_answers(wire.encode_answers([Deputy(5)]), expected=1).answers == [Deputy(5)]
    assert wire.decode_called_back(wire.encode_called_back("address:x")).subject == "address:x"
    assert wire.decode_ends(wire.encode_ends(range(100))) == list(range(99, 35, -1))


def test_the_page_shows_these_bytes() -> None:
    page = (Path(__file__).parents[4] / "docs" / "protocol" / "leases.md").read_text()
    shown = "".join(page.split())
    assert "".join(ASKED.split()) in shown
    assert "".join(WITH_ADDRESS.split()) in shown
    assert "".join(GRANTED.split()) in shown
    assert "".join(WITH_RULES_WANTED.split()) in shown
    assert "".join(WITH_RULES.split()) in shown


def test_answers_carry_as_many_rules_as_a_datagram_has_room_for() -> None:
    signed = Granted(2**53, 60_000, 60_000, 3, 2_000, 2**48, 1_700_000_000, bytes(64), ["2001:db8::1:2:3:4"])
    rules = [CarriedRules(at, NewRules(5, 9, bytes(8), True, 50 * (at + 1) * b"x")) for at in range(7)]
    found = []
    for granted in range(1, 8):
        answers = granted * [signed]
        body = wire.encode_answers(answers, rules[:granted])
        assert len(body) <= SHORT_BYTES_MAX
        told = wire.decode_answers(body, expected=granted)
        assert told.answers == answers
        assert told.carried == rules[: len(told.carried)]
        found.append(len(told.carried))
    assert found == [1, 2, 3, 4, 3, 3, 2]
    long = CarriedRules(0, NewRules(5, 9, bytes(8), True, SHORT_BYTES_MAX * b"x"))
    assert wire.encode_answers([signed], [long]) == wire.encode_answers([signed])
    assert wire.encode_answers(20 * [signed], rules) == wire.encode_answers(20 * [signed])


@pytest.mark.parametrize(
    "carried",
    [
        [1, [0, 5, 9]],  # of an ask that there was not
        [-1, [0, 5, 9]],
        [0, [2, 5, "soon"]],
        [0, [3, "opted-out"]],
        [0, [1, 5, 9, b"short", True, b"", ""]],
        [0, [0, 5, 10**12]],
        [0],
    ],
)
def test_rules_that_nobody_can_use_are_malformed(carried: list[object]) -> None:
    with pytest.raises(MalformedError):
        wire.decode_answers(msgspec.msgpack.encode([2, [[1, 7, "resting"]], [carried]]), expected=1)


@pytest.mark.parametrize(
    "answer", [SameRules(1, 2), NewRules(1, 2, b"12345678", True, b"user-agent:*\n", "why"), RulesLater(3, "soon"),
               NoRules("opted-out")]
)  # fmt: skip
def test_answers_about_rules_come_back_as_they_were(answer: RulesAnswer) -> None:
    assert wire.decode_rules(wire.encode_rules(answer)) == answer


def test_asks_and_answers_come_back_as_they_were() -> None:
    asks = [Ask("host:a.example", 1), Ask("address:192.0.2.1", 2, 30, 40, "5 host:a.example")]
    asks += [Ask("host:a.example", 1, address="2001:db8::1"), Ask("host:a.example", 1, address="")]
    asks += [Ask("host:a.example", 1, known=b""), Ask("host:a.example", 1, address="", known=b"12345678")]
    returns = [Return("host:a.example", 9, 1, 0, 5, 6, "p")]
    assert wire.decode_asks(wire.encode_asks(asks, returns)) == Asks(2, asks, returns)
    answers: list[wire.Answer] = [Granted(1, 2, 3, 4, 5, 6), NotYet(7, "resting"), No("not-steward")]
    assert wire.decode_answers(wire.encode_answers(answers), expected=3).answers == answers


def test_fields_of_a_later_release_are_ignored() -> None:
    raw = msgspec.msgpack.encode([2, [["host:a.example", 1, 0, 0, "", None, None, "new"]], [], "newer"])
    assert wire.decode_asks(raw).asks == [Ask("host:a.example", 1)]


@pytest.mark.parametrize(
    "message",
    [
        Asks(1, [], []),
        Asks(3, [], []),
        Asks(2, [Ask("host:a", 0)], []),
        Asks(2, [Ask("host:a", 1_025)], []),
        Asks(2, [Ask("a.example", 1)], []),
        Asks(2, [Ask("host:" + 300 * "a", 1)], []),
        Asks(2, [Ask("host:a", 1, purpose=301 * "a")], []),
        Asks(2, [Ask("host:a", 1, lasts_ms=-1)], []),
        Asks(2, [Ask("host:a", 1, known=bytes(9))], []),
        Asks(2, [Ask("host:a", 1, from_ms=10**12)], []),
        Asks(2, 257 * [Ask("host:a", 1)], []),
        Asks(2, [], 1_025 * [Return("host:a", 1, 1, 200, 1)]),
        Asks(2, [], [Return("host:a", -1, 1, 200, 1)]),
        Asks(2, [], [Return("host:a", 1, 1, 1_000, 1)]),
        Asks(2, [], [Return("host:a", 1, 1, 200, 1, -2)]),
    ],
)
def test_asks_that_break_the_bounds_are_refused(message: Asks) -> None:
    with pytest.raises(MalformedError):
        wire.decode_asks(msgspec.msgpack.encode(message))


@pytest.mark.parametrize(
    "answers",
    [
        [],
        [Granted(1, -1, 1, 1, 1)],
        [Granted(1, 1, 1, 0, 1)],
        [Granted(1, 1, 10**12, 1, 1)],
        [Granted(2**60, 1, 1, 1, 1)],
        [NotYet(10**12, "x")],
        [NotYet(1, "x\x1b[2J")],
        [No(101 * "x")],
    ],
)
def test_answers_that_break_the_bounds_are_refused(answers: list[wire.Answer]) -> None:
    with pytest.raises(MalformedError):
        wire.decode_answers(msgspec.msgpack.encode(LeaseAnswers(2, answers)), expected=1)


@pytest.mark.parametrize("decode", [wire.decode_asks, wire.decode_rules_ask, wire.decode_rules])
@pytest.mark.parametrize(
    "body", ["a180", "81a18001", "9202a180", "920281a18001", "9302a18001", "929302a180a180"]
)
def test_a_text_that_is_no_utf_8_is_malformed(decode: Callable[[bytes], object], body: str) -> None:
    """Found by random bytes: the decoder raises another error than for everything else."""
    with pytest.raises(MalformedError):
        decode(bytes.fromhex(body))


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_malformed(body: bytes) -> None:
    for decode in (wire.decode_asks, wire.decode_rules_ask, wire.decode_rules):
        with suppress(MalformedError):
            decode(body)


@given(st.floats(allow_nan=False), st.booleans())
def test_any_time_fits_what_may_travel(seconds: float, up: bool) -> None:
    assert 0 <= wire.to_ms(seconds, up=up) <= wire.TIME_MS_MAX
