"""How does the exchange see the ring? A map made anew when the ring changed, and what it says of us."""

from collections.abc import Mapping
from typing import Protocol

import anyio

from dht import Arc, Contact
from dht.core.ids import Key, PeerKey, is_in_arc
from herodotus.core.links.ringmap import RingMap

MAP_LIFE_MAX_S = 5.0
POSITIONS_PER_LIFE_S = 4_000
"""A map lives the longer the more it costs to make: some 2 µs a position, so it takes a hundredth of the time."""
SLACK = 2
"""Hosts beyond the copies: tables differ a little while news travels, and a link too many costs little."""


class RingTable(Protocol):
    """What the exchange asks of `dht.Ring`."""

    @property
    def me(self) -> Contact: ...
    def contacts(self) -> tuple[Contact, ...]: ...
    def clocks(self) -> Mapping[PeerKey, str]: ...
    def my_arcs(self, copies: int | None = None) -> tuple[Arc, ...]: ...


class RingSight:
    def __init__(self, ring: RingTable, copies: int) -> None:
        self._ring = ring
        self.copies = copies
        self._map = RingMap(())
        self._wide: tuple[Arc, ...] = ()
        self._made_at = float("-inf")

    @property
    def me(self) -> Contact:
        return self._ring.me

    def look_again(self) -> None:
        """The ring changed."""
        self._made_at = float("-inf")

    def map(self) -> RingMap:
        life_s = min(len(self._map) / POSITIONS_PER_LIFE_S, MAP_LIFE_MAX_S)
        if anyio.current_time() - self._made_at >= life_s:
            self._map = RingMap(self._ring.contacts(), self._ring.clocks())
            self._wide = self._ring.my_arcs(self.copies + SLACK)
            self._made_at = anyio.current_time()
        return self._map

    @property
    def is_alone(self) -> bool:
        return self.map().peers <= 1

    def is_member(self, peer: bytes) -> bool:
        return any(contact.peer == peer for contact in self._ring.contacts())

    def rank(self, key: Key) -> int | None:
        """How many live holders of the key come before us; None when we hold it not."""
        for rank, contact in enumerate(self.map().holders_of(key, self.copies)):
            if contact.peer == self.me.peer:
                return rank
        return None

    def may_be_mine(self, key: Key) -> bool:
        """As `is_nearly_mine`, in a microsecond."""
        holders = self.map().holders_of(key, self.copies + SLACK)
        return any(contact.peer == self.me.peer for contact in holders)

    def is_nearly_mine(self, key: Key) -> bool:
        """Whether we take it from others: also where their view of the ring differs a little from ours."""
        self.map()
        return any(is_in_arc(arc.start, key, arc.end) for arc in self._wide)
