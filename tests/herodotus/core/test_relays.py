"""What does a relay take on, and when does a closed peer count as a member?"""

from collections.abc import Sequence
from random import Random

import pytest

from herodotus.core import relays as bounds
from herodotus.core.relays import (
    JOINED_MAX,
    KEPT_MAX,
    Candidate,
    Kept,
    Mapping,
    RelayDesk,
    RelayKeeper,
    Way,
    closed_sentence,
    way_between,
)

FOUND = "Not callable yet. In the router, forward UDP 7 to 10.0.0.2."
SEEN = ("198.51.100.7", 4484)
V4, V6 = ("192.0.2.1", 4484), ("2001:db8::1", 4484)


def key(number: int) -> bytes:
    return number.to_bytes(32, "big")


# --- the relay


def test_of_a_thousand_leaves_64_are_kept_and_the_others_hear_that_it_is_busy() -> None:
    desk = RelayDesk()
    kept = [desk.keeps(key(number), SEEN) for number in range(1_000)]
    assert sum(one is not None for one in kept) == desk.kept == KEPT_MAX == 64
    first = kept[0]
    assert first is not None
    assert desk.keeps(key(0), V4) is not None, "its line broke, and it opens a new one"
    desk.ends(key(0), first)
    assert desk.kept == 64, "the end of the old one is not that of the new one"


def test_the_end_of_a_line_makes_room() -> None:
    desk = RelayDesk()
    kept = desk.keeps(key(1), SEEN)
    assert kept is not None
    assert desk.knocked(key(2), key(1), 0.0) is kept
    desk.ends(key(1), kept)
    assert desk.knocked(key(2), key(1), 0.0) == "not-here"


def test_one_caller_knocks_so_often_and_one_peer_is_knocked_at_so_often() -> None:
    desk = RelayDesk()
    for called in range(64):
        desk.keeps(key(called), SEEN)
    of_one = [desk.knocked(key(999), key(called % 64), 0.0) for called in range(30)]
    assert of_one.count("too-many") == 10
    at_one = [desk.knocked(key(caller), key(1), 0.0) for caller in range(100, 200)]
    assert at_one.count("too-many") == 100 - (50 - 1)
    assert isinstance(desk.knocked(key(999), key(2), 10.0), Kept)


def test_eight_pairs_are_joined_and_two_of_one_key() -> None:
    desk = RelayDesk()
    assert [desk.joins(key(1), key(number)) for number in (2, 3, 4)] == [True, True, False]
    desk.parts(key(1), key(2))
    assert desk.joins(key(1), key(4))
    for number in range(10, 16):
        assert desk.joins(key(number), key(100 + number))
    assert desk.joints == JOINED_MAX == 8
    assert not desk.may_join(key(200), key(201))
    assert not desk.joins(key(200), key(201))
    desk.parts(key(10), key(110))
    assert desk.joins(key(200), key(201))


@pytest.mark.parametrize(
    ("caller", "lines", "called", "wanted", "way"),
    [
        (Mapping.OPEN, [V4], Mapping.CHANGES, None, Way.CALL_BACK),
        (Mapping.OPEN, [V4, V6], Mapping.SAME, None, Way.CALL_BACK),
        (Mapping.OPEN, [V6], Mapping.SAME, None, Way.JOIN),
        (Mapping.OPEN, [], Mapping.SAME, None, Way.JOIN),
        (Mapping.OPEN, [V4], Mapping.SAME, Way.JOIN, Way.JOIN),
        (Mapping.SAME, [V4], Mapping.SAME, None, Way.OPEN_AT_ONCE),
        (Mapping.SAME, [V6], Mapping.SAME, None, Way.JOIN),
        (Mapping.SAME, [V4], Mapping.CHANGES, None, Way.JOIN),
        (Mapping.CHANGES, [V4], Mapping.SAME, None, Way.JOIN),
        (Mapping.UNKNOWN, [V4], Mapping.UNKNOWN, None, Way.JOIN),
    ],
)
def test_the_first_way_is_one_that_can_work(
    caller: Mapping, lines: Sequence[tuple[str, int]], called: Mapping, wanted: Way | None, way: Way
) -> None:
    assert way_between(caller, lines, Kept(SEEN, called), wanted) is way


# --- the closed peer


def candidate(number: int, place: int | None = None, area: int | None = None) -> Candidate:
    return Candidate(
        peer=key(number),
        place=b"place %d" % (number if place is None else place),
        area=b"area %d" % (number if area is None else area),
    )


def keeper_with(*relays: int, since: float = 0.0) -> RelayKeeper:
    keeper = RelayKeeper(Random(1))
    for number in relays:
        keeper.keeps(candidate(number), since)
    return keeper


def test_eight_are_tried_at_random_and_three_kept_in_places_and_areas_of_their_own() -> None:
    keeper = RelayKeeper(Random(1))
    members = [candidate(number) for number in range(100)]
    chosen = keeper.choice(members, 0.0)
    assert len({one.peer for one in chosen}) == 8
    assert chosen != members[:8]
    keeper.keeps(candidate(1), 0.0)
    assert not keeper.may_keep(candidate(1))
    assert not keeper.may_keep(candidate(2, place=1))
    assert not keeper.may_keep(candidate(2, area=1))
    keeper.keeps(candidate(2), 0.0)
    keeper.keeps(candidate(3), 0.0)
    assert keeper.choice(members, 0.0) == []
    assert not keeper.may_keep(candidate(4))


