"""When does a member count as uncallable, and who is knocked at next?"""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from herodotus.core.reach import (
    AGAIN_S,
    ARRANGED_REST_S,
    CALLS,
    CALLS_WITHIN_S,
    CONFIRM_S,
    CYCLES,
    NEIGHBOURS_RARER,
    PROVEN_MIN_S,
    TARGETS_MAX,
    Reach,
)

A, B, C = b"a", b"b", b"c"


def watching(*peers: bytes, every_s: float = 10.0) -> Reach:
    reach = Reach(every_s)
    reach.watch(peers, peers)
    return reach


def test_a_ring_is_proven_once_all_neighbours_were_reached_and_for_a_while() -> None:
    reach = watching(A, B)
    assert not reach.is_proven(0.0)
    reach.knocked(A, 1.0)
    assert not reach.is_proven(1.0)
    reach.called(B, 2.0)
    assert reach.is_proven(2.0)
    assert reach.is_proven(1.0 + PROVEN_MIN_S)
    assert not reach.is_proven(2.0 + PROVEN_MIN_S)


def test_one_knock_in_vain_is_chance_and_two_are_not() -> None:
    reach = watching(A)
    reach.knocked(A, 1.0)
    reach.knocked(A, 11.0, "no answer")
    assert reach.uncallable(11.0) == []
    assert reach.next_knock(12.0) == (A, 11.0 + CONFIRM_S)
    reach.knocked(A, 16.0, "no answer")
    assert reach.uncallable(16.0) == [(A, "no answer", 11.0)]
    assert not reach.is_proven(16.0)
    assert reach.next_knock(17.0) == (A, 16.0 + AGAIN_S)
    reach.knocked(A, 50.0)
    assert reach.uncallable(50.0) == []
    assert reach.is_proven(50.0)


def test_calls_in_vain_count_though_the_port_is_open_until_one_works() -> None:
    reach = watching(A)
    reach.knocked(A, 0.0)
    for at in range(CALLS):
        assert reach.uncallable(float(at)) == []
        reach.called(A, float(at), "the handshake ended")
        reach.knocked(A, at + 0.5)
    assert reach.uncallable(10.0) == [(A, "the handshake ended", 0.0)]
    assert reach.uncallable(CALLS + CALLS_WITHIN_S) == []
    reach.called(A, 11.0)
    assert reach.uncallable(11.0) == []


def test_a_call_in_vain_is_followed_by_a_knock_at_once_also_at_others_than_neighbours() -> None:
    reach = watching(A)
    reach.knocked(A, 0.0)
    reach.watch([A], [A, B])
    reach.called(B, 5.0, "deadline")
    assert reach.next_knock(5.0) == (B, 5.0)
    reach.watch([A], [A])
    assert reach.next_knock(5.0) == (A, 40.0)


def test_the_ward_is_knocked_at_in_its_time_whatever_calls_work_and_neighbours_meanwhile() -> None:
    reach = Reach(10.0)
    reach.watch([A, B], [A, B, C], ward=C)
    for peer in (A, B, C):
        reach.called(peer, 0.0)
    assert reach.next_knock(1.0) == (C, 1.0), "a call may have gone by an old connection"
    for at in (1.0, 11.0, 21.0, 31.0, 41.0, 51.0, 61.0, 71.0):
        assert reach.next_knock(at) == (C, at)
        reach.knocks(C, at)
        reach.knocked(C, at)
        reach.called(C, at + 5.0)
    assert reach.next_knock(71.0) == (A, 80.0), "the ward's knocks put off nobody's"
    reach.knocks(A, 80.0)
    reach.knocked(A, 80.0)
    for at in (81.0, 91.0, 101.0, 111.0):
        assert reach.next_knock(at - 1.0) == (C, at)
        reach.knocks(C, at)
        reach.knocked(C, at)
    assert reach.next_knock(111.0) == (B, 120.0), "one neighbour in four times as many seconds"


def test_what_a_relay_has_to_arrange_is_tried_rarely_and_counts_for_longer() -> None:
    reach = Reach(10.0)
    reach.watch([A, B], [A, B], arranged=[B])
    reach.knocked(A, 0.0)
    reach.knocked(B, 0.0)
    assert reach.next_knock(0.0) == (A, 80.0)
    reach.knocked(A, ARRANGED_REST_S - 1.0)
    assert reach.next_knock(ARRANGED_REST_S) == (B, ARRANGED_REST_S)
    reach.knocked(A, CYCLES * ARRANGED_REST_S)
    assert reach.is_proven(CYCLES * ARRANGED_REST_S)
    assert not reach.is_proven(CYCLES * ARRANGED_REST_S + 1.0)


def test_without_knocks_calls_alone_tell() -> None:
    reach = watching(A, every_s=0.0)
    assert reach.is_proven(0.0)
    assert reach.next_knock(0.0) is None
    for at in range(CALLS):
        reach.called(A, float(at), "deadline")
    assert not reach.is_proven(9.0)


@given(st.integers(1, 2 * TARGETS_MAX), st.floats(1.0, 60.0))
def test_each_neighbour_has_its_turn_and_no_more_than_one_in_so_many_seconds(
    count: int, every_s: float
) -> None:
    peers = [bytes((n,)) for n in range(count)]
    reach, now, knocked = watching(*peers, every_s=every_s), 0.0, list[tuple[float, bytes]]()
    cycle_s = NEIGHBOURS_RARER * every_s * min(count, TARGETS_MAX)
    while now < 3 * cycle_s:
        found = reach.next_knock(now)
        assert found is not None
        now = max(now, found[1])
        reach.knocks(found[0], now)
        reach.knocked(found[0], now)
        knocked.append((now, found[0]))
    first = min(count, TARGETS_MAX)
    assert {peer for _, peer in knocked[:first]} == set(peers[:TARGETS_MAX]), "at once at first"
    later = [at for at, _ in knocked[first:]]
    assert all(after - before >= 0.999 * NEIGHBOURS_RARER * every_s for before, after in pairwise(later))
    assert {peer for at, peer in knocked if at > cycle_s / 2} == set(peers[:TARGETS_MAX])
    assert reach.is_proven(now)
