"""Which day is meant by a date of some digits, and which capture is shown for it?

DESIGN 9: among captures of the requested day (month, year) the nearest; else the newest older one; else, said
plainly, the nearest newer one. A date of fewer than 14 digits names a period and means its end: its last state.
"""

import calendar
import re
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import lru_cache

from herodotus.core.errors import MalformedRecordError
from herodotus.core.warc import TIME_MAX_S, civil_date, format_digits, parse_digits

DAY_S = 86_400
_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DIGITS = re.compile(r"\d{4,14}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """`from_s` to `to_s`, both included, is the period that was named; a full date names its day."""

    digits: str
    target_s: int
    from_s: int
    to_s: int


def parse_moment(text: str) -> Moment | None:
    """None where it is no date of 1970 to 2106. Of an odd number of digits the last is not looked at."""
    if not _DIGITS.fullmatch(text):
        return None
    digits = text[: len(text) - len(text) % 2]
    try:
        from_s, to_s = _period(digits)
        if len(digits) < 14:
            return Moment(digits=digits, target_s=to_s, from_s=from_s, to_s=to_s)
        day_s = from_s - from_s % DAY_S
        return Moment(digits=digits, target_s=from_s, from_s=day_s, to_s=day_s + DAY_S - 1)
    except MalformedRecordError:
        return None


def _period(digits: str) -> tuple[int, int]:
    start = digits + "00000101000000"[len(digits) :]
    if len(digits) == 6:
        year, month = int(digits[:4]), int(digits[4:])
        month = min(max(month, 1), 12)
        end = f"{digits}{calendar.monthrange(max(year, 1), month)[1]:02}235959"
    else:
        end = digits + "99991231235959"[len(digits) :]
    return parse_digits(start), min(parse_digits(end), TIME_MAX_S)


def moment_at(time_s: int) -> Moment:
    day_s = time_s - time_s % DAY_S
    return Moment(digits=format_digits(time_s), target_s=time_s, from_s=day_s, to_s=day_s + DAY_S - 1)


NEWEST = Moment(digits="", target_s=TIME_MAX_S, from_s=TIME_MAX_S, to_s=TIME_MAX_S)


def choose(
    moment: Moment, before_s: int | None, after_s: int | None, seen_s: int | None = None
) -> int | None:
    """Of the newest capture not newer than the target and the oldest newer one. `seen_s`: when the older one was last
    found unchanged, which is as if it had been captured again."""
    if before_s is None or after_s is None:
        return after_s if before_s is None else before_s
    seen_s = max(before_s, min(seen_s or 0, moment.target_s))
    if after_s > moment.to_s:
        return before_s
    is_of_period = seen_s >= moment.from_s
    return before_s if is_of_period and moment.target_s - seen_s <= after_s - moment.target_s else after_s


def http_date(time_s: int) -> str:
    """As in RFC 9110; the standard library's takes ten times as long, and a redirect has three."""
    day, rest = divmod(time_s, DAY_S)
    hour, rest = divmod(rest, 3_600)
    minute, second = divmod(rest, 60)
    return f"{_http_day(day)} {hour:02}:{minute:02}:{second:02} GMT"


@lru_cache(maxsize=1_024)
def _http_day(day: int) -> str:
    year, month, day_of_month = civil_date(day)
    return f"{_WEEKDAYS[(day + 3) % 7]}, {day_of_month:02} {_MONTHS[month - 1]} {year:04}"


def parse_http_date(text: str) -> int | None:
    """None where it is no date, or one that the archive cannot have."""
    try:
        parsed = parsedate_to_datetime(text)
    except (ValueError, IndexError, TypeError):
        return None
    try:
        seconds = int((parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp())
    except (OverflowError, ValueError):
        return None
    return min(max(seconds, 0), TIME_MAX_S)
