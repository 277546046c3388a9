"""Who is a peer, and where does it sit?  Contacts, records, deaths and departures, and the rules that make
them valid.

The order of the fields is that of the wire, and their bounds are what a stranger's bytes are held against
(`dht.wire`); values of our own making are not checked.  Two conventions keep the codec small and strangers honest:

* `Contact.position` is **not sent**: the decoder builds contacts with `Contact.at`, which computes the
  position from the address, so nobody can claim one.  (A record's positions follow from its first line
  in the same way.)  A member that has a seat sits where the seat is from: its contact names that host too, and
  is believed as far as the receiver remembers the seat (`dht.core.seats`).
* Signatures are made and checked outside, by a `Notary`, over the canonical encoding of the unsigned value.
"""

from functools import lru_cache
from itertools import pairwise
from typing import Annotated, Final, Protocol, Self

from msgspec import Meta, Struct

from dht.core.ids import (
    IPV4_BYTES,
    IPV4_MAPPED,
    IPV6_BYTES,
    NETWORK_ID_BYTES,
    PEER_KEY_BYTES,
    IdCheck,
    Key,
    NetworkId,
    PeerKey,
    birth_host,
    position_of,
)

RECORD_VERSION = 3
LINES_MAX = 4
SLOTS = 8  # peers behind one address (ring.md 4.2)
VIRTUAL_NODES_MAX = 64  # per anchor, whatever is offered (ring.md 4.2)
RECORD_LIFE_S = 24 * 3600
RECORD_REFRESH_S = 12 * 3600
CLOCK_SKEW_S = 600  # a record may be issued that far in our future: twice the +-5 minutes that simnet tries
U32 = 1 << 32
SIGNATURE_BYTES = 64
TRAIL_MAX = 7  # moves that a record tells of: one a day, for a week
SECONDS_PER_DAY = 86_400
DAY_MAX = (1 << 16) - 1  # in 2149
NO_DAY = -1  # what records of version 1 say of age; no bytes of later versions can
NO_PORT = -1  # what records of versions 1 and 2 say of TCP: their one port served both
RELAYS_MAX = 3
RELAY_BYTES = 8

LEAF = 1  # flag: cannot be reached from outside, so it owns nothing
CLOSED = 2  # flag: reached through its relays alone
SLOW = 4  # flag: its line cannot keep up with what others wait for


U32Field = Annotated[int, Meta(ge=0, lt=U32)]
Seconds = Annotated[int, Meta(ge=0, lt=1 << 40)]
PortField = Annotated[int, Meta(ge=0, lt=1 << 16)]  # 0: nothing comes in there
SlotField = Annotated[int, Meta(ge=0, lt=SLOTS)]
IndexField = Annotated[int, Meta(ge=0, lt=VIRTUAL_NODES_MAX)]
HostField = Annotated[bytes, Meta(min_length=IPV4_BYTES, max_length=IPV6_BYTES)]  # packed: 4 or 16 bytes
PeerField = Annotated[PeerKey, Meta(min_length=PEER_KEY_BYTES, max_length=PEER_KEY_BYTES)]
SignatureField = Annotated[bytes, Meta(min_length=SIGNATURE_BYTES, max_length=SIGNATURE_BYTES)]
DayField = Annotated[int, Meta(ge=0, le=DAY_MAX)]  # since 1970, by the network's `PlaceRules.day_of`
PlaceField = Annotated[bytes, Meta(min_length=2, max_length=1 + IPV6_BYTES)]  # as `places.place_at` has it
MaybePeer = Annotated[bytes, Meta(max_length=PEER_KEY_BYTES)]  # or empty
MaybeSignature = Annotated[bytes, Meta(max_length=SIGNATURE_BYTES)]
RelayField = Annotated[bytes, Meta(min_length=RELAY_BYTES, max_length=RELAY_BYTES)]


class Address(Struct, array_like=True, frozen=True, kw_only=True):
    host: HostField
    port: PortField


