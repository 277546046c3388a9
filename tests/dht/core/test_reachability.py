"""Transcripts of the dial-back test: what was reported, and what standing came of it."""

import pytest

from dht.core.reachability import (
    DIAL_BACKS_WANTED,
    Reachability,
    ReachabilityMachine,
    RequestDialBacks,
    StandingChanged,
    choose_helpers,
)


def started(wanted: int = DIAL_BACKS_WANTED, *, is_prefix_distinct: bool = True) -> ReachabilityMachine:
    machine = ReachabilityMachine(wanted, now=0.0, is_prefix_distinct=is_prefix_distinct)
    machine.advance(0.0)
    return machine


def standing_of(machine: ReachabilityMachine) -> Reachability:
    """By a call, since the type checker believes that a property stays as it was."""
    return machine.standing


def report(
    machine: ReachabilityMachine,
    prefixes: str,
    *,
    is_reached: bool,
    by_stream: bool | None = None,
    round_number: int = 1,
) -> None:
    for prefix in prefixes:
        machine.dialed_back(
            round_number=round_number,
            prefix=prefix.encode(),
            is_reached=is_reached,
            by_stream=is_reached if by_stream is None else by_stream,
            now=1.0,
        )


def test_three_dial_backs_of_different_networks_make_a_member() -> None:
    machine = started()
    assert machine.take_effects() == [RequestDialBacks(round=1, wanted=3)]
    report(machine, "ab", is_reached=True)
    assert machine.take_effects() == []
    report(machine, "c", is_reached=True)
    reason = "3 peers of different networks could call this peer back"
    assert machine.take_effects() == [StandingChanged(standing=Reachability.MEMBER, reason=reason)]
    assert machine.next_deadline() == 3601.0


def test_dial_backs_of_one_network_count_once() -> None:
    machine = started()
    report(machine, "aaaaab", is_reached=True)
    assert standing_of(machine) is Reachability.UNKNOWN
    machine.advance(30.0)
    assert standing_of(machine) is Reachability.LEAF
    assert machine.reason == "only 2 of 3 needed networks could call this peer back, 0 could not"


def test_in_a_lan_charter_one_dial_back_is_enough() -> None:
    machine = started(1, is_prefix_distinct=False)
    report(machine, "a", is_reached=True)
    assert standing_of(machine) is Reachability.MEMBER


def test_where_prefixes_do_not_count_three_of_one_network_do() -> None:
    machine = started(is_prefix_distinct=False)
    report(machine, "aaa", is_reached=True)
    assert standing_of(machine) is Reachability.MEMBER


def test_in_a_loopback_charter_nobody_is_asked() -> None:
    machine = started(0)
    reason = "this network does not ask for dial-backs"
    assert machine.take_effects() == [StandingChanged(standing=Reachability.MEMBER, reason=reason)]
    assert machine.next_deadline() is None


def test_a_closed_router_is_named_in_plain_words() -> None:
    machine = started()
    report(machine, "abc", is_reached=False)
    machine.advance(30.0)
    assert standing_of(machine) is Reachability.LEAF
    assert "none got through" in machine.reason
    assert "forward TCP and UDP of this peer's port" in machine.reason


def test_a_ring_with_nobody_to_ask_makes_a_leaf_that_asks_again() -> None:
    machine = started()
    machine.take_effects()
    machine.helpers_missing(round_number=1, now=2.0)
    assert standing_of(machine) is Reachability.LEAF
    assert machine.next_deadline() == 62.0
    machine.take_effects()
    machine.advance(62.0)
    assert machine.take_effects() == [RequestDialBacks(round=2, wanted=3)]


def test_a_leaf_waits_twice_as_long_each_time_up_to_half_an_hour() -> None:
    machine = started()
    waits = []
    now = 0.0
    for round_number in range(1, 9):
        machine.helpers_missing(round_number=round_number, now=now)
        deadline = machine.next_deadline()
        assert deadline is not None
        waits.append(deadline - now)
        now = deadline
        machine.advance(now)
    assert waits == [60, 120, 240, 480, 960, 1800, 1800, 1800]


