"""How does the archive open after anything, and how is the index made again from the files alone?

The files are the truth. The index carries the position in the log up to which it knows everything. Later records are
applied again, and the last log is cut where it stops being whole. A sealing that was under way is finished or
forgotten by its journal. An index that is missing, of another version, or ahead of the files (a home copied while it
ran) is rebuilt. Before anything is cut or indexed, the files are compared with the manifest: see `missing_files`.
"""

import hashlib
import logging
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace

from herodotus.core.bundles import VISITS_TYPE, parse_tombstones, parse_visits
from herodotus.core.errors import ArchiveError, MalformedRecordError, UnusableArchiveError
from herodotus.core.index_rows import (
    AUXILIARY,
    CAPTURE,
    IndexEntry,
    RowKind,
    after,
    arrival_of,
    auxiliary_key,
    auxiliary_place,
    capture_key,
    decode_entry,
    decode_numbers,
    encode_numbers,
)
from herodotus.core.layout import README
from herodotus.store.disk import exists, write_file
from herodotus.store.engine import (
    DAMAGED_KEY,
    EPOCH_KEY,
    FORMAT,
    FORMAT_KEY,
    INCARNATION_KEY,
    MISSING_KEY,
    Applying,
    Archive,
)
from herodotus.store.index import IndexBatch
from herodotus.store.journal import settle_journals
from herodotus.store.losses import Losses, is_only_head, leave_out, rows_of_rotten
from herodotus.store.mending import (
    check_names,
    forget_missing,
    knows_all_of,
    look,
    name_missing,
    names,
    put_names,
)
from herodotus.store.missing_files import (
    Missing,
    check_last_stretch,
    count_log,
    cut_torn,
    find_missing,
    note_missing,
    settle_manifest,
)
from herodotus.store.notes import note_at, note_places
from herodotus.store.quarantine import Lost
from herodotus.store.resync import Search
from herodotus.store.scan import ScanProgress, StoredNote, scan_file
from herodotus.store.stored_records import StoredCapture

logger = logging.getLogger(__name__)

BATCH_CHANGES_MAX = 10_000
Known = Mapping[int, Mapping[int, list[Lost]]]
"""By file and offset: captures that an index named before it was cleared."""
VISITS_AT_ONCE = 50_000
"""Held in memory, and as many again of the last note: some 30 MB."""


def open_archive(archive: Archive) -> None:
    """Ready to serve, whatever a crash left. A disk that cannot be written is served read-only."""
    with archive.lock:
        archive.manifest.read()
        is_first = archive.manifest.is_new
        are_of_one_moment = _prepare_folders(archive)
        archive.files.load()
        archive.quarantine.load()
        if is_first and archive.files.catalogue:
            logger.warning("manifest: there was none, it is made from the files that are here")
        lost = _take_stock(archive)
        if not are_of_one_moment or not _is_continued(archive, lost):
            _rebuild(archive)
        check_last_stretch(archive)
        _settle_losses(archive)


def _is_continued(archive: Archive, lost: Collection[Missing]) -> bool:
    """Whether the index fits the files and could be brought up to them."""
    try:
        if not _index_fits(archive, lost):
            return False
        archive.load_counts()
        _note_missing(archive)
        archive.directories.drop_rows_of_before()
        _catch_up_with_sealing(archive)
        _forget(archive, lost)
        _apply_logs(archive, *archive.applied, counts_visits=True)
        leave_out(archive)
    except (UnusableArchiveError, MalformedRecordError) as error:
        # As words: the error itself would keep rows, and with them the lock of the index that is about to go.
        logger.warning("index given up error=%s", str(error))
        archive.log.end()
        return False
    return True


def rebuild(archive: Archive) -> None:
    """Rebuilds the index. Cursors of streams expire, nothing else changes."""
    with archive.upkeep_lock, archive.lock:
        archive.log.end()
        archive.files.load()
        archive.quarantine.load()
        _take_stock(archive)
        _rebuild(archive, rows_of_rotten(archive))
        _settle_losses(archive)


def notice(archive: Archive) -> bool:
    """Whether files went since the opening; then that is noted, and the captures in them are forgotten."""
    with archive.upkeep_lock, archive.lock:
        if archive.refusal is not None:
            return False
        archive.files.load()
        lost = _take_stock(archive)
        if not lost:
            return False
        if archive.log.number in {one.number for one in lost}:
            archive.begin_log()
        _forget(archive, lost)
        settle_manifest(archive)
        return True


