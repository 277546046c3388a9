"""What is missing here that the manifest expects? Found before anything is cut, indexed or claimed.

What is gone or short is written down first; then a torn end is cut, and `mending` takes it out of the index. The list
of files is settled last: until then each opening finds the same again.
"""

import logging
import os
from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple
from zlib import crc32

from herodotus.core.errors import MalformedRecordError, UnusableArchiveError
from herodotus.core.index_rows import CAPTURE, after, decode_entry
from herodotus.core.layout import FileName
from herodotus.core.lost_files import LostFile
from herodotus.core.manifest import FileRow, chained
from herodotus.store.engine import FORMAT, FORMAT_KEY, Archive
from herodotus.store.manifest import row_of_segment
from herodotus.store.resync import Search
from herodotus.store.scan import ScanProgress, scan_file
from herodotus.store.stored_records import StoredCapture

logger = logging.getLogger(__name__)

STRETCH_BYTES_MAX = 64 * 1024 * 1024
_PIECE_BYTES = 1024 * 1024


class Missing(NamedTuple):
    row: FileRow
    """What the manifest says of the file."""
    left: int
    """Bytes that are there and whole."""
    captures: int
    """In them."""
    is_guessed: bool = False
    """Nobody knows the file's name: only the index spoke of it."""

    @property
    def number(self) -> int:
        return self.row.name.number

    @property
    def path(self) -> str:
        return f"file {self.number}" if self.is_guessed else self.row.name.path


class Contents(NamedTuple):
    end: int
    """Of the last whole member."""
    captures: int


def contents(archive: Archive, number: int, start: int, end: int) -> Contents:
    """What can be read between a member's start and a place. Damaged members in it count for nothing."""
    captures = 0
    progress = ScanProgress(whole_to=start)
    search = Search(archive.files, number)
    while start < end:
        try:
            for one in scan_file(archive.files, number, start, end, progress):
                captures += isinstance(one, StoredCapture)
            break
        except MalformedRecordError:
            following = search.next_whole(progress.whole_to + 1, end)
            if following is None:
                break
            start = following
    return Contents(progress.whole_to, captures)


# -- what is missing --------------------------------------------------------------------------------------


def are_all_here(archive: Archive) -> bool:
    """At a glance, without a lock: sealing may be about to say otherwise."""
    missing = archive.files.missing
    for number, row in archive.manifest.expected().items():
        size = _size(archive, number)
        if row.slice not in missing and (size is None or size < row.size):
            return False
    return True


def find_missing(archive: Archive) -> list[Missing]:
    """Files that are gone, or shorter than they were. A file on a slice that is away is neither."""
    files, manifest = archive.files, archive.manifest
    last_epoch = max((located.name.epoch for located in files.catalogue.values()), default=0)
    is_old = manifest.is_of_before(last_epoch)
    if is_old:
        logger.warning("manifest: older than the files, and made again epoch=%d", manifest.epoch)
    found = list[Missing]()
    if is_old or manifest.is_new:
        with suppress(UnusableArchiveError):  # it is made again
            found = _missed_by_index(archive, last_epoch)
    are_found = {one.number for one in found}
    for number, row in sorted(manifest.expected().items()):
        size = _size(archive, number)
        if number in are_found:
            continue
        if size is None:
            # What went with a later sealing than the list knows of may have gone rightly.
            if row.slice not in files.missing and not is_old:
                found.append(Missing(row, 0, 0))
        elif size < row.size:
            whole = contents(archive, number, 0, size)
            found.append(Missing(row, whole.end, whole.captures))
    return found


def _missed_by_index(archive: Archive, last_epoch: int) -> list[Missing]:
    """Where there is no manifest, or an old one, the index remembers files; one of another moment says nothing."""
    is_of_now = archive.index.get(FORMAT_KEY) == FORMAT and archive.epoch == last_epoch
    if not is_of_now or archive.files.missing:
        return []
    sizes = {number: _size(archive, number) or 0 for number in archive.files.catalogue}
    ends: dict[int, int] = {}
    lost: Counter[int] = Counter()
    for _, value in archive.index.scan(CAPTURE, after(CAPTURE)):
        place = decode_entry(value).place
        if place.end > sizes.get(place.file, 0):
            lost[place.file] += 1
            ends[place.file] = max(ends.get(place.file, 0), place.end)
    found = []
    for number, count in sorted(lost.items()):
        located = archive.files.catalogue.get(number)
        name = FileName(number=number) if located is None else located.name
        is_log = name.is_log and number == archive.applied[0]
        left = contents(archive, number, 0, sizes[number]) if located is not None else Contents(0, 0)
        row = FileRow(name, 0 if located is None else located.slice, ends[number], left.captures + count)
        found.append(Missing(row, left.end, left.captures, is_guessed=located is None and not is_log))
    return found


