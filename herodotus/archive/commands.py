"""What can an operator do with an archive from the command line? import, export, get, history, verify,
rebuild-index, stats.

Each is a click command on a home's folder, ready to be added to the command line's frame, and needs no
running peer. Data goes to stdout, talk to stderr; exit 0, 1 (failed or unsound) or 3 (not found).
"""

import json
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import anyio
import click

from herodotus import clock
from herodotus.archive.disk import OsDisk
from herodotus.archive.engine import Archive, ArchiveSettings
from herodotus.archive.exporting import export_warc
from herodotus.archive.files import Files
from herodotus.archive.importing import ImportReport, import_file
from herodotus.archive.reading import Version
from herodotus.archive.rocks import RocksIndex
from herodotus.archive.store import DiskStore, open_store
from herodotus.archive.streaming import Query
from herodotus.archive.wacz import export_wacz
from herodotus.core.archive_errors import MalformedRecordError
from herodotus.core.warc import TIME_MAX_S, format_date, parse_digits

T = TypeVar("T")
NOT_FOUND = 3


def archive_of(home: Path, settings: ArchiveSettings | None = None) -> Archive:
    """The archive of a home: WARC files in `archive/`, what is derived in `index/`. Not open yet."""
    folder = home / "archive"
    folder.mkdir(parents=True, exist_ok=True)
    disk = OsDisk(folder)
    return Archive(
        Files([disk]),
        RocksIndex(home / "index"),
        now=clock.unix_seconds,
        settings=settings,
        free_bytes=disk.free_bytes,
    )


def opened(home: Path) -> AbstractAsyncContextManager[DiskStore]:
    return open_store(archive_of(home))


def parse_moment(text: str | None, *, is_end: bool = False) -> int:
    """14 digits or the first of them; what is missing is the earliest, or for an end the latest."""
    if text is None:
        return TIME_MAX_S if is_end else 0
    digits = "".join(c for c in text if c.isdigit())
    if not 4 <= len(digits) <= 14 or len(digits) % 2:
        raise click.BadParameter(f"{text!r} is no date: YYYY, YYYYMM, … or YYYYMMDDhhmmss")
    filler = "99991231235959" if is_end else "19700101000000"
    try:
        if is_end and len(digits) == 6:
            return _end_of_month(digits)
        return parse_digits(digits + filler[len(digits) :])
    except MalformedRecordError as error:
        raise click.BadParameter(error.reason) from error


def _end_of_month(digits: str) -> int:
    year, month = int(digits[:4]), int(digits[4:])
    following = f"{year + month // 12:04}{month % 12 + 1:02}"
    return parse_digits(f"{following}01000000") - 1


def _run(home: Path, work: Callable[[DiskStore], Awaitable[T]]) -> T:
    async def main() -> T:
        async with opened(home) as store:
            return await work(store)

    return anyio.run(main)


def _say(words: str) -> None:
    click.echo(words, err=True)


def _print_json(value: Any) -> None:
    click.echo(json.dumps(value, ensure_ascii=False))


home_option = click.option(
    "--home",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="HERODOTUS_HOME",
    required=True,
    help="Folder of the peer.",
)
json_option = click.option("--json", "is_json", is_flag=True, help="One JSON document on stdout.")


@click.command("import")
@home_option
@json_option
@click.option("--resume-at", default=0, metavar="BYTE", help="Go on at an offset that an import reported.")
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, dir_okay=False)
)
def import_command(home: Path, is_json: bool, resume_at: int, files: tuple[Path, ...]) -> None:
    """Take in the captures of WARC and ARC files (plain, gzip or zstd).

    What is broken is reported with its offset and skipped. Importing a file again stores nothing twice.

    \b
    Example:
      herodotus import crawl-2019.warc.gz old.arc.gz
    """
    reports = _run(home, partial(_import_all, files=files, start=resume_at))
    if is_json:
        _print_json(
            [{"file": str(path), **asdict(report)} for path, report in zip(files, reports, strict=True)]
        )
    for path, report in zip(files, reports, strict=True):
        for problem in report.problems:
            _say(f"{path} at byte {problem.offset}: {problem.reason}")
        _say(
            f"{path}: {report.stored + report.revisits} captures stored, {report.known} known already,"
            f" {report.visits} unchanged visits, {report.skipped} records skipped"
        )


async def _import_all(store: DiskStore, files: tuple[Path, ...], start: int) -> list[ImportReport]:
    reports = []
    for path in files:
        # The file is read in threads (`importing`); opening it does not wait.
        with path.open("rb") as file:
            total = max(1, path.stat().st_size)

            def progress(report: ImportReport, path: Path = path, total: int = total) -> None:
                if sys.stderr.isatty():
                    click.echo(f"\r{path}: {100 * report.offset // total} %", err=True, nl=False)

            reports.append(await import_file(store, file, start=start, progress=progress))
    return reports


