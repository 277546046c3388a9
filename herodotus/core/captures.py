"""What does the archive receive, and what names it afterwards?

A deposit is a capture, from the crawler or from a record of anybody, with what only its record says.
`herodotus.core.bundles` writes it as records; `herodotus.store.intake` decides whether it is new.

Where on the ring does a URL lie? Everything kept about a URL is sorted and found by its position.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple, cast

from crawler.core.capture import Capture, PayloadDigest, payload_digests
from crawler.core.urls import url_key
from dht.core.ids import Key
from herodotus.core.errors import MalformedRecordError
from herodotus.core.warc import (
    BLOCK_BYTES_MAX,
    NOT_MODIFIED_PROFILE,
    PAYLOAD_SHA256,
    Fields,
    WarcRecord,
    clean,
    decode_digest,
    derive_record_id,
    format_date,
    format_record,
)

position_of = cast("Callable[[str], Key]", url_key.__wrapped__)
"""Of a canonical URL, or of one that a file of others names: SHA-1, as in the thesis. `url_key` without its memory: an
archive meets few URLs again soon, and to remember 16,384 of them costs as much as their SHA-1, and 4 MB."""

URL_BYTES_MAX = 16 * 1024
HTTP_HEAD_BYTES_MAX = 1024 * 1024
_STATUS_LINE = re.compile(rb"HTTP/\d(?:\.\d)? +(\d{3})(?:[ \r\n]|$)")
_CONTENT_TYPE = re.compile(rb"^[ \t\r\f\v]*content-type[ \t\r\f\v]*:([^\n]*)", re.IGNORECASE | re.MULTILINE)
_RECORD_ID = re.compile(r"<[!-;=?-~]{3,200}>")
_MIME = re.compile(r"[\w.+-]{1,60}/[\w.+-]{1,60}")
# The record says these in other ways, or we set them; every other field of a foreign record is kept.
_OURS = frozenset(
    {
        "warc-type", "warc-record-id", "warc-date", "warc-target-uri", "warc-ip-address", "warc-block-digest",
        "warc-payload-digest", "warc-profile", "warc-refers-to", "warc-refers-to-target-uri",
        "warc-refers-to-date", "warc-truncated", "content-type", "content-length", PAYLOAD_SHA256.lower(),
        "warc-warcinfo-id", "warc-filename", "warc-concurrent-to",
    }
)  # fmt: skip


class Mode(Enum):
    """Webstore's three modes of storing (Gomes and others, 2006, section 4.2)."""

    REGULAR = "regular"
    """The same digest and size in the bucket: note a revisit, store no body."""
    COMPARE = "compare"
    """As regular, but only after comparing every byte: a forged digest loses nothing."""
    FORCE_NEW = "force-new"
    """Look for nothing, store everything."""
    COPY = "copy"
    """As regular; another holder's copy, which is also kept where it is hidden from readers."""


class RecordType(Enum):
    RESPONSE = "response"
    RESOURCE = "resource"
    REVISIT = "revisit"


class CaptureId(NamedTuple):
    """One URL, one second, one content. Two contents of one second are two captures."""

    key: bytes
    time_s: int
    digest: bytes


class Original(NamedTuple):
    """The capture whose body a revisit shares; never a revisit itself."""

    url: str
    time_s: int
    digest: bytes
    size: int
    record_id: str


class LargeBody:
    """A body that is not held: it passes by whenever somebody asks for it."""

    def __init__(self, size: int, pieces: Callable[[], Iterator[bytes]]) -> None:
        self._size = size
        self.pieces = pieces

    def __len__(self) -> int:
        return self._size

    def stretch(self, start: int, end: int) -> bytes:
        return b"".join(stretch_of(self.pieces(), start, end - start))


def stretch_of(content: Iterable[bytes], start: int, size: int) -> Iterator[bytes]:
    """Of what comes in pieces, so many bytes from there on."""
    for piece in content:
        skipped = min(start, len(piece))
        taken = piece[skipped : skipped + size]
        start, size = start - skipped, size - len(taken)
        if taken:
            yield taken
        if not size:
            return


