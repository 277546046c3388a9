"""How settings, the last run and the router become what a peer says of itself."""

from ipaddress import ip_address

import pytest
from msgspec.structs import replace

from dht.core.ids import PeerKey
from dht.core.messages import SUCCESSORS_MAX
from dht.core.places import BY_PEER, PlaceRules, Standing
from dht.core.reader import Member
from dht.core.records import Address, Birth, Line, Stay
from dht.core.rules import RingRules
from dht.discovery.port_mapping import MappingOutcome, MappingState
from herodotus.core.charter import Charter
from herodotus.core.errors import SettingError
from herodotus.core.settings.fields import HostPort
from herodotus.core.status import PlacesStatus, SilentStatus
from herodotus.peers.membership import (
    age_on,
    as_last_run,
    first_slot,
    other_lines,
    outside_host,
    outside_port,
    own_address,
    places_status,
    silent_after,
    silent_status,
    unheard,
)
from simnet.rings import NETWORK, peer_number

HOME = Address(host=bytes((192, 0, 2, 7)), port=4484)


@pytest.mark.parametrize(
    ("stated", "last", "here", "expected"),
    [
        (0, None, HOME, 0),
        (0, (HOME, 3), HOME, 3),  # the slot that was free the last time
        (2, (HOME, 3), HOME, 2),  # the settings say another
        (0, (Address(host=bytes((192, 0, 2, 8)), port=4484), 3), HOME, 0),  # it was free elsewhere
        (0, (Address(host=HOME.host, port=9), 3), HOME, 3),  # the port takes no part in positions
    ],
)
def test_a_peer_begins_in_the_slot_of_its_last_run(
    stated: int, last: tuple[Address, int] | None, here: Address, expected: int
) -> None:
    record = None
    if last is not None:
        record = replace(peer_number(1), lines=(Line.at(last[0]),), slot=last[1])
    assert first_slot(stated, record, here) == expected


DAY_S = 86_400


@pytest.mark.parametrize(
    ("away_days", "is_elsewhere", "expected"),
    [
        (1, False, (50, ())),
        (1, True, (50, (Stay(place=bytes((4, 198, 51, 100)), since=50),))),
        (29, False, (50, ())),
        (30, False, (0, ())),
        (400, True, (0, ())),
    ],
)
def test_age_goes_on_where_the_last_run_ended_unless_that_was_long_ago(
    away_days: int, is_elsewhere: bool, expected: tuple[int, tuple[Stay, ...]]
) -> None:
    there = Address(host=bytes((198, 51, 100, 7)), port=4484)
    last = replace(peer_number(1), lines=(Line.at(there),), since=50, issued_s=1_000 * DAY_S)
    here = HOME if is_elsewhere else there
    now = (1_000 + away_days) * DAY_S
    assert age_on(last, here, 0, PlaceRules(probation_days=999), now) == (*expected, None)
    assert age_on(last, here, 0, BY_PEER, now) == (expected[0], (), None)


@pytest.mark.parametrize(
    ("slot", "keeps_seat", "expected"), [(0, True, (50, True)), (0, False, (0, False)), (1, True, (0, False))]
)
def test_a_peer_of_age_comes_back_to_its_seat_or_begins_its_age_anew_elsewhere(
    slot: int, keeps_seat: bool, expected: tuple[int, bool]
) -> None:
    there, seat = (
        Address(host=bytes((198, 51, 100, 7)), port=4484),
        Birth(host=bytes((192, 0, 2, 1)), day=990),
    )
    last = replace(peer_number(1), lines=(Line.at(there),), since=50, issued_s=1_000 * DAY_S, seat=seat)
    found = age_on(last, HOME, slot, PlaceRules(), 1_000 * DAY_S + 60, keeps_seat=keeps_seat)
    assert (found[0], found[2] == seat) == expected
    at_birth = replace(last, lines=(Line.at(Address(host=seat.host, port=4484)),))
    home = Address(host=seat.host, port=4484)
    assert age_on(at_birth, home, 0, PlaceRules(), 1_000 * DAY_S + 60) == (50, (), None), (
        "it sits where it sat"
    )
    assert first_slot(0, replace(last, slot=0), there, keeps_seat=True) == 0


