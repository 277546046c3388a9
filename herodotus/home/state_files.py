"""How is a small JSON file in `state/` read and changed? Whole and of a known format, or refused in a sentence."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from herodotus.core.errors import FileSyntaxError
from herodotus.home.durable import opened, storage_failure, write_durably


class Versioned(Protocol):
    @property
    def format(self) -> int: ...


File = TypeVar("File", bound=Versioned)


def read_state_file(
    path: Path,
    kind: type[File],
    *,
    newest: int,
    oldest: int | None = None,
    bytes_max: int,
    hint: str = "restore it from a backup, or remove it",
) -> File | None:
    """None: there is no such file. `oldest` is the first format that is read too, or only the newest is. A file that is
    damaged or of a newer release raises FileSyntaxError."""
    try:
        with path.open("rb") as file:
            content = file.read(bytes_max)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise storage_failure(error, path, "read") from error
    try:
        found = msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, ValueError) as error:
        raise FileSyntaxError(
            file=str(path), problem=f"is damaged ({str(error)[:100]})", hint=hint
        ) from error
    if not (newest if oldest is None else oldest) <= found.format <= newest:
        problem = f"has format {found.format}, and this release reads {newest}"
        raise FileSyntaxError(file=str(path), problem=problem, hint="upgrade herodotus")
    return found


def write_state_file(path: Path, file: object) -> None:
    """Raises StorageFailure."""
    write_durably(path, msgspec.json.encode(file), mode=0o600)


@contextlib.contextmanager
def one_change_at_a_time(lock: Path) -> Iterator[None]:
    """Also between processes, and while a peer runs, which holds the home's own lock."""
    with opened(lock, os.O_RDWR | os.O_CREAT) as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
