"""The manifest's bytes are those that the page describes."""

from pathlib import Path

import pytest

from herodotus.core.layout import Compression, FileName
from herodotus.core.lost_files import LostBook, LostFile, decode_book
from herodotus.core.manifest import (
    SLOT_BYTES,
    FileList,
    FileRow,
    TailRow,
    chained,
    decode_list,
    decode_slots,
    decode_tail,
    expected,
    newest,
)

DOC = (Path(__file__).parents[3] / "docs" / "protocol" / "store.md").read_text()
ROW = TailRow(7, 12, 405, 1, chained(bytes(8), 405, 0xCBF43926))
LIST = FileList(
    3,
    2,
    6,
    {
        12: FileRow(FileName(number=12), 0, 405, 1),
        13: FileRow(
            FileName(number=13, bucket=10, epoch=2, codec=Compression.ZSTD), 1, 900, 2, bytes(range(16)), True
        ),
    },
)


def test_a_row_of_the_tail_is_as_the_page_has_it() -> None:
    assert len(ROW.encode()) == 44
    assert ROW.encode().hex() in DOC
    assert decode_tail(ROW.encode()) == ROW
    assert ROW.slot == SLOT_BYTES


def test_a_list_is_as_the_page_has_it() -> None:
    assert LIST.encode().hex() in DOC
    assert decode_list(LIST.encode()) == LIST


@pytest.mark.parametrize("at", range(44))
def test_a_row_with_a_changed_byte_is_none(at: int) -> None:
    data = bytearray(ROW.encode())
    data[at] ^= 1
    assert decode_tail(bytes(data)) is None


def test_a_list_that_is_cut_or_changed_is_none() -> None:
    data = LIST.encode()
    assert [decode_list(data[:length]) for length in range(len(data))] == [None] * len(data)
    for at in range(len(data)):
        assert decode_list(data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :]) is None


def test_of_two_slots_the_newest_whole_row_comes_first() -> None:
    older = TailRow(6, 12, 300, 0)
    data = older.encode().ljust(SLOT_BYTES, b"\0") + ROW.encode()
    assert decode_slots(data) == [ROW, older]
    assert decode_slots(data[:-1]) == [older]
    assert decode_slots(bytes(len(data))) == []
    assert decode_slots(b"") == []


def test_of_two_copies_the_newer_counts() -> None:
    newer = FileList(4, 2)
    assert newest([LIST, None, newer]) == newer
    assert newest([None]) is None


def test_a_tail_says_more_than_the_list_of_its_log_and_nothing_of_one_that_was_sealed() -> None:
    log = FileRow(FileName(number=12), 0, 100, 0)
    rows = {12: log, 20: FileRow(FileName(number=20), 0, 90, 0)}
    known = FileList(1, 0, 8, rows)
    assert expected(known, [(0, ROW)])[12].size == 100
    newer_row = ROW._replace(sequence=9)
    assert expected(known, [(0, newer_row)])[12].size == 405
    assert expected(known, [(0, newer_row)])[12].captures == 1
    assert 5 not in expected(known, [(0, TailRow(8, 5, 10, 1)), (1, newer_row)])
    newer = expected(known, [(1, TailRow(9, 21, 10, 1))])[21]
    assert (newer.slice, newer.size, newer.captures) == (1, 10, 1)


def test_without_a_list_the_tail_that_was_written_last_says_which_log_there_is() -> None:
    found = expected(None, [(0, TailRow(4, 3, 10, 1)), (1, TailRow(5, 9, 20, 2))])
    assert {number: row.size for number, row in found.items()} == {9: 20}


def test_a_file_that_goes_is_not_expected() -> None:
    assert list(expected(LIST, [])) == [12]


def test_a_book_of_losses_is_read_as_it_was_written() -> None:
    loss = LostFile(
        number=12,
        path="log/00000012.warc.gz",
        slice=0,
        size=405,
        left=227,
        captures=3,
        named=2,
        unnamed=1,
        noted_s=1_700_000_000,
    )
    book = LostBook(losses=(loss,), returned=1)
    assert decode_book(book.encode()) == book
    assert loss.waiting == 3
    assert decode_book(b"{}") is decode_book(b"no") is decode_book(b'{"version": 2}') is None
