"""Which inode does a path name? Walking the tree that programs see, and the errors of the real calls."""

import errno
import os
from collections.abc import Iterator

from simnet.world.inodes import Directory, File, Inode

Path = str | os.PathLike[str]


def os_error(number: int, path: Path = "") -> OSError:
    # OSError picks its subclass (FileNotFoundError, ...) from the number, as the real calls do.
    return OSError(number, os.strerror(number), os.fspath(path))


def parts_of(path: Path) -> list[str]:
    parts: list[str] = []
    for part in os.fspath(path).split("/"):
        if part == "..":
            if parts:
                parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return parts


def find(root: Directory, path: Path) -> Inode | None:
    inode: Inode | None = root
    for part in parts_of(path):
        if isinstance(inode, File):
            raise os_error(errno.ENOTDIR, path)
        if inode is None:
            return None
        inode = inode.cached.get(part)
    return inode


def must_find(root: Directory, path: Path) -> Inode:
    inode = find(root, path)
    if inode is None:
        raise os_error(errno.ENOENT, path)
    return inode


def parent_of(root: Directory, path: Path) -> tuple[Directory, str]:
    """The directory that holds a name, which itself need not exist."""
    parts = parts_of(path)
    if not parts:
        raise os_error(errno.EBUSY, path)
    parent = must_find(root, "/".join(parts[:-1]))
    if isinstance(parent, File):
        raise os_error(errno.ENOTDIR, path)
    return parent, parts[-1]


def contains(directory: Directory, wanted: Directory) -> bool:
    """Is it that directory, or above it?"""
    if directory is wanted:
        return True
    below = (inode for inode in directory.cached.values() if isinstance(inode, Directory))
    return any(contains(inode, wanted) for inode in below)


def walk(directory: Directory, path: str = "") -> Iterator[tuple[str, Inode]]:
    """Everything by its path, sorted."""
    yield path or "/", directory
    for name in sorted(directory.cached):
        inode = directory.cached[name]
        if isinstance(inode, Directory):
            yield from walk(inode, f"{path}/{name}")
        else:
            yield f"{path}/{name}", inode
