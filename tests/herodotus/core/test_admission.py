"""Who may come in, and how much may they have under way?"""

from dataclasses import replace

import pytest

from dht.core.limits import Rate
from herodotus.core.admission import (
    CROWD_FROM,
    CROWD_S,
    CROWDS_COUNTED_MAX,
    MIB,
    Admission,
    AdmissionLimits,
    Caller,
    CallerStanding,
    Crowds,
)

LIMITS = AdmissionLimits(
    connections_max=20,
    connections_per_peer=3,
    newcomers_max=2,
    unproven_max=12,
    unproven_per_prefix=4,
    arrivals_per_prefix=Rate(per_second=1, burst=100),
)

HERE = "192.0.2.1"


def arrived(admission: Admission, prefix: bytes = b"a", now: float = 0.0) -> Caller:
    visitor = admission.arrives(prefix, now, HERE)
    assert isinstance(visitor, Caller), visitor
    return visitor


def member(admission: Admission, peer: bytes, prefix: bytes = b"a") -> Caller:
    visitor = arrived(admission, prefix)
    assert admission.proves(visitor, peer, CallerStanding.MEMBER) is None
    return visitor


def test_one_prefix_cannot_hold_all_places_without_proving_a_key() -> None:
    admission = Admission(LIMITS)
    held = [arrived(admission) for _ in range(4)]
    assert admission.arrives(b"a", 0, HERE) == "unproven"
    assert isinstance(admission.arrives(b"b", 0, HERE), Caller)
    admission.leaves(held[0])
    assert isinstance(admission.arrives(b"a", 0, HERE), Caller)


def test_all_prefixes_together_leave_room_for_those_who_proved_theirs() -> None:
    admission = Admission(LIMITS)
    for n in range(12):
        arrived(admission, bytes((n,)))
    assert admission.arrives(b"z", 0, HERE) == "full"
    assert admission.open == 12


def test_a_proven_connection_counts_for_its_key_and_no_more_for_its_prefix() -> None:
    admission = Admission(LIMITS)
    for n in range(20):
        member(admission, bytes((n,)))
    assert admission.open == 20
    assert admission.arrives(b"b", 0, HERE) == "full"


def test_a_key_has_a_few_connections() -> None:
    admission = Admission(LIMITS)
    held = [member(admission, b"p") for _ in range(3)]
    fourth = arrived(admission)
    assert admission.proves(fourth, b"p", CallerStanding.MEMBER) == "connections"
    admission.leaves(fourth)
    admission.leaves(held[0])
    member(admission, b"p")


def test_newcomers_are_few_and_strangers_none() -> None:
    admission = Admission(LIMITS)
    for peer in (b"p", b"q"):
        assert admission.proves(arrived(admission), peer, CallerStanding.NEWCOMER) is None
    assert admission.proves(arrived(admission), b"r", CallerStanding.NEWCOMER) == "newcomers"
    assert admission.proves(arrived(admission, b"b"), b"s", CallerStanding.UNKNOWN) == "unknown"
    assert admission.refused == {"newcomers": 1, "unknown": 1}


def test_who_comes_too_often_is_turned_away_until_time_passes() -> None:
    admission = Admission(replace(LIMITS, arrivals_per_prefix=Rate(per_second=1, burst=2)))
    for _ in range(2):
        admission.leaves(arrived(admission))
    assert admission.arrives(b"a", 0, HERE) == "arrivals"
    assert isinstance(admission.arrives(b"a", 1.0, HERE), Caller)


def test_a_newcomer_asks_less_often_than_a_member() -> None:
    admission = Admission(LIMITS)
    newcomer = arrived(admission)
    admission.proves(newcomer, b"n", CallerStanding.NEWCOMER)
    known = member(admission, b"m")
    assert sum(admission.may_ask(newcomer, 0.0) for _ in range(1000)) == 20
    assert sum(admission.may_ask(known, 0.0) for _ in range(1000)) == 400


def test_a_newcomer_that_becomes_a_member_asks_as_often_as_one() -> None:
    admission = Admission(replace(LIMITS, newcomers_max=1))
    caller = arrived(admission)
    admission.proves(caller, b"n", CallerStanding.NEWCOMER)
    assert sum(admission.may_ask(caller, 0.0) for _ in range(1000)) == 20
    admission.becomes_member(caller)
    assert sum(admission.may_ask(caller, 0.0) for _ in range(1000)) == 400
    assert sum(admission.may_ask(caller, 1.0) for _ in range(1000)) == 100
    other = arrived(admission)
    assert admission.proves(other, b"o", CallerStanding.NEWCOMER) is None, (
        "there is room for another newcomer"
    )
    admission.becomes_member(caller)
    assert admission.proves(arrived(admission), b"r", CallerStanding.NEWCOMER) == "newcomers"
    admission.leaves(caller)
    assert admission.proves(arrived(admission), b"r", CallerStanding.NEWCOMER) == "newcomers"


def test_bytes_are_booked_for_each_and_for_all() -> None:
    admission = Admission(LIMITS)
    peers = [member(admission, bytes((n,))) for n in range(6)]
    assert admission.books(peers[0], 16 * MIB)
    assert not admission.books(peers[0], 2 * MIB)
    for peer in peers[1:4]:
        assert admission.books(peer, 16 * MIB)
    assert not admission.books(peers[4], 65 << 10)
    assert admission._bytes == 64 * MIB
    admission.unbooks(peers[0], 16 * MIB)
    assert admission.books(peers[4], 16 * MIB)


