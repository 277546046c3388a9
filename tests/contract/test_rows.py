"""Rows on disk and rows in a simulation answer alike, and what a crash leaves is a prefix of the batches."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawler.core.errors import RowsUnusableError
from crawler.core.rows import Batch, RowLimits, Rows, after
from crawler.frontier_rows import FRONTIER_ROWS
from crawler.rocks import RocksRows
from simnet.rows import KeptRows

PREFIXED = RowLimits(write_buffer_bytes=2**16, prefix_bytes=2, has_log=False, bloom_bits=8, cache_bytes=2**20)
KEYS = st.binary(min_size=1, max_size=4).map(lambda key: b"k" + key)
CHANGES = st.lists(st.tuples(KEYS, st.one_of(st.none(), st.binary(max_size=3))), max_size=8)


@contextmanager
def on_disk(limits: RowLimits) -> Iterator[Rows]:
    with tempfile.TemporaryDirectory() as folder:
        rows = RocksRows(Path(folder), limits)
        try:
            yield rows
        finally:
            rows.close()


@contextmanager
def simulated() -> Iterator[Rows]:
    yield KeptRows().opened()


def applied(batches: list[list[tuple[bytes, bytes | None]]]) -> dict[bytes, bytes]:
    model: dict[bytes, bytes] = {}
    for batch in batches:
        for key, value in batch:
            if value is None:
                model.pop(key, None)
            else:
                model[key] = value
    return model


@pytest.mark.parametrize("kind", ["logged", "prefixed", "simulated"])
@settings(max_examples=40, deadline=None)
@given(batches=st.lists(CHANGES, max_size=6), start=KEYS, end=KEYS)
def test_rows_are_an_ordered_map(
    kind: str, batches: list[list[tuple[bytes, bytes | None]]], start: bytes, end: bytes
) -> None:
    kinds = {"logged": on_disk(FRONTIER_ROWS), "prefixed": on_disk(PREFIXED), "simulated": simulated()}
    with kinds[kind] as rows:
        for batch in batches:
            rows.write(Batch(list(batch)))
        rows.flush()
        model = applied(batches)
        between = sorted((key, value) for key, value in model.items() if start <= key < end)
        assert list(rows.scan(start, end)) == between
        assert list(rows.keys(start, end)) == [key for key, _ in between]
        assert list(rows.scan(b"k", after(b"k"))) == sorted(model.items())
        assert rows.last_before(start, end) == (between[-1] if between else None)
        firsts = {key[:2]: key for key, _ in reversed(between)}
        assert list(rows.first_keys(start, end, 2)) == sorted(firsts.values())
        asked = [start, end, b"none"]
        assert rows.get_many(asked) == [model.get(key) for key in asked] == [rows.get(key) for key in asked]
        rows.clear()
        assert list(rows.keys(b"", b"\xff")) == []


def test_one_process_at_a_time_has_a_folder_open(tmp_path: Path) -> None:
    rows = RocksRows(tmp_path, FRONTIER_ROWS)
    with pytest.raises(RowsUnusableError):
        RocksRows(tmp_path, FRONTIER_ROWS)
    rows.close()


@given(batches=st.lists(CHANGES, max_size=6), flushed=st.integers(0, 6), seed=st.integers(0, 99))
def test_a_crash_leaves_what_was_flushed_and_a_prefix_of_the_rest(
    batches: list[list[tuple[bytes, bytes | None]]], flushed: int, seed: int
) -> None:
    kept = KeptRows()
    rows = kept.opened()
    for number, batch in enumerate(batches):
        if number == flushed:
            rows.flush()
        rows.write(Batch(list(batch)))
    kept.crash(Random(seed))
    found = dict(kept.opened().scan(b"k", after(b"k")))
    least = flushed if flushed < len(batches) else 0
    assert found in [applied(batches[:count]) for count in range(least, len(batches) + 1)]


def test_a_life_that_has_ended_writes_nothing() -> None:
    def check_alive() -> None:
        raise RuntimeError("ended")

    kept = KeptRows()
    rows = kept.opened(check_alive)
    with pytest.raises(RuntimeError, match="ended"):
        rows.write(Batch([(b"k", b"")]))
    assert kept.opened().get(b"k") is None
