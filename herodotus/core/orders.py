"""What may the operator order of a running peer? Work on its archive, pausing and resuming its crawl, and leaving.

The order socket carries these orders; `peer.py` chooses the performer. Reports are plain JSON.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

from crawler.core.recrawl import ContentName, ScopeName
from herodotus.core.warc import TIME_MAX_S

Say = Callable[[str], None]
"""Told how far a long order is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    files: tuple[str, ...]
    resume_at: int | None = None
    """None: where an interrupted import of the same file had come to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """`target` is a path; a stream such as stdout exists only in the process that has it."""

    target: str
    is_wacz: bool = False
    url_pattern: str | None = None
    from_s: int = 0
    to_s: int = TIME_MAX_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Get:
    url: str
    not_after_s: int = TIME_MAX_S
    is_raw: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """What stands for the newest capture of a URL up to a time?"""

    url: str
    not_after_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Verify:
    repair: bool = False
    gives_up: bool = False
    """Captures that are lost and did not come back are no longer waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expunge:
    before_s: int
    is_rehearsal: bool = False
    """Only report the captures that would go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildIndex:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Remove:
    """Hide these subjects, which are canonical; or erase them at once; or show them again."""

    subjects: tuple[tuple[str, str], ...]
    """Kinds and names (`core.removals`)."""
    is_erased: bool = False
    is_forgotten: bool = False
    is_told: bool = True
    """The other peers are sent a notice."""
    reason: str = ""
    text: str = ""
    contact: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    pass


NoticeVerb = Literal["list", "show", "follow", "dismiss", "undo"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeOrder:
    """About the notices of other peers' removals: `list`, or `show`, `follow`, `dismiss` or `undo` one of them."""

    verb: NoticeVerb
    id: str = ""
    """The first of its digits."""


ArchiveOrder = (
    Import
    | Export
    | Get
    | History
    | Why
    | Verify
    | Expunge
    | RebuildIndex
    | Remove
    | NoticeOrder
    | Statistics
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderReport:
    facts: Any
    """None where there is nothing of that kind."""
    content: bytes = b""


class Performer(Protocol):
    """Performs orders: the archive opened here, or a peer that has it open."""

    def __call__(self, order: ArchiveOrder, say: Say) -> OrderReport: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Begin no fetch until `Resume`, or for so long, also after a restart. The report comes when the running fetches
    have ended."""

    for_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """Crawl these canonical URLs today, and the pages that they link to: as far as the charter's scope, or as is said
    here, as of a seed."""

    urls: tuple[str, ...]
    scope: ScopeName | None = None
    depth: int | None = None
    content: ContentName | None = None
    limit: int | None = None
    every_s: int | None = None
    until_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seeds:
    """What has become of these seeds, which are canonical URLs?"""

    urls: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """Which pages fit a question in words (`core.search.grammar`)?"""

    text: str
    limit: int
    after: str | None = None
    """`next` of an earlier report."""
    here: bool = False
    """The peer asks no other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOver:
    """Give this peer's captures to the peers that will hold them instead, as this peer is leaving for good."""

    wait_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """Hand over everything, then end. The report comes at the end, or after `wait_s` while it continues."""

    wait_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    """Take the order to drain back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildWords:
    """Make the index of words again; the present one answers until the new one has everything."""


CrawlControl = Pause | Resume | Begin | Seeds
Order = ArchiveOrder | CrawlControl | RebuildWords | Search | HandOver | Drain | Stay
ORDERS: dict[str, type[Order]] = {
    "import": Import,
    "export": Export,
    "get": Get,
    "history": History,
    "why": Why,
    "verify": Verify,
    "expunge": Expunge,
    "rebuild-index": RebuildIndex,
    "rebuild-words": RebuildWords,
    "remove": Remove,
    "notices": NoticeOrder,
    "stats": Statistics,
    "pause": Pause,
    "resume": Resume,
    "begin": Begin,
    "seeds": Seeds,
    "search": Search,
    "hand-over": HandOver,
    "drain": Drain,
    "stay": Stay,
}
assert set(ORDERS.values()) == set(get_args(Order))
NAMES = {kind: name for name, kind in ORDERS.items()}
