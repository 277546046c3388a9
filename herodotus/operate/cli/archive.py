"""What can an operator do with an archive from the command line? import, export, get, history, verify,
expunge, rebuild-index, stats.

Each is a click command on a home's folder, ready to be added to the command line's frame. It makes an order from its
arguments (`core.orders`) and prints the report. The caller chooses the performer; by default the archive of the home
is opened here. Data goes to stdout, messages to stderr; exit 0, 1 (failed or unsound) or 3 (not found).
"""

import sys
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import anyio
import anyio.from_thread
import anyio.to_thread
import click

from herodotus import machine
from herodotus.core.index_rows import DAY_S
from herodotus.core.orders import (
    ArchiveOrder,
    Export,
    Expunge,
    Get,
    History,
    Import,
    OrderReport,
    Performer,
    RebuildIndex,
    Say,
    Statistics,
    Verify,
)
from herodotus.operate.cli.console import end_progress, parse_moment, show_progress, size
from herodotus.operate.cli.printing import print_json, print_line, say
from herodotus.store.engine import Archive
from herodotus.store.performer import export_to, perform
from herodotus.store.settings import ArchiveSettings
from herodotus.store.slices import add_slice, archive_at
from herodotus.store.store import DiskStore, open_store
from herodotus.store.upkeep import tidy_before_leaving

NOT_FOUND = 3


def archive_of(home: Path, settings: ArchiveSettings | None = None) -> Archive:
    return archive_at(home, machine.unix_seconds, settings)


def opened(home: Path, settings: ArchiveSettings | None = None) -> AbstractAsyncContextManager[DiskStore]:
    return open_store(archive_of(home, settings), machine.ThreadWorkers())


def performer_of(home: Path, settings: ArchiveSettings | None = None) -> Performer:
    """The archive of the home, opened for each order, performs it."""

    def work(order: ArchiveOrder, say: Say) -> OrderReport:
        async def main() -> OrderReport:
            async with opened(home, settings) as store:
                report = await perform(store, order, say, home / "state")
                if isinstance(order, Import):
                    await tidy_before_leaving(store)
                return report

        return anyio.run(main)

    return work


def perform_order(home: Path, by: Performer | None, order: ArchiveOrder) -> OrderReport:
    try:
        return (by or performer_of(home))(order, show_progress)
    finally:
        end_progress()


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
@click.option(
    "--resume-at",
    type=click.IntRange(min=0),
    metavar="BYTE",
    help="Continue at this byte; 0 starts again. By default an interrupted import continues where it was.",
)
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, dir_okay=False)
)
def import_command(
    home: Path, is_json: bool, resume_at: int | None, files: tuple[Path, ...], by: Performer | None = None
) -> None:
    """Import the captures of WARC, ARC and WACZ files.

    WARC and ARC files may be plain, gzip or zstd. Broken records are skipped and reported with their offset; the exit
    code is then 1. Importing a file twice stores nothing twice. Repeat the same command to continue an interrupted
    import.

    \b
    Examples:
      herodotus import crawl-2019.warc.gz old.arc.gz
      herodotus import exhibition.wacz
    """
    paths = tuple(str(path.absolute()) for path in files)
    reports = perform_order(home, by, Import(files=paths, resume_at=resume_at)).facts
    reports = [{**report, "file": str(path)} for path, report in zip(files, reports, strict=True)]
    if is_json:
        print_json(reports)
    for report in reports:
        for problem in report["problems"]:
            say(f"{report['file']} at byte {problem['offset']}: {problem['reason']}")
        say(f"{report['file']}: {_counts(report)}")
    if any(report["skipped"] or not report["records"] for report in reports):
        sys.exit(1)


def _counts(report: dict[str, Any]) -> str:
    if not report["records"]:
        return "it holds no WARC or ARC record"
    parts = [f"{report['stored'] + report['revisits']} captures stored"]
    for name, words in (
        ("known", "known already"),
        ("deleted", "deleted here, so not taken back"),
        ("visits", "unchanged visits"),
        ("skipped", "records skipped"),
    ):
        if report[name]:
            parts.append(f"{report[name]} {words}")
    return ", ".join(parts)


