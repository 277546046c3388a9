"""What may an operator offer of line, disk and day? The limits as settings say them; `budgets` keeps to them.

This module imports nothing of the ring: the command line reads settings before it knows whether it needs a ring.
"""

import re
from dataclasses import dataclass
from typing import Self

DAY_S, DAY_MINUTES = 86_400.0, 1_440


@dataclass(frozen=True, slots=True, kw_only=True)
class Hours:
    """From one time of the day to another, as minutes since midnight; a window may pass midnight."""

    start: int
    end: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """`22:00-06:30`; raises ValueError for anything else, and for an empty window."""
        times = [_minutes(part) for part in text.split("-")]
        start, end = times if len(times) == 2 else (None, None)
        if start is None or end is None or start in (end, DAY_MINUTES):
            raise ValueError(f"{text!r} is no window of hours")
        return cls(start=start, end=end)

    def __str__(self) -> str:
        return "-".join(f"{minutes // 60:02}:{minutes % 60:02}" for minutes in (self.start, self.end))

    def wait_s(self, second_of_day: float) -> float:
        """0 within the window, else until it begins."""
        start, end = self.start * 60.0, self.end * 60.0
        is_within = start <= second_of_day < end if start < end else not end <= second_of_day < start
        return 0.0 if is_within else (start - second_of_day) % DAY_S


def _minutes(text: str) -> int | None:
    """Minutes since midnight; None when the text is not a time of day."""
    found = re.fullmatch(r"([0-9]{2}):([0-5][0-9])", text.strip())
    minutes = int(found[1]) * 60 + int(found[2]) if found else DAY_MINUTES + 1
    return minutes if minutes <= DAY_MINUTES else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficLimits:
    """None: as much as there is."""

    up_bytes_per_s: float | None = None
    down_bytes_per_s: float | None = None
    month_bytes: int | None = None
    month_day: int = 1
    """On which day of the calendar's month the provider's month begins, 1 to 28."""
    hours: tuple[Hours, ...] = ()
    """When background work may run; empty is always."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskLimits:
    archive_bytes_max: int | None = None
    free_bytes_min: int = 0
    """The space that stays free for other users of the disk."""
