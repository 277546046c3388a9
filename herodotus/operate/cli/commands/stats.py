"""How much does the archive hold? `stats`."""

from herodotus.core.orders import Statistics
from herodotus.operate.cli.archive_access import archive_access
from herodotus.operate.cli.console import size
from herodotus.operate.cli.frame import CommandFrame, framed, main
from herodotus.operate.cli.printing import print_line


@main.command()
@framed(json=True)
def stats(frame: CommandFrame) -> None:
    """Show how much the archive holds."""
    with archive_access(frame) as archive:
        statistics = archive.perform(Statistics()).facts
    if frame.is_json:
        frame.print_json(statistics)
        return
    print_line(f"captures: {statistics['captures']}")
    print_line(f"WARC files: {statistics['files']}, {size(statistics['bytes'])}")
    print_line(f"not sealed yet: {statistics['logs']} of them")
    print_line(f"index: {size(statistics['index_bytes'])}")
    if statistics["recovered"] or statistics["truncated_bytes"]:
        cut = statistics["truncated_bytes"]
        print_line(f"after a crash: {statistics['recovered']} captures indexed again, {cut} bytes cut off")
    if statistics["damaged"]:
        print_line(f"damaged records met: {statistics['damaged']}")
    if statistics["refusal"]:
        print_line(f"nothing can be stored: {statistics['refusal']}")