@click.command("export")
@home_option
@json_option
@click.option("--warc", type=click.Path(path_type=Path), metavar="OUT", help="Write a .warc.gz; - is stdout.")
@click.option("--wacz", type=click.Path(path_type=Path), metavar="OUT", help="Write a .wacz.")
@click.option(
    "--url", "url_pattern", metavar="PATTERN", help="Only URLs that match, such as https://example.org/*"
)
@click.option("--from", "from_", metavar="DATE", help="Captures of this date and later.")
@click.option("--to", metavar="DATE", help="Captures up to this date.")
def export_command(
    home: Path,
    is_json: bool,
    warc: Path | None,
    wacz: Path | None,
    url_pattern: str | None,
    from_: str | None,
    to: str | None,
    by: Performer | None = None,
) -> None:
    """Write captures into one file that needs nothing else.

    \b
    Example:
      herodotus export --wacz example.wacz --url 'https://example.org/*' --from 2024
    """
    target = warc or wacz
    if target is None or (warc is not None and wacz is not None):
        raise click.UsageError("name a target: either --warc OUT or --wacz OUT")
    from_s, to_s = parse_moment(from_), parse_moment(to, is_end=True)
    if from_s > to_s:
        raise click.UsageError(f"--from {from_} is after --to {to}")
    order = Export(
        target=str(target.absolute()),
        is_wacz=wacz is not None,
        url_pattern=url_pattern,
        from_s=from_s,
        to_s=to_s,
    )
    if warc == Path("-"):
        if by is not None:
            raise click.UsageError(
                "a running peer writes files, not your stdout: name a file, or stop the peer"
            )
        report = _export_to_stdout(home, order)
    else:
        report = perform_order(home, by, order).facts
        if is_json:
            print_json(report)
    if not report["captures"] and not report["skipped"]:
        say("no capture matches: no file was written")
        sys.exit(NOT_FOUND)
    damaged = (
        f", {report['skipped']} damaged and left out: see `herodotus verify`" if report["skipped"] else ""
    )
    say(
        f"{target}: {report['captures']} captures, {report['visits']} unchanged visits,"
        f" {size(report['bytes'])}{damaged}"
    )
    if report["skipped"]:
        sys.exit(1)


def _export_to_stdout(home: Path, order: Export) -> dict[str, Any]:
    async def main() -> dict[str, Any]:
        async with opened(home) as store:
            work = partial(export_to, store, order, sys.stdout.buffer, _until_cancelled)
            return asdict(await anyio.to_thread.run_sync(work))

    return anyio.run(main)


def _until_cancelled(_: str) -> None:
    anyio.from_thread.check_cancelled()


@click.command("get")
@home_option
@click.option("--at", metavar="DATE", help="The newest capture up to this date.")
@click.option("--raw", is_flag=True, help="Include the response's head, as received.")
@click.option(
    "-o", "--output", type=click.File("wb"), default="-", help="Write to this file instead of stdout."
)
@click.argument("url")
def get_command(
    home: Path, at: str | None, raw: bool, output: BinaryIO, url: str, by: Performer | None = None
) -> None:
    """Write the body of a capture to stdout."""
    order = Get(url=url, not_after_s=parse_moment(at, is_end=True), is_raw=raw)
    report = perform_order(home, by, order)
    if report.facts is None:
        say(f"{url} is not in the archive" + (f" at {at} or before" if at else ""))
        sys.exit(NOT_FOUND)
    output.write(report.content)


@click.command("history")
@home_option
@json_option
@click.argument("url")
def history_command(home: Path, is_json: bool, url: str, by: Performer | None = None) -> None:
    """List the captures of a URL, oldest first."""
    versions = perform_order(home, by, History(url=url)).facts
    if not versions:
        say(f"{url} is not in the archive")
        sys.exit(NOT_FOUND)
    if is_json:
        print_json(versions)
        return
    for version in versions:
        visits, last_seen = version.get("visits"), version.get("last_seen")
        unchanged = f"  unchanged {visits}x until {last_seen}" if visits else ""
        line = f"{version['date']}  {version['status'] or '-'}  {version['mime']}{unchanged}"
        print_line(line)


