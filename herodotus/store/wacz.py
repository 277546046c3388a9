"""How does a part of the archive become a package that a player opens as it is?

A WACZ (specs.webrecorder.net/wacz/1.1.1) is a ZIP of a WARC, its index, a list of its pages, and the digests of
all three. The index is in compressed blocks with a list of their first lines ("ZipNum"), as py-wacz makes it: a
player fetches the blocks that it needs, however large the package is.
"""

import gzip
import hashlib
import html
import json
import re
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from crawler.core.capture import decoded
from herodotus.core.cdxj import format_line
from herodotus.core.warc import format_date
from herodotus.store.engine import Archive
from herodotus.store.external_sort import SortedLines
from herodotus.store.stored_records import StoredCapture
from herodotus.store.streams import Query
from herodotus.store.warc_export import Exported, ExportReport, export_warc

DATA_NAME = "data.warc.gz"
BLOCK_LINES = 1_024  # as py-wacz has it
TITLE_LOOK_BYTES = 64 * 1024
TITLE_CHARACTERS_MAX = 300
_PAGE_MIMES = ("text/html", "application/xhtml+xml")
_TITLE = re.compile(r"<title(?:\s[^>]*)?>([^<]*)</title", re.IGNORECASE)
_HEADER = re.compile(
    rb"^(content-encoding|content-type)[ \t]*:[ \t]*([^\r\n]*)", re.IGNORECASE | re.MULTILINE
)
_CHARSET = re.compile(r"charset=[\"']?([\w.:-]+)", re.IGNORECASE)
_DATE = (1980, 1, 1, 0, 0, 0)  # the same content gives the same file


def export_wacz(
    archive: Archive,
    target: Path,
    *,
    query: Query | None = None,
    url_pattern: str | None = None,
    title: str = "Herodotus export",
    progress: Callable[[ExportReport], None] = lambda report: None,
) -> ExportReport:
    """Its parts are written beside the target first, as their digests go into the package."""
    part = target.with_name(target.name + ".part")
    with (
        tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as folder,
        SortedLines(Path(folder)) as lines,
    ):
        parts = _Parts(Path(folder), lines)
        with parts.warc.open("wb") as out, parts.pages.open("wb") as pages:
            pages.write(_json_line({"format": "json-pages-1.0", "id": "pages", "title": "All pages"}))

            def note(exported: Exported) -> None:
                lines.add(_index_line(exported))
                if isinstance(exported.event, StoredCapture) and _is_page(exported.event):
                    pages.write(_json_line(_page(exported.event)))

            report = export_warc(
                archive,
                out,
                query=query,
                url_pattern=url_pattern,
                scratch=Path(folder),
                note=note,
                progress=progress,
            )
        if not report.captures:
            return report  # a package of nothing helps nobody
        parts.write_index()
        try:
            _pack(part, parts.resources(), title, format_date(int(archive.now())))
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
    return report


class _Parts:
    """The files that go into the package, in a folder of their own until then."""

    def __init__(self, folder: Path, lines: SortedLines) -> None:
        self._lines = lines
        self.warc, self.pages = folder / DATA_NAME, folder / "pages.jsonl"
        self._blocks, self._block_list = folder / "index.cdx.gz", folder / "index.idx"

    def write_index(self) -> None:
        lines = iter(self._lines)
        offset = 0
        with self._blocks.open("wb") as out, self._block_list.open("wb") as index:
            meta: dict[str, int | str] = {"format": "cdxj-gzip-1.0", "filename": self._blocks.name}
            index.write(b"!meta 0 " + _json_line(meta))
            while block := list(islice(lines, BLOCK_LINES)):
                member = gzip.compress(b"".join(line + b"\n" for line in block), mtime=0)
                out.write(member)
                digest = hashlib.sha256(member).hexdigest()
                place: dict[str, int | str] = {
                    "offset": offset,
                    "length": len(member),
                    "digest": f"sha256:{digest}",
                }
                index.write(b" ".join((*block[0].split(b" ", 2)[:2], _json_line(place))))
                offset += len(member)

    def resources(self) -> dict[str, Path]:
        """The players read the WARC and the blocks of the index by ranges: nothing is deflated."""
        return {
            f"archive/{self.warc.name}": self.warc,
            f"indexes/{self._blocks.name}": self._blocks,
            f"indexes/{self._block_list.name}": self._block_list,
            f"pages/{self.pages.name}": self.pages,
        }