def test_without_a_last_record_and_after_a_clock_of_1970_age_is_what_it_can_be() -> None:
    assert age_on(None, HOME, 0, PlaceRules(), 0.0) == (0, (), None)
    last = replace(peer_number(1), lines=(Line.at(HOME),), since=50, issued_s=1_000 * DAY_S)
    assert age_on(last, HOME, 0, PlaceRules(), 0.0) == (50, (), None)


@pytest.mark.parametrize(
    ("state", "external", "expected"),
    [
        (MappingState.MAPPED, 50_001, 50_001),
        (MappingState.MAPPED, 4484, 4484),
        (MappingState.DOUBLE_NAT, 50_001, 4484),  # nobody outside reaches that one
        (MappingState.FAILED, None, 4484),
    ],
)
def test_the_port_that_a_router_opened_is_what_others_are_told(
    state: MappingState, external: int | None, expected: int
) -> None:
    outcome = MappingOutcome(state=state, explanation="", external_port=external)
    assert outside_port(outcome, 4484) == expected


INSIDE, OUTSIDE = bytes((192, 168, 1, 10)), bytes((62, 1, 0, 1))


@pytest.mark.parametrize(
    ("host", "state", "told", "expected"),
    [
        (INSIDE, MappingState.MAPPED, "62.1.0.1", OUTSIDE),
        (INSIDE, MappingState.MAPPED, "192.168.0.2", None),  # another router beyond it
        (INSIDE, MappingState.HALF, "62.1.0.1", None),
        (INSIDE, MappingState.FAILED, None, None),
        (
            bytes((62, 2, 0, 1)),
            MappingState.MAPPED,
            "62.1.0.1",
            None,
        ),  # others see us there, whatever it says
    ],
)
def test_a_router_tells_its_address_to_a_peer_whose_own_means_nothing_outside(
    host: bytes, state: MappingState, told: str | None, expected: bytes | None
) -> None:
    outcome = MappingOutcome(state=state, explanation="", external_ip=told, external_port=4484)
    assert outside_host(outcome, host) == expected


@pytest.mark.parametrize(
    ("listen", "advertise", "outgoing", "expected"),
    [
        ("::", "", ("192.0.2.7", "2001:db8::7"), ("192.0.2.7", True)),
        ("::", "", ("2001:db8::7",), ("2001:db8::7", True)),  # a line without IPv4
        ("0.0.0.0", "", ("192.0.2.7", "2001:db8::7"), ("192.0.2.7", True)),
        ("0.0.0.0", "", ("2001:db8::7",), ("127.0.0.1", True)),
        ("::", "", (), ("127.0.0.1", True)),
        ("::", "203.0.113.9", ("192.0.2.7",), ("203.0.113.9", False)),
        ("192.0.2.9", "", ("192.0.2.7",), ("192.0.2.9", False)),
    ],
)
def test_a_peer_is_where_it_was_told_or_where_its_datagrams_leave(
    listen: str, advertise: str, outgoing: tuple[str, ...], expected: tuple[str, bool]
) -> None:
    address, is_guessed = own_address(HostPort(host=listen, port=4484), advertise, outgoing)
    assert (str(ip_address(address.host)), is_guessed) == expected


@pytest.mark.parametrize(
    ("listen", "first", "outgoing", "expected"),
    [
        ("::", "192.0.2.7", ("192.0.2.7", "2001:db8::7"), ["2001:db8::7"]),
        ("::", "192.0.2.7", ("192.0.2.7",), []),
        ("::", "192.0.2.7", ("192.0.2.7", "fd00::7"), []),  # of the house alone
        ("::", "192.0.2.7", ("192.0.2.7", "fe80::7"), []),
        ("::", "2001:db8::7", ("2001:db8::7",), []),  # it is the first already
        (
            "::",
            "2001:db8::7",
            ("192.168.1.7", "2001:db8::7"),
            [],
        ),  # behind a router: where, others alone know
        ("::", "2001:db8::7", ("8.8.4.4", "2001:db8::7"), ["8.8.4.4"]),
        ("0.0.0.0", "192.0.2.7", ("192.0.2.7", "2001:db8::7"), []),
    ],
)
def test_a_peer_on_two_families_has_a_second_line(
    listen: str, first: str, outgoing: tuple[str, ...], expected: list[str]
) -> None:
    address = Address(host=ip_address(first).packed, port=4484)
    lines = other_lines(HostPort(host=listen, port=4484), address, outgoing)
    assert [str(ip_address(line.host)) for line in lines] == expected
    assert all((line.udp, line.tcp) == (4484, 4484) for line in lines)


