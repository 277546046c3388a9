"""How do other people's tools list captures? The CDX server's questions and lines, as its clients expect them.

Here a question is read and rows are chosen, thinned and written; which captures there are is the asker's to find.
One question gives a bounded number of rows and says, if it is asked to, how to continue.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import itemgetter
from typing import TypeVar
from urllib.parse import quote

from herodotus.core.cdxj import surt
from herodotus.core.errors import ArchiveError
from herodotus.core.index_rows import ADDRESS, address_key, after
from herodotus.core.warc import TIME_MAX_S, format_digits
from herodotus.portal.memento import header_url
from herodotus.portal.targets import BadQuestionError, Moment, parse_moment, spellings, variants
from herodotus.portal.tokens import bytes_of_token, counted, token_of_key, uncounted
from herodotus.store import Version

FIELDS = ("urlkey", "timestamp", "original", "mimetype", "statuscode", "digest", "length")
_ALIASES = {"url": "original", "mime": "mimetype", "status": "statuscode"}
_KNOWN = frozenset((*FIELDS, "dupecount", "offset", "filename", "redirect", "robotflags", "door"))
ROWS_MAX = 10_000
PAGE_ADDRESSES = 1_000
PAGES_MAX = 2_000
"""More are not counted: longer lists are read by resume keys."""
REVISIT = "warc/revisit"
NO_PAGE = "there are fewer pages"  # an error, by which clients know that they have them all
_FILTERS_MAX = 8
_PATTERN_CHARS_MAX = 200
_MATCHED_CHARS_MAX = 512
_ESCAPED = re.compile(r"\\.", re.DOTALL)
_ENDLESS = re.compile(r"[*+]|\{\d*,\d*\}")
_ENDLESS_MAX = 2  # with three, a pattern and a URL can be found that keep the processor busy for minutes
_CHOICES_MAX = (8, 8, 4)  # beside none, one and two endless ones: each choice may double the work for a row
FILTERS_S = 2.0
"""For all rows of an answer together; looked at between rows."""
_REFUSED_IN_PATTERNS = re.compile(r"\)[*+?{]|\(\?|\\[0-9]")

P = TypeVar("P")
Row = dict[str, str]
_whole = itemgetter(*FIELDS)


class CostlyFiltersError(ArchiveError):
    def __init__(self) -> None:
        super().__init__(f"the filters took more than {FILTERS_S:g} seconds: ask for fewer rows at once")


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    name: str
    is_negated: bool
    pattern: re.Pattern[str] | None = None
    part: str = ""

    def admits(self, row: Row) -> bool:
        value = row.get(self.name, "-")[:_MATCHED_CHARS_MAX]
        found = self.pattern.fullmatch(value) is not None if self.pattern is not None else self.part == value
        return found is not self.is_negated


@dataclass(frozen=True, slots=True, kw_only=True)
class CdxQuestion:
    urls: tuple[str, ...] = ()
    """Exact: all spellings that the CDX key does not tell apart."""
    ranges: tuple[tuple[bytes, bytes], ...] = ()
    """Otherwise: ranges of the archive's list of addresses, in order."""
    from_s: int = 0
    to_s: int = TIME_MAX_S
    limit: int = ROWS_MAX
    """Negative: the last so many."""
    offset: int = 0
    filters: tuple[Filter, ...] = ()
    fields: tuple[str, ...] = FIELDS
    collapse: tuple[tuple[str, int], ...] = ()
    closest: Moment | None = None
    is_reversed: bool = False
    is_json: bool = False
    shows_resume_key: bool = False
    shows_pages: bool = False
    page: int | None = None
    resume_at: tuple[bytes, int] | None = None
    short_parts: int = 0
    """How many parts before this one a peer cut short (`peer_rows.py`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CdxRows:
    """What the archive gave: rows in order, and where to continue if there are more."""

    rows: Sequence[Row] = field(default=())
    resume_at: tuple[bytes, int] | None = None
    pages: int = 0
    short_parts: int = 0


def parse_question(parameters: Sequence[tuple[str, str]]) -> CdxQuestion:
    given: dict[str, list[str]] = {}
    for name, value in parameters:
        given.setdefault(name, []).append(value)

    def one(name: str, default: str = "") -> str:
        return given.get(name, [default])[0]

    url = one("url")
    if not url:
        raise BadQuestionError("say which: url=…")
    urls, ranges = _places(url, one("matchType", "exact"))
    sort = one("sort")
    times = [f"timestamp:{digits}" for digits in given.get("collapseTime", [])]  # as older servers call it
    resume_at, short_parts = decode_resume_key(one("resumeKey")) if one("resumeKey") else (None, 0)
    return CdxQuestion(
        urls=urls,
        ranges=ranges,
        from_s=_begin(moment_named(one("from"), "from")) if one("from") else 0,
        to_s=moment_named(one("to"), "to").target_s if one("to") else TIME_MAX_S,
        limit=_number(one("limit"), "limit", ROWS_MAX, -ROWS_MAX, ROWS_MAX) or ROWS_MAX,
        offset=_number(one("offset"), "offset", 0, 0, 10_000_000),
        filters=tuple(map(_filter, _bounded(given.get("filter", [])))),
        fields=_fields(one("fl") or one("fields"), one("showDupeCount") == "true"),
        collapse=tuple(map(_collapse, _bounded([*given.get("collapse", []), *times]))),
        closest=moment_named(one("closest"), "closest")
        if one("closest") and sort in ("", "closest")
        else None,
        is_reversed=sort == "reverse" or one("reverse") == "true",
        is_json=one("output") == "json",
        shows_resume_key=one("showResumeKey") == "true",
        shows_pages=one("showNumPages") == "true",
        page=_number(one("page"), "page", 0, 0, 10_000_000) if one("page") else None,
        resume_at=resume_at,
        short_parts=short_parts,
    )


def _bounded(values: list[str]) -> list[str]:
    if len(values) > _FILTERS_MAX:
        raise BadQuestionError(f"more than {_FILTERS_MAX} filters")
    return values


def moment_named(text: str, name: str) -> Moment:
    moment = parse_moment(text)
    if moment is None:
        raise BadQuestionError(f"{name}={text[:40]!r} is not a date: YYYY, YYYYMM, … or YYYYMMDDhhmmss")
    return moment


def _begin(moment: Moment) -> int:
    return moment.target_s if moment.is_exact else moment.from_s


def _number(text: str, name: str, default: int, least: int, most: int) -> int:
    if not text:
        return default
    if not re.fullmatch(r"-?\d{1,18}", text, re.ASCII):
        raise BadQuestionError(f"{name}={text[:40]!r} is not a number")
    return max(least, min(int(text), most))


def _fields(text: str, has_count: bool) -> tuple[str, ...]:
    names = [_name(name) for name in text.split(",")] if text else [*FIELDS]
    return tuple([*names, "dupecount"] if has_count and "dupecount" not in names else names)


def _name(text: str) -> str:
    name = _ALIASES.get(text.strip(), text.strip())
    if name not in _KNOWN:
        raise BadQuestionError(f"there is no field {text[:40]!r}; there are {', '.join(FIELDS)}")
    return name


def _filter(text: str) -> Filter:
    """`[!][=~]field:value`; without a sign the value is an expression that matches the whole field."""
    is_negated = text.startswith("!")
    rest = text[is_negated:]
    sign = rest[:1] if rest[:1] in "=~" else ""
    name, colon, value = rest[len(sign) :].partition(":")
    if not colon:
        raise BadQuestionError(f"filter={text[:40]!r} has no colon")
    if sign == "=":
        return Filter(name=_name(name), is_negated=is_negated, part=value)
    if len(value) > _PATTERN_CHARS_MAX or _is_costly(value):
        raise BadQuestionError(
            f"the expression {value[:40]!r} may cost too much: at most {_ENDLESS_MAX} of * and +, none behind a "
            f"group, and {_CHOICES_MAX[0]} of ? and |, or {_CHOICES_MAX[-1]} beside two of * and +"
        )
    try:
        return Filter(name=_name(name), is_negated=is_negated, pattern=re.compile(value))
    except (re.error, OverflowError) as error:
        raise BadQuestionError(f"{value[:40]!r} is no expression: {error}") from error


def _is_costly(pattern: str) -> bool:
    """`a|b` without a group is tried once each; in groups one behind the other, each doubles what is tried."""
    plain = _ESCAPED.sub("x", pattern)
    endless = len(_ENDLESS.findall(plain))
    choices = plain.count("?") + (plain.count("|") if "(" in plain else 0)
    if endless > _ENDLESS_MAX or choices > _CHOICES_MAX[endless]:
        return True
    return _REFUSED_IN_PATTERNS.search(pattern) is not None


def _collapse(text: str) -> tuple[str, int]:
    name, _, length = text.partition(":")
    return _name(name), _number(length, "collapse", 0, 0, 10_000)


def _places(url: str, match: str) -> tuple[tuple[str, ...], tuple[tuple[bytes, bytes], ...]]:
    if url.startswith("*."):
        url, match = url[2:], "domain"
    elif url.endswith("*"):
        url, match = url.rstrip("*"), "prefix"
    spelled = spellings(url)
    if match == "exact":
        return tuple(dict.fromkeys(one for text in spelled for one in variants(text))), ()
    if match not in ("prefix", "host", "domain"):
        raise BadQuestionError(f"matchType={match[:40]!r}: there are exact, prefix, host and domain")
    return (), ranges_around(spelled, match)


def ranges_around(urls: Iterable[str], match: str) -> tuple[tuple[bytes, bytes], ...]:
    """Of the list of addresses, in order: whatever has one of the URLs before it in any variant."""
    return tuple(sorted({pair for url in urls for one in variants(url) for pair in ranges_of(one, match)}))


def ranges_of(url: str, match: str) -> list[tuple[bytes, bytes]]:
    key = address_key(url).rpartition(b"\0")[0]
    if not key.startswith(ADDRESS) or key == ADDRESS:
        return []
    if match == "prefix":
        return [(key, after(key))]
    host = key[: key.index(b")")]
    ends = (b")", b":") if match == "host" else (b")", b":", b",")
    return [(host + end, after(host + end)) for end in ends]


@lru_cache(maxsize=256)  # neighbours in a list are versions of one address
def _names_of(url: str) -> tuple[str, str]:
    return header_url(surt(url)), header_url(url)


def row_of(version: Version) -> Row:
    key, original = _names_of(version.url)
    return {
        "urlkey": key,
        "timestamp": format_digits(version.first_seen_s),
        "original": original,
        "mimetype": _one_word(version.mime),
        "statuscode": str(version.status) if version.status else "-",
        "digest": version.sha1.removeprefix("sha1:") or "-",
        "length": str(version.stored_bytes),
        "door": version.door.replace(" ", ","),
    }


def visit_row(row: Row, time_s: int) -> Row:
    """A visit that found the row's capture unchanged. Its type says so, as in every archive; all else is the
    original's."""
    return {**row, "timestamp": format_digits(time_s), "mimetype": REVISIT}


