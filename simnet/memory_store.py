"""An archive that forgets: the same face over a disk of bytes, for tests and simulations.

It is the real archive, log, sealing and all, on a file system in memory, committing at once in the caller's
task: no threads, so a simulation stays deterministic. Faults of disks are not its business.
"""

import errno
import os
from bisect import bisect_left, insort
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TypeVar

import anyio.lowlevel

from herodotus.core.captures import CaptureId, Deposit, Mode, StoredCapture
from herodotus.core.notes import Visit
from herodotus.core.warc import TIME_MAX_S
from herodotus.store.deletion import delete, expunge
from herodotus.store.disk import Disk, FileStatus
from herodotus.store.engine import Archive
from herodotus.store.files import Files
from herodotus.store.index import Index, IndexBatch
from herodotus.store.intake import Intake
from herodotus.store.items import NewVisits
from herodotus.store.reader import HISTORY_MAX, Reader, Version
from herodotus.store.recovery import open_archive, rebuild
from herodotus.store.sealing import Sealed, compact, seal
from herodotus.store.settings import ArchiveSettings
from herodotus.store.store import (
    STREAM_PAGE,
    Acknowledge,
    ArchiveStatistics,
    Page,
    Stored,
    at_once,
    digests_of,
    statistics_of,
)
from herodotus.store.streams import Cursor, Query, Stream
from herodotus.store.verification import Verification, verify

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Status:
    st_size: int
    st_mode: int = 0o100644


class MemoryDisk:
    """Files by path; folders are remembered so that a missing one is an error."""

    def __init__(self) -> None:
        self._files: dict[str, bytearray] = {}
        self._folders = {""}
        self._open: dict[int, bytearray] = {}
        self._next_fd = 3

    def open(self, path: str, flags: int, mode: int = 0o666) -> int:
        content = self._files.get(_clean(path))
        if content is None and _clean(path) in self._folders:
            content = bytearray()
        if content is None:
            if not flags & os.O_CREAT or _clean(path).rpartition("/")[0] not in self._folders:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            content = self._files[_clean(path)] = bytearray()
        elif flags & os.O_EXCL:
            raise FileExistsError(errno.EEXIST, "file exists", path)
        if flags & os.O_TRUNC:
            content.clear()
        self._next_fd += 1
        self._open[self._next_fd] = content
        return self._next_fd

    def close(self, fd: int) -> None:
        del self._open[fd]

    def pread(self, fd: int, length: int, offset: int) -> bytes:
        return bytes(self._open[fd][offset : offset + length])

    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        content = self._open[fd]
        content.extend(bytes(max(0, offset - len(content))))
        content[offset : offset + len(data)] = data
        return len(data)

    def ftruncate(self, fd: int, length: int) -> None:
        del self._open[fd][length:]

    def fdatasync(self, fd: int) -> None:
        """Memory has no cache to write back."""

    def fsync(self, fd: int) -> None:
        """As above."""

    def rename(self, source: str, target: str) -> None:
        self._files[_clean(target)] = self._files.pop(_clean(source))

    def unlink(self, path: str) -> None:
        if self._files.pop(_clean(path), None) is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)

    def mkdir(self, path: str, mode: int = 0o777) -> None:
        if _clean(path) in self._folders:
            raise FileExistsError(errno.EEXIST, "file exists", path)
        self._folders.add(_clean(path))

    def listdir(self, path: str) -> list[str]:
        folder = _clean(path)
        if folder not in self._folders:
            raise FileNotFoundError(errno.ENOENT, "no such folder", path)
        return sorted(
            known.rpartition("/")[2]
            for known in (*self._files, *self._folders)
            if known and known.rpartition("/")[0] == folder
        )

    def stat(self, path: str) -> FileStatus:
        if _clean(path) in self._folders:
            return _Status(0, 0o040755)
        content = self._files.get(_clean(path))
        if content is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return _Status(len(content))


def _clean(path: str) -> str:
    return path.strip("/").removeprefix(".").strip("/")


class MemoryIndex:
    """For tests, simulations and small archives: gone when the process ends, and then rebuilt."""

    def __init__(self, content: Iterable[tuple[bytes, bytes]] = ()) -> None:
        self._values = dict(content)
        self._keys = sorted(self._values)
        self._lock = Lock()

    def get(self, key: bytes) -> bytes | None:
        return self._values.get(key)

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        with self._lock:
            keys = self._keys[bisect_left(self._keys, start) : bisect_left(self._keys, end)]
            found = [(key, self._values[key]) for key in keys]
        return iter(found)

    def last_before(self, start: bytes, end: bytes) -> tuple[bytes, bytes] | None:
        with self._lock:
            at = bisect_left(self._keys, end) - 1
            if at < 0 or self._keys[at] < start:
                return None
            return self._keys[at], self._values[self._keys[at]]

    def write(self, batch: IndexBatch) -> None:
        with self._lock:
            for key, value in batch.changes:
                if value is None:
                    if self._values.pop(key, None) is not None:
                        del self._keys[bisect_left(self._keys, key)]
                else:
                    if key not in self._values:
                        insort(self._keys, key)
                    self._values[key] = value

    def flush(self) -> None:
        """Memory is as durable as it gets."""

    def clear(self) -> None:
        with self._lock:
            self._values.clear()
            self._keys.clear()

    def content(self) -> list[tuple[bytes, bytes]]:
        with self._lock:
            return sorted(self._values.items())

    def bytes_used(self) -> int:
        return sum(len(key) + len(value) for key, value in self._values.items())

    def close(self) -> None:
        """Nothing is open."""