def _size(archive: Archive, number: int) -> int | None:
    with suppress(KeyError, FileNotFoundError):
        return archive.files.size(number)
    return None


def note_missing(archive: Archive, found: Collection[Missing]) -> None:
    """Written down before anything is cut or forgotten. Noted twice is noted once."""
    book = archive.lost_files.book
    known = {loss.number: loss for loss in book.losses}
    for one in found:
        row = one.row
        lost = max(0, row.captures - one.captures)
        before = known.get(one.number)
        if before is not None and before.left <= one.left:
            continue
        logger.error("archive: lost path=%s bytes=%d left=%d captures=%d", one.path, row.size, one.left, lost)
        known[one.number] = LostFile(
            number=one.number,
            path=one.path,
            slice=row.slice,
            size=row.size if before is None else before.size,
            left=one.left,
            captures=lost if before is None else before.captures + lost,
            named=0 if before is None else before.named,
            unnamed=lost if before is None else before.unnamed + lost,
            noted_s=int(archive.now()),
        )
    archive.lost_files.write(replace(book, losses=tuple(loss for _, loss in sorted(known.items()))))


def cut_torn(archive: Archive, found: Collection[Missing]) -> None:
    """Half a member at the end of what is left is counted as lost, and must not stand as damage for ever."""
    for one in found:
        size = _size(archive, one.number)
        if size is None or size <= one.left or archive.refusal is not None:
            continue
        located = archive.files.catalogue[one.number]
        disk = archive.files.disk(located.slice)
        try:
            fd = disk.open(located.name.path, os.O_RDWR)
            try:
                disk.ftruncate(fd, one.left)
                disk.fsync(fd)
            finally:
                disk.close(fd)
        except OSError as error:
            logger.warning("archive: not cut path=%s error=%s", located.name.path, error.strerror)


# -- in step with the files -------------------------------------------------------------------------------


def settle_manifest(archive: Archive) -> None:
    """List the files as they are now: what is lost stands among the losses."""
    files, manifest, log = archive.files, archive.manifest, archive.log
    known = {} if manifest.known is None else manifest.known.rows
    must = manifest.expected()
    rows = {number: row for number, row in known.items() if row.slice in files.missing}
    for number, located in files.catalogue.items():
        row, size = must.get(number), _size(archive, number)
        if size is None:
            continue
        if number == log.number and log.is_open:
            rows[number] = FileRow(located.name, located.slice, log.tail, log.captures)
        elif row is not None and row.size <= size:
            rows[number] = row._replace(slice=located.slice)
        elif number in known and known[number].is_going:
            rows[number] = known[number]  # a journal waits for a slice that is away
        elif located.name.is_log:
            found = contents(archive, number, 0, size)
            rows[number] = FileRow(located.name, located.slice, size, found.captures)
        else:
            rows[number] = row_of_segment(files, number, located.slice, located.name.path)
    if archive.refusal is None:
        manifest.settle(rows)


def count_log(archive: Archive, number: int, end: int) -> None:
    """The captures of the log that is continued, and a row for what the last one did not say yet."""
    log = archive.log
    row = archive.manifest.expected().get(number)
    start, captures = (0, 0) if row is None or row.size > end else (row.size, row.captures)
    log.captures = captures + contents(archive, number, start, end).captures
    log.tail_file.use(log.slice)
    last = log.tail_file.row
    if (last.log, last.tail) != (number, end):
        begin = last.tail if last.log == number and last.tail < end else 0
        log.tail_file.note(number, end, log.captures, _crc(archive, number, begin, end))


def _crc(archive: Archive, number: int, start: int, end: int) -> int:
    crc = 0
    while start < end:
        piece = archive.files.read_at(number, start, min(_PIECE_BYTES, end - start))
        if not piece:
            break
        crc = crc32(piece, crc)
        start += len(piece)
    return crc


def check_last_stretch(archive: Archive) -> None:
    """The bytes that the log grew by last are those that were written: the two rows say so of them."""
    for slots in archive.manifest.slots:
        if len(slots.rows) < 2:
            continue
        row, before = slots.rows
        is_one_step = row.sequence == before.sequence + 1 and row.log == before.log
        size = _size(archive, row.log)
        if not is_one_step or size is None or size < row.tail or row.tail - before.tail > STRETCH_BYTES_MAX:
            continue
        crc = _crc(archive, row.log, before.tail, row.tail)
        if chained(before.chain, row.tail, crc) == row.chain:
            continue
        progress, reason = ScanProgress(), "these are not the bytes that were written"
        try:
            for _ in scan_file(archive.files, row.log, before.tail, row.tail, progress):
                pass
            progress.whole_to = before.tail
        except MalformedRecordError as error:
            reason = error.reason
        archive.note_damage(row.log, progress.whole_to, reason)
