"""What can go wrong in a peer, and whose fault is it?

    HerodotusError                 the root; each class writes its own sentence and says what to do
    ├── Misuse            exit 2   somebody wrote something wrong: a flag, a file, a key
    │   ├── SettingError           one setting: where it was written, its dotted name, what is wrong
    │   ├── FileSyntaxError        a file does not hold what its name says
    │   ├── CharterMismatch        a home belongs to one network for life
    │   ├── IdentityError          the key cannot be used as it is (KeyLocked: not without its passphrase)
    │   └── QuestionError          a question in words is not understood: which part, and what to write instead
    ├── WorldFailure      exit 1   the machine or the network failed: a full disk, a taken port, no answer
    │   ├── StorageFailure         a file or folder could not be read or written
    │   ├── HomeInUse              another process runs on this home
    │   ├── PortTaken              another program listens there
    │   ├── ArchiveError           the archive cannot do it now
    │   │   ├── MalformedRecordError    a file of the archive, or one to import, breaks the format: skip, report
    │   │   ├── DamagedRecordError      a stored record does not match its digest: skip, repair from another copy
    │   │   ├── UnusableArchiveError    the archive as a whole cannot be opened
    │   │   ├── IndexFailedError        the index cannot be written: nothing is stored until the next opening
    │   │   ├── StoreRefusedError       nothing can be stored now (disk full, read-only, failed); reading continues
    │   │   ├── SearchFailedError       the index of words cannot be read or written; it is tried again, or made again
    │   │   ├── SearchRestsError        the index of words cannot be asked now: it is made, or the operator wants none
    │   │   └── CursorExpiredError      a stream's cursor belongs to an index that was rebuilt since
    │   └── CallError              a call to another peer had no answer (`herodotus.peers.calls`)
    ├── PeerFault         exit 1   another peer broke the rules: distrust it, carry on
    │   └── MalformedError         its bytes are no message of their protocol; every `wire.py` raises it
    └── NotFound          exit 3   the thing asked for does not exist: no home, no running peer

What is our own fault is an assertion or a crash, never one of these.
"""

import shlex
from dataclasses import dataclass
from typing import ClassVar


class HerodotusError(Exception):
    """A sentence for people, and the exit code that machines rely on."""

    exit_code: ClassVar[int] = 1


class Misuse(HerodotusError):
    exit_code = 2


class WorldFailure(HerodotusError):
    exit_code = 1


class PeerFault(HerodotusError):
    """Another peer broke the rules. It is never a reason to stop."""


class MalformedError(PeerFault, ValueError):
    """Another peer's bytes are no message of their protocol. The text says what is wrong: often a word to count by."""


class NotFound(HerodotusError):
    exit_code = 3


@dataclass(kw_only=True, eq=False)
class SettingError(Misuse):
    """`source` says where the value was written: a file, an environment variable, a flag."""

    source: str
    key: str
    problem: str
    hint: str = ""

    def __str__(self) -> str:
        hint = f"; {self.hint}" if self.hint else ""
        return f"{self.source}: {self.key} {self.problem}{hint}"


@dataclass(kw_only=True, eq=False)
class FileMisuse(Misuse):
    file: str
    problem: str
    hint: str

    def __str__(self) -> str:
        return f"{self.file} {self.problem}; {self.hint}"


class FileSyntaxError(FileMisuse):
    pass


@dataclass(kw_only=True, eq=False)
class CharterMismatch(Misuse):
    file: str
    found: str
    home: str
    expected: str

    def __str__(self) -> str:
        return (
            f"{self.file} describes network {self.found}, but {self.home} belongs to network {self.expected}; "
            "networks never mix: restore the charter, or start a second home with `herodotus init --home`"
        )


class IdentityError(FileMisuse):
    pass


@dataclass(kw_only=True, eq=False)
class KeyLocked(IdentityError):
    """The key has a passphrase and none was given: a command may ask for it and try again."""

    problem: str = "is locked with a passphrase"
    hint: str = "set HERODOTUS_PASSPHRASE, or run where it can be typed"


@dataclass(kw_only=True, eq=False)
class QuestionError(Misuse):
    """`part` is what the reader wrote, where it is one part that is wrong."""

    problem: str
    hint: str
    part: str = ""

    def __str__(self) -> str:
        part = f"{self.part[:80]} " if self.part else ""
        return f"{part}{self.problem}; {self.hint}"


@dataclass(kw_only=True, eq=False)
class StorageFailure(WorldFailure):
    path: str
    action: str
    reason: str
    hint: str

    def __str__(self) -> str:
        return f"cannot {self.action} {self.path}: {self.reason}; {self.hint}"


@dataclass(kw_only=True, eq=False)
class HomeInUse(WorldFailure):
    home: str
    pid: int

    def __str__(self) -> str:
        owner = f"process {self.pid}" if self.pid else "another process"
        way_out = f"stop it with `herodotus stop --home {shlex.quote(self.home)}` or use another home"
        return f"{self.home} is in use by {owner}; {way_out}"


@dataclass(kw_only=True, eq=False)
class PortTaken(WorldFailure):
    address: str
    setting: str
    flag: str
    reason: str

    def __str__(self) -> str:
        way_out = f"choose another with {self.flag} or the setting {self.setting}"
        return f"cannot listen on {self.address}: {self.reason}; {way_out}"


class ArchiveError(WorldFailure):
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


class SearchFailedError(ArchiveError):
    """All else of the archive goes on without it."""


class NoRoomForWordsError(SearchFailedError):
    """Nothing was begun: the index that answers is as good as before."""


class SearchRestsError(ArchiveError):
    """A sentence."""


def told_to_readers(error: ArchiveError) -> str:
    """Where on its disks a peer has something is for its operator."""
    if isinstance(error, UnusableArchiveError | DamagedRecordError):
        return f"this peer's archive cannot be read now: {error.reason}"
    return str(error)