class MemoryStore:
    """See `herodotus.store.store.ArchiveStore` for what the operations promise."""

    def __init__(
        self,
        now: Callable[[], float],
        settings: ArchiveSettings | None = None,
        *,
        disk: Disk | None = None,
        index: Index | None = None,
    ) -> None:
        """`disk` and `index` are given where their faults matter: what they kept is opened again."""
        files, index = Files([disk or MemoryDisk()]), index or MemoryIndex()
        self.archive = Archive(files, index, now=now, settings=settings)
        open_archive(self.archive)
        self._intake = Intake(self.archive)
        self.acknowledge: Acknowledge = at_once
        self._reader = Reader(self.archive)

    async def store(self, deposit: Deposit, mode: Mode = Mode.REGULAR) -> Stored:
        await anyio.lowlevel.checkpoint()
        prepared = self._intake.prepare(deposit, mode)
        if prepared.item is not None:
            self.archive.commit([prepared.item])
            self._intake.promise(prepared)
            await self.acknowledge(prepared.id)
        return Stored(id=prepared.id, outcome=prepared.outcome)

    async def note_visits(self, visits: Sequence[Visit]) -> None:
        await anyio.lowlevel.checkpoint()
        if visits:
            self.archive.commit([NewVisits(visits=tuple(visits))])

    async def newest(self, url: str, not_after_s: int) -> StoredCapture | None:
        await anyio.lowlevel.checkpoint()
        return self._reader.newest(url, not_after_s)

    async def read(self, id_: CaptureId) -> StoredCapture | None:
        await anyio.lowlevel.checkpoint()
        return self._reader.read(id_)

    async def history(
        self, url: str, from_s: int = 0, to_s: int = TIME_MAX_S, limit: int = HISTORY_MAX
    ) -> list[Version]:
        await anyio.lowlevel.checkpoint()
        return self._reader.history(url, from_s, to_s, limit)

    async def of_payload(self, digest: bytes) -> list[CaptureId]:
        await anyio.lowlevel.checkpoint()
        return self._reader.of_payload(digest)

    async def digests(self, key_from: bytes, key_to: bytes | None) -> dict[int, bytes]:
        await anyio.lowlevel.checkpoint()
        return digests_of(self.archive, key_from, key_to)

    async def work(self, work: Callable[[Archive, Intake], T]) -> T:
        await anyio.lowlevel.checkpoint()
        return work(self.archive, self._intake)

    async def page(self, query: Query, cursor: Cursor | None = None, limit: int = STREAM_PAGE) -> Page:
        await anyio.lowlevel.checkpoint()
        stream = Stream(self.archive, query, cursor)
        captures = tuple(stream.take(limit))
        is_last = len(captures) < limit
        return Page(captures=captures, cursor=stream.cursor, is_last=is_last, skipped=stream.skipped)

    async def stream(self, query: Query, cursor: Cursor | None = None) -> AsyncIterator[StoredCapture]:
        for capture in Stream(self.archive, query, cursor):
            await anyio.lowlevel.checkpoint()
            yield capture

    def is_removed(self, url: str) -> bool:
        return self.archive.removed.covers(url)

    async def delete(self, ids: Iterable[CaptureId]) -> int:
        await anyio.lowlevel.checkpoint()
        return delete(self.archive, self._intake, ids)

    async def expunge(self, before_s: int, limit: int = 10_000) -> Sequence[CaptureId]:
        await anyio.lowlevel.checkpoint()
        return expunge(self.archive, self._intake, before_s, limit)

    async def verify(self, *, repair: bool = False) -> Verification:
        await anyio.lowlevel.checkpoint()
        return verify(self.archive, repair=repair)

    async def rebuild(self) -> None:
        await anyio.lowlevel.checkpoint()
        rebuild(self.archive)

    async def seal(self) -> Sealed:
        await anyio.lowlevel.checkpoint()
        return seal(self.archive)

    async def compact(self) -> Sealed:
        await anyio.lowlevel.checkpoint()
        return compact(self.archive)

    async def statistics(self) -> ArchiveStatistics:
        await anyio.lowlevel.checkpoint()
        return statistics_of(self.archive)
