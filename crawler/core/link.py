"""What is a link, from the page that has it to the peer that remembers it?

One type goes the whole way: the parser finds it, the crawl gives it its depth and where it was found, the frontier
learns it, the outbox and the walk carry it to its holders, and their frontiers take it over.

What goes into the frontier, and what comes out of it? Found links, entries handed out, what an origin's row says.

Here is also how the frontier's rows are spelled (docs/protocol/frontier.md); where they are kept is for
`crawler.frontier_rows`.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum
from functools import lru_cache
from struct import Struct
from typing import NamedTuple

import msgspec

from crawler.core.recrawl import Bounds, Known, flags_of, priority_of
from crawler.core.urls import Origin, UrlKey, host_of, url_key


class LinkKind(Enum):
    PAGE = "page"
    """Somewhere to go."""
    FRAME = "frame"
    """A document shown inside this one."""
    IMAGE = "image"
    REQUISITE = "requisite"
    """What else a page needs to be shown: style, script, font, media, object. Also what another peer says a page
    embeds, as it does not say how."""

    __hash__ = object.__hash__  # the members are singletons, and each link looks something up by its kind

    @property
    def is_embedded(self) -> bool:
        return self is not _PAGE


class Rule(IntEnum):
    """By what a link was found. The numbers are kept in the frontier's rows (docs/protocol/frontier.md), the names are
    words of the settings."""

    MARKUP = 0
    STYLES = 1
    LAZY = 2
    IMPORTS = 3
    WORKERS = 4
    IMPORT_MAPS = 5
    MANIFESTS = 6
    CHUNKS = 7
    CHUNKS_BESIDE = 8
    CHUNKS_ABOVE = 9
    CHUNKS_ROOT = 10
    PRELOADS = 11
    PRELOADS_ROOT = 12
    MODULES = 13
    STRINGS = 14
    JSON = 15
    GUESSED = 16
    """Another peer found it, and called it doubtful."""
    STRINGS_BESIDE = 17
    """A string that looks like a file, beside the script. `STRINGS` are beside the page."""
    STRINGS_ROOT = 18
    PATTERNS = 19
    """A name that a script makes of parts, where the script lies that a page names. `PATTERNS_IN_PAGE` are beside the
    page."""
    PATTERNS_IN_PAGE = 20

    @property
    def label(self) -> str:
        return self.name.lower().replace("_", "-")


DOUBTFUL_RULES = frozenset(
    {Rule.CHUNKS_BESIDE, Rule.CHUNKS_ABOVE, Rule.CHUNKS_ROOT, Rule.PRELOADS_ROOT}
    | {Rule.MODULES, Rule.STRINGS, Rule.STRINGS_BESIDE, Rule.STRINGS_ROOT, Rule.JSON, Rule.GUESSED}
    | {Rule.PATTERNS, Rule.PATTERNS_IN_PAGE}
)
"""What they find may well be nothing: it is asked for last."""
SCRIPT_RULES = frozenset(Rule) - {Rule.MARKUP, Rule.STYLES, Rule.LAZY}
_CHUNK_RULES = frozenset({Rule.CHUNKS, Rule.CHUNKS_BESIDE, Rule.CHUNKS_ABOVE, Rule.CHUNKS_ROOT})
"""Guesses at one thing: the folder of a site's scripts."""
_PATTERN_RULES = frozenset({Rule.PATTERNS, Rule.PATTERNS_IN_PAGE})
MISSES_MAX = 16
"""In a row, of a doubtful rule at an origin."""
PATTERN_MISSES_MAX = 64
"""As many as one script has guesses: a word fits one of its patterns, and is tried in each."""
TRIES_MIN, HITS_SHARE_MIN = 200, 0.02
"""After so many tries at an origin a rule must have found this share, or it rests there."""


class Yield(NamedTuple):
    """How often what a rule found was there, at one origin."""

    tries: int = 0
    hits: int = 0
    misses: int = 0
    """In a row."""

    def after(self, *, is_hit: bool) -> "Yield":
        return Yield(self.tries + 1, self.hits + is_hit, 0 if is_hit else self.misses + 1)


def rests(rule: int, yields: Mapping[int, Yield]) -> bool:
    """Whether a rule finds too little at an origin. Of guesses at one thing the one that hit is kept."""
    ours = yields.get(rule, Yield())
    if (
        rule in _CHUNK_RULES
        and not ours.hits
        and any(yields[other].hits for other in _CHUNK_RULES & yields.keys())
    ):
        return True
    misses_max = PATTERN_MISSES_MAX if rule in _PATTERN_RULES else MISSES_MAX
    if rule in DOUBTFUL_RULES and ours.misses >= misses_max:
        return True
    return ours.tries >= TRIES_MIN and ours.hits < HITS_SHARE_MIN * ours.tries


