"""The fuzz targets in a short form; `scripts/fuzz ring` runs them for as long as one likes."""

from hypothesis import given
from hypothesis import strategies as st

from tests.dht import fuzzing
from tests.dht.vectors import vectors

VECTORS = [data for _, data in vectors()]


@given(st.one_of(st.binary(max_size=1_300), st.sampled_from(VECTORS)))
def test_any_bytes_leave_every_way_in_well(data: bytes) -> None:
    for target in fuzzing.ALL:
        target(data)


@given(st.sampled_from(VECTORS), st.data())
def test_bent_vectors_leave_every_way_in_well(vector: bytes, data: st.DataObject) -> None:
    bent = bytearray(vector)
    for _ in range(data.draw(st.integers(1, 3))):
        bent[data.draw(st.integers(0, len(bent) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(bent)))
    for target in fuzzing.ALL:
        target(bytes(bent[:cut]))
        target(bytes(bent))
