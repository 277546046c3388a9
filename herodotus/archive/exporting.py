"""How does a part of the archive leave as one file that needs nothing else?

A WARC whose revisits all refer to captures in it: where an original does not travel along, the body does.
Unchanged visits become standard revisit records with an empty block, which every replay tool shows right. A
WACZ is that WARC with an index and a list of pages, in a ZIP (specs.webrecorder.net/wacz/1.1.1).
"""

import hashlib
import json
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import BinaryIO

from herodotus.archive.deleting import deposit_of_stored
from herodotus.archive.engine import Archive
from herodotus.archive.intake import compress_bundle
from herodotus.archive.log import format_warcinfo
from herodotus.archive.members import gzip_member, scan_members
from herodotus.archive.reading import original_of
from herodotus.archive.streaming import Query, Stream
from herodotus.core.archive_errors import MalformedRecordError
from herodotus.core.cdxj import format_line
from herodotus.core.deposits import Original, StoredCapture, format_unchanged_visit
from herodotus.core.entries import AUXILIARY, Place, after, auxiliary_place
from herodotus.core.layout import FileName
from herodotus.core.notes import VISITS_TYPE, Visit, parse_visits
from herodotus.core.warc import format_date, split_record

ORIGINALS_MAX = 1_000_000  # bodies that later captures may refer to; beyond, a body may be written twice
VISITS_MAX = 5_000_000  # held in memory while exporting
DATA_NAME = "data.warc.gz"
_PAGE_MIMES = ("text/html", "application/xhtml+xml")


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
    capture: StoredCapture
    place: Place
    is_revisit: bool


def export_warc(
    archive: Archive,
    out: BinaryIO,
    *,
    query: Query | None = None,
    url_pattern: str | None = None,
    note: Callable[[Exported], None] = lambda exported: None,
) -> ExportReport:
    """`url_pattern` is a shell pattern over whole URLs, such as `https://example.org/*`."""
    chosen = query or Query()
    report = ExportReport()
    visits = _visits_by_url(archive, chosen, url_pattern)
    originals: OrderedDict[bytes, Original] = OrderedDict()
    info = format_warcinfo(FileName(number=0), int(archive.now()), archive.settings.software)
    report.bytes += out.write(gzip_member(info))
    stream = Stream(archive, chosen, is_whole=True)
    previous: StoredCapture | None = None
    for capture in _followed_by_none(iter(stream)):
        if previous is not None and (capture is None or capture.id.key != previous.id.key):
            _write_visits(out, previous, visits.pop(previous.url, []), originals, report)
            previous = None
        if capture is None:
            break
        if url_pattern is not None and not fnmatchcase(capture.url, url_pattern):
            continue
        if previous is not None:
            due = [visit for visit in visits.get(capture.url, []) if visit.time_s < capture.time_s]
            visits[capture.url] = visits.get(capture.url, [])[len(due) :]
            _write_visits(out, previous, due, originals, report)
        _write_capture(out, capture, originals, report, note)
        previous = capture
    report.skipped = stream.skipped
    return report


def _followed_by_none(captures: Iterator[StoredCapture]) -> Iterator[StoredCapture | None]:
    yield from captures
    yield None


def _write_capture(
    out: BinaryIO,
    capture: StoredCapture,
    originals: OrderedDict[bytes, Original],
    report: ExportReport,
    note: Callable[[Exported], None],
) -> None:
    original = originals.get(capture.id.digest)
    deposit = deposit_of_stored(capture)
    members = compress_bundle(deposit, original)
    note(
        Exported(
            capture=capture, place=Place(0, report.bytes, len(members[0])), is_revisit=original is not None
        )
    )
    for member in members:
        report.bytes += out.write(member)
    report.captures += 1
    report.revisits += original is not None
    if original is None and capture.body:
        kept = original_of(capture.record, capture.id, len(capture.body))
        originals[capture.id.digest] = Original(
            url=kept.url, time_s=kept.time_s, digest=kept.digest, size=kept.size, record_id=deposit.record_id
        )
        if len(originals) > ORIGINALS_MAX:
            originals.popitem(last=False)


def _write_visits(
    out: BinaryIO,
    version: StoredCapture,
    visits: list[Visit],
    originals: OrderedDict[bytes, Original],
    report: ExportReport,
) -> None:
    original = originals.get(version.id.digest) or original_of(version.record, version.id, len(version.body))
    for visit in visits:
        if visit.time_s >= version.time_s:
            record = format_unchanged_visit(
                visit.url, visit.time_s, original, version.record.get("WARC-Payload-Digest")
            )
            report.bytes += out.write(gzip_member(record))
            report.visits += 1


