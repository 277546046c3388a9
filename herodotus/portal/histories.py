"""How does the history of one address read? Its versions, a calendar of the days, what is unchanged since when."""

import calendar
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from herodotus.core.disputes import disputed
from herodotus.core.doors import door_shown
from herodotus.core.index_rows import Unreachable
from herodotus.core.warc import civil_date, format_date
from herodotus.portal.memento import Places, diff_path, gathered
from herodotus.portal.rendering import render
from herodotus.portal.timelines import timeline
from herodotus.store import Version, history_facts

DAY_S = 86_400
MONTHS_MAX = 12
VERSIONS_MAX = 100
_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
           "November", "December")  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryContent:
    """All captures of a URL that have the same bytes, of which as many are given as were asked for."""

    digest: bytes
    first_s: int
    last_s: int
    count: int
    versions: Sequence[Version]


def contents_of(
    versions: Sequence[Version], skipped: int, limit: int, *, each_max: int, most: int
) -> tuple[list[HistoryContent], int]:
    """Those at some places, in the order in which they were first seen, and how many there are in all; versions are
    oldest first. The last is the one with which `most` versions are given. Twice gone through, so that no version is
    held that is not given."""
    counts = Counter(version.id.digest for version in versions)
    wanted: dict[bytes, int] = {}
    """How many are given of a content."""
    left = most
    for digest in islice(counts, skipped, skipped + limit):
        if not left:
            break
        wanted[digest] = min(counts[digest], left, each_max)
        left -= wanted[digest]
    given: dict[bytes, list[Version]] = {digest: [] for digest in wanted}
    last_s = dict.fromkeys(wanted, 0)
    for version in versions:
        digest = version.id.digest
        if digest in given:
            last_s[digest] = max(last_s[digest], version.last_seen_s)
            if len(given[digest]) < wanted[digest]:
                given[digest].append(version)
    contents = [
        HistoryContent(
            digest=digest,
            first_s=found[0].first_seen_s,
            last_s=last_s[digest],
            count=counts[digest],
            versions=found,
        )
        for digest, found in given.items()
    ]
    return contents, len(counts)


def history_json(versions: Sequence[Version], unreachable: Unreachable | None = None) -> bytes:
    """As `herodotus history --json` prints it."""
    return gathered(_json_pieces(versions, unreachable))


def _json_pieces(versions: Sequence[Version], unreachable: Unreachable | None) -> Iterator[str]:
    before = "["
    for facts in history_facts(versions, unreachable):
        yield before + json.dumps(facts, ensure_ascii=False)
        before = ", "
    yield "]\n"


def history_page(
    url: str,
    versions: Sequence[Version],
    period: str = "",
    *,
    note: str = "",
    unreachable: Unreachable | None = None,
) -> str:
    """`versions` oldest first, at least one; `period` are the digits that the history was narrowed to; `note` is
    said of all of it."""
    places = Places(origin="", url=url)
    days: dict[tuple[int, int], Counter[int]] = {}
    for version in versions:
        year, month, day = _civil(version)
        days.setdefault((year, month), Counter())[day] += 1
    months = sorted(days, reverse=True)[:MONTHS_MAX]
    unchanged = _unchanged_days(versions)
    counts = Counter({year: 0 for year, _ in days})
    for (year, _), stored in days.items():
        counts[year] += stored.total()
    years = [
        (year, count, places.history.replace("/web/*", f"/web/{year}*", 1))
        for year, count in sorted(counts.items())
    ]
    return render(
        "history.html",
        places=places,
        note=note,
        unreachable=unreachable,
        summary=_summary(places, versions),
        timeline=timeline(versions),
        years=years if period or len(years) > 1 else (),
        most=max(counts.values()),
        is_narrowed=bool(period),
        months=[_month(places, year, month, days[year, month], unchanged) for year, month in months],
        months_left_out=len(days) - len(months),
        rows=_rows(places, versions),
        rows_left_out=max(0, len(versions) - VERSIONS_MAX),
    )


class _Link(NamedTuple):
    """To a version."""

    path: str
    stamp: str
    text: str


def _link(places: Places, time_s: int, *, with_time: bool) -> _Link:
    stamp = format_date(time_s)
    return _Link(places.memento(time_s), stamp, f"{stamp[:10]} {stamp[11:19]}" if with_time else stamp[:10])


class _Summary(NamedTuple):
    versions: int
    contents: int
    visits: int
    first: _Link
    newest: _Link
    newest_s: int
    last_seen_s: int
    is_unchanged: bool
    """A later day's visit found the newest version again."""


