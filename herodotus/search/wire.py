"""How do questions in words travel between peers, and their answers? The only place (docs/protocol/search.md).

The types say what may stand in a message, and what they cannot say is checked here, an answer against its question.
What breaks a rule is a MalformedError.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

from herodotus.core.errors import MalformedError, QuestionError
from herodotus.core.search.answers import After, Answer, Hit, Run, Shown, Snippet, Told, place_of
from herodotus.core.search.cover import RUNS_MAX, Arc
from herodotus.core.search.fields import HOST, LANGUAGE, TYPE, WORD_BYTES_MAX, spell_id
from herodotus.core.search.merging import YEAR, contradiction
from herodotus.core.search.questions import (
    DEPTH_MAX,
    LEAVES_MAX,
    TEXT_BYTES_MAX,
    And,
    Dated,
    Dating,
    Field,
    Leaf,
    Name,
    Node,
    Not,
    Or,
    Order,
    Phrase,
    Question,
    Word,
    leaves_of,
)
from herodotus.core.search.weights import Frequencies, Having, Weight
from herodotus.core.warc import TIME_MAX_S
from herodotus.peers.calls import encode, reader_of_version

ASK: Final = "search.ask"
WORDS: Final = "search.words"
SHOW: Final = "search.show"
VERSION: Final = 1
ASK_BYTES_MAX: Final = 16 << 10
"""A question's texts, its tree, 64 arcs and 64 weights of long words take 12 kB."""
ANSWER_BYTES_MAX: Final = 64 << 10
"""100 hits take 4 kB, the values beside them 20 kB at most. Calls do not count an answer of this length or below."""
SHOW_BYTES_MAX: Final = 512 << 10
HITS_MAX: Final = 100
VALUES_MAX: Final = 20
"""Of each kind, that a peer tells. Twice as many as are shown: others may have more of those in the second half."""
WEIGHT_MAX: Final = 50.0
"""An idf among 2³² documents is 22."""
SCORE_MAX: Final = 1e6
WEIGHTS_MAX: Final = LEAVES_MAX
URL_CHARACTERS_MAX: Final = 8_192
TITLE_CHARACTERS_MAX: Final = 400
RUNS_OF_SNIPPET_MAX: Final = 256
SNIPPET_CHARACTERS_MAX: Final = 1_000
SKETCH_BYTES_MAX: Final = 256
TYPE_CHARACTERS_MAX: Final = 150
_PLACE_BYTES = 8
BUSY: Final = "busy"
RESTS: Final = "rests"
"""There is no index now, or it lacks words of what the peer holds."""
ELSEWHERE: Final = "elsewhere"
"""By its own view of the ring the peer does not index all of these arcs."""
NARROW: Final = "narrow"
"""The question cannot be answered as it stands (`QuestionError`)."""

Place = Annotated[bytes, Meta(min_length=_PLACE_BYTES, max_length=_PLACE_BYTES)]
Second = Annotated[int, Meta(ge=0, le=2**32 - 1)]
Moment = Annotated[int, Meta(ge=0, le=TIME_MAX_S)]
Count = Annotated[int, Meta(ge=0, le=2**32 - 1)]
Number = Annotated[float, Meta(ge=0, le=SCORE_MAX)]
Idf = Annotated[float, Meta(gt=0, le=WEIGHT_MAX)]
Text = Annotated[str, Meta(max_length=TEXT_BYTES_MAX)]
WordText = Annotated[str, Meta(min_length=1, max_length=WORD_BYTES_MAX)]
Value = Annotated[str, Meta(max_length=255)]


class _Word(msgspec.Struct, frozen=True, array_like=True, tag=1):
    text: Text


class _Phrase(msgspec.Struct, frozen=True, array_like=True, tag=2):
    text: Text


class _Field(msgspec.Struct, frozen=True, array_like=True, tag=3):
    name: Name
    value: Text


class _Not(msgspec.Struct, frozen=True, array_like=True, tag=4):
    part: "_Node"


class _And(msgspec.Struct, frozen=True, array_like=True, tag=5):
    parts: Annotated[tuple["_Node", ...], Meta(min_length=1, max_length=LEAVES_MAX)]


