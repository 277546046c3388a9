"""What does the machine want done, and what does it report?  In order, each once, by
`RingMachine.take_effects`.
"""

from dataclasses import dataclass
from typing import Literal

from dht.core.arcs import Arc
from dht.core.ids import Key, PeerKey
from dht.core.messages import Message
from dht.core.records import Birth, Contact

Clock = Literal["well", "unreachable", "suspect", "dead", "left", "rotated", "departed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    to: Contact
    message: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    contact: Contact


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinFailed:
    """No contact led to a ring.  The machine has stopped trying; call `join` again."""

    contact: Contact


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionTaken:
    """Another peer behind our address has our slot, and is there: come back with another slot."""

    contact: Contact  # ours
    holder: Contact


@dataclass(frozen=True, slots=True, kw_only=True)
class RingChanged:
    """The lists of one of my virtual nodes changed."""

    contact: Contact


@dataclass(frozen=True, slots=True, kw_only=True)
class ArcsChanged:
    """What this host must hold so that every key has its copies.  One arc per virtual node, sorted by end."""

    arcs: tuple[Arc, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerChanged:
    """A peer's clock moved: seconds (unreachable), minutes (dead), a day (departed: repair now)."""

    peer: PeerKey
    clock: Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class PaceChanged:
    """A peer, perhaps this one, says that its line is slow from now on, or no more: other members stand in for it."""

    peer: PeerKey


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupDone:
    """`holders` are distinct hosts in ring order, the owner first; empty when nobody was found."""

    id: int
    key: Key
    holders: tuple[Contact, ...]
    hops: int  # peers that answered on the way, the owner included
    timeouts: int
    is_dense: bool  # False: the holders are suspiciously far apart for this ring


@dataclass(frozen=True, slots=True, kw_only=True)
class SeatOver:
    """Our seat has lasted its days: the next one is from another host, so join there.  None: the others have
    forgotten it, so sit by our address."""

    birth: Birth | None


Effect = (
    Send
    | Joined
    | JoinFailed
    | PositionTaken
    | SeatOver
    | RingChanged
    | ArcsChanged
    | PeerChanged
    | PaceChanged
    | LookupDone
)
