"""Who am I, and who signed this? Ed25519 keys, signed records and their verification.

`KeyNotary` is the `Notary` that the ring machine asks. Verifying costs about 60 µs, and gossip brings the
same record many times, so what verified once is remembered (bounded; only what was good, or a flood of
forgeries would push out the rest). Key rotation is a record of the new key, naming the old one and signed by
both.
"""

import hashlib
from collections import OrderedDict
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec.structs import replace

from dht.core.handshake import is_signed, raw_public_key
from dht.core.ids import NetworkId, PeerKey
from dht.core.records import Departure, PeerRecord, SignedRecord
from dht.wire import death_signed_bytes, departure_signed_bytes, record_signed_bytes

VERIFIED_MAX: Final = (
    1 << 12
)  # verified records of peers we may meet again soon; the table's records are not verified again


def peer_key(key: Ed25519PrivateKey) -> PeerKey:
    return PeerKey(raw_public_key(key))


def sign_record(key: Ed25519PrivateKey, record: PeerRecord) -> SignedRecord:
    """Signs a record that is not a rotation; `rotation_record` makes those."""
    if record.peer != peer_key(key) or record.previous:
        raise ValueError("a record is signed by the key it names, and a rotation by both keys")
    return SignedRecord(record=record, signature=key.sign(record_signed_bytes(record)))


def rotation_record(old: Ed25519PrivateKey, new: Ed25519PrivateKey, record: PeerRecord) -> SignedRecord:
    """The successor of `record` (the old key's): new key, next incarnation, signed by both.

    The caller has set the times. A receiver accepts it once and tombstones the old key.
    """
    if record.peer != peer_key(old):
        raise ValueError("the record to be rotated belongs to another key")
    rotated = replace(record, peer=peer_key(new), previous=peer_key(old), incarnation=record.incarnation + 1)
    return sign_rotation(old, new, rotated)


def sign_rotation(old: Ed25519PrivateKey, new: Ed25519PrivateKey, record: PeerRecord) -> SignedRecord:
    """Both signatures under a record of the new key that names the old one: the first, or a renewal."""
    if (record.peer, record.previous) != (peer_key(new), peer_key(old)):
        raise ValueError("a rotation names the new key, and the old one as its previous")
    signed = record_signed_bytes(record)
    return SignedRecord(record=record, signature=new.sign(signed), previous_signature=old.sign(signed))


class Verifier:
    """Checks signatures and remembers the good ones."""

    def __init__(self, verified_max: int = VERIFIED_MAX) -> None:
        self._good: OrderedDict[bytes, None] = OrderedDict()
        self._max = verified_max

    def is_good(self, public_key: bytes, signature: bytes, signed: bytes) -> bool:
        if len(public_key) != 32 or len(signature) != 64:
            return False
        name = hashlib.blake2b(public_key + signature + signed, digest_size=16).digest()
        if name in self._good:
            self._good.move_to_end(name)
            return True
        if not is_signed(public_key, signature, signed):
            return False
        self._good[name] = None
        if len(self._good) > self._max:
            self._good.popitem(last=False)
        return True

    def is_record_signed(self, signed: SignedRecord) -> bool:
        record = signed.record
        if bool(record.previous) != bool(signed.previous_signature) or record.previous == record.peer:
            return False
        body = record_signed_bytes(record)
        return self.is_good(record.peer, signed.signature, body) and (
            not record.previous or self.is_good(record.previous, signed.previous_signature, body)
        )


class KeyNotary:
    """Signs with one key in one network, and checks what others signed (`dht.core.records.Notary`)."""

    def __init__(
        self,
        key: Ed25519PrivateKey,
        network: NetworkId,
        verifier: Verifier | None = None,
        *,
        previous: Ed25519PrivateKey | None = None,
    ) -> None:
        """Simulated peers may share a `verifier`: a signature is good for all or none.

        `previous` is the key before a rotation: records that name it are signed by both.
        """
        self._key = key
        self._previous = previous
        self._network = network
        self._verifier = verifier or Verifier()

    def sign_record(self, record: PeerRecord) -> SignedRecord:
        if record.previous and self._previous is not None:
            return sign_rotation(self._previous, self._key, record)
        return sign_record(self._key, record)

    def is_record_signed(self, signed: SignedRecord) -> bool:
        return self._verifier.is_record_signed(signed)

    def sign_death(self, peer: PeerKey, incarnation: int) -> bytes:
        return self._key.sign(death_signed_bytes(self._network, peer, incarnation))

    def is_death_signed(self, peer: PeerKey, incarnation: int, by: PeerKey, signature: bytes) -> bool:
        return self._verifier.is_good(by, signature, death_signed_bytes(self._network, peer, incarnation))

    def sign_departure(self, incarnation: int) -> Departure:
        peer = peer_key(self._key)
        signature = self._key.sign(departure_signed_bytes(self._network, peer, incarnation))
        return Departure(peer=peer, incarnation=incarnation, signature=signature)

    def is_departure_signed(self, departure: Departure) -> bool:
        signed = departure_signed_bytes(self._network, departure.peer, departure.incarnation)
        return self._verifier.is_good(departure.peer, departure.signature, signed)
