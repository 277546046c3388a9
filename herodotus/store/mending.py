"""How do captures come back that went with a file, and how does anybody know that all are?

The index forgets what lay there, and keeps the names: what it no longer claims, other holders find missing here at the
next comparison, and send like any others. A name goes when its capture is there again. What the index did not know is
only counted: it is back when as many captures of before came, and no other holder has more.
"""

import logging
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from itertools import islice

from herodotus.core.captures import CaptureId
from herodotus.core.errors import ArchiveError, MalformedRecordError
from herodotus.core.index_rows import (
    CAPTURE,
    GONE,
    KEY_BYTES,
    TOMBSTONE,
    after,
    auxiliary_key,
    bucket_of,
    decode_entry,
    decode_numbers,
    encode_numbers,
    family_key,
)
from herodotus.core.lost_files import LostBook, LostFile
from herodotus.store.deletion import TOMBSTONES_PER_RECORD
from herodotus.store.engine import APPLIED_KEY, Archive
from herodotus.store.index import IndexBatch
from herodotus.store.log import NewTombstones
from herodotus.store.missing_files import Missing

logger = logging.getLogger(__name__)

NAMES_MAX = 1_000_000
"""Of captures that went, kept while the index is made again; beyond, they are only counted."""
FORGOTTEN_AT_ONCE = 1_000


# -- what the index knew of it ----------------------------------------------------------------------------


def knows_all_of(archive: Archive, one: Missing) -> bool:
    """Whether the index has, or had, a row for each capture of the file that lived."""
    if one.row.name.is_log:
        return archive.applied >= (one.number, one.row.size)
    return archive.epoch >= one.row.name.epoch


def forget_missing(archive: Archive, found: Collection[Missing]) -> dict[int, int]:
    """The index forgets what lay there, but its names. Returns from where each file must be read again: a capture may
    be whole where only what belongs to it is torn."""
    left = {one.number: one.left for one in found}
    again = dict(left)
    heirs = {one.row.name.bucket: one.number for one in found}
    is_all_here = not archive.files.missing
    batch = IndexBatch()
    for key, value in archive.index.scan(CAPTURE, after(CAPTURE)):
        place = decode_entry(value).place
        end = left.get(place.file)
        if end is None and (place.file in archive.files.catalogue or not is_all_here):
            continue
        if end is not None and place.end <= end:
            continue
        if place.file in again:
            again[place.file] = min(again[place.file], place.offset)
        # A row of before a sealing names a log that went rightly: what went wrongly is the segment of its bucket.
        file = place.file if end is not None else heirs.get(bucket_of(key[1:]), _first_of(found))
        batch.delete(key)
        batch.added -= 1
        if end is None or place.offset >= end:
            batch.put(family_key(GONE, key), encode_numbers((file,)))
        if len(batch.changes) >= FORGOTTEN_AT_ONCE:
            archive.write(batch)
            batch = IndexBatch()
    number, offset = archive.applied
    if number in again:
        batch.put(APPLIED_KEY, encode_numbers((number, min(offset, again[number]))))
    archive.write(batch)
    archive.rewrites += 1
    archive.on_gone()
    archive.flush_index()  # before the manifest forgets the files: nothing would find these rows again
    return again


def _first_of(found: Collection[Missing]) -> int:
    return min(one.number for one in found)


def name_missing(archive: Archive, found: Collection[Missing], are_known: Collection[int]) -> None:
    """Instead of a number the names, as far as the index had them. `are_known`: files of which it had all."""
    names = _names_by_file(archive)
    numbers = {one.number for one in found}
    losses = []
    for loss in archive.lost_files.open:
        if loss.number in numbers:
            named = names[loss.number]
            unnamed = 0 if loss.number in are_known else max(0, loss.captures - named)
            losses.append(replace(loss, named=named, unnamed=unnamed, captures=named + unnamed))
        else:
            losses.append(loss)
    book = archive.lost_files.book
    archive.lost_files.write(replace(book, losses=tuple(losses)))


def _names_by_file(archive: Archive) -> Counter[int]:
    return Counter(decode_numbers(value)[0] for _, value in archive.index.scan(GONE, after(GONE)))


def names(archive: Archive) -> list[tuple[bytes, bytes]]:
    """To be kept while the index is made again."""
    found = list[tuple[bytes, bytes]]()
    with suppress(ArchiveError, MalformedRecordError):  # an index that is damaged gives what it still has
        found.extend(islice(archive.index.scan(GONE, after(GONE)), NAMES_MAX))
    return found