def _take_stock(archive: Archive) -> list[Missing]:
    """Compare with the manifest, and write down what is missing, before anything is cut or indexed."""
    archive.lost_files.read()
    lost = find_missing(archive)
    if lost:
        note_missing(archive, lost)
        cut_torn(archive, lost)
        archive.uncut |= {one.number for one in lost if not one.left}  # nothing is left to continue
    return lost


def _forget(archive: Archive, lost: Collection[Missing]) -> None:
    if not lost:
        return
    check_names(archive)
    are_known = {one.number for one in lost if knows_all_of(archive, one)}
    again = forget_missing(archive, lost)
    for number, start in again.items():
        if number in archive.files.catalogue and number < archive.applied[0]:
            _Indexing(archive, number).run(start)
    name_missing(archive, lost, are_known)
    look(archive)


def _settle_losses(archive: Archive) -> None:
    """Files may be back, from a backup or with their disk."""
    check_names(archive)
    for loss in archive.lost_files.open:
        with suppress(KeyError, FileNotFoundError):
            if loss.size and archive.files.size(loss.number) >= loss.size:
                _Indexing(archive, loss.number).run(0)
                book = archive.lost_files.book
                rest = tuple(one for one in book.losses if one.number != loss.number)
                back = replace(loss, unnamed=0)
                archive.lost_files.write(replace(book, losses=(*rest, back)))
    look(archive)
    settle_manifest(archive)


def _prepare_folders(archive: Archive) -> bool:
    """False when a journal and the files are not of one moment: then no index is of the same as both."""
    are_of_one_moment = True
    try:
        archive.files.make_folders()
        are_of_one_moment = settle_journals(archive.files, archive.manifest.swapping)
        for number in archive.files.present:
            if not exists(archive.files.disk(number), "README.txt"):
                write_file(archive.files.disk(number), "README.txt", [README.encode()])
    except OSError as error:
        archive.refusal = f"the disk cannot be written: {error.strerror}"
    return are_of_one_moment


def _index_fits(archive: Archive, lost: Collection[Missing]) -> bool:
    if archive.is_index_damaged:
        logger.warning("index is damaged, and made again from the files")
        return False
    if archive.index.get(FORMAT_KEY) != FORMAT or archive.index.get(DAMAGED_KEY) is not None:
        return False
    missing = archive.files.missing
    if any(slice_ not in missing for slice_ in decode_numbers(archive.index.get(MISSING_KEY) or b"")):
        return False  # it was made or used while a slice was away that is here again
    last_epoch = max(_last_epoch(archive), archive.manifest.epoch)
    if not missing and archive.epoch > last_epoch and not _has_its_files(archive):
        return False  # of a later moment than the files: they are a copy
    number, offset = archive.applied
    if any(one.number == number or (one.number > number and one.row.name.is_log) for one in lost):
        return True  # it forgets what was lost, and is right again
    if number in archive.files.catalogue:
        return archive.files.size(number) >= offset
    # Its log was sealed since, or lies on a slice that is missing.
    return number == 0 or any(log > number for log in archive.files.logs())


def _note_missing(archive: Archive) -> None:
    """The missing slice may hold captures that the index does not know. The index is rebuilt when the slice is
    back."""
    if archive.files.missing:
        archive.index.write(IndexBatch([(MISSING_KEY, encode_numbers(tuple(archive.files.missing)))]))


def _has_its_files(archive: Archive) -> bool:
    """A sealing whose captures were all deleted leaves no file, and no capture needs one."""
    places = (decode_entry(value).place for _, value in archive.index.scan(CAPTURE, after(CAPTURE)))
    return all(place.file in archive.files.catalogue for place in places)


def _rebuild(archive: Archive, known: Known | None = None) -> None:
    known, acknowledged = known or {}, _acknowledged(archive)
    kept, is_new = names(archive), True
    with suppress(ArchiveError):
        is_new = archive.index.get(FORMAT_KEY) is None
    archive.index.clear()
    put_names(archive, kept, is_new=is_new)
    archive.load_counts()
    seed = f"{archive.now()} {sorted(archive.files.catalogue)}".encode()
    first = IndexBatch([(INCARNATION_KEY, hashlib.sha256(seed).digest()[:8])])
    first.put(EPOCH_KEY, encode_numbers((_last_epoch(archive),)))
    first.put(MISSING_KEY, encode_numbers(tuple(archive.files.missing)))
    archive.index.write(first)
    # Ascending: of two records of one capture the later file has the one that counts.
    for number in sorted(archive.files.segments()):
        _Indexing(archive, number, known=known.get(number, {})).run(0)
    _apply_logs(archive, 0, 0, counts_visits=False, known=known, acknowledged=acknowledged)
    _count_visits(archive)
    # Last: after a crash, an index half made must not be taken for a whole one.
    archive.index.write(IndexBatch([(FORMAT_KEY, FORMAT)]))
    if archive.refusal is None:
        # With a number above every segment's, so that new captures arrive last.
        if archive.log.number < max(archive.files.catalogue) and not archive.begin_log():
            archive.log.end()
        archive.flush_index()


