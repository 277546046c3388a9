"""Transcripts of the dial-back test: what was reported, and what standing came of it."""

import pytest

from dht.core.reachability import (
    DIAL_BACKS_WANTED,
    Reachability,
    ReachabilityMachine,
    RequestDialBacks,
    RoundFailed,
    Spot,
    StandingChanged,
    Warmth,
    choose_helpers,
)


def started(wanted: int = DIAL_BACKS_WANTED, *, is_prefix_distinct: bool = True) -> ReachabilityMachine:
    machine = ReachabilityMachine(wanted, now=0.0, is_prefix_distinct=is_prefix_distinct)
    machine.spot = Spot(host="203.0.113.7", port=4484, inside="192.168.1.11")
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
    warmth: Warmth = Warmth.STRANGER,
) -> None:
    for prefix in prefixes:
        machine.dialed_back(
            round_number=round_number,
            prefix=prefix.encode(),
            is_reached=is_reached,
            by_stream=is_reached if by_stream is None else by_stream,
            warmth=warmth,
            now=1.0,
        )


def test_three_dial_backs_of_different_networks_make_a_member() -> None:
    machine = started()
    assert machine.take_effects() == [RequestDialBacks(round=1, wanted=3)]
    report(machine, "ab", is_reached=True)
    assert machine.take_effects() == []
    report(machine, "c", is_reached=True)
    reason = "Member. 3 peers in 3 networks called this peer by UDP and TCP at 203.0.113.7:4484."
    assert machine.take_effects() == [StandingChanged(standing=Reachability.MEMBER, reason=reason)]
    assert machine.next_deadline() == 3601.0


def test_dial_backs_of_one_network_count_once() -> None:
    machine = started()
    report(machine, "aaaaab", is_reached=True)
    assert standing_of(machine) is Reachability.UNKNOWN
    machine.advance(30.0)
    assert standing_of(machine) is Reachability.LEAF
    assert machine.reason == (
        "Not callable yet: 2 peers tried, and 2 of 3 needed networks got through to 203.0.113.7:4484. In the router,"
        " forward TCP and UDP 4484 to 192.168.1.11."
    )


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
    reason = "Member: this network asks for no test."
    assert machine.take_effects() == [StandingChanged(standing=Reachability.MEMBER, reason=reason)]
    assert machine.next_deadline() is None


def test_a_closed_router_is_named_in_plain_words() -> None:
    machine = started()
    report(machine, "abc", is_reached=False)
    machine.advance(30.0)
    assert standing_of(machine) is Reachability.LEAF
    assert "none got through" in machine.reason
    assert machine.reason.endswith("In the router, forward TCP and UDP 4484 to 192.168.1.11.")


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
    machine.advance(3611.0)
    assert machine.next_deadline() == 3612.0
    machine.advance(3612.0)
    machine.helpers_missing(round_number=3, now=3617.0)
    assert standing_of(machine) is Reachability.LEAF


def test_who_was_a_member_until_lately_is_tested_every_40_s_and_one_round_brings_it_back() -> None:
    machine = started()
    report(machine, "abc", is_reached=True)
    now = 3_601.0
    for number in range(2, 8):
        machine.advance(now)
        machine.helpers_missing(round_number=number, now=now)
        deadline = machine.next_deadline()
        assert deadline is not None
        assert deadline - now == (10.0 if number == 2 else 40.0)
        now = deadline
    assert standing_of(machine) is Reachability.LEAF
    machine.advance(now)
    report(machine, "abc", is_reached=True, round_number=8)
    assert standing_of(machine) is Reachability.MEMBER


def test_a_member_is_tested_when_others_say_that_their_calls_fail_but_not_for_each_word() -> None:
    machine = started()
    report(machine, "abc", is_reached=True)
    assert machine.next_deadline() == 3601.0
    machine.doubt(10.0)
    assert machine.next_deadline() == 10.0, (
        "its own test at 0 does not count: the router may have closed since"
    )
    machine.advance(10.0)
    machine.doubt(11.0)
    report(machine, "abc", is_reached=True, round_number=2)
    machine.doubt(20.0)
    assert machine.next_deadline() == 70.0, "a minute after the test for the first word"
    machine.advance(70.0)
    report(machine, "abc", is_reached=True, round_number=3)
    machine.doubt(300.0)
    assert machine.next_deadline() == 300.0


def test_at_an_ipv6_address_there_is_a_firewall_to_open_and_nothing_to_forward() -> None:
    machine = started()
    machine.spot = Spot(host="2001:db8::7", port=4484, inside="2001:db8::7")
    report(machine, "abcde", is_reached=False)
    machine.helpers_missing(round_number=1, now=9.0)
    assert machine.reason == (
        "Not callable yet: 5 peers tried, and none got through to [2001:db8::7]:4484. In the router, open the firewall"
        " for TCP and UDP 4484 to 2001:db8::7."
    )


def test_a_leaf_and_a_peer_that_needs_no_test_do_not_heed_doubts() -> None:
    machine = started()
    machine.helpers_missing(round_number=1, now=1.0)
    machine.doubt(5.0)
    assert machine.next_deadline() == 61.0
    untested = started(0)
    untested.doubt(5.0)
    assert untested.next_deadline() is None


def test_one_stranger_that_fails_makes_the_success_of_acquaintances_void() -> None:
    machine = started()
    report(machine, "abcd", is_reached=True, warmth=Warmth.BY_DATAGRAM)
    assert standing_of(machine) is Reachability.UNKNOWN, "a stranger may be under way"
    report(machine, "e", is_reached=False)
    machine.helpers_missing(round_number=1, now=9.0)
    assert standing_of(machine) is Reachability.LEAF
    assert "those get through whom this peer has called, and strangers do not" in machine.reason


