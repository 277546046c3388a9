"""What do peers say to each other?  Every message of the ring protocol, as frozen values.

For the codec: every field is an int, bool, bytes, a tuple, or a value of `dht.core.records`; nothing else.
Keys are 20 bytes, public keys 32, signatures 64.  `id` is an unsigned 64-bit number that the asker draws
and the answer repeats; an answer is taken only from the peer that was asked.  `target` and `Contact.index`
name virtual nodes of a host.  The limits below are part of the protocol: the decoder refuses more, the
machine never makes more.  A message fits a datagram sealed (`dht.core.frames`).

The peer at the other end is known from the session, not from the message: a message that names its `source`
is dropped by the machine unless `source.peer` is the session's peer.
"""

from dataclasses import dataclass

from dht.core.ids import Key
from dht.core.records import Contact, News, SignedRecord

SUCCESSORS_MAX = 16  # r: 1.5e-5 that all die at once when half do (ring.md 3.7)
HOLDERS_MAX = 6  # the owner and the 5 distinct hosts after it
OWNER_RECORDS_MAX = 4  # beside six IPv6 contacts, what still fits a datagram
CLOSER_MAX = 3
NEWS_MAX = 7  # per RUMOUR and RECORDS: 7 x 162 B
MARKS_MAX = 100  # 8 B each, per OFFER
BUCKETS = 256
HAVE_MAX = 200  # fingerprints (4 B each) in one PULL


@dataclass(frozen=True, slots=True, kw_only=True)
class Ping:
    id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pong:
    id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ack:
    """Taken: the answer to NOTIFY.  A rumour is repeated to others anyway and gets none."""

    id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GetState:
    """STATE, asked.  `known` is the version the asker already has of this virtual node, 0 for none (u32)."""

    id: int
    source: Contact
    target: int  # 0..63
    known: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NeighbourState:
    """STATE, answered.  `version` (1..u32) grows with every change of what follows."""

    id: int
    version: int
    predecessor: Contact | None
    successors: tuple[Contact, ...]  # 0..16, in ring order from the answering node, distinct hosts


@dataclass(frozen=True, slots=True, kw_only=True)
class Unchanged:
    """You have my current version."""

    id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Busy:
    """A ring step of mine is waiting; ask again soon."""

    id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NotMember:
    """I live, but that virtual node is in no ring."""

    id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Notify:
    """You are my first successor."""

    id: int
    source: Contact
    target: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Find:
    """Who owns the key?  The asker takes every step itself."""

    id: int
    key: Key


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    id: int
    holders: tuple[Contact, ...]  # 1..6 distinct hosts in ring order, the owner first
    records: tuple[SignedRecord, ...]  # 0..4, of some of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Closer:
    """NEXT: I do not know; these sit before the key, the closest first."""

    id: int
    contacts: tuple[Contact, ...]  # 0..3


@dataclass(frozen=True, slots=True, kw_only=True)
class Rumour:
    id: int
    news: tuple[News, ...]  # 1..7


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """The sum of every bucket of my membership table: what differs is then pulled, by both sides."""

    id: int
    sums: tuple[int, ...]  # exactly 256, u32 each


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestDiffers:
    id: int
    buckets: tuple[int, ...]  # 0..256 numbers 0..255, ascending


@dataclass(frozen=True, slots=True, kw_only=True)
class Pull:
    """Send me what you know in this bucket, except what has one of these fingerprints."""

    id: int
    bucket: int  # 0..255
    after: bytes  # empty, or the public key after which to continue
    have: tuple[int, ...]  # 0..200, u32 each


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRecords:
    id: int
    news: tuple[News, ...]  # 0..7, ascending by public key
    more: bool  # ask again after the last one


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeRequest:
    """Please ask this peer whether it lives: my own way to it may be broken."""

    id: int
    target: Contact


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeReply:
    id: int
    is_alive: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuse:
    """I hold this peer for dead.  Sent to witnesses, who probe it and confirm or not, and to the suspect,
    who may refute.
    """

    id: int
    suspect: Contact
    incarnation: int
    signature: bytes  # the sender's, 64


@dataclass(frozen=True, slots=True, kw_only=True)
class AliveVerdict:
    """The witness's signature, or nothing when it does not agree (yet)."""

    id: int
    signature: bytes  # 64, or empty


@dataclass(frozen=True, slots=True, kw_only=True)
class DialBackRequest:
    """Please send a nonce to this port of the address you see me at: could a stranger reach me?"""

    id: int
    port: int  # 1..65535


@dataclass(frozen=True, slots=True, kw_only=True)
class DialBackReply:
    id: int
    is_reached: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """I have fresh news of these, each by its mark: the first 4 bytes of a public key, and the fingerprint of
    what is known of it.  Only who lacks some answers, by WANT.
    """

    id: int
    marks: tuple[int, ...]  # 1..100, u64 each


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """Send me, as RECORDS, your news of these that you offered."""

    id: int
    marks: tuple[int, ...]  # 1..7, u64 each


Request = (
    Ping
    | GetState
    | Notify
    | Find
    | Rumour
    | Digest
    | Pull
    | ProbeRequest
    | Accuse
    | DialBackRequest
    | Offer
    | Want
)
Reply = (
    Pong
    | Ack
    | NeighbourState
    | Unchanged
    | Busy
    | NotMember
    | Owner
    | Closer
    | DigestDiffers
    | MemberRecords
    | ProbeReply
    | AliveVerdict
    | DialBackReply
)
Message = Request | Reply

# DEAD and LEAVE travel as news (`records.Death`, `records.Departure`) inside a Rumour: to the neighbours
# at once, to all by gossip.
