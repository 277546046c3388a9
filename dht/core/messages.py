"""What do peers say to each other?  Every message of the ring protocol, as frozen values.

The tag of a class and the order of its fields are the wire's, and its bounds are part of the protocol: the decoder
(`dht.wire`) refuses more, the machine never makes more.  Keys are 20 bytes, public keys 32, signatures 64.  `id`
is a number that the asker draws and the answer repeats; an answer is taken only from the peer that was asked.
`target` and `Contact.index` name virtual nodes of a host.  A message fits a datagram sealed (`dht.core.frames`).

The peer at the other end is known from the session, not from the message: a message that names its `source`
is dropped by the machine unless `source.peer` is the session's peer.
"""

from typing import Annotated, Final

from msgspec import Meta, Struct

from dht.core.ids import KEY_BYTES, Key
from dht.core.records import (
    U32,
    Address,
    Contact,
    HostField,
    IndexField,
    MaybePeer,
    MaybeSignature,
    News,
    PeerField,
    SignatureField,
    SignedRecord,
    U32Field,
)

SUCCESSORS_MAX = 16  # r: 1.5e-5 that all die at once when half do (ring.md 3.7)
HOLDERS_MAX = 6  # the owner and the 5 distinct hosts after it
OWNER_RECORDS_MAX = 4  # beside six IPv6 contacts, what still fits a datagram
CLOSER_MAX = 3
NEWS_MAX = 7  # per RUMOUR and RECORDS: 7 x 166 B
MARKS_MAX = 100  # 8 B each, per OFFER
SERVICE_CHARACTERS_MAX = 32  # as in a call by stream
SHORT_BYTES_MAX = 1_150  # what a datagram has left for a body, beside the longest name of a service
SEATS_ASKED_MAX = 80  # 12 B each, per ASKSEATS
BUCKETS = 256
FOLDS = 8  # sums of a digest where nothing should differ: 1 kB a minute was most of an idle line's
HAVE_MAX = 200  # fingerprints (4 B each) in one PULL

OpenPort = Annotated[int, Meta(ge=1, lt=1 << 16)]
POSTED_BYTES_MAX = 1_140  # a datagram inside a sealed one, with a key beside it
PostedField = Annotated[bytes, Meta(min_length=1, max_length=POSTED_BYTES_MAX)]
NewsField = Annotated[tuple[News, ...], Meta(max_length=NEWS_MAX)]


class Message(Struct, array_like=True, frozen=True, kw_only=True):
    id: Annotated[int, Meta(ge=0)]  # u64, the most that MessagePack has


class Request(Message, frozen=True, kw_only=True):
    """Is answered, but for RUMOUR and OFFER."""


class Reply(Message, frozen=True, kw_only=True):
    """Counts only from the peer that was asked."""


class Ping(Request, frozen=True, kw_only=True, tag=1):
    """Are you there?"""


class Pong(Reply, frozen=True, kw_only=True, tag=2):
    """I am."""


class Ack(Reply, frozen=True, kw_only=True, tag=3):
    """Taken: the answer to NOTIFY.  A rumour is repeated to others anyway and gets none."""


class GetState(Request, frozen=True, kw_only=True, tag=4):
    """STATE, asked.  `known` is the version the asker already has of this virtual node, 0 for none (u32)."""

    source: Contact
    target: IndexField
    known: U32Field


class NeighbourState(Reply, frozen=True, kw_only=True, tag=5):
    """STATE, answered.  `version` (1..u32) grows with every change of what follows."""

    version: Annotated[int, Meta(ge=1, lt=U32)]
    predecessor: Contact | None
    successors: Annotated[tuple[Contact, ...], Meta(max_length=SUCCESSORS_MAX)]
    """In ring order from the answering node, distinct hosts."""


class Unchanged(Reply, frozen=True, kw_only=True, tag=6):
    """You have my current version."""


class Busy(Reply, frozen=True, kw_only=True, tag=7):
    """A ring step of mine is waiting; ask again soon."""


class NotMember(Reply, frozen=True, kw_only=True, tag=8):
    """I live, but that virtual node is in no ring."""


class Notify(Request, frozen=True, kw_only=True, tag=9):
    """You are my first successor."""

    source: Contact
    target: IndexField


class Find(Request, frozen=True, kw_only=True, tag=10):
    """Who owns the key?  The asker takes every step itself."""

    key: Annotated[Key, Meta(min_length=KEY_BYTES, max_length=KEY_BYTES)]


class Owner(Reply, frozen=True, kw_only=True, tag=11):
    holders: Annotated[tuple[Contact, ...], Meta(min_length=1, max_length=HOLDERS_MAX)]
    """Distinct hosts in ring order, the owner first."""
    records: Annotated[tuple[SignedRecord, ...], Meta(max_length=OWNER_RECORDS_MAX)]  # of some of them


class Closer(Reply, frozen=True, kw_only=True, tag=12):
    """NEXT: I do not know; these sit before the key, the closest first."""

    contacts: Annotated[tuple[Contact, ...], Meta(max_length=CLOSER_MAX)]


class Rumour(Request, frozen=True, kw_only=True, tag=13):
    news: NewsField


class Digest(Request, frozen=True, kw_only=True, tag=14):
    """The sum of every bucket of my membership table: what differs is then pulled, by both sides. Or the sums of 32
    buckets each: who hears that one of these differs asks again with all.
    """

    sums: tuple[int, ...]  # 8 or 256, u32 each


