"""How do captures leave in one file? `export`."""

import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import click

from herodotus.core.orders import Export
from herodotus.operate.cli.archive_access import NOT_FOUND, archive_access
from herodotus.operate.cli.console import parse_moment, size
from herodotus.operate.cli.frame import CommandFrame, framed, main
from herodotus.operate.cli.printing import say


@main.command()
@click.option("--warc", type=click.Path(path_type=Path), metavar="OUT", help="Write a .warc.gz; - is stdout.")
@click.option("--wacz", type=click.Path(path_type=Path), metavar="OUT", help="Write a .wacz.")
@click.option(
    "--url", "url_pattern", metavar="PATTERN", help="Only URLs that match, such as https://example.org/*"
)
@click.option("--from", "from_", metavar="DATE", help="Captures of this date and later.")
@click.option("--to", metavar="DATE", help="Captures up to this date.")
@framed(json=True)
def export(
    frame: CommandFrame,
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
    is_to_stdout = warc == Path("-")
    with archive_access(frame, gives_away=True) as archive:
        if is_to_stdout and archive.is_running:
            raise click.UsageError(
                "a running peer writes files, not your stdout: name a file, or stop the peer"
            )
        report = _export_to_stdout(frame.home.path, order) if is_to_stdout else archive.perform(order).facts
    if not is_to_stdout:
        frame.show(report)
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
    import anyio
    from anyio import from_thread, to_thread

    from herodotus.operate.offline_archive import opened
    from herodotus.store import export_to

    async def main() -> dict[str, Any]:
        async with opened(home) as store:
            work = partial(
                export_to, store, order, sys.stdout.buffer, lambda _words: from_thread.check_cancelled()
            )
            return asdict(await to_thread.run_sync(work))

    return anyio.run(main)
