"""Handshakes and sessions as transcripts in virtual time."""

import pytest

from dht.core.dials import COOKIES_MAX, DIALS_MAX
from dht.core.frames import (
    DATA,
    DATAGRAM_BYTES_MAX,
    FINISH,
    HELLO,
    HELLO_OK,
    HINT,
    PAYLOAD_BYTES_MAX,
    RETRY,
    Address,
    DatagramHello,
    Echo,
    HelloOk,
    Nonce,
    Retry,
    parse_greeting,
)
from dht.core.half_open import HALF_OPEN_MAX
from dht.core.limits import Rate
from dht.core.link import DIAL_QUEUE_MAX, DialFailed
from dht.core.sessions import LIFE_S, REKEY_AS_INITIATOR_S
from dht.core.strangers import LinkLimits
from tests.dht.link_world import NETWORK, LinkWorld, deliver_all, key_from

A: Address = ("192.0.2.1", 4484)
B: Address = ("198.51.100.2", 4484)
C: Address = ("203.0.113.3", 4484)


def pair(world: LinkWorld) -> LinkWorld:
    world.add("anna", A)
    world.add("bert", B)
    return world


def dial_chosen(world: LinkWorld, target: Address = B) -> None:
    """As to the contact that an operator names: HELLO is repeated.  A stranger's word would get one a minute."""
    assert world.links[A].dial(target, None, world.now, is_chosen=True)


def talk(world: LinkWorld, payload: bytes, source: Address = A, target: Address = B) -> None:
    assert world.links[source].send(payload, target, None, world.now)
    world.settle()


def test_the_first_payload_arrives_after_hello_retry_hello_ok_and_finish() -> None:
    world = pair(LinkWorld())
    talk(world, b"first")
    assert world.kinds() == [1, 2, 1, 3, 4, 5, 5]  # the last two: the payload, and "I am here"
    assert world.received[B] == [(b"first", world.links[A].public_key)]
    assert world.opened(B)[0].session.record == b"record of anna"
    assert world.opened(A)[0].session.record == b"record of bert"
    assert world.opened(A)[0].seen == A
    talk(world, b"answer", B, A)
    assert world.payloads(A) == [b"answer"]
    assert not world.links[A].dropped
    assert not world.links[B].dropped


def test_sizes_of_the_greeting_are_those_of_the_protocol_page() -> None:
    world = pair(LinkWorld())
    talk(world, b"first")
    record = len(b"record of anna")
    assert [len(data) for _, _, _, data in world.log] == [
        512, 34, 512, 174 + record, 34 + 66 + record, 34 + 5, 34,
    ]  # fmt: skip


def test_nothing_beyond_the_greeting_is_readable_on_the_wire() -> None:
    world = pair(LinkWorld())
    talk(world, b"a secret link")
    assert not any(b"a secret link" in data for _, _, _, data in world.log)
    assert not any(b"record of anna" in data for _, _, _, data in world.log)  # the initiator's is sealed


@pytest.mark.parametrize("lost", range(7))
def test_the_loss_of_any_one_frame_is_repaired(lost: int) -> None:
    world = pair(LinkWorld(lambda data, _s, _t, index: [] if index == lost else [data]))
    dial_chosen(world)
    talk(world, b"first")
    if lost == 5:  # the payload itself: repeating requests is for those who ask
        assert world.payloads(B) == []
    else:
        assert b"first" in world.payloads(B) or lost == 4  # after a lost FINISH the payload was early
    talk(world, b"second")
    talk(world, b"answer", B, A)
    assert world.payloads(B)[-1] == b"second"
    assert world.payloads(A) == [b"answer"]
    assert len(world.links[A].sessions) == len(world.links[B].sessions) == 1


