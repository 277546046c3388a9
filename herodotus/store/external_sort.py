"""How are lines sorted that do not fit into memory?

In runs: each is sorted and written to a file of its own, and the files are merged. Lines that fit into one run never
touch the disk.
"""

import heapq
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Self

RUN_BYTES_MAX = 32 * 1024 * 1024
PREFIX = ".sorting."
"""Of the folder that is there meanwhile; a kill leaves it behind."""


class SortedLines:
    """Add lines, then iterate over them in order of their bytes. Used as a context manager, it leaves nothing
    behind."""

    def __init__(self, folder: Path, run_bytes_max: int = RUN_BYTES_MAX) -> None:
        self._parent = folder
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._run_bytes_max = run_bytes_max
        self._run: list[bytes] = []
        self._run_bytes = 0
        self._runs: list[Path] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    def add(self, line: bytes) -> None:
        """Without its line end, and with none inside."""
        assert b"\n" not in line
        self._run.append(line)
        self._run_bytes += len(line) + 80  # overhead of a bytes object and its place in a list
        if self._run_bytes >= self._run_bytes_max:
            self._put_aside()

    def _put_aside(self) -> None:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix=PREFIX, dir=self._parent)
        path = Path(self._folder.name) / str(len(self._runs))
        with path.open("wb") as file:
            file.writelines(line + b"\n" for line in sorted(self._run))
        self._runs.append(path)
        self._run, self._run_bytes = [], 0

    def __iter__(self) -> Iterator[bytes]:
        return heapq.merge(*map(_lines, self._runs), sorted(self._run))


def without_repeats(lines: Iterator[bytes]) -> Iterator[bytes]:
    previous: bytes | None = None
    for line in lines:
        if line != previous:
            yield line
        previous = line


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        for line in file:
            yield line[:-1]
