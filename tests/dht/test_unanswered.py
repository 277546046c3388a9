"""A third party whose addresses others name: what does it get from us, and do living peers still meet?"""

from collections.abc import Callable, Iterator

import pytest

from dht.core.frames import HELLO, HELLO_OK, RETRY, Address
from dht.core.link import SessionKeeper
from dht.core.unanswered import (
    ADDRESS_AGAIN_S,
    ADDRESS_FORGOTTEN_S,
    ADDRESS_MAX,
    ANSWERED_MAX,
    ASKED_MAX,
    NETWORK_MAX,
    OPEN_MAX,
    OPEN_OF_NETWORK_MAX,
    Unanswered,
    network_of,
)
from tests.dht.link_world import LinkWorld, deliver_all

A: Address = ("192.0.2.1", 4484)
B: Address = ("198.51.100.2", 4484)
DAY_S = 24 * 3600


def victim(number: int, network: int = 0) -> Address:
    return f"10.200.{network}.{number}", 9_999


def victim6(number: int, subnet: int = 0) -> Address:
    return f"2001:db8:1:{subnet:x}::{number:x}", 9_999


def asked(rule: Unanswered, address: Address, now: float) -> bool:
    """Of a handshake that nobody answers, and that is given up at once."""
    is_asked = rule.refusal(address, now) is None
    rule.closed(address)
    return is_asked


# --- the rule alone


def test_a_silent_address_gets_one_datagram_a_minute_ten_in_a_day_and_then_again() -> None:
    rule = Unanswered()
    tried = [second for second in range(DAY_S) if asked(rule, victim(1), second)]
    assert tried == [60 * minute for minute in range(10)]
    assert (ADDRESS_AGAIN_S, ADDRESS_MAX) == (60.0, 10)
    assert not asked(rule, victim(1), ADDRESS_FORGOTTEN_S - 1)
    assert asked(rule, victim(1), ADDRESS_FORGOTTEN_S)


@pytest.mark.parametrize("name", [victim, victim6])
def test_a_network_gets_sixteen_in_any_minute_whatever_addresses_are_named(
    name: Callable[[int], Address],
) -> None:
    rule = Unanswered()
    sent = [second / 10 for second in range(6_000) if asked(rule, name(second % 250 + 1), second / 10)]
    worst = max(sum(begin <= moment < begin + 60 for moment in sent) for begin in sent)
    assert worst == NETWORK_MAX == 16
    assert len(sent) >= 9 * NETWORK_MAX, "the rule is a rate and no end"


def test_ports_and_interfaces_of_a_network_are_not_other_networks() -> None:
    assert network_of(("10.200.0.1", 1)) == network_of(("10.200.0.250", 2)) != network_of(("10.200.1.1", 1))
    assert network_of(victim6(1, 1)) == network_of(victim6(1, 2)) != network_of(("2001:db8:2::1", 1))
    rule = Unanswered()
    assert sum(asked(rule, ("10.200.0.1", port), 0.0) for port in range(1, 500)) == NETWORK_MAX


def test_so_many_handshakes_are_open_to_a_network_and_in_all() -> None:
    rule = Unanswered()
    assert [rule.refusal(victim(n), 0.0) for n in range(1, 10)] == [None] * 8 + ["unanswered_open"]
    assert sum(rule.refusal(victim(1, network), 0.0) is None for network in range(1, 100)) == OPEN_MAX - 8
    rule.closed(victim(1))
    assert rule.refusal(victim(10), 0.0) is None, "one is given up: there is room for another"
    assert (OPEN_OF_NETWORK_MAX, OPEN_MAX) == (8, 32)


def test_a_network_of_living_peers_is_met_as_fast_as_they_answer() -> None:
    rule = Unanswered()
    for number in range(1, 200):
        assert rule.refusal(victim(number), 0.0) is None
        rule.answered(victim(number))
        assert rule.has_answered(victim(number))
    assert not rule.has_answered(("10.200.0.1", 1)), "the peer answered, and not all ports of its machine"


def test_a_laboratory_s_own_network_is_spared_and_no_other() -> None:
    rule = Unanswered(spared=network_of(("127.0.0.1", 1)))
    assert rule.has_answered(("127.0.0.1", 5_000))
    assert not rule.has_answered(("127.0.1.1", 5_000))
    assert not Unanswered().has_answered(("127.0.0.1", 5_000))


def test_what_is_remembered_is_bounded_and_empties() -> None:
    rule = Unanswered()
    for number in range(ASKED_MAX + 2_000):
        assert asked(rule, (f"10.{number % 250}.{number // 250}.1", 9_999), number / 5)
    assert len(rule._asked) == ASKED_MAX
    assert len(rule._recent) <= ASKED_MAX
    for number in range(ANSWERED_MAX + 100):
        rule.answered((f"10.{number % 250}.{number // 250}.1", 9_999))
    assert len(rule._answered) == ANSWERED_MAX
    assert not rule._asked
    assert not rule._recent
    assert not rule._open
    assert not rule._open_of


