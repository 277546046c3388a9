"""Which prefix of an address is a place, and from which day on does a member count?"""

from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dht.core.ids import NetworkId, PeerKey
from dht.core.places import (
    BY_PEER,
    PlaceRules,
    Standing,
    age_refusal,
    area_at,
    day_from,
    moved,
    moves_at_will,
    place_at,
    standing_of,
    trail_on,
)
from dht.core.records import RECORD_VERSION, Address, Birth, Line, PeerRecord, Stay, record_fault

RULES = PlaceRules()


def record(*hosts: str, number: int = 1) -> PeerRecord:
    return PeerRecord(
        version=RECORD_VERSION,
        network=NetworkId(bytes(8)),
        peer=PeerKey(bytes((number,)) * 32),
        lines=tuple(Line.at(Address(host=ip_address(host).packed, port=4484)) for host in hosts),
        slot=0,
        virtual_nodes=1,
        incarnation=1,
        issued_s=0,
        expires_s=1,
        flags=0,
        previous=b"",
        since=0,
    )


def at(host: str) -> tuple[str, str]:
    packed = ip_address(host).packed
    return place_at(packed, RULES).hex(" ", 1), area_at(packed, RULES).hex(" ", 1)


def test_a_place_is_a_24_or_a_48_and_an_area_a_16_or_all_of_ipv6() -> None:
    assert at("192.0.2.7") == ("04 c0 00 02", "04 c0 00")
    assert at("2001:db8:1234:5678::1") == ("10 20 01 0d b8 12 34", "10")


@pytest.mark.parametrize(
    ("one", "other", "places", "areas"),
    [
        ("10.1.2.3", "10.1.2.200", True, True),
        ("10.1.2.3", "10.1.3.3", False, True),
        ("10.1.2.3", "10.2.2.3", False, False),
        ("2001:db8:1:1::1", "2001:db8:1:ffff::1", True, True),
        ("2001:db8:1::1", "2001:dbf:1::1", False, True),
        ("2001:db8:1::1", "2a00:dc8:1::1", False, True),
        ("2001:db8:1::1", "192.0.2.7", False, False),
    ],
)
def test_two_addresses_share_a_place_or_an_area(one: str, other: str, places: bool, areas: bool) -> None:
    here, there = standing_of(record(one), RULES, 0), standing_of(record(other, number=2), RULES, 0)
    assert (here.place == there.place, here.area == there.area) == (places, areas)


def test_prefixes_may_end_inside_a_byte() -> None:
    rules = PlaceRules(place_v4=20, area_v4=12)
    assert place_at(bytes((10, 0x5F, 0xFF, 1)), rules) == bytes((4, 10, 0x5F, 0xF0))
    assert area_at(bytes((10, 0x5F, 0xFF, 1)), rules) == bytes((4, 10, 0x50))


def test_an_ipv4_prefix_is_never_that_of_an_ipv6_address() -> None:
    rules = PlaceRules(place_v4=32, place_v6=32)
    assert place_at(bytes((0x20, 1, 0x0D, 0xB8)), rules) != place_at(ip_address("2001:db8::").packed, rules)


def test_a_member_counts_where_its_first_address_is() -> None:
    assert standing_of(record("10.1.2.3", "2001:db8::1"), RULES, 7) == Standing(
        bytes((4, 10, 1, 2)), bytes((4, 10, 1)), True
    )


def test_by_peer_each_key_is_a_place() -> None:
    one, other = record("10.1.2.3"), record("10.1.2.3", number=2)
    assert standing_of(one, BY_PEER, 0) == Standing(one.peer, one.peer, True)
    assert standing_of(other, BY_PEER, 0).place == other.peer


def test_in_a_young_network_members_are_of_age_and_veterans_sooner() -> None:
    rules = PlaceRules(founded_day=1_000)
    found = [
        (rules.probation_on(1_000 + days), rules.veteran_on(1_000 + days))
        for days in (0, 3, 4, 27, 28, 119, 120)
    ]
    assert found == [(0, 0), (0, 1), (1, 2), (6, 13), (7, 14), (7, 59), (7, 60)]
    assert rules.probation_on(999) == 0
    assert (RULES.probation_on(0), RULES.veteran_on(0)) == (7, 60)


