"""How does the archive get another disk? `add-slice`."""

from pathlib import Path

import click

from herodotus.operate.cli.archive_access import archive_access
from herodotus.operate.cli.frame import CommandFrame, framed, main
from herodotus.operate.cli.printing import say


@main.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@framed()
def add_slice(frame: CommandFrame, folder: Path) -> None:
    """Let the archive also use a folder on another disk.

    The folder must be empty. New segments are spread over all slices. If a slice is missing later, only its own
    captures are missing.

    \b
    Example:
      herodotus add-slice /mnt/disk2/herodotus
    """
    from herodotus.store import add_slice as added_slice

    with archive_access(frame) as access:
        if access.is_running:
            raise click.UsageError("stop the peer first: it has to open the slice")
        archive = frame.home.path / "archive"
        archive.mkdir(parents=True, exist_ok=True)
        say(f"{folder} is slice {added_slice(archive, folder)} of the archive")
