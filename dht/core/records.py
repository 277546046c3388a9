"""Who is a peer, and where does it sit?  Contacts, records, deaths and departures, and the rules that make
them valid.

These are values without encoding: `dht.wire` turns them into bytes.  All fields are bytes, int, tuples or
nested values of this module.  Two conventions keep the codec small and strangers honest:

* `Contact.position` is **not sent**: the decoder builds contacts with `Contact.at`, which computes the
  position from the address, so nobody can claim one.  (A record's positions follow from its first address
  in the same way.)
* Signatures are made and checked outside, by a `Notary`, over the canonical encoding of the unsigned value.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol, Self

from dht.core.ids import (
    IPV4_BYTES,
    IPV6_BYTES,
    NETWORK_ID_BYTES,
    PEER_KEY_BYTES,
    IdCheck,
    Key,
    NetworkId,
    PeerKey,
    position_of,
)

RECORD_VERSION = 1
ADDRESSES_MAX = 4
SLOTS = 8  # peers behind one address (ring.md 4.2)
VIRTUAL_NODES_MAX = 64  # per anchor, whatever is offered (ring.md 4.2)
RECORD_LIFE_S = 24 * 3600
RECORD_REFRESH_S = 12 * 3600
CLOCK_SKEW_S = 600  # a record may be issued that far in our future: twice the +-5 minutes that simnet tries
U32 = 1 << 32

LEAF = 1  # flag: cannot be reached from outside, so it owns nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    host: bytes  # packed: 4 or 16 bytes
    port: int  # 1..65535


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Contact:
    """How to reach one virtual node.  Two contacts are the same when they sit on the same point and speak
    for one peer.
    """

    peer: PeerKey
    address: Address
    slot: int  # 0..7
    index: int  # 0..63
    position: Key  # derived, never sent

    @classmethod
    def at(cls, peer: PeerKey, address: Address, slot: int, index: int, id_check: IdCheck) -> Self:
        position = position_of(address.host, address.port, slot, index, id_check)
        return cls(peer=peer, address=address, slot=slot, index=index, position=position)

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Contact) and self.position == other.position and self.peer == other.peer
        )

    def __hash__(self) -> int:
        return hash(self.position)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerRecord:
    """What a peer says of itself, unsigned.  The first address is the anchor of its positions."""

    version: int  # RECORD_VERSION
    network: NetworkId
    peer: PeerKey
    addresses: tuple[Address, ...]  # 1..4
    slot: int  # 0..7
    virtual_nodes: int  # 1..64
    incarnation: int  # u32; only its owner raises it
    issued_s: int  # seconds since the epoch
    expires_s: int
    flags: int  # u32, unknown bits are kept
    previous: bytes = b""  # key rotation: the old public key, which signs too; else empty


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedRecord:
    record: PeerRecord
    signature: bytes  # 64
    previous_signature: bytes = b""  # 64 when record.previous is given, else empty


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """Two different hosts found the peer dead in this incarnation.  A record with a higher one refutes it."""

    peer: PeerKey
    incarnation: int
    accuser: PeerKey
    accuser_signature: bytes
    confirmer: PeerKey
    confirmer_signature: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """A peer's own, signed goodbye: its positions are void up to and with this incarnation."""

    peer: PeerKey
    incarnation: int
    signature: bytes


News = SignedRecord | Death | Departure  # what gossip carries


class Notary(Protocol):
    """Signs for us and checks what others signed.  Pure: same input, same answer."""

    def sign_record(self, record: PeerRecord) -> SignedRecord: ...
    def is_record_signed(self, signed: SignedRecord) -> bool: ...
    def sign_death(self, peer: PeerKey, incarnation: int) -> bytes:
        """Our statement that `peer` is dead in this incarnation: the same bytes for accuser and confirmer."""
        ...

    def is_death_signed(self, peer: PeerKey, incarnation: int, by: PeerKey, signature: bytes) -> bool: ...
    def sign_departure(self, incarnation: int) -> Departure: ...
    def is_departure_signed(self, departure: Departure) -> bool: ...


def record_fault(record: PeerRecord, network: NetworkId, now: float) -> str | None:
    """Which rule a record breaks, as a short stable word for the counters; None when it is sound."""
    if record.version != RECORD_VERSION:
        return "version"
    if record.network != network or len(record.network) != NETWORK_ID_BYTES:
        return "network"
    if len(record.peer) != PEER_KEY_BYTES or len(record.previous) not in (0, PEER_KEY_BYTES):
        return "key"
    if not 1 <= len(record.addresses) <= ADDRESSES_MAX or not all(map(is_address, record.addresses)):
        return "address"
    if not 0 <= record.slot < SLOTS or not 1 <= record.virtual_nodes <= VIRTUAL_NODES_MAX:
        return "positions"
    if not 0 <= record.incarnation < U32 or not 0 <= record.flags < U32:
        return "range"
    return _time_fault(record, now)


def plausible_incarnation(now: float) -> int:
    """The highest that a stranger may attribute to a peer: incarnations are times, but for a few steps more."""
    return int(now) + CLOCK_SKEW_S


def _time_fault(record: PeerRecord, now: float) -> str | None:
    if not record.issued_s < record.expires_s <= record.issued_s + RECORD_LIFE_S:
        return "life"
    if record.issued_s > now + CLOCK_SKEW_S:
        return "future"
    if record.expires_s <= now:
        return "expired"
    return None


def is_address(address: Address) -> bool:
    return len(address.host) in (IPV4_BYTES, IPV6_BYTES) and 0 < address.port < 1 << 16


@lru_cache(maxsize=1 << 12)
def contacts_of(record: PeerRecord, id_check: IdCheck) -> tuple[Contact, ...]:
    """The virtual nodes of a record; none for a leaf.  Remembered, because thousands of simulated peers
    share a record.
    """
    if record.flags & LEAF:
        return ()
    anchor = record.addresses[0]
    return tuple(
        Contact.at(record.peer, anchor, record.slot, index, id_check) for index in range(record.virtual_nodes)
    )


def first_contact_of(record: PeerRecord, id_check: IdCheck) -> Contact:
    """How to talk to the host of a record as a whole, leaf or not."""
    contacts = contacts_of(record, id_check)
    return contacts[0] if contacts else Contact.at(record.peer, record.addresses[0], record.slot, 0, id_check)
