"""What did we get? The value that a fetch gives to the archive.

A capture is one exchange with an origin server: the request as sent, the head as received (order, case and
white space kept), the body without its transfer coding but with its content coding. A redirect is a capture
of its own, so a chain of three is three captures. A visit that found nothing new is a capture too, of another
outcome: the archive notes the visit and stores nothing twice. It does not know WARC or any store.

What is in a body? Content codings undone within limits, and media types read from a header.

The archive keeps bodies as they came; only the search for links looks inside. A body that would unfold to
more than the limit is a bomb: what is over the limit is never produced.
"""

import hashlib
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum, StrEnum
from functools import lru_cache
from itertools import chain
from typing import IO, NamedTuple, NewType, cast

import brotli
import zstandard

from crawler.core.errors import MalformedUrlError
from crawler.core.urls import UrlKey, UrlRules, url_key

PayloadDigest = NewType("PayloadDigest", bytes)
"""SHA-256 of the payload: the body without transfer coding, with content coding (WARC 1.1, 5.9)."""

REDIRECTS = frozenset({301, 302, 303, 307, 308})


class FetchOutcome(Enum):
    """What the visit tells the archive. The values are stable names for logs and statistics."""

    STORED = "stored"
    """New content: archive it."""
    NOT_MODIFIED = "not-modified"
    """304: `head` is there, the body is empty, the digest is the known version's."""
    SAME_DIGEST = "same-digest"
    """The server sent the known content again (it ignored the condition, or redirects as before): note the visit, drop
    the body."""


class Truncation(StrEnum):
    """Why the body ends early, in the words of WARC-Truncated (WARC 1.1, 5.13)."""

    LENGTH = "length"
    TIME = "time"
    DISCONNECT = "disconnect"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFacts:
    """How the connection was secured. A bad certificate is recorded here and does not stop the archive."""

    protocol: str
    cipher: str
    certificate_sha256: bytes
    error: str | None = None
    """Why a browser would refuse the certificate, or None when it is in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """One exchange with an origin. Equal bytes give equal captures; everything is plain data."""

    url: str
    """Canonical (`crawler.core.urls`)."""
    requested_at: float
    """Seconds since 1970, UTC, when the request was sent: WARC-Date."""
    duration_s: float | None
    """From the request to the last byte of the body; None where an archive gave it back. This, `via` and `tls` go
    into a metadata record beside the capture. That record is copied as it is: read into these fields and written
    again, it would be another, as times are rounded and other tools write other fields."""
    request: bytes
    """The request's head as sent, with its blank line. There never is a body: we only GET."""
    status: int
    head: bytes
    """Status line and headers as received, with the blank line; interim (1xx) answers left out."""
    body: bytes
    sha256: PayloadDigest
    sha1: bytes
    """SHA-1 of the same payload, which other WARC tools expect in WARC-Payload-Digest."""
    remote_ip: str
    """The address that was connected to: WARC-IP-Address."""
    outcome: FetchOutcome = FetchOutcome.STORED
    truncated: str | None = None
    """A `Truncation`; another word where a record of others has one."""
    mime: str = ""
    """Media type as declared, lower case, without parameters; "" when undeclared or nonsense."""
    redirect_to: str | None = None
    """Canonical target when the status is a redirect to something we could fetch."""
    via: str | None = None
    """The page or redirect on which the URL was found, when known: `via` of WARC metadata."""
    tls: TlsFacts | None = None
    fetched_by: str = ""
    """Another crawler that asked the origin on our behalf, as the archive names it; empty: we did."""

    def __post_init__(self) -> None:
        if self.outcome is not FetchOutcome.STORED and self.body:
            raise ValueError("a visit that found nothing new carries no body")

    @property
    def key(self) -> UrlKey:
        return url_key(self.url)

    @property
    def time_s(self) -> int:
        """As a WARC record has it."""
        return int(self.requested_at)

    @property
    def is_new(self) -> bool:
        return self.outcome is FetchOutcome.STORED

    @property
    def version(self) -> PayloadDigest:
        """By what it is known again: the payload's digest; of a redirect, where it leads as well."""
        if not self._is_redirect:
            return self.sha256
        said = f"{self.status} {self.header('Location') or ''}\n".encode("latin-1", "replace")
        return PayloadDigest(hashlib.sha256(said + self.sha256).digest())

    def unless_known(self, version: bytes) -> "Capture":
        """A redirect that says what that version said is a visit that found nothing new; of other answers the fetcher
        knows, as it has sent the digest along."""
        is_comparable = self.is_new and self._is_redirect and self.truncated in (None, Truncation.LENGTH)
        if not is_comparable or self.version != version:
            return self
        return replace(self, outcome=FetchOutcome.SAME_DIGEST, body=b"")

    @property
    def _is_redirect(self) -> bool:
        return 300 <= self.status < 400 and self.status != 304

    def headers(self) -> list[tuple[str, str]]:
        """The received headers in order; names keep their case, folded lines are joined; Latin-1."""
        fields: list[tuple[str, str]] = []
        for line in self.head.decode("latin-1").split("\n")[1:]:
            if line[:1] in (" ", "\t") and fields:
                name, value = fields[-1]
                fields[-1] = (name, f"{value} {line.strip()}")
                continue
            name, colon, value = line.partition(":")
            if colon:
                fields.append((name.strip(), value.strip()))
        return fields

    def header(self, name: str) -> str | None:
        """The first header of that name, in any case."""
        return next(iter(self.header_values(name)), None)

    def header_values(self, name: str) -> list[str]:
        if not _has_odd_line(self.head):
            return [value.decode("latin-1").strip() for value in _field(name).findall(self.head)]
        wanted = name.lower()
        return [value for field, value in self.headers() if field.lower() == wanted]


