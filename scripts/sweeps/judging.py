"""Is the archive what the web was? What was seen there, what peers hold, and how the web was asked, compared.

Nothing here knows of processes: the web's oracle says what there was, exports of the peers' archives what they hold,
and the log of the web's server who asked for what and when.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple


class Content(NamedTuple):
    url: str
    digest: str
    """SHA-256 of the payload, in hexadecimal."""


def is_robots(content: Content) -> bool:
    return content.url.endswith("/robots.txt")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    name: str
    is_ok: bool
    detail: str


def complete(seen: Mapping[int, Collection[Content]], held: Collection[Content]) -> Verdict:
    """Everything that was to be seen for a whole day is there."""
    held = set(held)
    missing = sorted((day, *one) for day, contents in seen.items() for one in contents if one not in held)
    total = sum(map(len, seen.values()))
    shown = "; ".join(f"day {day} {url}" for day, url, _ in missing[:5])
    return Verdict(
        name="everything that was visible for a day is there",
        is_ok=bool(total) and not missing,
        detail=f"{total - len(missing):,} of {total:,}" + (f"; missing {shown}" if missing else ""),
    )


def nothing_else(seen: Mapping[int, Collection[Content]], held: Collection[Content]) -> Verdict:
    """`/robots.txt` of each host is archived too, and is no page."""
    known = set().union(*seen.values()) if seen else set()
    strange = sorted(one for one in set(held) - known if not is_robots(one))
    shown = "; ".join(f"{url} {digest[:12]}" for url, digest in strange[:5])
    return Verdict(
        name="nothing is there that was not on the web",
        is_ok=not strange,
        detail=f"{len(strange):,} strange" + (f": {shown}" if strange else ""),
    )


def copied(holders: Mapping[Content, int], copies: int) -> Verdict:
    few = sorted((count, one) for one, count in holders.items() if count < copies)
    counts: dict[int, int] = defaultdict(int)
    for count in holders.values():
        counts[count] += 1
    table = ", ".join(f"{count} copies {number:,}" for count, number in sorted(counts.items()))
    shown = "; ".join(f"{one.url} {count}" for count, one in few[:5])
    return Verdict(
        name=f"everything is with at least {copies} peers",
        is_ok=bool(holders) and not few,
        detail=f"contents with {table}" + (f"; too few: {shown}" if few else ""),
    )


# -- politeness -------------------------------------------------------------------------------------------


class Visit(NamedTuple):
    at: float
    host: str
    client: str


class Excuse(NamedTuple):
    """While a line is slow or a process stands still, what it sent politely may arrive together; while the ring is
    torn, each half has a steward of its own. `client` is empty where it holds for everybody."""

    begins: float
    ends: float
    client: str


def polite(
    visits: Iterable[Visit], delay_s: float, rounded_s: float, excuses: Sequence[Excuse] = ()
) -> Verdict:
    """No host is asked twice within its delay, but where that is excused."""
    pairs, excused, hasty = 0, 0, list[tuple[float, Visit]]()
    least = float("inf")
    by_host: dict[str, list[Visit]] = defaultdict(list)
    for visit in sorted(visits):
        by_host[visit.host].append(visit)
    for of_host in by_host.values():
        for before, after in pairwise(of_host):
            pairs += 1
            pause_s = after.at - before.at
            if pause_s >= delay_s - rounded_s:
                least = min(least, pause_s)
            elif any(_is_excused(visit, excuses) for visit in (before, after)):
                excused += 1
            else:
                hasty.append((pause_s, after))
    shown = "; ".join(
        f"{pause_s:.3f} s at {one.host} by {one.client} ({one.at:.1f} s)" for pause_s, one in hasty[:5]
    )
    return Verdict(
        name=f"no host was asked twice within {delay_s:g} s",
        is_ok=pairs > 0 and not hasty,
        detail=f"{pairs:,} pauses, {excused:,} excused by slow lines, standstills and torn rings"
        + (f"; {len(hasty)} too short: {shown}" if hasty else ""),
    )


def _is_excused(visit: Visit, excuses: Sequence[Excuse]) -> bool:
    return any(one.begins <= visit.at <= one.ends and one.client in ("", visit.client) for one in excuses)
