"""Everything between datagrams and messages, without I/O: link, codec, rates and counters in one value.

A shell (`dht.udp`, or a simulated network) feeds datagrams and time and sends what is in `link.outgoing`. The
way of a sealed datagram through here is the hot path of the ring: that is why peers carry their bucket names
ready-made.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address
from types import MappingProxyType
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dht.core import messages as m
from dht.core.frames import PAYLOAD_BYTES_MAX, SEALED_HEADER_BYTES, TAG_BYTES, packed_ip
from dht.core.frames import Address as SocketAddress
from dht.core.ids import IdCheck, NetworkId, PeerKey
from dht.core.limits import Bucket, Buckets, prefix_of
from dht.core.link import DialFailed, LinkEvent, SessionKeeper, SessionOpened
from dht.core.records import Address, Contact, SignedRecord
from dht.core.sessions import Session
from dht.identity import Verifier
from dht.transport import (
    OwnAddressChanged,
    OwnAddressDoubted,
    PeerMet,
    Received,
    TransportEvent,
    TransportLimits,
    TransportStatistics,
)
from dht.wire import MessageCodec, MessageRefused, decode_record, encode_fitted, encode_record

WITNESSES_OF_OUR_ADDRESS: Final = 2
SIGHTINGS_MAX: Final = 16
FRESH_S: Final = 20.0
"""What is answered at an address so soon still goes through its peer's router: some forget UDP after half a minute."""
_SEALED_BYTES: Final = SEALED_HEADER_BYTES + TAG_BYTES
POSTED_PAYLOAD_BYTES_MAX: Final = m.POSTED_BYTES_MAX - _SEALED_BYTES
_POSTED_HOST: Final = b"\x01\x00"
_POSTED_TEXT: Final = "100:"
WayTo = Callable[[Contact, SocketAddress, float], tuple[SocketAddress, bool]]
"""Where to send what is for this peer, and whether it was proven that it is there."""
_CLASS_OF: Final[dict[type, str]] = {  # under which of `TransportLimits` a message counts
    **dict.fromkeys(m.REQUESTS, "other"),
    **dict.fromkeys(m.REPLIES, "reply"),
    m.Find: "find",
    m.GetState: "state",
    m.Rumour: "rumour",
    m.Offer: "rumour",
    m.ShortCall: "short_call",
}


@lru_cache(1 << 14)
def socket_address(host: bytes, port: int) -> SocketAddress:
    return str(ip_address(host)), port


@lru_cache(1 << 12)
def posted_address(peer: bytes) -> SocketAddress:
    """What stands in the link for a peer to which relays pass datagrams on. It is nobody's (0100::/8; RFC 4291, 6666),
    and each peer's has a prefix of its own, so that they share no bounds.
    """
    return socket_address(_POSTED_HOST + peer[:14], 1)


def is_posted(address: SocketAddress) -> bool:
    return address[0].startswith(_POSTED_TEXT)


def address_text(address: Address) -> str:
    host, port = socket_address(address.host, address.port)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@lru_cache(1 << 14)
def packed_address(address: SocketAddress) -> Address:
    packed = packed_ip(address[0])
    return Address(
        host=packed[12:] if packed.startswith(bytes(10) + b"\xff\xff") else packed, port=address[1]
    )


@dataclass(slots=True)
class _Peer:
    """What we keep beside a session."""

    contact: Contact
    record: SignedRecord | None
    buckets: dict[type, tuple[Bucket, Bucket]]  # of its key, of its prefix


