"""Cells give away the difference of two sets, and nothing that is not there."""

import hashlib
import random

import pytest

from herodotus.core.copies.symbols import CELLS_MAX, CellReader, Decoder, Symbols, encode_cells
from herodotus.core.errors import MalformedError


def _elements(start: int, end: int) -> list[bytes]:
    return [hashlib.sha256(b"%d" % n).digest()[:16] for n in range(start, end)]


def _decoded(ours: list[bytes], theirs: list[bytes], cells: int) -> Decoder:
    decoder = Decoder(Symbols(ours))
    decoder.take(CellReader().feed(encode_cells(Symbols(theirs).cells(0, cells))))
    return decoder


@pytest.mark.parametrize(("ours", "theirs"), [(0, 0), (1, 0), (0, 3), (7, 5), (60, 80), (500, 500)])
def test_the_difference_comes_out_of_cells_twice_as_many(ours: int, theirs: int) -> None:
    common = _elements(0, 2_000)
    mine, yours = _elements(10_000, 10_000 + ours), _elements(20_000, 20_000 + theirs)
    found = _decoded([*common, *mine], [*common, *yours], 8 + 2 * (ours + theirs))
    assert found.is_complete
    assert found.ours == set(mine)
    assert found.theirs == set(yours)


def test_too_few_cells_are_told_from_no_difference() -> None:
    assert not _decoded(_elements(0, 500), [], 100).is_complete
    assert not _decoded(_elements(0, 500), [], 0).is_complete
    enough = _decoded(_elements(0, 500), [], 1_000)
    assert (enough.is_complete, len(enough.ours)) == (True, 500)


def test_cells_that_come_in_pieces_are_those_that_come_at_once() -> None:
    ours, theirs = _elements(0, 300), _elements(200, 600)
    cells, decoder, reader = Symbols(theirs), Decoder(Symbols(ours)), CellReader()
    data = b"".join(encode_cells(cells.cells(at, at + 50)) for at in range(0, 1_200, 50))
    for at in range(0, len(data), 777):
        decoder.take(reader.feed(data[at : at + 777]))
    assert decoder.is_complete
    assert (decoder.ours, decoder.theirs) == (set(_elements(0, 200)), set(_elements(300, 600)))


def test_whatever_a_stranger_sends_is_an_error_or_incomplete_or_the_truth() -> None:
    rng = random.Random(1)
    honest = encode_cells(Symbols(_elements(0, 40)).cells(0, 100))
    outcomes = set[bool | None]()
    for _ in range(300):
        data = bytearray(honest[: rng.randint(1, len(honest))])
        for _ in range(rng.randint(1, 6)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        decoder = Decoder(Symbols([]))
        try:
            decoder.take(CellReader().feed(bytes(data)))
            outcomes.add(decoder.is_complete)
            if decoder.is_complete:  # what was bent came after what was needed
                assert decoder.theirs == set(_elements(0, 40))
        except MalformedError:
            outcomes.add(None)
    assert outcomes >= {None, False}
    with pytest.raises(MalformedError):
        CellReader().feed(bytes(24) + b"\xff" * 9)
    with pytest.raises(MalformedError):
        Symbols([]).cells(0, CELLS_MAX + 1)


def test_the_bytes_of_cells() -> None:
    encoded = encode_cells(Symbols(_elements(0, 2)).cells(0, 3))
    # Both are in the first two cells; in the third SHA-256("1") is alone.
    assert encoded.hex() == (
        "346a591500fc93d94439f8229233532e8ffd3d6cd70b8eeb04"
        "346a591500fc93d94439f8229233532e8ffd3d6cd70b8eeb04"
        "6b86b273ff34fce19d6b804eff5a3f579aede930bc45b76002"
    )
