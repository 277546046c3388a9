"""How much of a volunteer's line, disk and day may be used, and when is there more?

Four rules are asked in turn, and the longest wait counts: whether background work rests (the operator paused it, or the
machine is on battery or on a metered line), its hours, the month's volume, and a bucket for each direction that fills
at the offered rate. A spending that has to wait is not booked; it asks again. A
bucket may go into debt by one spending, so that large things pass too and the rate still holds.

Clocks: buckets use a clock that is never set back. Months and hours need the calendar, which may be wrong. A month
continues when the clock comes back to it, so a clock that jumped ahead forgets nothing. While the clock shows a day
before this was written, spendings go to the month that was booked last, and background work waits.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Self

from dht.core.limits import Bucket, Rate
from herodotus.core.offered_limits import DAY_S, DiskLimits, TrafficLimits

BURST_S = 2.0
"""So much of a rate may go at once: a page comes whole, and a line is not filled for longer than a player buffers."""
BURST_BYTES_MIN = 64 * 1024
BACKGROUND_SHARE = 0.9
"""Of the month's volume; the rest is for readers and the ring, without which the peer would be no peer."""
MONTHS_KEPT = 14
PLAUSIBLE_FROM_S = 1_767_225_600.0  # 2026-01-01: a board without a battery starts in 1970
ASK_AGAIN_S = 60.0


class Spending(Enum):
    """The purpose for which bytes are spent."""

    CRAWL = "crawl"
    COPIES_IN = "copies-in"
    COPIES_OUT = "copies-out"
    READERS = "readers"
    FETCHED = "fetched"
    """By a crawl that is allowed to run now, as it asked for `CRAWL`, or as the operator orders it: at the rate
    offered, at any hour."""
    LINE_IN = "line-in"
    """Whatever else the line carried: datagrams, calls, robots.txt, headers, what was sent again."""
    LINE_OUT = "line-out"

    @property
    def is_upload(self) -> bool:
        return self in (Spending.COPIES_OUT, Spending.READERS, Spending.LINE_OUT)

    @property
    def is_background(self) -> bool:
        """It bears waiting until the night or the next month."""
        return self in (Spending.CRAWL, Spending.COPIES_IN, Spending.COPIES_OUT)


class Rest(Enum):
    """Why background work rests until something changes that no clock knows."""

    PAUSED = "paused"
    BATTERY = "battery"
    METERED = "metered line"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockReading:
    steady_s: float
    """Never set back; its zero means nothing."""
    wall_s: float
    """Since 1970."""
    local_offset_s: float = 0.0
    """How far the volunteer's local time is ahead of UTC."""

    @property
    def local_s(self) -> float:
        return self.wall_s + self.local_offset_s

    @property
    def local(self) -> datetime:
        return datetime.fromtimestamp(self.local_s, UTC)

    @property
    def is_plausible(self) -> bool:
        return self.wall_s >= PLAUSIBLE_FROM_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    up: int = 0
    down: int = 0

    @property
    def total(self) -> int:
        return self.up + self.down


class TrafficLedger:
    """The bytes spent in each month. The month booked last comes last."""

    def __init__(self, months: Mapping[str, Volume] | None = None) -> None:
        self._months = dict(list((months or {}).items())[-MONTHS_KEPT:])

    def months(self) -> dict[str, Volume]:
        return dict(self._months)

    @property
    def last(self) -> str | None:
        return next(reversed(self._months), None)

    def of(self, month: str) -> Volume:
        return self._months.get(month, Volume())

    def book(self, month: str, *, up: int = 0, down: int = 0) -> None:
        assert min(up, down) >= 0, "what was spent is not given back"
        before = self._months.pop(month, Volume())
        self._months[month] = Volume(up=before.up + up, down=before.down + down)
        while len(self._months) > MONTHS_KEPT:
            self._months.pop(next(iter(self._months)))
        assert self.last == month, "months are kept by when they were booked, not by their names"


@dataclass(frozen=True, slots=True, kw_only=True)
class Month:
    """The provider's: named after the calendar's month in which it begins."""

    name: str
    elapsed_s: float
    length_s: float

    @classmethod
    def at(cls, now: ClockReading, first_day: int) -> Self:
        local = now.local
        first = local.replace(day=first_day, hour=0, minute=0, second=0, microsecond=0)
        if first > local:
            first = _month_later(first, -1)
        length = _month_later(first, 1) - first
        assert first <= local < first + length
        return cls(
            name=f"{first:%Y-%m}",
            elapsed_s=(local - first).total_seconds(),
            length_s=length.total_seconds(),
        )


def _month_later(first: datetime, months: int) -> datetime:
    """The same day of another month; days up to the 28th are in all of them."""
    middle = first.replace(day=15) + timedelta(days=30 * months)
    return middle.replace(day=first.day)


