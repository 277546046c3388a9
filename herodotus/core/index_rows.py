"""What does the index know about a capture, in as few bytes as possible?

Keys sort by ring position and then by time, so that an arc of the ring, the versions of one URL and a
directory of the thesis (16 bits of the position) are ranges. Everything can be computed again from the WARC
files.

    c  position[:12] time[4] variant[3]  -> place of the record, what kind it is, its arrival
    d  bucket[1] sha256[:6] kind[1] position[:8] time[4]  -> (nothing): a capture with this payload
    v  position[:12] time[4] variant[3]  -> unchanged visits since that version: number, the last
    w  position[:12] time[4] variant[3] span[2]  -> when those of 32 days were, as far as they are kept
    f  position[:12]  -> visits since its last answer that got none: the first, the last, number, reason
    t  position[:12] time[4] variant[3]  -> (nothing): deleted for good
    g  position[:12] time[4] variant[3]  -> file: a capture that was lost with it, and is not back
    x  file[4] offset[4]  -> (nothing): a visit log or a tombstone is there
    h  directory[1]  -> digests of the directories of 16 bits in it; only while nothing changes there
    n  position[:12] day[3]  -> (nothing): a URL on a day that has more than one capture
    u  address  -> (nothing): a URL that has, or once had, a capture; hosts from the right
    s  stem[:8] position[:8]  -> (nothing): a URL that has, or once had, a capture, and is not its own stem
    l  target[:12] source[:12]  -> first and last capture of the source in which the link to the target stood
    a  property[1] value  -> captures that have it, and bytes of their payloads
    m  name  -> settings of the index itself

The prefixes cannot be confused by an accident (2^-96 a pair for positions) and the record at the place is compared
with the whole value. The variant is the digest's start: two contents of one URL and second are two captures.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from itertools import accumulate, pairwise
from struct import pack, unpack_from
from typing import NamedTuple, Self

from crawler.core.urls import STEM_KEY_BYTES, stem, stem_key
from herodotus.core.captures import CaptureId

KEY_BYTES = 12
PAYLOAD_PREFIX_BYTES = 8
"""Of a key of family d: the bucket and the payload. The kind comes next."""
_WEB_URL = re.compile(r"http(s?)://([^/?#@:,)\[\]]+|\[[0-9a-fA-F:.]+\])((?::\d+)?)(/[^\0]*)", re.DOTALL)
CAPTURE, PAYLOAD, VISITS, TOMBSTONE, AUXILIARY, META = b"c", b"d", b"v", b"t", b"x", b"m"
DIGEST, SEVERAL = b"h", b"n"
ADDRESS, STEM = b"u", b"o"
SEEN = b"w"
FAILED = b"f"
GONE = b"g"
LINK, TALLY = b"l", b"a"
DAY_S = 86_400
SEEN_SPAN_S = 32 * DAY_S
SEEN_MAX = 256
"""Visits in a span whose times are kept: one every three hours. All are counted."""
BUCKETS = 16


class RowKind(IntEnum):
    """The kind of record, so that counting and choosing need not read it."""

    BODY = 0
    REVISIT = 1


_KINDS = (RowKind.BODY, RowKind.REVISIT)


class FilePlace(NamedTuple):
    """Where a record lies: the member in a file, and the record within the member's content."""

    file: int
    offset: int
    length: int
    skip: int = 0

    @property
    def end(self) -> int:
        return self.offset + self.length