def test_a_member_survives_one_failed_round_and_not_two() -> None:
    machine = started()
    report(machine, "abc", is_reached=True)
    machine.advance(3601.0)
    machine.helpers_missing(round_number=2, now=3602.0)
    assert standing_of(machine) is Reachability.MEMBER
    machine.advance(3662.0)
    machine.helpers_missing(round_number=3, now=3663.0)
    assert standing_of(machine) is Reachability.LEAF


def test_a_changed_address_is_tested_at_once_and_one_failure_then_ends_membership() -> None:
    machine = started()
    report(machine, "abc", is_reached=True)
    machine.address_changed(100.0)
    assert machine.next_deadline() == 100.0
    assert standing_of(machine) is Reachability.MEMBER
    machine.advance(100.0)
    machine.advance(130.0)
    assert standing_of(machine) is Reachability.LEAF


def test_reports_of_an_earlier_round_do_not_count() -> None:
    machine = started()
    machine.advance(30.0)
    machine.advance(90.0)
    report(machine, "abc", is_reached=True, round_number=1)
    assert standing_of(machine) is Reachability.LEAF
    report(machine, "abc", is_reached=True, round_number=2)
    assert standing_of(machine) is Reachability.MEMBER


def test_helpers_are_of_different_networks_with_two_to_spare() -> None:
    candidates = [(bytes([n]), b"same") for n in range(5)] + [(bytes([n]), bytes([n])) for n in range(10, 20)]
    assert choose_helpers(candidates, 3) == [b"\0", b"\x0a", b"\x0b", b"\x0c", b"\x0d"]


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(AssertionError):
        ReachabilityMachine(-1, now=0.0)


def test_a_ring_of_too_few_networks_makes_the_untested_a_member_on_trust_and_tests_it_later() -> None:
    machine = started()
    machine.networks_missing(round_number=1, known=2, now=1.0)
    assert standing_of(machine) is Reachability.MEMBER
    assert "2 other networks, 3 are needed" in machine.reason
    machine.take_effects()
    machine.advance(61.0)
    assert machine.take_effects() == [RequestDialBacks(round=2, wanted=3)]


def test_too_few_networks_do_not_make_a_member_of_whom_was_found_unreachable() -> None:
    machine = started()
    report(machine, "abc", is_reached=False)
    machine.helpers_missing(round_number=1, now=1.0)
    assert standing_of(machine) is Reachability.LEAF
    machine.advance(61.0)
    machine.networks_missing(round_number=2, known=2, now=62.0)
    assert standing_of(machine) is Reachability.LEAF
    machine.networks_missing(round_number=1, known=2, now=63.0)
    assert machine.next_deadline() == 122.0


@pytest.mark.parametrize(
    ("is_reached", "by_stream", "says"),
    [(True, False, "UDP arrives and TCP does not"), (False, True, "TCP arrives and UDP does not")],
)
def test_a_peer_that_only_one_protocol_reaches_is_a_leaf_and_told_which(
    is_reached: bool, by_stream: bool, says: str
) -> None:
    machine = started()
    report(machine, "abcde", is_reached=is_reached, by_stream=by_stream)
    machine.helpers_missing(round_number=1, now=2.0)
    assert standing_of(machine) is Reachability.LEAF
    assert says in machine.reason
    assert "forward TCP and UDP" in machine.reason


def test_a_member_that_streams_no_longer_reach_is_one_no_more() -> None:
    machine = started()
    report(machine, "abc", is_reached=True)
    assert standing_of(machine) is Reachability.MEMBER
    for number in (2, 3):
        deadline = machine.next_deadline()
        assert deadline is not None
        machine.advance(deadline)
        report(machine, "abc", is_reached=True, by_stream=False, round_number=number)
        machine.helpers_missing(round_number=number, now=deadline + 1)
    assert standing_of(machine) is Reachability.LEAF