def test_where_nobody_is_a_stranger_acquaintances_make_a_member_and_it_says_so() -> None:
    machine = started()
    report(machine, "abcd", is_reached=True, warmth=Warmth.BY_DATAGRAM)
    machine.helpers_missing(round_number=1, now=9.0)
    assert standing_of(machine) is Reachability.MEMBER
    assert machine.reason.endswith("at 203.0.113.7:4484, none of them a stranger to it.")


def test_where_nobody_is_a_stranger_one_to_whom_no_stream_left_makes_the_success_of_relays_void() -> None:
    """A router that filters by address lets in the relays of a closed peer, which called them from its port."""
    machine = started()
    report(machine, "abc", is_reached=True, warmth=Warmth.BY_STREAM)
    report(machine, "de", is_reached=True, by_stream=False, warmth=Warmth.BY_DATAGRAM)
    machine.helpers_missing(round_number=1, now=9.0)
    assert standing_of(machine) is Reachability.LEAF
    assert "those get through whom this peer has called, and strangers do not" in machine.reason


def test_a_relay_that_does_not_get_through_makes_nobody_elses_success_void() -> None:
    machine = started()
    report(machine, "a", is_reached=False, warmth=Warmth.BY_STREAM)
    report(machine, "bcd", is_reached=True, warmth=Warmth.BY_DATAGRAM)
    machine.helpers_missing(round_number=1, now=9.0)
    assert standing_of(machine) is Reachability.MEMBER


def test_where_all_keep_a_line_of_a_member_their_word_counts() -> None:
    """One of one family keeps lines at relays, too."""
    machine = started()
    report(machine, "abc", is_reached=True, warmth=Warmth.BY_STREAM)
    machine.helpers_missing(round_number=1, now=9.0)
    assert standing_of(machine) is Reachability.MEMBER
    assert machine.reason.endswith("none of them a stranger to it.")


def test_a_leaf_is_no_member_by_those_alone_to_whom_it_opened_streams() -> None:
    """In a ring of five it tried all as relays before its second test, and its router let in all five."""
    machine = started()
    report(machine, "abcde", is_reached=True, by_stream=False, warmth=Warmth.BY_DATAGRAM)
    machine.helpers_missing(round_number=1, now=9.0)
    assert standing_of(machine) is Reachability.LEAF
    machine.advance(69.0)
    report(machine, "abcde", is_reached=True, warmth=Warmth.BY_STREAM, round_number=2)
    machine.helpers_missing(round_number=2, now=80.0)
    assert standing_of(machine) is Reachability.LEAF
    assert "those get through whom this peer has called" in machine.reason
    machine.advance(200.0)
    report(machine, "a", is_reached=True, warmth=Warmth.BY_DATAGRAM, round_number=3)
    report(machine, "bc", is_reached=True, warmth=Warmth.BY_STREAM, round_number=3)
    machine.helpers_missing(round_number=3, now=210.0)
    assert standing_of(machine) is Reachability.MEMBER, "the owner forwarded the port"


def test_an_acquaintance_fills_up_for_a_stranger_that_was_missing() -> None:
    machine = started()
    report(machine, "ab", is_reached=True)
    report(machine, "c", is_reached=True, warmth=Warmth.BY_DATAGRAM)
    machine.helpers_missing(round_number=1, now=9.0)
    assert machine.reason.endswith("by UDP and TCP at 203.0.113.7:4484.")


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
    assert machine.reason == "Member on trust: 2 other networks are known, a test needs 3."
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
    [
        (True, False, "Half open: UDP 4484 arrives, TCP 4484 does not. In the router,"),
        (False, True, "Half open: TCP 4484 arrives, UDP 4484 does not. In the router,"),
    ],
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


def test_datagrams_through_a_hole_that_ours_had_made_do_not_arrive() -> None:
    """Routers that filter by address let in whom we have spoken to: in a young ring that is everybody."""
    machine = started()
    report(machine, "abcde", is_reached=True, by_stream=False, warmth=Warmth.BY_DATAGRAM)
    machine.helpers_missing(round_number=1, now=2.0)
    assert standing_of(machine) is Reachability.LEAF
    assert machine.reason == (
        "Not callable yet: TCP 4484 does not arrive, and UDP 4484 from those whom this peer has called, as far as is"
        " known. In the router, forward TCP and UDP 4484 to 192.168.1.11."
    )


def test_one_stranger_of_three_makes_no_half() -> None:
    """It met us between the question and its call."""
    machine = started()
    report(machine, "a", is_reached=True, by_stream=False)
    report(machine, "bc", is_reached=False)
    machine.helpers_missing(round_number=1, now=2.0)
    assert machine.reason.startswith(
        "Not callable yet: TCP 4484 does not arrive, and UDP 4484 from those whom"
    )


def test_streams_of_those_to_whom_no_stream_was_opened_arrive() -> None:
    machine = started()
    report(machine, "abc", is_reached=False, by_stream=True, warmth=Warmth.BY_DATAGRAM)
    machine.helpers_missing(round_number=1, now=2.0)
    assert machine.reason.startswith("Half open: TCP 4484 arrives, UDP 4484 does not.")


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


def test_each_failed_round_is_reported_though_the_standing_holds() -> None:
    machine = started()
    report(machine, "abc", is_reached=True)
    machine.advance(3601.0)
    machine.take_effects()
    machine.helpers_missing(round_number=2, now=3602.0)
    assert machine.take_effects() == [RoundFailed()]
    assert standing_of(machine) is Reachability.MEMBER
