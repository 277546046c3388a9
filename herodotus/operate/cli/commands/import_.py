"""How do captures come in from files? `import`."""

import sys
from pathlib import Path
from typing import Any

import click

from herodotus.core.orders import Import
from herodotus.operate.cli.archive_access import archive_access
from herodotus.operate.cli.frame import CommandFrame, framed, main
from herodotus.operate.cli.printing import say


@main.command("import")
@click.option(
    "--resume-at",
    type=click.IntRange(min=0),
    metavar="BYTE",
    help="Continue at this byte; 0 starts again. By default an interrupted import continues where it was.",
)
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, dir_okay=False)
)
@framed(json=True)
def import_(frame: CommandFrame, resume_at: int | None, files: tuple[Path, ...]) -> None:
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
    with archive_access(frame, stores=True) as archive:
        reports = archive.perform(Import(files=paths, resume_at=resume_at)).facts
    reports = [{**report, "file": str(path)} for path, report in zip(files, reports, strict=True)]
    frame.show(reports)
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
