"""Which files must be there? The list beside the archive, kept in step with it, and in two places.

A list is replaced whole: when a log is begun, and twice at each swap of files, before the old ones go (they stand as
going, with the new ones) and after. So at no moment does it miss a file that has captures, nor ask for one that may
have gone. Writing it may fail: then the archive works on, and the last row of the log before stays where it is.
"""

import hashlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from herodotus.core.layout import CDXJ_BYTES_MAX, parse_path
from herodotus.core.lost_files import LostBook, LostFile, decode_book, waiting
from herodotus.core.manifest import (
    LIST_BYTES_MAX,
    LISTED_BYTES,
    MANIFEST_FOLDER,
    SLOT_BYTES,
    TAIL_BYTES,
    FileList,
    FileRow,
    TailRow,
    decode_list,
    decode_slots,
    expected,
    newest,
)
from herodotus.store.disk import Disk, exists, read_file, write_file
from herodotus.store.files import Files
from herodotus.store.log import TAIL_PATH, IngestLog

logger = logging.getLogger(__name__)

LIST_PATH = f"{MANIFEST_FOLDER}/files"
COPY_PATH = "manifest"
"""In the home's `state/`, where there is no second disk."""
LOSSES_PATH = "losses"
LOSSES_BYTES_MAX = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Slots:
    """What stood in a tail file at the opening, the newest row first."""

    slice: int
    rows: Sequence[TailRow]


class Manifest:
    def __init__(self, files: Files, log: IngestLog, state: Disk | None = None) -> None:
        """`state`: the home's folder for small files."""
        self._files = files
        self._log = log
        self._state = state
        self.known: FileList | None = None
        """None: there was none, and none could be written yet."""
        self.slots: list[Slots] = []

    @property
    def epoch(self) -> int:
        return 0 if self.known is None else self.known.epoch

    @property
    def is_new(self) -> bool:
        """Nothing was found: an archive of before, or of now; or all of it is gone."""
        return self.known is None and not self.slots

    # -- reading ------------------------------------------------------------------------------------------

    def read(self) -> None:
        """All copies that are here, whatever became of them: before anything is changed on a disk."""
        lists = [(path, None if data is None else decode_list(data)) for path, data in self._copies()]
        self.known = newest(one for _, one in lists)
        if self.known is not None:
            for path in (path for path, one in lists if one is None):
                logger.warning(
                    "manifest: a copy of the list is gone or damaged, and made again path=%s", path
                )
        self.slots = []
        for slice_ in self._files.present:
            with suppress(OSError):
                rows = decode_slots(read_file(self._files.disk(slice_), TAIL_PATH, SLOT_BYTES + TAIL_BYTES))
                if rows:
                    self.slots.append(Slots(slice_, rows))
        self._log.tail_file.row = max((one.rows[0] for one in self.slots), default=TailRow())
        # A file that is gone keeps its number: nothing else may be taken for it when it comes back.
        rows_known = {} if self.known is None else self.known.rows
        self._files.keep_clear_of(max([self._log.tail_file.row.log, *rows_known]))

    def _copies(self) -> Iterable[tuple[str, bytes | None]]:
        """Of all places where one may be; None where one should be and is not."""
        wanted = self._places()
        places = [(self._files.disk(slice_), LIST_PATH) for slice_ in self._files.present]
        if self._state is not None:
            places.append((self._state, COPY_PATH))
        for disk, path in places:
            try:
                yield path, read_file(disk, path, LIST_BYTES_MAX)
            except OSError:
                if (disk, path) in wanted:
                    yield path, None

    def expected(self) -> dict[int, FileRow]:
        """What must be there, also on slices that are away."""
        tails = [(one.slice, one.rows[0]) for one in self.slots]
        tails.append((self._log.slice, self._log.tail_file.row))  # slots were read at the opening
        return expected(self.known, [(slice_, row) for slice_, row in tails if row.sequence])

    def is_of_before(self, epoch: int) -> bool:
        """Files were sealed that it knows nothing of: an old copy. It cannot tell what went rightly since."""
        return self.known is not None and epoch > self.known.epoch

    # -- writing ------------------------------------------------------------------------------------------

    def began(self, before: FileRow | None) -> None:
        """A new log is in use; the one before ended at its row. It may be gone from a disk that failed."""
        rows = {} if self.known is None else dict(self.known.rows)
        if before is not None:
            rows[before.name.number] = before
        log = self._log
        rows[log.number] = FileRow(self._files.catalogue[log.number].name, log.slice, log.tail, 0)
        # The new log's first row takes the place of one of the last, so the list comes first.
        try:
            self._write(rows)
        except OSError as error:
            logger.warning("manifest: no list written error=%s", error.strerror)
            log.tail_file.is_held = True
        log.tail_file.use(log.slice)
        log.note_durable(0)

    def swapping(self, installed: Iterable[tuple[int, str]], leaving: Iterable[tuple[int, str]]) -> None:
        """New files have their names, the old ones are about to go. OSError where no disk takes the list: then nothing
        may go."""
        if self.known is None:
            return  # there is nothing yet to keep in step
        rows = dict(self.known.rows)
        for slice_, path in installed:
            name = parse_path(path)
            if name is not None:
                rows[name.number] = row_of_segment(self._files, name.number, slice_, path)
        for _, path in leaving:
            name = parse_path(path)
            if name is not None and name.number in rows:
                rows[name.number] = rows[name.number]._replace(is_going=True)
        self._write(rows)

    def settle(self, rows: Mapping[int, FileRow]) -> None:
        """These are all the files that there are, in no swap."""
        is_same = self.known is not None and self.known.rows == rows and not self._log.tail_file.is_held
        if is_same and self._are_all_here():
            return
        try:
            self._write(dict(rows))
        except OSError as error:
            logger.warning("manifest: no list written error=%s", error.strerror)

    def watch(self) -> None:
        """Somebody may take a copy or the tail away while the archive is open."""
        if self.known is None or self._log.tail_file.is_held:
            return
        gone = [path for disk, path in self._places() if not exists(disk, path)]
        if gone:
            logger.warning("manifest: a copy of the list is gone, and made again path=%s", ", ".join(gone))
            with suppress(OSError):
                self._write(dict(self.known.rows))
        if self._log.is_open:
            self._log.tail_file.watch(self._log.slice)

    def _are_all_here(self) -> bool:
        """Whether each copy that should be there is."""
        found = [decode_list(data) for _, data in self._copies() if data is not None]
        return len([one for one in found if one == self.known]) >= len(self._places())

    def _write(self, rows: dict[int, FileRow]) -> None:
        epoch = max([self.epoch, *(row.name.epoch for row in rows.values())])
        sequence = 0 if self.known is None else self.known.sequence + 1
        made = FileList(sequence, epoch, self._log.tail_file.row.sequence, rows)
        data, failure = made.encode(), None
        written = 0
        for disk, path in self._places():
            try:
                write_file(disk, path, [data])
                written += 1
            except OSError as error:
                failure = error
                logger.warning("manifest: a copy was not written path=%s error=%s", path, error.strerror)
        if failure is not None and not written:
            raise failure
        self.known = made
        self._log.tail_file.is_held = False

    def _places(self) -> list[tuple[Disk, str]]:
        """Two disks, or two folders where there is one."""
        places = [(self._files.disk(slice_), LIST_PATH) for slice_ in self._files.present[:2]]
        if len(places) < 2 and self._state is not None:
            places.append((self._state, COPY_PATH))
        return places


