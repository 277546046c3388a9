"""What can go wrong in the archive, and whose fault is it?

HerodotusError
└── ArchiveError
    ├── MalformedRecordError    a file of the archive, or one to import, breaks the format: skip, report
    ├── DamagedRecordError      a stored record does not match its digest: skip, repair from another copy
    ├── UnusableArchiveError    the archive as a whole cannot be opened
    ├── IndexFailedError        the index cannot be written: nothing is stored until the next opening
    ├── StoreRefusedError       nothing can be stored now (disk full, read-only, failed); reading continues
    └── CursorExpiredError      a stream's cursor belongs to an index that was rebuilt since
"""

from herodotus.core.errors import HerodotusError


class ArchiveError(HerodotusError):
    """Root of everything the archive raises."""


class MalformedRecordError(ArchiveError):
    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class DamagedRecordError(ArchiveError):
    def __init__(self, path: str, offset: int, reason: str) -> None:
        self.path = path
        self.offset = offset
        self.reason = reason
        super().__init__(f"{path} at byte {offset}: {reason}")


class UnusableArchiveError(ArchiveError):
    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"the archive in {path} cannot be used: {reason}")


class IndexFailedError(ArchiveError):
    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"the index cannot be written: {reason}")


class StoreRefusedError(ArchiveError):
    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"nothing can be stored: {reason}")


class UpkeepStoppedError(ArchiveError):
    def __init__(self) -> None:
        super().__init__("sealing or compaction was given up, as the archive closes; all is as it was")


class CursorExpiredError(ArchiveError):
    def __init__(self) -> None:
        super().__init__("the stream's cursor is of an index that was rebuilt since: start the stream again")


def told_to_readers(error: ArchiveError) -> str:
    """Where on its disks a peer has something is for its operator."""
    if isinstance(error, UnusableArchiveError | DamagedRecordError):
        return f"this peer's archive cannot be read now: {error.reason}"
    return str(error)
