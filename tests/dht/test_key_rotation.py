"""A peer changes its key and keeps its place: what the others accept, once, and what they refuse."""

from random import Random

import pytest
from msgspec.structs import replace

from dht.core import rules as bounds
from dht.core.effects import PeerChanged
from dht.core.ids import NetworkId
from dht.core.machine import RingMachine
from dht.core.membership import MemberTable
from dht.core.messages import Notify, Ping, Rumour
from dht.core.records import Address, Contact, Departure, Line, PeerRecord, SignedRecord, first_contact_of
from dht.core.rules import RingRules
from dht.identity import KeyNotary, peer_key, rotation_record, sign_record, sign_rotation
from simnet.rings import learn
from tests.dht.link_world import NETWORK, key_from
from tests.dht.values import record_of

NOW = 1_790_000_000.0
RULES = RingRules(network=NetworkId(NETWORK), proves_newcomers=False)
OLD, NEW, THIRD = key_from("old"), key_from("new"), key_from("third")
OLD_PEER, NEW_PEER = peer_key(OLD), peer_key(NEW)


def record(name: str, host: int = 7, incarnation: int = 5) -> PeerRecord:
    address = Address(host=bytes((192, 0, 2, host)), port=4484)
    return replace(record_of(name), lines=(Line.at(address),), virtual_nodes=1, incarnation=incarnation)


BEFORE = sign_record(OLD, record("old"))
ROTATED = rotation_record(OLD, NEW, BEFORE.record)


def contact(signed: SignedRecord) -> Contact:
    return first_contact_of(signed.record, RULES.id_check)


def machine() -> RingMachine:
    """Somebody else in the ring, who knows the peer by its old key."""
    own = record("witness", 9)
    notary = KeyNotary(key_from("witness"), NetworkId(NETWORK))
    one = RingMachine(record=own, rules=RULES, notary=notary, random=Random(1))
    one.create(NOW)
    assert learn(one, [BEFORE], NOW) == 1
    one.take_effects()
    return one


def tell(one: RingMachine, *news: SignedRecord | Departure) -> None:
    one.receive(Rumour(id=1, news=news), contact(ROTATED), NOW)


def counts(one: RingMachine) -> dict[str, int]:
    return dict(one.statistics().counts)


def test_a_rotated_key_takes_the_place_of_the_old_one_and_is_told_on() -> None:
    one = machine()
    tell(one, ROTATED)
    assert OLD_PEER not in one.table.records
    assert one.table.records[NEW_PEER] is ROTATED
    assert one.table.at(contact(BEFORE).position) == contact(ROTATED)
    assert PeerChanged(peer=OLD_PEER, clock="rotated") in one.take_effects()
    assert len(one._gossip.rumours.waiting) == 1
    assert len(one.table.key_tombs) == 1


def test_the_old_key_is_refused_from_then_on_with_any_incarnation() -> None:
    one = machine()
    tell(one, ROTATED)
    tell(one, BEFORE, sign_record(OLD, record("old", incarnation=10_000)))
    assert counts(one) == {"records key rotated": 2}
    assert OLD_PEER not in one.table.records
    one.receive(Ping(id=5), contact(BEFORE), NOW)
    one.receive(Notify(id=6, source=contact(BEFORE), target=0), contact(BEFORE), NOW)
    assert counts(one)["from a rotated key"] == 2
    assert one.nodes[0].predecessor is None


def test_a_replayed_rotation_changes_nothing() -> None:
    one = machine()
    tell(one, ROTATED)
    newer = sign_rotation(OLD, NEW, replace(ROTATED.record, incarnation=9))
    tell(one, newer)
    assert one.table.records[NEW_PEER] is newer
    tell(one, replace(ROTATED))  # an equal value, not the same object
    assert counts(one) == {"records old": 1}
    assert one.table.records[NEW_PEER] is newer


def test_a_key_is_rotated_to_one_successor_only() -> None:
    one = machine()
    tell(one, ROTATED)
    tell(one, rotation_record(OLD, THIRD, replace(BEFORE.record, incarnation=50)))
    assert counts(one) == {"records key rotated": 1}
    assert one.table.at(contact(BEFORE).position) == contact(ROTATED)


