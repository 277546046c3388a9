"""An archive that forgets: the same face over a disk of bytes, for tests and simulations.

It is the real archive, log, sealing and all, on a file system in memory, committing at once in the caller's
task: no threads, so a simulation stays deterministic. Faults of disks are not its business.
"""

import errno
import os
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TypeVar

import anyio
import anyio.lowlevel

from herodotus.core.bundles import Visit
from herodotus.core.captures import Deposit, Mode
from herodotus.core.errors import ArchiveError
from herodotus.core.ports import Lane
from herodotus.store.committer import Done, Submitted
from herodotus.store.disk import Disk, FileStatus
from herodotus.store.engine import Archive
from herodotus.store.files import Files
from herodotus.store.index import Index, IndexBatch
from herodotus.store.intake import Intake
from herodotus.store.large_parcels import Packed
from herodotus.store.log import Item
from herodotus.store.recovery import open_archive
from herodotus.store.settings import ArchiveSettings
from herodotus.store.store import DiskStore, Stored

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
        self.is_damaged = False

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
        self.is_damaged = False

    def note_damage(self) -> None:
        self.is_damaged = True

    def content(self) -> list[tuple[bytes, bytes]]:
        with self._lock:
            return sorted(self._values.items())

    def bytes_used(self) -> int:
        return sum(len(key) + len(value) for key, value in self._values.items())

    def close(self) -> None:
        """Nothing is open."""


class AtOnce:
    """Implements `Workers`: every job runs in the caller's task, after a turn of the loop."""

    has_threads = False

    def steady_s(self) -> float:
        return anyio.current_time()

    async def work(self, job: Callable[[], T], lane: Lane) -> T:
        del lane
        await (
            anyio.lowlevel.checkpoint()
        )  # before the job: what was decided before it and after it is one step
        return job()


class CommitAtOnce:
    """Implements `Committer`: what is submitted is durable, or refused, before the next line."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive

    def submit(self, item: Item, done: Done, generation: int | None = None) -> bool:
        del generation  # nothing happens between preparing and this, so nothing was prepared in vain
        self._archive.commit([item])
        done(None)
        return True

    def submit_all(self, some: Sequence[Submitted]) -> list[bool | ArchiveError]:
        try:
            self._archive.commit([item for item, _, _ in some])
        except ArchiveError as error:
            return [error] * len(some)
        for _, done, _ in some:
            done(None)
        return [True] * len(some)

    def stop(self) -> None:
        """Nothing waits."""


class MemoryStore(DiskStore):
    """There is nothing to start or to stop."""

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
        archive = Archive(files, index, now=now, settings=settings)
        open_archive(archive)
        super().__init__(archive, Intake(archive), CommitAtOnce(archive), AtOnce())

    async def store(
        self, deposit: Deposit, mode: Mode = Mode.REGULAR, packed: Packed | None = None
    ) -> Stored:
        await anyio.lowlevel.checkpoint()
        return await super().store(deposit, mode, packed)

    async def note_visits(self, visits: Sequence[Visit]) -> None:
        await anyio.lowlevel.checkpoint()
        await super().note_visits(visits)