@pytest.mark.parametrize(("known", "tried"), [(2, 2), (3, 3), (4, 3), (5, 3), (6, 4), (10, 8), (11, 8)])
def test_two_members_are_not_tried_while_there_are_enough_others(known: int, tried: int) -> None:
    """Whether the router is open again, only those can tell to whom no stream was opened."""
    assert len(RelayKeeper(Random(1)).choice([candidate(number) for number in range(known)], 0.0)) == tried


def test_for_one_lost_relay_one_is_tried_in_a_small_ring() -> None:
    keeper = keeper_with(1, 2)
    assert len(keeper.choice([candidate(number) for number in range(1, 6)], 0.0)) == 1


def test_a_relay_that_refused_is_left_alone_for_five_minutes() -> None:
    keeper = keeper_with()
    keeper.refused(key(1), 0.0)
    assert keeper.choice([candidate(1)], 299.0) == []
    assert keeper.choice([candidate(1)], 300.0) == [candidate(1)]


def test_who_is_silent_while_no_line_is_kept_is_tried_again_soon() -> None:
    """A line that was away for a minute left the peer without relays for five."""
    keeper = keeper_with()
    keeper.refused(key(1), 0.0, is_silent=True)
    assert keeper.choice([candidate(1)], 19.0) == []
    assert keeper.choice([candidate(1)], 20.0) == [candidate(1)]
    keeper.keeps(candidate(2), 30.0)
    keeper.refused(key(1), 30.0, is_silent=True)
    assert keeper.choice([candidate(1)], 329.0) == [], "others answer, so it is that one's fault"


def test_three_relays_for_half_an_hour_make_a_member() -> None:
    keeper = keeper_with(1, 2)
    assert not keeper.advance(5_000.0)
    keeper.keeps(candidate(3), 5_000.0)
    assert not keeper.advance(5_000.0 + 1_799.0)
    assert keeper.advance(5_000.0 + 1_800.0)
    assert keeper.is_member


def test_a_line_that_breaks_before_begins_the_half_hour_anew() -> None:
    keeper = keeper_with(1, 2, 3)
    keeper.lost(key(2), 1_000.0)
    keeper.keeps(candidate(4), 1_010.0)
    keeper.advance(2_000.0)
    assert not keeper.is_member
    keeper.advance(2_810.0)
    assert keeper.is_member


def test_a_member_that_loses_two_relays_stays_one_and_without_any_for_30_s_does_not() -> None:
    keeper = keeper_with(1, 2, 3)
    keeper.advance(1_800.0)
    keeper.lost(key(1), 1_900.0)
    keeper.lost(key(2), 1_900.0)
    assert not keeper.advance(5_000.0)
    assert keeper.is_member
    keeper.lost(key(3), 5_000.0)
    assert not keeper.advance(5_029.0)
    assert keeper.advance(5_030.0)
    is_member: bool = keeper.is_member
    assert not is_member
    keeper.keeps(candidate(4), 5_040.0)
    assert not keeper.advance(9_000.0), "three make a member again, not one"


def test_a_member_that_replaced_its_last_relay_in_time_stays_one() -> None:
    keeper = keeper_with(1, 2, 3)
    keeper.advance(1_800.0)
    for number in (1, 2, 3):
        keeper.lost(key(number), 2_000.0)
    keeper.keeps(candidate(4), 2_020.0)
    assert not keeper.advance(2_100.0)
    assert keeper.is_member


def test_a_peer_that_was_out_of_reach_three_times_in_six_hours_is_no_member() -> None:
    keeper = keeper_with(1, 2, 3)
    keeper.advance(1_800.0)
    for hour in (1, 2, 3):
        for number in (1, 2, 3):
            keeper.lost(key(number), hour * 3_600.0)
        assert not keeper.advance(hour * 3_600.0) or hour == 3
        for number in (1, 2, 3):
            keeper.keeps(candidate(number), hour * 3_600.0 + 1.0)
    assert not keeper.is_member
    keeper.advance(3_600.0 + bounds.BREAKS_WITHIN_S - 1.0)
    assert not keeper.is_member
    keeper.advance(3_600.0 + bounds.BREAKS_WITHIN_S)
    keeper.advance(3_600.0 + bounds.BREAKS_WITHIN_S + 1_800.0)
    assert keeper.is_member


@pytest.mark.parametrize(
    ("relays", "member_in_s", "is_member", "said"),
    [
        (
            3,
            0.0,
            True,
            "Member behind a closed router: others reach it through 3 relays. Faster: forward UDP 7 to 10.0.0.2.",
        ),
        (
            3,
            61.0,
            False,
            "Not callable yet. In the router, forward UDP 7 to 10.0.0.2. Member in 2 min if its lines hold.",
        ),
        (1, None, False, FOUND),
    ],
)
def test_a_closed_peer_says_what_it_is_and_what_comes(
    relays: int, member_in_s: float | None, is_member: bool, said: str
) -> None:

    assert closed_sentence(FOUND, relays, member_in_s, is_member=is_member) == said
    plain = closed_sentence("leaf: nobody called", 1, None, is_member=True)
    assert plain == "Member behind a closed router: others reach it through 1 relay."
