"""Does the judge of the whole system find what is wrong, and nothing else?"""

from collections.abc import Collection
from random import Random

import pytest

from scripts.sweeps.judging import Content, Excuse, Visit, complete, copied, nothing_else, polite
from scripts.sweeps.plan import OUT_MAX, Kind, faults_of_day

A, B, C = (Content(f"http://127.16.1.1/{name}", name * 64) for name in "abc")
ROBOTS = Content("http://127.16.1.1/robots.txt", "d" * 64)


@pytest.mark.parametrize(
    ("held", "is_ok", "detail"),
    [
        ({A, B, C}, True, "3 of 3"),
        ({A, B}, False, "2 of 3; missing day 1 http://127.16.1.1/c"),
        ({A, B, Content(C.url, "e" * 64)}, False, "2 of 3; missing day 1 http://127.16.1.1/c"),
    ],
)
def test_what_was_seen_on_any_day_must_be_there_with_these_very_bytes(
    held: Collection[Content], is_ok: bool, detail: str
) -> None:
    verdict = complete({0: {A, B}, 1: {C}}, held)
    assert (verdict.is_ok, verdict.detail) == (is_ok, detail)


def test_a_web_on_which_nothing_was_seen_proves_nothing() -> None:
    assert not complete({}, {A}).is_ok
    assert not copied({}, 6).is_ok
    assert not polite([], 0.1, 0.001).is_ok


def test_what_was_never_there_is_strange_and_robots_txt_is_not() -> None:
    assert nothing_else({0: {A, B}}, {A, ROBOTS}).is_ok
    verdict = nothing_else({0: {A}}, {A, Content(A.url, "f" * 64)})
    assert (verdict.is_ok, verdict.detail) == (False, f"1 strange: {A.url} {'f' * 12}")


def test_copies_are_counted_and_more_than_enough_is_enough() -> None:
    verdict = copied({A: 6, B: 7, C: 6}, 6)
    assert (verdict.is_ok, verdict.detail) == (True, "contents with 6 copies 2, 7 copies 1")
    assert not copied({A: 6, B: 5}, 6).is_ok


def visits(*moments: float, host: str = "h", client: str = "10.77.0.1") -> list[Visit]:
    return [Visit(at, host, client) for at in moments]


def test_two_visits_within_the_delay_are_found_whoever_made_them() -> None:
    assert polite(visits(0.0, 0.1, 0.2), 0.1, 0.001).is_ok
    assert polite(visits(0.0, 0.0995), 0.1, 0.001).is_ok
    assert not polite(visits(0.0, 0.098), 0.1, 0.001).is_ok
    assert not polite([*visits(0.0), *visits(0.05, client="10.77.0.2")], 0.1, 0.001).is_ok
    assert polite([*visits(0.0), *visits(0.05, host="other"), *visits(0.2)], 0.1, 0.001).is_ok


def test_an_excuse_is_for_its_time_and_its_peer_only() -> None:
    hasty = visits(5.0, 5.01)
    assert polite(hasty, 0.1, 0.001, [Excuse(4.0, 6.0, "10.77.0.1")]).is_ok
    assert polite(hasty, 0.1, 0.001, [Excuse(4.0, 6.0, "")]).is_ok
    assert not polite(hasty, 0.1, 0.001, [Excuse(4.0, 6.0, "10.77.0.2")]).is_ok
    assert not polite(hasty, 0.1, 0.001, [Excuse(6.0, 8.0, "")]).is_ok


@pytest.mark.parametrize("seed", range(50))
def test_faults_leave_enough_peers_and_end_within_their_day(seed: int) -> None:
    faults = faults_of_day(Random(seed), 12, has_lines=True, disks=(0, 1), can_split=True)
    assert {fault.kind for fault in faults} == set(Kind)
    out = [peer for fault in faults if fault.kind in (Kind.KILL, Kind.STOP) for peer in fault.peers]
    assert len(out) == len(set(out)) <= OUT_MAX
    assert all(0 <= fault.begins < fault.ends <= 0.9 for fault in faults)
    again = faults_of_day(Random(seed), 12, has_lines=True, disks=(0, 1), can_split=True)
    assert faults == again


def test_a_machine_without_lines_and_disks_kills_and_stops_only() -> None:
    faults = faults_of_day(Random(1), 12, has_lines=False, disks=(), can_split=True)
    assert {fault.kind for fault in faults} == {Kind.KILL, Kind.STOP}
