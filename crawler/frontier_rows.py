"""Which rows does a frontier have? Its limits, and the check that a folder was written by a release like ours.

What the rows mean is for others (`crawler.core.link` spells them).
"""

from collections.abc import Callable
from pathlib import Path

from crawler.core.errors import FrontierUnusableError, RowsUnusableError
from crawler.core.link import META
from crawler.core.rows import Batch, RowLimits, Rows
from crawler.rocks import RocksRows

FORMAT_VERSION = 1
FRONTIER_ROWS = RowLimits(
    cache_bytes=24 * 2**20,
    write_buffer_bytes=8 * 2**20,
    block_bytes=4 * 1024,
    bloom_bits=10,
    jobs=2,
    has_split_filters=True,
    is_queue=True,
)
_FORMAT_ROW = META + b"format"

OpenRows = Callable[[Path, RowLimits], Rows]


def frontier_rows(folder: Path, open_rows: OpenRows = RocksRows) -> Rows:
    """Closed by the frontier that they are given to. Raises FrontierUnusableError."""
    try:
        rows = open_rows(folder, FRONTIER_ROWS)
    except RowsUnusableError as error:
        raise FrontierUnusableError(str(folder), error.reason) from error
    found = rows.get(_FORMAT_ROW)
    if found is None:
        rows.write(Batch([(_FORMAT_ROW, FORMAT_VERSION.to_bytes(2, "big"))]))
    elif int.from_bytes(found, "big") != FORMAT_VERSION:
        version = int.from_bytes(found, "big")
        rows.close()
        raise FrontierUnusableError(
            str(folder),
            f"it was written by another release (format {version}); upgrade herodotus: this release"
            f" reads format {FORMAT_VERSION}",
        )
    return rows