class _Or(msgspec.Struct, frozen=True, array_like=True, tag=6):
    parts: Annotated[tuple["_Node", ...], Meta(min_length=1, max_length=LEAVES_MAX)]


_Node: TypeAlias = _Word | _Phrase | _Field | _Not | _And | _Or


class _Ask(msgspec.Struct, frozen=True, array_like=True):
    version: int
    hits: Annotated[int, Meta(ge=1, le=HITS_MAX)]
    tree: _Node
    order: Order
    dated: tuple[Dating, Moment, Moment] | None
    arcs: Annotated[tuple[tuple[Place, Place], ...], Meta(min_length=1, max_length=RUNS_MAX)]
    weights: Annotated[tuple[tuple[WordText, Idf, Idf], ...], Meta(max_length=WEIGHTS_MAX)]
    after: tuple[float, Place] | None
    now_s: Moment


class _Hit(msgspec.Struct, frozen=True, array_like=True):
    position: Place
    first_s: Moment
    until_s: Second
    score: Number
    versions: Annotated[int, Meta(ge=1, le=2**32 - 1)]


Values = Annotated[list[tuple[Value, Count]], Meta(max_length=VALUES_MAX)]


class _Answer(msgspec.Struct, frozen=True, array_like=True):
    version: int
    pages: Count
    versions: Count
    documents: Count
    is_whole: bool
    has_more: bool
    hits: Annotated[list[_Hit], Meta(max_length=HITS_MAX)]
    facets: Annotated[dict[Annotated[str, Meta(max_length=8)], Values], Meta(max_length=8)]


class _AskWords(msgspec.Struct, frozen=True, array_like=True):
    version: int
    words: Annotated[tuple[WordText, ...], Meta(min_length=1, max_length=WEIGHTS_MAX)]


class _Words(msgspec.Struct, frozen=True, array_like=True):
    """Of how many documents; how many have each word in title and body, in the order of the question."""

    version: int
    documents: Count
    having: Annotated[list[tuple[Count, Count]], Meta(max_length=WEIGHTS_MAX)]


class _AskShown(msgspec.Struct, frozen=True, array_like=True):
    version: int
    words: Annotated[tuple[WordText, ...], Meta(max_length=WEIGHTS_MAX)]
    hits: Annotated[tuple[tuple[Place, Moment], ...], Meta(min_length=1, max_length=HITS_MAX)]


class _Told(msgspec.Struct, frozen=True, array_like=True):
    hit: Annotated[int, Meta(ge=0, lt=HITS_MAX)]
    """Its number in the question."""
    url: Annotated[str, Meta(min_length=1, max_length=URL_CHARACTERS_MAX)]
    title: Annotated[str, Meta(max_length=TITLE_CHARACTERS_MAX)]
    snippet: Annotated[
        tuple[tuple[Annotated[str, Meta(max_length=SNIPPET_CHARACTERS_MAX)], bool], ...],
        Meta(max_length=RUNS_OF_SNIPPET_MAX),
    ]
    status: Annotated[int, Meta(ge=0, le=999)]
    media_type: Annotated[str, Meta(max_length=TYPE_CHARACTERS_MAX)]
    language: Annotated[str, Meta(max_length=8, pattern=r"\A[a-z]*\Z")]
    digest: Annotated[str, Meta(max_length=64, pattern=r"\A[A-Za-z0-9:]*\Z")]
    sketch: Annotated[bytes, Meta(max_length=SKETCH_BYTES_MAX)]


