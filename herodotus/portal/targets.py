"""What does a path under `/web/` name? The Wayback Machine's shapes, taken apart without decoding them.

The archived address stands in the path as it is, its own query included; tools also send it escaped as a whole, or
with one of the two slashes lost to a proxy.

Which day is meant by a date of some digits, and which capture is shown for it?

DESIGN 9: among captures of the requested day (month, year) the nearest; else the newest older one; else, said
plainly, the nearest newer one. A date of fewer than 14 digits names a period and means its end: its last state.
"""

import calendar
import re
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from enum import Enum
from functools import lru_cache
from urllib.parse import unquote, unquote_to_bytes

from crawler.core.errors import MalformedUrlError
from crawler.core.urls import canonical
from herodotus.core.errors import MalformedRecordError
from herodotus.core.replay import Flag
from herodotus.core.warc import TIME_MAX_S, civil_date, format_digits, parse_digits

DAY_S = 86_400
_FIRST_YEAR, _LAST_YEAR = 1970, 2106
_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DIGITS = re.compile(r"\d{1,14}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """`from_s` to `to_s`, both included, is the period that was named; a full date names its day."""

    digits: str
    target_s: int
    from_s: int
    to_s: int

    @property
    def is_exact(self) -> bool:
        """Named to the second."""
        return len(self.digits) == 14


def parse_moment(text: str) -> Moment | None:
    """None where it is no date of 1970 to 2106. Of an odd number of digits the last is not looked at; fewer than four
    name the years that begin so, so that `2` is the newest and `0` the oldest."""
    if not _DIGITS.fullmatch(text):
        return None
    if len(text) < 4:
        from_s, to_s = _years(text)
        return Moment(digits=text, target_s=to_s, from_s=from_s, to_s=to_s)
    digits = text[: len(text) - len(text) % 2]
    try:
        from_s, to_s = _period(digits)
    except MalformedRecordError:
        return None
    if len(digits) == 14:
        return moment_at(from_s)
    return Moment(digits=digits, target_s=to_s, from_s=from_s, to_s=to_s)


def _years(begin: str) -> tuple[int, int]:
    """Of the years that begin so, as far as the archive's dates go."""
    first, last = int(begin.ljust(4, "0")), int(begin.ljust(4, "9"))
    if last < _FIRST_YEAR:
        return 0, 0
    start = _period(f"{max(first, _FIRST_YEAR)}")[0] if first <= _LAST_YEAR else TIME_MAX_S
    return start, _period(f"{last}")[1] if last < _LAST_YEAR else TIME_MAX_S


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


URL_CHARS_MAX = 16_384
_TIMEMAP = re.compile(r"/web/timemap/(link|json|cdxj|html)/(.*)", re.DOTALL)
_HISTORY = re.compile(r"/web/(\d{4,14})?\*/(.*)", re.DOTALL | re.ASCII)
_REPLAY = re.compile(r"/web/(\d{1,14})([a-z]{2}_)?/(.*)", re.DOTALL | re.ASCII)
_NEWEST = re.compile(r"/web/([a-z]{2}_)/(.*)", re.DOTALL)
_NO_FORM = re.compile(r"/web/timemap/[a-z]+/(?:https?:|https?%3a)", re.IGNORECASE)
_GATE = re.compile(r"/web/(.*)", re.DOTALL)
_ONE_SLASH = re.compile(r"(https?):/(?!/)", re.IGNORECASE)
_SCHEME = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]*:(?!\d)"
)  # example.org:8080 has a port, mailto:somebody a scheme
# The URL standard escapes none of these, and many programs do on their way here.
_ESCAPED_IN_PATH = re.compile(r"%(?:5E|7C)", re.IGNORECASE)
_ESCAPED_IN_QUERY = re.compile(r"%(?:5[CE]|60|7[BCD])", re.IGNORECASE)
# Nor need imported files escape these, which no answer of ours can name otherwise (`memento.header_url`).
_ESCAPED_IN_ANSWERS = re.compile(
    r"(?:%(?:2[02]|3[CE]|5[CE]|60|7[BCD]|[C-F][0-9A-F](?:%[89AB][0-9A-F])+))+", re.IGNORECASE
)


_FLAGS = frozenset(str(flag) for flag in Flag if flag is not Flag.PAGE)


class TargetKind(Enum):
    HISTORY = "history"
    LISTING = "listing"
    REPLAY = "replay"
    GATE = "gate"
    TIMEMAP = "timemap"


@dataclass(frozen=True, slots=True, kw_only=True)
class WebTarget:
    """`url` as it was asked for; `moment` where a date stood."""

    kind: TargetKind
    url: str
    moment: Moment | None = None
    flag: Flag = Flag.PAGE
    form: str = ""


