"""Where do links wait on the disk? In rows of their own, `state/exchange`, shared by outbox and standby.

Every change is one atomic batch, which outlives the process; `flush` makes it outlive the machine. What is lost with
the folder is found again: links by pages that change, known URLs from other holders.
"""

from pathlib import Path

from crawler.core.errors import RowsUnusableError
from crawler.core.rows import RowLimits, Rows
from crawler.frontier_rows import OpenRows, rows_of_format
from crawler.rocks import RocksRows
from herodotus.core.errors import StorageFailure

FORMAT_VERSION = 1
LINK_ROWS = RowLimits(write_buffer_bytes=2 * 2**20, jobs=1, open_files=64, is_queue=True)
_FORMAT_ROW = b"mformat"


def link_rows(folder: Path, open_rows: OpenRows = RocksRows) -> Rows:
    """Raises StorageFailure."""
    try:
        return rows_of_format(folder, LINK_ROWS, open_rows, format_row=_FORMAT_ROW, version=FORMAT_VERSION)
    except RowsUnusableError as error:
        hint = "delete the folder: links are found again"
        raise StorageFailure(path=str(folder), action="open", reason=error.reason, hint=hint) from error
