"""How is a parcel checked whose capture is too large to be held? Piece by piece.

The body goes through the digests and is gone. When it is written, it is unpacked again, piece by piece, and compressed
behind the head that this archive writes. Digests must be stated and right, and each record must be a member.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from crawler.core.capture import Capture
from herodotus.core.bundles import format_foreign_companion
from herodotus.core.captures import Deposit, deposit_of_record, end_of_http_head, stretch_of
from herodotus.core.errors import MalformedRecordError
from herodotus.core.warc import (
    BLOCK_BYTES_MAX,
    COMPANIONS_BYTES_MAX,
    HEAD_BYTES_MAX,
    PAYLOAD_SHA256,
    WarcRecord,
    check_block,
    decode_digest,
    split_head,
    split_records,
)
from herodotus.store.large_captures import LargeCapture
from herodotus.store.members import GZIP_MAGIC, PassingMember
from herodotus.store.spools import PIECE_BYTES, Lying, OnDisk

_HEADS_BYTES_MAX = HEAD_BYTES_MAX + PIECE_BYTES
"""Of the record and of the answer in it: the crawler takes a quarter of that."""
_COMPANIONS_MAX = 256
_PADDING_BYTES = 64 * 1024
_END = b"\r\n\r\n"


class Packed(NamedTuple):
    """The body of a checked capture, which is not here as a whole."""

    body_bytes: int
    block_sha1: bytes
    pieces: Callable[[], Iterator[bytes]]
    """From its beginning, as often as they are asked for."""


def in_pieces(capture: Capture) -> Packed:
    """A body that is here: it is written without being put together with its head."""
    view = memoryview(capture.body)
    block = hashlib.sha1(capture.head, usedforsecurity=False)
    block.update(view)

    def pieces() -> Iterator[bytes]:
        return (bytes(view[at : at + PIECE_BYTES]) for at in range(0, len(view), PIECE_BYTES))

    return Packed(len(view), block.digest(), pieces)


def bare_of(capture: LargeCapture) -> tuple[Deposit, Packed]:
    """Without its body, and that."""
    content, sha256 = (capture.head, b""), capture.id.digest
    deposit = deposit_of_record(
        capture.record, capture.url, capture.companions, content=content, sha256=sha256
    )
    payload = capture.payload
    passed = replace(deposit.capture, sha1=capture.payload_sha1)
    return (
        replace(deposit, capture=passed, passed_bytes=len(payload)),
        Packed(len(payload), capture.block_sha1, payload.pieces),
    )


def check_large(data: Lying, bytes_max: int) -> tuple[Deposit, Packed]:
    """The capture without its body, and its bytes. Raises MalformedRecordError at anything that does not fit."""
    whole = data if isinstance(data, OnDisk) else memoryview(data)
    if bytes(whole[: len(GZIP_MAGIC)]) != GZIP_MAGIC:
        raise MalformedRecordError("no gzip member")
    member = PassingMember(whole, 0, bytes_max)
    record, head, start, body = _capture_in(member)
    end = member.end
    held = member.size
    companions: list[WarcRecord] = []
    while end < len(whole):
        member = PassingMember(whole, end, 2 * COMPANIONS_BYTES_MAX)
        held += _take_companion(member, companions)
        end = member.end
    if held > bytes_max or len(whole) > held + held // 64 + _PADDING_BYTES:
        raise MalformedRecordError("a parcel that is larger than what it holds, or holds too much")
    url, digest = record.url or "", body.sha256.digest()
    bare = deposit_of_record(record, url, tuple(companions), content=(head, b""), sha256=digest)
    capture = replace(bare.capture, sha1=body.sha1.digest())
    deposit = replace(bare, capture=capture, passed_bytes=body.size)

    def pieces() -> Iterator[bytes]:
        return stretch_of(PassingMember(whole, 0, bytes_max), start, body.size)

    return deposit, Packed(body.size, body.block.digest(), pieces)


def _capture_in(member: PassingMember) -> tuple[WarcRecord, bytes, int, "_Digests"]:
    """The record without its block, the head of HTTP in it, where the body starts, and what it was."""
    begun = bytearray()
    for piece in member:
        begun += piece
        if len(begun) >= _HEADS_BYTES_MAX:
            break
    start_bytes = bytes(begun)
    fields, start, length = split_head(start_bytes)
    record = WarcRecord(fields=fields, block=b"")
    if record.kind not in ("response", "resource") or length > BLOCK_BYTES_MAX:
        raise MalformedRecordError("a parcel is one capture with its body")
    end = min(len(start_bytes), start + length)
    content_type = (record.get("Content-Type") or "").lower()
    is_http = record.kind == "response" and content_type.startswith("application/http")
    split = end_of_http_head(start_bytes, start, end) if is_http else start
    if is_http and split == end and end < start + length:
        raise MalformedRecordError("the head of the answer is too long")
    head = start_bytes[start:split]
    body = _Digests(head)
    rest = chain((start_bytes[split:],), member)
    left = length - len(head)
    tail = b""
    for piece in rest:
        body.take(piece[:left])
        tail += piece[left:][: len(_END) + 1]
        left -= min(left, len(piece))
    if left or tail != _END:
        raise MalformedRecordError("the block is shorter or longer than announced")
    body.check(record)
    return record, head, split, body


def _take_companion(member: PassingMember, companions: list[WarcRecord]) -> int:
    content = b"".join(member)
    records = split_records(content)
    if len(records) != 1 or len(companions) >= _COMPANIONS_MAX:
        raise MalformedRecordError("one record to a member, and not too many of them")
    check_block(records[0])
    format_foreign_companion(records[0])  # the sender of an unreadable record is to blame for it
    companions += records
    return len(content)


class _Digests:
    """Of a body that passes by, and of its block."""

    def __init__(self, head: bytes) -> None:
        self.size = 0
        self.sha256, self.sha1 = hashlib.sha256(), hashlib.sha1(usedforsecurity=False)
        self.block = hashlib.sha1(head, usedforsecurity=False)

    def take(self, piece: bytes) -> None:
        self.size += len(piece)
        for digest in (self.sha256, self.sha1, self.block):
            digest.update(piece)

    def check(self, record: WarcRecord) -> None:
        """All three are stated, and are these."""
        stated = (
            (PAYLOAD_SHA256, "sha256", self.sha256.digest()),
            ("WARC-Payload-Digest", "sha1", self.sha1.digest()),
            ("WARC-Block-Digest", "sha1", self.block.digest()),
        )
        for field, algorithm, digest in stated:
            name, _, value = (record.get(field) or "").partition(":")
            if name.lower() != algorithm or decode_digest(value, len(digest)) != digest:
                raise MalformedRecordError(f"{field} is missing, or not that of the bytes")