@pytest.mark.parametrize("seed", range(8))
def test_a_handshake_through_a_wire_that_loses_doubles_and_holds_back_frames_ends_in_one_session(
    seed: int,
) -> None:
    from random import Random

    chance = Random(seed)

    def bad_wire(data: bytes, _source: Address, _target: Address, _index: int) -> list[bytes]:
        return [data] * chance.choice((0, 1, 1, 1, 2))

    world = pair(LinkWorld(bad_wire))
    dial_chosen(world)
    for _ in range(20):
        world.links[A].send(b"again", B, None, world.now)
        world.settle(3)
    assert b"again" in world.payloads(B)
    assert len(world.links[A].sessions) == 1


def test_a_silent_address_is_given_up_after_four_hellos() -> None:
    world = LinkWorld()
    world.add("anna", A)
    dial_chosen(world)
    talk(world, b"anybody?")
    assert world.kinds() == [1, 1, 1, 1]
    assert world.events[A] == [DialFailed(address=B, public_key=None, reason="silence", lost=1)]
    assert world.links[A].next_deadline() is None


def test_a_peer_that_stops_in_the_middle_costs_a_bounded_time() -> None:
    mute = LinkWorld(lambda data, _s, _t, _i: [] if data[1] == HELLO_OK else [data])
    pair(mute)
    talk(mute, b"hello?")
    assert [type(event) for event in mute.events[A]] == [DialFailed]
    mute.links[B].advance(mute.now + 60)
    assert not mute.links[B]._half_open
    assert mute.links[B].dropped["half_open"] == 1


def test_a_lost_finish_leaves_no_session_with_the_responder() -> None:
    mute = LinkWorld(lambda data, _s, _t, _i: [] if data[1] == FINISH else [data])
    pair(mute)
    talk(mute, b"hello?")
    assert len(mute.links[B].sessions) == 0
    assert len(mute.links[A].sessions) == 0
    assert mute.payloads(B) == []
    assert mute.links[B].dropped["early"] >= 1


def test_both_dialling_at_once_end_in_one_session_and_lose_nothing() -> None:
    world = pair(LinkWorld())
    world.links[A].send(b"from a", B, None, world.now)
    world.links[B].send(b"from b", A, None, world.now)
    world.settle()
    assert world.payloads(A) == [b"from b"]
    assert world.payloads(B) == [b"from a"]
    assert len(world.links[A].sessions) == len(world.links[B].sessions) == 1
    assert world.links[A].dropped["yielded"] + world.links[B].dropped["yielded"] == 2


def test_a_foreign_network_is_dropped_first_and_counted() -> None:
    world = LinkWorld()
    world.add("anna", A)
    world.add("bert", B, network=bytes(8))
    dial_chosen(world)
    talk(world, b"hello")
    assert world.links[B].dropped == {"foreign": 4}
    assert world.kinds() == [1, 1, 1, 1]


def test_another_key_than_the_expected_one_is_refused() -> None:
    world = pair(LinkWorld())
    other = key_from("carl").public_key().public_bytes_raw()
    world.links[A].send(b"for carl", B, other, world.now)
    world.settle()
    assert world.payloads(B) == []
    assert world.events[A] == [DialFailed(address=B, public_key=other, reason="wrong_peer", lost=1)]


def test_who_has_not_the_key_that_it_names_opens_no_session() -> None:
    """All but the last signature can be had without the key: anybody can say whose HELLO it is."""
    world = pair(LinkWorld())
    anna = key_from("anna").public_key().public_bytes_raw()
    mallory = world.add("mallory", C)
    mallory.public_key = anna
    talk(world, b"believe me", C, B)
    assert world.payloads(B) == []
    assert world.opened(B) == []
    assert world.links[B].dropped["signature"] >= 1
    talk(world, b"it is me")
    assert world.received[B] == [(b"it is me", anna)]


def test_a_peer_does_not_shake_hands_with_itself() -> None:
    world = LinkWorld()
    world.add("anna", A)
    world.add("anna", B)
    dial_chosen(world)
    talk(world, b"me?")
    assert world.links[B].dropped["self"] == 4


