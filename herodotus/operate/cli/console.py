"""How do the archive's commands talk to an operator? Dates and times that people write, progress, sizes.

Data goes to stdout, messages to stderr.
"""

import re
import sys

import click

from herodotus.core.errors import MalformedRecordError
from herodotus.core.warc import TIME_MAX_S, parse_digits
from herodotus.operate.cli.printing import escaped


def parse_moment(text: str | None, *, is_end: bool = False) -> int:
    """14 digits or the first of them; missing digits mean the earliest moment, or the latest for an end."""
    if text is None:
        return TIME_MAX_S if is_end else 0
    digits = "".join(c for c in text if c not in "-:T Z")
    if not (digits.isascii() and digits.isdigit()) or not 4 <= len(digits) <= 14 or len(digits) % 2:
        raise click.BadParameter(f"{text!r} is not a date: YYYY, YYYYMM, … or YYYYMMDDhhmmss")
    filler = "99991231235959" if is_end else "19700101000000"
    try:
        if is_end and len(digits) == 6 and parse_digits(f"{digits}01000000") >= 0:
            return _end_of_month(digits)
        return parse_digits(digits + filler[len(digits) :])
    except MalformedRecordError as error:
        raise click.BadParameter(error.reason) from error


def _end_of_month(digits: str) -> int:
    year, month = int(digits[:4]), int(digits[4:])
    following = f"{year + month // 12:04}{month % 12 + 1:02}"
    return parse_digits(f"{following}01000000") - 1


_UNITS = {"w": 7 * 86_400, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_DURATION = re.compile("".join(rf"((?P<{unit}>\d{{1,9}}){unit})?" for unit in _UNITS))


def parse_duration(text: str) -> int | None:
    """Seconds of `1w`, `2d`, `1h30m`; None for any other text, and for a time of zero."""
    found = _DURATION.fullmatch(text.strip().lower())
    counts = found.groupdict().items() if found else ()
    return sum(int(count) * _UNITS[unit] for unit, count in counts if count) or None


def shown_duration(seconds: float) -> str:
    """As it is typed: `1h30m`."""
    left, parts = round(seconds), ""
    for unit in ("d", "h", "m", "s"):
        count, left = divmod(left, _UNITS[unit])
        parts += f"{count}{unit}" if count else ""
    return parts


def show_progress(words: str) -> None:
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[K{escaped(words)}", err=True, nl=False)


def end_progress() -> None:
    if sys.stderr.isatty():
        click.echo("\r\x1b[K", err=True, nl=False)


def size(count: int) -> str:
    value, unit = float(count), "bytes"
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if value < 1_000 or unit == "TB":
            break
        value /= 1_000
    return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.1f} {unit}"
