"""What does a visit show that found nothing new? The capture it refers to, in whichever of seven ways it says so.

Archives note an unchanged page as profile `server-not-modified` or `identical-payload-digest`, with the head of
the 304, a whole head, or none, naming what they refer to by record, by URL and date, by digest, or not at all.
All are shown as a browser with a cache shows them: the earlier answer, its head brought up to date (RFC 9111,
3.2). What cannot be resolved says so, and is never a blank page.

Without files: the resolution asks for records by yielding a `Reference` and is sent what was found.
"""

import hashlib
import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass

from herodotus.core.captures import split_payload
from herodotus.core.errors import MalformedRecordError
from herodotus.core.warc import NOT_MODIFIED_PROFILE, PAYLOAD_SHA256, WarcRecord, decode_digest, parse_date

HOPS_MAX = 8
"""Revisits that refer to revisits; writers are told not to, and some do."""

_ENTITY = frozenset(
    {
        b"content-length",
        b"content-encoding",
        b"content-type",
        b"content-range",
        b"transfer-encoding",
        b"connection",
    }
)
"""What a 304 says of itself and not of the page."""
_STATUS = re.compile(rb"HTTP/\S+[ \t]+(\d{3})")
_SIZES = {"sha1": 20, "sha256": 32, "md5": 16, "sha512": 64}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """One way to find a record: the first of these that is set, in this order."""

    record_id: str | None = None
    url: str | None = None
    time_s: int | None = None
    """With `url`: that very capture."""
    digest: str | None = None
    """`sha1:…` of a payload, anywhere."""
    before_s: int | None = None
    """With `url`: the newest capture before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a reader gets."""

    head: bytes
    body: bytes
    original: WarcRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Unresolved:
    """The handler offers the nearest day instead."""

    reason: str


Resolution = Generator[Reference, WarcRecord | None, Shown | Unresolved]


def resolution(record: WarcRecord) -> Resolution:
    """`next()` it, send what was found (None: nothing) for each reference, and catch its StopIteration's value;
    `resolve` does so for a plain function."""
    heads: list[bytes] = []
    seen = {_name_of(record)}
    current = record
    for _ in range(HOPS_MAX):
        if current.kind != "revisit":
            head, body = split_payload(current)
            for newer in reversed(heads):
                head = merged_head(newer, head)
            return Shown(head=head, body=body, original=current)
        heads.append(split_payload(current)[0])
        found: WarcRecord | None = None
        for reference in references(current):
            candidate = yield reference
            if candidate is not None and _name_of(candidate) not in seen and _has_payload(candidate, current):
                found = candidate
                break
        if found is None:
            return Unresolved(reason="what this day's visit found unchanged is not in the archive")
        seen.add(_name_of(found))
        current = found
    return Unresolved(reason=f"more than {HOPS_MAX} visits refer to each other")


def references(revisit: WarcRecord) -> Iterator[Reference]:
    """The ways to look for what it refers to, the most certain first."""
    refers_to = revisit.get("WARC-Refers-To")
    if refers_to:
        yield Reference(record_id=refers_to)
    url = _unbracketed(revisit.get("WARC-Refers-To-Target-URI")) or revisit.url
    stated = _time_of(revisit.get("WARC-Refers-To-Date"))
    if url is not None and stated is not None:
        yield Reference(url=url, time_s=stated)
    digest = _digest_of(revisit)
    if digest is not None:
        yield Reference(digest=digest)
    visited = _time_of(revisit.get("WARC-Date"))
    if url is not None and visited is not None:
        yield Reference(url=url, before_s=visited)


def merged_head(newer: bytes, original: bytes) -> bytes:
    """The head to show for the original's body: the newer one if it is whole; of a 304 what brings the
    original's up to date; the original's if there is no newer one."""
    match = _STATUS.match(newer)
    if match is None:
        return original
    if match[1] != b"304":
        return newer
    updates = [line for line in _lines(newer)[1:] if _field_name(line) not in _ENTITY]
    names = {_field_name(line) for line in updates}
    kept = [
        line for number, line in enumerate(_lines(original)) if number == 0 or _field_name(line) not in names
    ]
    return b"\r\n".join((*kept, *updates, b"", b""))


def _lines(head: bytes) -> list[bytes]:
    """Folded lines are joined; the empty line at the end does not count."""
    lines: list[bytes] = []
    for line in head.replace(b"\r\n", b"\n").split(b"\n"):
        if line[:1] in (b" ", b"\t") and lines:
            lines[-1] += b" " + line.strip()
        elif line:
            lines.append(line)
    return lines


def _field_name(line: bytes) -> bytes:
    return line.partition(b":")[0].strip().lower()


def _has_payload(candidate: WarcRecord, revisit: WarcRecord) -> bool:
    """Whether it can be what the revisit means. A server that says 304 vouches for the page, and the digest
    beside it is often that of the 304 itself, which is empty."""
    if candidate.kind not in ("response", "resource", "revisit"):
        return False
    stated = _digest_of(revisit)
    is_vouched = (revisit.get("WARC-Profile") or "").endswith(NOT_MODIFIED_PROFILE.rpartition("/")[2])
    if stated is None or is_vouched:
        return True
    known = {candidate.get("WARC-Payload-Digest"), candidate.get(PAYLOAD_SHA256)}
    if stated in known or candidate.kind == "revisit":
        return stated in known
    name, _, value = stated.partition(":")
    size = _SIZES.get(name.lower())
    wanted = decode_digest(value, size) if size is not None else None
    if size is None or wanted is None:
        return True  # a digest of a kind that nobody can compute proves nothing
    body = split_payload(candidate)[1]
    return hashlib.new(name.lower(), body, usedforsecurity=False).digest() == wanted


def _digest_of(record: WarcRecord) -> str | None:
    stated = record.get("WARC-Payload-Digest") or record.get(PAYLOAD_SHA256)
    if stated is None:
        return None
    name, _, value = stated.partition(":")
    size = _SIZES.get(name.lower())
    digest = decode_digest(value, size) if size is not None else None
    is_of_nothing = (
        digest is not None and digest == hashlib.new(name.lower(), b"", usedforsecurity=False).digest()
    )
    return None if is_of_nothing else stated


def _name_of(record: WarcRecord) -> tuple[str, str | None, str | None]:
    return record.record_id, record.url, record.get("WARC-Date")


def _unbracketed(url: str | None) -> str | None:
    return url[1:-1] if url is not None and url[:1] == "<" and url[-1:] == ">" else url


def _time_of(date: str | None) -> int | None:
    try:
        return None if date is None else parse_date(date)
    except MalformedRecordError:
        return None
