"""What does a disk hold, in its cache and on its platter?

A file has bytes that programs read (`cached`) and bytes that a power cut leaves (`durable`), and between
them the pending changes in order. A directory has the same twice over its names. They refuse
nothing: that is `disk.py`; which images a power cut can leave is `crash.py`. At the end: which inode a path
names, with the errors of the real calls.
"""

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Write:
    """Bytes that went into the page cache."""

    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Resize:
    """A new size: truncation, or more that reads as zeros."""

    size: int


Change = Write | Resize


def resize(content: bytearray, size: int) -> None:
    """Cut or extend with zeros, as a file system does."""
    if size < len(content):
        del content[size:]
    else:
        content.extend(bytes(size - len(content)))


def apply(content: bytearray, change: Change) -> None:
    if isinstance(change, Resize):
        resize(content, change.size)
        return
    end = change.offset + len(change.data)
    if change.offset > len(content):
        resize(content, change.offset)
    content[change.offset : end] = change.data


@dataclass(slots=True, eq=False)
class File:
    number: int
    cached: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    pending: list[Change] = field(default_factory=list)
    links: int = 1

    def change(self, change: Change) -> None:
        apply(self.cached, change)
        self.pending.append(change)

    def flush(self) -> None:
        """Everything written so far reaches the platter."""
        for change in self.pending:
            apply(self.durable, change)
        self.pending.clear()

    def forget_pending(self) -> None:
        """Behave like Linux after a failed fsync: the pages count as clean, and never reach the platter."""
        self.pending.clear()


@dataclass(slots=True, eq=False)
class Directory:
    number: int
    cached: dict[str, "Inode"] = field(default_factory=dict)
    durable: dict[str, "Inode"] = field(default_factory=dict)


Inode = File | Directory


@dataclass(frozen=True, slots=True, eq=False)
class EntryChange:
    """One name now leads elsewhere (or, with None, nowhere)."""

    directory: Directory
    name: str
    inode: Inode | None

    def apply_durably(self) -> None:
        if self.inode is None:
            self.directory.durable.pop(self.name, None)
        else:
            self.directory.durable[self.name] = self.inode


@dataclass(frozen=True, slots=True, eq=False)
class Transaction:
    """Entry changes that survive together or not at all: a rename takes one name away and gives another."""

    changes: tuple[EntryChange, ...]

    def touches(self, directory: Directory) -> bool:
        return any(change.directory is directory for change in self.changes)

    def names(self) -> set[tuple[int, str]]:
        return {(change.directory.number, change.name) for change in self.changes}

    def apply_durably(self) -> None:
        for change in self.changes:
            change.apply_durably()


Path = str | os.PathLike[str]


def os_error(number: int, path: Path = "") -> OSError:
    # OSError picks its subclass (FileNotFoundError, ...) from the number, as the real calls do.
    return OSError(number, os.strerror(number), os.fspath(path))


def parts_of(path: Path) -> list[str]:
    parts: list[str] = []
    for part in os.fspath(path).split("/"):
        if part == "..":
            if parts:
                parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return parts


def find(root: Directory, path: Path) -> Inode | None:
    inode: Inode | None = root
    for part in parts_of(path):
        if isinstance(inode, File):
            raise os_error(errno.ENOTDIR, path)
        if inode is None:
            return None
        inode = inode.cached.get(part)
    return inode


def must_find(root: Directory, path: Path) -> Inode:
    inode = find(root, path)
    if inode is None:
        raise os_error(errno.ENOENT, path)
    return inode


def parent_of(root: Directory, path: Path) -> tuple[Directory, str]:
    """The directory that holds a name, which itself need not exist."""
    parts = parts_of(path)
    if not parts:
        raise os_error(errno.EBUSY, path)
    parent = must_find(root, "/".join(parts[:-1]))
    if isinstance(parent, File):
        raise os_error(errno.ENOTDIR, path)
    return parent, parts[-1]


def contains(directory: Directory, wanted: Directory) -> bool:
    """Is it that directory, or above it?"""
    if directory is wanted:
        return True
    below = (inode for inode in directory.cached.values() if isinstance(inode, Directory))
    return any(contains(inode, wanted) for inode in below)


def walk(directory: Directory, path: str = "") -> Iterator[tuple[str, Inode]]:
    """Everything by its path, sorted."""
    yield path or "/", directory
    for name in sorted(directory.cached):
        inode = directory.cached[name]
        if isinstance(inode, Directory):
            yield from walk(inode, f"{path}/{name}")
        else:
            yield f"{path}/{name}", inode