def _one_word(mime: str) -> str:
    """A line's fields are parted by spaces."""
    found = mime.partition(";")[0].strip()
    return found if found and found.isascii() and found.isprintable() and " " not in found else "unk"


def thinned(rows: Iterable[Row], question: CdxQuestion, now: Callable[[], float]) -> Iterator[Row]:
    """Filtered, counted and collapsed, in the order they come; `now` is asked in whatever thread works."""
    return (row for _, row in thinned_places(((None, row) for row in rows), question, now))


def thinned_places(
    rows: Iterable[tuple[P, Row]], question: CdxQuestion, now: Callable[[], float]
) -> Iterator[tuple[P, Row]]:
    """The same, and each row keeps what it comes with."""
    seen: dict[str, int] = {}
    used_s = 0.0
    counts = "dupecount" in question.fields
    last: tuple[str, ...] | None = None
    if not (question.filters or counts or question.collapse):
        yield from rows
        return
    for place, found in rows:
        begun_s = now()
        is_admitted = all(one.admits(found) for one in question.filters)
        used_s += now() - begun_s
        if used_s > FILTERS_S:
            raise CostlyFiltersError
        if not is_admitted:
            continue
        row = found
        if counts:
            earlier = seen.get(row["digest"], 0)
            seen[row["digest"]] = earlier + 1
            row = {**row, "dupecount": str(earlier)}
        if question.collapse:
            key = tuple(row.get(name, "-")[: length or None] for name, length in question.collapse)
            if key == last:
                continue
            last = key
        yield place, row


