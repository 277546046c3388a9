"""Where do sorted keys live? The index as an ordered map with atomic batches.

The index is derived: losing it costs a rebuild. The rows of a batch survive together or not at all, and a batch
survives only if all earlier ones do. So the log position in a batch shows which part of the log must be applied
again.

How does the index live on disk? In rows without a log of their own: the archive's files are the log.
"""

import logging
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from rocksdict import BottommostLevelCompaction, CompactOptions

from crawler.core.errors import RowsUnusableError
from crawler.core.rows import Batch, RowLimits
from crawler.rocks import MARK, RocksRows, is_in_use, note_damage
from herodotus.core.errors import IndexFailedError, UnusableArchiveError

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class IndexBatch(Batch):
    added: int = 0
    """Captures that the batch adds, less those that it takes away."""
    fresh: set[bytes] = field(default_factory=set)
    """Keys of captures that the batch adds."""

    def put_new(self, key: bytes, value: bytes) -> None:
        if key not in self.fresh:
            self.fresh.add(key)
            self.added += 1
        self.changes.append((key, value))


class Index(Protocol):
    def get(self, key: bytes) -> bytes | None: ...

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Ascending, `end` excluded, over the state at the call; the caller may write meanwhile."""
        ...

    def last_before(self, start: bytes, end: bytes) -> tuple[bytes, bytes] | None:
        """The greatest key in [start, end)."""
        ...

    def write(self, batch: IndexBatch) -> None:
        """IndexFailedError if it cannot, as of `flush`: then nothing more may be written until it is opened again."""
        ...

    def flush(self) -> None:
        """Return when everything written is durable."""
        ...

    def clear(self) -> None: ...

    @property
    def is_damaged(self) -> bool:
        """Damage was found in it, also before it was opened: it must be made again. Until it is cleared."""
        ...

    def note_damage(self) -> None: ...

    def bytes_used(self) -> int: ...

    def close(self) -> None: ...


INDEX_ROWS = RowLimits(
    cache_bytes=32 * 1024 * 1024,  # with the frontier's 24 MiB a peer of a million URLs stays within 150 MB
    write_buffer_bytes=32 * 1024 * 1024,  # with two of them and the cache, an open index stays near 100 MB
    write_buffers=2,
    block_bytes=16 * 1024,
    bloom_bits=8,
    prefix_bytes=8,  # a payload's whole prefix, and enough of a URL's: filters answer for missing keys
    has_log=False,
    is_archive=True,
)


class RocksIndex(RocksRows):
    def __init__(self, folder: Path) -> None:
        try:
            super().__init__(folder, INDEX_ROWS)
        except RowsUnusableError as error:
            if is_in_use(error):
                raise UnusableArchiveError(
                    os.fspath(folder), f"another process has its index open: {error.reason}"
                ) from error
            # Whatever RocksDB cannot open (torn, copied while it ran, of a newer version) is derived: begin again.
            logger.warning("index given up path=%s error=%s", folder, error.reason)
            shutil.rmtree(folder)
            super().__init__(folder, INDEX_ROWS)

    @property
    def is_damaged(self) -> bool:
        return (self.folder / MARK).exists()

    def note_damage(self) -> None:
        note_damage(self.folder)

    def _damaged(self, error: Exception) -> Exception:
        super()._damaged(error)
        reason = f"its index is damaged; a running peer makes it again, else `herodotus rebuild-index` does: {error}"
        return UnusableArchiveError(os.fspath(self.folder), reason)

    def write(self, batch: Batch) -> None:
        try:
            super().write(batch)
        except Exception as error:  # rocksdict has no error of its own
            raise IndexFailedError(str(error)) from error

    def flush(self) -> None:
        try:
            super().flush()
        except Exception as error:
            raise IndexFailedError(str(error)) from error

    def compact(self) -> None:
        """Merge everything into the last level, as RocksDB does by itself in time."""
        options = CompactOptions()
        options.set_bottommost_level_compaction(BottommostLevelCompaction.force())
        self._db.flush(True)
        self._db.compact_range(None, None, compact_opt=options)

    def close(self) -> None:
        try:
            super().close()
        except Exception as error:  # noqa: BLE001 - rocksdict has no error of its own
            # The log has every row that could not be written; the next opening reads them there.
            logger.warning("index closed as it was path=%s error=%s", self.folder, error)
