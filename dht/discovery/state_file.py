"""How does a small file of state survive a crash, and a file that is torn or not ours?

Written beside, flushed, renamed. Read whole or not at all: what does not decode gives `None` and a warning,
since forgetting some contacts is better than not starting.
"""

import logging
import os
from pathlib import Path
from typing import TypeVar

import msgspec

log = logging.getLogger(__name__)

FILE_BYTES_MAX = 1 << 20
"""The largest file of this package is some 60 kB."""

T = TypeVar("T")


def write_state(path: Path, value: object) -> None:
    """Atomically; raises `OSError` where the disk does not take it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".new")
    with beside.open("wb") as file:
        file.write(msgspec.msgpack.encode(value))
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def read_state(path: Path, kind: type[T]) -> T | None:
    """The value, or `None` where there is no file or none that we can read."""
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
        if len(data) > FILE_BYTES_MAX:
            log.warning(
                "state file too large, starting without it path=%s bytes_max=%d", path, FILE_BYTES_MAX
            )
            return None
        return msgspec.msgpack.decode(data, type=kind)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError, ValueError, RecursionError) as error:
        log.warning("state file unreadable, starting without it path=%s error=%s", path, error)
        return None
