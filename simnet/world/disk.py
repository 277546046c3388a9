"""How does a disk look to a program, if it can lose unsynced bytes, fill up, fail and rot?

`SimulatedDisk` has the calls that the store asks for (`herodotus.store.disk.Disk`), with the flags and errors of the
module `os`. Writes land in a cache; `fsync` and `fdatasync` make a file durable,
`fsync` of a directory its names. `power_cut` forgets any subset of the rest (`crash.py` says which), and
`cut_after` does so in the middle of a workload, so that a test can try every point:

    for calls in itertools.count():
        disk = Disk()
        disk.cut_after(calls)
        try:
            workload(disk)
            break
        except PowerCut:
            for image in disk.crash_images(random.Random(calls), limit=50):
                check(image)

Faults are data (`Failure`).
"""

import errno
import fnmatch
import os
import random
import stat as stat_bits
from collections.abc import Iterator
from dataclasses import dataclass, field

from simnet.world.crash import CrashRules, all_files, crash_images, leave_crash_image
from simnet.world.inodes import (
    Directory,
    EntryChange,
    File,
    Inode,
    Path,
    Resize,
    Transaction,
    Write,
    contains,
    find,
    must_find,
    os_error,
    parent_of,
    parts_of,
    walk,
)

WRITES = frozenset({"pwrite", "ftruncate"})
SYNCS = frozenset({"fsync", "fdatasync"})
NAMES = frozenset({"open", "rename", "unlink", "mkdir"})
CHANGES = WRITES | SYNCS | NAMES
"""Of these calls `cut_after` counts each one, as each changes the outcome of a power cut."""


class PowerCut(BaseException):
    """The machine is gone: no `except Exception` of the program under test may carry on after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Calls that go wrong: which, how, how often. `skip` lets the first n matching calls through."""

    calls: frozenset[str]
    error: int = errno.EIO
    path: str = "*"
    probability: float = 1.0
    skip: int = 0
    times: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stat:
    st_mode: int
    st_size: int


@dataclass(slots=True)
class _Open:
    inode: Inode
    path: str
    flags: int

    @property
    def is_writable(self) -> bool:
        return bool(self.flags & (os.O_WRONLY | os.O_RDWR))

    @property
    def is_readable(self) -> bool:
        return not self.flags & os.O_WRONLY


@dataclass(slots=True)
class _Armed:
    failure: Failure
    seen: int = 0
    fired: int = 0


