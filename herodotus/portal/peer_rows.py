"""What did another peer give to an answer of all, and what of it can be believed?

A stranger may write anything. It cannot be shown that a capture which it tells of does not exist: each holder of it
would have to be asked. But it can be seen whether it answered the question: rows of the requested addresses and times,
in order, behind the place where the list continues, no more than were asked for, and a next place that is further. A
peer that breaks this is left out as a whole.

A peer may honestly stop early with few rows or none, because it looks at a bounded number of addresses and a filter
may take none of them. Or it may lie like that, to stop everybody's progress. Both look the same, so patience is
bounded: the resume key counts such short parts, and beyond `SHORT_PARTS_MAX` the peer is no longer waited for.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from herodotus.core.cdxj import surt
from herodotus.core.errors import ArchiveError
from herodotus.core.index_rows import address_key
from herodotus.core.warc import parse_digits
from herodotus.portal.answer import Answer
from herodotus.portal.cdx import FIELDS, ROWS_MAX, CdxQuestion, CdxRows, Row, decode_resume_key
from herodotus.portal.memento import header_url
from herodotus.portal.targets import URL_CHARS_MAX

SHORT_PARTS_MAX = 50
"""A million addresses of one peer, of which a filter takes none."""
ROWS_READ_MAX = ROWS_MAX
_FIELD_CHARS_MAX = 50_000

Position = tuple[bytes, int]
"""Address and time of a row: its place in the whole list."""
Identity = tuple[str, str, str, str, str]
"""What makes a row one and the same at several peers: address, time, digest, status and type."""


class _Ordered(Protocol):
    def __lt__(self, other: Any, /) -> bool: ...


P = TypeVar("P", bound=_Ordered)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerRows:
    """What one peer gave; `stopped` is where it has more, `is_short` that it stopped before it had given as many
    rows as were asked for."""

    rows: Mapping[Identity, tuple[Position, Row]]
    stopped: Position | None = None
    is_short: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StopPosition(Generic[P]):
    """Where the whole list stops for now. `was_left`: somebody who stopped short was not waited for."""

    at: P | None
    short_parts: int
    was_left: bool


def earliest(stops: Iterable[tuple[P, bool]], short_parts: int) -> StopPosition[P]:
    """`stops`: where each peer has more, and whether it stopped short; `short_parts` that were cut so before."""
    known = list(stops)
    waits = short_parts < SHORT_PARTS_MAX
    counted = [(at, is_short) for at, is_short in known if waits or not is_short]
    was_left = len(counted) < len(known)
    if not counted:
        return StopPosition(at=None, short_parts=short_parts, was_left=was_left)
    at, is_short = min(counted, key=lambda stop: stop[0])
    return StopPosition(at=at, short_parts=short_parts + is_short, was_left=was_left)


def own_share(found: CdxRows, wanted: CdxQuestion) -> PeerRows:
    return PeerRows(rows=_placed(found.rows, wanted, found.resume_at), stopped=found.resume_at)


def read_share(answer: Answer, wanted: CdxQuestion) -> PeerRows | None:
    """Of another peer that was asked `wanted`: None for what is no list of rows, or does not answer the question;
    rows that make no sense are left out."""
    if answer.status == HTTPStatus.BAD_REQUEST:
        return PeerRows(rows={})  # it has fewer pages than others
    try:
        table = msgspec.json.decode(answer.body, type=list[Any])
        stopped = None
        if len(table) >= 2 and table[-2] == []:
            stopped, _ = decode_resume_key(table[-1][0])
            table = table[:-2]
        lines = table[1:]
        if not _may_stop_at(stopped, wanted):
            return None
        rows = [row for line in lines[:ROWS_READ_MAX] if (row := _row(line)) is not None]
        if not _answers(rows, stopped, wanted) or len(lines) > _most(rows, wanted):
            return None
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return None
    is_short = stopped is not None and len(lines) < wanted.limit
    return PeerRows(rows=_placed(rows, wanted, stopped), stopped=stopped, is_short=is_short)


def position(row: Row) -> Position:
    return address_key(row["original"]), parse_digits(row["timestamp"])


def _identity(row: Row) -> Identity:
    return row["original"], row["timestamp"], row["digest"], row["statuscode"], row["mimetype"]


def _may_be_escaped(row: Row) -> bool:
    """Then it may stand elsewhere in its peer's list than its address says, which is in the order of what is stored."""
    return "%" in row["original"]


