"""What does a reader ask of the archive's words? A tree of conditions, a date, and an order.

A tree that is made here is bounded, and each part of it can be answered: nowhere does it ask for all that does *not*
hold something. `grammar.py` makes it of a line of text; the words themselves are cut as `fields.words_of` says.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from herodotus.core.errors import QuestionError
from herodotus.core.warc import TIME_MAX_S

TEXT_BYTES_MAX = 2_048
"""Of a question, as `search.ask` carries it (design: the ring). A page of results repeats it a dozen times."""
LEAVES_MAX = 64
"""A word is a look into some fields of each segment: 64 of them take 2 ms on 300,000 documents."""
DEPTH_MAX = 8


class Order(StrEnum):
    RELEVANCE = "relevance"
    OLDEST = "oldest"
    NEWEST = "newest"
    VERSIONS = "versions"


class Dating(StrEnum):
    """Which documents a date lets through (`Dated`)."""

    ON = "on"
    BETWEEN = "between"
    APPEARED = "appeared"
    VANISHED = "vanished"


class Name(StrEnum):
    """Of the fields that a reader can name."""

    SITE = "site"
    TYPE = "type"
    LANG = "lang"
    TITLE = "title"
    INURL = "inurl"
    STATUS = "status"
    LINKSTO = "linksto"


@dataclass(frozen=True, slots=True)
class Word:
    """Itself or its forms. What is more than one word to the index (`full-text`) stands together."""

    text: str


@dataclass(frozen=True, slots=True)
class Phrase:
    """These words in this order, as they are written."""

    text: str


@dataclass(frozen=True, slots=True)
class Field:
    name: Name
    value: str


@dataclass(frozen=True, slots=True)
class Not:
    part: "Node"


@dataclass(frozen=True, slots=True)
class And:
    parts: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Or:
    parts: tuple["Node", ...]


Leaf: TypeAlias = Word | Phrase | Field
Node: TypeAlias = Leaf | Not | And | Or


@dataclass(frozen=True, slots=True)
class Dated:
    """`on` a moment (then `from_s` is `to_s`): what was visible at it. `between` two: what was visible at any of them.
    `appeared` and `vanished`: what came or went at any of them."""

    dating: Dating
    from_s: int
    to_s: int

    def __post_init__(self) -> None:
        assert 0 <= self.from_s <= self.to_s <= TIME_MAX_S
        assert self.dating is not Dating.ON or self.from_s == self.to_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """QuestionError where a bound is passed, or where a part asks for nearly everything."""

    tree: Node
    dated: Dated | None = None
    order: Order = Order.RELEVANCE

    def __post_init__(self) -> None:
        leaves = sum(1 for _ in leaves_of(self.tree))
        if leaves > LEAVES_MAX:
            raise QuestionError(
                problem=f"the question has {leaves:,} words and conditions", hint=f"use {LEAVES_MAX} at most"
            )
        if depth_of(self.tree) > DEPTH_MAX:
            raise QuestionError(
                problem="there are too many parentheses inside one another", hint=f"use {DEPTH_MAX} at most"
            )
        if not is_answerable(self.tree):
            raise QuestionError(
                problem="a part of the question says only what must not be there",
                hint="add a word that must be there, as in `ferry -bell`",
            )


def leaves_of(node: Node) -> Iterator[Leaf]:
    """From left to right."""
    match node:
        case Not(part):
            yield from leaves_of(part)
        case And(parts) | Or(parts):
            for part in parts:
                yield from leaves_of(part)
        case _:
            yield node


def depth_of(node: Node) -> int:
    match node:
        case Not(part):
            return 1 + depth_of(part)
        case And(parts) | Or(parts):
            return 1 + max(map(depth_of, parts))
        case _:
            return 1


def is_answerable(node: Node) -> bool:
    """Whether an index can list what fits, here and in each part: every `Not` stands beside something to take from."""
    match node:
        case Not():
            return False
        case Or(parts):
            return all(map(is_answerable, parts))
        case And(parts):
            taken = [part.part for part in parts if isinstance(part, Not)]
            left = [part for part in parts if not isinstance(part, Not)]
            return bool(left) and all(map(is_answerable, (*taken, *left)))
        case _:
            return True


def together(parts: list[Node]) -> Node:
    """All of them, in the least depth."""
    flat: list[Node] = []
    for part in parts:
        flat.extend(part.parts if isinstance(part, And) else (part,))
    return flat[0] if len(flat) == 1 else And(tuple(flat))


def either(parts: list[Node]) -> Node:
    flat: list[Node] = []
    for part in parts:
        flat.extend(part.parts if isinstance(part, Or) else (part,))
    return flat[0] if len(flat) == 1 else Or(tuple(flat))


def without(part: Node) -> Node:
    return part.part if isinstance(part, Not) else Not(part)