class BadQuestionError(ValueError):
    """A sentence for the asker."""


def parse_web_target(target: str) -> WebTarget:
    if timemap := _TIMEMAP.fullmatch(target):
        return WebTarget(kind=TargetKind.TIMEMAP, url=_url(timemap[2]), form=timemap[1])
    if history := _HISTORY.fullmatch(target):
        moment = _moment(history[1]) if history[1] else None
        if history[2].endswith("*") or history[2].startswith("*."):
            return WebTarget(
                kind=TargetKind.LISTING, url=_url(history[2].rstrip("*") or "http:"), moment=moment
            )
        return WebTarget(kind=TargetKind.HISTORY, url=_url(history[2]), moment=moment)
    if replay := _REPLAY.fullmatch(target):
        try:
            flag = Flag(replay[2] or "")
        except ValueError:
            raise BadQuestionError(f"{replay[2]} is not a flag that this archive knows") from None
        return WebTarget(kind=TargetKind.REPLAY, url=_url(replay[3]), moment=_moment(replay[1]), flag=flag)
    if (newest := _NEWEST.fullmatch(target)) and newest[1] in _FLAGS:
        return WebTarget(
            kind=TargetKind.REPLAY, url=_url(newest[2]), moment=_moment("2"), flag=Flag(newest[1])
        )
    if _NO_FORM.match(target):
        raise BadQuestionError("there are TimeMaps as link, json and cdxj")
    gate = _GATE.fullmatch(target)
    if gate is None:
        raise BadQuestionError("there is no address in this path")
    return WebTarget(kind=TargetKind.GATE, url=_url(gate[1]))


def _moment(digits: str) -> Moment:
    moment = parse_moment(digits)
    if moment is None:
        raise BadQuestionError(f"{digits} is not a date: use YYYY, YYYYMM, YYYYMMDD or YYYYMMDDhhmmss")
    return moment


def _url(text: str) -> str:
    if len(text) > URL_CHARS_MAX:
        raise BadQuestionError(
            f"the address has {len(text)} characters; this archive accepts {URL_CHARS_MAX} at most"
        )
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise BadQuestionError("the address contains half a character") from None
    if "://" not in text and re.match(r"https?%3a", text, re.IGNORECASE):
        text = unquote(text, errors="replace")
    text = _ONE_SLASH.sub(r"\1://", text, count=1) if _ONE_SLASH.match(text) else text
    if not text or text in ("http://", "https://"):
        raise BadQuestionError("there is no address in this path")
    return text


def spellings(url: str) -> tuple[str, ...]:
    """Canonical first, as the crawler wrote it; then as it was asked for, as imported files keep their spelling.

    BadQuestionError for what is no address of the web: other schemes, and what the URL standard cannot parse.
    """
    tried = [url] if _SCHEME.match(url) else [f"https://{url}", f"http://{url}"]
    found: list[str] = []
    reason = ""
    for text in tried:
        try:
            found.append(canonical(text))
        except MalformedUrlError as error:
            reason = error.reason
    if not found:
        raise BadQuestionError(f"this is not the address of a web page: {reason}")
    asked = [text for text in tried if text.startswith(("http://", "https://"))]
    return tuple(
        dict.fromkeys([*found, *asked, *(one for text in [*found, *asked] for one in unescaped(text))])
    )


def as_asked(url: str) -> tuple[str, ...]:
    """`spellings`, the one that was asked for first, so that all questions about it have one answer."""
    urls = spellings(url)
    return tuple(dict.fromkeys((url, *urls))) if url in urls else urls


def unescaped(url: str) -> tuple[str, ...]:
    """What may be stored where `url` is asked for, as something on the way escaped it; mostly nothing."""
    if "%" not in url:
        return ()
    path, mark, query = url.partition("?")
    as_crawled = _ESCAPED_IN_PATH.sub(_plain, path) + mark + _ESCAPED_IN_QUERY.sub(_plain, query)
    as_imported = _ESCAPED_IN_ANSWERS.sub(_plain, url)
    return tuple(one for one in dict.fromkeys((as_crawled, as_imported)) if one != url)


def _plain(match: re.Match[str]) -> str:
    try:
        return unquote_to_bytes(match[0]).decode()
    except UnicodeDecodeError:
        return match[0]


def variants(url: str) -> tuple[str, ...]:
    """What the CDX key does not tell apart: http and https, with `www.` and without."""
    _, _, rest = url.partition("://")
    bare = rest.removeprefix("www.")
    hosts = (rest, f"www.{bare}" if rest == bare and not re.match(r"[\d.\[]+(?:[:/]|$)", bare) else bare)
    return tuple(dict.fromkeys(f"{scheme}://{one}" for one in hosts for scheme in ("http", "https")))
