"""Which rows does a frontier have? Its limits, and the check that a folder was written by a release like ours.

What the rows mean is for others (`crawler.core.link` spells them).
"""

from collections.abc import Callable
from pathlib import Path

from crawler.core.errors import FrontierUnusableError, RowsUnusableError
from crawler.core.link import META, number_in
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


def rows_of_format(
    folder: Path, limits: RowLimits, open_rows: OpenRows, *, format_row: bytes, version: int
) -> Rows:
    """Raises RowsUnusableError, also where another release wrote them."""
    rows = open_rows(folder, limits)
    found = number_in(rows.get(format_row))
    if not found:
        rows.write(Batch([(format_row, version.to_bytes(2, "big"))]))
    elif found != version:
        rows.close()
        reason = (
            f"it was written by another release (format {found}); upgrade herodotus: this release"
            f" reads format {version}"
        )
        raise RowsUnusableError(str(folder), reason)
    return rows


def frontier_rows(folder: Path, open_rows: OpenRows = RocksRows) -> Rows:
    """Closed by the frontier that they are given to. Raises FrontierUnusableError."""
    try:
        return rows_of_format(
            folder, FRONTIER_ROWS, open_rows, format_row=_FORMAT_ROW, version=FORMAT_VERSION
        )
    except RowsUnusableError as error:
        raise FrontierUnusableError(str(folder), error.reason) from error