def _summary(places: Places, versions: Sequence[Version]) -> _Summary:
    first_s, newest_s = versions[0].first_seen_s, versions[-1].first_seen_s
    is_one_day = first_s // DAY_S == newest_s // DAY_S  # then two dates would say nothing
    last_seen_s = max(version.last_seen_s for version in versions)
    return _Summary(
        versions=len(versions),
        contents=len({version.id.digest for version in versions}),
        visits=sum(version.visits for version in versions),
        first=_link(places, first_s, with_time=is_one_day),
        newest=_link(places, newest_s, with_time=is_one_day),
        newest_s=newest_s,
        last_seen_s=last_seen_s,
        is_unchanged=newest_s // DAY_S < last_seen_s // DAY_S,
    )


class _Cell(NamedTuple):
    """Of a week; "" is a day of another month, and without a path nothing is known of a day."""

    day: str = ""
    kind: str = ""
    title: str = ""
    path: str = ""


class _Month(NamedTuple):
    name: str
    weeks: list[list[_Cell]]


_UNKNOWN = (_Cell(), *(_Cell(str(day)) for day in range(1, 32)))
"""Days of which nothing is known, by their number; 0 is a day of another month."""


def _unchanged_days(versions: Sequence[Version]) -> list[tuple[int, int]]:
    """First and last days of times in which visits found nothing new."""
    return [
        (version.first_seen_s // DAY_S + 1, version.last_seen_s // DAY_S)
        for version in versions
        if version.visits
    ]


def _month(
    places: Places, year: int, month: int, stored: Counter[int], unchanged: list[tuple[int, int]]
) -> _Month:
    first_day = calendar.timegm((year, month, 1, 0, 0, 0)) // DAY_S
    same = {
        number - first_day + 1
        for start, end in unchanged
        if end >= first_day and start < first_day + 31
        for number in range(max(start, first_day), min(end + 1, first_day + 31))
    }
    before, behind = places.gate.split("/web/", 1)

    def cell(day: int) -> _Cell:
        if count := stored.get(day):
            kind, title = (
                "stored many" if count > 3 else "stored",
                "stored" if count == 1 else f"stored {count} times",
            )
        elif day in same:
            kind, title = "same", "unchanged"
        else:
            return _UNKNOWN[day]
        return _Cell(str(day), kind, title, f"{before}/web/{year:04}{month:02}{day:02}/{behind}")

    return _Month(
        f"{_MONTHS[month - 1]} {year}", [[cell(day) for day in week] for week in _weeks(year, month)]
    )


@lru_cache(maxsize=240)
def _weeks(year: int, month: int) -> list[list[int]]:
    return calendar.Calendar().monthdayscalendar(year, month)


class _Row(NamedTuple):
    version: Version
    at: _Link
    size: int
    """Of its content: a revisit has no body of its own."""
    same_as: _Link | None
    """Where the same content was stored first, if that was before."""
    changed_since: str
    """The day of the version before, if that one's content was another; then `changes` leads to the difference."""
    changes: str
    is_disputed: bool
    door: str


def _rows(places: Places, versions: Sequence[Version]) -> list[_Row]:
    """The newest, newest first."""
    firsts: dict[bytes, int] = {}
    sizes: dict[bytes, int] = {}
    rows: list[_Row] = []
    of_doubt = disputed(versions)
    shown_from, old = len(versions) - VERSIONS_MAX, versions[0]
    for number, version in enumerate(versions):
        digest, time_s, old_s = version.id.digest, version.first_seen_s, old.first_seen_s
        first_s, is_other = firsts.setdefault(digest, time_s), old.id.digest != digest
        size = sizes[digest] = max(version.size, sizes.get(digest, 0))
        old = version
        if number < shown_from:
            continue
        is_same_day = first_s // DAY_S == time_s // DAY_S
        rows.append(
            _Row(
                version=version,
                at=_link(places, time_s, with_time=True),
                size=size,
                same_as=None if first_s == time_s else _link(places, first_s, with_time=is_same_day),
                changed_since=format_date(old_s)[:10] if is_other else "",
                changes=diff_path(places.url, old_s, time_s) if is_other else "",
                is_disputed=version.id in of_doubt,
                door=door_shown(version.door, version.voucher),
            )
        )
    return rows[::-1]


def _civil(version: Version) -> tuple[int, int, int]:
    return civil_date(version.first_seen_s // DAY_S)
