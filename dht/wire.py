"""How do the ring's messages and records look as bytes? `docs/protocol/ring.md` §5 and §6.

MessagePack by msgspec. A message is an array whose first element names its kind. The types of `dht.core.messages` and
`dht.core.records` state that number, the order of the fields and the bounds of each, so most are decoded straight
into themselves. What is done here is the rest: numbers that travel packed, what a bound cannot say, and contacts,
whose positions are computed. What does not fit is a `MessageRefused` value with a word to count, never an exception.
Elements beyond those we know are ignored, so fields can be added at the end; unknown kinds are told apart from
nonsense.
"""

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import pairwise
from operator import or_
from struct import pack, unpack
from typing import Annotated, Any, Final, get_args

import msgspec
from msgspec import Meta, Raw, Struct
from msgspec.msgpack import Decoder, Encoder

from dht.core import messages as m
from dht.core.frames import PAYLOAD_BYTES_MAX
from dht.core.ids import (
    IPV4_BYTES,
    IPV6_BYTES,
    IPV6_PREFIX_BYTES,
    PEER_KEY_BYTES,
    IdCheck,
    NetworkId,
    PeerKey,
    anchor_of,
)
from dht.core.records import (
    NO_DAY,
    NO_PORT,
    RECORD_VERSION,
    SIGNATURE_BYTES,
    Address,
    Contact,
    HostField,
    IndexField,
    Line,
    MaybePeer,
    News,
    PeerField,
    PeerRecord,
    PortField,
    SignedRecord,
    SlotField,
    is_birth,
    is_host,
)
from dht.core.seats import MARK_BYTES

RECORD_DOMAIN: Final = b"herodotus/rec/1"
DEATH_DOMAIN: Final = b"herodotus/death/1"
DEPARTURE_DOMAIN: Final = b"herodotus/leave/1"
CONTACTS_REMEMBERED: Final = 1 << 16  # about 40 MB; a State of a known neighbourhood hashes nothing again


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRefused:
    """Bytes that are no message for us: `kind` (unknown, perhaps from a newer peer) or `malformed`."""

    reason: str


_MALFORMED: Final = MessageRefused(reason="malformed")
_FAULTS: Final = (msgspec.MsgspecError, ValueError, RecursionError, struct.error)

# --- values to bytes


def _contact_fields(contact: Contact) -> tuple[object, ...]:
    fields = (contact.peer, contact.address.host, contact.address.port, contact.slot, contact.index)
    return (*fields, anchor_of(contact.birth)) if contact.birth else fields


_encode: Final = Encoder(enc_hook=_contact_fields).encode


def _news_fields(news: Iterable[News]) -> list[object]:
    return [_signed_fields(one) if one.__class__ is SignedRecord else one for one in news]


def _signed_fields(signed: Any) -> object:
    """A record without a second signature leaves the field out, which msgspec would not."""
    return signed if signed.previous_signature else (_RECORD, signed.record, signed.signature)


_RECORD: Final = 1  # the tag of `SignedRecord`
_PACKERS: Final[dict[type, Callable[[Any], tuple[object, ...]]]] = {
    m.Owner: lambda v: (11, v.id, v.holders, _news_fields(v.records)),
    m.Rumour: lambda v: (13, v.id, _news_fields(v.news)),
    m.Digest: lambda v: (14, v.id, pack(f">{len(v.sums)}I", *v.sums)),
    m.DigestDiffers: lambda v: (15, v.id, bytes(v.buckets)),
    m.Pull: lambda v: (16, v.id, v.bucket, v.after, pack(f">{len(v.have)}I", *v.have)),
    m.MemberRecords: lambda v: (17, v.id, _news_fields(v.news), v.more),
    m.Offer: lambda v: (26, v.id, pack(f">{len(v.marks)}Q", *v.marks)),
    m.Want: lambda v: (27, v.id, pack(f">{len(v.marks)}Q", *v.marks)),
    m.AskSeats: lambda v: (36, v.id, b"".join(v.marks)),
}
"""Those that are not encoded as they stand."""


def encode_message(message: m.Message) -> bytes:
    packer = _PACKERS.get(message.__class__)
    return _encode(message if packer is None else packer(message))


def encode_record(signed: SignedRecord) -> bytes:
    return _encode(_signed_fields(signed))


def record_signed_bytes(record: PeerRecord) -> bytes:
    """What the signatures of a record stand over: one record has one encoding, with shortest integers."""
    return RECORD_DOMAIN + _encode(record)


def death_signed_bytes(network: NetworkId, peer: PeerKey, incarnation: int) -> bytes:
    return DEATH_DOMAIN + network + peer + incarnation.to_bytes(4, "big")


def departure_signed_bytes(network: NetworkId, peer: PeerKey, incarnation: int) -> bytes:
    return DEPARTURE_DOMAIN + network + peer + incarnation.to_bytes(4, "big")


