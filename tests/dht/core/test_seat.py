"""Transcripts of a peer that looks for its seat: what happened, and what was ordered."""

from dataclasses import replace
from random import Random

import pytest

from dht.core.effects import JoinFailed, PositionTaken
from dht.core.reachability import Reachability, StandingChanged
from dht.core.records import SLOTS, Address, Contact, first_contact_of
from dht.core.seat import (
    JOIN_AGAIN_S,
    MEET_MAX,
    ClockJumped,
    CreateRing,
    HostSeen,
    JoinRing,
    LeaveAsked,
    LeaveRing,
    NameRelays,
    OpenElsewhere,
    Phase,
    PortFound,
    Reason,
    RelaysKept,
    Restored,
    RetestReachability,
    SearchEnded,
    Seat,
    SeatEvent,
    SeatKeeper,
    SeatOrder,
    StartMachine,
    WaitForSlot,
)
from simnet.rings import peer_number

HOME = Address(host=bytes((192, 0, 2, 1)), port=4484)
OUTSIDE = bytes((198, 51, 100, 7))
SIX = bytes.fromhex("20010db8000000000000000000000007")
SEAT = Seat(address=HOME, slot=0)
ANNA, BERT = (first_contact_of(peer_number(number), "ip") for number in (1, 2))
ME = first_contact_of(peer_number(0), "ip")
FAILED = JoinFailed(contact=ME)
TAKEN = PositionTaken(contact=ME, holder=ANNA)
LEAF = StandingChanged(standing=Reachability.LEAF, reason="")
MEMBER = StandingChanged(standing=Reachability.MEMBER, reason="")


class NoJitter(Random):
    def uniform(self, a: float, b: float) -> float:
        return (a + b) / 2


def keeper_of(
    *known: Contact,
    seat: Seat = SEAT,
    has_position: bool = False,
    is_guessed: bool = False,
    is_tested: bool = False,
) -> SeatKeeper:
    """One that still searches."""
    return SeatKeeper(
        seat,
        lambda: known,
        lambda: has_position,
        NoJitter(),
        is_address_guessed=is_guessed,
        is_tested_first=is_tested,
    )


def joining(
    *known: Contact, seat: Seat = SEAT, has_position: bool = False, is_guessed: bool = False
) -> SeatKeeper:
    keeper = keeper_of(*known, seat=seat, has_position=has_position, is_guessed=is_guessed)
    keeper.tell(SearchEnded(), 0.0)
    return keeper


def start(reason: Reason, seat: Seat = SEAT) -> StartMachine:
    return StartMachine(seat=seat, reason=reason)


def join(*contacts: Contact, failed: int = 0) -> JoinRing:
    return JoinRing(contacts=contacts, failed=failed)


def phase_of(keeper: SeatKeeper) -> Phase:
    """By a call, since the type checker believes that an attribute stays as it was."""
    return keeper.phase


def due_at(keeper: SeatKeeper) -> float:
    assert keeper.due_at is not None
    return keeper.due_at


def fill(keeper: SeatKeeper, now: float = 0.0) -> list[SeatOrder]:
    """Every slot turns out to be taken; the orders of the last one."""
    orders: list[SeatOrder] = []
    for _ in range(SLOTS):
        orders = keeper.tell(TAKEN, now)
    return orders


# --- the first join


def test_a_peer_joins_through_those_whom_its_search_found() -> None:
    assert keeper_of(ANNA, BERT).tell(SearchEnded(), 0.0) == [join(ANNA, BERT)]


def test_a_peer_that_finds_nobody_is_a_ring_of_one() -> None:
    assert keeper_of().tell(SearchEnded(), 0.0) == [CreateRing()]


def test_a_guessed_address_gives_way_to_what_the_first_contacts_saw() -> None:
    there = replace(SEAT, address=Address(host=OUTSIDE, port=4484))
    keeper = keeper_of(ANNA, is_guessed=True)
    assert keeper.tell(SearchEnded(seen_hosts=(SIX, OUTSIDE)), 0.0) == [
        start(Reason.SEARCH, there),
        join(ANNA),
    ]
    assert keeper.seat == there
    assert keeper.restarts == 0


def test_a_stated_address_stays_whatever_others_see() -> None:
    keeper = keeper_of(ANNA)
    assert keeper.tell(SearchEnded(seen_hosts=(SIX, OUTSIDE)), 0.0) == [join(ANNA)]
    assert keeper.tell(HostSeen(host=OUTSIDE), 1.0) == []