# --- in the link


def hellos_to(world: LinkWorld, network: bytes) -> list[float]:
    return [
        at for at, _, target, data in world.log if network_of(target) == network and data[1] in (HELLO, RETRY)
    ]


def minutes(world: LinkWorld, count: int) -> Iterator[int]:
    for minute in range(count):
        yield minute
        world.settle(60.0)


def test_whatever_is_sent_to_addresses_that_others_name_the_network_gets_sixteen_a_minute() -> None:
    world = LinkWorld()
    anna = world.add("anna", A)
    for _ in minutes(world, 10):
        for number in range(1, 251):
            anna.send(b"ping", victim(number), number.to_bytes(32, "big"), world.now)
            anna.send(b"again", victim(number), number.to_bytes(32, "big"), world.now)
    sent = hellos_to(world, network_of(victim(1)))
    assert sent
    assert max(sum(begin <= at < begin + 60 for at in sent) for begin in sent) <= NETWORK_MAX
    assert anna.dropped["unanswered_open"] + anna.dropped["unanswered_network"] > 1_000


def test_one_silent_address_gets_ten_datagrams_in_a_day_however_often_it_is_asked() -> None:
    world = LinkWorld()
    anna = world.add("anna", A)
    for _ in minutes(world, 60):
        anna.send(b"ping", victim(1), None, world.now)
    assert len(world.log) == ADDRESS_MAX


def test_an_address_that_answered_once_is_tried_as_before_when_it_is_silent() -> None:
    world = LinkWorld()
    anna = world.add("anna", A)
    bert = world.add("bert", B)
    anna.send(b"first", B, None, world.now)
    world.settle()
    assert world.payloads(B) == [b"first"]
    del world.links[B]
    anna.sessions.remove(next(iter(anna.sessions)))
    before = len(world.log)
    anna.send(b"second", B, bert.public_key, world.now)
    world.settle()
    assert len(world.log) - before == 4, "HELLO, repeated after 0.5, 1 and 2 s"


def test_who_greeted_us_with_our_cookie_has_answered() -> None:
    world = LinkWorld()
    anna, bert = world.add("anna", A), world.add("bert", B)
    bert.send(b"hello", A, None, world.now)
    world.settle()
    assert anna.unanswered.has_answered(B)
    assert bert.unanswered.has_answered(A)


def test_a_forged_answer_to_a_dial_proves_no_address() -> None:
    """Its id is random: who does not read our datagrams cannot say it."""
    world = LinkWorld(lambda data, _s, _t, _i: [] if data[1] in (RETRY, HELLO_OK) else [data])
    anna = world.add("anna", A)
    world.add("bert", B)
    anna.dial(B, None, world.now, is_chosen=True)
    world.settle(1.0)
    retry = next(data for _, _, _, data in world.log if data[1] == RETRY)
    world.inject(retry[:10] + bytes(8) + retry[18:], victim(1), A)
    world.inject(retry[:10] + bytes(8) + retry[18:], B, A)
    world.settle()
    assert not anna.unanswered.has_answered(victim(1))
    assert not anna.unanswered.has_answered(B)


def test_what_the_operator_names_is_tried_for_as_long_as_it_is_asked_for() -> None:
    world = LinkWorld()
    anna = world.add("anna", A)
    for _ in minutes(world, 20):
        anna.dial(B, None, world.now, is_chosen=True)
    assert len(world.log) == 4 * 20
    world.add("bert", B)
    anna.dial(B, None, world.now, is_chosen=True)
    world.settle()
    assert world.opened(A)


def test_a_peer_that_is_down_when_it_is_named_is_met_a_minute_after_it_is_up() -> None:
    world = LinkWorld()
    anna = world.add("anna", A)
    anna.send(b"lost", B, None, world.now)
    world.settle(10.0)
    world.add("bert", B)
    anna.send(b"too soon", B, None, world.now)
    world.settle(51.0)
    assert world.payloads(B) == []
    anna.send(b"now", B, None, world.now)
    world.settle()
    assert world.payloads(B) == [b"now"]


def test_a_network_full_of_silence_hinders_nobody_elsewhere() -> None:
    world = LinkWorld(deliver_all)
    anna = world.add("anna", A)
    world.add("bert", B)
    for number in range(1, 251):
        anna.send(b"ping", victim(number), None, world.now)
    assert anna.send(b"hello", B, None, world.now)
    world.settle()
    assert world.payloads(B) == [b"hello"]


def test_a_second_handshake_for_the_same_dial_is_not_booked_twice() -> None:
    world = LinkWorld()
    anna: SessionKeeper = world.add("anna", A)
    for _ in range(5):
        anna.send(b"ping", victim(1), None, world.now)
    assert len(anna.unanswered._open) == 1
    world.settle(10.0)
    assert len(anna.unanswered._open) == 0
    assert anna.dropped["dial_silence"] == 1