class IndexEntry(NamedTuple):
    place: FilePlace
    kind: RowKind
    arrival: int
    """Grows with every stored capture; log number and offset at the time of storing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VisitCount:
    count: int
    last_s: int


class Unreachable(NamedTuple):
    """Visits in a row that got no answer, or one that says that the site is out of order."""

    since_s: int
    last_s: int
    tries: int
    reason: str
    """Of the last."""

    def and_of_site(self, site: Self) -> Self:
        """Both since the same answer: a page, and robots.txt of its site, without which nothing there is asked for."""
        last = max(self, site, key=lambda one: one.last_s)
        return last._replace(since_s=min(self.since_s, site.since_s), tries=self.tries + site.tries)


def unreachable_after(
    known: Unreachable | None, time_s: int, reason: str, answered_s: int
) -> Unreachable | None:
    """`answered_s`: of its last answer that the archive has; an empty reason is an answer of which it has nothing."""
    if not reason:
        return None if known is None or known.last_s <= time_s else known
    if time_s <= answered_s:
        return known
    if known is None or known.last_s <= answered_s:
        return Unreachable(time_s, time_s, 1, reason)
    return Unreachable(
        min(known.since_s, time_s),
        max(known.last_s, time_s),
        known.tries + 1,
        reason if time_s >= known.last_s else known.reason,
    )


def arrival_of(file: int, offset: int) -> int:
    assert 0 <= offset < 1 << 32, "or captures would not sort by when they came"
    return file << 32 | offset


def bucket_of(key: bytes) -> int:
    """One of 16 arcs: the folder of sealed segments and the scope of deduplication."""
    return key[0] >> 4


def capture_key(id_: CaptureId) -> bytes:
    return b"".join((CAPTURE, id_.key[:KEY_BYTES], id_.time_s.to_bytes(4, "big"), id_.digest[:3]))


def unread_id(key: bytes) -> CaptureId:
    """Of an index key without its family: as much as a tombstone of a capture that is not here can say."""
    position, time_s, variant = key[:KEY_BYTES], key[KEY_BYTES : KEY_BYTES + 4], key[KEY_BYTES + 4 :]
    return CaptureId(
        key=position.ljust(20, b"\0"), time_s=int.from_bytes(time_s, "big"), digest=variant.ljust(32, b"\0")
    )


def family_key(family: bytes, key: bytes) -> bytes:
    """The same capture in another family."""
    return family + key[1:]


def time_of(key: bytes) -> int:
    return int.from_bytes(key[1 + KEY_BYTES : 5 + KEY_BYTES], "big")


def url_prefix(key: bytes) -> bytes:
    return CAPTURE + key[:KEY_BYTES]


def stretch(family: bytes, low: bytes, high: bytes | None) -> tuple[bytes, bytes]:
    """Between which keys of a family the rows of the positions from `low` to before `high` are; None is the end of the
    circle."""
    return family + low[:KEY_BYTES], after(family) if high is None else family + high[:KEY_BYTES]


def payload_prefix(bucket: int, digest: bytes) -> bytes:
    return b"".join((PAYLOAD, bytes((bucket,)), digest[:6]))


def payload_key(capture: bytes, digest: bytes, kind: RowKind) -> bytes:
    """`capture` is a key of family c."""
    assert capture[:1] == CAPTURE
    assert len(capture) == 1 + KEY_BYTES + 4 + 3
    return b"".join(
        (payload_prefix(bucket_of(capture[1:]), digest), bytes((kind,)), capture[1:9], capture[13:17])
    )


def captures_of_payload(key: bytes) -> tuple[bytes, int]:
    """The position's first bytes and the time that a payload key leads to."""
    return CAPTURE + key[9:17], int.from_bytes(key[17:21], "big")


def auxiliary_key(file: int, offset: int) -> bytes:
    return AUXILIARY + file.to_bytes(4, "big") + offset.to_bytes(4, "big")


def auxiliary_place(key: bytes) -> tuple[int, int]:
    return int.from_bytes(key[1:5], "big"), int.from_bytes(key[5:9], "big")


def address_key(url: str) -> bytes:
    """Sites and folders are ranges; http and https of one address are neighbours. `url_of_address` is its inverse."""
    match = _WEB_URL.fullmatch(url)
    if match is None:  # urn:, dns: and other schemes in foreign archives
        text = "~" + url
    else:
        secure, host, port, rest = match.groups()
        labels = host if _is_number(host) else ",".join(reversed(host.split(".")))
        text = f"{labels}{port}){rest}\0{'s' if secure else ''}"
    return ADDRESS + text.encode("utf-8", "surrogateescape")


def stem_row(url: str, position: bytes) -> bytes | None:
    """By which other spellings of the URL find it; None where its own position is that of its stem."""
    of_stem = stem_key(stem(url))
    return None if position.startswith(of_stem) else STEM + of_stem + position[:STEM_KEY_BYTES]


