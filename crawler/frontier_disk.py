"""Where are the frontier's rows kept? In RocksDB: read one by one or many at once, written in atomic batches.

A batch is in the write-ahead log when `write` returns, which outlives the process; `sync` makes it outlive the
machine. What the rows mean is for others (`crawler.core.entries` spells them).
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from rocksdict import (
    AccessType,
    BlockBasedIndexType,
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    Options,
    Rdict,
    ReadOptions,
    WriteBatch,
    WriteOptions,
)

from crawler.core.entries import DUE, META, day_of, next_id
from crawler.core.errors import FrontierUnusableError

FORMAT_VERSION = 1
_FORMAT_ROW = META + b"format"
CACHE_BYTES = 24 * 2**20
WRITE_BUFFER_BYTES = 8 * 2**20


class FrontierDisk:
    """Opened on a folder of its own; one process at a time, which RocksDB's lock holds."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        try:
            self._db = _opened(str(folder))
        except Exception as error:  # rocksdict raises bare Exception for all of RocksDB's errors
            raise FrontierUnusableError(str(folder), str(error)) from error
        self._check_format()
        self._read_options = ReadOptions()
        self._write_options = WriteOptions()

    def _check_format(self) -> None:
        found = self._db.get(_FORMAT_ROW)
        if found is None:
            self._db.put(_FORMAT_ROW, FORMAT_VERSION.to_bytes(2, "big"))
        elif int.from_bytes(found, "big") != FORMAT_VERSION:
            version = int.from_bytes(found, "big")
            self._db.close()
            raise FrontierUnusableError(
                str(self._folder),
                f"it was written by another release (format {version}); upgrade herodotus: this release"
                f" reads format {FORMAT_VERSION}",
            )

    @property
    def cache_bytes(self) -> tuple[int, int]:
        """What the cache holds, and may hold at most."""
        used, most = (
            self._db.property_int_value(f"rocksdb.block-cache-{name}") or 0 for name in ("usage", "capacity")
        )
        return used, most

    def get(self, row: bytes) -> bytes | None:
        found: bytes | None = self._db.get(row)
        return found

    def get_many(self, rows: list[bytes]) -> list[bytes | None]:
        keys: list[str | int | float | bytes | bool] = list(rows)  # as rocksdict's signature spells it
        return list(self._db.get(keys) or ())

    def number(self, row: bytes) -> int:
        found = self._db.get(row)
        return int.from_bytes(found, "big") if found else 0

    def rows(self, start: bytes, prefix: bytes) -> Iterator[bytes]:
        """Those with the prefix, from `start` on."""
        cursor = self._db.iter(self._read_options)
        cursor.seek(start)
        while cursor.valid() and (row := cursor.key()).startswith(prefix):
            yield row
            cursor.next()

    def origins(self, start: bytes, end: bytes | None) -> Iterable[tuple[bytes, int]]:
        """Origins with any due row, in the order of their ids, with the day of the first; one seek each."""
        cursor = self._db.iter(self._read_options)
        following: bytes | None = start
        while following is not None and (end is None or following < end):
            cursor.seek(DUE + following)
            if not cursor.valid():
                return
            row = cursor.key()
            origin_id = row[1:9]
            if row[:1] != DUE or (end is not None and origin_id >= end):
                return
            yield origin_id, day_of(row)
            following = next_id(origin_id)

    def put(self, row: bytes, value: bytes) -> None:
        self._db.put(row, value)

    def delete(self, row: bytes) -> None:
        self._db.delete(row)

    def write(self, batch: WriteBatch) -> None:
        self._db.write(batch, self._write_options)

    def sync(self) -> None:
        """All that was written so far outlives a power cut."""
        self._db.flush_wal(sync=True)

    def close(self) -> None:
        self._db.close()


def new_batch() -> WriteBatch:
    return WriteBatch(raw_mode=True)


def _opened(path: str) -> Rdict:
    """With the family named: RocksDB's file of options, which stands for it otherwise, knows neither the cache nor what
    finds tombstones.
    """
    options = _options()
    return Rdict(path, options, column_families={"default": options}, access_type=AccessType.read_write())


def _options() -> Options:
    table = BlockBasedOptions()
    table.set_block_cache(Cache(CACHE_BYTES))
    table.set_bloom_filter(10, False)
    table.set_cache_index_and_filter_blocks(True)
    # Filters and indexes of millions of keys are megabytes a file: in pieces, so that the cache holds those
    # in use.
    table.set_index_type(BlockBasedIndexType.two_level_index_search())
    table.set_partition_filters(True)
    table.set_metadata_block_size(4 * 1024)
    table.set_pin_top_level_index_and_filter(True)
    table.set_block_size(4 * 1024)
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_block_based_table_factory(table)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_write_buffer_size(WRITE_BUFFER_BYTES)
    options.set_max_write_buffer_number(3)
    options.set_max_background_jobs(2)
    options.set_max_open_files(256)
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(2**20)
    # Queues leave tombstones at their front; files full of them are compacted early.
    options.add_compact_on_deletion_collector_factory(4096, 1024, 0.25)
    return options
