"""How do the ring's messages and records look as bytes? `docs/protocol/ring.md` §5 and §6.

MessagePack by msgspec, kept in this file. A message is an array whose first element names its kind; a table
gives each kind's shape, with the limits of every field, and how the shape becomes a value of `dht.core`. What
does not fit is a `MessageRefused` value with a word to count, never an exception of msgspec's. Elements beyond
those we know are ignored, so fields can be added at the end; unknown kinds are told apart from nonsense.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import pairwise
from operator import attrgetter
from struct import pack, unpack
from typing import Annotated, Any, Final, get_args

import msgspec
from msgspec import Meta, Raw, Struct

from dht.core import messages as m
from dht.core.frames import PAYLOAD_BYTES_MAX
from dht.core.ids import IdCheck, NetworkId, PeerKey
from dht.core.records import Address, Contact, Death, Departure, News, PeerRecord, SignedRecord
from dht.errors import MalformedMessageError

RECORD_DOMAIN: Final = b"herodotus/rec/1"
DEATH_DOMAIN: Final = b"herodotus/death/1"
DEPARTURE_DOMAIN: Final = b"herodotus/leave/1"
CONTACTS_REMEMBERED: Final = 1 << 16  # about 40 MB; a State of a known neighbourhood hashes nothing again

U8 = Annotated[int, Meta(ge=0, le=255)]
U16 = Annotated[int, Meta(ge=1, le=0xFFFF)]
U32 = Annotated[int, Meta(ge=0, le=0xFFFF_FFFF)]
U64 = Annotated[int, Meta(ge=0)]  # MessagePack has no integers above 64 bits
Seconds = Annotated[int, Meta(ge=0, le=0xFF_FFFF_FFFF)]
KeyField = Annotated[bytes, Meta(min_length=20, max_length=20)]
PeerField = Annotated[bytes, Meta(min_length=32, max_length=32)]
SignatureField = Annotated[bytes, Meta(min_length=64, max_length=64)]
MaybePeer = Annotated[bytes, Meta(max_length=32)]
MaybeSignature = Annotated[bytes, Meta(max_length=64)]
Host = Annotated[bytes, Meta(min_length=4, max_length=16)]
Network = Annotated[bytes, Meta(min_length=8, max_length=8)]
Slot = Annotated[int, Meta(ge=0, le=7)]
Index = Annotated[int, Meta(ge=0, le=63)]
NewsField = Annotated[tuple[Raw, ...], Meta(max_length=m.NEWS_MAX)]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRefused:
    """Bytes that are no message for us: `kind` (unknown, perhaps from a newer peer) or `malformed`."""

    reason: str


class _Contact(Struct, array_like=True, frozen=True):
    peer: PeerField
    host: Host
    port: U16
    slot: Slot
    index: Index


class _Address(Struct, array_like=True, frozen=True):
    host: Host
    port: U16


class _Record(Struct, array_like=True, frozen=True):
    version: U8
    network: Network
    peer: PeerField
    addresses: Annotated[tuple[_Address, ...], Meta(min_length=1, max_length=4)]
    slot: Slot
    virtual_nodes: Annotated[int, Meta(ge=1, le=64)]
    incarnation: U32
    issued_s: Seconds
    expires_s: Seconds
    flags: U32
    previous: MaybePeer


class _Signed(Struct, array_like=True, frozen=True):
    kind: int
    record: _Record
    signature: SignatureField
    previous_signature: MaybeSignature = b""


class _Death(Struct, array_like=True, frozen=True):
    kind: int
    peer: PeerField
    incarnation: U32
    accuser: PeerField
    accuser_signature: SignatureField
    confirmer: PeerField
    confirmer_signature: SignatureField


class _Departure(Struct, array_like=True, frozen=True):
    kind: int
    peer: PeerField
    incarnation: U32
    signature: SignatureField


class _Bare(Struct, array_like=True, frozen=True):
    kind: int
    id: U64


class _GetState(_Bare, frozen=True):
    source: _Contact
    target: Index
    known: U32


class _State(_Bare, frozen=True):
    version: Annotated[int, Meta(ge=1, le=0xFFFF_FFFF)]
    predecessor: _Contact | None
    successors: Annotated[tuple[_Contact, ...], Meta(max_length=m.SUCCESSORS_MAX)]


class _Notify(_Bare, frozen=True):
    source: _Contact
    target: Index


class _Find(_Bare, frozen=True):
    key: KeyField


class _Owner(_Bare, frozen=True):
    holders: Annotated[tuple[_Contact, ...], Meta(min_length=1, max_length=m.HOLDERS_MAX)]
    records: Annotated[tuple[_Signed, ...], Meta(max_length=m.OWNER_RECORDS_MAX)]


class _Closer(_Bare, frozen=True):
    contacts: Annotated[tuple[_Contact, ...], Meta(max_length=m.CLOSER_MAX)]


class _Rumour(_Bare, frozen=True):
    news: NewsField


class _Digest(_Bare, frozen=True):
    sums: Annotated[bytes, Meta(min_length=4 * m.BUCKETS, max_length=4 * m.BUCKETS)]


class _DigestDiffers(_Bare, frozen=True):
    buckets: Annotated[bytes, Meta(max_length=m.BUCKETS)]


class _Pull(_Bare, frozen=True):
    bucket: U8
    after: MaybePeer
    have: Annotated[bytes, Meta(max_length=4 * m.HAVE_MAX)]


class _Records(_Bare, frozen=True):
    news: NewsField
    more: bool


class _ProbeRequest(_Bare, frozen=True):
    target: _Contact


class _ProbeReply(_Bare, frozen=True):
    is_alive: bool


class _Accuse(_Bare, frozen=True):
    suspect: _Contact
    incarnation: U32
    signature: SignatureField


class _Verdict(_Bare, frozen=True):
    signature: MaybeSignature


class _DialBackRequest(_Bare, frozen=True):
    port: U16


class _DialBackReply(_Bare, frozen=True):
    is_reached: bool


class _Offer(_Bare, frozen=True):
    marks: Annotated[bytes, Meta(min_length=8, max_length=8 * m.MARKS_MAX)]


class _Want(_Bare, frozen=True):
    marks: Annotated[bytes, Meta(min_length=8, max_length=8 * m.NEWS_MAX)]


# --- values to plain arrays

_encode: Final = msgspec.msgpack.Encoder().encode
_NEWS_RECORD, _NEWS_DEATH, _NEWS_DEPARTURE = 1, 2, 3


def _contact_fields(contact: Contact) -> tuple[object, ...]:
    return (contact.peer, contact.address.host, contact.address.port, contact.slot, contact.index)


def _record_fields(record: PeerRecord) -> tuple[object, ...]:
    return (
        record.version,
        record.network,
        record.peer,
        [(address.host, address.port) for address in record.addresses],
        record.slot,
        record.virtual_nodes,
        record.incarnation,
        record.issued_s,
        record.expires_s,
        record.flags,
        record.previous,
    )


def _news_fields(news: News) -> tuple[object, ...]:
    match news:
        case SignedRecord():
            fields = (_NEWS_RECORD, _record_fields(news.record), news.signature)
            return (*fields, news.previous_signature) if news.previous_signature else fields
        case Death():
            return (
                _NEWS_DEATH,
                news.peer,
                news.incarnation,
                news.accuser,
                news.accuser_signature,
                news.confirmer,
                news.confirmer_signature,
            )
        case Departure():
            return (_NEWS_DEPARTURE, news.peer, news.incarnation, news.signature)


def _contacts_fields(contacts: tuple[Contact, ...]) -> list[tuple[object, ...]]:
    return [_contact_fields(contact) for contact in contacts]


def _numbers(values: tuple[int, ...]) -> bytes:
    return pack(f">{len(values)}I", *values)


def _from_numbers(packed: bytes) -> tuple[int, ...]:
    if len(packed) % 4:
        raise MalformedMessageError("malformed")
    return unpack(f">{len(packed) // 4}I", packed)


def _marks(values: tuple[int, ...]) -> bytes:
    return pack(f">{len(values)}Q", *values)


def _from_marks(packed: bytes) -> tuple[int, ...]:
    if len(packed) % 8:
        raise MalformedMessageError("malformed")
    return unpack(f">{len(packed) // 8}Q", packed)


_PACKERS: Final[dict[type, tuple[int, Callable[[Any], tuple[object, ...]] | None]]] = {
    m.Ping: (1, None),
    m.Pong: (2, None),
    m.Ack: (3, None),
    m.GetState: (4, lambda v: (_contact_fields(v.source), v.target, v.known)),
    m.NeighbourState: (
        5,
        lambda v: (
            v.version,
            _contact_fields(v.predecessor) if v.predecessor else None,
            _contacts_fields(v.successors),
        ),
    ),
    m.Unchanged: (6, None),
    m.Busy: (7, None),
    m.NotMember: (8, None),
    m.Notify: (9, lambda v: (_contact_fields(v.source), v.target)),
    m.Find: (10, lambda v: (v.key,)),
    m.Owner: (11, lambda v: (_contacts_fields(v.holders), [_news_fields(r) for r in v.records])),
    m.Closer: (12, lambda v: (_contacts_fields(v.contacts),)),
    m.Rumour: (13, lambda v: ([_news_fields(n) for n in v.news],)),
    m.Digest: (14, lambda v: (_numbers(v.sums),)),
    m.DigestDiffers: (15, lambda v: (bytes(v.buckets),)),
    m.Pull: (16, lambda v: (v.bucket, v.after, _numbers(v.have))),
    m.MemberRecords: (17, lambda v: ([_news_fields(n) for n in v.news], v.more)),
    m.ProbeRequest: (18, lambda v: (_contact_fields(v.target),)),
    m.ProbeReply: (19, lambda v: (v.is_alive,)),
    m.Accuse: (20, lambda v: (_contact_fields(v.suspect), v.incarnation, v.signature)),
    m.AliveVerdict: (21, lambda v: (v.signature,)),
    # 22 and 23 were BATCH and its answer, which no peer ever sent: reserved, and refused as unknown kinds.
    m.DialBackRequest: (24, lambda v: (v.port,)),
    m.DialBackReply: (25, lambda v: (v.is_reached,)),
    m.Offer: (26, lambda v: (_marks(v.marks),)),
    m.Want: (27, lambda v: (_marks(v.marks),)),
}
assert set(_PACKERS) == set(get_args(m.Message))


def encode_message(message: m.Message) -> bytes:
    kind, fields = _PACKERS[message.__class__]
    return _encode((kind, message.id) if fields is None else (kind, message.id, *fields(message)))


def encode_record(signed: SignedRecord) -> bytes:
    return _encode(_news_fields(signed))


def record_signed_bytes(record: PeerRecord) -> bytes:
    """What the signatures of a record stand over: one record has one encoding, with shortest integers."""
    return RECORD_DOMAIN + _encode(_record_fields(record))


def death_signed_bytes(network: NetworkId, peer: PeerKey, incarnation: int) -> bytes:
    return DEATH_DOMAIN + network + peer + incarnation.to_bytes(4, "big")


def departure_signed_bytes(network: NetworkId, peer: PeerKey, incarnation: int) -> bytes:
    return DEPARTURE_DOMAIN + network + peer + incarnation.to_bytes(4, "big")


def fitted(message: m.Message) -> m.Message:
    """The message with as much as fits one datagram: news and records beyond are left for the next time.

    Seven common records fit, seven deaths or rotations do not, and only the encoding knows how long they are.
    A RECORDS that was cut says `more`; what a RUMOUR lost is told again by gossip.
    """
    while len(encode_message(message)) > PAYLOAD_BYTES_MAX:
        match message:
            case m.Rumour(news=(_, _, *_)):
                message = m.Rumour(id=message.id, news=message.news[:-1])
            case m.MemberRecords(news=(_, _, *_)):
                message = m.MemberRecords(id=message.id, news=message.news[:-1], more=True)
            case m.Owner(records=(_, *_)):
                message = m.Owner(id=message.id, holders=message.holders, records=message.records[:-1])
            case _:
                return message
    return message


# --- bytes to values


def _host(host: bytes) -> bytes:
    if len(host) not in (4, 16):
        raise MalformedMessageError("malformed")
    return host


@lru_cache(16)
def _shared_network(network: bytes) -> NetworkId:
    """One object for all records of a ring."""
    return NetworkId(network)


def _optional(value: bytes, length: int) -> bytes:
    if len(value) not in (0, length):
        raise MalformedMessageError("malformed")
    return value


def _to_record(shape: _Record) -> PeerRecord:
    return PeerRecord(
        version=shape.version,
        network=_shared_network(shape.network),
        peer=PeerKey(shape.peer),
        addresses=tuple(Address(host=_host(a.host), port=a.port) for a in shape.addresses),
        slot=shape.slot,
        virtual_nodes=shape.virtual_nodes,
        incarnation=shape.incarnation,
        issued_s=shape.issued_s,
        expires_s=shape.expires_s,
        flags=shape.flags,
        previous=_optional(shape.previous, 32),
    )


def _to_signed(shape: _Signed) -> SignedRecord:
    if shape.kind != _NEWS_RECORD or bool(shape.record.previous) != bool(shape.previous_signature):
        raise MalformedMessageError("malformed")
    return SignedRecord(
        record=_to_record(shape.record),
        signature=shape.signature,
        previous_signature=_optional(shape.previous_signature, 64),
    )


def _to_death(shape: _Death) -> Death:
    return Death(
        peer=PeerKey(shape.peer),
        incarnation=shape.incarnation,
        accuser=PeerKey(shape.accuser),
        accuser_signature=shape.accuser_signature,
        confirmer=PeerKey(shape.confirmer),
        confirmer_signature=shape.confirmer_signature,
    )


def _to_departure(shape: _Departure) -> Departure:
    return Departure(peer=PeerKey(shape.peer), incarnation=shape.incarnation, signature=shape.signature)


def _decoder(shape: Any) -> Callable[[bytes | Raw], Any]:
    return msgspec.msgpack.Decoder(shape).decode


_signed_decode: Final = _decoder(_Signed)
_NEWS: Final[dict[int, tuple[Callable[[bytes | Raw], Any], Callable[[Any], News]]]] = {
    _NEWS_RECORD: (_signed_decode, _to_signed),
    _NEWS_DEATH: (_decoder(_Death), _to_death),
    _NEWS_DEPARTURE: (_decoder(_Departure), _to_departure),
}


def _to_news(raws: tuple[Raw, ...]) -> tuple[News, ...]:
    """Kinds of news that we do not know are left out: the rest of the message is still good."""
    known = []
    for raw in raws:
        data = bytes(memoryview(raw)[:2])
        if len(data) < 2 or data[0] & 0xF0 != 0x90 or data[1] > 0x7F:
            raise MalformedMessageError("malformed")
        found = _NEWS.get(data[1])
        if found is not None:
            decode, build = found
            known.append(build(decode(raw)))
    return tuple(known)


def decode_record(data: bytes) -> SignedRecord | MessageRefused:
    """A signed record standing alone: in the handshake, in files, in kademlia. Not yet verified."""
    try:
        return _to_signed(_signed_decode(data))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, MalformedMessageError):
        return MessageRefused(reason="malformed")


def _quick(kind: type[Any]) -> Callable[[Any], Any]:
    """Builds a message of one or two fields, which are those of its shape.  A frozen dataclass takes 0.3 to
    0.5 us to make itself, a third of all decoding; its slots can be filled in half of that.
    """
    new, names = object.__new__, [field.name for field in fields(kind)]
    fill_id, fill_other = (getattr(kind, name).__set__ for name in (names[0], names[-1]))
    other_of = attrgetter(names[-1])

    def bare(shape: Any) -> Any:
        message = new(kind)
        fill_id(message, shape.id)
        return message

    def of_two(shape: Any) -> Any:
        message = new(kind)
        fill_id(message, shape.id)
        fill_other(message, other_of(shape))
        return message

    return bare if len(names) == 1 else of_two


class MessageCodec:
    """Decodes messages for a ring whose charter has this id check (contacts compute their positions)."""

    def __init__(self, id_check: IdCheck) -> None:
        @lru_cache(CONTACTS_REMEMBERED)
        def contact(peer: bytes, host: bytes, port: int, slot: int, index: int) -> Contact:
            address = Address(host=_host(host), port=port)
            return Contact.at(PeerKey(peer), address, slot, index, id_check)

        self._remembered = contact
        one, many = self._contact, self._contacts
        self._table: dict[int, tuple[Callable[[bytes | Raw], Any], Callable[[Any], m.Message]]] = {
            1: (_decoder(_Bare), _quick(m.Ping)),
            2: (_decoder(_Bare), _quick(m.Pong)),
            3: (_decoder(_Bare), _quick(m.Ack)),
            4: (
                _decoder(_GetState),
                lambda s: m.GetState(id=s.id, source=one(s.source), target=s.target, known=s.known),
            ),
            5: (
                _decoder(_State),
                lambda s: m.NeighbourState(
                    id=s.id,
                    version=s.version,
                    predecessor=one(s.predecessor) if s.predecessor else None,
                    successors=many(s.successors),
                ),
            ),
            6: (_decoder(_Bare), _quick(m.Unchanged)),
            7: (_decoder(_Bare), _quick(m.Busy)),
            8: (_decoder(_Bare), _quick(m.NotMember)),
            9: (_decoder(_Notify), lambda s: m.Notify(id=s.id, source=one(s.source), target=s.target)),
            10: (_decoder(_Find), _quick(m.Find)),
            11: (
                _decoder(_Owner),
                lambda s: m.Owner(
                    id=s.id, holders=many(s.holders), records=tuple(map(_to_signed, s.records))
                ),
            ),
            12: (_decoder(_Closer), lambda s: m.Closer(id=s.id, contacts=many(s.contacts))),
            13: (_decoder(_Rumour), lambda s: m.Rumour(id=s.id, news=_to_news(s.news))),
            14: (_decoder(_Digest), lambda s: m.Digest(id=s.id, sums=_from_numbers(s.sums))),
            15: (_decoder(_DigestDiffers), lambda s: m.DigestDiffers(id=s.id, buckets=_ascending(s.buckets))),
            16: (
                _decoder(_Pull),
                lambda s: m.Pull(
                    id=s.id, bucket=s.bucket, after=_optional(s.after, 32), have=_from_numbers(s.have)
                ),
            ),
            17: (_decoder(_Records), lambda s: m.MemberRecords(id=s.id, news=_to_news(s.news), more=s.more)),
            18: (_decoder(_ProbeRequest), lambda s: m.ProbeRequest(id=s.id, target=one(s.target))),
            19: (_decoder(_ProbeReply), lambda s: m.ProbeReply(id=s.id, is_alive=s.is_alive)),
            20: (
                _decoder(_Accuse),
                lambda s: m.Accuse(
                    id=s.id, suspect=one(s.suspect), incarnation=s.incarnation, signature=s.signature
                ),
            ),
            21: (_decoder(_Verdict), lambda s: m.AliveVerdict(id=s.id, signature=_optional(s.signature, 64))),
            24: (_decoder(_DialBackRequest), lambda s: m.DialBackRequest(id=s.id, port=s.port)),
            25: (_decoder(_DialBackReply), lambda s: m.DialBackReply(id=s.id, is_reached=s.is_reached)),
            26: (_decoder(_Offer), lambda s: m.Offer(id=s.id, marks=_from_marks(s.marks))),
            27: (_decoder(_Want), lambda s: m.Want(id=s.id, marks=_from_marks(s.marks))),
        }
        assert set(self._table) == {kind for kind, _ in _PACKERS.values()}

    def _contact(self, shape: _Contact) -> Contact:
        return self._remembered(shape.peer, shape.host, shape.port, shape.slot, shape.index)

    def _contacts(self, shapes: tuple[_Contact, ...]) -> tuple[Contact, ...]:
        return tuple(map(self._contact, shapes))

    def decode(self, data: bytes, bytes_max: int = PAYLOAD_BYTES_MAX) -> m.Message | MessageRefused:
        """A message that obeys every limit, or why not. A carrier of longer messages passes its own `bytes_max`."""
        if not 2 <= len(data) <= bytes_max or data[0] & 0xF0 != 0x90 or data[1] > 0x7F:
            return MessageRefused(reason="malformed")
        found = self._table.get(data[1])
        if found is None:
            return MessageRefused(reason="kind")
        decode, build = found
        try:
            return build(decode(data))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, MalformedMessageError):
            return MessageRefused(reason="malformed")


def _ascending(numbers: bytes) -> tuple[int, ...]:
    if any(before >= after for before, after in pairwise(numbers)):
        raise MalformedMessageError("malformed")
    return tuple(numbers)
