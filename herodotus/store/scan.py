"""Which records does a file of the archive hold, and where does it stop being whole?

A bundle is a capture with the records that belong to it (its request, its metadata), which follow it. A note
is a visit log or a tombstone. Scanning verifies the codec's checksums and the digests of the blocks;
`check_payload` also verifies the payload's own digests, which agree unless one was forged.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from herodotus.core.bundles import is_note
from herodotus.core.captures import CaptureId, id_of_record, split_payload
from herodotus.core.errors import MalformedRecordError
from herodotus.core.index_rows import RowKind
from herodotus.core.warc import WarcRecord, check_block, decode_digest, split_record
from herodotus.store.members import Dictionary, scan_members
from herodotus.store.stored_records import PRIMARY, end_of_companion, quick_look


@dataclass(slots=True)
class Bundle:
    """A capture, or a note when `id` is None."""

    offset: int
    length: int
    skip: int
    id: CaptureId | None
    content: bytes
    """Of the member in which it starts."""
    parsed: WarcRecord | None = None
    """None for a response of our own form, which is parsed when asked for."""

    @property
    def record(self) -> WarcRecord:
        if self.parsed is None:
            self.parsed, _ = split_record(self.content, self.skip)
        return self.parsed

    @property
    def kind(self) -> RowKind:
        return RowKind.REVISIT if self.parsed is not None and self.parsed.kind == "revisit" else RowKind.BODY

    @property
    def end(self) -> int:
        return self.offset + self.length


@dataclass(slots=True)
class ScanProgress:
    whole_to: int = 0
    """Every member before this offset is whole."""


def scan_bundles(
    read_at: Callable[[int, int], bytes],
    start: int,
    end: int,
    progress: ScanProgress | None = None,
    *,
    dictionary: Dictionary | None = None,
    is_thorough: bool = False,
) -> Iterator[Bundle]:
    """Every bundle between two offsets; raises at the first byte that is not whole. Thorough: requests of our
    own form are parsed and compared with their digests, too, and not by the codec's checksum alone."""
    current: Bundle | None = None
    progress = progress or ScanProgress()
    progress.whole_to = start
    try:
        for offset, length, content in scan_members(read_at, start, end, dictionary):
            at = 0
            while at < len(content):
                found, following = _look(content, at, offset, length, is_thorough)
                if found is not None:
                    if current is not None:
                        yield current
                    current = found
                elif current is not None and current.id is not None:
                    current.length = offset + length - current.offset
                at = following
            progress.whole_to = offset + length
    except MalformedRecordError:
        if current is not None:
            yield current
        raise
    if current is not None:
        yield current


def _look(content: bytes, at: int, offset: int, length: int, is_thorough: bool) -> tuple[Bundle | None, int]:
    """A bundle that starts here, or None when the record belongs to the one before; where the next record is."""
    quick = quick_look(content, at)
    if quick is not None:
        return Bundle(offset, length, at, quick[0], content), quick[1]
    following = -1 if is_thorough else end_of_companion(content, at)
    if following >= 0:
        return None, following
    record, following = split_record(content, at)
    check_block(record)
    if record.kind in PRIMARY:
        return Bundle(offset, length, at, id_of_record(record), content, record), following
    return (Bundle(offset, length, at, None, content, record) if is_note(record) else None), following


def check_payload(record: WarcRecord, id_: CaptureId, digest_of: Callable[[bytes], bytes]) -> None:
    if record.kind == "revisit":
        return
    body = split_payload(record)[1]
    if digest_of(body) != id_.digest:
        raise MalformedRecordError("the payload does not match its SHA-256")
    name, _, value = (record.get("WARC-Payload-Digest") or "").partition(":")
    stated = decode_digest(value, 20) if name == "sha1" else None
    if stated is not None and hashlib.sha1(body, usedforsecurity=False).digest() != stated:
        raise MalformedRecordError("the payload does not match its SHA-1")