def spelled_as(text: str) -> tuple[bytes, bytes]:
    """Between which keys the addresses of a stem are."""
    start = STEM + stem_key(text)
    return start, after(start)


def url_of_address(key: bytes) -> str:
    text = key[1:].decode("utf-8", "surrogateescape")
    if text[:1] == "~":
        return text[1:]
    site, _, rest = text.partition(")")
    rest, _, secure = rest.rpartition("\0")
    labels, colon, port = (
        (site, "", "") if site.startswith("[") and site.endswith("]") else site.rpartition(":")
    )
    if not colon:
        labels, port = site, ""
    host = labels if _is_number(labels) else ".".join(reversed(labels.split(",")))
    return f"http{secure}://{host}{colon}{port}{rest}"


def _is_number(host: str) -> bool:
    return host.startswith("[") or host.replace(".", "").isdigit()


def encode_entry(entry: IndexEntry) -> bytes:
    place = entry.place
    # In the log the arrival is the place; only sealing parts the two.
    is_own = entry.arrival == arrival_of(place.file, place.offset)
    flags = entry.kind | (2 if is_own else 0)
    numbers = (flags, place.file, place.offset, place.length, place.skip)
    if is_own:
        return encode_numbers(numbers)
    return encode_numbers((*numbers, entry.arrival >> 32, entry.arrival & 0xFFFF_FFFF))


def decode_entry(data: bytes) -> IndexEntry:
    flags, file, offset, length, skip, *arrival = decode_numbers(data)
    came = arrival_of(file, offset) if flags & 2 else arrival_of(arrival[0], arrival[1])
    return IndexEntry(FilePlace(file, offset, length, skip), _KINDS[flags & 1], came)


def encode_visits(visits: VisitCount) -> bytes:
    return encode_numbers((visits.count, visits.last_s))


def decode_visits(data: bytes) -> VisitCount:
    count, last_s = decode_numbers(data)
    return VisitCount(count=count, last_s=last_s)


def seen_key(capture: bytes, time_s: int) -> bytes:
    """`capture` is a key of family c. A version's rows lie together, in order."""
    return family_key(SEEN, capture) + (time_s // SEEN_SPAN_S).to_bytes(2, "big")


def encode_seen(key: bytes, times: Iterable[int]) -> bytes:
    """The distances between them, from the begin of the span on: three bytes for each day."""
    ordered = sorted(set(times))[:SEEN_MAX]
    begin_s = _span_of(key)
    return encode_numbers(tuple(new - old for old, new in pairwise((begin_s, *ordered))))


def decode_seen(key: bytes, data: bytes) -> list[int]:
    """Ascending."""
    return list(accumulate(decode_numbers(data), initial=_span_of(key)))[1:]


def _span_of(key: bytes) -> int:
    return int.from_bytes(key[-2:], "big") * SEEN_SPAN_S


def failed_key(position: bytes) -> bytes:
    return FAILED + position[:KEY_BYTES]


def encode_unreachable(one: Unreachable) -> bytes:
    return pack(">III", one.since_s, one.last_s, one.tries) + one.reason.encode()


def decode_unreachable(data: bytes) -> Unreachable:
    since_s, last_s, tries = unpack_from(">III", data)
    return Unreachable(since_s, last_s, tries, data[12:].decode())


def encode_numbers(numbers: tuple[int, ...]) -> bytes:
    """LEB128, seven bits to the byte."""
    out = bytearray()
    for number in numbers:
        rest = number
        while rest > 0x7F:
            out.append(rest & 0x7F | 0x80)
            rest >>= 7
        out.append(rest)
    return bytes(out)


def decode_numbers(data: bytes) -> list[int]:
    numbers: list[int] = []
    number = shift = 0
    for byte in data:
        number |= (byte & 0x7F) << shift
        if byte & 0x80:
            shift += 7
        else:
            numbers.append(number)
            number = shift = 0
    return numbers


def after(prefix: bytes) -> bytes:
    """The first key that does not start with `prefix`."""
    stripped = prefix.rstrip(b"\xff")
    found = stripped[:-1] + bytes((stripped[-1] + 1,)) if stripped else b"\xff" * 32
    assert found > prefix
    return found
