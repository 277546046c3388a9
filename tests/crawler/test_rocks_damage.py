"""Bits of rows on disk turn over, and files of theirs go: what can be read is saved, the rest is known to be gone."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from crawler.core.errors import RowsUnusableError
from crawler.core.rows import Batch, RowLimits
from crawler.rocks import MARK, RocksRows, mended_rows

LIMITS = RowLimits(write_buffer_bytes=2**20, block_bytes=4_096, is_queue=True)
COUNT = 3_000


def _made(folder: Path) -> dict[bytes, bytes]:
    rng = random.Random(1)
    values = {b"%08d" % number: rng.randbytes(40) for number in range(COUNT)}
    rows = RocksRows(folder, LIMITS)
    rows.write(Batch(list(values.items())))
    rows.close()
    rows = RocksRows(folder, LIMITS)  # what was in RocksDB's log is a table now
    rows.close()
    return values


def _table(folder: Path) -> Path:
    return max(folder.glob("*.sst"), key=lambda path: path.stat().st_size)


def _turn(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 8
    path.write_bytes(data)


READS: dict[str, Callable[[RocksRows], object]] = {
    "get": lambda rows: [rows.get(b"%08d" % number) for number in range(COUNT)],
    "get_many": lambda rows: rows.get_many([b"%08d" % number for number in range(COUNT)]),
    "scan": lambda rows: list(rows.scan(b"0", b"1")),
    "keys": lambda rows: list(rows.keys(b"0", b"1")),
    "first_keys": lambda rows: list(rows.first_keys(b"0", b"1", 7)),
    "last_before": lambda rows: [rows.last_before(b"", b"%08d" % number) for number in range(1, COUNT)],
}


@pytest.mark.parametrize("name", READS)
def test_no_way_of_reading_takes_damage_for_the_end(tmp_path: Path, name: str) -> None:
    _made(tmp_path)
    table = _table(tmp_path)
    _turn(table, table.stat().st_size // 2)
    rows = RocksRows(tmp_path, LIMITS)
    with pytest.raises(RowsUnusableError, match="checksum"):
        READS[name](rows)
    assert (tmp_path / MARK).exists()
    rows.close()


def test_rows_of_a_prefix_do_not_end_at_damage_either(tmp_path: Path) -> None:
    limits = RowLimits(write_buffer_bytes=2**20, block_bytes=4_096, prefix_bytes=2)
    rng = random.Random(1)
    rows = RocksRows(tmp_path, limits)
    rows.write(Batch([(b"%08d" % number, rng.randbytes(40)) for number in range(COUNT)]))
    rows.flush()
    rows.close()
    table = _table(tmp_path)
    _turn(table, table.stat().st_size // 2)
    rows = RocksRows(tmp_path, limits)
    with pytest.raises(RowsUnusableError, match="checksum"):
        list(rows.scan(b"00", b"01"))
    rows.close()


def test_what_can_be_read_of_damaged_rows_is_saved(tmp_path: Path) -> None:
    values = _made(tmp_path / "rows")
    table = _table(tmp_path / "rows")
    _turn(table, table.stat().st_size // 2)
    rows = mended_rows(tmp_path / "rows", LIMITS)
    with pytest.raises(RowsUnusableError):
        list(rows.scan(b"0", b"1"))
    rows.close()
    rows = mended_rows(tmp_path / "rows", LIMITS)
    found = dict(rows.scan(b"0", b"1"))
    assert found.items() <= values.items()
    rows.write(Batch([(b"new", b"row")]))
    rows.close()
    again = mended_rows(tmp_path / "rows", LIMITS)
    assert again.get(b"new") == b"row"
    again.close()


@pytest.mark.parametrize("hurt", ["delete", "empty", "halve", "folder"])
@pytest.mark.parametrize(
    "kind", ["*.sst", "CURRENT", "MANIFEST*", "OPTIONS*", "IDENTITY", "LOCK", "rocksdict*", "*.log"]
)
def test_any_file_of_rows_may_go(tmp_path: Path, kind: str, hurt: str) -> None:
    folder = tmp_path / "rows"
    values = _made(folder)
    path = max(folder.glob(kind))
    data = path.read_bytes()
    path.unlink()
    if hurt == "folder":
        path.mkdir()
    elif hurt != "delete":
        path.write_bytes(data[: len(data) // 2 if hurt == "halve" else 0])
    rows = mended_rows(folder, LIMITS)
    found = dict(rows.scan(b"0", b"1"))
    assert found.items() <= values.items()
    assert found or kind == "*.sst" or hurt == "folder", "what was whole is there"
    rows.write(Batch([(b"new", b"row")]))
    rows.close()
    again = mended_rows(folder, LIMITS)
    assert again.get(b"new") == b"row"
    again.close()


def test_rows_in_use_are_left_alone(tmp_path: Path) -> None:
    values = _made(tmp_path)
    rows = mended_rows(tmp_path, LIMITS)
    with pytest.raises(RowsUnusableError):
        mended_rows(tmp_path, LIMITS)
    assert dict(rows.scan(b"0", b"1")) == values
    rows.close()
