"""What of a damaged member is still whole, and whose bytes are the others?

A damaged member is decoded as far as it goes, without its checksum. A record counts only where its own digests and its
place in the index agree. The rest has the names that any reader can still give it: those in the list beside a segment,
in what can be decoded of the record, or of the request beside it.
"""

import json
import re
import zlib
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from io import BytesIO
from itertools import chain, islice, takewhile
from typing import NamedTuple

import zstandard

from herodotus.core.captures import position_of
from herodotus.core.cdxj import extent_of_line, one_word, surt
from herodotus.core.errors import ArchiveError, MalformedRecordError
from herodotus.core.index_rows import (
    KEY_BYTES,
    IndexEntry,
    RowKind,
    bucket_of,
    capture_key,
)
from herodotus.core.layout import CDXJ_BYTES_MAX, Compression
from herodotus.core.warc import WarcRecord, check_block, derive_record_id, parse_date, split_record
from herodotus.store.disk import read_file
from herodotus.store.engine import Archive
from herodotus.store.members import GZIP_MAGIC, MEMBER_BYTES_MAX, Dictionary, decode_member
from herodotus.store.stored_records import PRIMARY, StoredCapture, companions_in

_PIECE_BYTES = 512
_NAMED_BYTES = 256 * 1024
_CANDIDATES_MAX = 256
_BEGINS = re.compile(b"|".join(re.escape(codec.magic) for codec in Compression))
_HEAD = re.compile(rb"WARC/1\.[01]\r\n((?:[-A-Za-z]+: [^\r\n]*\r\n)+)")
_DIGITS = re.compile(r"[^ ]+ (\d{14}) (\{.*\})")


# -- what is whole ------------------------------------------------------------------------------------------


def decoded_anyhow(
    data: bytes, bytes_max: int = MEMBER_BYTES_MAX, dictionary: Dictionary | None = None
) -> bytes:
    """The content of a damaged member as far as it can be decoded; its checksum is not asked."""
    if data.startswith(Compression.ZSTD.magic):
        return _unzstd(data, bytes_max, dictionary)
    return _gunzip(zlib.decompressobj(31), data, bytes_max) or _gunzip(
        zlib.decompressobj(-15), data[10:], bytes_max
    )


def _gunzip(inflate: "zlib._Decompress", data: bytes, bytes_max: int) -> bytes:
    found = bytearray()
    # In small pieces: what comes before the one that breaks is kept.
    with suppress(zlib.error):
        for at in range(0, len(data), _PIECE_BYTES):
            found += inflate.decompress(data[at : at + _PIECE_BYTES], bytes_max - len(found) + 1)
            if inflate.eof or len(found) > bytes_max:
                break
    return bytes(found[:bytes_max])


def _unzstd(data: bytes, bytes_max: int, dictionary: Dictionary | None) -> bytes:
    # Without the flag that says so, the last four bytes are no checksum (RFC 8878, 3.1.1.1.1).
    plain = data[:4] + bytes((data[4] & ~4,)) + data[5:]
    whole = zstandard.ZstdDecompressor() if dictionary is None else dictionary.decompressor()
    found = bytearray()
    with suppress(zstandard.ZstdError), whole.stream_reader(BytesIO(plain), read_size=_PIECE_BYTES) as reader:
        while len(found) <= bytes_max and (piece := reader.read(_PIECE_BYTES)):
            found += piece
    return bytes(found[:bytes_max])


def salvaged(
    archive: Archive, key: bytes, entry: IndexEntry
) -> tuple[StoredCapture, tuple[bytes, ...]] | None:
    """A capture out of a member whose checksum does not fit, and its records; None where its own digests or its row
    do not agree with it. The fields of its head that no digest covers may be wrong."""
    place = entry.place
    try:
        data = archive.files.read(place)
        content = decoded_anyhow(data, dictionary=archive.files.dictionary(place.file))
        record, following = split_record(content, place.skip)
        check_block(record)
        if record.kind not in PRIMARY:
            return None  # its name rotted, and a reader would take it for a part of the capture before it
        rest = b"" if archive.files.catalogue[place.file].name.codec.shares_members else _behind(data)
        capture = StoredCapture(content, place, archive.files, (record, following), rest)
        if capture_key(capture.id) != key or capture.kind is not entry.kind:
            return None
        if entry.kind is RowKind.BODY and capture.payload_digest(archive.digest_of) != capture.id.digest:
            return None
        # Up to the first that another capture may own: the head between them may be what rotted.
        own, *beside = whole_parts(capture)
        return capture, (own, *takewhile(partial(_belongs, record), beside))
    except (ArchiveError, MalformedRecordError, OSError, LookupError):
        return None


def _behind(data: bytes) -> bytes:
    """The members behind the first, which is broken: the next that begins as it does is whole, or there is none."""
    at = data.find(data[:8], 1)
    return data[at:] if at > 0 else b""


