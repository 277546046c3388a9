"""Is the archive whole? `verify`."""

import sys

import click

from herodotus.core.orders import Verify
from herodotus.operate.cli.archive_access import archive_access
from herodotus.operate.cli.frame import CommandFrame, framed, main
from herodotus.operate.cli.printing import say


@main.command()
@click.option("--repair", is_flag=True, help="Rebuild the index if it does not match the files.")
@click.option(
    "--give-up", is_flag=True, help="Wait no longer for captures that went with files and did not come back."
)
@framed(json=True)
def verify(frame: CommandFrame, repair: bool, give_up: bool) -> None:
    """Read every byte of the archive and check it against its digests, the index and the manifest."""
    with archive_access(frame) as archive:
        found = archive.perform(Verify(repair=repair, gives_up=give_up)).facts
    frame.show(found)
    for loss in found["losses"]:
        left = f"has {loss['left']} of its {loss['size']} bytes" if loss["left"] else "is gone"
        waiting = loss["named"] + loss["unnamed"]
        say(f"{loss['path']} {left}: {waiting} of its {loss['captures']} lost captures are not back")
    for name in found["lists"]:
        say(f"{name} was gone or changed: it is made again")
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
    if found["lost"]:
        say(
            "Other holders send lost captures again to a running peer. If they do not come, put the file back from a"
            " backup, or give them up with `--give-up`."
        )
    if (
        found["damaged"]
        or found["lost"]
        or found["quarantined"]
        or not (found["is_sound"] or found["is_repaired"])
    ):
        sys.exit(1)
