"""Is the archive whole? `verify`."""

import sys

import click

from herodotus.core.orders import Verify
from herodotus.operate.cli.archive_access import archive_access
from herodotus.operate.cli.frame import CommandFrame, framed, main
from herodotus.operate.cli.printing import say


@main.command()
@click.option("--repair", is_flag=True, help="Rebuild the index if it does not match the files.")
@framed(json=True)
def verify(frame: CommandFrame, repair: bool) -> None:
    """Read every byte of the archive and check it against its digests and the index."""
    with archive_access(frame) as archive:
        found = archive.perform(Verify(repair=repair)).facts
    frame.show(found)
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
    if found["quarantined"]:
        say(f"damaged, in quarantine: {found['quarantined']} captures; they are asked for from other holders")
    if found["damaged"]:
        say(
            "Damaged records can only come from another copy: import them from a file, or wait for other holders."
        )
    if found["damaged"] or found["quarantined"] or not (found["is_sound"] or found["is_repaired"]):
        sys.exit(1)
