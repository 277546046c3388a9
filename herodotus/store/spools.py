"""Where do bytes wait that are too many for the memory? In a file of the archive's disk that has no name.

A capture of a hundred megabytes is not held while it comes in or is written again: it lies in a spool, which goes with
the last who knows it. A spool has a name only until it is open, so nothing of it is left after a power cut.
"""

import errno
import os
from collections.abc import Callable, Iterable

from herodotus.core.errors import StoreRefusedError
from herodotus.store.disk import Disk, write_all

PIECE_BYTES = 1 << 20


class OnDisk:
    """Bytes that lie in a file; slices of them are read."""

    def __init__(self, read_at: Callable[[int, int], bytes], length: int) -> None:
        """`read_at` takes a place and a length."""
        self._read_at = read_at
        self._length = length

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, part: slice) -> bytes:
        start, end, step = part.indices(len(self))
        assert step == 1, "no other slices are asked for"
        return self._read_at(start, end - start) if end > start else b""


Lying = bytes | bytearray | memoryview | OnDisk
"""Bytes, here or on a disk: their length and slices are all that is asked of them."""


class Spool(OnDisk):
    """Grows at its end. StoreRefusedError when the disk takes no more."""

    def __init__(self, disk: Disk, path: str) -> None:
        super().__init__(self._read, 0)
        self._disk = disk
        self._fd = -1
        try:
            self._fd = disk.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
            disk.unlink(path)
        except OSError as error:
            raise _refused(error) from error

    def append(self, data: bytes | bytearray) -> None:
        try:
            self._length = write_all(self._disk, self._fd, [bytes(data)], self._length)
        except OSError as error:
            raise _refused(error) from error

    def _read(self, at: int, length: int) -> bytes:
        return self._disk.pread(self._fd, length, at)

    def __del__(self) -> None:
        if self._fd >= 0:
            self._disk.close(self._fd)


def _refused(error: OSError) -> StoreRefusedError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreRefusedError("the disk is full")
    return StoreRefusedError(f"no place for a large capture: {error.strerror}")


def put_together(members: Iterable[Lying], spool: Callable[[], Spool]) -> bytes | OnDisk:
    """One after the other; on the disk where one of them lies there."""
    found = list(members)
    held = [member for member in found if not isinstance(member, OnDisk)]
    if len(held) == len(found):
        return b"".join(held)
    if len(found) == 1 and isinstance(found[0], OnDisk):
        return found[0]
    whole = spool()
    for member in found:
        for at in range(0, len(member), PIECE_BYTES):
            whole.append(bytes(member[at : at + PIECE_BYTES]))
    return whole
