"""How do rows live on disk? In RocksDB, one folder each, one process at a time, which RocksDB's lock holds.

Everything is in one column family, so what a crash leaves is a prefix of the batches, with a log of RocksDB's own and
without it.

What if the disk gave back something else than was written? RocksDB compares checksums and says so to whoever reads that
block. Then the folder gets a mark, and its next opening repairs it: `mended_rows`, or makes it again, as an index is.
"""

import logging
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rocksdict import (
    AccessType,
    BlockBasedIndexType,
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    Options,
    Rdict,
    ReadOptions,
    SliceTransform,
    WriteBatch,
    WriteOptions,
)

from crawler.core.errors import RowsUnusableError
from crawler.core.rows import Batch, RowLimits, after

logger = logging.getLogger(__name__)

MARK = "DAMAGED"
"""A file in the folder: damage was found there."""
_DELETED_ROWS = (4_096, 1_024, 0.25)
"""A file in which 1,024 of 4,096 rows in a row are deleted ones, or a quarter of all, is rewritten early."""


class RocksRows:
    """Implements `Rows`. Raises RowsUnusableError where the folder cannot be opened, or is found damaged."""

    def __init__(self, folder: Path, limits: RowLimits) -> None:
        self.folder = folder
        self._limits = limits
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            self._open()
        except Exception as error:  # rocksdict raises bare Exception for all of RocksDB's errors
            raise RowsUnusableError(os.fspath(folder), str(error)) from error

    def _open(self) -> None:
        # With the family named: RocksDB's file of options, which stands for it otherwise, knows neither the cache
        # nor what finds tombstones.
        options = options_of(self._limits)
        self._db = Rdict(
            os.fspath(self.folder),
            options,
            column_families={"default": options},
            access_type=AccessType.read_write(),
        )
        self._write_options = WriteOptions()
        if not self._limits.has_log:
            # A property, whatever its stub says.
            self._write_options.disable_wal = True  # type: ignore[method-assign, assignment]
        self._db.set_write_options(self._write_options)
        self._total_order = ReadOptions()
        self._total_order.set_total_order_seek(True)

    def get(self, key: bytes) -> bytes | None:
        try:
            value: bytes | None = self._db.get(key)
        except Exception as error:
            raise self._damaged(error) from error
        return value

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        wanted: list[str | int | float | bytes | bool] = list(keys)  # as rocksdict's signature spells it
        try:
            return list(self._db.get(wanted) or ()) if wanted else []
        except Exception as error:
            raise self._damaged(error) from error

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        # Not ReadOptions' upper bound: an iterator does not keep alive what it points to (rocksdict 0.3.29).
        if self._is_within_prefix(start, end):
            return self._up_to(start, end)
        return self._checked(self._db.items(from_key=start, read_opt=self._total_order), start, end)

    def _is_within_prefix(self, start: bytes, end: bytes) -> bool:
        size = self._limits.prefix_bytes
        if not 0 < size <= len(start):
            return False
        return start[:size] == end[:size] or end <= after(start[:size])

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
        self._check(iterator)

    def _up_to(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Within a prefix there are few rows."""
        cursor = self._db.iter()
        cursor.seek(start)
        while cursor.valid():
            key = cursor.key()
            if key >= end:
                return
            yield key, cursor.value()
            cursor.next()
        self._check(cursor)

    def _check(self, cursor: Any) -> None:
        """One that came to an end: is it that of the rows, or of what can be read?"""
        try:
            cursor.status()
        except Exception as error:
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> Exception:
        if "corruption" in str(error).lower():
            note_damage(self.folder)
        return RowsUnusableError(os.fspath(self.folder), str(error))

    def keys(self, start: bytes, end: bytes) -> Iterator[bytes]:
        cursor = self._db.iter(self._total_order)
        cursor.seek(start)
        while cursor.valid():
            key: bytes = cursor.key()
            if key >= end:
                return
            yield key
            cursor.next()
        self._check(cursor)

    def first_keys(self, start: bytes, end: bytes, prefix_bytes: int) -> Iterator[bytes]:
        cursor = self._db.iter(self._total_order)
        cursor.seek(start)
        while cursor.valid() and (key := cursor.key()) < end:
            yield key
            cursor.seek(after(key[:prefix_bytes]))
        if not cursor.valid():
            self._check(cursor)

    def last_before(self, start: bytes, end: bytes) -> tuple[bytes, bytes] | None:
        size = self._limits.prefix_bytes
        is_within = 0 < size <= len(start) and start[:size] == end[:size]
        iterator = self._db.iter(None if is_within else self._total_order)
        iterator.seek_for_prev(end)
        if not iterator.valid():
            self._check(iterator)
            return None
        key = iterator.key()
        if key == end:
            iterator.prev()
            if not iterator.valid():
                self._check(iterator)
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
        except Exception as error:
            raise self._damaged(error) from error

    def flush(self) -> None:
        if self._limits.has_log:
            self._db.flush_wal(sync=True)
        else:
            self._db.flush(True)

    def clear(self) -> None:
        try:
            self._db.close()
        except Exception as error:  # noqa: BLE001 - rocksdict has no error of its own
            logger.warning("rows closed as they were path=%s error=%s", self.folder, error)
        del self._db  # with it goes the folder's lock
        try:
            Rdict.destroy(os.fspath(self.folder), options_of(self._limits))
        except Exception as error:  # noqa: BLE001 - rocksdict has no error of its own
            logger.warning("rows are removed file by file path=%s error=%s", self.folder, error)
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.mkdir(mode=0o700, exist_ok=True)
        (self.folder / MARK).unlink(missing_ok=True)
        self._open()

    @property
    def cache_bytes_max(self) -> int:
        return self._db.property_int_value("rocksdb.block-cache-capacity") or 0

    def bytes_used(self) -> int:
        return sum(path.stat().st_size for path in self.folder.glob("*.sst"))

    def close(self) -> None:
        self._db.close()


def note_damage(folder: Path) -> None:
    try:
        (folder / MARK).touch()
    except OSError as error:
        logger.warning("damage was not marked path=%s error=%s", folder, error)


def is_in_use(error: RowsUnusableError) -> bool:
    """Not "lock" alone: what RocksDB says of broken rows is full of "block"."""
    return any(words in error.reason.lower() for words in ("lock file", "lock hold"))


def mended_rows(folder: Path, limits: RowLimits) -> RocksRows:
    """Rows that may lose some: where damage is found, what can be read is saved, and where nothing can they begin anew,
    beside what was there. Raises RowsUnusableError where another process has them."""
    if not (folder / MARK).exists():
        try:
            return RocksRows(folder, limits)
        except RowsUnusableError as error:
            if is_in_use(error):
                raise
            logger.warning("rows cannot be opened path=%s error=%s", folder, error.reason)
    found = _repaired(folder, limits)
    if isinstance(found, RocksRows):
        return found
    aside = folder.with_name(f"{folder.name}.damaged")
    shutil.rmtree(aside, ignore_errors=True)
    folder.replace(aside)
    logger.error("rows begin anew path=%s as=%s error=%s", folder, aside.name, found)
    return RocksRows(folder, limits)


def _repaired(folder: Path, limits: RowLimits) -> RocksRows | str:
    """Or why not: as words, since the error itself would hold rows, and with them the folder's lock."""
    rows = None
    try:
        Rdict.repair(os.fspath(folder), options_of(limits))
        (folder / MARK).unlink(missing_ok=True)
        rows = RocksRows(folder, limits)
        count = sum(1 for _ in rows.keys(b"", b"\xff" * 64))
    except Exception as error:  # noqa: BLE001 - rocksdict has no error of its own
        if rows is not None:
            rows.close()
        return str(error)
    logger.warning("rows were repaired path=%s rows=%d", folder, count)
    return rows


def options_of(limits: RowLimits) -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_write_buffer_size(limits.write_buffer_bytes)
    options.set_max_write_buffer_number(limits.write_buffers)
    options.set_max_open_files(limits.open_files)
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(2**20)
    if limits.cache_bytes is not None:
        options.set_block_based_table_factory(_table(limits))
    if limits.jobs is not None:
        options.set_max_background_jobs(limits.jobs)
    if limits.is_archive:
        options.set_bottommost_compression_type(DBCompressionType.zstd())
    if limits.prefix_bytes:
        options.set_prefix_extractor(SliceTransform.create_fixed_prefix(limits.prefix_bytes))
        options.set_memtable_prefix_bloom_ratio(0.05)
    if limits.is_queue:
        options.add_compact_on_deletion_collector_factory(*_DELETED_ROWS)
    return options


def _table(limits: RowLimits) -> BlockBasedOptions:
    table = BlockBasedOptions()
    table.set_format_version(5)
    if limits.cache_bytes is not None:
        table.set_block_cache(Cache(limits.cache_bytes))
    if limits.block_bytes is not None:
        table.set_block_size(limits.block_bytes)
    if limits.bloom_bits is not None:
        table.set_bloom_filter(limits.bloom_bits, False)
    if limits.has_split_filters:
        table.set_cache_index_and_filter_blocks(True)
        table.set_index_type(BlockBasedIndexType.two_level_index_search())
        table.set_partition_filters(True)
        table.set_metadata_block_size(4 * 1024)
        table.set_pin_top_level_index_and_filter(True)
    return table