def pieces_of(body: bytes | LargeBody) -> Iterable[bytes]:
    return body.pieces() if isinstance(body, LargeBody) else (body,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deposit:
    """A capture with all that its record says besides."""

    capture: Capture
    type: RecordType = RecordType.RESPONSE
    extra: Fields = ()
    companions: tuple[WarcRecord, ...] = ()
    """Records that came with it, from another archive or another holder; they are kept as they are."""
    foreign_id: str | None = None
    """The record's id in the archive that it came from. Its companions refer to it by this id."""
    passed_bytes: int = 0
    """Of a body that was checked as it passed by and is not here."""

    def __post_init__(self) -> None:
        capture = self.capture
        assert capture.is_new, "visits that found nothing new are noted, not deposited"
        if not 0 < len(capture.url.encode("utf-8", "surrogateescape")) <= URL_BYTES_MAX:
            raise MalformedRecordError("the URL is empty or too long")
        # The capture is found by the URL in the record, so both must be identical.
        if clean(capture.url) != capture.url or capture.url.strip() != capture.url or capture.url[0] == "<":
            raise MalformedRecordError("the URL has control characters, or spaces or brackets around it")
        if not 0 <= capture.requested_at < 2**32:
            raise MalformedRecordError("the date is outside 1970 to 2106")
        if len(capture.head) + len(capture.body) > BLOCK_BYTES_MAX:
            raise MalformedRecordError(f"a block of more than {BLOCK_BYTES_MAX} bytes")
        if capture.head and capture.body and not capture.head.endswith((b"\n\r\n", b"\n\n")):
            raise MalformedRecordError("the head has no end, so nobody could tell where the body starts")

    @property
    def key(self) -> Key:
        return position_of(self.capture.url)

    @property
    def id(self) -> CaptureId:
        return CaptureId(key=self.key, time_s=self.capture.time_s, digest=self.capture.sha256)

    @property
    def record_id(self) -> str:
        capture = self.capture
        return self.foreign_id or derive_record_id(
            b"capture",
            capture.url.encode("utf-8", "surrogateescape"),
            b"%d" % capture.time_s,
            capture.sha256,
        )


def deposit_of_record(
    record: WarcRecord,
    url: str,
    companions: tuple[WarcRecord, ...] = (),
    *,
    content: tuple[bytes, bytes] | None = None,
    sha256: bytes | None = None,
) -> Deposit:
    """From the record of a capture, ours or foreign; `url` is its canonical target. `content` is head and body, where
    they are not the record's block; `sha256` is of a body that was compared with it already."""
    type_ = RecordType.RESOURCE if record.kind == "resource" else RecordType.RESPONSE
    head, body = split_payload(record) if content is None else content
    if type_ is RecordType.RESOURCE:
        head, body = b"", head + body
    capture = capture_of_record(record, url, head, body, sha256)
    content_type = (record.get("Content-Type") or "").lower()
    extra = [pair for pair in record.fields if pair[0].lower() not in _OURS]
    if not content_type.startswith("application/http") and content_type:
        extra.append(("Content-Type", content_type))
    return Deposit(
        capture=capture if head else replace(capture, mime=content_type.partition(";")[0].strip()),
        type=type_,
        extra=tuple(extra),
        companions=companions,
        foreign_id=record.record_id if _RECORD_ID.fullmatch(record.record_id) else None,
    )


def capture_of_record(
    record: WarcRecord, url: str, head: bytes, body: bytes, sha256: bytes | None = None
) -> Capture:
    """As far as the record itself tells. Request, duration, `via` and TLS are in the records beside it."""
    computed, sha1 = payload_digests(body)
    status, mime = parse_http_head(head)
    return Capture(
        url=url,
        requested_at=float(record.time_s),
        duration_s=None,
        request=b"",
        status=status,
        head=head,
        body=body,
        sha256=computed if sha256 is None else PayloadDigest(sha256),
        sha1=sha1,
        remote_ip=record.get("WARC-IP-Address") or "",
        truncated=record.get("WARC-Truncated") or None,
        mime=mime,
    )


def end_of_http_head(data: bytes, start: int, end: int) -> int:
    # As the crawler sees it: the lines of a head may end in either way, and in both.
    crlf = data.find(b"\n\r\n", start, end)
    bare = data.find(b"\n\n", start, end if crlf < 0 else crlf)
    if bare >= 0:
        return bare + 2
    return crlf + 3 if crlf >= 0 else end


def parse_http_head(head: bytes) -> tuple[int, str]:
    """Status (0 if missing) and media type in lower case ("" when undeclared or nonsense)."""
    match = _STATUS_LINE.match(head)
    status = int(match[1]) if match else 0
    declared = _CONTENT_TYPE.search(head, 0, HTTP_HEAD_BYTES_MAX)
    if declared is None:
        return status, ""
    mime = declared[1].decode("latin-1").partition(";")[0].strip().lower()
    return status, mime if _MIME.fullmatch(mime) else ""


def payload_sha256(record: WarcRecord) -> bytes:
    """As the record states it; computed when a foreign record does not."""
    stated = record.get(PAYLOAD_SHA256) or record.get("WARC-Payload-Digest") or ""
    name, _, value = stated.partition(":")
    digest = decode_digest(value, 32) if name.lower() == "sha256" else None
    if digest is not None:
        return digest
    if record.kind == "revisit":
        raise MalformedRecordError("a revisit without the SHA-256 of its payload")
    return hashlib.sha256(split_payload(record)[1]).digest()


def split_payload(record: WarcRecord) -> tuple[bytes, bytes]:
    """Head with its blank line, and body. A block without an end of head is all head."""
    block = record.block
    is_http = (record.get("Content-Type") or "").lower().startswith("application/http")
    end = end_of_http_head(block, 0, len(block)) if is_http else 0
    return block[:end], block[end:]


def id_of_record(record: WarcRecord) -> CaptureId:
    url = record.url
    if not url:
        raise MalformedRecordError("no WARC-Target-URI")
    return CaptureId(key=position_of(url), time_s=record.time_s, digest=payload_sha256(record))


def format_unchanged_visit(url: str, time_s: int, original: Original, sha1: str | None) -> bytes:
    """A visit that found nothing new, as the standard revisit with an empty block that every replay tool
    shows right."""
    fields = [
        ("WARC-Type", "revisit"),
        (
            "WARC-Record-ID",
            derive_record_id(b"visit", url.encode("utf-8", "surrogateescape"), b"%d" % time_s),
        ),
        ("WARC-Date", format_date(time_s)),
        ("WARC-Target-URI", url),
        ("WARC-Profile", NOT_MODIFIED_PROFILE),
        ("WARC-Refers-To", original.record_id),
        ("WARC-Refers-To-Target-URI", original.url),
        ("WARC-Refers-To-Date", format_date(original.time_s)),
    ]
    if sha1 is not None:
        fields.append(("WARC-Payload-Digest", sha1))
    return format_record(fields, b"")
