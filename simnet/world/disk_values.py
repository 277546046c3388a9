"""Values about a disk: its calls by kind, the possible failures, the cost of a call, the counts."""

import errno
from dataclasses import dataclass

WRITES = frozenset({"pwrite", "write", "writev", "ftruncate", "posix_fallocate"})
SYNCS = frozenset({"fsync", "fdatasync"})
NAMES = frozenset({"open", "rename", "unlink", "mkdir", "rmdir", "link"})
# Of these calls `cut_after` counts each one, as each changes the outcome of a power cut.
CHANGES = WRITES | SYNCS | NAMES


Buffer = bytes | bytearray | memoryview


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
class Speed:
    """The cost of a call. The defaults are those of a small SSD; a tired hard disk has 8 ms and 60 MB/s."""

    call_s: float = 20e-6
    sync_s: float = 1e-3
    bytes_per_s: float = 400e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Stat:
    st_mode: int
    st_ino: int
    st_nlink: int
    st_size: int
    st_mtime: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskStatistics:
    calls: int
    syncs: int
    bytes_written: int
    bytes_read: int
    bytes_used: int
    failures: int