def test_a_bad_record_ends_the_handshake_on_either_side() -> None:
    for liar, honest in ((A, B), (B, A)):
        world = LinkWorld()
        world.add("anna", A, record=b"forged" if liar == A else None)
        world.add("bert", B, record=b"forged" if liar == B else None)
        talk(world, b"hello")
        assert world.payloads(B) == []
        assert world.links[honest].dropped["record"] + world.links[honest].dropped["dial_record"] >= 1
        assert len(world.links[honest].sessions) == 0


@pytest.mark.parametrize("at", [11, 20, 60, 92, 109, 111, 150, 187])
def test_a_hello_ok_that_was_bent_anywhere_opens_no_session(at: int) -> None:
    def bend(data: bytes, _source: Address, _target: Address, _index: int) -> list[bytes]:
        if data[1] == HELLO_OK:
            return [data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :]]
        return [data]

    world = pair(LinkWorld(bend))
    talk(world, b"hello")
    assert len(world.links[A].sessions) == 0
    assert sum(world.links[A].dropped.values()) >= 4
    assert world.payloads(B) == []


def test_a_bent_or_repeated_or_misdirected_sealed_frame_is_dropped_and_counted() -> None:
    world = pair(LinkWorld())
    talk(world, b"first")
    world.links[A].send(b"second", B, None, world.now)
    sealed = world.links[A].outgoing[-1][0]
    world.settle()
    bent = sealed[:-1] + bytes((sealed[-1] ^ 1,))
    later = sealed[:17] + b"\xff" + sealed[18:]
    for data in (sealed, bent, later):
        world.inject(data, A, B)
    world.settle()
    assert world.links[B].dropped == {"replayed": 2, "forged": 1}
    assert world.payloads(B) == [b"first", b"second"]
    world.add("carl", C)
    world.inject(sealed, A, C)
    world.settle()
    assert world.links[C].dropped == {"unknown": 1}
    assert len(world.links[A].sessions) == 1  # carl's hint names nothing that anna knows of carl


def test_a_frame_from_another_address_is_counted_and_the_peer_dials_from_there() -> None:
    world = pair(LinkWorld())
    talk(world, b"first")
    world.links[C] = world.links.pop(A)  # anna's laptop moved
    world.received[C], world.events[C] = [], []
    world.links[C].send(b"second", B, None, world.now)
    world.settle()
    assert world.links[B].dropped == {"moved": 1}
    assert world.payloads(B) == [b"first"]  # not believed from an address that is not validated
    talk(world, b"third", C, B)
    assert world.payloads(B)[-1] == b"third"
    assert world.opened(C)[-1].seen == C
    talk(world, b"answer", B, C)
    assert world.payloads(C) == [b"answer"]


def test_who_knows_that_it_moved_loses_nothing_that_it_says() -> None:
    world = pair(LinkWorld())
    talk(world, b"first")
    anna = world.links[C] = world.links.pop(A)
    world.received[C], world.events[C] = [], []
    anna.moved()
    anna.send(b"I am here now", B, None, world.now)
    world.settle(1.0)
    assert world.payloads(B) == [b"first", b"I am here now"]
    assert world.links[B].dropped == {}
    talk(world, b"so I see", B, C)
    assert world.payloads(C) == [b"so I see"]


def test_where_nobody_answers_after_a_move_the_session_is_used_as_before() -> None:
    world = pair(LinkWorld())
    talk(world, b"first")
    world.links[A].moved()
    away = world.links.pop(B)
    world.links[A].send(b"lost", B, None, world.now)
    world.settle(60.0)
    world.links[B] = away
    talk(world, b"second")
    assert world.payloads(B) == [b"first", b"second"]
    assert len(world.opened(B)) == 1


def test_a_restarted_peer_hints_and_is_dialled_again() -> None:
    world = pair(LinkWorld())
    talk(world, b"first")
    world.add("bert", B)
    world.links[B]._entropy = lambda count: bytes((7,)) * count
    talk(world, b"lost")
    assert HINT & 0xF in world.kinds()
    talk(world, b"second")
    assert world.payloads(B) == [b"first", b"second"]
    assert world.links[B].dropped == {"unknown": 1}