def _acknowledged(archive: Archive) -> tuple[int, int]:
    """Log and offset before which everything was told to somebody, as far as an index says that is given up."""
    with suppress(ArchiveError, MalformedRecordError, ValueError):
        if archive.index.get(FORMAT_KEY) == FORMAT:
            return archive.applied
    return 0, 0


def _last_epoch(archive: Archive) -> int:
    return max((located.name.epoch for located in archive.files.catalogue.values()), default=0)


def _catch_up_with_sealing(archive: Archive) -> None:
    """Segments were put in place and the index had not heard yet: give it their places."""
    known = archive.epoch
    if _last_epoch(archive) <= known:
        return
    # The visits in them were counted when they were in the log; only their place is new.
    for number in sorted(archive.files.segments()):
        if archive.files.catalogue[number].name.epoch > known:
            _Indexing(archive, number).run(0)
    batch = IndexBatch()
    if not archive.files.missing:
        for key, _ in archive.index.scan(AUXILIARY, after(AUXILIARY)):
            if auxiliary_place(key)[0] not in archive.files.catalogue:
                batch.delete(key)
    batch.put(EPOCH_KEY, encode_numbers((_last_epoch(archive),)))
    archive.index.write(batch)


def _apply_logs(
    archive: Archive,
    number: int,
    offset: int,
    *,
    counts_visits: bool,
    known: Known | None = None,
    acknowledged: tuple[int, int] = (0, 0),
) -> None:
    logs = [log for log in archive.files.logs() if log >= number]
    end = (number, offset)
    counting = Applying() if counts_visits else None
    # The index's position is written after the rows of all that lies before it, and in one batch with counts of visits.
    # So what lies behind may have been applied, too, and is applied again: a row that is put twice is the same, and
    # only counts would not be.
    for log in logs:
        of_log = (known or {}).get(log, {})
        indexing = _Indexing(archive, log, counting, known=of_log)
        if acknowledged[0] == log:
            indexing.acknowledged = max(indexing.acknowledged, acknowledged[1])
        end = log, indexing.run(offset if log == number else 0)
    assert end >= (number, offset), "what is applied stays applied"
    if logs:
        _resume(archive, *end)
    archive.finish(counting or Applying(), end)
    if not archive.log.is_open and archive.refusal is None:
        archive.begin_log()


def _count_visits(archive: Archive) -> None:
    """Of a rebuilt index. Captures come first: a visit counts for the newest version before it,
    wherever that is filed."""
    counting = Applying()
    for file, offset in note_places(archive):
        note = note_at(archive, file, offset)
        if note is None:
            counting.batch.delete(auxiliary_key(file, offset))
            continue
        counting.visits += note.visits
        if len(counting.visits) > VISITS_AT_ONCE:
            archive.finish(counting, archive.applied)
            counting = Applying()
    archive.finish(counting, archive.applied)


def _resume(archive: Archive, log: int, end: int) -> None:
    archive.log.number, archive.log.tail = log, end
    if log in archive.files.unreadable | archive.uncut:
        return  # the disk may read these bytes tomorrow: nothing is cut, another log is begun
    size = archive.files.size(log)
    assert end <= size
    if size > end:
        archive.counters.truncated_bytes += size - end
        logger.warning("log cut path=%s from=%d to=%d", archive.files.path(log), size, end)
    if archive.refusal is None:
        try:
            archive.log.resume(log, end)
            count_log(archive, log, end)
        except OSError as error:
            archive.refusal = f"the disk cannot be written: {error.strerror}"


