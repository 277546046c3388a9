"""Where do links wait on the disk? A small RocksDB folder, `state/exchange`, shared by outbox and standby.

Every change is one atomic batch in the write-ahead log, which outlives the process; `sync` makes it outlive the
machine. What is lost with the folder is found again: links by pages that change, known URLs from other holders.
"""

from collections.abc import Iterator
from pathlib import Path

from rocksdict import AccessType, DBCompressionType, Options, Rdict, ReadOptions, WriteBatch, WriteOptions

from herodotus.core.errors import StorageFailure

FORMAT_VERSION = 1
WRITE_BUFFER_BYTES = 2 * 2**20
_FORMAT_ROW = b"mformat"
_HINT = "delete the folder: links are found again"


class ExchangeDisk:
    """One process at a time, which RocksDB's lock holds. Closed by `close`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            self._db = _opened(str(folder))
        except Exception as error:  # rocksdict raises bare Exception for all of RocksDB's errors
            raise StorageFailure(path=str(folder), action="open", reason=str(error), hint=_HINT) from error
        self._write_options = WriteOptions()
        found = self.get(_FORMAT_ROW)
        if found is None:
            self.put(_FORMAT_ROW, FORMAT_VERSION.to_bytes(2, "big"))
        elif int.from_bytes(found, "big") != FORMAT_VERSION:
            self._db.close()
            reason = f"its format is {int.from_bytes(found, 'big')}, ours is {FORMAT_VERSION}"
            raise StorageFailure(path=str(folder), action="open", reason=reason, hint=_HINT)

    def get(self, row: bytes) -> bytes | None:
        return self._db.get(row)

    def get_many(self, rows: list[bytes]) -> list[bytes | None]:
        names: list[str | int | float | bytes | bool] = list(rows)  # as rocksdict's signature spells it
        return list(self._db.get(names) or ()) if rows else []

    def put(self, row: bytes, value: bytes) -> None:
        self._db.put(row, value, self._write_options)

    def write(self, batch: WriteBatch) -> None:
        self._db.write(batch, self._write_options)

    def rows(self, kind: bytes, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Rows of a kind in the order of their keys, from `start`, with their values."""
        cursor = self._db.iter(ReadOptions())
        cursor.seek(kind + start)
        while cursor.valid() and cursor.key()[:1] == kind:
            yield cursor.key(), cursor.value()
            cursor.next()

    def keys(self, kind: bytes, start: bytes = b"") -> Iterator[bytes]:
        cursor = self._db.iter(ReadOptions())
        cursor.seek(kind + start)
        while cursor.valid() and (row := cursor.key())[:1] == kind:
            yield row
            cursor.next()

    def sync(self) -> None:
        self._db.flush_wal(sync=True)

    def close(self) -> None:
        self._db.close()


def new_batch() -> WriteBatch:
    return WriteBatch(raw_mode=True)


def _opened(path: str) -> Rdict:
    """With the family named: RocksDB's file of options, which stands for it otherwise, does not know what finds
    tombstones.
    """
    options = _options()
    return Rdict(path, options, column_families={"default": options}, access_type=AccessType.read_write())


def _options() -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_write_buffer_size(WRITE_BUFFER_BYTES)
    options.set_max_write_buffer_number(3)
    options.set_max_background_jobs(1)
    options.set_max_open_files(64)
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(2**20)
    # A queue leaves tombstones behind: files full of them are compacted early.
    options.add_compact_on_deletion_collector_factory(4096, 1024, 0.25)
    return options