class Line(Struct, array_like=True, frozen=True, kw_only=True):
    """A host, and where datagrams and streams get through to the peer there. Port 0: not by this protocol."""

    host: HostField
    udp: PortField
    tcp: PortField = NO_PORT

    @classmethod
    def at(cls, address: Address) -> Self:
        """With one number for both."""
        return cls(host=address.host, udp=address.port, tcp=address.port)

    @property
    def address(self) -> Address:
        return Address(host=self.host, port=self.udp)


class Birth(Struct, array_like=True, frozen=True, kw_only=True):
    """From which host a seat follows, and since which day its peer has it."""

    host: HostField
    day: DayField


class Contact:
    """How to reach one virtual node.  Two contacts are the same when they sit on the same point and speak
    for one peer.
    """

    __slots__ = ("address", "birth", "index", "peer", "position", "slot")

    def __init__(
        self, *, peer: PeerKey, address: Address, slot: int, index: int, position: Key, birth: bytes = b""
    ) -> None:
        self.peer: Final = peer
        self.address: Final = address
        self.slot: Final = slot  # 0..7
        self.index: Final = index  # 0..63
        self.position: Final = position  # derived, never sent
        self.birth: Final = birth  # the host that its seat is from, if that is not the address's; else empty

    def moved_to(self, address: Address) -> "Contact":
        """The same virtual node at another address of its host."""
        return Contact(
            peer=self.peer,
            address=address,
            slot=self.slot,
            index=self.index,
            position=self.position,
            birth=self.birth,
        )

    @classmethod
    def at(
        cls, peer: PeerKey, address: Address, slot: int, index: int, id_check: IdCheck, birth: bytes = b""
    ) -> Self:
        if birth and birth == birth_host(address.host):
            birth = b""
        position = position_of(birth or address.host, address.port, slot, index, id_check)
        return cls(peer=peer, address=address, slot=slot, index=index, position=position, birth=birth)

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Contact) and self.position == other.position and self.peer == other.peer
        )

    def __hash__(self) -> int:
        return hash(self.position)

    def __repr__(self) -> str:
        return f"Contact({self.peer.hex()[:16]} {self.address} {self.slot}/{self.index})"


class Stay(Struct, array_like=True, frozen=True, kw_only=True):
    """Where a peer was, and from which day on."""

    place: PlaceField
    since: DayField


class PeerRecord(Struct, array_like=True, frozen=True, kw_only=True):
    """What a peer says of itself, unsigned.  The first line says its place and its positions."""

    version: Annotated[int, Meta(ge=0, le=255)]  # RECORD_VERSION
    network: Annotated[NetworkId, Meta(min_length=NETWORK_ID_BYTES, max_length=NETWORK_ID_BYTES)]
    peer: PeerField
    lines: Annotated[tuple[Line, ...], Meta(min_length=1, max_length=LINES_MAX)]
    slot: SlotField
    virtual_nodes: Annotated[int, Meta(ge=1, le=VIRTUAL_NODES_MAX)]
    incarnation: U32Field  # only its owner raises it
    issued_s: Seconds  # since the epoch
    expires_s: Seconds
    flags: U32Field  # unknown bits are kept
    previous: MaybePeer  # key rotation: the old public key, which signs too; else empty
    trail: Annotated[tuple[Stay, ...], Meta(max_length=TRAIL_MAX)] = ()  # oldest first; empty: no recent move
    since: DayField = NO_DAY  # since when it has been a member
    seat: Birth | None = None
    relays: Annotated[tuple[RelayField, ...], Meta(max_length=RELAYS_MAX)] = ()  # how their keys begin

    @property
    def address(self) -> Address:
        return self.lines[0].address


class SignedRecord(Struct, array_like=True, frozen=True, kw_only=True, tag=1):
    record: PeerRecord
    signature: SignatureField
    previous_signature: MaybeSignature = b""  # when record.previous is given, else empty

    @property
    def peer(self) -> PeerKey:
        return self.record.peer


class Death(Struct, array_like=True, frozen=True, kw_only=True, tag=2):
    """Two different hosts found the peer dead in this incarnation.  A record with a higher one refutes it."""

    peer: PeerField
    incarnation: U32Field
    accuser: PeerField
    accuser_signature: SignatureField
    confirmer: PeerField
    confirmer_signature: SignatureField


