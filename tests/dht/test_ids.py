"""The circle: order, intervals, and positions written out by hand."""

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from dht.core.ids import CIRCLE, Key, distance, is_between, is_in_arc, key_from_number, number_of, position_of

keys = st.integers(0, CIRCLE - 1).map(key_from_number)
near_keys = st.integers(-3, 3).map(key_from_number)
points = keys | near_keys


def test_slot_zero_gives_the_position_of_the_thesis() -> None:
    expected = hashlib.sha1(bytes((10, 0, 0, 1)) + bytes((0, 3))).digest()
    assert position_of(bytes((10, 0, 0, 1)), 4484, 0, 3, "ip") == expected


def test_a_slot_is_one_byte_between_address_and_index() -> None:
    expected = hashlib.sha1(bytes((10, 0, 0, 1)) + b"\x02" + bytes((0, 3))).digest()
    assert position_of(bytes((10, 0, 0, 1)), 4484, 2, 3, "ip") == expected


def test_the_lower_half_of_an_ipv6_address_cannot_choose_a_position() -> None:
    prefix = bytes(range(8))
    assert position_of(prefix + b"\x00" * 8, 1, 0, 0, "ip") == position_of(
        prefix + b"\x01" * 8, 1, 0, 0, "ip"
    )


def test_without_address_check_the_port_takes_part() -> None:
    host = bytes((127, 0, 0, 1))
    assert position_of(host, 1, 0, 0, "ip") == position_of(host, 2, 0, 0, "ip")
    assert position_of(host, 1, 0, 0, "off") != position_of(host, 2, 0, 0, "off")


@given(points, points, points)
def test_an_arc_is_its_inside_and_its_end(start: Key, key: Key, end: Key) -> None:
    assert is_in_arc(start, key, end) == (is_between(start, key, end) or key == end)


@given(points, points, points)
def test_intervals_agree_with_distances(start: Key, key: Key, end: Key) -> None:
    whole = distance(start, end) or CIRCLE
    assert is_between(start, key, end) == (0 < distance(start, key) < whole)


@given(keys)
def test_keys_and_numbers_round_trip(key: Key) -> None:
    assert key_from_number(number_of(key)) == key


@given(keys, keys)
def test_bytes_sort_as_their_numbers(one: Key, other: Key) -> None:
    assert (one < other) == (number_of(one) < number_of(other))
