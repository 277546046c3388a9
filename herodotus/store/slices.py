"""On which disks does a home's archive lie, and which of them are there today?

The first slice is the home's own `archive/`. Others are folders on other disks, one line each in its
`slices.txt`. Each of those carries a mark with the archive's name and the slice's number: where a disk is not
mounted, its empty mount point must not be taken for it, or new segments would fill the wrong disk.
"""

import os
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from herodotus.core.errors import UnusableArchiveError
from herodotus.home.removed import removals_of
from herodotus.store.disk import Disk, OsDisk, write_file
from herodotus.store.engine import Archive
from herodotus.store.external_sort import PREFIX
from herodotus.store.files import Files
from herodotus.store.index import Index, RocksIndex
from herodotus.store.settings import ArchiveSettings

LIST_NAME, MARK_NAME = "slices.txt", "slice.txt"
SLICES_MAX = 64


class SliceDisk(Disk, Protocol):
    def free_bytes(self) -> int: ...


class Storage(Protocol):
    """The disks and the index under an archive."""

    def disk(self, folder: Path) -> SliceDisk: ...

    def index(self, folder: Path) -> Index:
        """Rows that are made again where they cannot be read. Raises UnusableArchiveError where they are in use."""
        ...

    def random_bytes(self, count: int) -> bytes: ...


class LocalStorage:
    """Implements `Storage`: this machine's disks."""

    def disk(self, folder: Path) -> OsDisk:
        return OsDisk(folder)

    def index(self, folder: Path) -> RocksIndex:
        return RocksIndex(folder)

    def random_bytes(self, count: int) -> bytes:
        return secrets.token_bytes(count)


LOCAL = LocalStorage()


def archive_at(
    home: Path,
    now: Callable[[], float],
    settings: ArchiveSettings | None = None,
    storage: Storage = LOCAL,
) -> Archive:
    """The archive of a home: WARC files in `archive/` and its slices, derived data in `index/`. Not open yet."""
    folder = home / "archive"
    folder.mkdir(parents=True, exist_ok=True)
    slices = open_slices(folder, storage)
    state = home / "state"
    state.mkdir(exist_ok=True)
    index = storage.index(home / "index")  # ours alone: unfinished sorting was given up
    for left in folder.glob(f"{PREFIX}*"):
        shutil.rmtree(left, ignore_errors=True)
    archive = Archive(
        Files(slices),
        index,
        now=now,
        settings=settings,
        free_bytes=lambda slice_: _free_bytes(slices[slice_]),
        scratch=folder,
        state=storage.disk(state),
        random_bytes=storage.random_bytes,
    )
    archive.removed = removals_of(home / "state")
    return archive


def _free_bytes(disk: SliceDisk | None) -> int:
    return 0 if disk is None else disk.free_bytes()


def open_slices(folder: Path, storage: Storage) -> list[SliceDisk | None]:
    """None for a disk that is not there: its captures are missing, the others are served."""
    disks: list[SliceDisk | None] = [storage.disk(folder)]
    if not (folder / LIST_NAME).exists():
        return disks
    name, *paths = _read(folder)
    for number, path in enumerate(paths, start=1):
        disks.append(storage.disk(Path(path)) if _mark(Path(path)) == f"{name} {number}" else None)
    return disks


def add_slice(folder: Path, path: Path) -> int:
    """Make an existing, empty folder the archive's next slice; returns its number."""
    if not path.is_dir():
        raise UnusableArchiveError(os.fspath(path), "there is no such folder")
    if any(path.iterdir()):
        raise UnusableArchiveError(os.fspath(path), "a new slice must be an empty folder")
    where = os.fspath(path.resolve())
    if "\n" in where:
        raise UnusableArchiveError(os.fspath(path), "its name has a line break")
    name, *paths = _read(folder) if (folder / LIST_NAME).exists() else [secrets.token_hex(8)]
    if len(paths) + 1 >= SLICES_MAX:
        raise UnusableArchiveError(os.fspath(folder), f"more than {SLICES_MAX} slices")
    number = len(paths) + 1
    # The mark first: a list that names an unmarked folder would have a slice that is missing for good.
    write_file(OsDisk(path), MARK_NAME, [f"{name} {number}\n".encode()])
    lines = "".join(f"{line}\n" for line in (name, *paths, where))
    write_file(OsDisk(folder), LIST_NAME, [lines.encode("utf-8", "surrogateescape")])
    return number


def _read(folder: Path) -> list[str]:
    lines = (folder / LIST_NAME).read_text(encoding="utf-8", errors="surrogateescape").split("\n")
    if len(lines) < 2 or lines[-1] or not all(lines[:-1]):
        raise UnusableArchiveError(os.fspath(folder / LIST_NAME), "it is no list of slices")
    return lines[:-1]


def _mark(path: Path) -> str:
    try:
        return (path / MARK_NAME).read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""
