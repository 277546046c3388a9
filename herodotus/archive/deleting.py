"""How does a capture go for good, without taking the body away from those that refer to it?

A tombstone is written and flushed like any capture; from then on the capture is neither found nor taken back
from another peer. When it was the original of revisits, its body first moves to the oldest of them, and the
others are written again to name that one. The bytes go with the next compaction. What refers to a payload is
counted from the index each time, so nothing can drift.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice, pairwise

from herodotus.archive.engine import Archive
from herodotus.archive.intake import Intake, compress_bundle
from herodotus.archive.items import Item, NewCapture, NewTombstones
from herodotus.archive.reading import Reader, original_of
from herodotus.core.archive_errors import DamagedRecordError, StoreRefusedError
from herodotus.core.deposits import (
    CaptureId,
    Deposit,
    RecordType,
    StoredCapture,
    deposit_of_record,
)
from herodotus.core.entries import CAPTURE, KEY_BYTES, Kind, after, bucket_of, decode_entry, time_of

TOMBSTONES_PER_RECORD = 1_000


def delete(archive: Archive, intake: Intake, ids: Iterable[CaptureId]) -> int:
    """Delete these captures for good; how many of them there were."""
    reader = Reader(archive)
    # What is being deleted must not become the original of something new meanwhile.
    with archive.upkeep_lock, archive.lock:
        intake.forget()
        victims = [id_ for id_ in dict.fromkeys(ids) if reader.find(id_) is not None]
        if any(_is_away(archive, reader, id_) for id_ in victims):
            raise StoreRefusedError(
                "a capture to be deleted, or one that has its body from it, is on a slice that is missing"
            )
        moved: list[Item] = []
        for id_ in victims:
            moved += bereaved(reader, id_, frozenset(victims))
        tombstones = [
            NewTombstones(ids=tuple(victims[at : at + TOMBSTONES_PER_RECORD]))
            for at in range(0, len(victims), TOMBSTONES_PER_RECORD)
        ]
        # Two flushes: a power cut may leave the end of a commit without its beginning, and must not leave the
        # tombstone of a body that has not moved yet.
        for items in (moved, tombstones):
            if items:
                archive.commit(items)
        intake.forget()
    return len(victims)


def _is_away(archive: Archive, reader: Reader, id_: CaptureId) -> bool:
    """It, or what would be left without a body and cannot be written anew now."""
    if not archive.files.missing:
        return False
    same = [value for _, value in reader.entries_of_payload(bucket_of(id_.key), id_.digest)]
    return any(decode_entry(value).place.file not in archive.files.catalogue for value in same)


def bereaved(reader: Reader, id_: CaptureId, victims: frozenset[CaptureId]) -> list[Item]:
    """The captures that refer to one about to go, written anew."""
    entry = reader.find(id_)
    if entry is None or entry.kind is not Kind.BODY:
        return []
    bucket = bucket_of(id_.key)
    others = [
        other for other in reader.of_payload(id_.digest, range(bucket, bucket + 1)) if other not in victims
    ]
    revisits = []
    for other in others:
        found = reader.find(other)
        if found is None:
            continue
        if found.kind is Kind.BODY:
            return []  # another full copy stays, and revisits find it by the payload
        revisits.append(other)
    captures = [
        capture for other in sorted(revisits, key=_age) if (capture := _readable(reader, other)) is not None
    ]
    if not captures:
        return []
    heir, *rest = captures
    deposit = deposit_of_stored(heir)
    items: list[Item] = [_rewritten(reader, heir.id, Kind.BODY, compress_bundle(deposit, None))]
    original = original_of(heir.record, heir.id, len(heir.body))._replace(record_id=deposit.record_id)
    for capture in rest:
        members = compress_bundle(deposit_of_stored(capture), original)
        items.append(_rewritten(reader, capture.id, Kind.REVISIT, members))
    return items


def _readable(reader: Reader, id_: CaptureId) -> StoredCapture | None:
    """None when the body is damaged: nothing is left that could move."""
    try:
        return reader.read(id_)
    except DamagedRecordError:
        return None


def _rewritten(reader: Reader, id_: CaptureId, kind: Kind, members: tuple[bytes, ...]) -> NewCapture:
    """It moves, but did not arrive now: streams must meet it once."""
    entry = reader.find(id_)
    return NewCapture(id=id_, kind=kind, members=members, arrival=None if entry is None else entry.arrival)


def _age(id_: CaptureId) -> tuple[int, bytes]:
    return id_.time_s, id_.key


def deposit_of_stored(capture: StoredCapture) -> Deposit:
    """As if it came anew, with its whole body: for other archives, and for those whose original goes."""
    record = capture.record
    is_revisit = record.kind == "revisit"
    fields = tuple(
        (name, "response" if is_revisit and name == "WARC-Type" else value) for name, value in record.fields
    )
    whole = replace(record, fields=fields, block=capture.head + capture.body)
    deposit = deposit_of_record(whole, capture.url, capture.companions)
    # The body was checked against the digest when it was read; a forged one must stay what it was called.
    return replace(deposit, sha256=capture.id.digest) if deposit.type is RecordType.RESPONSE else deposit


def expunge(archive: Archive, intake: Intake, before_s: int, limit: int = 10_000) -> Sequence[CaptureId]:
    """WebBase's lifetime (section 4): versions older than a time go, but never a URL's newest.

    At most `limit` at a time; returns what went, for whoever schedules the crawl.
    """
    ids = [id_ for id_, _ in outdated(archive, before_s, limit)]
    delete(archive, intake, ids)
    return ids


def outdated(archive: Archive, before_s: int, limit: int) -> list[tuple[CaptureId, str]]:
    """Captures from before a time that a newer one of the same URL follows, in ring order, and their URLs. What
    cannot be read is left to whoever repairs it."""
    reader = Reader(archive)
    found = (reader.named_at(key, value) for key, value in _outdated(archive, before_s))
    return list(islice((named for named in found if named is not None), limit))


def count_outdated(archive: Archive, before_s: int) -> int:
    return sum(1 for _ in _outdated(archive, before_s))


def _outdated(archive: Archive, before_s: int) -> Iterator[tuple[bytes, bytes]]:
    scan = archive.index.scan(CAPTURE, after(CAPTURE))
    for (key, value), (following, _) in pairwise(scan):
        if time_of(key) < before_s and key[: 1 + KEY_BYTES] == following[: 1 + KEY_BYTES]:
            yield key, value
