"""How do captures reach the disk so that a power cut cannot take them back?

The ingest log is one file in arrival order. `write` puts bytes at the known tail, `flush` makes them durable;
only then may anybody be told. A file counts only after its own name is durable. After a failed flush the
kernel may have dropped the pages and called them clean, so it is never tried again: the file is left at its
last good byte and a new one begun. After each flush a row beside the log says how far it reached (`TailFile`).

Each log has a mark, four random bytes in the header of every member: behind a damaged place nothing else can be
taken for one, such as a member that a page had as its body.

Which items does the archive store, and what is their form in the log?
"""

import errno
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import NamedTuple
from zlib import crc32

from herodotus.core.bundles import Visit, format_tombstones, format_visits
from herodotus.core.captures import CaptureId
from herodotus.core.errors import StoreRefusedError
from herodotus.core.index_rows import RowKind, bucket_of
from herodotus.core.layout import LOG_FOLDER, FileName
from herodotus.core.manifest import MANIFEST_FOLDER, SLOT_BYTES, TAIL_BYTES, TailRow, chained
from herodotus.core.warc import Fields, derive_record_id, format_date, format_record
from herodotus.store.disk import Disk, exists, is_folder, sync_folder, write_all, write_file
from herodotus.store.files import Files
from herodotus.store.members import gzip_member
from herodotus.store.spools import Lying, OnDisk

logger = logging.getLogger(__name__)

TAIL_PATH = f"{MANIFEST_FOLDER}/tail"


def format_warcinfo(name: FileName, time_s: int, software: Fields) -> bytes:
    block = "".join(f"{key}: {value}\r\n" for key, value in (*software, ("format", "WARC File Format 1.1")))
    return format_record(
        (
            ("WARC-Type", "warcinfo"),
            ("WARC-Record-ID", derive_record_id(b"warcinfo", name.path.encode(), b"%d" % time_s)),
            ("WARC-Date", format_date(time_s)),
            ("WARC-Filename", name.path.rpartition("/")[2]),
            ("Content-Type", "application/warc-fields"),
        ),
        block.encode(),
    )


MARK_BYTES = 4
WRITTEN_BYTES_MAX = 4 << 20
"""Of one member at a time."""


class FullDiskError(OSError):
    """Nothing was begun and no flush has failed, so it may be tried again when there is room."""