@click.command("verify")
@home_option
@json_option
@click.option("--repair", is_flag=True, help="Rebuild the index if it does not match the files.")
def verify_command(home: Path, is_json: bool, repair: bool, by: Performer | None = None) -> None:
    """Read every byte of the archive and check it against its digests and the index."""
    found = perform_order(home, by, Verify(repair=repair)).facts
    if is_json:
        print_json(found)
    for damage in found["damage"]:
        say(f"{damage['path']} at byte {damage['offset']}: {damage['reason']}")
    for name in found["foreign"]:
        say(f"{name} is not an archive file: left alone")
    say(
        f"{found['files']} files, {found['records']} records, {found['bytes']} bytes:"
        f" {found['damaged']} damaged, {found['missing']} missing, {found['unknown']} not indexed"
        + (", index rebuilt" if found["is_repaired"] else "")
    )
    if found["orphans"]:
        say(f"{found['orphans']} of them are revisits of damaged or missing originals")
    if found["damaged"]:
        say(
            "Damaged records can only come from another copy: import them from a file, or wait for other holders."
        )
    if found["damaged"] or not (found["is_sound"] or found["is_repaired"]):
        sys.exit(1)


@click.command("expunge")
@home_option
@json_option
@click.option(
    "--older-than",
    "days",
    type=click.IntRange(min=0),
    metavar="DAYS",
    help="Versions older than so many days.",
)
@click.option("--before", metavar="DATE", help="Versions before this date.")
@click.option("--dry-run", is_flag=True, help="Only count what would be deleted.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def expunge_command(
    home: Path,
    is_json: bool,
    days: int | None,
    before: str | None,
    dry_run: bool,
    yes: bool,
    by: Performer | None = None,
) -> None:
    """Delete old versions that newer ones follow, for good.

    The newest version of each URL stays, however old it is. This peer does not accept deleted captures again. Their
    bytes leave the disk when their segments are rewritten.

    \b
    Examples:
      herodotus expunge --older-than 3650 --dry-run
      herodotus expunge --before 2015
    """
    if (days is None) == (before is None):
        raise click.UsageError("name an age: either --older-than DAYS or --before DATE")
    before_s = parse_moment(before) if days is None else max(0, int(machine.unix_seconds()) - days * DAY_S)
    if not (dry_run or yes):
        click.confirm("Delete versions that newer ones follow, for good?", abort=True, err=True)
    found = perform_order(home, by, Expunge(before_s=before_s, is_rehearsal=dry_run)).facts
    if is_json:
        print_json(found)
    elif dry_run:
        for version in found["first"]:
            print_line(f"{version['date']}  {version['url']}")
    say(f"{found['captures']} captures {'would be' if dry_run else 'were'} deleted")


@click.command("rebuild-index")
@home_option
def rebuild_command(home: Path, by: Performer | None = None) -> None:
    """Rebuild the index from the WARC files alone."""
    say(f"{perform_order(home, by, RebuildIndex()).facts['captures']} captures indexed")


@click.command("add-slice")
@home_option
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
def add_slice_command(home: Path, folder: Path, by: Performer | None = None) -> None:
    """Let the archive also use a folder on another disk.

    The folder must be empty. New segments are spread over all slices. If a slice is missing later, only its own
    captures are missing.

    \b
    Example:
      herodotus add-slice /mnt/disk2/herodotus
    """
    if by is not None:
        raise click.UsageError("stop the peer first: it has to open the slice")
    archive = home / "archive"
    archive.mkdir(parents=True, exist_ok=True)
    say(f"{folder} is slice {add_slice(archive, folder)} of the archive")


@click.command("stats")
@home_option
@json_option
def stats_command(home: Path, is_json: bool, by: Performer | None = None) -> None:
    """Show how much the archive holds."""
    statistics = perform_order(home, by, Statistics()).facts
    if is_json:
        print_json(statistics)
    else:
        print_line(f"captures: {statistics['captures']}")
        print_line(f"WARC files: {statistics['files']}, {size(statistics['bytes'])}")
        print_line(f"not sealed yet: {statistics['logs']} of them")
        print_line(f"index: {size(statistics['index_bytes'])}")
        if statistics["recovered"] or statistics["truncated_bytes"]:
            cut = statistics["truncated_bytes"]
            print_line(
                f"after a crash: {statistics['recovered']} captures indexed again, {cut} bytes cut off"
            )
        if statistics["damaged"]:
            print_line(f"damaged records met: {statistics['damaged']}")
        if statistics["refusal"]:
            print_line(f"nothing can be stored: {statistics['refusal']}")


COMMANDS = (
    import_command,
    export_command,
    get_command,
    history_command,
    verify_command,
    expunge_command,
    rebuild_command,
    add_slice_command,
    stats_command,
)