_ODD_LINE = re.compile(rb"\n(?!\r?\n)[^!-~]")
"""A folded line, or one that begins with what is not seen: read with care."""


@lru_cache(maxsize=64)
def _has_odd_line(head: bytes) -> bool:
    """Each head is asked for several fields in a row."""
    return _ODD_LINE.search(head) is not None


@lru_cache(maxsize=256)
def _field(name: str) -> re.Pattern[bytes]:
    white = rb"[\t-\r\x1c- \x85\xa0]*"  # what str.strip() takes away
    return re.compile(rb"(?i)\n" + re.escape(name.encode()) + white + rb":([^\n]*)")


def redirect_target(status: int, location: str | None, url: str, rules: UrlRules) -> str | None:
    """Where the answer of a URL leads, when that is somewhere we could fetch."""
    if status not in REDIRECTS or not location:
        return None
    try:
        return rules.canonical(location, url)
    except MalformedUrlError:
        return None


def payload_digests(body: bytes) -> tuple[PayloadDigest, bytes]:
    """SHA-256 and SHA-1 of a payload that is in memory as a whole."""
    return (
        PayloadDigest(hashlib.sha256(body).digest()),
        hashlib.sha1(body, usedforsecurity=False).digest(),
    )


DECODED_BYTES_MAX = 16 * 2**20
CODINGS_MAX = 2
"""Codings on top of each other: honest servers use one."""
ZSTD_WINDOW_BYTES_MAX = 8 * 2**20
"""RFC 9659: what a decoder must support and a server may ask for."""


@dataclass(frozen=True, slots=True)
class MediaType:
    mime: str
    charset: str | None

    @classmethod
    def of(cls, header: str | None) -> "MediaType":
        """From a Content-Type header; "" for one that makes no sense."""
        return _media_type((header or "")[:500])

    @classmethod
    def parse(cls, header: str) -> "MediaType":
        mime, _, parameters = header.partition(";")
        mime = mime.strip().lower()
        if mime.count("/") != 1 or not mime.isascii() or any(c.isspace() for c in mime):
            mime = ""
        charset = None
        for parameter in parameters.split(";"):
            name, _, value = parameter.partition("=")
            if name.strip().lower() == "charset":
                charset = value.strip().strip("\"'") or None
                break
        return cls(mime, charset)


@lru_cache(maxsize=1_024)
def _media_type(header: str) -> MediaType:
    """There are few different ones."""
    return MediaType.parse(header)


class Decoded(NamedTuple):
    content: bytes
    is_whole: bool
    """False: the body is damaged or cut, or its coding unknown. What the limit cuts is not its fault."""


GZIP_MARK = b"\x1f\x8b"
PACKED_TYPES = frozenset(
    {"application/gzip", "application/x-gzip", "application/octet-stream", "binary/octet-stream"}
)


def is_packed_xml(url: str) -> bool:
    """Whether a URL is named like a packed sitemap or feed (sitemaps.org: "gzip if required")."""
    return url.partition("?")[0].endswith(".xml.gz")


_SLICE_BYTES = 2**16


