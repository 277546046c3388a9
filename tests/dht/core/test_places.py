"""Which prefix of an address is a place, and from which day on does a member count?"""

from ipaddress import ip_address

import pytest

from dht.core.ids import NetworkId, PeerKey
from dht.core.places import (
    BY_PEER,
    PlaceRules,
    Standing,
    area_at,
    day_from,
    place_at,
    standing_of,
)
from dht.core.records import Address, PeerRecord

RULES = PlaceRules()


def record(*hosts: str, number: int = 1) -> PeerRecord:
    return PeerRecord(
        version=1,
        network=NetworkId(bytes(8)),
        peer=PeerKey(bytes((number,)) * 32),
        addresses=tuple(Address(host=ip_address(host).packed, port=4484) for host in hosts),
        slot=0,
        virtual_nodes=1,
        incarnation=1,
        issued_s=0,
        expires_s=1,
        flags=0,
        previous=b"",
    )


def at(host: str) -> tuple[str, str]:
    packed = ip_address(host).packed
    return place_at(packed, RULES).hex(" ", 1), area_at(packed, RULES).hex(" ", 1)


def test_a_place_is_a_24_and_an_area_a_16_or_a_48_and_a_28() -> None:
    assert at("192.0.2.7") == ("04 c0 00 02", "04 c0 00")
    assert at("2001:db8:1234:5678::1") == ("10 20 01 0d b8 12 34", "10 20 01 0d b0")


@pytest.mark.parametrize(
    ("one", "other", "places", "areas"),
    [
        ("10.1.2.3", "10.1.2.200", True, True),
        ("10.1.2.3", "10.1.3.3", False, True),
        ("10.1.2.3", "10.2.2.3", False, False),
        ("2001:db8:1:1::1", "2001:db8:1:ffff::1", True, True),
        ("2001:db8:1::1", "2001:dbf:1::1", False, True),
        ("2001:db8:1::1", "2001:dc8:1::1", False, False),
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
    assert standing_of(record("10.1.2.3", "2001:db8::1"), RULES, 0) == Standing(
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