def test_forged_hints_cost_at_most_a_handshake_in_half_a_minute_and_no_session() -> None:
    world = pair(LinkWorld())
    talk(world, b"first")
    session = world.opened(A)[0].session
    hint = bytes((0x48, HINT)) + NETWORK + session.remote_id
    world.log.clear()
    for _ in range(50):
        world.inject(hint, B, A)
    world.inject(hint, C, A)
    world.settle(20)
    assert world.kinds().count(HELLO & 0xF) <= 4
    talk(world, b"second")
    assert world.payloads(B) == [b"first", b"second"]


def test_a_stranger_with_another_key_at_a_known_address_replaces_the_session_by_its_own() -> None:
    world = pair(LinkWorld())
    talk(world, b"for bert")
    world.add("carl", B)
    talk(world, b"lost")
    talk(world, b"for whoever is there")
    assert world.payloads(B) == [b"for bert", b"for whoever is there"]
    assert world.links[A].sessions.at(B) is not None


def test_unvalidated_addresses_are_never_sent_more_than_three_times_what_they_sent() -> None:
    world = LinkWorld()
    world.add("bert", B)
    sent = 0
    for n in range(300):
        hello = DatagramHello(
            network=NETWORK,
            initiator_id=n.to_bytes(8, "big"),
            public_key=bytes(32),
            ephemeral=bytes(32),
            cookie=bytes(15) + bytes((n % 3,)),
        ).pack()
        unknown = bytes((0x48, DATA)) + n.to_bytes(8, "big") + bytes(24)
        for data in (hello, unknown):
            world.inject(data, C, B)
            sent += len(data)
        world.settle(0.01)
    answered = sum(len(data) for _, _, target, data in world.log if target == C)
    assert 0 < answered <= 3 * sent
    assert answered < sent  # in fact we never even give back as much
    for frame in (data for _, _, target, data in world.log if target == C):
        assert frame[1] in (RETRY, HINT)


def test_a_cookie_is_good_for_its_address_and_key_and_for_two_minutes_only() -> None:
    world = pair(LinkWorld())
    talk(world, b"first")
    with_cookie = next(data for _, source, _, data in world.log[2:] if source == A)
    bert = world.links[B]
    for source, wait_s, expected in ((C, 0.0, "cookie"), (A, 200.0, "cookie")):
        world.now += wait_s
        bert.dropped.clear()
        bert.receive(with_cookie, source, world.now)
        assert bert.dropped[expected] == 1
        frame = parse_greeting(bert.outgoing.pop()[0], NETWORK)
        assert isinstance(frame, Retry)


def test_a_responder_that_bakes_cookies_for_ever_does_not_keep_us_dialling() -> None:
    def sent_back(data: bytes, source: Address, target: Address, index: int) -> list[bytes]:
        del source, target
        hello = parse_greeting(data, NETWORK)
        assert isinstance(hello, DatagramHello)
        cookie = (index + 1).to_bytes(16, "big")
        world.inject(Retry(network=NETWORK, initiator_id=hello.initiator_id, cookie=cookie).pack(), B, A)
        return []

    world = LinkWorld(sent_back)
    world.add("anna", A)
    talk(world, b"hello")
    assert world.events[A] == [DialFailed(address=B, public_key=None, reason="silence", lost=1)]
    assert len(world.log) <= 4 + COOKIES_MAX
    assert world.links[A].dropped["cookies"] >= 1


def test_handshakes_are_limited_per_prefix() -> None:
    world = LinkWorld()
    world.add("bert", B)
    for n in range(30):
        address = (f"192.0.2.{n + 1}", 4484)
        world.add(f"flooder {n}", address).send(b"hello", B, None, world.now)
    world.add("carl", C).send(b"hello", B, None, world.now)
    world.settle(0.5)
    assert world.links[B].done["opened"] == 11  # the prefix's burst of ten, and carl from another one
    assert world.links[B].dropped["flood"] == 20