def _index_line(exported: Exported) -> bytes:
    event = exported.event
    return format_line(
        url=event.url,
        time_s=event.time_s,
        mime=exported.mime,
        status=event.status if isinstance(event, StoredCapture) else 0,
        digest=exported.digest or "-",
        place=exported.place,
        file_name=DATA_NAME,
    ).encode()


def _is_page(capture: StoredCapture) -> bool:
    return capture.mime in _PAGE_MIMES and capture.status == 200


def _page(capture: StoredCapture) -> dict[str, str]:
    name = hashlib.sha256(b"%d " % capture.time_s + capture.id.key).hexdigest()[:16]
    title = title_of(capture) or capture.url
    return {"id": name, "url": capture.url, "ts": format_date(capture.time_s), "title": title}


def title_of(capture: StoredCapture) -> str:
    """The page's title, if it stands near its beginning; otherwise ""."""
    headers = {name.lower(): value.decode("latin-1") for name, value in _HEADER.findall(capture.head)}
    content = decoded(capture.body, headers.get(b"content-encoding", ""), TITLE_LOOK_BYTES).content
    charset = _CHARSET.search(headers.get(b"content-type", "")) or _CHARSET.search(
        content[:1_024].decode("latin-1")
    )
    try:
        text = content[:TITLE_LOOK_BYTES].decode(charset[1] if charset else "utf-8", "replace")
    except (LookupError, UnicodeError):
        text = content[:TITLE_LOOK_BYTES].decode("utf-8", "replace")
    found = _TITLE.search(text)
    return " ".join(html.unescape(found[1]).split())[:TITLE_CHARACTERS_MAX] if found else ""


def _json_line(value: Mapping[str, int | str]) -> bytes:
    return json.dumps(value).encode() + b"\n"


def _pack(target: Path, resources: dict[str, Path], title: str, created: str) -> None:
    package = json.dumps(
        {
            "profile": "data-package",
            "wacz_version": "1.1.1",
            "title": title,
            "software": "Herodotus",
            "created": created,
            "resources": [_resource(path, file) for path, file in resources.items()],
        },
        indent=2,
    ).encode()
    digest = {"path": "datapackage.json", "hash": f"sha256:{hashlib.sha256(package).hexdigest()}"}
    with zipfile.ZipFile(target, "w", allowZip64=True) as wacz:
        for path, file in resources.items():
            info = zipfile.ZipInfo(path, _DATE)
            # A size that is known makes the short header, from which alone ReplayWeb.page counts right; above 2 GiB
            # there is only the long one.
            info.file_size = file.stat().st_size
            with wacz.open(info, "w") as out, file.open("rb") as data:
                for piece in _pieces(data):
                    out.write(piece)
        wacz.writestr(zipfile.ZipInfo("datapackage.json", _DATE), package)
        wacz.writestr(zipfile.ZipInfo("datapackage-digest.json", _DATE), json.dumps(digest))


def _pieces(data: BinaryIO) -> Iterator[bytes]:
    while piece := data.read(1024 * 1024):
        yield piece


def _resource(path: str, file: Path) -> dict[str, str | int]:
    with file.open("rb") as data:
        digest = hashlib.file_digest(data, "sha256").hexdigest()
    return {"name": file.name, "path": path, "hash": f"sha256:{digest}", "bytes": file.stat().st_size}