@pytest.mark.parametrize(
    ("last", "outgoing", "expected"),
    [
        (None, ("192.0.2.7", "2001:db8::7"), "192.0.2.7"),
        ("192.0.2.99", ("192.0.2.7", "2001:db8::7"), "192.0.2.7"),
        ("2001:db8::99", ("192.0.2.7", "2001:db8::7"), "2001:db8::7"),
        ("2001:db8::99", ("192.0.2.7",), "192.0.2.7"),
    ],
)
def test_a_peer_begins_in_the_family_of_its_last_run(
    last: str | None, outgoing: tuple[str, ...], expected: str
) -> None:
    """Else a peer whose IPv4 nobody gets through to would sit elsewhere at each start, until a test has found that."""
    address = Address(host=ip_address(last).packed, port=1) if last is not None else None
    record = None if address is None else replace(peer_number(1), lines=(Line.at(address),))
    first = Address(host=ip_address(outgoing[0]).packed, port=4484)
    found = as_last_run(HostPort(host="::", port=4484), first, record, outgoing)
    assert found == Address(host=ip_address(expected).packed, port=4484)


def test_no_charter_has_longer_lists_than_a_state_can_carry() -> None:
    for_all = {"name": "ours", "contact_required": False}
    Charter.from_table({**for_all, "successors": SUCCESSORS_MAX}, source="f")
    with pytest.raises(SettingError, match="successors"):
        Charter.from_table({**for_all, "successors": SUCCESSORS_MAX + 1}, source="f")


def test_places_are_counted_of_members_of_age() -> None:
    standings = [
        Standing(b"1", b"a"),
        Standing(b"1", b"a"),
        Standing(b"2", b"a"),
        Standing(b"3", b"b", False),
    ]
    found = places_status(standings, PlaceRules(founded_day=100), 112)
    assert places_status(standings, PlaceRules(), 112, own=standings[3]).is_counted is False
    assert found == PlacesStatus(by="prefix", places=2, areas=1, of_age=3, probation_days=3, veteran_days=6)


def test_where_most_silent_members_are_said_to_be_is_named() -> None:
    def one(host: str, clock: str, number: int) -> Member:
        address = Address(host=ip_address(host).packed, port=4484)
        return Member(peer=PeerKey(bytes((number,)) * 32), address=address, virtual_nodes=1, clock=clock)

    silent = [one(f"10.200.0.{n}", ("unreachable", "suspect")[n % 2], n) for n in range(20)]
    others = [one(f"2001:db8:{n}::1", "unreachable", 50 + n) for n in range(3)]
    well = [one(f"10.9.0.{n}", "well", 100 + n) for n in range(90)]
    found = silent_status([*well, *others, *silent], [])
    assert found == SilentStatus(members=23, network="10.200.0.0/24", in_network=20)
    assert silent_status(others[:1], []).network == "2001:db8::/48"
    assert silent_status(well, []) == SilentStatus()
    strangers = [bytes((10, 77, 7, n)) for n in range(40)]
    found = silent_status([*well, *silent], strangers)
    assert found == SilentStatus(members=20, strangers=40, network="10.77.7.0/24", in_network=40)


def test_while_nobody_answers_what_a_test_found_before_is_not_said_of_now() -> None:
    found = "Member. 3 peers in 3 networks called this peer by UDP and TCP at 203.0.113.7:4484."
    assert unheard(found, 75.4) == f"Not known: no member has answered for 75 s. Before: {found}"
    assert unheard(found, None) == "Not known: no member has answered yet."


def test_who_has_no_neighbours_may_hear_nobody_between_two_comparisons_of_tables() -> None:
    rules = RingRules(network=NETWORK)
    assert silent_after(rules, has_neighbours=True) == 45
    assert silent_after(rules, has_neighbours=False) == 180, (
        "three comparisons, each a minute and a fifth at most"
    )
