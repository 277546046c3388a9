"""Who may call, how often, and with how much at once? The bounds of a peer's TCP ports, without sockets.

An address, and the network around it, may hold so many connections, whoever they are (`Crowds`, for the portal, too).
Until it has proven a key, a connection counts for the prefix of its address: there may be few of them, and they have
seconds. After that it counts for the key. Memory for a question being read or an answer being sent is booked
beforehand, so that callers cannot fill our memory, alone or together.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from dht.core.frames import packed_ip
from dht.core.limits import Buckets, Rate

MIB = 1 << 20
ARRIVALS_PER_PREFIX = Rate(per_second=10, burst=40)
CROWD_S = 600.0
"""So long, and up to twice as long, a crowd is told of after its last refusal."""
CROWD_FROM = 100
"""Refusals: fewer are an office whose readers all came at once."""
CROWDS_COUNTED_MAX = 1_024
CALLS_PER_PEER = Rate(per_second=100, burst=400)
CALLS_PER_NEWCOMER = Rate(per_second=5, burst=20)
CALLS_OF_STRANGERS = Rate(per_second=1, burst=5)
"""Of one prefix: whoever wants to join asks once."""


class CallerStanding(Enum):
    """Our knowledge of a caller that proved its key."""

    MEMBER = "member"
    NEWCOMER = "newcomer"
    """Not in our table yet, but its signed record names the address that it calls from."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionLimits:
    connections_max: int = 200
    """In all (design of the ring, 5: home routers)."""
    connections_per_peer: int = 8
    """Twice what a peer opens to another by itself: the old ones may not know yet that they are dead."""
    newcomers_max: int = 16
    connections_per_address: int = 32
    """Eight peers may share an address; one opens four to another by itself."""
    connections_per_network: int = 64
    unproven_max: int = 64
    unproven_per_prefix: int = 8
    arrivals_per_prefix: Rate = ARRIVALS_PER_PREFIX
    calls_per_peer: Rate = CALLS_PER_PEER
    calls_per_newcomer: Rate = CALLS_PER_NEWCOMER
    calls_of_strangers: Rate = CALLS_OF_STRANGERS
    bytes_max: int = 64 * MIB
    bytes_per_peer: int = 17 * MIB
    """Two questions or answers of the largest kind."""
    bytes_of_newcomers: int = 17 * MIB
    """All of them together count like one peer: a key costs nothing."""
    small_bytes_per_peer: int = 64 << 10
    """So little a peer may always hold, so that leases and links continue while others fill the rest."""
    small_bytes_max: int = 16 * MIB
    """On top of `bytes_max`, for small messages alone: enough for all connections."""

    @classmethod
    def for_one_machine(cls, connections_max: int, peers: int = 100) -> "AdmissionLimits":
        """For test rings: all peers share one prefix."""
        return cls(
            connections_max=connections_max,
            connections_per_address=connections_max,
            connections_per_network=connections_max,
            newcomers_max=16 * peers,
            unproven_per_prefix=64,
            arrivals_per_prefix=Rate(per_second=10.0 * peers, burst=40.0 * peers),
        )


class Crowds:
    """Open connections by address (of IPv6 a /64, which one household has) and by the network around it (/24, /48).
    One machine cannot hold all places, nor can one rack. Also tells who was refused most lately."""

    def __init__(self, *, per_address: int, per_network: int) -> None:
        self._bounds = (per_address, per_network)
        self._open: Counter[bytes] = Counter()
        self._refused: Counter[str] = Counter()
        self._refused_before: Counter[str] = Counter()
        self._since = 0.0

    def take(self, address: str, now: float) -> bool:
        """Whether it may hold one more, until `give_back`. Raises ValueError for no address."""
        units = _units(address)
        if any(self._open[unit] >= bound for unit, bound in zip(units, self._bounds, strict=True)):
            self._turn(now)
            if address in self._refused or len(self._refused) < CROWDS_COUNTED_MAX:
                self._refused[address] += 1
            return False
        self._open.update(units)
        return True

    def give_back(self, address: str) -> None:
        for unit in _units(address):
            self._open[unit] -= 1
            if not self._open[unit]:
                del self._open[unit]

    def worst(self, now: float) -> str:
        """The address that was refused most lately, if that was often; else nothing."""
        self._turn(now)
        lately = self._refused + self._refused_before
        if not lately:
            return ""
        address, times = lately.most_common(1)[0]
        return address if times >= CROWD_FROM else ""

    def _turn(self, now: float) -> None:
        if now - self._since < CROWD_S:
            return
        is_next = now - self._since < 2 * CROWD_S
        self._refused_before = self._refused if is_next else Counter()
        self._refused = Counter()
        self._since = now


def _units(address: str) -> tuple[bytes, bytes]:
    """What its connections count for. The two never have one length, so no address is another's network."""
    packed = packed_ip(address)
    if packed[:12] == bytes(10) + b"\xff\xff":
        return packed, packed[:15]
    return packed[:8], packed[:6]


class Caller:
    """One connection."""

    __slots__ = ("address", "peer", "prefix", "standing")

    def __init__(self, prefix: bytes, address: str) -> None:
        self.prefix = prefix
        self.address = address
        self.peer: bytes | None = None
        self.standing = CallerStanding.UNKNOWN