class SessionEndpoint:
    def __init__(
        self,
        *,
        key: Ed25519PrivateKey,
        network: NetworkId,
        id_check: IdCheck,
        record: Callable[[], SignedRecord | None],
        entropy: Callable[[int], bytes],
        limits: TransportLimits | None = None,
        verifier: Verifier | None = None,
        spared: bytes = b"",
    ) -> None:
        """`record()` is our own record of the moment, None before there is one; `entropy` and `spared` as for
        `SessionKeeper`.
        """
        limits = limits or TransportLimits()
        self._network = network
        self._id_check: IdCheck = id_check
        self._record = record
        self._verifier = verifier or Verifier()
        self._encoded: tuple[SignedRecord | None, bytes] = (None, b"")
        self._decode = MessageCodec(id_check).decode
        self._buckets = Buckets()
        rates = {"find": limits.find, "state": limits.state, "rumour": limits.rumour}
        rates |= {"short_call": limits.short_call, "other": limits.other, "reply": limits.reply}
        self._rates = {name: (rate, rate.times(limits.prefix_factor)) for name, rate in rates.items()}
        self._sightings: OrderedDict[SocketAddress, set[bytes]] = OrderedDict()
        self._own_address: dict[bool, SocketAddress] = {}  # of IPv6, and of IPv4
        self.way_to: WayTo | None = None
        """Asked about a peer that has not spoken lately; None: everybody can be reached."""
        self.divert: Callable[[float], None] | None = None
        """Called before what is in `link.outgoing` is sent: some of it goes by relays."""
        self.contact_of: Callable[[PeerKey], Contact | None] = lambda peer: None
        """Where a peer was proven to be: datagrams that a relay passed on come from no address of its own."""
        self.events: list[TransportEvent] = []
        self.dropped: Counter[str] = Counter()
        self.kinds_in: dict[type, int] = dict.fromkeys(_CLASS_OF, 0)  # bytes, sealed, of messages of a class
        self.kinds_out: dict[type, int] = dict.fromkeys(_CLASS_OF, 0)
        self.datagrams_in = self.bytes_in = self.messages_in = self.messages_out = 0
        self.datagrams_out = self.bytes_out = 0  # counted by the shell, as are its drops
        self.link = SessionKeeper(
            key=key,
            network=network,
            record=self._encoded_record,
            is_record_good=self._is_record_good,
            entropy=entropy,
            limits=limits.link,
            spared=spared,
        )

    # --- the hot path

    def receive(self, datagrams: list[tuple[bytes, SocketAddress]], now: float) -> list[Received]:
        """The messages in some datagrams; the others are answered, or dropped and counted."""
        batch: list[Received] = []
        receive, decode, kinds = self.link.receive, self._decode, self.kinds_in
        size_bytes = 0
        for data, address in datagrams:
            size_bytes += len(data)
            opened = receive(data, address, now)
            if opened is None:
                continue
            session, payload = opened
            message = decode(payload)
            if isinstance(message, MessageRefused):
                self.dropped[message.reason] += 1
                continue
            kinds[message.__class__] += len(data)
            peer = session.tag if session.tag.__class__ is _Peer else self._introduce(session, now)
            of_key, of_prefix = peer.buckets[message.__class__]
            if of_key.take(now) and of_prefix.take(now):
                batch.append((message, peer.contact))
            else:
                self.dropped["flood"] += 1
        self.datagrams_in += len(datagrams)
        self.bytes_in += size_bytes
        self.messages_in += len(batch)
        return batch

    def send(self, message: m.Message, to: Contact, now: float, *, is_strict: bool = False) -> bool:
        self.messages_out += 1
        target, is_chosen = socket_address(to.address.host, to.address.port), False
        if self.way_to is not None and not is_strict:
            session = self.link.sessions.at(target)
            if session is None or now - session.used_at > FRESH_S:
                target, is_chosen = self.way_to(to, target, now)
        bytes_max = POSTED_PAYLOAD_BYTES_MAX if is_posted(target) else PAYLOAD_BYTES_MAX
        payload = encode_fitted(message, bytes_max)
        self.kinds_out[message.__class__] += len(payload) + _SEALED_BYTES
        return self.link.send(payload, target, to.peer, now, is_chosen=is_chosen)

    # --- handshakes and their news

    def dial(self, address: Address, peer: bytes | None, now: float, *, is_chosen: bool = False) -> bool:
        """Starts a handshake with the peer at this address; False as `SessionKeeper.dial` says."""
        target = socket_address(address.host, address.port)
        return self.link.dial(target, peer, now, is_chosen=is_chosen) is not None

    def has_answered(self, address: Address) -> bool:
        """Ever, as far as is remembered; a handshake tells where not."""
        return self.link.unanswered.has_answered(socket_address(address.host, address.port))

    def met(self, address: Address, now: float) -> PeerMet | None:
        """The peer at this address, by an open session."""
        session = self.link.sessions.at(socket_address(address.host, address.port))
        if session is None:
            return None
        peer = self._introduce(session, now)
        return PeerMet(contact=peer.contact, record=peer.record, seen=None)

    def take_events(self, now: float) -> list[TransportEvent]:
        if self.link.events:
            for event in self.link.events:
                self._translate(event, now)
            self.link.events.clear()
        events, self.events = self.events, []
        return events

    def _translate(self, event: LinkEvent, now: float) -> None:
        match event:
            case SessionOpened():
                peer = self._introduce(event.session, now)
                is_seen = event.seen is not None and not is_posted(event.seen)
                seen = packed_address(event.seen) if event.seen is not None and is_seen else None
                self.events.append(PeerMet(contact=peer.contact, record=peer.record, seen=seen))
                if event.seen is not None and is_seen:
                    self._note_sighting(event.seen, prefix_of(event.session.address))
            case DialFailed():
                self.events.append(event)

    def _note_sighting(self, seen: SocketAddress, witness: bytes) -> None:
        """One peer may lie about our address; two in different prefixes are believed."""
        family = ":" in seen[0]
        is_new = seen not in self._sightings and seen != self._own_address.get(family)
        if is_new and family in self._own_address:
            self.events.append(OwnAddressDoubted())
        witnesses = self._sightings.setdefault(seen, set())
        self._sightings.move_to_end(seen)
        if len(witnesses) < WITNESSES_OF_OUR_ADDRESS:
            witnesses.add(witness)
        if len(self._sightings) > SIGHTINGS_MAX:
            self._sightings.popitem(last=False)
        assert len(witnesses) <= WITNESSES_OF_OUR_ADDRESS
        if len(witnesses) < WITNESSES_OF_OUR_ADDRESS or seen == self._own_address.get(family):
            return
        for other in [one for one in self._sightings if one != seen and (":" in one[0]) is family]:
            del self._sightings[other]  # an old address must be witnessed again
        if family in self._own_address:
            self.events.append(OwnAddressChanged(address=packed_address(seen)))
        self._own_address[family] = seen

    def _introduce(self, session: Session, now: float) -> _Peer:
        if isinstance(session.tag, _Peer):
            return session.tag
        record = decode_record(session.record) if session.record else None
        signed = record if isinstance(record, SignedRecord) else None
        key, prefix = session.public_key, prefix_of(session.address)
        contact = self.contact_of(PeerKey(key)) if is_posted(session.address) else None
        contact = contact or Contact.at(
            PeerKey(key),
            packed_address(session.address),
            signed.record.slot if signed else 0,
            0,
            self._id_check,
        )
        of = self._buckets.of
        by_class = {
            name: (of((name, key), rate, now), of((name, prefix), prefix_rate, now))
            for name, (rate, prefix_rate) in self._rates.items()
        }
        buckets = {kind: by_class[name] for kind, name in _CLASS_OF.items()}
        peer = _Peer(contact, signed, buckets)
        session.tag = peer
        return peer

    def _encoded_record(self) -> bytes:
        record = self._record()
        if record is not self._encoded[0]:
            self._encoded = (record, encode_record(record) if record else b"")
        return self._encoded[1]

    def _is_record_good(self, data: bytes, public_key: bytes) -> bool:
        """Its bytes, network, key and signatures; whether its times and positions hold is the machine's."""
        signed = decode_record(data)
        return (
            isinstance(signed, SignedRecord)
            and signed.record.peer == public_key
            and signed.record.network == self._network
            and self._verifier.is_record_signed(signed)
        )

    def statistics(self, *, waiting: int) -> TransportStatistics:
        """`dropped` joins what the link, the shell and we dropped."""
        return TransportStatistics(
            datagrams_in=self.datagrams_in,
            datagrams_out=self.datagrams_out,
            bytes_in=self.bytes_in,
            bytes_out=self.bytes_out,
            messages_in=self.messages_in,
            messages_out=self.messages_out,
            sessions=len(self.link.sessions),
            waiting_datagrams=waiting,
            kinds=MappingProxyType(
                {
                    kind.__name__: (self.kinds_in[kind], size)
                    for kind, size in self.kinds_out.items()
                    if size or self.kinds_in[kind]
                }
            ),
            dropped=MappingProxyType(dict(self.link.dropped + self.dropped)),
            done=MappingProxyType(dict(self.link.done)),
        )
