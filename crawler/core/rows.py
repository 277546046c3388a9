"""What does a part with rows ask of their keeper? Ordered keys with values, changed in atomic batches.

Every batch survives as a whole or not at all, and only if all batches before it do. So a crash leaves a prefix of the
batches, and no reader of rows has to think about half a change.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(slots=True)
class Batch:
    """Changes in order; None deletes."""

    changes: list[tuple[bytes, bytes | None]] = field(default_factory=list)

    def put(self, key: bytes, value: bytes = b"") -> None:
        self.changes.append((key, value))

    def delete(self, key: bytes) -> None:
        self.changes.append((key, None))


@dataclass(frozen=True, slots=True, kw_only=True)
class RowLimits:
    """How rows are used, and what they may cost. The keeper chooses what is None."""

    write_buffer_bytes: int
    write_buffers: int = 3
    open_files: int = 256
    cache_bytes: int | None = None
    block_bytes: int | None = None
    bloom_bits: int | None = None
    """Per key, of the filters that answer for keys which are not there."""
    prefix_bytes: int = 0
    """Keys are asked for by so many first bytes: there are filters for those, too."""
    jobs: int | None = None
    has_log: bool = True
    """A batch outlives the process once it is written. Without a log that is true of flushed ones only: for rows that
    are derived from something durable, which says where to continue."""
    has_split_filters: bool = False
    """For millions of keys, whose filters and indexes would not fit into the cache as a whole."""
    is_queue: bool = False
    """Rows come and go: what is full of deleted ones is rewritten early."""
    is_archive: bool = False
    """What is old is hardly changed: it is worth compressing well."""


class Rows(Protocol):
    """Reading sees all that was written before; iterators see the rows of the moment in which they began."""

    def get(self, key: bytes) -> bytes | None: ...

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]: ...

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Ascending, `end` excluded."""
        ...

    def keys(self, start: bytes, end: bytes) -> Iterator[bytes]:
        """As `scan`, without the values."""
        ...

    def first_keys(self, start: bytes, end: bytes, prefix_bytes: int) -> Iterator[bytes]:
        """Of the keys that share their first bytes the first; one look at the disk each, however many share them."""
        ...

    def last_before(self, start: bytes, end: bytes) -> tuple[bytes, bytes] | None:
        """The greatest key in [start, end), and its value."""
        ...

    def write(self, batch: Batch) -> None: ...

    def flush(self) -> None:
        """All that was written so far outlives a power cut."""
        ...

    def clear(self) -> None:
        """No row is left."""
        ...

    def bytes_used(self) -> int: ...

    def close(self) -> None: ...


def after(prefix: bytes) -> bytes:
    """The least key that is greater than every key with this prefix."""
    kept = prefix.rstrip(b"\xff")
    assert kept, "no key follows those that begin with the highest byte"
    return kept[:-1] + bytes((kept[-1] + 1,))
