"""A rotated key is vouched for by both keys, and a crash never leaves a home without a key."""

import os
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dht.core.ids import NetworkId
from dht.core.records import NO_DAY, RECORD_VERSION, Address, Line, PeerRecord, SignedRecord
from dht.identity import Verifier, peer_key, sign_record
from dht.wire import encode_record
from herodotus.core.charter import TEST_CHARTER
from herodotus.core.errors import HomeInUse, IdentityError
from herodotus.home.folder import Home, NewHome, create_home, locked
from herodotus.home.identity import key_to_pem, load_key
from herodotus.home.rotation import (
    last_record,
    previous_key,
    previous_key_life_s,
    retire_previous_key,
    rotate,
    standing_previous_key,
)

NOW_S = 1_800_000_000


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    create_home(
        home, NewHome(config="", charter=TEST_CHARTER, key_pem=key_to_pem(Ed25519PrivateKey.generate(), None))
    )
    return home


def tell(home: Home, key: Ed25519PrivateKey) -> None:
    """As if the peer had told its ring of itself."""
    record = PeerRecord(
        version=RECORD_VERSION,
        network=NetworkId(b"\x01" * 8),
        peer=peer_key(key),
        lines=(Line.at(Address(host=b"\x7f\x00\x00\x01", port=4484)),),
        slot=0,
        virtual_nodes=3,
        incarnation=7,
        issued_s=NOW_S - 100,
        expires_s=NOW_S + 100,
        flags=0,
        previous=b"",
        since=40,
    )
    home.record.write_bytes(encode_record(sign_record(key, record)))


def test_a_rotation_is_signed_by_both_keys_and_raises_the_incarnation(home: Home) -> None:
    old = load_key(home.key, None)
    tell(home, old)
    rotation = rotate(home, None, now_s=NOW_S)
    signed = last_record(home)
    assert isinstance(signed, SignedRecord)
    assert Verifier().is_record_signed(signed)
    assert signed.record.previous == peer_key(old)
    assert signed.record.peer == peer_key(load_key(home.key, None)) == peer_key(rotation.new)
    assert signed.record.since == 40
    assert (signed.record.incarnation, signed.record.issued_s, signed.record.virtual_nodes) == (8, NOW_S, 3)
    assert len(rotation.fingerprint) == 32


def test_a_record_of_version_1_opens_and_is_rotated_as_one_of_today(home: Home) -> None:
    key = load_key(home.key, None)
    tell(home, key)
    kind, fields, signature = msgspec.msgpack.decode(home.record.read_bytes())
    fields[3] = [line[:2] for line in fields[3]]
    home.record.write_bytes(msgspec.msgpack.encode([kind, [1, *fields[1:11]], signature]))
    before = last_record(home)
    assert before is not None
    assert before.record.lines == (Line(host=b"\x7f\x00\x00\x01", udp=4484, tcp=4484),)
    assert (before.record.since, before.record.trail, before.record.incarnation) == (NO_DAY, (), 7)
    rotate(home, None, now_s=NOW_S)
    signed = last_record(home)
    assert signed is not None
    assert Verifier().is_record_signed(signed)
    assert (signed.record.version, signed.record.since) == (3, NOW_S // 86_400)


def test_a_record_of_version_2_opens_and_keeps_its_age(home: Home) -> None:
    key = load_key(home.key, None)
    tell(home, key)
    kind, fields, signature = msgspec.msgpack.decode(home.record.read_bytes())
    fields[3] = [line[:2] for line in fields[3]]
    home.record.write_bytes(msgspec.msgpack.encode([kind, [2, *fields[1:13]], signature]))
    rotate(home, None, now_s=NOW_S)
    signed = last_record(home)
    assert signed is not None
    assert Verifier().is_record_signed(signed)
    assert (signed.record.version, signed.record.since) == (3, 40)
    assert signed.record.lines == (Line(host=b"\x7f\x00\x00\x01", udp=4484, tcp=4484),)


def test_the_old_key_stays_beside_the_new_one_for_its_owner_only(home: Home) -> None:
    old = load_key(home.key, None)
    rotate(home, None, now_s=NOW_S)
    assert home.previous_key.stat().st_mode & 0o777 == 0o600
    kept = previous_key(home, load_key(home.key, None), None)
    assert kept is not None
    assert peer_key(kept) == peer_key(old)


def test_a_peer_unknown_to_any_ring_just_gets_a_new_key(home: Home) -> None:
    rotation = rotate(home, None, now_s=NOW_S)
    assert rotation.record is None
    assert last_record(home) is None
    assert peer_key(load_key(home.key, None)) == peer_key(rotation.new) != peer_key(rotation.old)


def test_a_rotation_that_stopped_before_its_last_step_changes_nothing(home: Home) -> None:
    key = load_key(home.key, None)
    home.previous_key.write_bytes(home.key.read_bytes())
    home.previous_key.chmod(0o600)
    assert previous_key(home, key, None) is None


def test_a_damaged_record_is_no_record(home: Home) -> None:
    home.record.write_bytes(b"\xc1 torn")
    assert last_record(home) is None
    assert rotate(home, None, now_s=NOW_S).record is None


def test_a_running_peer_keeps_its_key(home: Home) -> None:
    before = home.key.read_bytes()
    with locked(home), pytest.raises(HomeInUse):
        rotate(home, None, now_s=NOW_S)
    assert home.key.read_bytes() == before


def test_the_new_key_is_locked_with_the_passphrase_of_the_old_one(home: Home) -> None:
    home.key.write_bytes(key_to_pem(load_key(home.key, None), b"open sesame"))
    rotate(home, b"open sesame", now_s=NOW_S)
    with pytest.raises(IdentityError, match="locked with a passphrase"):
        load_key(home.key, None)
    assert peer_key(load_key(home.key, b"open sesame"))


def test_the_previous_key_vouches_for_thirty_days_and_is_then_removed(home: Home) -> None:
    rotation = rotate(home, None, now_s=NOW_S)
    os.utime(home.previous_key, (NOW_S, NOW_S))
    day_s = 24 * 3600
    assert previous_key_life_s(home, NOW_S + 29 * day_s) == day_s
    kept = standing_previous_key(home, rotation.new, None, NOW_S + 29 * day_s)
    assert kept is not None
    assert peer_key(kept) == peer_key(rotation.old)
    assert standing_previous_key(home, rotation.new, None, NOW_S + 30 * day_s) is None
    assert not home.previous_key.exists()


def test_a_home_without_a_rotation_has_no_previous_key_to_retire(home: Home) -> None:
    assert previous_key_life_s(home, NOW_S) == 0
    retire_previous_key(home)
    assert standing_previous_key(home, load_key(home.key, None), None, NOW_S) is None


def test_another_peers_record_is_not_rotated_along(home: Home) -> None:
    tell(home, Ed25519PrivateKey.generate())  # as of a home put together from two
    before = home.record.read_bytes()
    assert rotate(home, None, now_s=NOW_S).record is None
    assert home.record.read_bytes() == before