def test_the_last_sessions_used_are_kept_and_the_others_hinted_away() -> None:
    limits = LinkLimits(sessions_max=2, hello_per_prefix=Rate(per_second=100, burst=100))
    world = LinkWorld()
    world.add("bert", B, limits=limits)
    peers = [(f"192.0.2.{n + 1}", 4484) for n in range(3)]
    for n, address in enumerate(peers):
        world.add(f"peer {n}", address)
        talk(world, b"hello", address)
    assert len(world.links[B].sessions) == 2
    assert world.links[B].dropped["sessions_evicted"] == 1
    talk(world, b"lost", peers[0])
    talk(world, b"again", peers[0])
    assert world.payloads(B)[-1] == b"again"


def test_keys_are_renewed_before_the_session_ends_without_losing_a_payload() -> None:
    world = pair(LinkWorld())
    talk(world, b"first")
    old = world.opened(A)[0].session
    world.now += REKEY_AS_INITIATOR_S + 1
    talk(world, b"second")
    assert len(world.opened(B)) == 2
    assert world.links[A].sessions.at(B) is not old
    talk(world, b"third")
    assert world.payloads(B) == [b"first", b"second", b"third"]
    world.now += 120
    for link in world.links.values():
        link.advance(world.now)
        assert len(link.sessions) == 1


def test_a_session_ends_after_a_day() -> None:
    world = pair(LinkWorld())
    talk(world, b"first")
    session = world.opened(A)[0].session
    world.now += LIFE_S + 1
    world.inject(session.seal(b"too late"), A, B)
    world.settle(1)
    assert world.payloads(B) == [b"first"]
    assert world.links[B].dropped["unknown"] == 1


def test_payloads_and_dials_have_bounds() -> None:
    world = LinkWorld()
    link = world.add("anna", A)
    assert not link.send(bytes(PAYLOAD_BYTES_MAX + 1), B, None, world.now)
    for _ in range(DIAL_QUEUE_MAX + 5):
        link.send(b"hello", B, None, world.now)
    assert link.dropped == {"too_large": 1, "dial_queue": 5}
    for n in range(DIALS_MAX + 5):
        link.dial(("203.0.113.1", n + 1), None, world.now, is_chosen=True)
    assert link.dropped["dials"] == 6
    full = pair(LinkWorld())
    talk(full, b"first")
    talk(full, bytes(PAYLOAD_BYTES_MAX))
    assert len(full.log[-1][3]) == DATAGRAM_BYTES_MAX


def test_half_open_handshakes_have_a_bound() -> None:
    world = LinkWorld()
    generous = LinkLimits(hello_per_prefix=Rate(per_second=1e6, burst=1e6))
    bert = world.add("bert", B, limits=generous)
    for n in range(HALF_OPEN_MAX + 20):
        hello = DatagramHello(
            network=NETWORK,
            initiator_id=n.to_bytes(8, "big"),
            public_key=b"k" * 32,
            ephemeral=b"e" * 32,
        )
        cookie = bert.strangers.cookies.bake(hello, C, world.now)
        data = DatagramHello(
            network=NETWORK,
            initiator_id=hello.initiator_id,
            public_key=hello.public_key,
            ephemeral=hello.ephemeral,
            cookie=cookie,
        ).pack()
        bert.receive(data, C, world.now)
        bert.outgoing.clear()
    assert len(bert._half_open) == HALF_OPEN_MAX