class Departure(Struct, array_like=True, frozen=True, kw_only=True, tag=3):
    """A peer's own, signed goodbye: its positions are void up to and with this incarnation."""

    peer: PeerField
    incarnation: U32Field
    signature: SignatureField


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
    fault = _lines_fault(record)
    if fault is not None:
        return fault
    if not 0 <= record.slot < SLOTS or not 1 <= record.virtual_nodes <= VIRTUAL_NODES_MAX:
        return "positions"
    if not 0 <= record.incarnation < U32 or not 0 <= record.flags < U32:
        return "range"
    return _age_fault(record, now) or _time_fault(record, now)


def _lines_fault(record: PeerRecord) -> str | None:
    """A member that owns keys is called by both protocols at the line that its positions follow from, or by relays."""
    lines, relays = record.lines, record.relays
    if not 1 <= len(lines) <= LINES_MAX or len({line.host for line in lines}) != len(lines):
        return "lines"
    for line in lines:
        if not is_host(line.host) or not (0 <= line.udp < 1 << 16 and 0 <= line.tcp < 1 << 16):
            return "address"
    if any(line.udp == line.tcp == 0 for line in lines[1:]):
        return "lines"  # that says nothing
    if len(relays) > RELAYS_MAX or len(set(relays)) != len(relays) or any(map(_is_no_relay, relays)):
        return "relays"
    if record.flags & CLOSED:
        return None if relays else "relays"
    return None if record.flags & LEAF or (lines[0].udp and lines[0].tcp) else "lines"


def _is_no_relay(relay: bytes) -> bool:
    return len(relay) != RELAY_BYTES


def _age_fault(record: PeerRecord, now: float) -> str | None:
    """No network's day is later than that of UTC."""
    today = int(now + CLOCK_SKEW_S) // SECONDS_PER_DAY
    days = [stay.since for stay in record.trail]
    if record.seat is not None and not _is_seat(record, record.seat, today):
        return "seat"
    if not 0 <= record.since <= today or any(day > today for day in days):
        return "age"
    if len(days) == 1 or len(days) > TRAIL_MAX or any(one >= other for one, other in pairwise(days)):
        return "trail"
    return None


def _is_seat(record: PeerRecord, seat: Birth, today: int) -> bool:
    """One for each address, so it has the first slot; and from the end of a probation on."""
    return is_birth(seat.host) and record.slot == 0 and record.since <= seat.day <= today


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


def is_passed_over(record: PeerRecord) -> bool:
    """As a steward: its line is slow, or it can ask nothing of sites that have IPv4 alone, which are most."""
    return bool(record.flags & SLOW) or all(len(line.host) != IPV4_BYTES for line in record.lines)


def is_address(address: Address) -> bool:
    return is_host(address.host) and 0 <= address.port < 1 << 16


def is_host(host: bytes) -> bool:
    """An IPv4 address has one form here: four bytes."""
    return len(host) == IPV4_BYTES or (len(host) == IPV6_BYTES and not host.startswith(IPV4_MAPPED))


def is_birth(host: bytes) -> bool:
    """Of an address everything but what counts for a position is left out."""
    return is_host(host) and birth_host(host) == host


@lru_cache(maxsize=1 << 12)
def contacts_of(record: PeerRecord, id_check: IdCheck) -> tuple[Contact, ...]:
    """The virtual nodes of a record; none for a leaf.  Remembered, because thousands of simulated peers
    share a record.
    """
    if record.flags & LEAF:
        return ()
    anchor = record.address
    birth = _birth_of(record, id_check)
    return tuple(
        Contact.at(record.peer, anchor, record.slot, index, id_check, birth)
        for index in range(record.virtual_nodes)
    )


def first_contact_of(record: PeerRecord, id_check: IdCheck) -> Contact:
    """How to talk to the host of a record as a whole, leaf or not."""
    contacts = contacts_of(record, id_check)
    if contacts:
        return contacts[0]
    birth = _birth_of(record, id_check)
    return Contact.at(record.peer, record.address, record.slot, 0, id_check, birth)


def _birth_of(record: PeerRecord, id_check: IdCheck) -> bytes:
    """Where addresses are not checked, nobody sits by them."""
    return record.seat.host if record.seat is not None and id_check == "ip" else b""