@dataclass(slots=True)
class SimulatedDisk:
    """One host's file system; `/` exists. Not for two threads at once."""

    capacity_bytes: int | None = None
    rules: CrashRules = field(default_factory=CrashRules)
    rng: random.Random = field(default_factory=lambda: random.Random(0))
    is_read_only: bool = False
    root: Directory = field(default_factory=lambda: Directory(1))
    pending: list[Transaction] = field(default_factory=list)
    _next_number: int = 2
    _open: dict[int, _Open] = field(default_factory=dict)
    _armed: list[_Armed] = field(default_factory=list)
    bytes_used: int = 0
    _cut_after: int | None = None
    changes: int = 0

    # -- opening and closing ------------------------------------------------------------------------------

    def open(self, path: Path, flags: int, mode: int = 0o777) -> int:
        del mode
        self._begin("open", os.fspath(path), changes=bool(flags & (os.O_CREAT | os.O_TRUNC)))
        inode = find(self.root, path)
        if inode is None:
            if not flags & os.O_CREAT:
                raise os_error(errno.ENOENT, path)
            inode = self._create(path)
        elif flags & os.O_CREAT and flags & os.O_EXCL:
            raise os_error(errno.EEXIST, path)
        wants_write = bool(flags & (os.O_WRONLY | os.O_RDWR))
        if isinstance(inode, Directory):
            if wants_write:
                raise os_error(errno.EISDIR, path)
        elif flags & os.O_DIRECTORY:
            raise os_error(errno.ENOTDIR, path)
        elif wants_write:
            self._refuse_when_read_only(path)
            if flags & os.O_TRUNC and inode.cached:
                self._resize(inode, 0)
        descriptor = next(n for n in range(3, len(self._open) + 4) if n not in self._open)
        self._open[descriptor] = _Open(inode, os.fspath(path), flags)
        return descriptor

    def close(self, fd: int) -> None:
        opened = self._descriptor(fd)
        del self._open[fd]
        self._release(opened.inode)

    def close_all(self) -> None:
        """As the operating system does for a program that was killed."""
        for fd in list(self._open):
            self.close(fd)

    # -- bytes --------------------------------------------------------------------------------------------

    def pread(self, fd: int, length: int, offset: int) -> bytes:
        opened, file = self._file(fd, "pread")
        if not opened.is_readable:
            raise os_error(errno.EBADF, opened.path)
        return bytes(file.cached[offset : offset + length])

    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        opened, file = self._file(fd, "pwrite")
        return self._write(opened, file, offset, data)

    def ftruncate(self, fd: int, length: int) -> None:
        opened, file = self._file(fd, "ftruncate")
        self._need_writable(opened)
        self._reserve(length - len(file.cached), opened.path)
        self._resize(file, length)

    # -- durability ---------------------------------------------------------------------------------------

    def fsync(self, fd: int) -> None:
        self._sync(fd, "fsync")

    def fdatasync(self, fd: int) -> None:
        """As fsync: the size that is needed to read the data back is kept too, as POSIX asks."""
        self._sync(fd, "fdatasync")

    def sync(self) -> None:
        """Everything: for a test's starting point, and an orderly shutdown."""
        for file in all_files(self.root, self.pending):
            file.flush()
        for transaction in self.pending:
            transaction.apply_durably()
        self.pending.clear()

    # -- names --------------------------------------------------------------------------------------------

    def rename(self, source: Path, target: Path) -> None:
        """Atomic and replacing, as on POSIX."""
        self._begin("rename", os.fspath(source))
        self._refuse_when_read_only(source)
        old_parent, old_name = parent_of(self.root, source)
        new_parent, new_name = parent_of(self.root, target)
        inode = old_parent.cached.get(old_name)
        if inode is None:
            raise os_error(errno.ENOENT, source)
        replaced = new_parent.cached.get(new_name)
        if replaced is inode:
            return
        self._refuse_replacing(inode, replaced, target)
        if isinstance(inode, Directory) and contains(inode, new_parent):
            raise os_error(errno.EINVAL, target)
        del old_parent.cached[old_name]
        new_parent.cached[new_name] = inode
        self.pending.append(
            Transaction((EntryChange(old_parent, old_name, None), EntryChange(new_parent, new_name, inode)))
        )
        if replaced is not None:
            self._unlinked(replaced)

    def unlink(self, path: Path) -> None:
        self._begin("unlink", os.fspath(path))
        self._refuse_when_read_only(path)
        parent, name = parent_of(self.root, path)
        inode = must_find(self.root, path)
        if isinstance(inode, Directory):
            raise os_error(errno.EISDIR, path)
        self._leave(parent, name)
        self._unlinked(inode)

    def mkdir(self, path: Path, mode: int = 0o777) -> None:
        del mode
        self._begin("mkdir", os.fspath(path))
        self._refuse_when_read_only(path)
        parent, name = parent_of(self.root, path)
        if name in parent.cached:
            raise os_error(errno.EEXIST, path)
        self._enter(parent, name, Directory(self._number()))

    def makedirs(self, path: Path, mode: int = 0o777, exist_ok: bool = False) -> None:
        parts = parts_of(path)
        for depth in range(1, len(parts) + 1):
            step = "/" + "/".join(parts[:depth])
            inode = find(self.root, step)
            if inode is None:
                self.mkdir(step, mode)
            elif isinstance(inode, File):
                raise os_error(errno.ENOTDIR, step)
            elif depth == len(parts) and not exist_ok:
                raise os_error(errno.EEXIST, step)

    def listdir(self, path: Path) -> list[str]:
        """Sorted, unlike `os`: no program may come to depend on an order, and no run may differ by it."""
        inode = must_find(self.root, path)
        if isinstance(inode, File):
            raise os_error(errno.ENOTDIR, path)
        return sorted(inode.cached)

    def stat(self, path: Path) -> Stat:
        return self._stat(must_find(self.root, path))

    def exists(self, path: Path) -> bool:
        return find(self.root, path) is not None

    def isdir(self, path: Path) -> bool:
        return isinstance(find(self.root, path), Directory)

    # -- faults -------------------------------------------------------------------------------------------

    def fail(self, failure: Failure) -> None:
        self._armed.append(_Armed(failure))

    def mend(self) -> None:
        """End failures, slowness and read-only mode; their effects stay."""
        self._armed.clear()
        self.is_read_only = False

    def cut_after(self, changes: int) -> None:
        """The power goes when the program makes its next change after this many: that change is not made."""
        self._cut_after = self.changes + changes

    def power_cut(self, rng: random.Random) -> None:
        """In place: one image that a power cut can leave. Descriptors are gone."""
        self._become(leave_crash_image(self.root, self.pending, self.rules, rng))

    def crash_images(self, rng: random.Random, limit: int) -> Iterator["SimulatedDisk"]:
        """The images that a cut at this very moment can leave: all where they are few, else `limit` of them,
        the two extremes (all lost, all kept) first. This disk stays as it is."""
        for root in crash_images(self.root, self.pending, self.rules, rng, limit):
            image = SimulatedDisk(capacity_bytes=self.capacity_bytes, rules=self.rules, rng=self.rng)
            image._become(root)
            yield image

    def rot(self, path: Path, bit: int) -> None:
        """Flip one bit of a file, on the platter and in all later reads."""
        inode = must_find(self.root, path)
        assert isinstance(inode, File)
        for content in (inode.cached, inode.durable):
            if bit // 8 < len(content):
                content[bit // 8] ^= 1 << bit % 8

    def rot_somewhere(self, rng: random.Random) -> tuple[str, int] | None:
        """Flip a bit anywhere, each byte stored equally likely; says where, or None on an empty disk."""
        files = [(path, len(self.read_bytes(path))) for path in self.paths()]
        total = sum(size for _, size in files)
        if not total:
            return None
        chosen = rng.randrange(total * 8)
        for path, size in files:
            if chosen < size * 8:
                self.rot(path, chosen)
                return path, chosen
            chosen -= size * 8
        raise AssertionError

    # -- looking in from outside ----------------------------------------------------------------------------

    def paths(self) -> list[str]:
        """Every file, sorted."""
        return sorted(path for path, inode in walk(self.root) if isinstance(inode, File))

    def read_bytes(self, path: Path) -> bytes:
        inode = must_find(self.root, path)
        if isinstance(inode, Directory):
            raise os_error(errno.EISDIR, path)
        return bytes(inode.cached)

    # -- inside -------------------------------------------------------------------------------------------

    def _begin(self, call: str, path: str, *, changes: bool = True) -> None:
        if changes and call in CHANGES:
            if self._cut_after is not None and self.changes >= self._cut_after:
                raise PowerCut
            self.changes += 1
        for armed in self._armed:
            if call in armed.failure.calls and fnmatch.fnmatchcase(path, armed.failure.path):
                self._fire(armed, path)

    def _fire(self, armed: _Armed, path: str) -> None:
        failure = armed.failure
        armed.seen += 1
        if armed.seen <= failure.skip or (failure.times is not None and armed.fired >= failure.times):
            return
        if failure.probability < 1.0 and self.rng.random() >= failure.probability:
            return
        armed.fired += 1
        raise os_error(failure.error, path)

    def _write(self, opened: _Open, file: File, offset: int, data: bytes) -> int:
        self._need_writable(opened)
        growth = max(0, offset + len(data) - len(file.cached))
        room = growth if self.capacity_bytes is None else self.capacity_bytes - self.bytes_used
        if growth > room:
            # A full disk takes the bytes that still fit and returns a short count; then it takes none.
            data = data[: len(data) - (growth - max(0, room))]
            growth = max(0, room)
            if not data:
                raise os_error(errno.ENOSPC, opened.path)
        file.change(Write(offset, data))
        self.bytes_used += growth
        return len(data)

    def _resize(self, file: File, size: int) -> None:
        self.bytes_used += size - len(file.cached)
        file.change(Resize(size))

    def _reserve(self, growth: int, path: str) -> None:
        if growth > 0 and self.capacity_bytes is not None and self.bytes_used + growth > self.capacity_bytes:
            raise os_error(errno.ENOSPC, path)

    def _sync(self, fd: int, call: str) -> None:
        opened = self._descriptor(fd)
        try:
            self._begin(call, opened.path)
        except OSError:
            if isinstance(opened.inode, File):
                opened.inode.forget_pending()
            raise
        if isinstance(opened.inode, File):
            opened.inode.flush()
        else:
            self._sync_names(opened.inode)

    def _sync_names(self, directory: Directory) -> None:
        """Transactions of this directory become durable, with all earlier ones about the same names."""
        wanted: set[tuple[int, str]] = set()
        due: list[Transaction] = []
        rest: list[Transaction] = []
        for transaction in reversed(self.pending):
            if transaction.touches(directory) or transaction.names() & wanted:
                wanted |= transaction.names()
                due.append(transaction)
            else:
                rest.append(transaction)
        for transaction in reversed(due):
            transaction.apply_durably()
        self.pending = rest[::-1]

    def _create(self, path: Path) -> File:
        self._refuse_when_read_only(path)
        parent, name = parent_of(self.root, path)
        file = File(self._number())
        self._enter(parent, name, file)
        return file

    def _enter(self, parent: Directory, name: str, inode: Inode) -> None:
        parent.cached[name] = inode
        self.pending.append(Transaction((EntryChange(parent, name, inode),)))

    def _leave(self, parent: Directory, name: str) -> None:
        del parent.cached[name]
        self.pending.append(Transaction((EntryChange(parent, name, None),)))

    def _unlinked(self, inode: Inode) -> None:
        if isinstance(inode, File):
            inode.links -= 1
            self._release(inode)

    def _release(self, inode: Inode) -> None:
        """The space of a file without names comes back when nobody has it open."""
        if not isinstance(inode, File) or inode.links:
            return
        if not any(opened.inode is inode for opened in self._open.values()):
            self.bytes_used -= len(inode.cached)

    def _refuse_replacing(self, inode: Inode, replaced: Inode | None, target: Path) -> None:
        if isinstance(replaced, Directory):
            if isinstance(inode, File):
                raise os_error(errno.EISDIR, target)
            if replaced.cached:
                raise os_error(errno.ENOTEMPTY, target)
        elif replaced is not None and isinstance(inode, Directory):
            raise os_error(errno.ENOTDIR, target)

    def _need_writable(self, opened: _Open) -> None:
        if not opened.is_writable:
            raise os_error(errno.EBADF, opened.path)
        self._refuse_when_read_only(opened.path)

    def _refuse_when_read_only(self, path: Path) -> None:
        if self.is_read_only:
            raise os_error(errno.EROFS, path)

    def _file(self, fd: int, call: str) -> tuple[_Open, File]:
        opened = self._descriptor(fd)
        if isinstance(opened.inode, Directory):
            raise os_error(errno.EISDIR, opened.path)
        self._begin(call, opened.path)
        return opened, opened.inode

    def _descriptor(self, fd: int) -> _Open:
        opened = self._open.get(fd)
        if opened is None:
            raise os_error(errno.EBADF)
        return opened

    def _stat(self, inode: Inode) -> Stat:
        is_file = isinstance(inode, File)
        return Stat(
            st_mode=(stat_bits.S_IFREG | 0o644) if is_file else (stat_bits.S_IFDIR | 0o755),
            st_size=len(inode.cached) if is_file else 0,
        )

    def _number(self) -> int:
        self._next_number += 1
        return self._next_number - 1

    def _become(self, root: Directory) -> None:
        self.root = root
        self.pending = []
        self._open.clear()
        self._cut_after = None
        files = {inode.number: inode for _, inode in walk(root) if isinstance(inode, File)}
        numbers = [inode.number for _, inode in walk(root)]
        self.bytes_used = sum(len(file.cached) for file in files.values())
        self._next_number = max(numbers) + 1
