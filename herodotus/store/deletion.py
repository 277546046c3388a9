"""How does a capture go for good, without taking the body away from those that refer to it?

A tombstone is written and flushed like any capture; from then on the capture is neither found nor taken back from
another peer. When it was the original of revisits, its body first moves to the oldest of them, and the others are
written again to name that one. This may be much work, so it is done in steps, and storing continues between them.
Each step leaves everything readable, and the original goes last. The bytes go with the next compaction. References to
a payload are counted from the index each time, so no counter can drift.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from heapq import nsmallest
from itertools import islice, pairwise

from herodotus.core.bundles import for_other_tools
from herodotus.core.captures import CaptureId
from herodotus.core.errors import DamagedRecordError, StoreRefusedError
from herodotus.core.index_rows import (
    CAPTURE,
    KEY_BYTES,
    RowKind,
    after,
    bucket_of,
    capture_key,
    decode_entry,
    time_of,
)
from herodotus.store.engine import Archive
from herodotus.store.intake import Intake, compress_bundle
from herodotus.store.log import NewCapture, NewTombstones
from herodotus.store.reader import Reader
from herodotus.store.stored_records import StoredCapture

TOMBSTONES_PER_RECORD = 1_000
"""They are flushed and indexed under one lock: others wait a tenth of a second at most."""
MOVED_CAPTURES_MAX = 256
MOVED_BYTES_MAX = 8 * 1024 * 1024
"""Written at once, or one capture that is larger."""
HEIRS_TRIED_MAX = 16


def delete(archive: Archive, intake: Intake, ids: Iterable[CaptureId]) -> int:
    """Delete these captures for good; how many of them there were."""
    reader = Reader(archive)
    with archive.upkeep_lock:
        victims = [id_ for id_ in dict.fromkeys(ids) if _is_here(archive, reader, id_)]
        _refuse_what_may_be_away(archive, reader, victims)
        with intake.without(victims):
            move_bodies(archive, victims)
            for at in range(0, len(victims), TOMBSTONES_PER_RECORD):
                with archive.lock:
                    archive.commit([NewTombstones(ids=tuple(victims[at : at + TOMBSTONES_PER_RECORD]))])
                    intake.forget()
    return len(victims)


def _is_here(archive: Archive, reader: Reader, id_: CaptureId) -> bool:
    """Also what is only in quarantine, or other holders would bring it back."""
    return reader.find(id_) is not None or archive.quarantine.lost(capture_key(id_)) is not None


def _refuse_what_may_be_away(archive: Archive, reader: Reader, victims: Sequence[CaptureId]) -> None:
    """While a slice is missing, its captures cannot be written again. It may also hold tombstones for captures here,
    so no body may move to those."""
    if not archive.files.missing:
        return
    keys = {capture_key(id_) for id_ in victims}
    for id_ in victims:
        for key, value in reader.entries_of_payload(bucket_of(id_.key), id_.digest):
            if key not in keys or decode_entry(value).place.file not in archive.files.catalogue:
                raise StoreRefusedError(
                    "a slice is missing: its captures cannot be deleted, nor captures that share a body with others"
                )


def move_bodies(archive: Archive, ids: Collection[CaptureId]) -> None:
    """Write the captures again that refer to captures about to go, some at a time. The caller makes sure that nothing
    new refers to these (`Intake.without`), and that nothing is moved or deleted (`upkeep_lock`)."""
    reader, victims = Reader(archive), frozenset(ids)
    payloads = {
        (bucket_of(id_.key), id_.digest): None
        for id_ in ids
        if (entry := reader.find(id_)) is not None and entry.kind is RowKind.BODY
    }
    moved = (item for payload in payloads for item in _bereaved(reader, *payload, victims))
    for items in _in_steps(moved):
        archive.commit(items)


def _in_steps(items: Iterable[NewCapture]) -> Iterator[list[NewCapture]]:
    step: list[NewCapture] = []
    size = 0
    for item in items:
        own = sum(map(len, item.members))
        if step and (size + own > MOVED_BYTES_MAX or len(step) >= MOVED_CAPTURES_MAX):
            yield step
            step, size = [], 0
        step.append(item)
        size += own
    if step:
        yield step


def _bereaved(
    reader: Reader, bucket: int, digest: bytes, victims: Collection[CaptureId]
) -> Iterator[NewCapture]:
    """New forms of the captures whose original is about to go. The one that gets the body comes first."""
    heir = _heir(reader, bucket, digest, victims)
    if heir is None:
        return
    original = heir.as_original()
    if heir.is_revisit:
        yield _rewritten(reader, heir.id, RowKind.BODY, compress_bundle(heir.as_deposit(), None))
    for id_, kind in reader.named_by_payload(bucket, digest):
        if kind is RowKind.BODY or id_ in victims or id_ == heir.id or reader.has_original(id_, victims):
            continue
        other = _readable(reader, id_)
        if other is not None:
            yield _rewritten(reader, id_, RowKind.REVISIT, compress_bundle(other.as_deposit(), original))


def _heir(reader: Reader, bucket: int, digest: bytes, victims: Collection[CaptureId]) -> StoredCapture | None:
    """Another that has the body already, or the oldest that can be given it. None when nothing is left that could
    move, as the body is damaged."""
    for id_, kind in reader.named_by_payload(bucket, digest):
        if kind is RowKind.BODY and id_ not in victims and (found := _readable(reader, id_)) is not None:
            return found
    named = reader.named_by_payload(bucket, digest)
    staying = (id_ for id_, _ in named if id_ not in victims)
    oldest_first = nsmallest(HEIRS_TRIED_MAX, staying, key=_age)
    return next((found for id_ in oldest_first if (found := _readable(reader, id_)) is not None), None)


def _readable(reader: Reader, id_: CaptureId) -> StoredCapture | None:
    """With all that belongs to it."""
    try:
        capture = reader.read(id_)
        if capture is not None:
            _ = capture.companions
    except DamagedRecordError:
        return None
    return capture


def _rewritten(reader: Reader, id_: CaptureId, kind: RowKind, members: tuple[bytes, ...]) -> NewCapture:
    """It moves, but did not arrive now: streams must meet it once."""
    entry = reader.find(id_)
    return NewCapture(id=id_, kind=kind, members=members, arrival=None if entry is None else entry.arrival)


def _age(id_: CaptureId) -> tuple[int, bytes]:
    return id_.time_s, id_.key


def as_warc(capture: StoredCapture) -> bytes:
    """Whole in itself, also where the archive has the body in another record."""
    return b"".join(compress_bundle(for_other_tools(capture.as_deposit()), None))


def expunge(archive: Archive, intake: Intake, before_s: int, limit: int = 10_000) -> Sequence[CaptureId]:
    """Deletes versions older than a time that newer ones follow; never a URL's newest.

    Not WebBase's lifetimes (its section 3): those expire pages that the crawler no longer finds on the web. At most
    `limit` captures at a time; returns them, for the schedule of the crawl.
    """
    ids = [id_ for id_, _ in outdated(archive, before_s, limit)]
    delete(archive, intake, ids)
    return ids


def outdated(archive: Archive, before_s: int, limit: int) -> list[tuple[CaptureId, str]]:
    """Captures older than a time that have a newer one of the same URL, in ring order, and their URLs. Unreadable
    ones are left for repair."""
    reader = Reader(archive)
    found = (reader.record_at(key, value) for key, value in _outdated(archive, before_s))
    return list(islice(((one.id, one.url) for one in found if one is not None), limit))


def count_outdated(archive: Archive, before_s: int) -> int:
    return sum(1 for _ in _outdated(archive, before_s))


def _outdated(archive: Archive, before_s: int) -> Iterator[tuple[bytes, bytes]]:
    scan = archive.index.scan(CAPTURE, after(CAPTURE))
    for (key, value), (following, _) in pairwise(scan):
        if time_of(key) < before_s and key[: 1 + KEY_BYTES] == following[: 1 + KEY_BYTES]:
            yield key, value