def format_rows(found: CdxRows, question: CdxQuestion) -> tuple[str, str]:
    """Content type and body."""
    resume = ""
    if found.resume_at and question.shows_resume_key:
        resume = encode_resume_key(found.resume_at, found.short_parts)
    rows = _columns(found.rows, question.fields)
    if question.is_json:
        table = [list(question.fields), *rows] if rows else []
        if resume:
            table += [[], [resume]]
        return "application/json", "[" + ",\n".join(json.dumps(row) for row in table) + "]\n"
    lines = [" ".join(row) for row in rows]
    if resume:
        lines += ["", resume]
    return "text/plain; charset=utf-8", "".join(f"{line}\n" for line in lines)


def _columns(rows: Sequence[Row], fields: tuple[str, ...]) -> Sequence[Sequence[str]]:
    if fields == FIELDS:  # which every row has
        return [_whole(row) for row in rows]
    return [[row.get(name) or _made(row, name) for name in fields] for row in rows]


def _made(row: Row, name: str) -> str:
    """A file below `/api/v1/` that holds this capture alone, at its start: our own files hold many in one member,
    by codings that not every tool reads."""
    if name == "filename":
        return f"records/warc?date={row['timestamp']}&url={quote(row['original'], safe='')}"
    return "0" if name == "offset" else "-"


def end_of_part(rows: Sequence[P], limit: int, place: Callable[[P], object]) -> int:
    """Where a part ends that another one follows. Contents of one second have one place, so they are all in this
    part or all in the next; where it would hold nothing else, it holds more than `limit`."""
    if len(rows) <= limit:
        return len(rows)
    end, at = limit, place(rows[limit])
    while end and place(rows[end - 1]) == at:
        end -= 1
    if not end:
        end = next((n for n in range(limit, len(rows)) if place(rows[n]) != at), len(rows))
    return end


def encode_resume_key(at: tuple[bytes, int], short_parts: int = 0) -> str:
    return counted(token_of_key(at[1].to_bytes(4, "big") + at[0]), short_parts)


def decode_resume_key(text: str) -> tuple[tuple[bytes, int], int]:
    """The place, and how many parts before it were cut short."""
    key, short_parts = uncounted(text)
    data = bytes_of_token(key)
    if len(data) < 5:
        raise BadQuestionError("resumeKey: this archive did not give this key")
    return (data[4:], int.from_bytes(data[:4], "big")), short_parts