@click.command("export")
@home_option
@json_option
@click.option("--warc", type=click.Path(path_type=Path), metavar="OUT", help="Write a .warc.gz; - is stdout.")
@click.option("--wacz", type=click.Path(path_type=Path), metavar="OUT", help="Write a .wacz.")
@click.option("--url", "url_pattern", metavar="PATTERN", help="Only URLs like this, as https://example.org/*")
@click.option("--from", "from_", metavar="DATE", help="Not older than this.")
@click.option("--to", metavar="DATE", help="Not newer than this.")
def export_command(
    home: Path,
    is_json: bool,
    warc: Path | None,
    wacz: Path | None,
    url_pattern: str | None,
    from_: str | None,
    to: str | None,
) -> None:
    """Write captures into one file that needs nothing else.

    \b
    Example:
      herodotus export --wacz example.wacz --url 'https://example.org/*' --from 2024
    """
    target = warc or wacz
    if target is None or (warc is not None and wacz is not None):
        raise click.UsageError("say where to: either --warc OUT or --wacz OUT")
    query = Query(from_s=parse_moment(from_), to_s=parse_moment(to, is_end=True) + 1)

    async def work(store: DiskStore) -> Any:
        def write() -> Any:
            if wacz is not None:
                return export_wacz(store.archive, wacz, query=query, url_pattern=url_pattern)
            if target == Path("-"):
                return export_warc(store.archive, sys.stdout.buffer, query=query, url_pattern=url_pattern)
            return _export_to(store.archive, target, query, url_pattern)

        return await anyio.to_thread.run_sync(write)

    report = _run(home, work)
    if is_json and target != Path("-"):
        _print_json(asdict(report))
    _say(f"{target}: {report.captures} captures, {report.visits} unchanged visits, {report.skipped} damaged")
    if report.skipped:
        sys.exit(1)


def _export_to(archive: Archive, target: Path, query: Query, url_pattern: str | None) -> Any:
    part = target.with_name(target.name + ".part")
    try:
        with part.open("wb") as out:
            report = export_warc(archive, out, query=query, url_pattern=url_pattern)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    return report


@click.command("get")
@home_option
@click.option("--at", metavar="DATE", help="The newest capture not newer than this.")
@click.option("--raw", is_flag=True, help="With the response's head, as received.")
@click.option("-o", "--output", type=click.File("wb"), default="-", help="A file instead of stdout.")
@click.argument("url")
def get_command(home: Path, at: str | None, raw: bool, output: BinaryIO, url: str) -> None:
    """Write the body of a capture to stdout."""
    capture = _run(home, lambda store: store.newest(url, parse_moment(at, is_end=True)))
    if capture is None:
        _say(f"{url} is not in the archive" + (f" at {at} or before" if at else ""))
        sys.exit(NOT_FOUND)
    if raw:
        output.write(capture.head)
    output.write(capture.body)


@click.command("history")
@home_option
@json_option
@click.argument("url")
def history_command(home: Path, is_json: bool, url: str) -> None:
    """List the captures of a URL, oldest first."""
    versions = _run(home, lambda store: store.history(url))
    if not versions:
        _say(f"{url} is not in the archive")
        sys.exit(NOT_FOUND)
    if is_json:
        _print_json([version_as_json(version) for version in versions])
        return
    for version in versions:
        unchanged = (
            f"  unchanged {version.visits}x until {format_date(version.last_seen_s)}"
            if version.visits
            else ""
        )
        click.echo(f"{format_date(version.id.time_s)}  {version.status or '-'}  {version.mime}{unchanged}")


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


@click.command("verify")
@home_option
@json_option
@click.option("--repair", is_flag=True, help="Make the index anew when it does not fit the files.")
def verify_command(home: Path, is_json: bool, repair: bool) -> None:
    """Read every byte of the archive and compare it with its digests and with the index."""
    found = _run(home, lambda store: store.verify(repair=repair))
    if is_json:
        _print_json({**asdict(found), "is_sound": found.is_sound})
    for damage in found.damage:
        _say(f"{damage.path} at byte {damage.offset}: {damage.reason}")
    for name in found.foreign:
        _say(f"{name} is none of ours: left alone")
    _say(
        f"{found.files} files, {found.records} records, {found.bytes} bytes: {len(found.damage)} damaged,"
        f" {found.missing} missing, {found.unknown} not indexed"
        + (", index made anew" if found.is_repaired else "")
    )
    if found.damage or not (found.is_sound or found.is_repaired):
        sys.exit(1)


@click.command("rebuild-index")
@home_option
def rebuild_command(home: Path) -> None:
    """Make the index anew from the WARC files alone."""

    async def work(store: DiskStore) -> int:
        await store.rebuild()
        return (await store.statistics()).captures

    _say(f"{_run(home, work)} captures indexed")


@click.command("stats")
@home_option
@json_option
def stats_command(home: Path, is_json: bool) -> None:
    """How much the archive holds."""
    statistics = asdict(_run(home, lambda store: store.statistics()))
    if is_json:
        _print_json(statistics)
    else:
        for name, value in statistics.items():
            click.echo(f"{name.replace('_', ' ')}: {value}")


COMMANDS = (
    import_command,
    export_command,
    get_command,
    history_command,
    verify_command,
    rebuild_command,
    stats_command,
)