def encode_fitted(message: m.Message, bytes_max: int = PAYLOAD_BYTES_MAX) -> bytes:
    """The message with as much as fits one datagram: news and records beyond are left for the next time.

    Seven common records fit, seven deaths or rotations do not, and only the encoding knows how long they are.
    A RECORDS that was cut says `more`; what a RUMOUR lost is told again by gossip.
    """
    data = encode_message(message)
    while len(data) > bytes_max:
        match message:
            case m.Rumour(news=(_, _, *_)):
                message = m.Rumour(id=message.id, news=message.news[:-1])
            case m.MemberRecords(news=(_, _, *_)):
                message = m.MemberRecords(id=message.id, news=message.news[:-1], more=True)
            case m.Owner(records=(_, *_)):
                message = m.Owner(id=message.id, holders=message.holders, records=message.records[:-1])
            case _:
                break
        data = encode_message(message)
    return data


# --- bytes to values. Below, what a stranger did wrong is a ValueError until `decode` refuses the message.


class _Contact(Struct, array_like=True, frozen=True):
    peer: PeerField
    host: HostField
    port: PortField
    slot: SlotField
    index: IndexField
    birth: Annotated[bytes, Meta(max_length=IPV6_PREFIX_BYTES)] = b""


class _Packed(Struct, array_like=True, frozen=True):
    id: Annotated[int, Meta(ge=0)]


class _Digest(_Packed, frozen=True, tag=14):
    sums: Annotated[bytes, Meta(min_length=4 * m.FOLDS, max_length=4 * m.BUCKETS)]


class _DigestDiffers(_Packed, frozen=True, tag=15):
    buckets: Annotated[bytes, Meta(max_length=m.BUCKETS)]


class _Pull(_Packed, frozen=True, tag=16):
    bucket: Annotated[int, Meta(ge=0, lt=m.BUCKETS)]
    after: MaybePeer
    have: Annotated[bytes, Meta(max_length=4 * m.HAVE_MAX)]


class _Offer(_Packed, frozen=True, tag=26):
    marks: Annotated[bytes, Meta(min_length=8, max_length=8 * m.MARKS_MAX)]


class _Want(_Packed, frozen=True, tag=27):
    marks: Annotated[bytes, Meta(min_length=8, max_length=8 * m.NEWS_MAX)]


class _AskSeats(_Packed, frozen=True, tag=36):
    marks: Annotated[bytes, Meta(min_length=MARK_BYTES, max_length=MARK_BYTES * m.SEATS_ASKED_MAX)]


_PACKED: Final = {
    m.Digest: _Digest,
    m.DigestDiffers: _DigestDiffers,
    m.Pull: _Pull,
    m.Offer: _Offer,
    m.Want: _Want,
    m.AskSeats: _AskSeats,
}
_SHAPES: Final = tuple(_PACKED.get(kind, kind) for kind in (*m.REQUESTS, *m.REPLIES))
_KINDS: Final = frozenset(shape.__struct_config__.tag for shape in _SHAPES)
"""22 and 23 were BATCH and its answer, which no peer ever sent: reserved, and refused as unknown kinds."""
_NEWS_KINDS: Final = frozenset(kind.__struct_config__.tag for kind in get_args(News))


def _sums(packed: bytes) -> tuple[int, ...]:
    if len(packed) not in (4 * m.FOLDS, 4 * m.BUCKETS):
        raise ValueError("neither folded nor whole")
    return unpack(f">{len(packed) // 4}I", packed)


def _marks(packed: bytes) -> tuple[int, ...]:
    return unpack(f">{len(packed) // 8}Q", packed)


def _seat_marks(packed: bytes) -> tuple[bytes, ...]:
    if len(packed) % MARK_BYTES:
        raise ValueError("half a mark")
    return tuple(packed[at : at + MARK_BYTES] for at in range(0, len(packed), MARK_BYTES))


def _words(words: bytes) -> bytes:
    if any(word > 2 for word in words):
        raise ValueError("no such word")
    return words


def _ascending(numbers: bytes) -> tuple[int, ...]:
    if any(before >= after for before, after in pairwise(numbers)):
        raise ValueError("not ascending")
    return tuple(numbers)


def _optional(value: bytes, length: int) -> bytes:
    if len(value) not in (0, length):
        raise ValueError("neither empty nor whole")
    return value


@lru_cache(16)
def _shared_network(network: bytes) -> NetworkId:
    """One object for all records of a ring."""
    return NetworkId(network)


def _with_sound(message: m.Message, news: Iterable[News]) -> m.Message:
    for one in news:
        if isinstance(one, SignedRecord):
            _check(one)
    return message


def _check(signed: SignedRecord) -> SignedRecord:
    record, second = signed.record, signed.previous_signature
    if (record.previous or second) and (len(record.previous), len(second)) != (
        PEER_KEY_BYTES,
        SIGNATURE_BYTES,
    ):
        raise ValueError("a rotation names the key before, which signs too")
    if not all(is_host(line.host) for line in record.lines):
        raise ValueError("no address")
    if record.seat is not None and not is_host(record.seat.host):
        raise ValueError("no address")
    if (record.since == NO_DAY) != (record.version < 2):
        raise ValueError("records say since when, from version 2 on")
    if any((line.tcp == NO_PORT) != (record.version < RECORD_VERSION) for line in record.lines):
        raise ValueError("records have a port of each protocol, from version 3 on")
    for stay in record.trail:
        if stay.place[0] not in (IPV4_BYTES, IPV6_BYTES) or len(stay.place) > 1 + stay.place[0]:
            raise ValueError("no place")
    # Nobody has seen the record yet, so that it may still be changed.
    if record.version < RECORD_VERSION:
        lines = tuple(Line.at(line.address) for line in record.lines)
        msgspec.structs.force_setattr(record, "lines", lines)
    msgspec.structs.force_setattr(record, "network", _shared_network(record.network))
    return signed