def row_of_segment(files: Files, number: int, slice_: int, path: str) -> FileRow:
    name = parse_path(path)
    assert name is not None
    assert name.number == number
    disk = files.disk(slice_)
    listed, captures = bytes(LISTED_BYTES), 0
    with suppress(FileNotFoundError):
        lines = read_file(disk, name.cdxj, CDXJ_BYTES_MAX)
        listed, captures = hashlib.sha256(lines).digest()[:LISTED_BYTES], lines.count(b"\n")
    return FileRow(name, slice_, disk.stat(path).st_size, captures, listed)


class LostFiles:
    """The losses that are not mended, as they stand in `state/losses`."""

    def __init__(self, files: Files, state: Disk | None) -> None:
        self._files = files
        self._state = state
        self.book = LostBook()

    @property
    def open(self) -> tuple[LostFile, ...]:
        return self.book.losses

    @property
    def waiting(self) -> int:
        """Captures that are not back."""
        return waiting(self.open)

    @property
    def unnamed(self) -> int:
        """Of them known by their number alone."""
        return sum(loss.unnamed for loss in self.open)

    def read(self) -> None:
        disk, path = self._place()
        try:
            data = read_file(disk, path, LOSSES_BYTES_MAX)
        except OSError:
            return
        book = decode_book(data)
        if book is None:
            logger.error("losses: cannot be read path=%s", path)
            return
        self.book = book

    def write(self, book: LostBook) -> None:
        """Known here in any case; a disk that takes nothing is asked again by the next opening."""
        if book == self.book:
            return
        self.book = book
        disk, path = self._place()
        try:
            write_file(disk, path, [book.encode()])
        except OSError as error:
            logger.error("losses: not written path=%s error=%s", path, error.strerror)  # noqa: TRY400 - the disk's

    def _place(self) -> tuple[Disk, str]:
        if self._state is not None:
            return self._state, LOSSES_PATH
        return self._files.disk(self._files.present[0]), f"{MANIFEST_FOLDER}/{LOSSES_PATH}"
