"""How does the history of one address read? Its versions, a calendar of the days, what is unchanged since when."""

import calendar
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from herodotus.core.disputes import disputed
from herodotus.core.warc import civil_date, format_date
from herodotus.portal.memento import Places, diff_path
from herodotus.portal.pages import page, search_form, shown_url
from herodotus.portal.timelines import timeline
from herodotus.store.performer import history_as_json
from herodotus.store.reader import Version

DAY_S = 86_400
MONTHS_MAX = 12
VERSIONS_MAX = 100
_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
           "November", "December")  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """All captures of a URL that have the same bytes."""

    digest: bytes
    versions: tuple[Version, ...]

    @property
    def first_s(self) -> int:
        return self.versions[0].first_seen_s

    @property
    def last_s(self) -> int:
        return max(version.last_seen_s for version in self.versions)


def contents_of(versions: Sequence[Version]) -> list[Content]:
    """In the order in which they were first seen; versions are oldest first."""
    groups: dict[bytes, list[Version]] = {}
    for version in versions:
        groups.setdefault(version.id.digest, []).append(version)
    return [Content(digest=digest, versions=tuple(group)) for digest, group in groups.items()]


def history_json(versions: Sequence[Version]) -> bytes:
    """As `herodotus history --json` prints it."""
    facts = history_as_json(versions)
    return json.dumps(facts, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def history_page(url: str, versions: Sequence[Version], period: str = "") -> str:
    """`versions` oldest first, at least one; `period` are the digits that the history was narrowed to."""
    places = Places(origin="", url=url)
    return page(
        f"History of {shown_url(url, 80)}",
        "\n".join(
            [
                search_form(url),
                f'<h1 class="address">{escape(shown_url(url, 300))}</h1>',
                _summary(places, versions),
                timeline(versions),
                _years(url, versions, period),
                _calendar(places, versions),
                _list(places, versions),
                _for_machines(places),
            ]
        ),
    )


def _summary(places: Places, versions: Sequence[Version]) -> str:
    contents, first, last = contents_of(versions), versions[0], versions[-1]
    visits = sum(version.visits for version in versions)
    last_seen_s = max(version.last_seen_s for version in versions)
    seen = f", and found unchanged {visits:,} time{'s' * (visits != 1)}" if visits else ""
    same = last.first_seen_s
    is_one_day = first.first_seen_s // DAY_S == same // DAY_S  # then two dates would say nothing
    since = f", unchanged since {_day(same)}" if same // DAY_S < last_seen_s // DAY_S else ""
    return (
        f'<p class="lead">Stored {_times(len(versions))} {_span(places, versions, with_time=is_one_day)}{seen}; '
        f"{_contents(len(contents))}. "
        f"Last looked at on {_day(last_seen_s)}{since}.</p>"
    )


def _span(places: Places, versions: Sequence[Version], *, with_time: bool) -> str:
    first, last = (
        _link(places, one.first_seen_s, with_time=with_time) for one in (versions[0], versions[-1])
    )
    return f"on {first}" if len(versions) == 1 else f"between {first} and {last}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _contents(count: int) -> str:
    return "always the same content" if count == 1 else f"{count:,} different contents"


def _years(url: str, versions: Sequence[Version], period: str) -> str:
    counts = Counter(_civil(version)[0] for version in versions)
    if len(counts) < 2 and not period:
        return ""
    most = max(counts.values())
    path = Places(origin="", url=url).history
    rows = [
        f'<li><a href="{escape(path.replace("/web/*", f"/web/{year}*", 1))}"><span>{year}</span>'
        f'<meter min="0" max="{most}" value="{count}"></meter><span>{count:,}</span></a></li>'
        for year, count in sorted(counts.items())
    ]
    whole = f'<p><a href="{escape(path)}">All years</a></p>' if period else ""
    return f'<h2>Years</h2>\n<ol class="years">{"".join(rows)}</ol>{whole}'


def _calendar(places: Places, versions: Sequence[Version]) -> str:
    """The newest months that have captures; a day on which nothing changed is marked, too."""
    days: dict[tuple[int, int], dict[int, int]] = {}
    for version in versions:
        year, month, day = _civil(version)
        days.setdefault((year, month), Counter())[day] += 1
    months = sorted(days)[-MONTHS_MAX:]
    unchanged = _unchanged_days(versions)
    tables = [_month(places, year, month, days[year, month], unchanged) for year, month in reversed(months)]
    older = (
        f"<p>{len(days) - len(months):,} older months: choose a year.</p>" if len(days) > len(months) else ""
    )
    return f'<h2>Calendar</h2>\n<div class="months">{"".join(tables)}</div>{older}'


def _unchanged_days(versions: Sequence[Version]) -> list[tuple[int, int]]:
    return [
        (version.first_seen_s // DAY_S + 1, version.last_seen_s // DAY_S)
        for version in versions
        if version.visits
    ]


def _month(
    places: Places, year: int, month: int, stored: dict[int, int], unchanged: list[tuple[int, int]]
) -> str:
    first_day = calendar.timegm((year, month, 1, 0, 0, 0)) // DAY_S
    weeks = []
    for week in calendar.Calendar().monthdayscalendar(year, month):
        cells = "".join(_cell(places, year, month, day, stored, first_day, unchanged) for day in week)
        weeks.append(f"<tr>{cells}</tr>")
    head = "".join(
        f'<th scope="col"><abbr title="{name}">{name[0]}</abbr></th>' for name in calendar.day_name
    )
    return (
        f"<table><caption>{_MONTHS[month - 1]} {year}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(weeks)}</tbody></table>"
    )


def _cell(
    places: Places,
    year: int,
    month: int,
    day: int,
    stored: dict[int, int],
    first_day: int,
    unchanged: list[tuple[int, int]],
) -> str:
    if not day:
        return "<td></td>"
    count = stored.get(day, 0)
    path = places.gate.replace("/web/", f"/web/{year:04}{month:02}{day:02}/", 1)
    if count:
        title = "stored" if count == 1 else f"stored {count} times"
        many = " many" if count > 3 else ""
        return f'<td class="stored{many}"><a href="{escape(path)}" title="{title}">{day}</a></td>'
    number = first_day + day - 1
    if any(start <= number <= end for start, end in unchanged):
        return f'<td class="same"><a href="{escape(path)}" title="unchanged">{day}</a></td>'
    return f"<td>{day}</td>"


def _list(places: Places, versions: Sequence[Version]) -> str:
    firsts: dict[bytes, int] = {}
    sizes: dict[bytes, int] = {}  # a revisit has no body of its own
    rows: list[str] = []
    before: Version | None = None
    of_doubt = disputed(versions)
    for version in versions:
        earlier = firsts.setdefault(version.id.digest, version.first_seen_s)
        size = sizes[version.id.digest] = max(version.size, sizes.get(version.id.digest, 0))
        is_other = before is not None and before.id.digest != version.id.digest
        changes = _changes(places, before, version) if before is not None and is_other else ""
        if version.id in of_doubt:
            changes += _DISPUTED
        rows.append(_row(places, version, earlier, size, changes))
        before = version
    shown = rows[: -VERSIONS_MAX - 1 : -1]
    more = (
        f"<p>{len(rows) - len(shown):,} older ones: choose a year or a day.</p>"
        if len(rows) > len(shown)
        else ""
    )
    return (
        '<h2>Versions</h2>\n<div class="wide"><table class="versions"><thead><tr><th scope="col">Stored</th>'
        '<th scope="col">Answer</th><th scope="col">Type</th><th scope="col">Size</th><th scope="col">Content</th>'
        f"</tr></thead><tbody>{''.join(shown)}</tbody></table></div>{more}"
    )


_DISPUTED = ' <strong title="Peers stored different contents of this page on this day.">disputed</strong>'


def _changes(places: Places, before: Version, version: Version) -> str:
    path = diff_path(places.url, before.first_seen_s, version.first_seen_s)
    label = f"Changes since {format_date(before.first_seen_s)[:10]}"
    return f' (<a href="{escape(path)}" aria-label="{label}">changes</a>)'


def _row(places: Places, version: Version, earlier_s: int, size: int, changes: str = "") -> str:
    if earlier_s != version.first_seen_s:
        is_that_day = earlier_s // DAY_S == version.first_seen_s // DAY_S
        content = f"the same as on {_link(places, earlier_s, with_time=is_that_day)}"
    elif version.visits:
        content = f"new; unchanged until {_day(version.last_seen_s)} ({_times(version.visits)} looked at)"
    else:
        content = "new"
    return (
        f"<tr><td>{_link(places, version.first_seen_s, with_time=True)}</td><td>{version.status or '–'}</td>"
        f"<td>{escape(version.mime) or '–'}</td><td>{_size(size)}</td><td>{content}{changes}</td></tr>"
    )


def _for_machines(places: Places) -> str:
    return (
        '<p class="quiet">For machines: '
        f'<a href="{escape(places.timemap("link"))}">TimeMap</a>, '
        f'<a href="{escape(places.timemap("json"))}">as JSON</a>, '
        f'<a href="{escape(places.timemap("cdxj"))}">as CDXJ</a>.</p>'
    )


def _civil(version: Version) -> tuple[int, int, int]:
    return civil_date(version.first_seen_s // DAY_S)


def _day(time_s: int) -> str:
    return f"<time>{format_date(time_s)[:10]}</time>"


def _link(places: Places, time_s: int, *, with_time: bool = False) -> str:
    text = format_date(time_s)
    shown = f"{text[:10]} {text[11:19]}" if with_time else text[:10]
    return f'<a href="{escape(places.memento(time_s))}"><time datetime="{text}">{shown}</time></a>'


def _size(size: int) -> str:
    if size < 1_000:
        return f"{size} B"
    return f"{size / 1e3:,.1f} kB" if size < 1_000_000 else f"{size / 1e6:,.1f} MB"
