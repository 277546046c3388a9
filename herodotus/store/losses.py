"""What can a sealing or a recovery not read, and is it repaired by now?

`Losses` collects it and puts it into quarantine before anything goes. Then its captures have no row, so that other
holders find them missing here and send them. `settle` looks which of them came back.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from herodotus.core.errors import ArchiveError, DamagedRecordError, StoreRefusedError
from herodotus.core.index_rows import (
    CAPTURE,
    KEY_BYTES,
    TOMBSTONE,
    FilePlace,
    IndexEntry,
    after,
    arrival_of,
    capture_key,
    decode_entry,
)
from herodotus.store.engine import Archive
from herodotus.store.index import IndexBatch
from herodotus.store.quarantine import Lost, Quarantined
from herodotus.store.reader import Reader
from herodotus.store.resync import Search
from herodotus.store.salvage import Lists, Named, names_in, whole_parts
from herodotus.store.stored_records import StoredCapture

logger = logging.getLogger(__name__)

KEPT_S = 30 * 86_400
"""A file in quarantine goes so long after its captures were repaired: time to doubt the copy that came."""
_MOMENT_BYTES = KEY_BYTES + 4


class Losses:
    """What one sealing or one reading of a file could not read, until it is put into quarantine."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._of: dict[tuple[int, int], tuple[int, str, list[Lost]]] = {}
        self._rows: dict[bytes, bytes] = {}
        self._lists = Lists(archive)

    @property
    def files(self) -> frozenset[int]:
        return frozenset(file for file, _ in self._of)

    def note(self, key: bytes, value: bytes, entry: IndexEntry, reason: str, records: int = 0) -> None:
        """A capture, by its row. Of `records`, if any, a whole copy has at least so many: then the capture itself
        stays."""
        place = entry.place
        at = (place.file, place.offset)
        length, known, lost = self._of.get(at, (0, reason, []))
        if all(one.key != key[1:] for one in lost):
            lost.append(Lost(key=key[1:], arrival=entry.arrival, records=records))
        self._of[at] = max(length, place.length), known, lost
        if not records:
            self._rows[key] = value

    def note_notes(self, places: Iterable[tuple[int, int]]) -> None:
        """Visits and deletions, which no other peer keeps for us."""
        files = self._archive.files
        for file, offset in places:
            if file in files.catalogue:
                size = files.size(file)
                end = Search(files, file).next_whole(offset + 1, size) or size
                self.note_bytes(file, offset, end, "a note of visits or deletions")

    def note_bytes(self, file: int, start: int, end: int, reason: str, lost: Iterable[Lost] = ()) -> None:
        self._of[file, start] = end - start, reason, list(lost)

    def _with_urls(self, file: int, offset: int, data: bytes, lost: Sequence[Lost]) -> tuple[Lost, ...]:
        if all(one.url for one in lost):
            return tuple(lost)
        urls = {one.key[:KEY_BYTES]: one.url for one in self._named(file, offset, offset + 1, data)}
        return tuple(one if one.url else replace(one, url=urls.get(one.key[:KEY_BYTES], "")) for one in lost)

    def _named(self, file: int, start: int, end: int, data: bytes) -> list[Named]:
        return self._lists.names(file, start, end) + names_in(data, self._archive.files.dictionary(file))

    def note_unnamed(
        self,
        file: int,
        start: int,
        end: int,
        reason: str,
        before: StoredCapture | None,
        known: Mapping[int, list[Lost]],
    ) -> None:
        """A stretch of a file that no row of the index may name any more. `before` is the capture that ends where it
        starts: the damaged record may have been beside it. `known` is by offset."""
        found = [one for at in sorted(known) if start <= at < end for one in known[at]]
        if not found:
            data = self._archive.files.read_at(file, start, end - start)
            by_moment: dict[bytes, Lost] = {}
            for named in self._named(file, start, end, data):
                lost = _lost(named, before, arrival_of(file, start))
                moment = lost.key[:_MOMENT_BYTES]
                if moment not in by_moment or len(by_moment[moment].key) < len(lost.key):
                    by_moment[moment] = lost
            found = list(by_moment.values())
        self.note_bytes(file, start, end, reason, found)

    def put(self, *, is_elsewhere: bool = False) -> None:
        """All of it is durable when it returns; nobody waits for what is whole elsewhere. StoreRefusedError where it is
        more than the folder takes: then the files stay as they are; OSError where no disk takes it."""
        archive = self._archive
        size = sum(length for length, _, _ in self._of.values())
        if not archive.quarantine.has_room(size, len(self._of), archive.settings.archive_bytes_max):
            archive.files.unreadable |= self.files
            raise StoreRefusedError(
                f"{size} bytes of {len(self._of)} members cannot be read, more than quarantine takes: their files stay"
                " as they are"
            )
        for (file, offset), (length, reason, lost) in sorted(self._of.items()):
            data = archive.files.read_at(file, offset, length)
            if file in archive.files.unreadable:
                raise StoreRefusedError(f"{archive.files.path(file)} could not be read: it stays as it is")
            item = self._item(file, offset, data, reason, lost)
            repaired_s = item.found_s if is_elsewhere else None
            archive.quarantine.put(replace(item, repaired_s=repaired_s), data)
        if self._of:
            archive.quarantine.changed()

    def leave_out(self) -> None:
        """What is only in quarantine is missing here, so that other holders send it."""
        archive, batch = self._archive, IndexBatch()
        for key, value in self._rows.items():
            if archive.index.get(key) == value:
                batch.added -= 1
                batch.delete(key)
        if batch.changes:
            archive.on_gone()
            archive.write(batch)
            archive.rewrites += 1

    def put_or_stay(self) -> None:
        """As `put`; where that cannot be, their files are not sealed, and quarantine says so."""
        try:
            self.put()
        except (StoreRefusedError, OSError) as error:
            logger.warning("quarantine takes no more error=%s", error)
            for (file, offset), (length, reason, lost) in sorted(self._of.items()):
                self._archive.files.unreadable.add(file)
                item = self._item(file, offset, b"", reason, lost, length)
                with suppress(OSError):
                    self._archive.quarantine.put(item, b"")
            self._archive.quarantine.changed()

    def _item(
        self,
        file: int,
        offset: int,
        data: bytes,
        reason: str,
        lost: Sequence[Lost],
        length: int | None = None,
    ) -> Quarantined:
        archive = self._archive
        return Quarantined(
            file=file,
            offset=offset,
            length=len(data) if length is None else length,
            source=archive.files.path(file),
            reason=reason,
            found_s=int(archive.now()),
            captures=self._with_urls(file, offset, data, lost),
            slice=archive.files.catalogue[file].slice,
            is_in_place=length is not None,
        )


