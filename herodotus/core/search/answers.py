"""What is answered to a question in words? Values without the library that finds them, for what shows them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from herodotus.core.search.fields import OPEN
from herodotus.core.search.questions import Order

After = tuple[float, int]
"""The place of a hit in its order; what comes behind it is the next page."""


def place_of(order: Order, position: int, *, score: float, first_s: int, versions: int) -> After:
    """The same at each peer, so that hits of several become one list."""
    if order is Order.OLDEST:
        return float(first_s), position
    greatest_first = {Order.RELEVANCE: score, Order.VERSIONS: versions, Order.NEWEST: first_s}
    return -float(greatest_first[order]), position


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """`versions`: how many spells of the URL fit. The one that is told is the newest of them, in the order `oldest` the
    oldest. `score` is the greatest of all."""

    id: int
    position: int
    first_s: int
    until_s: int
    score: float
    versions: int
    place: After

    @property
    def is_open(self) -> bool:
        return self.until_s == OPEN


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    hits: tuple[Hit, ...]
    pages: int
    """URLs that fit; at least so many where the answer is not whole."""
    versions: int
    """Spells that fit, of any number of URLs."""
    is_whole: bool
    """All that fit were grouped by URL."""
    has_more: bool
    documents: int
    """In the index."""
    facets: Mapping[str, tuple[tuple[str, int], ...]]
    """By the name of the field: values, and how many pages have them, most first; how many versions, where the answer
    is not whole. Years of a question without a date, by which pages fitted at some time of them, newest first."""
    likelier: Mapping[str, str]
    """Where nothing fits: by a word that is on no page the one that may have been meant."""


class Run(NamedTuple):
    text: str
    is_marked: bool = False


Snippet = tuple[Run, ...]


@dataclass(slots=True, kw_only=True)
class Shown:
    url: str
    title: str
    snippet: Snippet
    first_s: int
    until_s: int | None
    """None: nothing followed yet."""
    status: int
    media_type: str
    language: str
    digest: str
    """SHA-1, as records have it."""
    versions: int
    alike: list["Shown"] = field(default_factory=list)
    """Further down, with nearly the same text."""


class Told(NamedTuple):
    """What is shown of a hit, and by what its text is compared with those of others."""

    shown: Shown
    sketch: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class RingPart:
    """Whose answers are in an answer of the ring."""

    share: float
    """Of the ring, by the length of arcs."""
    peers: int
    """This one among them."""
    section: int = 0
    """Which of the sections of a large ring was asked."""
    has_more: bool = False
    """Another section can be asked."""

    @property
    def percent(self) -> int:
        """100 only where nothing is missing."""
        return int(self.share * 100)


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """`shown` has fewer than the answer has hits where some cannot be read, and where pages are alike."""

    answer: Answer
    shown: tuple[Shown, ...]
    is_filled: bool = True
    """The index has the words of all that this peer holds."""
    ring: RingPart | None = None
    """None: this peer alone was asked."""
