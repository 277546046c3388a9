"""What does a WARC 1.1 record look like in bytes, and what do we accept from strangers?

A record is a version line, named fields, an empty line, a block of the announced length and two line ends (ISO
28500:2017). Here records are formatted and split; compression is `herodotus.store.members`, files are elsewhere. A
stranger's records have limits: the length of a head, the number of its fields, the length of a block.
"""

import base64
import binascii
import calendar
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from herodotus.core.errors import MalformedRecordError

Fields = tuple[tuple[str, str], ...]

HEAD_BYTES_MAX = 64 * 1024  # our heads are below 1 KiB; the longest URL we keep has 16 KiB
FIELDS_MAX = 256
BLOCK_BYTES_MAX = (
    128 * 1024 * 1024
)  # one record is held in memory; half a segment is the most that makes sense
COMPANIONS_BYTES_MAX = 16 * 1024 * 1024  # of the records that came with a capture: they share its frame
TIME_MAX_S = 2**32 - 1  # the index has 32 bits for a second: until 2106

REVISIT_PROFILE = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
NOT_MODIFIED_PROFILE = "http://netpreserve.org/warc/1.1/revisit/server-not-modified"
PAYLOAD_SHA256 = "Herodotus-Payload-Digest"
"""Our own field: other tools expect SHA-1 in WARC-Payload-Digest, and SHA-1 can be forged."""

_DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z")
_VERSION = re.compile(rb"WARC/(?:0\.1[678]|1\.[01])\r?\n")
_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
_UNSAFE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


@dataclass(frozen=True, slots=True, kw_only=True)
class WarcRecord:
    """Fields in order, without Content-Length, which is the block's business."""

    fields: Fields
    block: bytes

    def get(self, name: str) -> str | None:
        return field(self.fields, name)

    @property
    def kind(self) -> str:
        return (self.get("WARC-Type") or "").lower()

    @property
    def record_id(self) -> str:
        return self.get("WARC-Record-ID") or ""

    @property
    def url(self) -> str | None:
        url = self.get("WARC-Target-URI")
        # WARC 1.0 showed the URI in angle brackets, and some writers followed.
        return url[1:-1] if url is not None and url[:1] == "<" and url[-1:] == ">" else url

    @property
    def time_s(self) -> int:
        return parse_date(self.get("WARC-Date") or "")


def field(fields: Fields, name: str) -> str | None:
    """The first field of that name, in any case."""
    for known, value in fields:
        if known == name:
            return value
    wanted = name.lower()
    return next((value for known, value in fields if known.lower() == wanted), None)


def format_record(fields: Iterable[tuple[str, str]], block: bytes) -> bytes:
    """A whole record. Characters that would break a line become spaces, so that no field can be smuggled in."""
    text = "".join(f"{clean(name)}: {clean(value)}\r\n" for name, value in fields)
    head = f"WARC/1.1\r\n{text}Content-Length: {len(block)}\r\n\r\n".encode("utf-8", "surrogateescape")
    return b"".join((head, block, b"\r\n\r\n"))


def clean(text: str) -> str:
    # Nearly everything is printable, which costs a twentieth of the search to find out.
    return text if text.isprintable() else _UNSAFE.sub(" ", text)


def split_head(data: bytes, at: int = 0) -> tuple[Fields, int, int]:
    """The fields of the record at `at`, where its block starts and how long it says it is."""
    version = _VERSION.match(data, at)
    if version is None:
        raise MalformedRecordError("no WARC version line")
    end, blank = _end_of_head(data, version.end(), at + HEAD_BYTES_MAX)
    fields = _parse_fields(data[version.end() : end])
    length = _content_length(fields)
    # Ours come last and are written so; a stranger may write another case, in another place.
    if fields[-1][0] == "Content-Length":
        fields = fields[:-1]
    kept = tuple([pair for pair in fields if len(pair[0]) != 14 or pair[0].lower() != "content-length"])
    return kept, end + blank, length


def _end_of_head(data: bytes, start: int, limit: int) -> tuple[int, int]:
    crlf = data.find(b"\r\n\r\n", start - 2, limit)
    bare = data.find(b"\n\n", start - 1, limit if crlf < 0 else crlf)
    if bare >= 0:
        return bare + 1, 1
    if crlf >= 0:
        return crlf + 2, 2
    raise MalformedRecordError("the head is cut off or too long")


def _parse_fields(head: bytes) -> Fields:
    if b"\0" in head:
        raise MalformedRecordError("a NUL in the head")
    if head.count(b"\n") > FIELDS_MAX:
        raise MalformedRecordError(f"more than {FIELDS_MAX} lines in the head")
    fields: list[tuple[str, str]] = []
    for line in head.decode("utf-8", "surrogateescape").replace("\r\n", "\n").split("\n"):
        if not line:
            continue
        if line[0] in " \t" and fields:
            name, value = fields[-1]
            fields[-1] = (name, f"{value} {line.strip()}")
            continue
        name, colon, value = line.partition(":")
        name = name.strip()
        if not colon or not name:
            raise MalformedRecordError("a line of the head is no field")
        fields.append((name, value.strip()))
    return tuple(fields)


def _content_length(fields: Fields) -> int:
    text = field(fields, "Content-Length")
    if text is None or not (text.isascii() and text.isdigit()) or len(text) > 12:
        raise MalformedRecordError(f"Content-Length is {text!r}"[:80])
    return int(text)


def split_record(data: bytes, at: int = 0) -> tuple[WarcRecord, int]:
    """The record at `at` and where the next one starts; the whole record must be there."""
    fields, start, length = split_head(data, at)
    end = start + length
    if end > len(data):
        raise MalformedRecordError("the block is shorter than announced")
    if data[end : end + 4] != b"\r\n\r\n":
        raise MalformedRecordError("no two line ends after the block")
    return WarcRecord(fields=fields, block=data[start:end]), end + 4


