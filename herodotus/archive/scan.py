"""What does a file of the archive hold, record by record, and where does it stop being whole?

A bundle is a capture with the records that belong to it (its request, its metadata), which follow it. A note
is a visit log or a tombstone. Scanning verifies the codec's checksums and the digests of the blocks;
`check_payload` looks at the payload's own digests too, which say the same again unless somebody forged one.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from herodotus.archive.members import scan_members
from herodotus.archive.written import PRIMARY
from herodotus.core.archive_errors import MalformedRecordError
from herodotus.core.deposits import CaptureId, id_of_record, split_payload
from herodotus.core.entries import Kind
from herodotus.core.notes import is_note
from herodotus.core.warc import WarcRecord, check_block, decode_digest, split_record


@dataclass(slots=True)
class Bundle:
    """A capture, or a note when `id` is None."""

    offset: int
    length: int
    skip: int
    record: WarcRecord
    id: CaptureId | None
    companions: list[WarcRecord] = field(default_factory=list)

    @property
    def kind(self) -> Kind:
        return Kind.REVISIT if self.record.kind == "revisit" else Kind.BODY

    @property
    def end(self) -> int:
        return self.offset + self.length


@dataclass(slots=True)
class Progress:
    whole_to: int = 0
    """Every member before this offset is whole."""


def scan_bundles(
    read_at: Callable[[int, int], bytes], start: int, end: int, progress: Progress | None = None
) -> Iterator[Bundle]:
    """Every bundle between two offsets; raises at the first byte that is not whole."""
    current: Bundle | None = None
    progress = progress or Progress()
    progress.whole_to = start
    try:
        for offset, length, content in scan_members(read_at, start, end):
            at = 0
            while at < len(content):
                record, following = split_record(content, at)
                check_block(record)
                if record.kind in PRIMARY or is_note(record):
                    if current is not None:
                        yield current
                    id_ = id_of_record(record) if record.kind in PRIMARY else None
                    current = Bundle(offset, length, at, record, id_)
                elif current is not None and current.id is not None:
                    current.companions.append(record)
                    current.length = offset + length - current.offset
                at = following
            progress.whole_to = offset + length
    except MalformedRecordError:
        if current is not None:
            yield current
        raise
    if current is not None:
        yield current


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