def _is_full(error: OSError) -> bool:
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def _create(disk: Disk, name: FileName, info: bytes) -> tuple[int, int]:
    """A file that a full disk did not take is removed again: there may be many attempts."""
    fd = -1
    try:
        fd = disk.open(name.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        return fd, write_all(disk, fd, [info], 0)
    except OSError as error:
        if fd >= 0:
            disk.close(fd)
            with suppress(OSError):
                disk.unlink(name.path)
        if _is_full(error):
            raise FullDiskError(error.errno, error.strerror) from error
        raise


def marked(members: Iterable[bytes | bytearray | memoryview], mark: bytes) -> bytes:
    """The time in a gzip header has no use here, so it can carry the mark of our own members."""
    # As long as before: where each record will lie was computed from the members as they came.
    assert len(mark) == MARK_BYTES
    return b"".join(part for member in members for part in (member[:4], mark, memoryview(member)[8:]))


class TailFile:
    """How far the log was durable, beside it on its disk. No failure here refuses a capture: the row that stands is
    then older, which says less and nothing wrong."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self.row = TailRow()
        """The last one, also where no disk took it."""
        self.is_held = False
        """While the list of files is behind: the log before is in no list yet, and must not lose its row."""
        self.on_dirty: Callable[[], None] = lambda: None
        """Called when there is a row to sync, in the thread that writes it: it must be quick."""
        self._is_dirty = False
        self._disk: Disk | None = None
        self._fd = -1
        self._lock = Lock()
        """Held while the file is synced or changed for another."""

    def note(self, log: int, tail: int, captures: int, crc: int) -> None:
        """All before `tail` is durable now. `crc`: of the bytes since the last row."""
        # Only after the flush of the log has returned. A row that led the log would take each torn tail for a loss.
        row = TailRow(self.row.sequence + 1, log, tail, captures, chained(self.row.chain, tail, crc))
        self.row = row
        if self._disk is None or self.is_held:
            return
        try:
            self._disk.pwrite(self._fd, row.encode(), row.slot)
        except OSError as error:
            logger.warning("manifest: no row written path=%s error=%s", TAIL_PATH, error.strerror)
            return
        if not self._is_dirty:
            self._is_dirty = True
            self.on_dirty()

    def sync(self) -> None:
        """Between two calls a power cut may cost the rows, and then nobody notices a log that was cut behind them."""
        with self._lock:
            if not self._is_dirty or self._disk is None:
                return
            self._is_dirty = False
            try:
                self._disk.fdatasync(self._fd)
            except OSError as error:
                logger.warning("manifest: not synced path=%s error=%s", TAIL_PATH, error.strerror)

    def use(self, slice_: int) -> None:
        """The one beside a log on that slice; made if there is none."""
        self.end()
        disk = self._files.disk(slice_)
        try:
            if not exists(disk, TAIL_PATH) or is_folder(disk, TAIL_PATH):
                write_file(disk, TAIL_PATH, [bytes(SLOT_BYTES + TAIL_BYTES)])
            fd = disk.open(TAIL_PATH, os.O_RDWR)
        except OSError as error:
            logger.warning("manifest: not opened path=%s error=%s", TAIL_PATH, error.strerror)
            return
        with self._lock:
            self._disk, self._fd = disk, fd

    def watch(self, slice_: int) -> None:
        """Rows that go into a file without a name are for nobody."""
        disk = self._files.disk(slice_)
        if exists(disk, TAIL_PATH) and not is_folder(disk, TAIL_PATH):
            return
        logger.warning("manifest: the tail is gone, and made again path=%s", TAIL_PATH)
        self.use(slice_)
        with self._lock:
            if self._disk is not None and self.row.sequence:
                with suppress(OSError):
                    self._disk.pwrite(self._fd, self.row.encode(), self.row.slot)
                self._is_dirty = True
        self.on_dirty()

    def end(self) -> None:
        self.sync()
        with self._lock:
            if self._disk is not None:
                self._disk.close(self._fd)
            self._disk, self._fd, self._is_dirty = None, -1, False


def _pieces(members: Sequence[Lying], mark: bytes) -> Iterator[bytes]:
    """All of it in one, as a rule; a large member in parts, so that nothing as large is made of it."""
    small: list[bytes | bytearray | memoryview] = []
    for member in members:
        if len(member) <= WRITTEN_BYTES_MAX:
            small.append(member[:] if isinstance(member, OnDisk) else member)
            continue
        yield marked(small, mark)
        small.clear()
        view = member if isinstance(member, OnDisk) else memoryview(member)
        yield marked([view[:WRITTEN_BYTES_MAX]], mark)
        for at in range(WRITTEN_BYTES_MAX, len(view), WRITTEN_BYTES_MAX):
            yield bytes(view[at : at + WRITTEN_BYTES_MAX])
    yield marked(small, mark)


class IngestLog:
    def __init__(self, files: Files, software: Fields, random_bytes: Callable[[int], bytes]) -> None:
        self._files = files
        self._random_bytes = random_bytes
        self._software = software
        self.number = 0
        self.tail = 0
        self.slice = files.present[0] if files.present else 0
        self.tail_file = TailFile(files)
        self.captures = 0
        """Records of captures in it."""
        self._crc = 0
        """Of what was written last."""
        self._mark = bytes(MARK_BYTES)
        self._disk: Disk | None = None
        self._fd = -1

    @property
    def is_open(self) -> bool:
        return self._fd >= 0

    def begin(self, time_s: int, first: Sequence[int] = ()) -> None:
        """A new file, its name durable before anything in it is acknowledged; on the first disk that takes it, those
        named first before others. Until there is one, the log before it stays in use. FullDiskError when there may
        be one later."""
        # A number is used up by each attempt, also by one that failed: a name that may be on a disk is never given to
        # another file, so the listing of the disks can be the catalogue.
        failures = []
        for slice_ in (*first, *(slice_ for slice_ in self._files.present if slice_ not in first)):
            try:
                return self._begin_on(slice_, time_s)
            except OSError as error:
                failures.append(error)
        raise next((error for error in failures if isinstance(error, FullDiskError)), failures[0])

    def _begin_on(self, slice_: int, time_s: int) -> None:
        disk = self._files.disk(slice_)
        name = FileName(number=self._files.take_number())
        mark = self._random_bytes(MARK_BYTES)
        info = marked([gzip_member(format_warcinfo(name, time_s, self._software))], mark)
        fd, tail = _create(disk, name, info)
        # First the content, then the name, and only then is it our log. A log in use before its name is durable could
        # vanish in a power cut, with captures that were promised.
        try:
            disk.fsync(fd)
            sync_folder(disk, LOG_FOLDER)
        except OSError:
            disk.close(fd)
            self._files.add(slice_, name)  # whatever is there must keep its number for itself
            raise
        self._files.add(slice_, name)
        self.end()
        self._mark, self.slice, self.captures, self._crc = mark, slice_, 0, crc32(info)
        self._disk, self._fd, self.number, self.tail = disk, fd, name.number, tail

    def resume(self, number: int, tail: int) -> None:
        """Continue in the last file after recovery: cut the torn end, make the whole part durable."""
        located = self._files.catalogue[number]
        disk = self._files.disk(located.slice)
        fd = disk.open(located.name.path, os.O_RDWR)
        try:
            # Cut first: bytes that were half written must not stand behind what the next commit writes.
            if disk.stat(located.name.path).st_size != tail:
                disk.ftruncate(fd, tail)
            disk.fsync(fd)
            sync_folder(disk, LOG_FOLDER)
        except OSError:
            disk.close(fd)
            raise
        self.slice = located.slice
        self._mark = self._files.read_at(number, 0, 8)[4:].ljust(MARK_BYTES, b"\0")
        self._disk, self._fd, self.number, self.tail = disk, fd, number, tail

    def write(self, buffers: Sequence[Lying]) -> int:
        """Where the bytes begin. A full disk refuses them and leaves the log as it was."""
        assert self._disk is not None
        start = at = self.tail
        crc = 0
        try:
            for piece in _pieces(buffers, self._mark):
                at = write_all(self._disk, self._fd, [piece], at)
                crc = crc32(piece, crc)
            self.tail = at
        except OSError as error:
            if not _is_full(error):
                raise
            # Some of the bytes may have fitted. Without the cut a later, shorter write would leave their end behind it.
            self._disk.ftruncate(self._fd, start)
            raise StoreRefusedError("the disk is full") from error
        assert self.tail == start + sum(map(len, buffers)), "what follows is placed by these lengths"
        self._crc = crc
        return start

    def as_it_lies(self, members: Iterable[Lying]) -> bytes:
        """Of what was written last, these; none of them in a spool."""
        return marked((member for member in members if not isinstance(member, OnDisk)), self._mark)

    def flush(self) -> None:
        assert self._disk is not None
        self._disk.fdatasync(self._fd)

    def note_durable(self, captures: int) -> None:
        """What was written last, with so many captures, is flushed."""
        self.captures += captures
        self.tail_file.note(self.number, self.tail, self.captures, self._crc)

    def abandon(self, good_tail: int) -> None:
        """Give the file up: after an error, the disk's contents beyond the last good byte are unknown."""
        if self._disk is None:
            return
        assert good_tail <= self.tail, "the last good byte was written once"
        # Where even cutting fails, recovery reads on. It may keep refused captures, as nothing was promised.
        with suppress(OSError):
            self._disk.ftruncate(self._fd, good_tail)
        self.end()

    def end(self) -> None:
        if self._disk is not None:
            self._disk.close(self._fd)
        self._disk, self._fd = None, -1


NOTE_TARGET = "urn:herodotus:archive"
VISITS_PER_NOTE = 100_000  # some 10 MB of lines; a reader of a note holds all of it


class NewCapture(NamedTuple):
    """A capture ready to be written: compressed members, the capture's own first."""

    id: CaptureId
    kind: RowKind
    members: tuple[Lying, ...]
    url: str = ""
    """For the list of addresses; empty when it stands there already."""
    arrival: int | None = None
    """When it first came, if it is only written again."""
    is_vouched: bool = False
    """This peer brought it in, and signed it or checked its signature."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewVisits:
    visits: tuple[Visit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTombstones:
    ids: tuple[CaptureId, ...]


Item = NewCapture | NewVisits | NewTombstones


def rewrites(item: Item) -> bool:
    """Whether the item changes stored captures."""
    return isinstance(item, NewTombstones) or (isinstance(item, NewCapture) and item.arrival is not None)


def waves(items: Sequence[Item]) -> list[Sequence[Item]]:
    """A power cut may leave the end of a flush without its beginning, and must not leave a revisit without its
    original: where both come together, the revisits are flushed after it, and the notes with them."""
    bodies = {_payload_of(item) for item in items if isinstance(item, NewCapture) and not item.kind}
    later = [
        item
        for item in items
        if not isinstance(item, NewCapture) or (item.kind and _payload_of(item) in bodies)
    ]
    if not any(isinstance(item, NewCapture) for item in later):
        return [items]
    kept = {id(item) for item in later}
    return [[item for item in items if id(item) not in kept], later]


def _payload_of(item: NewCapture) -> tuple[int, bytes]:
    return bucket_of(item.id.key), item.id.digest


def lay_out(items: Sequence[Item]) -> tuple[list[Item], list[Lying]]:
    """Captures in order, then the visits of all items together, then the tombstones."""
    buffers: list[Lying] = [
        member for item in items if isinstance(item, NewCapture) for member in item.members
    ]
    notes: list[Item] = []
    visits = sorted(visit for item in items if isinstance(item, NewVisits) for visit in item.visits)
    for at in range(0, len(visits), VISITS_PER_NOTE):
        some = tuple(visits[at : at + VISITS_PER_NOTE])
        notes.append(NewVisits(visits=some))
        buffers.append(gzip_member(format_visits(some, NOTE_TARGET)))
    for item in items:
        if isinstance(item, NewTombstones):
            notes.append(item)
            buffers.append(gzip_member(format_tombstones(item.ids, NOTE_TARGET)))
    return notes, buffers
