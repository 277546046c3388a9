"""What can be asked of an open archive from outside its process, as an order in and a report out?

The same orders are carried out by a command that opened the archive itself and by a peer that has it open: then
they come as JSON through `herodotus.door`. Reports are plain JSON; a capture's bytes travel beside its report.
"""

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import anyio.to_thread

from crawler.core.errors import MalformedUrlError
from crawler.core.urls import canonical
from herodotus.archive.exporting import ExportReport, export_warc
from herodotus.archive.importing import ImportReport, import_file
from herodotus.archive.reading import Version
from herodotus.archive.store import DiskStore
from herodotus.archive.streaming import Query
from herodotus.archive.wacz import export_wacz
from herodotus.core.archive_errors import ArchiveError
from herodotus.core.deposits import StoredCapture
from herodotus.core.warc import TIME_MAX_S, format_date

Say = Callable[[str], None]
"""Told how far a long order is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    files: tuple[str, ...]
    resume_at: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """`target` is a path; a stream such as stdout exists only in the process that has it."""

    target: str
    is_wacz: bool = False
    url_pattern: str | None = None
    from_s: int = 0
    to_s: int = TIME_MAX_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Get:
    url: str
    not_after_s: int = TIME_MAX_S
    is_raw: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verify:
    repair: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildIndex:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    pass


Order = Import | Export | Get | History | Verify | RebuildIndex | Statistics
ORDERS: dict[str, type[Order]] = {
    "import": Import,
    "export": Export,
    "get": Get,
    "history": History,
    "verify": Verify,
    "rebuild-index": RebuildIndex,
    "stats": Statistics,
}
NAMES = {kind: name for name, kind in ORDERS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    facts: Any
    """None where there is nothing of that kind."""
    content: bytes = b""


class Performer(Protocol):
    """Whoever carries out orders: the archive opened here, or a peer that has it open."""

    def __call__(self, order: Order, say: Say) -> Report: ...


class RefusedWhileRunningError(ArchiveError):
    def __init__(self, what: str) -> None:
        super().__init__(f"{what} needs the archive at rest: stop the peer first (`herodotus stop`)")


async def perform(store: DiskStore, order: Order, say: Say) -> Report:
    match order:
        case Import():
            return Report(
                facts=[await _import(store, Path(file), order.resume_at, say) for file in order.files]
            )
        case Export():
            report = await anyio.to_thread.run_sync(export_to, store, order)
            return Report(facts=asdict(report))
        case Get():
            return await _get(store, order)
        case History():
            versions = await _of_spellings(order.url, store.history)
            return Report(facts=[version_as_json(version) for version in versions or ()] or None)
        case Verify():
            found = await store.verify(repair=order.repair)
            return Report(facts={**asdict(found), "is_sound": found.is_sound})
        case RebuildIndex():
            await store.rebuild()
            return Report(facts={"captures": (await store.statistics()).captures})
        case Statistics():
            return Report(facts=asdict(await store.statistics()))


async def perform_in_peer(store: DiskStore, order: Order, say: Say) -> Report:
    """What would take the index away from the readers of a running peer is refused."""
    if isinstance(order, RebuildIndex):
        raise RefusedWhileRunningError("rebuild-index")
    if isinstance(order, Verify) and order.repair:
        raise RefusedWhileRunningError("verify --repair")
    return await perform(store, order, say)


async def _import(store: DiskStore, path: Path, start: int, say: Say) -> dict[str, Any]:
    # The file is read in threads (`importing`); opening it does not wait.
    with path.open("rb") as file:
        total = max(1, os.fstat(file.fileno()).st_size)

        def progress(report: ImportReport) -> None:
            say(f"{path}: {100 * report.offset // total} %")

        return {"file": str(path), **asdict(await import_file(store, file, start=start, progress=progress))}


def export_to(store: DiskStore, order: Export, out: BinaryIO | None = None) -> ExportReport:
    """Blocks. The target appears when it is whole; `out` is written instead where it is given."""
    query = Query(from_s=order.from_s, to_s=order.to_s + 1)
    if out is not None:
        return export_warc(store.archive, out, query=query, url_pattern=order.url_pattern)
    target = Path(order.target)
    if order.is_wacz:
        return export_wacz(store.archive, target, query=query, url_pattern=order.url_pattern)
    part = target.with_name(target.name + ".part")
    try:
        with part.open("wb") as file:
            report = export_warc(store.archive, file, query=query, url_pattern=order.url_pattern)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    return report


async def _get(store: DiskStore, order: Get) -> Report:
    async def newest(url: str) -> StoredCapture | None:
        return await store.newest(url, order.not_after_s)

    capture = await _of_spellings(order.url, newest)
    if capture is None:
        return Report(facts=None)
    content = capture.head + capture.body if order.is_raw else capture.body
    return Report(facts={"url": capture.url, "date": format_date(capture.time_s)}, content=content)


async def _of_spellings(url: str, find: Any) -> Any:
    """As it was written (imported files keep their spelling), else as the crawler would write it."""
    for spelling in spellings(url):
        found = await find(spelling)
        if found:
            return found
    return None


def spellings(url: str) -> tuple[str, ...]:
    """What a person wrote may be meant in two ways; without a scheme https is meant, and http after it."""
    tried = [url] if "://" in url else [f"https://{url}", f"http://{url}"]
    for text in tuple(tried):
        try:
            tried.append(canonical(text))
        except MalformedUrlError:
            continue
    return tuple(dict.fromkeys(tried))


def version_as_json(version: Version) -> dict[str, Any]:
    return {
        "url": version.url,
        "date": format_date(version.id.time_s),
        "digest": f"sha256:{version.id.digest.hex()}",
        "status": version.status,
        "mime": version.mime,
        "first_seen": format_date(version.first_seen_s),
        "last_seen": format_date(version.last_seen_s),
        "visits": version.visits,
    }
