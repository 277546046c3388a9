"""What does a look at one's own machine say of a new address? Each way in which a home line changes."""

from ipaddress import ip_address

import pytest

from herodotus.core.whereabouts import Finding, Whereabouts, has_family

WIFI, CABLE, VPN = "192.168.1.7", "192.168.1.8", "10.8.0.2"
OPEN, OTHER = "8.8.4.4", "9.9.9.9"
"""Addresses that the internet knows; those of examples count as private."""


def host(text: str) -> bytes:
    return ip_address(text).packed


def finding(before: str, after: str, ours: str, slept_s: float = 0.0) -> Finding:
    watching = Whereabouts(host(before), 1_000.0, 0.0)
    found = watching.look(host(after), host(ours), 1_010.0 + slept_s, 10.0)
    assert watching.outgoing == host(after)
    return found


@pytest.mark.parametrize(
    ("before", "after", "ours", "expected"),
    [
        (OPEN, OPEN, OPEN, Finding.NOTHING),
        (OPEN, OTHER, OPEN, Finding.ELSEWHERE),
        (
            WIFI,
            CABLE,
            WIFI,
            Finding.ELSEWHERE,
        ),  # a network without the internet: others see that very address
        (WIFI, CABLE, OPEN, Finding.UNSURE),  # behind a router: the outside may be another one too
        (WIFI, VPN, OPEN, Finding.UNSURE),
        (OPEN, WIFI, OPEN, Finding.UNSURE),  # a laptop comes home: what others see is the router
        (WIFI, OPEN, OTHER, Finding.UNSURE),
        (OPEN, "127.0.0.1", OPEN, Finding.UNSURE),  # no network at all
        ("2001:4860::1", "2001:4860:0:1::1", "2001:4860::1", Finding.ELSEWHERE),
    ],
)
def test_a_new_address_of_the_interface_is_ours_only_if_the_old_one_was(
    before: str, after: str, ours: str, expected: Finding
) -> None:
    assert finding(before, after, ours) is expected


def test_after_a_sleep_others_are_asked_though_the_interface_has_its_address() -> None:
    assert finding(WIFI, WIFI, OPEN, slept_s=29.0) is Finding.NOTHING
    assert finding(WIFI, WIFI, OPEN, slept_s=30.0) is Finding.UNSURE
    assert finding(OPEN, OTHER, OPEN, slept_s=3_600.0) is Finding.ELSEWHERE


def test_a_clock_that_was_set_ahead_is_one_sleep() -> None:
    watching = Whereabouts(host(WIFI), 1_000.0, 0.0)
    found = [watching.look(host(WIFI), host(OPEN), 5_000.0 + at, at) for at in (10.0, 20.0, 30.0)]
    assert found == [Finding.UNSURE, Finding.NOTHING, Finding.NOTHING]


def test_where_the_family_of_our_address_is_gone_for_three_looks_we_are_in_the_other_one() -> None:
    six, ours = "2001:4860::1", host("2001:4860::1")
    watching = Whereabouts(host(six), 1_000.0, 0.0)
    looks = ["127.0.0.1", WIFI, WIFI, six, WIFI, WIFI, WIFI, WIFI]
    found = [
        watching.look(host(there), ours, 1_010.0 + 10 * n, 10.0 * (n + 1)) for n, there in enumerate(looks)
    ]
    nothing, gone = Finding.NOTHING, Finding.OTHER_FAMILY
    assert found == [nothing, nothing, nothing, Finding.UNSURE, nothing, nothing, gone, nothing]
    assert watching.outgoing == host(WIFI)


def test_a_machine_has_the_families_of_its_addresses_and_offline_we_cannot_tell() -> None:
    four, six = "192.168.1.7", "2001:db8::7"
    assert has_family([four], of="93.184.216.34")
    assert not has_family([four], of=six)
    assert has_family([four, six], of=six)
    assert has_family([], of=six)