def _placed(
    rows: Sequence[Row], wanted: CdxQuestion, stopped: Position | None
) -> dict[Identity, tuple[Position, Row]]:
    """Such a row stands between the others that it came with: never before the part that was asked for, where the
    list would start again for ever."""
    ends: list[Position | None] = []
    end: Position | None = None
    for row in reversed(rows):
        end = end if _may_be_escaped(row) else position(row)
        ends.append(end)
    last = wanted.resume_at or (b"", 0)
    found: dict[Identity, tuple[Position, Row]] = {}
    for row, end in zip(rows, reversed(ends), strict=True):
        at = position(row)
        if end is not None:
            at = min(at, end)
        elif stopped is not None and at >= stopped:  # behind the last of the others
            at = last
        last = max(last, at)
        found.setdefault(_identity(row), (last, row))
    return found


def _most(rows: Sequence[Row], wanted: CdxQuestion) -> int:
    """As many as were asked for; or more, where all are contents of one second (`cdx.end_of_part`)."""
    limit = abs(wanted.limit)
    is_one_second = len(rows) > limit and position(rows[0]) == position(rows[-1])
    return ROWS_READ_MAX if is_one_second else limit


def _may_stop_at(stopped: Position | None, wanted: CdxQuestion) -> bool:
    if stopped is None:
        return True
    begun = wanted.resume_at
    return _is_in_ranges(stopped[0], wanted.ranges) and (begun is None or stopped > begun)


def _answers(rows: Iterable[Row], stopped: Position | None, wanted: CdxQuestion) -> bool:
    last = wanted.resume_at or (b"", 0)
    for row in rows:
        at = position(row)
        if not (_is_in_ranges(at[0], wanted.ranges) and wanted.from_s <= at[1] <= wanted.to_s):
            return False
        if _may_be_escaped(row):
            continue
        if at < last:
            return False
        last = at
    return stopped is None or last <= stopped


def _is_in_ranges(key: bytes, ranges: Sequence[tuple[bytes, bytes]]) -> bool:
    return any(start <= key < end for start, end in ranges)


def _row(line: object) -> Row | None:
    if not isinstance(line, list) or len(line) != len(FIELDS):
        return None
    if not all(isinstance(value, str) and len(value) <= _FIELD_CHARS_MAX for value in line):
        return None
    if not all(value.isascii() and value.isprintable() and value and " " not in value for value in line):
        return None
    row = dict(zip(FIELDS, line, strict=True))
    try:
        parse_digits(row["timestamp"])
    except ArchiveError:
        return None
    # By this rows of all peers are collapsed: another's word for it could make ours vanish.
    row["urlkey"] = _urlkey(row["original"])
    return row


@lru_cache(maxsize=256)  # neighbours in a list are versions of one address
def _urlkey(original: str) -> str:
    return header_url(surt(original))


def read_count(answer: Answer, pages_max: int) -> int | None:
    """Of pages: None for what is no number, or more of them than any peer counts."""
    text = answer.body[:20].strip()
    if answer.status != HTTPStatus.OK or not text.isdigit() or int(text) > pages_max:
        return None
    return int(text)


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """Addresses that one peer has, and whether those are all."""

    urls: tuple[str, ...]
    is_whole: bool


def read_listing(answer: Answer, ranges: Sequence[tuple[bytes, bytes]], most: int) -> Listed | None:
    """None for what was not asked for; a peer that has none says 404."""
    if answer.status == HTTPStatus.NOT_FOUND:
        return Listed(urls=(), is_whole=True)
    try:
        found = msgspec.json.decode(answer.body, type=Listed)
        if any(len(url) > URL_CHARS_MAX for url in found.urls):
            return None
        keys = [address_key(url) for url in found.urls]
    except (ValueError, RecursionError):
        return None
    if len(keys) > most or not all(_is_in_ranges(key, ranges) for key in keys):
        return None
    return found