def _visits_by_url(archive: Archive, query: Query, url_pattern: str | None) -> dict[str, list[Visit]]:
    found: dict[str, set[Visit]] = {}
    count = 0
    for visit in all_visits(archive):
        is_wanted = query.from_s <= visit.time_s < query.to_s
        if is_wanted and (url_pattern is None or fnmatchcase(visit.url, url_pattern)):
            found.setdefault(visit.url, set()).add(visit)
            count += 1
            if count >= VISITS_MAX:
                break
    return {url: sorted(visits, key=lambda visit: visit.time_s) for url, visits in found.items()}


def all_visits(archive: Archive) -> Iterator[Visit]:
    """Every unchanged visit that was noted, file by file."""
    for key, _ in archive.index.scan(AUXILIARY, after(AUXILIARY)):
        file, offset = auxiliary_place(key)
        try:
            size = archive.files.size(file)
            scan = scan_members(partial(archive.files.read_at, file), offset, size)
            record, _ = split_record(next(scan)[2])
            if record.get("Content-Type") == VISITS_TYPE:
                yield from parse_visits(record)
        except (MalformedRecordError, FileNotFoundError, KeyError, StopIteration) as error:
            archive.note_damage(file, offset, str(error))


def export_wacz(
    archive: Archive,
    target: Path,
    *,
    query: Query | None = None,
    url_pattern: str | None = None,
    title: str = "Herodotus export",
) -> ExportReport:
    """The WARC is written beside the target first, as its digest goes into the package."""
    warc = target.with_name(target.name + ".warc.part")
    part = target.with_name(target.name + ".part")
    lines: list[str] = []
    pages: list[dict[str, str]] = []

    def note(exported: Exported) -> None:
        capture = exported.capture
        mime = "warc/revisit" if exported.is_revisit else capture.mime
        digest = capture.record.get("WARC-Payload-Digest") or "-"
        lines.append(
            format_line(
                url=capture.url,
                time_s=capture.time_s,
                mime=mime,
                status=capture.status,
                digest=digest,
                place=exported.place,
                file_name=DATA_NAME,
            )
        )
        if capture.mime in _PAGE_MIMES and capture.status == 200:
            pages.append({"url": capture.url, "ts": format_date(capture.time_s), "title": capture.url})

    try:
        with warc.open("wb") as out:
            report = export_warc(archive, out, query=query, url_pattern=url_pattern, note=note)
        _pack(part, warc, sorted(lines), pages, title, format_date(int(archive.now())))
        part.replace(target)
    finally:
        warc.unlink(missing_ok=True)
        part.unlink(missing_ok=True)
    return report


def _pack(
    part: Path, warc: Path, lines: list[str], pages: list[dict[str, str]], title: str, created: str
) -> None:
    page_lines = [{"format": "json-pages-1.0", "id": "pages", "title": "All pages"}, *pages]
    small = {
        "indexes/index.cdxj": "".join(f"{line}\n" for line in lines).encode(),
        "pages/pages.jsonl": "".join(f"{json.dumps(page)}\n" for page in page_lines).encode(),
    }
    with warc.open("rb") as data:
        digest = hashlib.file_digest(data, "sha256").hexdigest()
    resources = [_resource(f"archive/{DATA_NAME}", digest, warc.stat().st_size)]
    resources += [
        _resource(path, hashlib.sha256(data).hexdigest(), len(data)) for path, data in small.items()
    ]
    package = json.dumps(
        {
            "profile": "data-package",
            "wacz_version": "1.1.1",
            "title": title,
            "software": "Herodotus",
            "created": created,
            "resources": resources,
        },
        indent=2,
    ).encode()
    summary = json.dumps(
        {"path": "datapackage.json", "hash": f"sha256:{hashlib.sha256(package).hexdigest()}"}
    ).encode()
    date = (1980, 1, 1, 0, 0, 0)  # the same content gives the same file
    with zipfile.ZipFile(part, "w", allowZip64=True) as wacz:
        # Stored, not deflated: players read the WARC by ranges.
        info = zipfile.ZipInfo(f"archive/{DATA_NAME}", date)
        with wacz.open(info, "w", force_zip64=True) as out, warc.open("rb") as data:
            while piece := data.read(1024 * 1024):
                out.write(piece)
        for path, content in (
            *small.items(),
            ("datapackage.json", package),
            ("datapackage-digest.json", summary),
        ):
            wacz.writestr(zipfile.ZipInfo(path, date), content)


def _resource(path: str, digest: str, size: int) -> dict[str, str | int]:
    return {"name": path.rpartition("/")[2], "path": path, "hash": f"sha256:{digest}", "bytes": size}
