"""Where do links wait on the disk? In rows of their own, `state/exchange`, shared by outbox and standby.

Every change is one atomic batch, which outlives the process; `flush` makes it outlive the machine. What is lost with
the folder is found again: links by pages that change, known URLs from other holders.
"""

from pathlib import Path

from crawler.core.errors import RowsUnusableError
from crawler.core.rows import Batch, RowLimits, Rows
from crawler.frontier_rows import OpenRows
from crawler.rocks import RocksRows
from herodotus.core.errors import StorageFailure

FORMAT_VERSION = 1
LINK_ROWS = RowLimits(write_buffer_bytes=2 * 2**20, jobs=1, open_files=64, is_queue=True)
_FORMAT_ROW = b"mformat"
_HINT = "delete the folder: links are found again"


def link_rows(folder: Path, open_rows: OpenRows = RocksRows) -> Rows:
    """Raises StorageFailure."""
    try:
        rows = open_rows(folder, LINK_ROWS)
    except RowsUnusableError as error:
        raise StorageFailure(path=str(folder), action="open", reason=error.reason, hint=_HINT) from error
    found = rows.get(_FORMAT_ROW)
    if found is None:
        rows.write(Batch([(_FORMAT_ROW, FORMAT_VERSION.to_bytes(2, "big"))]))
    elif int.from_bytes(found, "big") != FORMAT_VERSION:
        rows.close()
        reason = f"its format is {int.from_bytes(found, 'big')}, ours is {FORMAT_VERSION}"
        raise StorageFailure(path=str(folder), action="open", reason=reason, hint=_HINT)
    return rows
