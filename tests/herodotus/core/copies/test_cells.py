"""A sketch gives away the difference of two sets, and nothing that is not there."""

import hashlib
import random

import pytest

from herodotus.core.archive_errors import MalformedRecordError
from herodotus.core.copies.cells import Sketch


def _elements(start: int, end: int) -> list[bytes]:
    return [hashlib.sha256(b"%d" % n).digest()[:16] for n in range(start, end)]


@pytest.mark.parametrize(("ours", "theirs"), [(0, 0), (1, 0), (0, 3), (7, 5), (60, 80), (500, 500)])
def test_the_difference_comes_out_of_a_prefix_twice_as_long(ours: int, theirs: int) -> None:
    common = _elements(0, 2_000)
    mine, yours = _elements(10_000, 10_000 + ours), _elements(20_000, 20_000 + theirs)
    cells = 8 + 2 * (ours + theirs)
    sketch = Sketch.of([*common, *mine], 4_096).prefix(cells)
    sketch.merge(Sketch.decode(Sketch.of([*common, *yours], cells).encode()), sign=-1)
    found = sketch.difference()
    assert found.is_complete
    assert found.ours == frozenset(mine)
    assert found.theirs == frozenset(yours)


def test_a_prefix_too_short_is_told_from_no_difference() -> None:
    sketch = Sketch.of(_elements(0, 500), 600)
    assert not sketch.prefix(100).difference().is_complete
    assert not sketch.prefix(0).difference().is_complete
    assert sketch.prefix(600).difference().is_complete is False or len(sketch.difference().ours) == 500


def test_sketches_of_disjoint_sets_add_up_and_removing_undoes_adding() -> None:
    parts = [Sketch.of(_elements(at, at + 50), 300) for at in range(0, 200, 50)]
    total = Sketch(300)
    for part in parts:
        total.merge(part)
    assert total == Sketch.of(_elements(0, 200), 300)
    for element in _elements(0, 150):
        total.add(element, -1)
    assert total == parts[3]


def test_whatever_a_stranger_sends_ends_as_an_error_or_as_incomplete() -> None:
    rng = random.Random(1)
    honest = Sketch.of(_elements(0, 40), 100).encode()
    outcomes = set[bool | None]()
    for _ in range(300):
        data = bytearray(honest[: rng.randint(1, len(honest))])
        for _ in range(rng.randint(1, 6)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            outcomes.add(Sketch.decode(bytes(data)).difference().is_complete)
        except MalformedRecordError:
            outcomes.add(None)
    assert outcomes == {None, False}


def test_the_bytes_of_a_sketch() -> None:
    encoded = Sketch.of(_elements(0, 2), 3).encode()
    # Both are in the first two cells; in the third SHA-256("1") is alone.
    assert encoded.hex() == (
        "346a591500fc93d94439f8229233532e8ffd3d6cd70b8eeb04"
        "346a591500fc93d94439f8229233532e8ffd3d6cd70b8eeb04"
        "6b86b273ff34fce19d6b804eff5a3f579aede930bc45b76002"
    )
