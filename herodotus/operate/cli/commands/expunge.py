"""How do old versions go? `expunge`."""

import click

from herodotus.core.orders import Expunge
from herodotus.home.clock import unix_seconds
from herodotus.operate.cli.archive_access import archive_access
from herodotus.operate.cli.console import parse_moment
from herodotus.operate.cli.frame import CommandFrame, framed, main
from herodotus.operate.cli.printing import say


@main.command()
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
@framed(json=True)
def expunge(frame: CommandFrame, days: int | None, before: str | None, dry_run: bool, yes: bool) -> None:
    """Delete old versions that newer ones follow, for good.

    The newest version of each URL stays, however old it is. This peer does not accept deleted captures again. Their
    bytes leave the disk when their segments are rewritten.

    \b
    Examples:
      herodotus expunge --older-than 3650 --dry-run
      herodotus expunge --before 2015
    """
    from herodotus.core.index_rows import DAY_S  # with keys on the ring, and so the ring

    if (days is None) == (before is None):
        raise click.UsageError("name an age: either --older-than DAYS or --before DATE")
    before_s = parse_moment(before) if days is None else max(0, int(unix_seconds()) - days * DAY_S)
    with archive_access(frame) as archive:
        if not (dry_run or yes):
            click.confirm("Delete versions that newer ones follow, for good?", abort=True, err=True)
        found = archive.perform(Expunge(before_s=before_s, is_rehearsal=dry_run)).facts
    first = found["first"] if dry_run else ()
    frame.show(found, (f"{version['date']}  {version['url']}" for version in first))
    say(f"{found['captures']} captures {'would be' if dry_run else 'were'} deleted")