def test_what_is_no_frame_is_dropped_by_reason() -> None:
    world = pair(LinkWorld())
    hello = DatagramHello(
        network=NETWORK, initiator_id=bytes(8), public_key=bytes(32), ephemeral=bytes(32)
    ).pack()
    bert = world.links[B]
    for data in (
        b"",
        b"H",
        hello[:511],
        hello + bytes(DATAGRAM_BYTES_MAX),
        b"h" + hello[1:],
        b"\x48\x21" + hello[2:],
        b"\x48\x1f" + hello[2:],
        b"\x48\x10" + hello[2:],
        hello[:2] + bytes(8) + hello[10:],
        b"\x48\x12" + NETWORK + bytes(24),
        b"\x48\x13" + NETWORK + bytes(164),
        b"\x48\x15" + bytes(DATAGRAM_BYTES_MAX),
    ):
        bert.receive(data, A, world.now)
    assert bert.dropped == {
        "truncated": 3, "oversized": 2, "magic": 1, "version": 1, "kind": 2, "foreign": 1, "unasked": 2,
    }  # fmt: skip
    assert bert.outgoing == []


def test_unknown_session_hints_are_rate_limited() -> None:
    world = pair(LinkWorld())
    bert = world.links[B]
    for n in range(100):
        bert.receive(bytes((0x48, DATA)) + n.to_bytes(8, "big") + bytes(24), A, world.now)
    assert len(bert.outgoing) == 5
    assert bert.dropped == {"unknown": 100}


def test_the_seen_address_of_either_family_comes_back() -> None:
    for address in (A, ("2001:db8::7", 65_535)):
        world = LinkWorld()
        world.add("anna", address)
        world.add("bert", ("2001:db8:1::9", 4484))
        world.links[address].send(b"hello", ("2001:db8:1::9", 4484), None, world.now)
        world.settle()
        assert world.opened(address)[0].seen == address


def test_equal_inputs_give_equal_frames() -> None:
    logs = []
    for _ in range(2):
        world = pair(LinkWorld(deliver_all))
        talk(world, b"first")
        logs.append(world.log)
    assert logs[0] == logs[1]
    frame = parse_greeting(logs[0][3][3], NETWORK)
    assert isinstance(frame, HelloOk)


def test_a_nonce_is_echoed_only_while_dial_backs_are_awaited_and_an_echo_never() -> None:
    world = LinkWorld()
    link = world.add("anna", A)
    nonce = Nonce(network=NETWORK, value=bytes(range(32))).pack()
    echo = Echo(network=NETWORK, value=bytes(range(32))).pack()
    for _ in range(2):
        link.receive(nonce, B, 0.0)
        link.receive(echo, B, 0.0)
        assert link.outgoing == []
    assert link.dropped["unasked"] == 4
    link.strangers.nonces_awaited_until = 10.0
    link.receive(echo, B, 1.0)
    assert link.outgoing == []
    link.receive(nonce, B, 1.0)
    assert link.outgoing == [(echo, B)]
    for _ in range(100):
        link.receive(nonce, B, 1.0)
    assert len(link.outgoing) == 5
    assert link.dropped["flood"] == 96


def test_what_waits_for_one_port_goes_to_another_of_the_same_host() -> None:
    """A closed router shows its peer at other ports than its record says."""
    world = pair(LinkWorld())
    closed: Address = (B[0], 20_001)
    world.links[closed] = world.links.pop(B)
    world.received[closed], world.events[closed] = [], []
    key = world.links[closed].public_key
    assert world.links[A].send(b"waits", B, key, world.now)
    world.settle(0.1)
    world.links[closed].dial(A, world.links[A].public_key, world.now, is_chosen=True)
    world.settle(2.0)
    assert world.payloads(closed) == [b"waits"]


def test_what_waits_for_one_host_does_not_go_to_another() -> None:
    """Or a peer would prove that it is where it is not."""
    world = pair(LinkWorld())
    world.links[C] = world.links.pop(B)
    world.received[C], world.events[C] = [], []
    key = world.links[C].public_key
    assert world.links[A].send(b"waits", B, key, world.now)
    world.settle(0.1)
    world.links[C].dial(A, world.links[A].public_key, world.now, is_chosen=True)
    world.settle(20.0)
    assert world.opened(A)
    assert world.payloads(C) == []
