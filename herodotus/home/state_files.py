"""How is a small JSON file in `state/` read and changed? Whole and of a known format, or refused in a sentence.

Each is kept twice, the second one in the folder `second/` beside it. One that is lost or damaged is put back from its
second copy; what was there is set aside. Only where both cannot be read the file is refused.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from herodotus.core.errors import FileSyntaxError, StorageFailure
from herodotus.home.durable import opened, set_aside, storage_failure
from herodotus.home.second_copies import is_damage, kept, put_back, second_of, write_twice


class Versioned(Protocol):
    @property
    def format(self) -> int: ...


File = TypeVar("File", bound=Versioned)


class DamagedStateFile(FileSyntaxError):
    pass


def read_state_file(
    path: Path,
    kind: type[File],
    *,
    newest: int,
    oldest: int | None = None,
    bytes_max: int,
    hint: str = "restore it from a backup, or remove it and its second copy in `second/`",
) -> File | None:
    """None: there is no such file. `oldest` is the first format that is read too, or only the newest is. A file of a
    newer release, or one that is damaged like its second copy, raises FileSyntaxError."""

    def decoded(content: bytes) -> File:
        try:
            found = msgspec.json.decode(content, type=kind)
        except (msgspec.DecodeError, ValueError) as error:
            problem = f"is damaged ({str(error)[:100]})"
            raise DamagedStateFile(file=str(path), problem=problem, hint=hint) from error
        if not (newest if oldest is None else oldest) <= found.format <= newest:
            problem = f"has format {found.format}, and this release reads {newest}"
            raise FileSyntaxError(file=str(path), problem=problem, hint="upgrade herodotus")
        return found

    copy = kept(second_of(path))
    try:
        content = _content(path, bytes_max, hint)
        if content is None and copy is None:
            return None
        if content is not None and (copy is None or not is_damage(path, content, copy)):
            return decoded(content)
        problem = "it was gone" if content is None else "it is damaged"
    except DamagedStateFile as error:
        if copy is None:
            raise
        problem = error.problem
    assert copy is not None
    found = decoded(copy.content)
    # The disk may refuse it: then the second copy serves again the next time.
    with contextlib.suppress(OSError, StorageFailure):
        put_back(path, copy.content, problem)
    return found


def _content(path: Path, bytes_max: int, hint: str) -> bytes | None:
    try:
        with path.open("rb") as file:
            return file.read(bytes_max)
    except FileNotFoundError:
        return None
    except IsADirectoryError as error:
        raise DamagedStateFile(file=str(path), problem="is a folder", hint=hint) from error
    except OSError as error:
        raise storage_failure(error, path, "read") from error


def write_state_file(path: Path, file: object) -> None:
    """Raises StorageFailure."""
    write_twice(path, msgspec.json.encode(file))


@contextlib.contextmanager
def one_change_at_a_time(lock: Path) -> Iterator[None]:
    """Also between processes, and while a peer runs, which holds the home's own lock."""
    if lock.is_dir():
        set_aside(lock)
    with opened(lock, os.O_RDWR | os.O_CREAT) as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
