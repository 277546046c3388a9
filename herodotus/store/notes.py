"""Which visits and deletions were written down, and how do those notes move into segments?

The index knows where each note lies. Notes are read there, one by one, so that memory does not grow with the years.
On their way into segments the lines are sorted on disk, by bucket and day, and equal ones count once.
"""

import tempfile
from collections.abc import Callable, Container, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import groupby, islice
from pathlib import Path
from typing import NamedTuple, Self

from herodotus.core.bundles import (
    TOMBSTONES_TYPE,
    VISITS_TYPE,
    Visit,
    format_tombstones,
    format_visits,
    parse_tombstones,
    parse_visits,
)
from herodotus.core.captures import CaptureId, position_of
from herodotus.core.errors import MalformedRecordError
from herodotus.core.index_rows import (
    AUXILIARY,
    DAY_S,
    TOMBSTONE,
    after,
    auxiliary_place,
    bucket_of,
    unread_id,
)
from herodotus.core.warc import check_block, split_record
from herodotus.store.engine import Archive
from herodotus.store.external_sort import SortedLines, without_repeats
from herodotus.store.log import NOTE_TARGET, VISITS_PER_NOTE
from herodotus.store.members import scan_members

TOMBSTONES_PER_NOTE = 10_000
_TOMBSTONE = b"x"
_PREFIX_BYTES = 7  # bucket, family and day


class Note(NamedTuple):
    visits: list[Visit]
    deleted: list[CaptureId]


def note_at(archive: Archive, file: int, offset: int) -> Note | None:
    """None when it is damaged or away, which is noted."""
    try:
        size = archive.files.size(file)
        members = scan_members(
            partial(archive.files.read_at, file), offset, size, archive.files.dictionary(file)
        )
        record, _ = split_record(next(members)[2])
        check_block(record)
        kind = record.get("Content-Type")
        return Note(
            visits=parse_visits(record) if kind == VISITS_TYPE else [],
            deleted=parse_tombstones(record) if kind == TOMBSTONES_TYPE else [],
        )
    except MalformedRecordError as error:
        archive.note_damage(file, offset, error.reason)
    except (FileNotFoundError, KeyError, StopIteration) as error:
        archive.note_damage(file, offset, f"the note is not there: {error}")
    return None


def note_places(archive: Archive) -> Iterator[tuple[int, int]]:
    """File and offset, ascending."""
    for key, _ in archive.index.scan(AUXILIARY, after(AUXILIARY)):
        yield auxiliary_place(key)


def all_visits(archive: Archive) -> Iterator[Visit]:
    """Every visit that was noted, file by file."""
    for file, offset in note_places(archive):
        note = note_at(archive, file, offset)
        if note is not None:
            yield from note.visits


class SortedNotes:
    """The lines of the notes of some files, by bucket and in order. A context manager: leaving removes the sorted
    files."""

    def __init__(
        self, archive: Archive, files: Container[int], pace: Callable[[int], None] = lambda moved: None
    ) -> None:
        """`pace` is called at each note, and ends the work by raising."""
        self._archive = archive
        self._files = files
        self._pace = pace
        self._lines = SortedLines(archive.scratch or Path(tempfile.gettempdir()))
        self.damaged: list[tuple[int, int]] = []
        """File and offset of notes that could not be read, and stay behind."""

    def __enter__(self) -> Self:
        with ExitStack() as on_failure:
            on_failure.enter_context(self._lines)
            for file, offset in note_places(self._archive):
                if file in self._files:
                    self._pace(0)
                    note = note_at(self._archive, file, offset)
                    if note is None:
                        self.damaged.append((file, offset))
                    else:
                        self._take(note)
            if self.damaged:
                self._take_deletions_from_index()
            on_failure.pop_all()
        self._sorted = without_repeats(iter(self._lines))
        self._next = next(self._sorted, None)
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.__exit__()

    @property
    def skipped(self) -> int:
        return len(self.damaged)

    def _take(self, note: Note) -> None:
        for visit in note.visits:
            self._lines.add(_line_of_visit(visit))
        for id_ in note.deleted:
            self._lines.add(_line_of_tombstone(id_))

    def _take_deletions_from_index(self) -> None:
        """Nobody can say which a damaged note had, and what is deleted stays deleted: it knows all of them."""
        for key, _ in self._archive.index.scan(TOMBSTONE, after(TOMBSTONE)):
            self._lines.add(_line_of_tombstone(unread_id(key[1:])))

    def of_bucket(self, bucket: int) -> Iterator[bytes]:
        """A bucket's notes as records, with the visits of each day apart. Ask for buckets in ascending order."""
        for prefix, lines in groupby(self._of_bucket(bucket), key=lambda line: line[:_PREFIX_BYTES]):
            if prefix[1:2] == _TOMBSTONE:
                while ids := [_tombstone_of(line) for line in islice(lines, TOMBSTONES_PER_NOTE)]:
                    yield format_tombstones(ids, f"{NOTE_TARGET}:{bucket:x}")
                continue
            day = int(prefix[2:])
            while visits := [_visit_of(line) for line in islice(lines, VISITS_PER_NOTE)]:
                yield format_visits(visits, f"{NOTE_TARGET}:{bucket:x}:{day}")

    def _of_bucket(self, bucket: int) -> Iterator[bytes]:
        prefix = f"{bucket:x}".encode()
        while self._next is not None and self._next.startswith(prefix):
            yield self._next
            self._next = next(self._sorted, None)


def _line_of_visit(visit: Visit) -> bytes:
    bucket, day = bucket_of(position_of(visit.url)), visit.time_s // DAY_S
    text = f"{bucket:x}v{day:05}{visit.url}\0{visit.time_s:010}\0{visit.status}\0{visit.problem}"
    return text.encode("utf-8", "surrogateescape")


def _visit_of(line: bytes) -> Visit:
    url, time_s, status, problem = line[_PREFIX_BYTES:].decode("utf-8", "surrogateescape").rsplit("\0", 3)
    return Visit(url=url, time_s=int(time_s), status=int(status), problem=problem)


def _line_of_tombstone(id_: CaptureId) -> bytes:
    text = f"{bucket_of(id_.key):x}x00000{id_.key.hex()}\0{id_.time_s:010}\0{id_.digest.hex()}"
    return text.encode()


def _tombstone_of(line: bytes) -> CaptureId:
    key, time_s, digest = line[_PREFIX_BYTES:].decode().split("\0")
    return CaptureId(key=bytes.fromhex(key), time_s=int(time_s), digest=bytes.fromhex(digest))
