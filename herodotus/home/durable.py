"""How is a small file changed so that a crash leaves the old one or the new one, never half of each?"""

import errno
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from herodotus.core.errors import StorageFailure

logger = logging.getLogger(__name__)

DAMAGED = ".damaged"
_ASIDE_MAX = 9
"""Of one name; then the last one is replaced."""
_HINTS = {
    errno.ENOSPC: "free some space, or choose another place",
    errno.EDQUOT: "the disk quota is used up: choose another place",
    errno.EROFS: "the file system is mounted read-only: choose another place",
    errno.EACCES: "it belongs to another user: change its owner or mode, or choose another place",
    errno.EPERM: "it belongs to another user: change its owner or mode, or choose another place",
}


def storage_failure(error: OSError, path: Path, action: str) -> StorageFailure:
    """The operating system's error as a sentence that says what to do."""
    hint = _HINTS.get(error.errno or 0, "check the path, or choose another place")
    reason = (error.strerror or str(error)).lower()
    return StorageFailure(path=str(path), action=action, reason=reason, hint=hint)


@contextmanager
def opened(path: Path, flags: int, action: str = "open") -> Iterator[int]:
    """A descriptor, as locks and writes in place need one. Only the opening is put into a sentence."""
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise storage_failure(error, path, action) from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """A name is durable only when its folder is."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def set_aside(path: Path) -> Path:
    """Give what stands there another name, so that it can be looked at and something sound can take its place. Raises
    OSError."""
    names = [
        f"{path.name}{DAMAGED}",
        *(f"{path.name}{DAMAGED}-{number}" for number in range(2, _ASIDE_MAX + 1)),
    ]
    free = next((name for name in names if not path.with_name(name).exists()), names[-1])
    aside = path.with_name(free)
    if aside.is_dir():
        shutil.rmtree(aside)
    else:
        aside.unlink(missing_ok=True)
    path.replace(aside)
    logger.warning("set aside path=%s as=%s", path, aside.name)
    return aside


def write_durably(path: Path, content: bytes, *, mode: int = 0o644) -> None:
    """Replace `path` in one step; the bytes are on the disk before the name is. A folder of that name is set aside."""
    beside = path.with_name(f".{path.name}.new")
    try:
        if beside.is_dir():
            set_aside(beside)
        beside.unlink(missing_ok=True)
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            if path.is_dir():
                set_aside(path)
            beside.replace(path)
            sync_folder(path.parent)
        except OSError:
            beside.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise storage_failure(error, path, "write") from error
