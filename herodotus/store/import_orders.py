"""How are many files imported as one order: what is in each, where does an interrupted one continue, what is retried?

A WACZ is a ZIP with WARC files in it, which are read where they lie. The progress in a file is noted beside the
archive now and then, never ahead of the durable captures. After a crash the same command continues there. A revisit
whose original comes only in a later file is tried again when all files were read.
"""

import os
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec

from herodotus.core.errors import ArchiveError
from herodotus.home.durable import write_durably
from herodotus.store.store import DiskStore
from herodotus.store.warc_import import ImportReport, import_file

MARK_BYTES = 2 * 1024 * 1024  # of a file, between two marks: so much is read again at most
MARKS_MAX = 100
MARKS_BYTES_MAX = 1024 * 1024
_WARC_NAMES = (".warc", ".warc.gz", ".arc", ".arc.gz")


class NotImportableError(ArchiveError):
    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path} cannot be imported: {reason}")


class _Mark(msgspec.Struct):
    size: int
    modified_ns: int
    incarnation: str
    """Of the index: a mark says nothing about another archive."""
    offset: int


class Marks:
    """The progress of interrupted imports. If it cannot be read or written, that costs only time."""

    def __init__(self, path: Path | None, incarnation: bytes) -> None:
        self._path = path
        self._incarnation = incarnation.hex()
        self._marks = _read(path)
        self._marked_at = 0

    def start_of(self, file: Path, status: os.stat_result) -> int:
        mark = self._marks.get(str(file))
        is_same = mark is not None and (mark.size, mark.modified_ns, mark.incarnation) == (
            status.st_size, status.st_mtime_ns, self._incarnation,
        )  # fmt: skip
        self._marked_at = mark.offset if mark is not None and is_same else 0
        return self._marked_at

    def note(self, file: Path, status: os.stat_result, offset: int) -> None:
        if offset < self._marked_at + MARK_BYTES:
            return
        self._marked_at = offset
        self._marks.pop(str(file), None)
        self._marks[str(file)] = _Mark(status.st_size, status.st_mtime_ns, self._incarnation, offset)
        while len(self._marks) > MARKS_MAX:
            self._marks.pop(next(iter(self._marks)))
        self._write()

    def done(self, file: Path) -> None:
        if self._marks.pop(str(file), None) is not None:
            self._write()

    def _write(self) -> None:
        if self._path is not None:
            write_durably(self._path, msgspec.json.encode(self._marks))


def _read(path: Path | None) -> dict[str, _Mark]:
    if path is None:
        return {}
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.read(MARKS_BYTES_MAX), type=dict[str, _Mark])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportProgress:
    """Reports of a running import."""

    path: Path
    done_bytes: int
    total_bytes: int
    captures: int

    def __str__(self) -> str:
        share = min(100, 100 * self.done_bytes // max(1, self.total_bytes))
        return f"{self.path}: {share} %, {self.captures} captures"


async def take_in(
    store: DiskStore,
    paths: list[Path],
    *,
    start: int | None = None,
    marks_path: Path | None = None,
    tell: Callable[[ImportProgress], None] = lambda progress: None,
) -> list[dict[str, Any]]:
    """A report of each file. `start` is a byte to continue at, whatever is marked; 0 starts again."""
    marks = Marks(marks_path, store.archive.incarnation)
    reports = [await _take_in_one(store, path, start, marks, tell) for path in paths]
    # Only later files can have brought the originals that were missing in a file.
    for at, path in enumerate(paths):
        if reports[at].orphans and any(report.stored for report in reports[at:]):
            again = await _take_in_one(store, path, 0, Marks(None, b""), tell)
            reports[at].skipped, reports[at].problems = again.skipped, again.problems
            reports[at].orphans = again.orphans
            reports[at].stored += again.stored
            reports[at].revisits += again.revisits
    return [{"file": str(path), **asdict(report)} for path, report in zip(paths, reports, strict=True)]


async def _take_in_one(
    store: DiskStore, path: Path, start: int | None, marks: Marks, tell: Callable[[ImportProgress], None]
) -> ImportReport:
    with _opened(path) as file:
        status = os.fstat(file.fileno())
        # A plain WARC that ends in an archived ZIP looks like one from behind.
        if file.read(2) == b"PK" and zipfile.is_zipfile(file):
            return await _take_in_package(store, path, file, tell)
        file.seek(0)
        begin = marks.start_of(path, status) if start is None else start

        def progress(report: ImportReport) -> None:
            marks.note(path, status, report.offset)
            captures = report.stored + report.revisits + report.known
            tell(
                ImportProgress(
                    path=path, done_bytes=report.offset, total_bytes=status.st_size, captures=captures
                )
            )

        report = await import_file(store, file, start=begin, progress=progress)
        marks.done(path)
        return report


async def _take_in_package(
    store: DiskStore, path: Path, file: BinaryIO, tell: Callable[[ImportProgress], None]
) -> ImportReport:
    """Nothing is unpacked: a name with `..` in it is a name like any other."""
    whole = ImportReport()
    try:
        with zipfile.ZipFile(file) as package:
            members = [info for info in package.infolist() if info.filename.endswith(_WARC_NAMES)]
            if not members:
                raise NotImportableError(path, "there is no WARC file in this ZIP")
            total = sum(info.file_size for info in members)
            for info in members:
                before = whole.offset

                def progress(report: ImportReport, before: int = before) -> None:
                    captures = report.stored + report.revisits + report.known
                    tell(
                        ImportProgress(
                            path=path,
                            done_bytes=before + report.offset,
                            total_bytes=total,
                            captures=whole.stored + whole.revisits + whole.known + captures,
                        )
                    )

                with package.open(info) as member:
                    report = await import_file(store, cast("BinaryIO", member), progress=progress)
                whole.add(report, info.filename)
                whole.offset = before + info.file_size
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        # RuntimeError is how zipfile says that a member is encrypted.
        raise NotImportableError(path, str(error)) from error
    return whole


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    try:
        file = path.open("rb")
    except OSError as error:
        raise NotImportableError(path, (error.strerror or str(error)).lower()) from error
    with file:
        yield file