def test_days_change_for_all_peers_at_once() -> None:
    assert [RULES.day_of(now) for now in (86_399.9, 86_400.0)] == [0, 1]
    assert [PlaceRules(day_start_s=3_600).day_of(now) for now in (89_999.9, 90_000.0)] == [0, 1]
    assert (day_from("1970-01-02"), day_from("2026-11-19"), day_from("")) == (1, 20_776, None)


def aged(since: int, *trail: tuple[str, int], host: str = "10.1.2.3") -> PeerRecord:
    stays = tuple(Stay(place=place_at(ip_address(at).packed, RULES), since=day) for at, day in trail)
    return replace(record(host), since=since, trail=stays)


def is_of_age(one: PeerRecord, day: int, rules: PlaceRules = RULES) -> bool:
    return standing_of(one, rules, day).is_of_age


def test_a_member_is_of_age_after_its_probation_for_all_at_one_boundary() -> None:
    assert [is_of_age(aged(100), day) for day in (100, 106, 107, 200)] == [False, False, True, True]
    late = PlaceRules(day_start_s=6 * 3_600)
    noon = 107 * 86_400 + 12 * 3_600
    assert [is_of_age(aged(100), late.day_of(noon - hours * 3_600), late) for hours in (6, 7)] == [
        True,
        False,
    ]


def test_in_a_young_network_members_come_of_age_sooner() -> None:
    rules = PlaceRules(founded_day=90)
    assert [is_of_age(aged(100), day, rules) for day in (101, 102, 103)] == [False, False, True]
    assert is_of_age(aged(90), 90, PlaceRules(founded_day=90)), "the founders are, at once"


def test_by_peer_all_are_of_age() -> None:
    assert is_of_age(aged(100), 100, BY_PEER)


def test_a_member_that_moved_begins_its_probation_again() -> None:
    moved_on_100 = aged(50, ("192.0.2.7", 50), ("10.1.2.3", 100))
    assert [is_of_age(moved_on_100, day) for day in (100, 106, 107)] == [False, False, True]


def test_a_trail_that_ends_elsewhere_moves_nobody_to_another_place() -> None:
    """The attack: thirty keys on one address, each with a made-up past in a place of its own."""
    liars = [aged(10, (f"10.{n}.0.1", 10), (f"10.{n}.1.1", 20), host="203.0.113.9") for n in range(30)]
    found = {standing_of(one, RULES, 100) for one in liars}
    assert found == {Standing(bytes((4, 203, 0, 113)), bytes((4, 203, 0)), is_of_age=False)}


YOUNG = PlaceRules(probation_days=99)


def lived(homes: list[int], since: int = 100, rules: PlaceRules = YOUNG) -> list[PeerRecord]:
    """The records of a member that is in a home each day, one a day."""
    now = aged(since, host=f"10.0.{homes[0]}.1")
    made = []
    for day, home in enumerate(homes, since):
        host = bytes((10, 0, home, 1))
        there = replace(now, lines=(Line.at(Address(host=host, port=1)),), trail=moved(now, host, rules))
        if moves_at_will(there, now, rules):
            there = replace(there, since=day, trail=())
        there = replace(there, issued_s=day * 86_400)
        now = replace(there, trail=trail_on(there, rules, day))
        made.append(now)
    return made


def test_a_trail_tells_of_each_move_for_a_week() -> None:
    made = lived([1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2])
    told = [[(stay.place[3], stay.since) for stay in one.trail] for one in made]
    assert told == 3 * [[]] + 7 * [[(1, 100), (2, 103)]] + [[]]


@given(st.lists(st.integers(1, 3), min_size=1, max_size=30))
def test_a_trail_says_where_a_member_was_on_each_day_of_the_week(homes: list[int]) -> None:
    for today, one in enumerate(lived(homes)):
        fresh = replace(one, expires_s=one.issued_s + 3_600)
        assert record_fault(fresh, NetworkId(bytes(8)), (100 + today) * 86_400) is None
        for ago in range(min(7, today + 1)):
            stays = [stay.place[3] for stay in one.trail if stay.since <= 100 + today - ago]
            assert (stays or [homes[today]])[-1] == homes[today - ago]


