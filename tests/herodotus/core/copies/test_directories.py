"""Is a set of keys the same when it comes back from a list of ranges, and are its directories all of it?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dht.core.arcs import LAST, NONE, WHOLE, Arc, Arcs
from dht.core.ids import Key
from herodotus.core.reconciliation import Range, arcs_of, directories, ranges_of


def key(number: int) -> Key:
    return Key(bytes((number,)) + bytes(19))


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (key(10), key(20), [(b"\x0a" + bytes(10) + b"\1", b"\x14" + bytes(10) + b"\1")]),
        (key(7), key(7), [(bytes(12), None)]),
        (key(200), key(1), [(bytes(12), b"\1" + bytes(10) + b"\1"), (b"\xc8" + bytes(10) + b"\1", None)]),
        (key(200), LAST, [(b"\xc8" + bytes(10) + b"\1", None)]),
    ],
)
def test_an_arc_begins_after_its_start_and_has_its_end(
    start: Key, end: Key, expected: list[tuple[bytes, bytes | None]]
) -> None:
    assert [tuple(one) for one in ranges_of(Arcs([Arc(start, end)]))] == expected


keys = st.one_of(st.sampled_from([Key(bytes(20)), LAST]), st.binary(min_size=20, max_size=20).map(Key))


@given(st.lists(st.builds(Arc, keys, keys), max_size=5), keys)
def test_ranges_say_of_each_position_whether_it_is_inside(arcs: list[Arc], asked: Key) -> None:
    exact = Arcs(arcs)
    ranges = ranges_of(exact)
    assert arcs_of(ranges) == exact.coarse()
    assert ranges_of(arcs_of(ranges)) == ranges
    assert ranges == tuple(sorted(ranges, key=lambda one: one.low))
    position = asked[:12]
    is_inside = any(one.low <= position and (one.high is None or position < one.high) for one in ranges)
    assert is_inside == (position in exact.coarse()) == (asked in exact.coarse())


def test_nothing_and_everything_are_ranges_too() -> None:
    assert ranges_of(NONE) == ()
    assert ranges_of(WHOLE) == (Range(bytes(12), None),)
    assert arcs_of([Range(bytes(12), None)]) == WHOLE


def test_the_directories_of_a_scope_are_all_of_it() -> None:
    scope = (Range(b"\x0f\x80" + bytes(10), b"\x12\x01" + bytes(10)), Range(b"\xfe" + bytes(11), None))
    parts = directories(scope)
    assert [top for top, _ in parts] == [0x0F, 0x10, 0x11, 0x12, 0xFE, 0xFF]
    assert ranges_of(arcs_of(part for _, part in parts)) == scope
    assert arcs_of([parts[1][1]]) <= arcs_of(scope)
    assert not arcs_of([Range(b"\x11" + bytes(11), b"\x13" + bytes(11))]) <= arcs_of(scope)
