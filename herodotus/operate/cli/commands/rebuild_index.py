"""How does a lost index come back? `rebuild-index`."""

from herodotus.core.orders import RebuildIndex
from herodotus.operate.cli.archive_access import archive_access
from herodotus.operate.cli.frame import CommandFrame, framed, main
from herodotus.operate.cli.printing import say


@main.command()
@framed()
def rebuild_index(frame: CommandFrame) -> None:
    """Rebuild the index from the WARC files alone."""
    with archive_access(frame) as archive:
        say(f"{archive.perform(RebuildIndex()).facts['captures']} captures indexed")
