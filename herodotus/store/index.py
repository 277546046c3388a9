"""Where do sorted keys live? The index as an ordered map with atomic batches.

The index is derived: losing it costs a rebuild. The rows of a batch survive together or not at all, and a batch
survives only if all earlier ones do. So the log position in a batch shows which part of the log must be applied
again.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from crawler.core.rows import Batch


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

    def bytes_used(self) -> int: ...

    def close(self) -> None: ...