def split_records(data: bytes) -> list[WarcRecord]:
    records = []
    at = 0
    while at < len(data):
        record, at = split_record(data, at)
        records.append(record)
    return records


def check_block(record: WarcRecord) -> None:
    """Raise when the block is not the one that was digested; a digest we cannot compute is let through."""
    stated = record.get("WARC-Block-Digest")
    if stated is None:
        return
    name, _, value = stated.partition(":")
    if name.lower() not in ("sha1", "sha256", "md5", "sha512"):
        return
    actual = hashlib.new(name.lower(), record.block, usedforsecurity=False).digest()
    if name == "sha1" and value == base32(actual):
        return
    if decode_digest(value, len(actual)) != actual:
        raise MalformedRecordError("the block does not match its digest")


def decode_digest(text: str, size: int) -> bytes | None:
    """Hexadecimal or base 32, whichever gives `size` bytes; None when neither does."""
    try:
        digest = bytes.fromhex(text) if len(text) == 2 * size else base64.b32decode(text.upper())
    except (ValueError, binascii.Error):
        return None
    return digest if len(digest) == size else None


def sha1_label(digest: bytes) -> str:
    return "sha1:" + base32(digest)


def sha1_of(block: bytes) -> str:
    return sha1_label(hashlib.sha1(block, usedforsecurity=False).digest())


def base32(digest: bytes) -> str:
    """RFC 4648, for whole groups of five bytes: ten times as fast as the standard library's."""
    number = int.from_bytes(digest, "big")
    pairs = [_PAIRS[number >> shift & 1023] for shift in range(len(digest) * 8 - 10, -1, -10)]
    return "".join(pairs)


def derive_record_id(*parts: bytes) -> str:
    """A record's id follows from its content, so storing and recovering need no randomness."""
    # A UUID of version 8, which leaves all other bits to us (RFC 9562, 5.8).
    text = hashlib.sha256(b"\0".join(parts)).hexdigest()
    variant = "89ab"[int(text[16], 16) & 3]
    return f"<urn:uuid:{text[:8]}-{text[8:12]}-8{text[13:16]}-{variant}{text[17:20]}-{text[20:32]}>"


_TWO_DIGITS = tuple(f"{number:02}" for number in range(60))


def format_date(time_s: int) -> str:
    # This is in the path of every capture. strftime reads a locale and costs thirty times as much, formatting each
    # number three times.
    hour, minute, second = (
        _TWO_DIGITS[time_s // 3_600 % 24],
        _TWO_DIGITS[time_s // 60 % 60],
        _TWO_DIGITS[time_s % 60],
    )
    return f"{_format_day(time_s // 86_400)}T{hour}:{minute}:{second}Z"


@lru_cache(maxsize=1_024)
def _format_day(day: int, separator: str = "-") -> str:
    year, month, day_of_month = civil_date(day)
    return f"{year:04}{separator}{month:02}{separator}{day_of_month:02}"


def format_digits(time_s: int) -> str:
    """YYYYMMDDhhmmss, as CDX lines and the portal's paths have it."""
    hour, minute, second = (
        _TWO_DIGITS[time_s // 3_600 % 24],
        _TWO_DIGITS[time_s // 60 % 60],
        _TWO_DIGITS[time_s % 60],
    )
    return f"{_format_day(time_s // 86_400, '')}{hour}{minute}{second}"


def parse_date(text: str) -> int:
    if _DATE.fullmatch(text) is None:
        raise MalformedRecordError(f"WARC-Date is {text!r}"[:80])
    return _seconds(text[:10], int(text[11:13]), int(text[14:16]), int(text[17:19]))


def parse_digits(text: str) -> int:
    if len(text) != 14 or not (text.isascii() and text.isdigit()):
        raise MalformedRecordError(f"{text!r} is no date of 14 digits"[:80])
    date = f"{text[:4]}-{text[4:6]}-{text[6:8]}"
    return _seconds(date, int(text[8:10]), int(text[10:12]), int(text[12:]))


def _seconds(date: str, hour: int, minute: int, second: int) -> int:
    # A leap second is 60; the second after it stands for it, as in POSIX time.
    if not (hour < 24 and minute < 60 and second <= 60):
        raise MalformedRecordError(f"{date} {hour}:{minute}:{second} is not a date")
    time_s = _day_start(date) + 3_600 * hour + 60 * minute + second
    if not 0 <= time_s <= TIME_MAX_S:
        raise MalformedRecordError(f"{date} is outside 1970 to 2106")
    return time_s


@lru_cache(maxsize=1_024)
def _day_start(date: str) -> int:
    year, month, day = int(date[:4]), int(date[5:7]), int(date[8:])
    if not (year and 1 <= month <= 12 and 1 <= day <= calendar.monthrange(year, month)[1]):
        raise MalformedRecordError(f"{date} is not a date")
    try:
        return calendar.timegm((year, month, day, 0, 0, 0))
    except ValueError:
        raise MalformedRecordError(f"{date} is not a date") from None


def civil_date(day: int) -> tuple[int, int, int]:
    """Year, month and day of the month of a day since 1970 (Hinnant's `civil_from_days`)."""
    shifted = day + 719_468
    era, day_of_era = divmod(shifted, 146_097)
    year_of_era = (day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted_month = (5 * day_of_year + 2) // 153
    month = shifted_month + 3 if shifted_month < 10 else shifted_month - 9
    year = year_of_era + era * 400 + (month <= 2)
    return year, month, day_of_year - (153 * shifted_month + 2) // 5 + 1
