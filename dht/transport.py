"""What does a node talk through? The `Transport` protocol, its reports and its figures.

Messages are sealed, and delivered once or not at all. A sender that needs an answer asks again: the ring machine does
so by its own deadlines, others call `request`. `dht.udp` is the real one; a simulation brings its own.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dht.core.limits import Rate
from dht.core.link import DialFailed
from dht.core.messages import Message
from dht.core.records import Address, Contact, SignedRecord
from dht.core.strangers import LinkLimits

Received = tuple[Message, Contact]  # who sent it: the session's key, at the address it came from


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportLimits:
    """How much a key may ask of us, and `prefix_factor` times as much all keys of one /24 or /56 together."""

    find: Rate = Rate(per_second=50, burst=100)  # ring.md 5, with two seconds' worth at once
    state: Rate = Rate(per_second=5, burst=10)
    rumour: Rate = Rate(per_second=10, burst=20)
    short_call: Rate = Rate(per_second=100, burst=400)  # as many as by stream
    other: Rate = Rate(per_second=50, burst=100)
    reply: Rate = Rate(per_second=500, burst=1_000)  # as many as we may have asked: the machine knows which
    prefix_factor: float = 4.0
    link: LinkLimits | None = None

    @classmethod
    def for_one_machine(cls, peers: int = 100) -> "TransportLimits":
        """For test rings: all peers share one prefix."""
        hello = LinkLimits().hello_per_prefix.times(peers)
        return cls(prefix_factor=4.0 * peers, link=LinkLimits(hello_per_prefix=hello))


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerMet:
    """A session with this peer opened. `record` is its own, signed; `seen` is our address as it sees it."""

    contact: Contact
    record: SignedRecord | None
    seen: Address | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnAddressChanged:
    """Peers of two different prefixes, met one after the other, see us at an address that is new."""

    address: Address


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnAddressDoubted:
    """One peer sees us at an address that is new: it may lie, and others should be asked."""


TransportEvent = PeerMet | DialFailed | OwnAddressChanged | OwnAddressDoubted
OnMessages = Callable[[list[Received], float], None]
OnEvent = Callable[[TransportEvent, float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportStatistics:
    """Counted since the start. `dropped` and `done` go by the words of `docs/protocol/ring.md`, `kinds` (bytes in and
    out, sealed) by the messages of `dht.core.messages`; what no kind has are handshakes and signs of life.
    """

    datagrams_in: int
    datagrams_out: int
    bytes_in: int
    bytes_out: int
    messages_in: int
    messages_out: int
    sessions: int
    waiting_datagrams: int
    kinds: Mapping[str, tuple[int, int]]
    dropped: Mapping[str, int]
    done: Mapping[str, int]
