"""What is in a body? Content codings undone within limits, and media types read from a header.

The archive keeps bodies as they came; only the search for links looks inside. A body that would unfold to
more than the limit is a bomb: what is over the limit is never produced.
"""

import zlib
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import brotli
import zstandard

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
    room = bytes_max
    rest = body
    try:
        while rest and room > 0 and not decompressor.eof:
            piece = decompressor.decompress(rest, min(room, 2**18))
            rest = decompressor.unconsumed_tail
            pieces.append(piece)
            room -= len(piece)
            if not piece and not rest:
                break
    except zlib.error:
        return Decoded(b"".join(pieces), False)
    return Decoded(b"".join(pieces), decompressor.eof or room <= 0)


def _brotli(body: bytes, bytes_max: int) -> Decoded:
    decompressor = brotli.Decompressor()
    pieces: list[bytes] = []
    room = bytes_max
    try:
        piece = decompressor.process(body, output_buffer_limit=2**18)
        while piece and room > 0:
            pieces.append(piece[:room])
            room -= len(piece)
            piece = decompressor.process(b"", output_buffer_limit=2**18)
    except brotli.error:
        return Decoded(b"".join(pieces), False)
    return Decoded(b"".join(pieces), decompressor.is_finished() or room <= 0)


def _zstd(body: bytes, bytes_max: int) -> Decoded:
    decompressor = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_BYTES_MAX)
    pieces: list[bytes] = []
    room = bytes_max
    try:
        with decompressor.stream_reader(body) as reader:
            while room > 0 and (piece := reader.read(min(room, 2**18))):
                pieces.append(piece)
                room -= len(piece)
    except zstandard.ZstdError:
        return Decoded(b"".join(pieces), False)
    return Decoded(b"".join(pieces), True)
