"""How does one capture come out, as it was received? `get`."""

import sys
from typing import BinaryIO

import click

from herodotus.core.orders import Get
from herodotus.operate.cli.archive_access import NOT_FOUND, archive_access
from herodotus.operate.cli.console import parse_moment
from herodotus.operate.cli.frame import CommandFrame, framed, main
from herodotus.operate.cli.printing import say


@main.command()
@click.option("--at", metavar="DATE", help="The newest capture up to this date.")
@click.option("--raw", is_flag=True, help="Include the response's head, as received.")
@click.option(
    "-o", "--output", type=click.File("wb"), default="-", help="Write to this file instead of stdout."
)
@click.argument("url")
@click.option("--peer", metavar="URL", help="Ask this peer instead of the home's archive.")
@framed()
def get(frame: CommandFrame, at: str | None, raw: bool, output: BinaryIO, url: str, peer: str | None) -> None:
    """Write the body of a capture to stdout."""
    order = Get(url=url, not_after_s=parse_moment(at, is_end=True), is_raw=raw)
    with archive_access(frame, peer=peer, gives_away=True) as archive:
        report = archive.perform(order)
    if report.facts is None:
        say(f"{url} is not in the archive" + (f" at {at} or before" if at else ""))
        sys.exit(NOT_FOUND)
    output.write(report.content)