def test_a_peer_that_must_be_tested_begins_as_a_leaf() -> None:
    leaf = replace(SEAT, is_leaf=True)
    assert keeper_of(ANNA, is_tested=True).tell(SearchEnded(), 0.0) == [
        start(Reason.SEARCH, leaf),
        join(ANNA),
    ]


def test_a_first_peer_is_a_member_untested_for_nobody_could_test_it() -> None:
    assert keeper_of(is_tested=True).tell(SearchEnded(), 0.0) == [CreateRing()]


def test_a_verdict_before_the_first_join_is_not_asked_for_again() -> None:
    keeper = keeper_of(ANNA, is_tested=True)
    assert keeper.tell(MEMBER, 0.0) == []
    assert keeper.tell(SearchEnded(), 1.0) == [join(ANNA)]


@pytest.mark.parametrize("event", [HostSeen(host=OUTSIDE), PortFound(port=50_001)])
def test_an_address_found_during_the_search_moves_the_peer_without_a_ring_of_its_own(
    event: SeatEvent,
) -> None:
    keeper = keeper_of(ANNA, is_guessed=True)
    moved, test = keeper.tell(event, 0.0)
    assert isinstance(moved, StartMachine)
    assert moved.seat == keeper.seat != SEAT
    assert test == RetestReachability()
    assert phase_of(keeper) is Phase.SEARCHING
    assert keeper.tell(SearchEnded(), 1.0) == [join(ANNA)]


def test_a_clock_that_jumps_during_the_search_changes_nothing() -> None:
    keeper = keeper_of(ANNA)
    assert keeper.tell(ClockJumped(), 0.0) == []
    assert keeper.tell(SearchEnded(), 1.0) == [join(ANNA)]


def test_a_peer_that_begins_with_its_neighbours_searches_nothing() -> None:
    keeper = keeper_of(ANNA)
    assert keeper.tell(Restored(), 0.0) == []
    assert keeper.tell(ClockJumped(), 1.0) == [start(Reason.CLOCK), join(ANNA)]


# --- joining that fails


def test_a_failed_join_is_tried_once_more_and_then_the_peer_is_a_ring_of_one() -> None:
    keeper = joining(ANNA, BERT)
    assert keeper.tell(FAILED, 10.0) == []
    assert due_at(keeper) == 11.0
    assert keeper.advance(10.9) == []
    assert keeper.advance(11.0) == [join(ANNA, BERT, failed=1)]
    assert phase_of(keeper) is Phase.IN
    assert keeper.tell(FAILED, 20.0) == []
    assert keeper.advance(22.0) == [CreateRing(meet=(ANNA, BERT), failed=2)]
    assert keeper.due_at is None


def test_whom_a_ring_of_one_is_shown_is_bounded() -> None:
    many = [first_contact_of(peer_number(number), "ip") for number in range(1, 2 * MEET_MAX)]
    keeper = joining(*many)
    keeper.tell(FAILED, 0.0)
    keeper.advance(due_at(keeper))
    keeper.tell(FAILED, 10.0)
    assert keeper.advance(due_at(keeper)) == [CreateRing(meet=tuple(many[:MEET_MAX]), failed=2)]


def test_a_peer_with_one_of_its_positions_never_creates_a_second_ring() -> None:
    keeper = joining(ANNA, has_position=True)
    for failed in range(1, 8):
        keeper.tell(FAILED, 100.0 * failed)
        assert keeper.advance(due_at(keeper)) == [join(ANNA, failed=failed)]


def test_a_peer_whose_contacts_are_gone_does_not_wait_for_a_second_failure() -> None:
    known = [ANNA]
    keeper = SeatKeeper(SEAT, lambda: known, lambda: False, NoJitter())
    keeper.tell(SearchEnded(), 0.0)
    keeper.tell(FAILED, 0.0)
    known.clear()
    assert keeper.advance(due_at(keeper)) == [CreateRing(failed=1)]


def test_the_waits_between_joins_grow_to_half_a_minute() -> None:
    keeper = joining(ANNA, has_position=True)
    waits = []
    for number in range(7):
        now = 100.0 * number
        keeper.tell(FAILED, now)
        waits.append(due_at(keeper) - now)
        keeper.advance(due_at(keeper))
    assert waits == [1.0, 2.0, 5.0, 10.0, 30.0, 30.0, 30.0]


