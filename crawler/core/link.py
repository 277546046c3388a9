"""What is a link, from the page that has it to the peer that remembers it?

One type goes the whole way: the parser finds it, the crawl gives it its depth and where it was found, the frontier
learns it, the outbox and the walk carry it to its holders, and their frontiers take it over.

What goes into the frontier, and what comes out of it? Found links, entries handed out, what an origin's row says.

Here is also how the frontier's rows are spelled (docs/protocol/frontier.md); where they are kept is for
`crawler.frontier_rows`.
"""

import hashlib
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from struct import Struct
from typing import NamedTuple

import msgspec

from crawler.core.recrawl import Known, flags_of, priority_of
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

    @property
    def is_embedded(self) -> bool:
        return self.kind is not _PAGE

    @property
    def flags(self) -> int:
        return flags_of(is_embedded=self.kind is not _PAGE, is_doubtful=self.is_doubtful)

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


KNOWN, DUE, ORIGIN, MARK, LINKS, META = b"k", b"d", b"o", b"t", b"l", b"m"
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


@lru_cache(maxsize=16_384)
def origin_id_of(origin: str) -> bytes:
    return hashlib.sha1(b"host:" + origin.encode(), usedforsecurity=False).digest()[:ORIGIN_ID_BYTES]


def host_row_of(origin: Origin) -> str:
    """The name under which a rest of all origins of one host is kept: a steward knows hosts, not schemes and ports."""
    return "//" + host_of(f"{origin}/")


_BEFORE_KEY = Struct(f">c{ORIGIN_ID_BYTES}sIB").pack


def due_row(origin_id: bytes, known: Known, key: bytes) -> bytes:
    return _BEFORE_KEY(DUE, origin_id, known.due_day, known.priority) + key


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
