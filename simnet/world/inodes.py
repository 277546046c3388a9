"""What does a disk hold, in its cache and on its platter?

A file has bytes that programs read (`cached`) and bytes that a power cut leaves (`durable`), and between
them the pending changes in order. A directory has the same twice over its names. Nothing here raises or
refuses: that is `disk.py`; which images a power cut can leave is `crash.py`.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Write:
    """Bytes that went into the page cache."""

    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Resize:
    """A new size: truncation, or space reserved by fallocate (which reads as zeros)."""

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
