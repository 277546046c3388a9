"""What does the archive ask of a file system? As little as possible, with the names of the module `os`.

The same store runs on the real one (`OsDisk`) and on any other of that shape, such as a simulated one that loses
unsynced bytes. Paths are relative to the disk's root and use `/`.
"""

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol


class FileStatus(Protocol):
    @property
    def st_size(self) -> int: ...
    @property
    def st_mode(self) -> int: ...


class Disk(Protocol):
    def open(self, path: str, flags: int, mode: int = 0o777) -> int: ...
    def close(self, fd: int) -> None: ...
    def pread(self, fd: int, length: int, offset: int) -> bytes: ...
    def pwrite(self, fd: int, data: bytes, offset: int) -> int: ...
    def ftruncate(self, fd: int, length: int) -> None: ...
    def fdatasync(self, fd: int) -> None: ...
    def fsync(self, fd: int) -> None: ...
    def rename(self, source: str, target: str) -> None: ...
    def unlink(self, path: str) -> None: ...
    def mkdir(self, path: str, mode: int = 0o777) -> None: ...
    def listdir(self, path: str) -> list[str]: ...
    def stat(self, path: str) -> FileStatus: ...


class OsDisk:
    """A folder of the real file system."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._prefix = os.fspath(root) + "/"

    def open(self, path: str, flags: int, mode: int = 0o666) -> int:
        return os.open(self._prefix + path, flags | os.O_CLOEXEC, mode)

    def close(self, fd: int) -> None:
        os.close(fd)

    def pread(self, fd: int, length: int, offset: int) -> bytes:
        return os.pread(fd, length, offset)

    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        return os.pwrite(fd, data, offset)

    def ftruncate(self, fd: int, length: int) -> None:
        os.ftruncate(fd, length)

    def fdatasync(self, fd: int) -> None:
        os.fdatasync(fd)

    def fsync(self, fd: int) -> None:
        os.fsync(fd)

    def rename(self, source: str, target: str) -> None:
        (self.root / source).rename(self.root / target)

    def unlink(self, path: str) -> None:
        (self.root / path).unlink()

    def mkdir(self, path: str, mode: int = 0o777) -> None:
        (self.root / path).mkdir(mode)

    def listdir(self, path: str) -> list[str]:
        return [found.name for found in (self.root / path).iterdir()]

    def stat(self, path: str) -> FileStatus:
        return (self.root / path).stat()

    def free_bytes(self) -> int:
        status = os.statvfs(self.root)
        return status.f_bavail * status.f_frsize


def write_all(disk: Disk, fd: int, buffers: Sequence[bytes], offset: int) -> int:
    """Write everything at `offset`, however the disk cuts it up; returns where it ends."""
    data = b"".join(buffers)
    done = disk.pwrite(fd, data, offset)
    while done < len(data):
        written = disk.pwrite(fd, data[done:], offset + done)
        if written <= 0:
            raise OSError(f"the disk took none of {len(data) - done} bytes")
        done += written
    return offset + len(data)


def sync_folder(disk: Disk, path: str) -> None:
    """Make the names in a folder durable."""
    fd = disk.open(path, os.O_RDONLY)
    try:
        disk.fsync(fd)
    finally:
        disk.close(fd)


def make_folder(disk: Disk, path: str) -> None:
    """Make a folder and its parents, each name durable in its parent. Existing folders stay as they are."""
    parts = path.split("/")
    for depth in range(1, len(parts) + 1):
        try:
            disk.mkdir("/".join(parts[:depth]))
        except FileExistsError:
            continue
        sync_folder(disk, "/".join(parts[: depth - 1]) or ".")


def exists(disk: Disk, path: str) -> bool:
    try:
        disk.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def is_folder(disk: Disk, path: str) -> bool:
    return stat.S_ISDIR(disk.stat(path).st_mode)


def write_file(disk: Disk, path: str, buffers: Sequence[bytes]) -> None:
    """A whole new file, durable under its name or not there at all. A folder of that name is set aside."""
    part = path + ".part"
    fd = disk.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    try:
        write_all(disk, fd, buffers, 0)
        disk.fsync(fd)
    finally:
        disk.close(fd)
    if exists(disk, path) and is_folder(disk, path):
        disk.rename(path, path + ".damaged")
    disk.rename(part, path)
    sync_folder(disk, path.rpartition("/")[0] or ".")


def read_file(disk: Disk, path: str, bytes_max: int) -> bytes:
    size = disk.stat(path).st_size  # what is asked for takes memory, whether or not it is there
    fd = disk.open(path, os.O_RDONLY)
    try:
        return disk.pread(fd, min(size, bytes_max), 0)
    except OSError as error:
        error.filename = path  # the kernel knows the descriptor alone
        raise
    finally:
        disk.close(fd)


def free_bytes_at(folder: Path) -> int:
    """Of the disk on which it lies."""
    return OsDisk(folder).free_bytes()