class Admission:
    def __init__(self, limits: AdmissionLimits) -> None:
        self._limits = limits
        self._crowds = Crowds(
            per_address=limits.connections_per_address, per_network=limits.connections_per_network
        )
        self._buckets = Buckets()
        self._open = 0
        self._newcomers = 0
        self._unproven: Counter[bytes] = Counter()
        self._of_peer: Counter[bytes] = Counter()
        self._bytes = 0
        self._bytes_of: Counter[bytes] = Counter()
        self._bytes_of_newcomers = 0
        self._refused: Counter[str] = Counter()

    @property
    def open(self) -> int:
        return self._open

    @property
    def refused(self) -> Mapping[str, int]:
        return MappingProxyType(dict(self._refused))

    def refuse(self, word: str) -> str:
        self._refused[word] += 1
        return word

    def crowd(self, now: float) -> str:
        """The address that wants many more connections than it may have, if one does."""
        return self._crowds.worst(now)

    def arrives(self, prefix: bytes, now: float, address: str) -> Caller | str:
        """A connection before its first byte. An accepted caller must leave by `leaves`. Else the reason why not."""
        limits = self._limits
        if not self._buckets.take(("arrive", prefix), limits.arrivals_per_prefix, now):
            return self.refuse("arrivals")
        if self._open >= limits.connections_max or self._unproven.total() >= limits.unproven_max:
            return self.refuse("full")
        if self._unproven[prefix] >= limits.unproven_per_prefix:
            return self.refuse("unproven")
        if not self._crowds.take(address, now):
            return self.refuse("crowd")
        self._open += 1
        self._unproven[prefix] += 1
        return Caller(prefix, address)

    def proves(self, visitor: Caller, peer: bytes, standing: CallerStanding) -> str | None:
        """It holds this key. None when it may stay, else the word why not."""
        limits = self._limits
        if standing is CallerStanding.UNKNOWN:
            return self.refuse("unknown")
        if self._of_peer[peer] >= limits.connections_per_peer:
            return self.refuse("connections")
        if standing is CallerStanding.NEWCOMER and self._newcomers >= limits.newcomers_max:
            return self.refuse("newcomers")
        self._forget_unproven(visitor)
        visitor.peer, visitor.standing = peer, standing
        self._of_peer[peer] += 1
        self._newcomers += standing is CallerStanding.NEWCOMER
        return None

    def becomes_member(self, visitor: Caller) -> None:
        """It is in our table now. To be called while nothing is booked for it."""
        if visitor.standing is CallerStanding.NEWCOMER:
            visitor.standing = CallerStanding.MEMBER
            self._newcomers -= 1

    def leaves(self, visitor: Caller) -> None:
        self._open -= 1
        self._crowds.give_back(visitor.address)
        if visitor.peer is None:
            self._forget_unproven(visitor)
            return
        self._newcomers -= visitor.standing is CallerStanding.NEWCOMER
        self._of_peer[visitor.peer] -= 1
        if not self._of_peer[visitor.peer]:
            del self._of_peer[visitor.peer]

    def _forget_unproven(self, visitor: Caller) -> None:
        self._unproven[visitor.prefix] -= 1
        if not self._unproven[visitor.prefix]:
            del self._unproven[visitor.prefix]

    def may_ask(self, visitor: Caller, now: float) -> bool:
        """One more question now? A caller that asks too often waits: that slows it down and loses nothing."""
        limits = self._limits
        is_member = visitor.standing is CallerStanding.MEMBER
        rate = limits.calls_per_peer if is_member else limits.calls_per_newcomer
        # Each standing has its bucket: connections of before and after must not change one another's rate.
        return self._buckets.take(("ask", visitor.peer, is_member), rate, now)

    def may_stranger_ask(self, visitor: Caller, now: float) -> bool:
        """One question of a caller of whom the ring knows nothing?"""
        return self._buckets.take(("stranger", visitor.prefix), self._limits.calls_of_strangers, now)

    def books(self, visitor: Caller, size_bytes: int) -> bool:
        """Whether so much more may be held for it; if so it is booked until `unbooks`."""
        peer = visitor.peer or b""
        limits = self._limits
        of_peer = self._bytes_of[peer] + size_bytes
        is_small = of_peer <= limits.small_bytes_per_peer
        if of_peer > limits.bytes_per_peer:
            return False
        if self._bytes + size_bytes > limits.bytes_max + (limits.small_bytes_max if is_small else 0):
            return False
        if visitor.standing is CallerStanding.NEWCOMER:
            if not is_small and self._bytes_of_newcomers + size_bytes > limits.bytes_of_newcomers:
                return False
            self._bytes_of_newcomers += size_bytes
        self._bytes += size_bytes
        self._bytes_of[peer] = of_peer
        return True

    def unbooks(self, visitor: Caller, size_bytes: int) -> None:
        peer = visitor.peer or b""
        self._bytes -= size_bytes
        self._bytes_of_newcomers -= size_bytes if visitor.standing is CallerStanding.NEWCOMER else 0
        self._bytes_of[peer] -= size_bytes
        if not self._bytes_of[peer]:
            del self._bytes_of[peer]