def _lost(named: Named, before: StoredCapture | None, arrival: int) -> Lost:
    if before is not None and not named.is_capture:
        key = capture_key(before.id)[1:]
        if key.startswith(named.key[:_MOMENT_BYTES]):
            return Lost(key=key, url=named.url, arrival=arrival, records=len(whole_parts(before)) + 1)
    return Lost(key=named.key, url=named.url, arrival=arrival)


def is_only_head(archive: Archive, file: int, end: int) -> bool:
    """Whether there is nothing before `end` but the file's own description, which every new file gets anew."""
    head = archive.files.read_at(file, 0, end)
    is_log = archive.files.catalogue[file].name.is_log
    begins = archive.files.read_at(file, end, 8 if is_log else 4)
    return bool(begins) and head.find(begins, 1) < 0


def rows_of_rotten(archive: Archive) -> dict[int, dict[int, list[Lost]]]:
    """By file and offset, what the index says of the files that were found damaged: before it forgets."""
    found: dict[int, dict[int, list[Lost]]] = {number: {} for number in frozenset(archive.rotten)}
    if found:
        with suppress(ArchiveError):
            for key, value in archive.index.scan(CAPTURE, after(CAPTURE)):
                place, _, arrival = decode_entry(value)
                if place.file in found:
                    lost = found[place.file].setdefault(place.offset, [])
                    lost.append(Lost(key=key[1:], arrival=arrival))
    return found


# -- repaired -------------------------------------------------------------------------------------------------


def leave_out(archive: Archive) -> None:
    """Forget the rows whose bytes went into quarantine and whose file is gone: after a crash between the two. Others
    then find them missing here."""
    if archive.files.missing:
        return
    batch = IndexBatch()
    lost = (
        row for item in archive.quarantine.waiting for one in item.captures for row in _rows(archive, one.key)
    )
    for key, value in dict(lost).items():
        if decode_entry(value).place.file not in archive.files.catalogue:
            batch.added -= 1
            batch.delete(key)
    if batch.changes:
        archive.write(batch)


def settle(archive: Archive) -> None:
    """Note which captures in quarantine are whole again, and remove what has been so for long, or was deleted for
    good."""
    now = int(archive.now())
    for item in list(archive.quarantine.items.values()):
        try:
            if item.repaired_s is not None:
                if now - item.repaired_s >= KEPT_S:
                    archive.quarantine.discard(item)
            elif item.captures and all(_is_deleted(archive, one) for one in item.captures):
                archive.quarantine.discard(item)
            elif item.captures and all(_is_settled(archive, item, one) for one in item.captures):
                archive.quarantine.repaired(item, now)
        except OSError as error:
            logger.warning("quarantine could not be settled name=%s error=%s", item.name, error)


def release(archive: Archive, keys: frozenset[bytes]) -> None:
    """Others hold these now, and we need not: their bytes stay for a while, and nobody waits for them."""
    for item in archive.quarantine.waiting:
        if item.captures and all(CAPTURE + one.key in keys for one in item.captures):
            archive.quarantine.repaired(item, int(archive.now()))


def _rows(archive: Archive, key: bytes) -> list[tuple[bytes, bytes]]:
    return list(archive.index.scan(CAPTURE + key, after(CAPTURE + key)))


def _is_deleted(archive: Archive, one: Lost) -> bool:
    if archive.removed.declines(one.url, one.key[_MOMENT_BYTES:]):
        return True
    prefix = TOMBSTONE + one.key
    return archive.has_tombstones and next(archive.index.scan(prefix, after(prefix)), None) is not None


def _is_settled(archive: Archive, item: Quarantined, one: Lost) -> bool:
    if _is_deleted(archive, one):
        return True
    reader = Reader(archive)
    for key, value in _rows(archive, one.key):
        if one.records and not is_newer(archive, decode_entry(value).place, item):
            continue
        capture = reader.try_read(key, value)
        with suppress(DamagedRecordError):
            if capture is not None and (capture.is_revisit or len(capture.parts()) >= one.records):
                return True
    return False


def is_newer(archive: Archive, place: FilePlace, item: Quarantined) -> bool:
    """Stored again since: what stayed when the rest went into quarantine is where it was, or was sealed."""
    located = archive.files.catalogue.get(place.file)
    has_stayed = place.file == item.file and place.offset <= item.offset
    return located is not None and located.name.is_log and not has_stayed
