"""How much does the archive hold? `stats`."""

from herodotus.core.orders import Statistics
from herodotus.operate.cli.archive_access import archive_access
from herodotus.operate.cli.console import size
from herodotus.operate.cli.frame import CommandFrame, framed, main


@main.command()
@framed(json=True)
def stats(frame: CommandFrame) -> None:
    """Show how much the archive holds."""
    with archive_access(frame) as archive:
        statistics = archive.perform(Statistics()).facts
    lines = [
        f"captures: {statistics['captures']}",
        f"WARC files: {statistics['files']}, {size(statistics['bytes'])}",
        f"not sealed yet: {statistics['logs']} of them",
        f"index: {size(statistics['index_bytes'])}",
    ]
    if statistics["recovered"] or statistics["truncated_bytes"]:
        cut = statistics["truncated_bytes"]
        lines.append(f"after a crash: {statistics['recovered']} captures indexed again, {cut} bytes cut off")
    if statistics["damaged"]:
        lines.append(f"damaged records met: {statistics['damaged']}")
    if statistics["quarantined"]:
        lines.append(f"damaged, in quarantine: {statistics['quarantined']} captures")
    if statistics["refusal"]:
        lines.append(f"nothing can be stored: {statistics['refusal']}")
    frame.show(statistics, lines)