def put_names(archive: Archive, kept: Collection[tuple[bytes, bytes]], *, is_new: bool) -> None:
    """Into an index that is made again. One that was lost took the names with it (`is_new`): their number is left."""
    batch = IndexBatch()
    for key, value in kept:
        batch.put(key, value)
    archive.index.write(batch)
    book = archive.lost_files.book
    if is_new and not kept:
        losses = tuple(replace(loss, named=0, unnamed=loss.waiting) for loss in book.losses)
        archive.lost_files.write(replace(book, losses=losses))


def check_names(archive: Archive) -> None:
    """A book of losses that was lost is made of the names."""
    book = archive.lost_files.book
    found = _names_by_file(archive)
    losses = list(book.losses)
    known = {loss.number for loss in losses}
    for number in sorted(found.keys() - known):
        path, count = archive.files.path(number), found[number]
        losses.append(
            LostFile(
                number=number,
                path=path,
                slice=0,
                size=0,
                left=0,
                captures=count,
                named=count,
                unnamed=0,
                noted_s=int(archive.now()),
            )
        )
    archive.lost_files.write(replace(book, losses=tuple(losses)))


# -- what is back -----------------------------------------------------------------------------------------


def came(archive: Archive, id_: CaptureId) -> None:
    """A capture came from another holder. What is older than a loss may be of it."""
    book = archive.lost_files.book
    if any(loss.unnamed and id_.time_s < loss.noted_s for loss in book.losses):
        archive.lost_files.book = replace(book, returned=book.returned + 1)


def look(archive: Archive, is_ours: Callable[[bytes], bool] | None = None) -> int:
    """How many captures are still not back; a loss of which all are is closed. `is_ours` is given once all other
    holders were compared with, and none had anything that is missing here: what another peer holds by now is no longer
    waited for, and what is known by its number alone is back when as many came."""
    if not archive.lost_files.open:
        return 0
    left: Counter[int] = Counter()
    batch = IndexBatch()
    for key, value in archive.index.scan(GONE, after(GONE)):
        capture = family_key(CAPTURE, key)
        is_settled = archive.index.get(capture) is not None or archive.is_deleted(capture)
        if is_settled or (is_ours is not None and not is_ours(key[1:])):
            batch.delete(key)
        else:
            left[decode_numbers(value)[0]] += 1
    with archive.lock:
        if archive.refusal is not None:
            return archive.lost_files.waiting
        archive.index.write(batch)
        book = archive.lost_files.book
        returned = book.returned
        losses = []
        for loss in book.losses:
            unnamed = loss.unnamed
            if unnamed and is_ours is not None and returned >= unnamed:
                unnamed, returned = 0, returned - unnamed
            now = replace(loss, named=left[loss.number], unnamed=unnamed)
            if now.waiting:
                losses.append(now)
            elif loss.captures:
                logger.warning("archive: loss mended path=%s captures=%d", loss.path, loss.captures)
                _forget_notes(archive, loss)
        archive.lost_files.write(replace(book, losses=tuple(losses), returned=returned if losses else 0))
        return archive.lost_files.waiting


def _forget_notes(archive: Archive, loss: LostFile) -> None:
    """Of the notes in what is lost: visits are counted, and deletions are written once more."""
    batch = IndexBatch()
    for key, _ in archive.index.scan(
        auxiliary_key(loss.number, loss.left), auxiliary_key(loss.number + 1, 0)
    ):
        batch.delete(key)
    if batch.changes and archive.has_tombstones and archive.log.is_open:
        keys = [key[1:] for key, _ in islice(archive.index.scan(TOMBSTONE, after(TOMBSTONE)), NAMES_MAX)]
        for at in range(0, len(keys), TOMBSTONES_PER_RECORD):
            some = keys[at : at + TOMBSTONES_PER_RECORD]
            archive.commit([NewTombstones(ids=tuple(_unread_id(key) for key in some))])
    archive.index.write(batch)


def _unread_id(key: bytes) -> CaptureId:
    """Of an index key without its family: as much as a tombstone of a capture that is not here can say."""
    position, time_s, variant = key[:KEY_BYTES], key[KEY_BYTES : KEY_BYTES + 4], key[KEY_BYTES + 4 :]
    return CaptureId(
        key=position.ljust(20, b"\0"), time_s=int.from_bytes(time_s, "big"), digest=variant.ljust(32, b"\0")
    )


def accept(archive: Archive) -> int:
    """The operator gives up what is not back; how many captures that are."""
    with archive.lock:
        given_up = archive.lost_files.waiting
        batch = IndexBatch()
        for key, _ in archive.index.scan(GONE, after(GONE)):
            batch.delete(key)
        archive.index.write(batch)
        archive.lost_files.write(LostBook())
        return given_up