def decoded(body: bytes, content_encoding: str, bytes_max: int = DECODED_BYTES_MAX) -> Decoded:
    """The content, cut at `bytes_max`; of a damaged body as much as can be decoded."""
    codings = [coding.strip().lower() for coding in content_encoding.split(",")]
    codings = [coding for coding in codings if coding not in ("", "identity")]
    if len(codings) > CODINGS_MAX:
        return Decoded(b"", False)
    is_whole = True
    for coding in reversed(codings):
        body, is_good = _undo(coding, body, bytes_max)
        is_whole = is_whole and is_good
    return Decoded(body[:bytes_max], is_whole)


def _undo(coding: str, body: bytes, bytes_max: int) -> Decoded:
    if coding in ("gzip", "x-gzip"):
        return _inflated(body, bytes_max, window_bits=31)
    if coding == "deflate":
        is_zlib = len(body) >= 2 and body[0] & 15 == 8 and int.from_bytes(body[:2], "big") % 31 == 0
        return _inflated(body, bytes_max, window_bits=15 if is_zlib else -15)
    if coding == "br":
        return _brotli(body, bytes_max)
    if coding == "zstd":
        return _zstd(body, bytes_max)
    return Decoded(b"", False)


def _inflated(body: bytes, bytes_max: int, *, window_bits: int) -> Decoded:
    decompressor = zlib.decompressobj(window_bits)
    pieces: list[bytes] = []
    room, read = bytes_max, 0
    try:
        for given in _slices(body):
            rest, read = given, read + len(given)
            while rest and room > 0 and not decompressor.eof:
                piece = decompressor.decompress(rest, min(room, 2**18))
                rest = decompressor.unconsumed_tail
                pieces.append(piece)
                room -= len(piece)
            if room <= 0 or decompressor.eof:
                break
    except zlib.error:
        return Decoded(b"".join(pieces), False)
    # Behind a gzip member any bytes may stand; a deflate stream has no mark, and much else begins like a short one.
    has_more = decompressor.unused_data or read < len(body)
    return Decoded(b"".join(pieces), (decompressor.eof and not (window_bits != 31 and has_more)) or room <= 0)


def _slices(body: bytes) -> Iterator[bytes]:
    """What is not read yet is copied by decoders each time: of 30 MiB at once they made 60 more."""
    return (body[at : at + _SLICE_BYTES] for at in range(0, len(body), _SLICE_BYTES))


def _brotli(body: bytes, bytes_max: int) -> Decoded:
    decompressor = brotli.Decompressor()
    pieces: list[bytes] = []
    room = bytes_max
    try:
        for given in _slices(body):
            piece = decompressor.process(given, output_buffer_limit=2**18)
            while piece and room > 0:
                pieces.append(piece[:room])
                room -= len(piece)
                piece = decompressor.process(b"", output_buffer_limit=2**18)
            if room <= 0:
                break
    except brotli.error:
        return Decoded(b"".join(pieces), False)
    return Decoded(b"".join(pieces), decompressor.is_finished() or room <= 0)


_ZSTD_END = b"\xa7" * 64
"""Its frame does not hold it as it stands: a block that is cut could take that for its own bytes."""
_ZSTD_END_FRAME = zstandard.ZstdCompressor().compress(_ZSTD_END)


class _Followed:
    """One after the other, read as a file without a copy of both together."""

    def __init__(self, *parts: bytes) -> None:
        self._slices = chain.from_iterable(map(_slices, parts))

    def read(self, size: int) -> bytes:
        del size  # a slice is less than a decoder asks for
        return next(self._slices, b"")


def _zstd(body: bytes, bytes_max: int) -> Decoded:
    """The decoder does not say that a body is cut: only behind a whole one is a frame of ours read."""
    decompressor = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_BYTES_MAX)
    pieces: list[bytes] = []
    room = bytes_max + len(_ZSTD_END)
    source = cast("IO[bytes]", _Followed(body, _ZSTD_END_FRAME))
    try:
        with decompressor.stream_reader(source, read_across_frames=True) as reader:
            while room > 0 and (piece := reader.read(min(room, 2**18))):
                pieces.append(piece)
                room -= len(piece)
    except zstandard.ZstdError:
        return Decoded(b"".join(pieces)[:bytes_max], False)
    content = b"".join(pieces)
    pieces.clear()  # or there would be three of a large body
    is_whole = content.endswith(_ZSTD_END)
    return Decoded(content.removesuffix(_ZSTD_END)[:bytes_max], is_whole or room <= 0)
