"""Who answers for this key, and who is alive?

Identity, signed records, the Chord ring, membership, lookups and the datagrams between peers.
It knows nothing of URLs, captures or crawling.

The rest of the project uses `Ring`: who owns a key and who holds copies, what this peer must hold and when that
changes. `open_node` gives the real one.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from dht.core.arcs import Arc
from dht.core.effects import ArcsChanged, PaceChanged, PeerChanged
from dht.core.ids import Key, PeerKey, key_of
from dht.core.places import Standing
from dht.core.reader import Member
from dht.core.records import Contact
from dht.node import RingNode, open_node
from dht.node_types import (
    EventsLost,
    NodePorts,
    NodeSettings,
    NodeStatistics,
    RingEvent,
    Subscription,
)


class Ring(Protocol):
    """What everybody else asks of the ring. Replication and link exchange are written against this."""

    async def owner(self, key: Key) -> Contact:
        """Who answers for the key. Raises `dht.errors.NoAnswerError`."""
        ...

    async def prompt_owner(self, key: Key) -> Contact:
        """The owner, or the next holder in its place while its line is slow. Raises `dht.errors.NoAnswerError`."""
        ...

    async def holders(self, key: Key, copies: int) -> tuple[Contact, ...]:
        """The owner and the distinct hosts after it; fewer where the ring is smaller."""
        ...

    def my_arcs(self, copies: int | None = None) -> tuple[Arc, ...]:
        """The keys that this peer must hold, as arcs (start, end] of the circle."""
        ...

    def prompt_arcs(self) -> tuple[Arc, ...]:
        """The keys of which `prompt_owner` is this peer."""
        ...

    def positions(self) -> tuple[Contact, ...]:
        """Every position that the table knows, ours included, in the order of the ring."""
        ...

    def events(self) -> AbstractContextManager[Subscription]:
        """Changes of arcs, neighbours and clocks from now on; `EventsLost` where the subscriber was too slow."""
        ...

    def members(self) -> tuple[Member, ...]:
        """Everybody known, ourselves included."""
        ...

    def life_of(self, peer: PeerKey) -> int | None:
        """A member's incarnation, which is another after a restart; None: it is no member."""
        ...

    def contacts(self) -> tuple[Contact, ...]:
        """All positions known, in order, ours included: a hint for those who ask many questions at once."""
        ...

    def standings(self) -> Mapping[PeerKey, Standing]:
        """How each of them counts today: its place, its area, whether it is of age."""
        ...

    def clocks(self) -> Mapping[PeerKey, str]:
        """Those who are not well."""
        ...

    def say_slow(self, *, is_slow: bool) -> None:
        """Whether our line keeps up with what others wait for."""
        ...

    def statistics(self) -> NodeStatistics: ...

    def leave(self) -> None:
        """Say goodbye. Hand over the data first."""
        ...


__all__ = [
    "Arc",
    "ArcsChanged",
    "Contact",
    "EventsLost",
    "Key",
    "Member",
    "NodePorts",
    "NodeSettings",
    "NodeStatistics",
    "PaceChanged",
    "PeerChanged",
    "Ring",
    "RingEvent",
    "RingNode",
    "Standing",
    "Subscription",
    "key_of",
    "open_node",
]
