"""Keys, signatures and the rotation of a key."""

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec.structs import replace

from dht.core.ids import NetworkId
from dht.core.records import SignedRecord
from dht.identity import (
    KeyNotary,
    Verifier,
    peer_key,
    rotation_record,
    sign_record,
)
from tests.dht.link_world import NETWORK, key_from
from tests.dht.values import record_of

ANNA, BERT = key_from("anna"), key_from("bert")


def notary_of(name: str) -> KeyNotary:
    return KeyNotary(key_from(name), NetworkId(NETWORK))


def test_a_record_is_good_as_signed_and_in_no_other_way() -> None:
    signed = sign_record(ANNA, record_of("anna"))
    assert Verifier().is_record_signed(signed)
    for changed in (
        replace(signed, record=replace(signed.record, incarnation=6)),
        replace(signed, record=replace(signed.record, peer=peer_key(BERT))),
        replace(signed, record=replace(signed.record, network=NetworkId(bytes(8)))),
        replace(signed, signature=bytes(64)),
        replace(signed, signature=b""),
        replace(signed, previous_signature=signed.signature),
    ):
        assert not Verifier().is_record_signed(changed)


def test_only_the_key_that_a_record_names_signs_it() -> None:
    with pytest.raises(ValueError, match="signed by the key it names"):
        sign_record(BERT, record_of("anna"))
    with pytest.raises(ValueError, match="another key"):
        rotation_record(BERT, Ed25519PrivateKey.generate(), record_of("anna"))


def test_a_rotation_is_signed_by_both_keys_and_raises_the_incarnation() -> None:
    rotated = rotation_record(ANNA, BERT, record_of("anna"))
    assert rotated.record.peer == peer_key(BERT)
    assert rotated.record.previous == peer_key(ANNA)
    assert rotated.record.incarnation == 6
    assert Verifier().is_record_signed(rotated)
    assert not Verifier().is_record_signed(replace(rotated, previous_signature=rotated.signature))
    assert not Verifier().is_record_signed(replace(rotated, signature=rotated.previous_signature))
    assert not Verifier().is_record_signed(replace(rotated, previous_signature=b""))
    to_itself = replace(rotated.record, previous=peer_key(BERT))
    assert not Verifier().is_record_signed(
        SignedRecord(record=to_itself, signature=bytes(64), previous_signature=bytes(64))
    )


def test_good_signatures_are_remembered_within_a_bound_and_bad_ones_are_not() -> None:
    verifier = Verifier(verified_max=2)
    signed = [sign_record(ANNA, replace(record_of("anna"), incarnation=n)) for n in range(3)]
    assert all(verifier.is_record_signed(each) for each in signed)
    assert len(verifier._good) == 2
    assert not verifier.is_record_signed(replace(signed[0], signature=bytes(64)))
    assert len(verifier._good) == 2


def test_the_dead_and_the_departed_are_certified_in_one_network_only() -> None:
    anna, bert = notary_of("anna"), notary_of("bert")
    statement = anna.sign_death(peer_key(BERT), 3)
    assert bert.is_death_signed(peer_key(BERT), 3, peer_key(ANNA), statement)
    assert not bert.is_death_signed(peer_key(BERT), 4, peer_key(ANNA), statement)
    assert not bert.is_death_signed(peer_key(BERT), 3, peer_key(BERT), statement)
    departure = bert.sign_departure(9)
    assert anna.is_departure_signed(departure)
    assert not anna.is_departure_signed(replace(departure, incarnation=10))
    elsewhere = KeyNotary(ANNA, NetworkId(bytes(8)))
    assert not elsewhere.is_death_signed(peer_key(BERT), 3, peer_key(ANNA), statement)
    assert not elsewhere.is_departure_signed(departure)


def test_a_notary_signs_its_own_record_alone() -> None:
    assert notary_of("anna").is_record_signed(notary_of("anna").sign_record(record_of("anna")))
    with pytest.raises(ValueError, match="signed by the key it names"):
        notary_of("bert").sign_record(record_of("anna"))