def test_peers_that_failed_together_try_again_apart() -> None:
    waits = set()
    for number in range(20):
        keeper = SeatKeeper(SEAT, lambda: [ANNA], lambda: False, Random(number))
        keeper.tell(SearchEnded(), 0.0)
        keeper.tell(FAILED, 0.0)
        waits.add(due_at(keeper))
    assert len(waits) == 20
    assert all(JOIN_AGAIN_S[0] / 2 <= wait <= JOIN_AGAIN_S[0] * 1.5 for wait in waits)


def test_a_failure_that_comes_while_the_peer_waits_already_does_not_move_its_time() -> None:
    keeper = joining(ANNA)
    keeper.tell(FAILED, 0.0)
    assert keeper.tell(FAILED, 0.5) == []
    assert due_at(keeper) == 1.0
    assert keeper.advance(1.0) == [join(ANNA, failed=1)]


def test_who_starts_over_counts_its_failures_from_the_beginning() -> None:
    keeper = joining(ANNA)
    keeper.tell(FAILED, 0.0)
    assert keeper.tell(ClockJumped(), 0.5) == [start(Reason.CLOCK), join(ANNA)]
    assert keeper.due_at is None, "the old machine's next try is off"
    keeper.tell(FAILED, 10.0)
    assert keeper.advance(11.0) == [join(ANNA, failed=1)]


# --- slots


def test_a_taken_position_leads_to_the_next_free_slot() -> None:
    keeper = joining(ANNA)
    assert keeper.tell(TAKEN, 0.0) == [start(Reason.SLOT_TAKEN, replace(SEAT, slot=1)), join(ANNA)]
    assert keeper.tell(TAKEN, 1.0) == [start(Reason.SLOT_TAKEN, replace(SEAT, slot=2)), join(ANNA)]
    assert keeper.restarts == 2


def test_the_slots_before_the_stated_one_are_tried_too() -> None:
    keeper = joining(ANNA, seat=replace(SEAT, slot=SLOTS - 1))
    (moved, _) = keeper.tell(TAKEN, 0.0)
    assert moved == start(Reason.SLOT_TAKEN, SEAT)


def test_a_taken_position_is_left_also_while_the_peer_waits_to_join_again() -> None:
    keeper = joining(ANNA)
    keeper.tell(FAILED, 0.0)
    assert keeper.tell(TAKEN, 0.1) == [start(Reason.SLOT_TAKEN, replace(SEAT, slot=1)), join(ANNA)]
    assert keeper.due_at is None


def test_when_all_slots_are_taken_the_peer_waits_and_begins_again_with_the_stated_one() -> None:
    stated = replace(SEAT, slot=3)
    keeper = joining(ANNA, seat=stated)
    assert fill(keeper) == [WaitForSlot()]
    assert phase_of(keeper) is Phase.FULL
    assert keeper.tell(TAKEN, 1.0) == keeper.tell(FAILED, 1.0) == [], "known already"
    assert due_at(keeper) == 30.0, "some may still be on their way to another slot"
    assert keeper.advance(30.0) == [start(Reason.SLOTS_AGAIN, stated), join(ANNA)]
    assert fill(keeper, 30.0) == [WaitForSlot()], "all eight were tried again"
    assert due_at(keeper) == 330.0


def test_another_address_has_slots_of_its_own() -> None:
    keeper = joining(ANNA, is_guessed=True)
    fill(keeper)
    moved, *_ = keeper.tell(HostSeen(host=OUTSIDE), 1.0)
    assert isinstance(moved, StartMachine)
    assert moved.reason is Reason.HOST
    assert keeper.due_at is None, "a seat at the new address is not given up when the old wait ends"
    orders = keeper.tell(TAKEN, 2.0)
    assert [type(order) for order in orders] == [StartMachine, JoinRing]


# --- what makes another machine of a member


def test_a_clock_that_jumped_starts_over_at_the_same_place() -> None:
    keeper = joining(ANNA)
    assert keeper.tell(ClockJumped(), 0.0) == [start(Reason.CLOCK), join(ANNA)]
    assert keeper.restarts == 1


def test_who_starts_over_and_knows_nobody_is_a_ring_of_one() -> None:
    assert joining().tell(ClockJumped(), 0.0) == [start(Reason.CLOCK), CreateRing()]


def test_a_changed_address_moves_a_guesser_which_keeps_its_own_port() -> None:
    keeper = joining(ANNA, is_guessed=True)
    there = replace(SEAT, address=Address(host=OUTSIDE, port=HOME.port))
    assert keeper.tell(HostSeen(host=OUTSIDE), 0.0) == [
        start(Reason.HOST, there),
        join(ANNA),
        RetestReachability(),
    ]
    assert keeper.tell(HostSeen(host=OUTSIDE), 1.0) == [], "no news"
    assert keeper.tell(HostSeen(host=SIX), 1.0) == [], "positions follow from the other line"


