"""How does a peer change its key without losing its name? (Design of the ring, 4.2: key rotation.)

The new key is vouched for by a record that both keys sign. It is made here when the peer's last record is at hand
(`state/record`, written whenever the ring is told a new one); the old key stays in `identity.previous.key`, so that
the running peer can renew the doubly signed record until the ring has taken it. A peer that never told a ring of
itself has nobody to convince: it just gets a new key.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec.structs import replace

from dht.core.records import NO_DAY, RECORD_LIFE_S, RECORD_VERSION, SECONDS_PER_DAY, SignedRecord
from dht.core.rules import KEY_TOMB_LIFE_S
from dht.identity import peer_key, rotation_record
from dht.wire import decode_record, encode_record
from herodotus.home.durable import storage_failure, write_durably
from herodotus.home.folder import Home, locked
from herodotus.home.identity import key_to_pem, load_key
from herodotus.home.second_copies import forget, keep_home, read_twice_kept, write_twice

_RECORD_BYTES_MAX = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """`record` is None when there was no record to rotate."""

    old: Ed25519PrivateKey
    new: Ed25519PrivateKey
    record: SignedRecord | None

    @property
    def fingerprint(self) -> str:
        """What operators of two peers compare when they want to be sure of a rotation; empty without a record."""
        return hashlib.sha256(encode_record(self.record)).hexdigest()[:32] if self.record else ""


def last_record(home: Home) -> SignedRecord | None:
    """What this peer last told a ring of itself; None when it never did, or the note is damaged."""
    try:
        data = read_twice_kept(
            home.record, _RECORD_BYTES_MAX, lambda data: isinstance(decode_record(data), SignedRecord)
        )
    except OSError as error:
        raise storage_failure(error, home.record, "read") from error
    decoded = None if data is None else decode_record(data)
    return decoded if isinstance(decoded, SignedRecord) else None


def rotate(home: Home, passphrase: bytes | None, *, now_s: int) -> Rotation:
    """Replace the key; at any crash in between the home has a whole key, the old one or the new one."""
    with locked(home):
        old = load_key(home.key, passphrase)
        new = Ed25519PrivateKey.generate()
        signed = last_record(home)
        record = None
        if signed is not None and signed.record.peer == peer_key(old):
            fresh = replace(
                signed.record,
                version=RECORD_VERSION,  # a record of an older release is signed again as one of ours
                issued_s=now_s,
                expires_s=now_s + RECORD_LIFE_S,
                previous=b"",
                since=now_s // SECONDS_PER_DAY if signed.record.since == NO_DAY else signed.record.since,
            )
            record = rotation_record(old, new, fresh)
        write_durably(home.previous_key, key_to_pem(old, passphrase), mode=0o600)
        if record is not None:
            write_twice(home.record, encode_record(record), mode=0o644)
        write_durably(home.key, key_to_pem(new, passphrase), mode=0o600)
        keep_home(home.path)  # of the old key nothing may stay that could be put back
    return Rotation(old=old, new=new, record=record)


def previous_key_life_s(home: Home, now_s: float) -> float:
    """How long the key before the last rotation still has to vouch for its successor; 0 when it is over or away."""
    try:
        rotated_s = home.previous_key.stat().st_mtime
    except FileNotFoundError:
        return 0.0
    except OSError as error:
        raise storage_failure(error, home.previous_key, "read") from error
    return max(0.0, rotated_s + KEY_TOMB_LIFE_S - now_s)


def retire_previous_key(home: Home) -> None:
    """Nobody needs it any more, so nobody shall find it."""
    try:
        home.previous_key.unlink(missing_ok=True)
        forget(home.path, home.previous_key.name)
    except OSError as error:
        raise storage_failure(error, home.previous_key, "remove") from error


def previous_key(
    home: Home, current: Ed25519PrivateKey, passphrase: bytes | None
) -> Ed25519PrivateKey | None:
    """The key before the last rotation, while it is still needed to vouch for the current one."""
    path: Path = home.previous_key
    if not path.exists():
        return None
    key = load_key(path, passphrase)
    return key if peer_key(key) != peer_key(current) else None


def standing_previous_key(
    home: Home, current: Ed25519PrivateKey, passphrase: bytes | None, now_s: float
) -> Ed25519PrivateKey | None:
    """The key that a starting peer signs with beside its own; one whose time is over is removed instead."""
    if previous_key_life_s(home, now_s) > 0:
        return previous_key(home, current, passphrase)
    retire_previous_key(home)
    return None