class Budgets:
    def __init__(self, limits: TrafficLimits, ledger: TrafficLedger) -> None:
        self.limits = limits
        self.ledger = ledger
        self._up, self._down = _bucket(limits.up_bytes_per_s), _bucket(limits.down_bytes_per_s)
        self.rests: frozenset[Rest] = frozenset()
        self._month = ("", 0.0, 0.0)
        """The last that was asked for, and from when to when it is: each fetch asks."""

    def is_free(self, kind: Spending) -> bool:
        """Nothing was ever said against it, whenever it is."""
        is_timed = kind.is_background and bool(self.limits.hours or self.rests)
        is_counted = self.limits.month_bytes is not None and kind is not Spending.FETCHED
        return not (is_timed or is_counted or self._bucket(kind) is not None)

    def grant(self, kind: Spending, size: int, now: ClockReading) -> float:
        """0: go ahead, the bytes are booked. Otherwise nothing is booked; ask again after this many seconds."""
        wait_s = self.wait_s(kind, now)
        if size and wait_s == 0.0:
            self.charge(kind, size, now)
        return wait_s

    def wait_s(self, kind: Spending, now: ClockReading) -> float:
        return max(self.closed_s(kind, now), self._wait_for_rate(kind, now))

    def closed_s(self, kind: Spending, now: ClockReading) -> float:
        """How long rests, the hours and the month forbid it: waits for which one rather stops than holds on."""
        return max(
            self._wait_for_rests(kind), self._wait_for_hours(kind, now), self._wait_for_month(kind, now)
        )

    def closed_by(self, now: ClockReading) -> tuple[str, ...]:
        """Why the crawl may not go on now, in words that machines may rely on."""
        words = [rest.value for rest in Rest if rest in self.rests]
        words += ["hours"] if self._wait_for_hours(Spending.CRAWL, now) else []
        if self._wait_for_month(Spending.CRAWL, now):
            is_over = self.spent(now).total >= (self.limits.month_bytes or 0) * BACKGROUND_SHARE
            words.append("month" if is_over else "ahead of the month")
        return tuple(words)

    def charge(self, kind: Spending, size: int, now: ClockReading) -> None:
        """Book bytes that were spent already, as when their size is known only afterwards. Later spenders then
        wait."""
        bucket = self._bucket(kind)
        if bucket is not None:
            bucket.spend(now.steady_s, size)
        up, down = (size, 0) if kind.is_upload else (0, size)
        self.ledger.book(self.month_name(now), up=up, down=down)

    def month_name(self, now: ClockReading) -> str:
        """Where spendings of now are booked."""
        name, start_s, end_s = self._month
        if not start_s <= now.local_s < end_s:
            month = Month.at(now, self.limits.month_day)
            name, start_s = month.name, now.local_s - month.elapsed_s
            self._month = name, start_s, start_s + month.length_s
        return name if now.is_plausible else self.ledger.last or name

    def spent(self, now: ClockReading) -> Volume:
        """In the month that now belongs to."""
        return self.ledger.of(self.month_name(now))

    def _bucket(self, kind: Spending) -> Bucket | None:
        return self._up if kind.is_upload else self._down

    def _wait_for_rate(self, kind: Spending, now: ClockReading) -> float:
        bucket = self._bucket(kind)
        if bucket is None:
            return 0.0
        # A spending waits for the debt alone. It waits for a whole byte and goes ahead on any part of one: if it had
        # to meet what it waited for, rounding could make it wait for ever.
        wait_s = bucket.wait_s(now.steady_s)
        return wait_s if bucket.tokens <= 0 else 0.0

    def _wait_for_rests(self, kind: Spending) -> float:
        return ASK_AGAIN_S if kind.is_background and self.rests else 0.0

    def _wait_for_hours(self, kind: Spending, now: ClockReading) -> float:
        if not kind.is_background or not self.limits.hours:
            return 0.0
        if not now.is_plausible:
            return ASK_AGAIN_S
        local = now.local
        second = local.hour * 3600.0 + local.minute * 60.0 + local.second + local.microsecond / 1e6
        return min(hours.wait_s(second) for hours in self.limits.hours)

    def _wait_for_month(self, kind: Spending, now: ClockReading) -> float:
        """Background work is spread over the month, a day's share ahead: not all of it on the first days."""
        if self.limits.month_bytes is None or kind is Spending.FETCHED:
            return 0.0
        spent = self.spent(now).total
        if not now.is_plausible:
            return ASK_AGAIN_S if kind.is_background or spent >= self.limits.month_bytes else 0.0
        month = Month.at(now, self.limits.month_day)
        until_next_s = month.length_s - month.elapsed_s
        if not kind.is_background:
            return 0.0 if spent < self.limits.month_bytes else until_next_s
        share = self.limits.month_bytes * BACKGROUND_SHARE
        if spent >= share:
            return until_next_s
        due_s = spent / share * month.length_s - DAY_S  # when an even pace would have come to what is spent
        assert due_s <= month.length_s - DAY_S, (
            "background work is never told to wait for longer than the month"
        )
        return max(0.0, due_s - month.elapsed_s)


# -- the disk, and what follows from it -------------------------------------------------------------------


def _bucket(bytes_per_s: float | None) -> Bucket | None:
    """Full at first; None without a bound."""
    if bytes_per_s is None:
        return None
    return Bucket(Rate(per_second=bytes_per_s, burst=max(BURST_BYTES_MIN, bytes_per_s * BURST_S)), 0.0)


def offered_bytes(limits: DiskLimits, *, used: int, free: int) -> int:
    """The size that the archive may reach: its present size, and the space that the disk can still give it."""
    reachable = used + max(0, free - limits.free_bytes_min)
    return reachable if limits.archive_bytes_max is None else min(reachable, limits.archive_bytes_max)


POSITION_BYTES = 50_000_000_000
"""One position on the ring for so much offered: the usual four are a disk of 200 GB."""
_LOYALTY = 0.75
"""A position is given up or taken only when the offer moved by so much of one: a share that changes is handed over."""


def virtual_nodes_for(offered: int, *, positions_max: int, before: int | None = None) -> int:
    """How many positions a peer with this much storage takes; `before` is how many it had in its last run."""
    assert positions_max >= 1, "a peer has a position, however little it offers"
    wanted = offered / POSITION_BYTES
    if before is not None and before >= 1 and abs(wanted - before) < _LOYALTY:
        return min(before, positions_max)
    return max(1, min(positions_max, round(wanted)))