_BUILDERS: Final[dict[type, Callable[[Any], m.Message]]] = {
    m.Owner: lambda s: _with_sound(s, s.records),
    m.Rumour: lambda s: _with_sound(s, s.news),
    m.MemberRecords: lambda s: _with_sound(s, s.news),
    m.AliveVerdict: lambda s: m.AliveVerdict(id=s.id, signature=_optional(s.signature, SIGNATURE_BYTES)),
    _Digest: lambda s: m.Digest(id=s.id, sums=_sums(s.sums)),
    _DigestDiffers: lambda s: m.DigestDiffers(id=s.id, buckets=_ascending(s.buckets)),
    _Pull: lambda s: m.Pull(
        id=s.id,
        bucket=s.bucket,
        after=_optional(s.after, PEER_KEY_BYTES),
        have=unpack(f">{len(s.have) // 4}I", s.have),
    ),
    _Offer: lambda s: m.Offer(id=s.id, marks=_marks(s.marks)),
    _Want: lambda s: m.Want(id=s.id, marks=_marks(s.marks)),
    _AskSeats: lambda s: m.AskSeats(id=s.id, marks=_seat_marks(s.marks)),
    m.SeatsKnown: lambda s: m.SeatsKnown(id=s.id, words=_words(s.words)),
}
"""What makes the message, where the decoder alone could not."""

_decode_signed: Final = Decoder(SignedRecord).decode
_decode_parts: Final = Decoder(list[Raw]).decode
_decode_news: Final = Decoder(Annotated[list[Raw], Meta(max_length=m.NEWS_MAX)]).decode


def decode_record(data: bytes) -> SignedRecord | MessageRefused:
    """A signed record standing alone: in the handshake, in files, in kademlia. Not yet verified."""
    try:
        return _check(_decode_signed(data))
    except _FAULTS:
        return _MALFORMED


def _is_known_news(raw: Raw) -> bool:
    head = bytes(memoryview(raw)[:2])
    if len(head) < 2 or head[0] & 0xF0 != 0x90 or head[1] > 0x7F:
        raise ValueError("no news of any kind")
    return head[1] in _NEWS_KINDS


def _without_unknown_news(data: bytes) -> bytes:
    """A newer peer's message that lacks nothing but what we do not understand: the rest of it is still good."""
    parts = _decode_parts(data)
    raws = _decode_news(parts[2]) if data[1] in (13, 17) and len(parts) > 2 else []
    known = [raw for raw in raws if _is_known_news(raw)]
    if len(known) == len(raws):
        raise ValueError("every news is of a known kind, so something else is wrong")
    return _encode([*parts[:2], known, *parts[3:]])


class MessageCodec:
    """Decodes messages for a ring whose charter has this id check (contacts compute their positions)."""

    def __init__(self, id_check: IdCheck) -> None:
        @lru_cache(CONTACTS_REMEMBERED, typed=True)
        def contact(*fields: object) -> Contact:
            sound = msgspec.convert(fields, _Contact)
            if not is_host(sound.host):
                raise ValueError("no address")
            birth = (
                sound.birth if len(sound.birth) != IPV6_PREFIX_BYTES else sound.birth.ljust(IPV6_BYTES, b"\0")
            )
            if birth and (id_check != "ip" or not is_birth(birth) or sound.slot):
                raise ValueError("no seat")
            address = Address(host=sound.host, port=sound.port)
            return Contact.at(sound.peer, address, sound.slot, sound.index, id_check, birth)

        def to_contact(_kind: type, fields: Any) -> Contact:
            if fields.__class__ is not list:
                raise ValueError("no contact")
            return contact(*fields) if len(fields) <= 6 else contact(*fields[:6])

        self._decode: Callable[[bytes], Any] = Decoder(reduce(or_, _SHAPES), dec_hook=to_contact).decode

    def decode(self, data: bytes, bytes_max: int = PAYLOAD_BYTES_MAX) -> m.Message | MessageRefused:
        """A message that obeys every limit, or why not. A carrier of longer messages passes its own `bytes_max`."""
        if not 2 <= len(data) <= bytes_max or data[0] & 0xF0 != 0x90 or data[1] > 0x7F:
            return _MALFORMED
        if data[1] not in _KINDS:
            return MessageRefused(reason="kind")
        try:
            try:
                shape = self._decode(data)
            except msgspec.ValidationError:
                shape = self._decode(_without_unknown_news(data))
            build = _BUILDERS.get(shape.__class__)
            return shape if build is None else build(shape)
        except _FAULTS:
            return _MALFORMED
