"""How do asks for leases, and their answers, become bytes and back? The only place (docs/protocol/leases.md).

The types say what may stand in a message. What breaks them, or says what cannot be printed, is a MalformedError.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from crawler.core.politeness import STARTS_MAX
from dht.core.messages import SHORT_BYTES_MAX
from herodotus.core.errors import MalformedError
from herodotus.core.signatures import ADDRESSES_MAX
from herodotus.peers.calls import encode, reader_of_version

VERSION = 2
ASKS_MAX = 256
RETURNS_MAX = 1_024
SUBJECT_CHARACTERS_MAX = 300
"""A host's name has 253 at most."""
ORIGIN_CHARACTERS_MAX = SUBJECT_CHARACTERS_MAX + 20
TIME_MS_MAX = 7 * 86_400_000
"""A Retry-After of a day is the longest that is heeded."""
RULES_BYTES_MAX = 512 * 1024
RULES_VERSION_BYTES = 8
SIGNATURE_BYTES = 64
PROBLEM_CHARACTERS_MAX = 300
REASON_CHARACTERS_MAX = 100
ENDS_MAX = 64
"""Windows at an address at a time: the highest cap of a charter."""
ADDRESS_CHARACTERS_MAX = 45
"""The longest way to write an IPv6 address."""
COUNTER_MAX = 2**53
GRANTED, NOT_YET, NO, DEPUTED = 0, 1, 2, 3
SAME, RULES, RULES_LATER, NO_RULES = 0, 1, 2, 3

Subject = Annotated[str, Meta(max_length=SUBJECT_CHARACTERS_MAX, pattern="^(host|address):")]
Purpose = Annotated[str, Meta(max_length=SUBJECT_CHARACTERS_MAX)]
Reason = Annotated[str, Meta(max_length=REASON_CHARACTERS_MAX)]
Milliseconds = Annotated[int, Meta(ge=0, le=TIME_MS_MAX)]
Counter = Annotated[int, Meta(ge=0, le=COUNTER_MAX)]
Starts = Annotated[int, Meta(ge=1, le=STARTS_MAX)]
RulesVersion = Annotated[bytes, Meta(max_length=RULES_VERSION_BYTES)]


class Ask(msgspec.Struct, frozen=True, array_like=True):
    subject: Subject
    wanted: Starts
    from_ms: Milliseconds = 0
    lasts_ms: Milliseconds = 0
    purpose: Purpose = ""
    address: Annotated[str, Meta(max_length=ADDRESS_CHARACTERS_MAX)] | None = None
    """Of a host: where its name leads for the asker, "" when nowhere. None: not said."""
    known: RulesVersion | None = None
    """The asker wants the rules of `purpose` as well; this version of them it has, or none (""). None: it does not."""


class _Placed(msgspec.Struct, frozen=True, array_like=True):
    """As an `Ask` begins that wants no rules."""

    subject: str
    wanted: int
    from_ms: int
    lasts_ms: int
    purpose: str
    address: str


class _Placeless(msgspec.Struct, frozen=True, array_like=True):
    """As an `Ask` begins that says nothing of addresses."""

    subject: str
    wanted: int
    from_ms: int
    lasts_ms: int
    purpose: str


class Return(msgspec.Struct, frozen=True, array_like=True):
    subject: Subject
    number: Counter
    fetches: Annotated[int, Meta(ge=0, le=STARTS_MAX)]
    status: Annotated[int, Meta(ge=0, le=999)]
    """0: there was no answer."""
    duration_ms: Milliseconds
    retry_after_ms: Annotated[int, Meta(ge=-1, le=TIME_MS_MAX)] = -1
    purpose: Purpose = ""


class Asks(msgspec.Struct, frozen=True, array_like=True):
    version: int
    asks: Annotated[list[Ask], Meta(max_length=ASKS_MAX)]
    returns: Annotated[list[Return], Meta(max_length=RETURNS_MAX)]


class Granted(msgspec.Struct, frozen=True, array_like=True, tag=GRANTED):
    number: Counter
    starts_in_ms: Milliseconds
    lasts_ms: Milliseconds
    count: Starts
    spacing_ms: Milliseconds
    rules: Counter = 0
    granted_s: Counter = 0
    """By the steward's clock, since 1970."""
    signature: Annotated[bytes, Meta(max_length=SIGNATURE_BYTES)] = b""
    """Of the window (`core.signatures`); none for addresses."""
    addresses: Annotated[list[Annotated[str, Meta(max_length=64)]], Meta(max_length=ADDRESSES_MAX)] = []
    """Of a host's window: where fetches may go, as far as the cap of these has room for them."""


class _Unsigned(msgspec.Struct, frozen=True, array_like=True, tag=GRANTED):
    """As `Granted` begins: an address's window, which is between stewards, has nothing else."""

    number: int
    starts_in_ms: int
    lasts_ms: int
    count: int
    spacing_ms: int
    rules: int


class NotYet(msgspec.Struct, frozen=True, array_like=True, tag=NOT_YET):
    wait_ms: Milliseconds
    reason: Reason


class No(msgspec.Struct, frozen=True, array_like=True, tag=NO):
    reason: Reason


class Deputy(msgspec.Struct, frozen=True, array_like=True, tag=DEPUTED):
    """The asker keeps the address's book for its own hosts, for so long."""

    lasts_ms: Milliseconds


Answer = Granted | NotYet | No | Deputy


class CalledBack(msgspec.Struct, frozen=True, array_like=True):
    """Said to a deputy."""

    version: int
    subject: Subject