_PAGE = LinkKind.PAGE  # to look up a member of an Enum takes as long as the rest of what asks for it here


class Link(NamedTuple):
    """A tuple, as a crawl makes tens of thousands of them each second."""

    url: str
    """Canonical."""
    kind: LinkKind = LinkKind.PAGE
    depth: int = 0
    is_doubtful: bool = False
    """Found on a page much like others: it comes after all that is not."""
    is_seed: bool = False
    via: str = ""
    """Where it was found."""
    hops: int = 0
    """Redirects between the page that links and this URL."""
    rule: int = 0
    """A `Rule`: as a number, since most are made without one."""
    bounds: Bounds | None = None
    """Of the seed that led here, where somebody bounded it."""

    @property
    def is_embedded(self) -> bool:
        return self.kind is not _PAGE

    @property
    def flags(self) -> int:
        return flags_of(is_embedded=self.kind is not _PAGE, is_doubtful=self.is_doubtful, rule=self.rule)

    @property
    def priority(self) -> int:
        return priority_of(
            self.depth,
            is_embedded=self.kind is not _PAGE,
            is_seed=self.is_seed,
            is_doubtful=self.is_doubtful,
        )


def kind_of(*, is_embedded: bool) -> LinkKind:
    """Where no more is known."""
    return LinkKind.REQUISITE if is_embedded else LinkKind.PAGE


KNOWN, DUE, ORIGIN, MARK, LINKS, META, BOUNDED = b"k", b"d", b"o", b"t", b"l", b"m", b"b"
ORIGIN_ID_BYTES = 8
FINGERPRINT_BYTES = 6
"""Two different links of a page collide with probability 2**-48: no link is lost that way."""
LINKS_KEPT_MAX = 50_000
"""As many as a sitemap may have; none is taken that is not kept, or it would be new again every day."""


@dataclass(slots=True)
class DueEntry:
    """A URL handed out; give it back with `record` or `release`."""

    key: UrlKey
    origin: Origin
    known: Known
    is_suspect: bool
    """It was handed out before a crash, or is to be read again: the archive may have today's capture."""
    due_row: bytes
    rests_until: float = 0.0
    """Seconds since 1970; how long its origin is to be left alone after this visit."""


class OriginCounts(msgspec.Struct, array_like=True, gc=False):
    """What is counted per origin; the order of the fields is the file format."""

    origin: str
    known: int = 0
    over_budget: int = 0
    """Links not taken because the origin has its share: visible, not silent."""
    last_day: int = -1
    """Of its last visit, and how many there were on that day."""
    visits: int = 0
    rests_until: float = 0.0
    """Seconds since 1970: a rest is owed whatever happens to the process."""
    yields: dict[int, Yield] = {}
    """By rule."""
    stored: int = 0
    """URLs of which there ever was a capture."""
    failing: int = 0
    """URLs whose last visit failed."""


@lru_cache(maxsize=16_384)
def origin_id_of(origin: str) -> bytes:
    return hashlib.sha1(b"host:" + origin.encode(), usedforsecurity=False).digest()[:ORIGIN_ID_BYTES]


def host_row_of(origin: Origin) -> str:
    """The name under which a rest of all origins of one host is kept: a steward knows hosts, not schemes and ports."""
    return "//" + host_of(f"{origin}/")


_BEFORE_KEY = Struct(f">c{ORIGIN_ID_BYTES}sIB").pack


def due_row(origin_id: bytes, known: Known, key: bytes) -> bytes:
    return _BEFORE_KEY(DUE, origin_id, known.due_day, known.priority) + key


def bounded_row(bounds: Bounds) -> bytes:
    """Where the pages that were taken in under these bounds are counted."""
    plain = msgspec.msgpack.encode(bounds)
    return BOUNDED + hashlib.sha1(plain, usedforsecurity=False).digest()[:ORIGIN_ID_BYTES]


def day_of(row: bytes) -> int:
    return int.from_bytes(row[9:13], "big")


def key_of(row: bytes) -> bytes:
    """The URL's key in a due row."""
    return row[14:]


def number_in(value: bytes | None) -> int:
    """The number in a row; 0 if there is no row."""
    return int.from_bytes(value, "big") if value else 0


def fingerprint(url: str) -> bytes:
    """What a page's link set keeps of a link."""
    return url_key(url)[:FINGERPRINT_BYTES]


assert FINGERPRINT_BYTES * LINKS_KEPT_MAX < 2**20  # a page's link set stays a modest row