class DigestDiffers(Reply, frozen=True, kw_only=True, tag=15):
    buckets: tuple[int, ...]  # 0..256 numbers 0..255, ascending; of eight sums 0..7


class Pull(Request, frozen=True, kw_only=True, tag=16):
    """Send me what you know in this bucket, except what has one of these fingerprints."""

    bucket: Annotated[int, Meta(ge=0, lt=BUCKETS)]
    after: MaybePeer  # empty, or the public key after which to continue
    have: tuple[int, ...]  # 0..200, u32 each


class MemberRecords(Reply, frozen=True, kw_only=True, tag=17):
    news: NewsField  # ascending by public key
    more: bool  # ask again after the last one


class ProbeRequest(Request, frozen=True, kw_only=True, tag=18):
    """Please ask this peer whether it lives: my own way to it may be broken."""

    target: Contact


class ProbeReply(Reply, frozen=True, kw_only=True, tag=19):
    is_alive: bool


class Accuse(Request, frozen=True, kw_only=True, tag=20):
    """I hold this peer for dead.  Sent to witnesses, who probe it and confirm or not, and to the suspect,
    who may refute.
    """

    suspect: Contact
    incarnation: U32Field
    signature: SignatureField  # the sender's


class AliveVerdict(Reply, frozen=True, kw_only=True, tag=21):
    """The witness's signature, or nothing when it does not agree (yet)."""

    signature: MaybeSignature


class DialBackRequest(Request, frozen=True, kw_only=True, tag=24):
    """Please have somebody whom I do not know dial these ports of the address you see me at."""

    udp: OpenPort
    tcp: OpenPort


class DialBackReply(Reply, frozen=True, kw_only=True, tag=25):
    is_reached: bool
    """By datagrams."""
    by_stream: bool
    is_cold: bool
    """A stranger dialled; else the asked one itself, as it found none."""


class StrangerDial(Request, frozen=True, kw_only=True, tag=38):
    """Please dial this peer, if it is a stranger to you: it asked me from this host."""

    peer: PeerField
    host: HostField
    udp: OpenPort
    tcp: OpenPort


class StrangerDialled(Reply, frozen=True, kw_only=True, tag=39):
    is_stranger: bool
    """It dialled; else it knows the peer, or may not dial there now."""
    is_reached: bool
    by_stream: bool


class CallsFail(Request, frozen=True, kw_only=True, tag=40):
    """No stream of mine gets through to you.  Not answered."""


class Offer(Request, frozen=True, kw_only=True, tag=26):
    """I have fresh news of these, each by its mark: the first 4 bytes of a public key, and the fingerprint of
    what is known of it.  Only who lacks some answers, by WANT.
    """

    marks: tuple[int, ...]  # 1..100, u64 each


class Want(Request, frozen=True, kw_only=True, tag=27):
    """Send me, as RECORDS, your news of these that you offered."""

    marks: tuple[int, ...]  # 1..7, u64 each


class ShortCall(Request, frozen=True, kw_only=True, tag=28):
    """A question to a service of the peer above the ring, small enough for a datagram."""

    service: Annotated[str, Meta(min_length=1, max_length=SERVICE_CHARACTERS_MAX, pattern="^[!-~]*$")]
    body: Annotated[bytes, Meta(max_length=SHORT_BYTES_MAX)]


ANSWERED, REFUSED, UNDER_WAY, BY_STREAM = 0, 1, 2, 3
"""What comes of a short call: its answer; a no of the service; it is being worked on; ask again by a stream."""


class ShortAnswer(Reply, frozen=True, kw_only=True, tag=29):
    outcome: Annotated[int, Meta(ge=ANSWERED, le=BY_STREAM)]
    body: Annotated[bytes, Meta(max_length=SHORT_BYTES_MAX)]


class AskSeats(Request, frozen=True, kw_only=True, tag=36):
    """Do you remember these seats so?  Each by its mark (`seats.mark_of`)."""

    marks: tuple[bytes, ...]  # 1..80, 12 bytes each


class SeatsKnown(Reply, frozen=True, kw_only=True, tag=37):
    """For each mark, in order: 0 we remember no seat of that member, 1 this one, 2 another one."""

    words: Annotated[bytes, Meta(max_length=SEATS_ASKED_MAX)]


class Knock(Request, frozen=True, kw_only=True, tag=42):
    """Please tell this peer, which nobody can call and which speaks with you, that I want to speak to it."""

    called: PeerField


class Knocked(Request, frozen=True, kw_only=True, tag=43):
    """This peer wants to speak to you, and I see it there."""

    caller: PeerField
    address: Address


class Post(Request, frozen=True, kw_only=True, tag=44):
    """Please pass this datagram of mine on to this peer, which speaks with you: neither of us reaches the other."""

    to: PeerField
    data: PostedField


class Posted(Request, frozen=True, kw_only=True, tag=45):
    """This peer asked me to pass its datagram on to you.  It is sealed for you alone."""

    source: PeerField
    data: PostedField


REQUESTS: Final = tuple(Request.__subclasses__())
REPLIES: Final = tuple(Reply.__subclasses__())

# DEAD and LEAVE travel as news (`records.Death`, `records.Departure`) inside a Rumour: to the neighbours
# at once, to all by gossip.
