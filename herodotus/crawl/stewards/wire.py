"""How do asks for leases, and their answers, become bytes and back? The only place (docs/protocol/leases.md).

Everything is checked here: types by msgspec, lengths and ranges by hand. What fails is a MalformedError.
"""

import math
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from crawler.core.politeness import STARTS_MAX
from herodotus.core.errors import PeerFault

VERSION = 1
ASKS_MAX = 256
RETURNS_MAX = 1_024
SUBJECT_CHARACTERS_MAX = 300
"""A host's name has 253 at most."""
TIME_MS_MAX = 7 * 86_400_000
"""A Retry-After of a day is the longest that is heeded."""
RULES_BYTES_MAX = 512 * 1024
PROBLEM_CHARACTERS_MAX = 300
REASON_CHARACTERS_MAX = 100
COUNTER_MAX = 2**53
GRANTED, NOT_YET, NO = 0, 1, 2
SAME, RULES, RULES_LATER, NO_RULES = 0, 1, 2, 3


class MalformedError(PeerFault):
    """Another peer's message breaks the protocol."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"not a message about leases: {problem}")


class Ask(msgspec.Struct, frozen=True, array_like=True):
    subject: str
    wanted: int
    from_ms: int = 0
    lasts_ms: int = 0
    purpose: str = ""


class Return(msgspec.Struct, frozen=True, array_like=True):
    subject: str
    number: int
    fetches: int
    status: int
    """0: there was no answer."""
    duration_ms: int
    retry_after_ms: int = -1
    purpose: str = ""


class Asks(msgspec.Struct, frozen=True, array_like=True):
    version: int
    asks: list[Ask]
    returns: list[Return]


class Granted(msgspec.Struct, frozen=True, array_like=True, tag=GRANTED):
    number: int
    starts_in_ms: int
    lasts_ms: int
    count: int
    spacing_ms: int
    rules: int = 0


class NotYet(msgspec.Struct, frozen=True, array_like=True, tag=NOT_YET):
    wait_ms: int
    reason: str


class No(msgspec.Struct, frozen=True, array_like=True, tag=NO):
    reason: str


Answer = Granted | NotYet | No


class LeaseAnswers(msgspec.Struct, frozen=True, array_like=True):
    version: int
    answers: list[Answer]


class RulesAsk(msgspec.Struct, frozen=True, array_like=True):
    version: int
    origin: str
    known: bytes = b""


class SameRules(msgspec.Struct, frozen=True, array_like=True, tag=SAME):
    rules: int
    age_ms: int


class NewRules(msgspec.Struct, frozen=True, array_like=True, tag=RULES):
    rules: int
    age_ms: int
    version: bytes
    is_reachable: bool
    text: bytes
    problem: str = ""


class RulesLater(msgspec.Struct, frozen=True, array_like=True, tag=RULES_LATER):
    wait_ms: int
    reason: str


class NoRules(msgspec.Struct, frozen=True, array_like=True, tag=NO_RULES):
    reason: str


RulesAnswer = SameRules | NewRules | RulesLater | NoRules


class _RulesReply(msgspec.Struct, frozen=True, array_like=True):
    version: int
    answer: RulesAnswer


T = TypeVar("T")
_encode = msgspec.msgpack.Encoder().encode
_asks, _answers = msgspec.msgpack.Decoder(Asks), msgspec.msgpack.Decoder(LeaseAnswers)
_rules_ask, _rules_reply = msgspec.msgpack.Decoder(RulesAsk), msgspec.msgpack.Decoder(_RulesReply)


def to_ms(seconds: float, *, up: bool = False) -> int:
    """Within what may travel; rounded towards the slower side as the caller says."""
    limited = min(max(seconds, 0.0), TIME_MS_MAX / 1000)
    return (math.ceil if up else math.floor)(limited * 1000)


def encode_asks(asks: Sequence[Ask], returns: Sequence[Return]) -> bytes:
    return _encode(Asks(VERSION, list(asks), list(returns)))


def decode_asks(body: bytes) -> Asks:
    found = _decoded(_asks, body)
    _check(found.version == VERSION, "version")
    _check(len(found.asks) <= ASKS_MAX and len(found.returns) <= RETURNS_MAX, "too many at once")
    for ask in found.asks:
        _check_subject(ask.subject, ask.purpose)
        _check(1 <= ask.wanted <= STARTS_MAX, "wanted")
        _check_times(ask.from_ms, ask.lasts_ms)
    for one in found.returns:
        _check_subject(one.subject, one.purpose)
        _check(0 <= one.number <= COUNTER_MAX and 0 <= one.fetches <= STARTS_MAX, "number")
        _check(0 <= one.status <= 999, "status")
        _check_times(one.duration_ms)
        _check(-1 <= one.retry_after_ms <= TIME_MS_MAX, "time")
    return found


def encode_answers(answers: Sequence[Answer]) -> bytes:
    return _encode(LeaseAnswers(VERSION, list(answers)))


def decode_answers(body: bytes, *, expected: int) -> list[Answer]:
    found = _decoded(_answers, body)
    _check(found.version == VERSION, "version")
    _check(len(found.answers) == expected, "as many answers as asks")
    for answer in found.answers:
        if isinstance(answer, Granted):
            _check(0 <= answer.number <= COUNTER_MAX and 0 <= answer.rules <= COUNTER_MAX, "number")
            _check(1 <= answer.count <= STARTS_MAX, "count")
            _check_times(answer.starts_in_ms, answer.lasts_ms, answer.spacing_ms)
        elif isinstance(answer, NotYet):
            _check_times(answer.wait_ms)
            _check_reason(answer.reason)
        else:
            _check_reason(answer.reason)
    return found.answers


def encode_rules_ask(origin: str, known: bytes) -> bytes:
    return _encode(RulesAsk(VERSION, origin, known))


def decode_rules_ask(body: bytes) -> RulesAsk:
    found = _decoded(_rules_ask, body)
    _check(found.version == VERSION, "version")
    _check(0 < len(found.origin) <= SUBJECT_CHARACTERS_MAX + 20 and len(found.known) <= 8, "origin")
    return found


def encode_rules(answer: RulesAnswer) -> bytes:
    return _encode(_RulesReply(VERSION, answer))


def decode_rules(body: bytes) -> RulesAnswer:
    found = _decoded(_rules_reply, body)
    _check(found.version == VERSION, "version")
    answer = found.answer
    if isinstance(answer, SameRules | NewRules):
        _check(0 <= answer.rules <= COUNTER_MAX, "number")
        _check_times(answer.age_ms)
        if isinstance(answer, NewRules):
            is_short = len(answer.text) <= RULES_BYTES_MAX and len(answer.problem) <= PROBLEM_CHARACTERS_MAX
            _check(len(answer.version) == 8 and is_short, "rules")
    elif isinstance(answer, RulesLater):
        _check_times(answer.wait_ms)
        _check_reason(answer.reason)
    else:
        _check_reason(answer.reason)
    return answer


def _decoded(decoder: msgspec.msgpack.Decoder[T], body: bytes) -> T:
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedError(str(error)[:200]) from error


def _check(is_right: bool, what: str) -> None:
    if not is_right:
        raise MalformedError(what)


def _check_times(*times_ms: int) -> None:
    _check(all(0 <= one <= TIME_MS_MAX for one in times_ms), "time")


def _check_subject(subject: str, purpose: str) -> None:
    _check(subject.startswith(("host:", "address:")), "subject")
    _check(len(subject) <= SUBJECT_CHARACTERS_MAX and len(purpose) <= SUBJECT_CHARACTERS_MAX, "subject")


def _check_reason(reason: str) -> None:
    _check(len(reason) <= REASON_CHARACTERS_MAX and reason.isprintable(), "reason")