class _Indexing:
    """One file, from an offset to where it stops being whole."""

    def __init__(
        self,
        archive: Archive,
        number: int,
        counting: Applying | None = None,
        *,
        known: Mapping[int, list[Lost]] | None = None,
    ) -> None:
        """Visits are counted if there is something to count them in; else their notes' places are enough. `known` is
        by offset."""
        self.archive = archive
        self.number = number
        self.counting = counting
        self.known = known or {}
        row = archive.manifest.expected().get(number)
        self.acknowledged = 0 if row is None else row.size
        """What ends here or before was told to somebody: where it is torn, it rotted."""
        self.last: StoredCapture | None = None
        self.losses = Losses(archive)
        self.batch = IndexBatch()
        name = archive.files.catalogue[number].name
        self.is_segment = not name.is_log
        self.is_last_log = name.is_log and number == archive.files.logs()[-1]

    def run(self, start: int) -> int:
        # `start` only grows: each round ends behind a place that is damaged, or at the end. A damaged place costs the
        # records in it and no more; to stop at the first would give up all that was written after it.
        size = self.archive.files.size(self.number)
        progress = ScanProgress()
        search = Search(self.archive.files, self.number)
        while True:
            try:
                for found in scan_file(self.archive.files, self.number, start, size, progress):
                    self._apply(found)
                break
            except MalformedRecordError as error:
                following = search.next_whole(progress.whole_to + 1, size)
                assert following is None or progress.whole_to < following < size
                reason = error.reason
                if search.is_given_up:
                    reason += "; the rest was not searched to its end"
                    self.archive.files.unreadable.add(self.number)  # so that nothing is cut
                elif following is None and self.is_last_log and progress.whole_to >= self.acknowledged:
                    break  # the torn end after a power cut; everything acknowledged lies before
                # Later bytes are whole, so this member was whole once: it is rot, and only this member is lost.
                self.archive.note_damage(self.number, progress.whole_to, reason)
                self._lose(progress.whole_to, self._next_found(following, size), reason)
                start = size if following is None else following
        self.losses.put_or_stay()
        self.archive.write(self.batch)
        assert progress.whole_to <= size
        return progress.whole_to

    def _next_found(self, following: int | None, size: int) -> int:
        """What lies between belonged to the damaged record."""
        if following is None:
            return size
        with suppress(MalformedRecordError):
            for found in scan_file(self.archive.files, self.number, following, size):
                return found.place.offset
        return following

    def _lose(self, start: int, end: int, reason: str) -> None:
        """No row will name these bytes: quarantine does, and has them before their file is sealed."""
        if start == 0 and is_only_head(self.archive, self.number, end):
            return
        is_beside = self.last is not None and self.last.place.end == start
        before = self.last if is_beside else None
        self.losses.note_unnamed(self.number, start, end, reason, before, self.known)

    def _apply(self, found: StoredCapture | StoredNote) -> None:
        self.last = found if isinstance(found, StoredCapture) else None
        if isinstance(found, StoredCapture):
            self._apply_capture(found)
        elif found.record.get("Content-Type") == VISITS_TYPE:
            self._apply_visits(found)
        else:
            ids = parse_tombstones(found.record)
            self.archive.put_tombstones(self.batch, ids, self.number, found.place.offset)
            self._write()  # what follows must see it
        if len(self.batch.changes) > BATCH_CHANGES_MAX:
            self._write()

    def _apply_visits(self, note: StoredNote) -> None:
        offset = note.place.offset
        if self.counting is not None:
            try:
                self.counting.visits += parse_visits(note.record)
            except MalformedRecordError as error:
                self.archive.note_damage(self.number, offset, error.reason)
                return
        self.batch.put(auxiliary_key(self.number, offset))
        if self.counting is not None and len(self.counting.visits) > VISITS_AT_ONCE:
            self._write()
            self.archive.finish(self.counting, (self.number, note.place.end))
            self.counting.visits.clear()

    def _apply_capture(self, capture: StoredCapture) -> None:
        arrival = arrival_of(self.number, capture.place.offset)
        self.archive.counters.recovered += 1
        known = self.archive.index.get(capture_key(capture.id))
        if known is not None:
            # It was sealed into this file, or written again when its original was deleted: it arrived before.
            entry = decode_entry(known)
            is_there = entry.place.file in self.archive.files.catalogue
            is_older = self.is_segment and entry.place.file > self.number
            # A capture gets the body of an original that goes, and never loses it again. References are older, wherever
            # they lie. Rewriting without the slice that has the body may have given it a higher number.
            is_superseded = is_older if entry.kind is capture.kind else entry.kind is RowKind.BODY
            if is_there and is_superseded:
                return
            arrival = entry.arrival
        entry = IndexEntry(place=capture.place, kind=capture.kind, arrival=arrival)
        self.archive.put(self.batch, capture.id, entry, url=capture.url)

    def _write(self) -> None:
        self.archive.write(self.batch)
        self.batch = IndexBatch()
