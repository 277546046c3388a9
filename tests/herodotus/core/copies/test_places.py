"""Is it always clear who must hold what, also around the end of the circle, and while some are away?"""

import random

import pytest

from herodotus.core.copies.absence import Absence
from herodotus.core.copies.directories import (
    WHOLE_RING,
    Range,
    covers,
    directories,
    has,
    joined,
    ranges_of_arc,
    rest_of_ring,
)
from herodotus.core.copies.places import Places
from herodotus.core.index_rows import KEY_BYTES


def key(number: int) -> bytes:
    return bytes((number,)) + bytes(19)


def peer(number: int) -> bytes:
    return bytes((number,)) * 32


def test_the_first_k_hosts_after_a_key_hold_it() -> None:
    places = Places([(key(10), peer(1)), (key(20), peer(2)), (key(30), peer(1)), (key(40), peer(3))], 2)
    assert places.holders(key(5)) == (peer(1), peer(2))
    assert places.holders(key(10)) == (peer(1), peer(2))
    assert places.holders(key(11)) == (peer(2), peer(1))
    assert places.holders(key(31)) == (peer(3), peer(1))
    assert places.holders(key(200)) == (peer(1), peer(2))
    assert places.holders(key(5), 5) == (peer(1), peer(2), peer(3))


@pytest.mark.parametrize("seed", range(150))
def test_segments_of_all_peers_say_what_holders_says(seed: int) -> None:
    rng = random.Random(seed)
    count, copies = rng.randint(1, 12), rng.randint(1, 6)
    positions = [(rng.randbytes(20), peer(p)) for p in range(count) for _ in range(rng.randint(1, 3))]
    absent = [peer(p) for p in range(count) if rng.random() < 0.3]
    missed = [one for one in absent if rng.random() < 0.5]
    places = Places(positions, copies, absent=absent, missed=missed)
    for me in map(peer, range(count)):
        segments, scope = places.segments_of(me), places.scope_of(me)
        rest = rest_of_ring(scope)
        assert joined((*scope, *rest)) == WHOLE_RING
        for _ in range(20):
            at = rng.choice(positions)[0] if rng.random() < 0.3 else rng.randbytes(20)
            holders = places.holders(at)
            assert has(scope, at) == (me in holders) != has(rest, at)
            assert all(one.holders == holders for one in segments if has(one.ranges, at))
        assert all(me not in one.holders for one in places.segments_in(rest))


@pytest.mark.parametrize("seed", range(10))
def test_segments_in_a_scope_of_many_ranges_are_all_of_it_and_nothing_else(seed: int) -> None:
    rng = random.Random(seed)
    places = Places([(rng.randbytes(20), peer(p % 9)) for p in range(rng.randint(1, 60))], 3)
    ends = sorted(rng.randbytes(KEY_BYTES) for _ in range(2 * rng.randint(1, 60)))
    lows, highs = ends[::2], [*ends[1:-1:2], rng.choice([ends[-1], None])]
    scope = tuple(Range(low, high) for low, high in zip(lows, highs, strict=True))
    segments = places.segments_in(scope)
    assert joined(part for one in segments for part in one.ranges) == scope
    for one in segments:
        for part in one.ranges:
            last = part.low if part.high is None else before(part.high)
            assert places.holders(part.low + bytes(8)) == places.holders(last + bytes(8)) == one.holders


def before(position: bytes) -> bytes:
    return (int.from_bytes(position, "big") - 1).to_bytes(KEY_BYTES, "big")


def test_who_is_missed_is_passed_over_only_where_too_few_are_within_reach() -> None:
    positions = [(key(10 * n), peer(n)) for n in range(1, 9)]
    two_away = Places(positions, 6, absent=[peer(1), peer(2)], missed=[peer(1), peer(2)])
    assert two_away.holders(key(5)) == tuple(map(peer, range(1, 7)))  # four of six are there
    three = [peer(1), peer(2), peer(3)]
    three_away = Places(positions, 6, absent=three, missed=three)
    assert three_away.holders(key(5)) == tuple(map(peer, range(4, 9)))
    not_yet = Places(positions, 6, absent=three)
    assert not_yet.holders(key(5)) == tuple(map(peer, range(1, 7)))


def test_the_absent_keep_their_place_for_a_day() -> None:
    absence = Absence(departed_s=86_400, low_s=900, copies=2)
    everybody = [(key(10), peer(1)), (key(20), peer(2)), (key(30), peer(3))]
    absence.see(everybody, 0)
    assert absence.see(everybody[1:], 100) == []
    assert absence.places(100).holders(key(5)) == (peer(1), peer(2))
    assert not absence.advance(86_499)
    assert absence.see([(key(77), peer(1)), *everybody[1:]], 86_499) == [
        peer(1)
    ]  # at another place: it is back
    assert absence.places(86_499).holders(key(5)) == (peer(2), peer(3))
    absence.see(everybody[1:], 90_000)
    assert absence.next_deadline() == 90_000 + 86_400
    assert absence.advance(176_400)
    assert absence.places(176_400).holders(key(60)) == (peer(2), peer(3))


def test_who_departed_for_good_is_not_waited_for() -> None:
    absence = Absence(departed_s=86_400, low_s=900, copies=2)
    absence.see([(key(10), peer(1)), (key(20), peer(2))], 0)
    absence.see([(key(20), peer(2))], 1)
    absence.depart(peer(1))
    assert absence.places(2).holders(key(5)) == (peer(2),)


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (key(10), key(20), [(b"\x0a" + bytes(10) + b"\1", b"\x14" + bytes(10) + b"\1")]),
        (key(7), key(7), [(bytes(12), None)]),
        (key(200), key(1), [(bytes(12), b"\1" + bytes(10) + b"\1"), (b"\xc8" + bytes(10) + b"\1", None)]),
        (key(200), b"\xff" * 20, [(b"\xc8" + bytes(10) + b"\1", None)]),
    ],
)
def test_an_arc_begins_after_its_start_and_has_its_end(
    start: bytes, end: bytes, expected: list[tuple[bytes, bytes | None]]
) -> None:
    assert [tuple(one) for one in ranges_of_arc(start, end)] == expected


def test_the_directories_of_a_scope_are_all_of_it() -> None:
    scope = (Range(b"\x0f\x80" + bytes(10), b"\x12\x01" + bytes(10)), Range(b"\xfe" + bytes(11), None))
    parts = directories(scope)
    assert [top for top, _ in parts] == [0x0F, 0x10, 0x11, 0x12, 0xFE, 0xFF]
    assert joined(part for _, part in parts) == scope
    assert covers(scope, parts[1][1])
    assert not covers(scope, Range(b"\x11" + bytes(11), b"\x13" + bytes(11)))