def test_a_rotation_of_a_rotation_is_followed_to_its_end() -> None:
    one = machine()
    tell(one, ROTATED, rotation_record(NEW, THIRD, replace(ROTATED.record, previous=b"")))
    assert set(one.table.records) == {one.me.peer, peer_key(THIRD)}
    assert set(one.table.key_tombs) == {OLD_PEER, NEW_PEER}


@pytest.mark.parametrize(
    "forged",
    [
        replace(ROTATED, previous_signature=NEW.sign(b"not by the old key")),
        replace(ROTATED, signature=OLD.sign(b"not by the new key")),
        replace(ROTATED, previous_signature=b""),
    ],
)
def test_a_rotation_that_only_one_key_signed_is_dropped(forged: SignedRecord) -> None:
    one = machine()
    tell(one, forged)
    assert counts(one) == {"records forged": 1}
    assert one.table.records[OLD_PEER] is BEFORE
    assert not one.table.key_tombs


def test_a_rotation_with_an_older_incarnation_than_the_old_keys_last_is_dropped() -> None:
    one = machine()
    tell(one, sign_record(OLD, record("old", incarnation=6)), ROTATED)  # 6 is its own incarnation, too
    assert counts(one) == {"records old": 1}
    assert OLD_PEER in one.table.records


def test_a_peer_may_rotate_while_it_is_away() -> None:
    one = machine()
    notary = KeyNotary(OLD, NetworkId(NETWORK))
    tell(one, notary.sign_departure(BEFORE.record.incarnation))
    assert OLD_PEER in one.table.tombs
    tell(one, ROTATED)
    assert NEW_PEER in one.table.records
    assert OLD_PEER not in one.table.tombs
    assert OLD_PEER not in one.table.peers()


def test_who_never_knew_the_old_key_refuses_it_too() -> None:
    one = machine()
    stranger = rotation_record(key_from("a"), key_from("b"), record("a", 8))
    tell(one, stranger, sign_record(key_from("a"), record("a", 8, incarnation=99)))
    assert peer_key(key_from("b")) in one.table.records
    assert counts(one) == {"records key rotated": 1}


def test_a_leftover_peer_with_the_old_key_does_not_give_up_its_own_record() -> None:
    """Its operator rotated the key elsewhere and forgot to stop it: nobody listens, but nothing breaks."""
    notary = KeyNotary(OLD, NetworkId(NETWORK))
    left = RingMachine(record=record("old"), rules=RULES, notary=notary, random=Random(1))
    left.create(NOW)
    own = left.record
    assert own is not None
    tell(left, sign_rotation(OLD, NEW, replace(ROTATED.record, incarnation=own.record.incarnation + 1)))
    assert counts(left) == {"records rotate our own key": 1}
    assert left.record is own


def test_a_rotated_peer_signs_with_both_keys_until_it_is_told_to_stop() -> None:
    notary = KeyNotary(NEW, NetworkId(NETWORK), previous=OLD)
    one = RingMachine(record=ROTATED.record, rules=RULES, notary=notary, random=Random(1))
    one.create(NOW)
    assert one.record is not None
    assert notary.is_record_signed(one.record)
    assert one.record.record.previous == OLD_PEER
    first = one.record.record.incarnation
    assert first > ROTATED.record.incarnation
    one.forget_previous_key(NOW + 1)
    assert one.record.record.previous == b""
    assert one.record.record.incarnation > first
    assert notary.is_record_signed(one.record)


def test_tombs_of_keys_are_opened_after_a_month_and_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "KEY_TOMBS_MAX", 3)
    table = MemberTable("ip")
    for number in range(5):
        old, new = key_from(f"old {number}"), key_from(f"new {number}")
        table.rotate(rotation_record(old, new, record(f"old {number}")), NOW + number)
    assert list(table.key_tombs) == [peer_key(key_from(f"old {number}")) for number in (2, 3, 4)]
    table.open_old_tombs(NOW + 3 + bounds.KEY_TOMB_LIFE_S)
    assert list(table.key_tombs) == [peer_key(key_from("old 4"))]


def test_only_the_two_keys_that_a_rotation_names_can_sign_it() -> None:
    with pytest.raises(ValueError, match="names the new key"):
        sign_rotation(THIRD, NEW, ROTATED.record)
