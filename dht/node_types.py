"""What does a node take, tell and report? Its settings and ports, its events, its statistics."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from random import Random

import anyio
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dht.core.effects import ArcsChanged, Joined, PaceChanged, PeerChanged, RingChanged
from dht.core.machine import RingStatistics
from dht.core.reachability import Reachability
from dht.core.records import Address, Birth, Contact, Line, SignedRecord, Stay
from dht.core.rules import RingRules
from dht.core.seats import SeatMemory
from dht.dialback import DialBack, DialStream, dial_back
from dht.transport import TransportLimits, TransportStatistics
from dht.udp import UdpTransport, system_entropy

EVENTS_MAX = 1_024


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """Who we are to the ring. `address` is where others reach us; positions follow from it.

    A guessed address (nobody told us the outside one) gives way to what the contacts of a join saw.
    """

    rules: RingRules
    address: Address
    others: tuple[Line, ...] = ()
    """Our lines in another family than that of `address`."""
    is_address_guessed: bool = False
    inside: str = ""
    """Our address behind a router, for people; empty: the same."""
    slot: int = 0
    virtual_nodes: int = 1
    incarnation: int = 0
    """The last one we used: ours must grow even where the clock was set back."""
    since: int = 0
    """The day on which we became a member, as our last record said; 0: today."""
    trail: tuple[Stay, ...] = ()
    """Of our last record, with the place that it was issued from."""
    seat: Birth | None = None
    """Of our last record, if it is still ours."""
    seats: SeatMemory = field(default_factory=SeatMemory)
    """What we remember of the others, over restarts."""
    limits: TransportLimits | None = None
    dial_backs_wanted: int = 0  # peers of other networks that must reach us before we own anything
    previous_key: Ed25519PrivateKey | None = field(default=None, repr=False)  # it vouches for a rotated key


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsLost:
    """The subscriber was too slow: read the state again."""


RingEvent = ArcsChanged | RingChanged | PeerChanged | PaceChanged | Joined | EventsLost


class Subscription:
    """What changed since it was last asked; bounded, since its owner may be busy."""

    def __init__(self) -> None:
        self._events: list[RingEvent] = []
        self._filled = anyio.Event()

    def put(self, event: RingEvent) -> None:
        if len(self._events) >= EVENTS_MAX:
            self._events = [EventsLost()]
        else:
            self._events.append(event)
        self._filled.set()

    async def wait(self) -> list[RingEvent]:
        """At least one event, in order."""
        while not self._events:
            self._filled = anyio.Event()
            await self._filled.wait()
        events, self._events = self._events, []
        return events


OnRecord = Callable[[SignedRecord], None]
OpenTransport = Callable[..., AbstractAsyncContextManager[UdpTransport]]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePorts:
    """What the node asks of the rest of the peer."""

    wall_clock: Callable[[], float]
    random: Random
    entropy: Callable[[int], bytes] = system_entropy
    on_record: OnRecord = lambda signed: None
    on_met: Callable[[Contact], None] = lambda contact: None
    on_failed_test: Callable[[], None] = lambda: None
    """Strangers did not get through to one of our lines."""
    streamed_to: Callable[[str], bool] = lambda host: False
    """Has a stream left for this host lately, from the port on which we listen? Its router may let that host in."""
    dial_back: DialBack = dial_back  # simulations have no sockets
    dial_stream: DialStream | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatistics:
    ring: RingStatistics
    transport: TransportStatistics
    is_ideal: bool
    is_joined: bool
    restarts: int
    standing: Reachability
    reachability: str  # why it is so, for people
    dial_backs: Mapping[str, int]  # what came of those we made for others
    heard_s: float | None  # since a proven peer of our network last said something; None before the first
    slot: int  # ours among the peers of our address; another than the settings' where that was taken