def test_a_small_question_finds_room_while_others_hold_all_that_large_ones_may() -> None:
    admission = Admission(LIMITS)
    for n in range(4):
        assert admission.books(member(admission, bytes((n,))), 16 * MIB)
    small = member(admission, b"small")
    assert admission.books(small, 64 << 10)
    assert not admission.books(small, 1), "and no more than a little"
    admission.unbooks(small, 64 << 10)
    assert admission._bytes == 64 * MIB


def test_newcomers_together_hold_no_more_than_one_member() -> None:
    admission = Admission(LIMITS)
    newcomers = [arrived(admission), arrived(admission)]
    for name, visitor in zip((b"n", b"o"), newcomers, strict=True):
        assert admission.proves(visitor, name, CallerStanding.NEWCOMER) is None
    assert admission.books(newcomers[0], 16 * MIB)
    assert not admission.books(newcomers[1], 2 * MIB)
    assert admission.books(newcomers[1], 60_000)
    assert admission.books(member(admission, b"m"), 16 * MIB)
    admission.unbooks(newcomers[0], 16 * MIB)
    assert admission.books(newcomers[1], 2 * MIB)


@pytest.mark.parametrize("standing", list(CallerStanding))
def test_nothing_is_left_of_those_who_left(standing: CallerStanding) -> None:
    admission = Admission(LIMITS)
    for _ in range(50):
        visitor = arrived(admission)
        admission.proves(visitor, b"p", standing)
        if admission.books(visitor, 10):
            admission.unbooks(visitor, 10)
        admission.leaves(visitor)
    assert (admission.open, admission._bytes) == (0, 0)
    assert isinstance(admission.arrives(b"a", 1e6, HERE), Caller)


def crowds(per_address: int = 3, per_network: int = 5) -> Crowds:
    return Crowds(per_address=per_address, per_network=per_network)


@pytest.mark.parametrize(
    ("address", "neighbour", "stranger"),
    [
        ("192.0.2.1", "192.0.2.200", "192.0.3.1"),
        ("::ffff:192.0.2.1", "192.0.2.200", "::ffff:192.0.3.1"),
        ("2001:db8:1:1::1", "2001:db8:1:2::1", "2001:db8:2:1::1"),
    ],
)
def test_an_address_has_few_connections_and_its_network_some_more(
    address: str, neighbour: str, stranger: str
) -> None:
    found = crowds()
    assert [found.take(address, 0) for _ in range(4)] == [True, True, True, False]
    assert [found.take(neighbour, 0) for _ in range(3)] == [True, True, False]
    assert found.take(stranger, 0)
    found.give_back(address)
    assert found.take(neighbour, 0), "what left is free for the network"
    assert not found.take(address, 0), "the network is full again"


def test_addresses_of_a_household_with_ipv6_are_one() -> None:
    found = crowds()
    assert [found.take(f"2001:db8:1:1::{n}", 0) for n in range(4)] == [True, True, True, False]


def test_what_left_leaves_nothing_behind() -> None:
    found = crowds()
    for n in range(1_000):
        assert found.take(f"192.0.{n % 256}.{n % 250}", n)
        found.give_back(f"192.0.{n % 256}.{n % 250}")
    assert not found._open


def test_who_is_refused_often_is_named_until_it_stops() -> None:
    found = crowds(per_address=1)
    assert found.take("192.0.2.1", 0)
    for now in range(CROWD_FROM - 1):
        assert not found.take("192.0.2.1", now)
    assert found.worst(CROWD_FROM) == "", "an office whose readers all came at once"
    found.take("192.0.2.1", CROWD_FROM)
    for n in range(2 * CROWDS_COUNTED_MAX):
        found.take(f"192.0.2.1{n % 10}", CROWD_FROM)
    assert found.worst(CROWD_FROM) in {"192.0.2.1", *(f"192.0.2.1{n}" for n in range(10))}
    assert found.worst(CROWD_FROM + CROWD_S) != "", "a change of the clock's window forgets nothing"
    assert found.worst(CROWD_FROM + 3 * CROWD_S) == ""


def test_one_address_holds_so_many_calls_whatever_keys_it_shows() -> None:
    admission = Admission(replace(LIMITS, connections_max=100, connections_per_address=10))
    callers = []
    for n in range(10):
        callers.append(arrived(admission, now=n))
        assert admission.proves(callers[n], bytes((n,)), CallerStanding.MEMBER) is None
    assert admission.arrives(b"a", 10, HERE) == "crowd"
    assert isinstance(admission.arrives(b"b", 10, "198.51.100.7"), Caller)
    admission.leaves(callers[0])
    assert isinstance(admission.arrives(b"a", 11, HERE), Caller)


def test_peers_of_one_machine_share_an_address_by_right() -> None:
    admission = Admission(AdmissionLimits.for_one_machine(200))
    for n in range(200):
        caller = arrived(admission)
        assert admission.proves(caller, n.to_bytes(2), CallerStanding.MEMBER) is None
    assert admission.arrives(b"a", 0, HERE) == "full"
