"""Which records does a file of the archive hold, and where does it stop being whole?

A capture's place ends with the records that belong to it (its request, its metadata), which follow it. A note is a
visit log or a tombstone. Scanning verifies the codec's checksums and the digests of the blocks.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from herodotus.core.bundles import is_note
from herodotus.core.errors import MalformedRecordError
from herodotus.core.index_rows import FilePlace
from herodotus.core.warc import WarcRecord, check_block, sha1_label, sha1_of, split_record
from herodotus.store.files import Files
from herodotus.store.large_captures import LargeCapture
from herodotus.store.members import decode_member, scan_passing
from herodotus.store.stored_records import OURS, PRIMARY, StoredCapture, end_of_companion


class StoredNote(NamedTuple):
    place: FilePlace
    record: WarcRecord


@dataclass(slots=True)
class ScanProgress:
    whole_to: int = 0
    """Every member before this offset is whole."""


def scan_file(
    files: Files,
    number: int,
    start: int,
    end: int,
    progress: ScanProgress | None = None,
    *,
    read_at: Callable[[int, int], bytes] | None = None,
    is_thorough: bool = False,
) -> Iterator[StoredCapture | StoredNote]:
    """Every capture and note between two offsets; raises at the first byte that is not whole. Thorough: requests of
    our own form are parsed and compared with their digests, too, and not by the codec's checksum alone."""
    current: StoredCapture | StoredNote | None = None
    progress = progress or ScanProgress()
    progress.whole_to = start
    read_at = read_at or partial(files.read_at, number)
    try:
        for offset, length, held in scan_passing(read_at, start, end, files.dictionary(number)):
            content = held
            if content is None:
                large = _large(files, FilePlace(number, offset, length, 0))
                if large is not None:
                    if current is not None:
                        yield current
                    current, progress.whole_to = large, offset + length
                    continue
                # None of ours: it is held as a whole.
                content, _ = decode_member(read_at(offset, length), dictionary=files.dictionary(number))
            at = 0
            while at < len(content):
                found, at = _look(files, content, FilePlace(number, offset, length, at), is_thorough)
                if found is not None:
                    if current is not None:
                        yield current
                    current = found
                elif isinstance(current, StoredCapture):
                    place = current.place
                    current.place = place._replace(length=offset + length - place.offset)
            progress.whole_to = offset + length
    except MalformedRecordError:
        if current is not None:
            yield current
        raise
    if current is not None:
        yield current


def _large(files: Files, place: FilePlace) -> LargeCapture | None:
    """Its codec's checksum fits. None where such a record is no peer's."""
    try:
        capture = LargeCapture(place, files)
    except MalformedRecordError:
        return None
    if capture.record.get("WARC-Block-Digest") not in (None, sha1_label(capture.block_sha1)):
        raise MalformedRecordError("the block does not match its digest")
    return capture


def _look(
    files: Files, content: bytes, place: FilePlace, is_thorough: bool
) -> tuple[StoredCapture | StoredNote | None, int]:
    """What starts here, or None when the record belongs to the one before; where the next record is."""
    ours = OURS.match(content, place.skip)
    if ours is not None:
        capture = StoredCapture(content, place, files, ours)
        if sha1_of(content[ours.end() : capture.following - 4]) != ours[5].decode():
            raise MalformedRecordError("the block does not match its digest")
        return capture, capture.following
    following = -1 if is_thorough else end_of_companion(content, place.skip)
    if following >= 0:
        return None, following
    record, following = split_record(content, place.skip)
    check_block(record)
    if record.kind in PRIMARY:
        return StoredCapture(content, place, files, (record, following)), following
    return (StoredNote(place, record) if is_note(record) else None), following