def test_a_line_of_the_other_family_becomes_the_first_and_nobody_who_was_told_his_address_moves() -> None:
    six = Address(host=SIX, port=4484)
    there = replace(SEAT, address=six)
    event = OpenElsewhere(address=six)
    keeper = joining(ANNA, is_guessed=True)
    assert keeper.tell(event, 0.0) == [start(Reason.FAMILY, there), join(ANNA), RetestReachability()]
    assert keeper.tell(event, 1.0) == [], "no news"
    assert keeper.tell(HostSeen(host=OUTSIDE), 1.0) == [], "positions follow from the other line now"
    assert joining(ANNA).tell(event, 0.0) == []


def test_a_port_with_another_number_outside_is_the_one_to_advertise() -> None:
    keeper = joining(ANNA)
    there = replace(SEAT, address=Address(host=HOME.host, port=50_001))
    assert keeper.tell(PortFound(port=50_001), 0.0) == [
        start(Reason.PORT, there),
        join(ANNA),
        RetestReachability(),
    ]
    assert keeper.tell(PortFound(port=50_001), 1.0) == []


def test_a_peer_behind_a_closed_router_becomes_a_leaf_and_a_member_when_it_opens() -> None:
    keeper = joining(ANNA)
    leaf = replace(SEAT, is_leaf=True)
    assert keeper.tell(LEAF, 0.0) == [start(Reason.REACHABILITY, leaf), join(ANNA)]
    assert keeper.tell(LEAF, 1.0) == []
    assert keeper.tell(MEMBER, 2.0) == [start(Reason.REACHABILITY), join(ANNA)]
    assert keeper.tell(MEMBER, 3.0) == []


def test_a_peer_whose_relays_have_kept_its_lines_is_a_member_though_nobody_can_call_it() -> None:
    keeper = joining(ANNA)
    keeper.tell(LEAF, 0.0)
    assert keeper.tell(RelaysKept(relays=(b"relay  1",), is_member=False), 1.0) == [
        NameRelays(relays=(b"relay  1",), is_closed=True)
    ]
    kept = RelaysKept(relays=(b"relay  1", b"relay  2"), is_member=True)
    closed = replace(SEAT, relays=kept.relays, is_closed=True)
    assert keeper.tell(kept, 2.0) == [start(Reason.REACHABILITY, closed), join(ANNA)]
    assert keeper.tell(kept, 3.0) == []
    assert keeper.tell(LEAF, 4.0) == [], "that nobody calls it is no news"
    assert keeper.tell(RelaysKept(relays=(), is_member=True), 5.0) == [], "lost ones are replaced"
    lost = RelaysKept(relays=(), is_member=False)
    assert keeper.tell(lost, 6.0) == [start(Reason.REACHABILITY, replace(SEAT, is_leaf=True)), join(ANNA)]


def test_relays_of_a_peer_that_can_be_called_are_for_those_of_another_family() -> None:
    keeper = joining(ANNA)
    kept = RelaysKept(relays=(b"relay  1",), is_member=True)
    assert keeper.tell(kept, 0.0) == [NameRelays(relays=kept.relays, is_closed=False)]
    assert keeper.tell(kept, 0.0) == []
    assert keeper.tell(LEAF, 1.0) == [
        start(Reason.REACHABILITY, replace(SEAT, is_leaf=True, relays=kept.relays, is_closed=True)),
        join(ANNA),
    ]
    keeper.tell(kept, 2.0)
    assert keeper.tell(MEMBER, 3.0) == [NameRelays(relays=(), is_closed=False)], "they are named again"
    assert keeper.tell(kept, 4.0) == [NameRelays(relays=kept.relays, is_closed=False)]
    assert keeper.seat == replace(SEAT, relays=kept.relays)


@pytest.mark.parametrize(
    "event",
    [
        SearchEnded(),
        FAILED,
        TAKEN,
        HostSeen(host=OUTSIDE),
        PortFound(port=1),
        LEAF,
        ClockJumped(),
        LeaveAsked(),
    ],
)
def test_a_peer_that_said_goodbye_does_not_come_back(event: SeatEvent) -> None:
    keeper = joining(ANNA, is_guessed=True)
    keeper.tell(FAILED, 0.0)
    assert keeper.tell(LeaveAsked(), 0.5) == [LeaveRing()]
    assert keeper.tell(event, 1.0) == []
    assert keeper.advance(1_000.0) == []