@given(st.lists(st.integers(1, 3), min_size=2, max_size=30))
def test_what_an_honest_member_says_of_its_moves_is_never_refused(homes: list[int]) -> None:
    for rules in (RULES, YOUNG):
        made = lived(homes, rules=rules)
        for missed in (1, 2, 9):
            for held, newer in zip(made, made[missed:], strict=False):
                assert age_refusal(newer, held, rules) is None


def test_a_member_of_age_that_moves_at_will_begins_its_age_anew() -> None:
    made = lived([1] * 10 + [2] * 3, rules=RULES)
    assert [one.since for one in made] == 10 * [100] + 3 * [110]
    for kept in (100, 108):
        assert age_refusal(replace(made[10], since=kept), made[9], RULES) == "moved"
    other_slot = replace(made[9], slot=3, issued_s=110 * 86_400)
    assert age_refusal(other_slot, made[9], RULES) == "moved"
    young = lived([1] * 5 + [2], rules=RULES)
    assert [one.since for one in young] == 6 * [100], "its position follows its address"


def seated(host: str, birth: str, *, since: int = 100, day: int = 107) -> PeerRecord:
    seat = Birth(host=ip_address(birth).packed, day=day)
    return replace(record(host), since=since, seat=seat, issued_s=day * 86_400)


def test_a_member_with_a_seat_keeps_its_age_at_a_new_address_and_counts_in_both_places() -> None:
    held, moved_on = seated("10.1.2.3", "10.1.2.3"), seated("192.0.2.9", "10.1.2.3")
    assert age_refusal(moved_on, held, RULES) is None
    assert trail_on(moved_on, RULES, 108) == ()
    assert standing_of(held, RULES, 107) == Standing(bytes((4, 10, 1, 2)), bytes((4, 10, 1)))
    assert standing_of(moved_on, RULES, 107) == Standing(
        bytes((4, 192, 0, 2)), bytes((4, 192, 0)), True, bytes((4, 10, 1, 2)), bytes((4, 10, 1))
    )
    assert not standing_of(moved_on, RULES, 106).is_of_age
    assert standing_of(moved_on, BY_PEER, 107) == Standing(moved_on.peer, moved_on.peer)


def test_who_gives_its_seat_up_begins_its_age_anew_unless_it_stays_where_it_sits() -> None:
    held = seated("192.0.2.9", "10.1.2.3")
    assert age_refusal(replace(held, seat=None), held, RULES) == "moved"
    assert age_refusal(replace(held, seat=None, since=107), held, RULES) is None
    home = replace(held, seat=None, lines=record("10.1.2.3").lines)
    assert age_refusal(home, replace(held, lines=home.lines), RULES) is None


def test_two_moves_in_a_day_are_one_and_the_way_back_is_none() -> None:
    def gone(one: PeerRecord, home: int) -> PeerRecord:
        host = bytes((10, 0, home, 1))
        there = replace(one, lines=(Line.at(Address(host=host, port=1)),), trail=moved(one, host, RULES))
        return replace(there, trail=trail_on(there, RULES, 110))

    begun = lived([1] * 10)[-1]  # still young
    second = gone(begun, 2)
    third, back = gone(second, 3), gone(second, 1)
    assert [(stay.place[3], stay.since) for stay in third.trail] == [(1, 100), (3, 110)]
    assert back.trail == ()
    assert age_refusal(third, second, YOUNG) is age_refusal(back, second, YOUNG) is None


def test_by_peer_nobody_keeps_a_trail() -> None:
    assert trail_on(aged(1, ("10.2.2.2", 1), ("10.1.2.3", 9)), BY_PEER, 10) == ()
    assert moved(aged(1), bytes((10, 9, 9, 9)), BY_PEER) == ()
    assert age_refusal(aged(1, host="10.9.9.9"), aged(1), BY_PEER) is None