def whole_parts(capture: StoredCapture) -> tuple[bytes, ...]:
    """The capture's own record, then those beside it that are whole."""
    found, rest = [capture.own], capture.rest
    with suppress(MalformedRecordError):
        found += filter(_fits_its_digest, capture.in_member)
    while rest:
        try:
            content, length = decode_member(rest)
            found += filter(_fits_its_digest, companions_in(content))
        except MalformedRecordError:
            following = rest.find(rest[:8] if rest.startswith(GZIP_MAGIC) else GZIP_MAGIC, 1)
            length = following if following > 0 else len(rest)
        rest = rest[length:]
    return tuple(found)


def _belongs(capture: WarcRecord, part: bytes) -> bool:
    beside, _ = split_record(part)
    is_named = beside.get("WARC-Concurrent-To") in (None, capture.record_id)
    return is_named and beside.kind in ("request", "metadata") and beside.url == capture.url


def _fits_its_digest(record: bytes) -> bool:
    try:
        check_block(split_record(record)[0])
    except MalformedRecordError:
        return False
    return True


# -- whose bytes these are ----------------------------------------------------------------------------------


class Named(NamedTuple):
    """By the head of a record, which may be damaged itself."""

    url: str
    time_s: int
    digest: bytes
    is_capture: bool

    @property
    def key(self) -> bytes:
        return position_of(self.url)[:KEY_BYTES] + self.time_s.to_bytes(4, "big") + self.digest[:3]


def names_in(data: bytes, dictionary: Dictionary | None = None) -> list[Named]:
    """Of all records in what was one or more members whose heads can be decoded and are surely as they were: in a whole
    member, or with the id that follows from what they name."""
    found = []
    for start in islice(chain((0,), (begin.start() for begin in _BEGINS.finditer(data, 1))), _CANDIDATES_MAX):
        member = data[start : start + MEMBER_BYTES_MAX]
        try:
            text, is_whole = decode_member(member, dictionary=dictionary)[0], True
        except MalformedRecordError:
            text, is_whole = decoded_anyhow(member, _NAMED_BYTES, dictionary), False
        found += [
            named for head in _HEAD.finditer(text) if (named := _named(head[1], is_sure=is_whole)) is not None
        ]
    return found


def _named(head: bytes, *, is_sure: bool) -> Named | None:
    lines = head.decode("utf-8", "surrogateescape").split("\r\n")
    fields = {name: value for name, _, value in (line.partition(": ") for line in lines)}
    url, digest = fields.get("WARC-Target-URI"), fields.get("Herodotus-Payload-Digest", "")
    if not url or url.startswith("urn:herodotus:"):
        return None
    try:
        time_s, sha256 = (
            parse_date(fields.get("WARC-Date", "")),
            bytes.fromhex(digest.removeprefix("sha256:")),
        )
    except (MalformedRecordError, ValueError):
        return None
    if not is_sure and fields.get("WARC-Record-ID") != derive_record_id(
        b"capture", url.encode("utf-8", "surrogateescape"), b"%d" % time_s, sha256
    ):
        return None
    return Named(url, time_s, sha256, is_capture=fields.get("WARC-Type") in PRIMARY)


class Lists:
    """What the lists beside segments say; that of the last segment is kept."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._number = -1
        self._lines: list[tuple[int, str]] = []

    def names(self, number: int, start: int, end: int) -> list[Named]:
        """Of the captures between two offsets, without their digests."""
        name = self._archive.files.catalogue[number].name
        if name.is_log:
            return []
        if number != self._number:
            self._number, self._lines = number, self._load(number)
        at, to = bisect_left(self._lines, (start, "")), bisect_left(self._lines, (end, ""))
        found = [named for _, line in self._lines[at:to] for named in _of_line(line)]
        # A list may rot as well: what it says must agree with itself and with its segment.
        return [one for one in found if bucket_of(position_of(one.url)) == name.bucket]

    def _load(self, number: int) -> list[tuple[int, str]]:
        located = self._archive.files.catalogue[number]
        try:
            data = read_file(self._archive.files.disk(located.slice), located.name.cdxj, CDXJ_BYTES_MAX)
        except FileNotFoundError:
            return []
        lines = data.decode(errors="replace").split("\n")
        return sorted((extent[0], line) for line in lines if (extent := extent_of_line(line)) is not None)


def _of_line(line: str) -> Iterator[Named]:
    match = _DIGITS.fullmatch(line)
    if match is None:
        return
    date = match[1]
    text = f"{date[:4]}-{date[4:6]}-{date[6:8]}T{date[8:10]}:{date[10:12]}:{date[12:]}Z"
    with suppress(ValueError, LookupError, MalformedRecordError):
        url = str(json.loads(match[2])["url"])
        if one_word(surt(url)) == line.partition(" ")[0]:
            yield Named(url, parse_date(text), b"", is_capture=True)
