"""How does a part of the archive leave as one WARC file that needs nothing else?

Its revisits all refer to captures in it: where an original does not travel along, the body does. Unchanged
visits become standard revisit records with an empty block, which every replay tool shows right. A WACZ is such
a file in a package (`herodotus.store.wacz`).
"""

import heapq
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import BinaryIO

from herodotus.core.bundles import NO_ANSWER, Visit, for_other_tools
from herodotus.core.captures import Original, format_unchanged_visit, position_of
from herodotus.core.index_rows import KEY_BYTES, FilePlace
from herodotus.core.layout import FileName
from herodotus.store.engine import Archive
from herodotus.store.external_sort import SortedLines, without_repeats
from herodotus.store.intake import compress_bundle
from herodotus.store.log import format_warcinfo
from herodotus.store.members import gzip_member
from herodotus.store.notes import all_visits
from herodotus.store.reader import ShownReader
from herodotus.store.stored_records import StoredCapture
from herodotus.store.streams import Query, Stream

_Position = tuple[str, int, int]
"""Where on the ring, when, and captures before the visits of the same second."""
ORIGINALS_MAX = 1_000_000  # bodies that later captures may refer to; beyond, a body may be written twice


@dataclass(slots=True, kw_only=True)
class ExportReport:
    captures: int = 0
    revisits: int = 0
    visits: int = 0
    skipped: int = 0
    """Damaged captures, which stay behind."""
    bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """One record of the file, for an index of it."""

    event: StoredCapture | Visit
    mime: str
    digest: str | None
    place: FilePlace


@dataclass(frozen=True, slots=True, kw_only=True)
class _Version:
    """The version that later visits of a URL refer to."""

    url: str
    original: Original
    digest: str | None


def export_warc(
    archive: Archive,
    out: BinaryIO,
    *,
    query: Query | None = None,
    url_pattern: str | None = None,
    scratch: Path | None = None,
    note: Callable[[Exported], None] = lambda exported: None,
    progress: Callable[[ExportReport], None] = lambda report: None,
) -> ExportReport:
    """`url_pattern` is a shell pattern over whole URLs, such as `https://example.org/*`; `scratch` a folder for
    what does not fit into memory."""
    with SortedLines(scratch or Path(tempfile.gettempdir())) as visits:
        export = _Export(archive, out, query or Query(), url_pattern, note)
        export.collect_visits(visits)
        export.begin()
        for event in export.events(visits):
            if isinstance(event, Visit):
                export.write_visit(event)
            else:
                export.write_capture(event)
            progress(export.report)
        return export.report


class _Export:
    def __init__(
        self,
        archive: Archive,
        out: BinaryIO,
        query: Query,
        url_pattern: str | None,
        note: Callable[[Exported], None],
    ) -> None:
        self.report = ExportReport()
        self._archive = archive
        self._out = out
        self._query = query
        self._url_pattern = url_pattern
        self._note = note
        self._originals: OrderedDict[bytes, Original] = OrderedDict()
        self._version: _Version | None = None
        """The last one written."""

    # -- what leaves --------------------------------------------------------------------------------------

    def collect_visits(self, lines: SortedLines) -> None:
        """Sorted as the stream of captures is: by position, then by time."""
        for visit in all_visits(self._archive):
            is_within = self._query.from_s <= visit.time_s < self._query.to_s
            if is_within and visit.status != NO_ANSWER and self._is_wanted(visit.url):
                position = position_of(visit.url)[:KEY_BYTES].hex()
                lines.add(
                    f"{position} {visit.time_s:010} {visit.status} {visit.url}".encode(
                        "utf-8", "surrogateescape"
                    )
                )

    def events(self, visits: SortedLines) -> Iterator[StoredCapture | Visit]:
        """Captures and visits, the visits of a version right after it."""
        stream = Stream(self._archive, self._query, is_whole=True)
        wanted: Iterator[tuple[_Position, StoredCapture | Visit]] = (
            (_position(capture), capture) for capture in stream if self._is_wanted(capture.url)
        )
        noted: Iterator[tuple[_Position, StoredCapture | Visit]] = (
            ((visit_key, visit.time_s, 1), visit)
            for visit_key, visit in map(_visit_of, without_repeats(iter(visits)))
        )
        for _, event in heapq.merge(wanted, noted, key=lambda pair: pair[0]):
            yield event
        self.report.skipped += stream.skipped

    def _is_wanted(self, url: str) -> bool:
        if self._archive.removed.covers(url):
            return False
        return self._url_pattern is None or fnmatchcase(url, self._url_pattern)

    # -- how it is written --------------------------------------------------------------------------------

    def begin(self) -> None:
        info = format_warcinfo(FileName(number=0), int(self._archive.now()), self._archive.settings.software)
        self._write(gzip_member(info))

    def write_capture(self, capture: StoredCapture) -> None:
        original = self._originals.get(capture.id.digest)
        first, *rest = compress_bundle(for_other_tools(capture.as_deposit()), original)
        place = self._write(first)
        for member in rest:
            self._write(member)
        self.report.captures += 1
        self.report.revisits += original is not None
        own = capture.as_original()
        if original is None and capture.body:
            self._originals[capture.id.digest] = own
            if len(self._originals) > ORIGINALS_MAX:
                self._originals.popitem(last=False)
        self._version = _Version(url=capture.url, original=original or own, digest=capture.sha1)
        mime = "warc/revisit" if original is not None else capture.media_type.partition(";")[0].strip()
        self._note(Exported(event=capture, mime=mime, digest=capture.sha1, place=place))

    def write_visit(self, visit: Visit) -> None:
        version = self._version
        if version is None or version.url != visit.url:
            version = self._fetch_version(visit)
        if version is None:
            return  # of a capture that was deleted, or left out because of its kind
        record = format_unchanged_visit(visit.url, visit.time_s, version.original, version.digest)
        place = self._write(gzip_member(record))
        self.report.visits += 1
        self._note(Exported(event=visit, mime="warc/revisit", digest=version.digest, place=place))

    def _fetch_version(self, visit: Visit) -> _Version | None:
        """The version of a URL that is unchanged since before the requested time: it is exported too, or readers
        could not see the page."""
        if not self._query.from_s:
            return None
        found = ShownReader(self._archive).newest(visit.url, self._query.from_s - 1)
        if found is None or not self._query.fits(found):
            return None
        self.write_capture(found)
        return self._version

    def _write(self, member: bytes | memoryview) -> FilePlace:
        place = FilePlace(0, self.report.bytes, len(member))
        self._out.write(member)
        self.report.bytes += len(member)
        return place


def _position(capture: StoredCapture) -> _Position:
    return capture.id.key[:KEY_BYTES].hex(), capture.time_s, 0


def _visit_of(line: bytes) -> tuple[str, Visit]:
    position, time, status, url = line.decode("utf-8", "surrogateescape").split(" ", 3)
    return position, Visit(url=url, time_s=int(time), status=int(status))