class _Ends(msgspec.Struct, frozen=True, array_like=True):
    version: int
    ends_ms: Annotated[list[Milliseconds], Meta(max_length=ENDS_MAX)]


class RulesAsk(msgspec.Struct, frozen=True, array_like=True):
    version: int
    origin: Annotated[str, Meta(min_length=1, max_length=ORIGIN_CHARACTERS_MAX)]
    known: RulesVersion = b""


class SameRules(msgspec.Struct, frozen=True, array_like=True, tag=SAME):
    rules: Counter
    age_ms: Milliseconds


class NewRules(msgspec.Struct, frozen=True, array_like=True, tag=RULES):
    rules: Counter
    age_ms: Milliseconds
    version: Annotated[bytes, Meta(min_length=RULES_VERSION_BYTES, max_length=RULES_VERSION_BYTES)]
    is_reachable: bool
    text: Annotated[bytes, Meta(max_length=RULES_BYTES_MAX)]
    problem: Annotated[str, Meta(max_length=PROBLEM_CHARACTERS_MAX)] = ""


class RulesLater(msgspec.Struct, frozen=True, array_like=True, tag=RULES_LATER):
    wait_ms: Milliseconds
    reason: Reason


class NoRules(msgspec.Struct, frozen=True, array_like=True, tag=NO_RULES):
    reason: Reason


RulesAnswer = SameRules | NewRules | RulesLater | NoRules
ToldRules = SameRules | NewRules


class CarriedRules(msgspec.Struct, frozen=True, array_like=True):
    """They came along with the answer to an ask."""

    at: Annotated[int, Meta(ge=0, lt=ASKS_MAX)]
    """The ask's place among those of its call."""
    rules: ToldRules


class LeaseAnswers(msgspec.Struct, frozen=True, array_like=True):
    version: int
    answers: list[Answer]
    carried: Annotated[list[CarriedRules], Meta(max_length=ASKS_MAX)] = []


class _RulesReply(msgspec.Struct, frozen=True, array_like=True):
    version: int
    answer: RulesAnswer


decode_asks = reader_of_version(Asks, VERSION)
decode_rules_ask = reader_of_version(RulesAsk, VERSION)
decode_called_back = reader_of_version(CalledBack, VERSION)
_decode_ends = reader_of_version(_Ends, VERSION)
_decode_answers = reader_of_version(LeaseAnswers, VERSION)
_decode_rules = reader_of_version(_RulesReply, VERSION)


def to_ms(seconds: float, *, up: bool = False) -> int:
    """Within what may travel; rounded towards the slower side as the caller says."""
    limited = min(max(seconds, 0.0), TIME_MS_MAX / 1000)
    return (math.ceil if up else math.floor)(limited * 1000)


def encode_asks(asks: Sequence[Ask], returns: Sequence[Return]) -> bytes:
    return encode((VERSION, [_asked(ask) for ask in asks], list(returns)))


def _asked(ask: Ask) -> Ask | _Placed | _Placeless:
    if ask.known is not None:
        return ask
    if ask.address is not None:
        return _Placed(ask.subject, ask.wanted, ask.from_ms, ask.lasts_ms, ask.purpose, ask.address)
    return _Placeless(ask.subject, ask.wanted, ask.from_ms, ask.lasts_ms, ask.purpose)


def encode_answers(answers: Sequence[Answer], rules: Iterable[CarriedRules] = ()) -> bytes:
    """With as many rules as a datagram has room for; the asker calls for the others."""
    told = [_told(answer) for answer in answers]
    body = encode((VERSION, told))
    carried: list[CarriedRules] = []
    # One more list, in MessagePack: at most three bytes before its elements.
    room = SHORT_BYTES_MAX - len(body) - 3
    for one in rules:
        taken = len(encode(one))
        if taken <= room:
            carried.append(one)
            room -= taken
    return encode((VERSION, told, carried)) if carried else body


def _told(answer: Answer) -> Answer | _Unsigned:
    if not isinstance(answer, Granted) or answer.signature or answer.addresses:
        return answer
    return _Unsigned(
        answer.number, answer.starts_in_ms, answer.lasts_ms, answer.count, answer.spacing_ms, answer.rules
    )


def decode_answers(body: bytes, *, expected: int) -> LeaseAnswers:
    found = _decode_answers(body)
    if len(found.answers) != expected:
        raise MalformedError("as many answers as asks")
    if any(one.at >= expected for one in found.carried):
        raise MalformedError("rules that nobody asked for")
    _check_printable(one.reason for one in found.answers if isinstance(one, NotYet | No))
    return found


def encode_called_back(subject: str) -> bytes:
    return encode(CalledBack(VERSION, subject))


def encode_ends(ends_s: Iterable[float]) -> bytes:
    """The latest of them."""
    return encode(
        _Ends(VERSION, [to_ms(end_s, up=True) for end_s in sorted(ends_s, reverse=True)[:ENDS_MAX]])
    )


def decode_ends(body: bytes) -> list[float]:
    return [end_ms / 1000 for end_ms in _decode_ends(body).ends_ms]


def encode_rules_ask(origin: str, known: bytes) -> bytes:
    return encode(RulesAsk(VERSION, origin, known))


def encode_rules(answer: RulesAnswer) -> bytes:
    return encode(_RulesReply(VERSION, answer))


def decode_rules(body: bytes) -> RulesAnswer:
    answer = _decode_rules(body).answer
    if isinstance(answer, RulesLater | NoRules):
        _check_printable([answer.reason])
    return answer


def _check_printable(reasons: Iterable[str]) -> None:
    """They go to the log and to the operator's terminal."""
    if not all(reason.isprintable() for reason in reasons):
        raise MalformedError("reason")