class _Shown(msgspec.Struct, frozen=True, array_like=True):
    version: int
    told: Annotated[list[_Told], Meta(max_length=HITS_MAX)]


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A question, as the answering peer has it."""

    question: Question
    hits: int
    arcs: tuple[Arc, ...]
    weights: Mapping[str, Weight]
    after: After | None
    now_s: int


_read_ask = reader_of_version(_Ask, VERSION)
_read_answer = reader_of_version(_Answer, VERSION)
_read_ask_words = reader_of_version(_AskWords, VERSION)
_read_words = reader_of_version(_Words, VERSION)
_read_ask_shown = reader_of_version(_AskShown, VERSION)
_read_shown = reader_of_version(_Shown, VERSION)


def _bounded(body: bytes, most: int) -> bytes:
    if len(body) > most:
        raise MalformedError(f"{len(body)} bytes where {most} may be")
    return body


# -- search.ask -------------------------------------------------------------------------------------------


def encode_ask(asked: Asked) -> bytes:
    dated = asked.question.dated
    return encode(
        _Ask(
            VERSION,
            asked.hits,
            _packed(asked.question.tree),
            asked.question.order,
            None if dated is None else (dated.dating, dated.from_s, dated.to_s),
            tuple((_place(arc.after), _place(arc.last)) for arc in asked.arcs),
            tuple((word, *weight) for word, weight in asked.weights.items()),
            None if asked.after is None else (float(asked.after[0]), _place(asked.after[1])),
            asked.now_s,
        )
    )


def decode_ask(body: bytes) -> Asked:
    told = _read_ask(_bounded(body, ASK_BYTES_MAX))
    after = None if told.after is None else (told.after[0], _number(told.after[1]))
    if after is not None and not math.isfinite(after[0]):
        raise MalformedError("after")
    return Asked(
        question=_question(told),
        hits=told.hits,
        arcs=tuple(Arc(_number(begin), _number(end)) for begin, end in told.arcs),
        weights={word: Weight(title, body) for word, title, body in told.weights},
        after=after,
        now_s=told.now_s,
    )


def _question(told: _Ask) -> Question:
    dated = None
    if told.dated is not None:
        dating, from_s, to_s = told.dated
        if from_s > to_s or (dating is Dating.ON and from_s != to_s):
            raise MalformedError("dates")
        dated = Dated(dating, from_s, to_s)
    tree = _unpacked(told.tree, DEPTH_MAX)
    if sum(len(_text_of(leaf).encode("utf-8", "replace")) for leaf in leaves_of(tree)) > TEXT_BYTES_MAX:
        raise MalformedError("texts")
    try:
        return Question(tree=tree, dated=dated, order=told.order)
    except QuestionError as error:
        raise MalformedError(str(error)[:200]) from error


def _text_of(leaf: Leaf) -> str:
    return leaf.value if isinstance(leaf, Field) else leaf.text


def _packed(node: Node) -> _Node:
    match node:
        case Not(part):
            return _Not(_packed(part))
        case And(parts):
            return _And(tuple(map(_packed, parts)))
        case Or(parts):
            return _Or(tuple(map(_packed, parts)))
        case Word(text):
            return _Word(text)
        case Phrase(text):
            return _Phrase(text)
        case Field(name, value):
            return _Field(name, value)


def _unpacked(node: _Node, depth: int) -> Node:
    if depth == 0:
        raise MalformedError("depth")
    match node:
        case _Not(part):
            return Not(_unpacked(part, depth - 1))
        case _And(parts):
            return And(tuple(_unpacked(part, depth - 1) for part in parts))
        case _Or(parts):
            return Or(tuple(_unpacked(part, depth - 1) for part in parts))
        case _:
            return _leaf(node)


def _leaf(node: _Word | _Phrase | _Field) -> Leaf:
    match node:
        case _Word(text):
            return Word(text)
        case _Phrase(text):
            return Phrase(text)
        case _Field(name, value):
            if name is Name.STATUS and not (value.isascii() and value.isdigit() and len(value) == 3):
                raise MalformedError("status")
            return Field(name, value)


def encode_answer(answer: Answer) -> bytes:
    return encode(
        _Answer(
            VERSION,
            answer.pages,
            answer.versions,
            answer.documents,
            answer.is_whole,
            answer.has_more,
            [
                _Hit(_place(hit.position), hit.first_s, hit.until_s, min(hit.score, SCORE_MAX), hit.versions)
                for hit in answer.hits
            ],
            {name: [*values[:VALUES_MAX]] for name, values in answer.facets.items()},
        )
    )


def decode_answer(body: bytes, asked: Asked) -> Answer:
    """Also refused: an answer that cannot be one to this question."""
    told = _read_answer(_bounded(body, ANSWER_BYTES_MAX))
    if not told.facets.keys() <= _FACETS:
        raise MalformedError("kinds of values")
    answer = Answer(
        hits=tuple(_hit(one, asked.question.order) for one in told.hits),
        pages=told.pages,
        versions=told.versions,
        is_whole=told.is_whole,
        has_more=told.has_more,
        documents=told.documents,
        facets={name: tuple(values) for name, values in told.facets.items()},
        likelier={},
    )
    wrong = contradiction(answer, asked.question, arcs=asked.arcs, limit=asked.hits, after=asked.after)
    if wrong is not None:
        raise MalformedError(wrong)
    return answer


_FACETS = {HOST, TYPE, LANGUAGE, YEAR}


def _hit(told: _Hit, order: Order) -> Hit:
    position = _number(told.position)
    if told.until_s <= told.first_s:
        raise MalformedError("hit")
    place = place_of(order, position, score=told.score, first_s=told.first_s, versions=told.versions)
    return Hit(
        id=spell_id(position, told.first_s),
        position=position,
        first_s=told.first_s,
        until_s=told.until_s,
        score=told.score,
        versions=told.versions,
        place=place,
    )


# -- search.words -----------------------------------------------------------------------------------------


def encode_ask_words(words: Sequence[str]) -> bytes:
    return encode(_AskWords(VERSION, tuple(words)))


def decode_ask_words(body: bytes) -> tuple[str, ...]:
    return _read_ask_words(_bounded(body, ASK_BYTES_MAX)).words


def encode_words(told: Frequencies) -> bytes:
    return encode(_Words(VERSION, told.documents, [*told.having]))


def decode_words(body: bytes, asked: int) -> Frequencies:
    """`asked`: how many words."""
    told = _read_words(_bounded(body, ANSWER_BYTES_MAX))
    if len(told.having) != asked or any(max(both) > told.documents for both in told.having):
        raise MalformedError("counts")
    return Frequencies(told.documents, tuple(Having(*both) for both in told.having))


# -- search.show ------------------------------------------------------------------------------------------


def encode_ask_shown(words: Sequence[str], hits: Sequence[tuple[int, int]]) -> bytes:
    """Position and first second of each."""
    return encode(
        _AskShown(VERSION, tuple(words), tuple((_place(position), first) for position, first in hits))
    )


def decode_ask_shown(body: bytes) -> tuple[tuple[str, ...], list[tuple[int, int]]]:
    told = _read_ask_shown(_bounded(body, ASK_BYTES_MAX))
    return told.words, [(_number(place), first_s) for place, first_s in told.hits]


def encode_shown(told: Mapping[int, Told]) -> bytes:
    """By the number of the hit."""
    short = {number: one for number, one in told.items() if len(one.shown.url) <= URL_CHARACTERS_MAX}
    return encode(_Shown(VERSION, [_packed_shown(number, one) for number, one in short.items()]))


def _whole(text: str) -> str:
    """Without halves of characters, which imported addresses and bad pages have."""
    return text.encode("utf-8", "replace").decode()


def _packed_shown(number: int, told: Told) -> _Told:
    one = told.shown
    runs = tuple((_whole(run.text), run.is_marked) for run in one.snippet[:RUNS_OF_SNIPPET_MAX])
    return _Told(
        number,
        _whole(one.url),
        _whole(one.title[:TITLE_CHARACTERS_MAX]),
        runs,
        one.status,
        one.media_type[:TYPE_CHARACTERS_MAX],
        one.language,
        one.digest,
        told.sketch,
    )


def decode_shown(body: bytes) -> dict[int, Told]:
    """Versions and days are the hit's."""
    found: dict[int, Told] = {}
    for one in _read_shown(_bounded(body, SHOW_BYTES_MAX)).told:
        snippet: Snippet = tuple(Run(text, is_marked) for text, is_marked in one.snippet)
        if one.hit in found or sum(len(run.text) for run in snippet) > SNIPPET_CHARACTERS_MAX:
            raise MalformedError("shown")
        found[one.hit] = Told(
            Shown(
                url=one.url,
                title=one.title,
                snippet=snippet,
                first_s=0,
                until_s=None,
                status=one.status,
                media_type=one.media_type,
                language=one.language,
                digest=one.digest,
                versions=0,
            ),
            one.sketch,
        )
    return found


def _place(number: int) -> bytes:
    return number.to_bytes(_PLACE_BYTES, "big")


def _number(place: bytes) -> int:
    return int.from_bytes(place, "big")
