"""Where do sorted keys live? The index as an ordered map with atomic batches, and the one in memory.

The index is derived: losing it costs a rebuild. What is written in a batch survives together or not at all,
and a batch survives only if all earlier ones do, so the log position that a batch carries says what must be
applied again.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from threading import Lock
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
        """IndexFailedError when it cannot, as of `flush`: then nothing more may be written until it is opened anew."""
        ...

    def flush(self) -> None:
        """Return when everything written is durable."""
        ...

    def clear(self) -> None: ...

    def bytes_used(self) -> int: ...

    def close(self) -> None: ...


class MemoryIndex:
    """For tests, simulations and small archives: gone when the process ends, and then rebuilt."""

    def __init__(self, content: Iterable[tuple[bytes, bytes]] = ()) -> None:
        self._values = dict(content)
        self._keys = sorted(self._values)
        self._lock = Lock()

    def get(self, key: bytes) -> bytes | None:
        return self._values.get(key)

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        with self._lock:
            keys = self._keys[bisect_left(self._keys, start) : bisect_left(self._keys, end)]
            found = [(key, self._values[key]) for key in keys]
        return iter(found)

    def last_before(self, start: bytes, end: bytes) -> tuple[bytes, bytes] | None:
        with self._lock:
            at = bisect_left(self._keys, end) - 1
            if at < 0 or self._keys[at] < start:
                return None
            return self._keys[at], self._values[self._keys[at]]

    def write(self, batch: IndexBatch) -> None:
        with self._lock:
            for key, value in batch.changes:
                if value is None:
                    if self._values.pop(key, None) is not None:
                        del self._keys[bisect_left(self._keys, key)]
                else:
                    if key not in self._values:
                        insort(self._keys, key)
                    self._values[key] = value

    def flush(self) -> None:
        """Memory is as durable as it gets."""

    def clear(self) -> None:
        with self._lock:
            self._values.clear()
            self._keys.clear()

    def content(self) -> list[tuple[bytes, bytes]]:
        with self._lock:
            return sorted(self._values.items())

    def bytes_used(self) -> int:
        return sum(len(key) + len(value) for key, value in self._values.items())

    def close(self) -> None:
        """Nothing is open."""
