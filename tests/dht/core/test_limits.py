"""How much may a stranger make us do? The buckets and the ledger, in seconds and bytes counted by hand."""

import pytest

from dht.core.frames import NO_COOKIE, DatagramHello
from dht.core.handshake import CookieJar
from dht.core.limits import AmplificationLedger, Buckets, Rate, prefix_of

A, B = ("192.0.2.1", 4484), ("198.51.100.2", 4484)
ONCE_A_SECOND = Rate(per_second=1, burst=3)


def taken(buckets: Buckets, now: float, tries: int = 10) -> int:
    return sum(buckets.take("who", ONCE_A_SECOND, now) for _ in range(tries))


def test_after_a_silence_of_a_day_no_more_comes_at_once_than_the_burst() -> None:
    buckets = Buckets()
    assert taken(buckets, 1_000.0) == 3
    assert taken(buckets, 1_002.0) == 2
    assert taken(buckets, 90_000.0) == 3


def test_a_clock_that_goes_back_refills_nothing_and_takes_nothing() -> None:
    buckets = Buckets()
    assert taken(buckets, 1_000.0, tries=1) == 1
    assert taken(buckets, 10.0) == 2  # what was left
    assert taken(buckets, 1_001.0) == 1  # a second after the first


def test_another_rate_for_a_known_name_holds_from_then_on_and_forgives_nothing() -> None:
    buckets = Buckets()
    assert taken(buckets, 1_000.0) == 3
    ten_a_second = Rate(per_second=10, burst=20)
    bucket = buckets.of("who", ten_a_second, 1_000.0)
    assert bucket.wait_s(1_000.0, 20) == pytest.approx(0.3), "the three of before were used"
    assert [buckets.take("who", ten_a_second, 1_000.5) for _ in range(21)] == [True] * 20 + [False]
    assert not buckets.take("who", ONCE_A_SECOND, 1_000.5), "a lower rate holds as soon as it is asked for"
    assert not buckets.take("who", ONCE_A_SECOND, 1_017.0), "twenty were used where three may be"
    assert taken(buckets, 1_021.5) == 3


def test_one_that_was_not_asked_for_longest_is_forgotten_first() -> None:
    buckets = Buckets(buckets_max=2)
    for who in ("a", "b", "a", "c"):
        buckets.of(who, ONCE_A_SECOND, 0.0)
    assert len(buckets._known) == 2
    kept = buckets.of("a", ONCE_A_SECOND, 0.0)
    kept.take(0.0)
    assert buckets.of("a", ONCE_A_SECOND, 0.0) is kept


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("192.0.2.1", "192.0.2.254", True),
        ("192.0.2.1", "192.0.3.1", False),
        ("2001:db8:0:100::1", "2001:db8:0:1ff::1", True),
        ("2001:db8:0:100::1", "2001:db8:0:200::1", False),
    ],
)
def test_strangers_are_limited_by_the_24_or_the_56_that_they_are_in(
    one: str, other: str, is_same: bool
) -> None:
    assert (prefix_of((one, 1)) == prefix_of((other, 2))) is is_same


def test_an_unproven_address_is_sent_three_times_what_it_sent_and_not_a_byte_more() -> None:
    ledger = AmplificationLedger()
    ledger.received(A, 100)
    assert ledger.spend(A, 200)
    assert not ledger.spend(A, 101)
    assert ledger.spend(A, 100)
    assert not ledger.spend(A, 1)
    assert not ledger.spend(B, 1)  # it sent nothing
    ledger.received(A, 1)
    assert ledger.spend(A, 3)


def test_a_ledger_of_very_many_addresses_forgets_the_oldest() -> None:
    ledger = AmplificationLedger(addresses_max=2)
    for port in range(3):
        ledger.received(("192.0.2.1", port + 1), 100)
    assert len(ledger._credit) == 2
    assert not ledger.spend(("192.0.2.1", 1), 1)


def test_a_cookie_outlives_the_change_of_the_minute_and_no_second_one() -> None:
    jar = CookieJar(b"s" * 32)
    hello = DatagramHello(
        network=bytes(8), initiator_id=bytes(8), public_key=bytes(32), ephemeral=bytes(32), cookie=NO_COOKIE
    )
    baked = jar.bake(hello, A, 1_199.0)
    with_cookie = DatagramHello(
        network=bytes(8), initiator_id=bytes(8), public_key=bytes(32), ephemeral=bytes(32), cookie=baked
    )
    assert [jar.is_ours(with_cookie, A, now) for now in (1_199.0, 1_201.0, 1_259.0, 1_261.0)] == [
        True, True, True, False,
    ]  # fmt: skip
    assert not jar.is_ours(with_cookie, B, 1_201.0)
    assert not jar.is_ours(with_cookie, ("192.0.2.1", 4485), 1_201.0)
