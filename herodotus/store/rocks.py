"""How does the index live on disk? RocksDB without its own log: the archive's files are the log.

Everything is in one column family, so what a crash leaves of the memtables is a prefix of the batches.
"""

import logging
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from rocksdict import (
    BlockBasedOptions,
    BottommostLevelCompaction,
    Cache,
    CompactOptions,
    DBCompressionType,
    Options,
    Rdict,
    ReadOptions,
    SliceTransform,
    WriteBatch,
    WriteOptions,
)

from herodotus.core.archive_errors import IndexFailedError, UnusableArchiveError
from herodotus.core.index_rows import after
from herodotus.store.index import Batch

logger = logging.getLogger(__name__)

CACHE_BYTES = 32 * 1024 * 1024
"""With the frontier's 24 MiB a peer of a million URLs stays within 150 MB; the system caches files, too."""
WRITE_BUFFER_BYTES = 32 * 1024 * 1024  # with two of them and the cache, an open index stays near 100 MB
BLOOM_BITS_PER_KEY = 8
PREFIX_BYTES = 8
"""A payload's whole prefix, and enough of a URL's: asking for what is not there is answered by the bloom filters."""


def _options() -> Options:
    table = BlockBasedOptions()
    table.set_block_size(16 * 1024)
    table.set_bloom_filter(BLOOM_BITS_PER_KEY, False)
    table.set_block_cache(Cache(CACHE_BYTES))
    table.set_format_version(5)
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_block_based_table_factory(table)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_bottommost_compression_type(DBCompressionType.zstd())
    options.set_write_buffer_size(WRITE_BUFFER_BYTES)
    options.set_max_write_buffer_number(2)
    options.set_max_open_files(256)
    options.set_keep_log_file_num(2)
    options.set_prefix_extractor(SliceTransform.create_fixed_prefix(PREFIX_BYTES))
    options.set_memtable_prefix_bloom_ratio(0.05)
    return options


def _opened(path: str) -> Rdict:
    """With the family named: RocksDB's file of options, which stands for it otherwise, does not know the cache."""
    options = _options()
    return Rdict(path, options, column_families={"default": options})


class RocksIndex:
    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder = folder
        self._open()

    def _open(self) -> None:
        path = os.fspath(self.folder)
        try:
            self._db = _opened(path)
        except Exception as error:
            # Not "lock" alone: a broken index is full of "block checksum mismatch".
            if any(words in str(error).lower() for words in ("lock file", "lock hold")):
                raise UnusableArchiveError(path, f"another process has its index open: {error}") from error
            # Whatever RocksDB cannot open (torn, copied while it ran, of a newer version) is derived: begin
            # anew.
            logger.warning("index given up path=%s error=%s", path, error)
            shutil.rmtree(self.folder)
            self.folder.mkdir(mode=0o700, parents=True)
            self._db = _opened(path)
        write_options = WriteOptions()
        # A property, whatever its stub says.
        write_options.disable_wal = True  # type: ignore[method-assign, assignment]
        self._db.set_write_options(write_options)
        self._write_options = write_options
        self._total_order = ReadOptions()
        self._total_order.set_total_order_seek(True)

    def get(self, key: bytes) -> bytes | None:
        value: bytes | None = self._db.get(key)
        return value

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        # Not ReadOptions' upper bound: an iterator does not keep alive what it points to (rocksdict 0.3.29).
        prefix = start[:PREFIX_BYTES]
        is_within = len(prefix) == PREFIX_BYTES and end <= after(prefix)
        items = self._db.items(from_key=start, read_opt=None if is_within else self._total_order)
        return _up_to(items, end) if is_within else self._checked(items, start, end)

    def _checked(self, items: Iterable[Any], start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """rocksdict ends at an error as at the end, and what sealing does not see it leaves behind: ask."""
        last = start
        for key, value in items:
            if key >= end:
                return
            last = key
            yield key, value
        iterator = self._db.iter(self._total_order)
        iterator.seek(last)
        if iterator.valid():
            iterator.next()
        try:
            iterator.status()
        except Exception as error:
            reason = f"its index is damaged, make it anew (`herodotus rebuild-index`): {error}"
            raise UnusableArchiveError(os.fspath(self.folder), reason) from error

    def last_before(self, start: bytes, end: bytes) -> tuple[bytes, bytes] | None:
        is_within = len(start) >= PREFIX_BYTES and start[:PREFIX_BYTES] == end[:PREFIX_BYTES]
        iterator = self._db.iter(None if is_within else self._total_order)
        iterator.seek_for_prev(end)
        if not iterator.valid():
            return None
        key = iterator.key()
        if key == end:
            iterator.prev()
            if not iterator.valid():
                return None
            key = iterator.key()
        return None if key < start else (key, iterator.value())

    def write(self, batch: Batch) -> None:
        if not batch.changes:
            return
        changes = WriteBatch(raw_mode=True)
        for key, value in batch.changes:
            if value is None:
                changes.delete(key)
            else:
                changes.put(key, value)
        try:
            self._db.write(changes, self._write_options)
        except Exception as error:  # rocksdict has no error of its own
            raise IndexFailedError(str(error)) from error

    def flush(self) -> None:
        try:
            self._db.flush(True)
        except Exception as error:
            raise IndexFailedError(str(error)) from error

    def clear(self) -> None:
        self._db.close()
        Rdict.destroy(os.fspath(self.folder), _options())
        self._open()

    def compact(self) -> None:
        """Merge everything into the last level, as RocksDB does by itself in time."""
        options = CompactOptions()
        options.set_bottommost_level_compaction(BottommostLevelCompaction.force())
        self._db.flush(True)
        self._db.compact_range(None, None, compact_opt=options)

    @property
    def cache_bytes_max(self) -> int:
        return self._db.property_int_value("rocksdb.block-cache-capacity") or 0

    def bytes_used(self) -> int:
        return sum(path.stat().st_size for path in self.folder.glob("*.sst"))

    def close(self) -> None:
        try:
            self._db.close()
        except Exception as error:  # noqa: BLE001 - rocksdict has no error of its own
            # What it could not write is in the log, and is read there at the next opening.
            logger.warning("index closed as it was path=%s error=%s", self.folder, error)


def _up_to(items: Iterable[Any], end: bytes) -> Iterator[tuple[bytes, bytes]]:
    for key, value in items:
        if key >= end:
            return
        yield key, value
