"""How does this peer see the ring? The table of holders, made again when the ring changed.

There are two opinions about lost peers, on purpose. `RingView.live` leaves out peers that two witnesses found dead or
that said goodbye: links, leases and readers need peers that answer. In `LastingView.table` a peer that went away
keeps its place for a day. With the first opinion alone, copies would be made again at each restart; with the second
alone, links would wait for a day.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import anyio

from dht import Arc, Contact
from dht.core.arcs import Arcs
from dht.core.holders import Table
from dht.core.ids import Key, PeerKey
from dht.core.placement import Rule
from dht.core.places import Standing
from dht.core.reader import LOST
from herodotus.core.copies.absence import Absence

TABLE_LIFE_MAX_S: Final = 5.0
POSITIONS_PER_LIFE_S: Final = 4_000
"""A table lives the longer the more it costs to make: some 2 µs a position, so it takes a hundredth of the time."""
SLACK: Final = 2
"""Hosts beyond the copies: tables differ a little while news travels, and a link too many costs little."""


class RingTable(Protocol):
    """The part of `dht.Ring` that `RingView` uses."""

    @property
    def me(self) -> Contact: ...
    def contacts(self) -> tuple[Contact, ...]: ...
    def clocks(self) -> Mapping[PeerKey, str]: ...
    def standings(self) -> Mapping[PeerKey, Standing]: ...
    def my_arcs(self, copies: int | None = None) -> tuple[Arc, ...]: ...


class RingView:
    def __init__(self, ring: RingTable, rule: Rule) -> None:
        self._ring = ring
        self._rule = rule
        self._live = Table((), self._rule)
        self._wide: Arcs | None = None
        """What `is_nearly_mine`, made when it is first asked for."""
        self._made_at = float("-inf")

    @property
    def me(self) -> Contact:
        return self._ring.me

    def look_again(self) -> None:
        """The ring changed."""
        self._made_at = float("-inf")

    @property
    def live(self) -> Table:
        if not self._is_fresh():
            self._live = Table(
                self._ring.contacts(), self._rule, standings=self._ring.standings(), lost=self._lost()
            )
            self._wide = None
            self._made_at = anyio.current_time()
        return self._live

    def _is_fresh(self) -> bool:
        life_s = min(len(self._live) / POSITIONS_PER_LIFE_S, TABLE_LIFE_MAX_S)
        return anyio.current_time() - self._made_at < life_s

    def _lost(self) -> set[PeerKey]:
        return {peer for peer, clock in self._ring.clocks().items() if clock in LOST}

    @property
    def is_alone(self) -> bool:
        """Often asked, so no table is made for it."""
        if self._is_fresh():
            return len(self._live.peers) <= 1
        lost = self._lost()
        live = (contact.peer for contact in self._ring.contacts() if contact.peer not in lost)
        one = next(live, None)
        return all(peer == one for peer in live)

    def is_member(self, peer: bytes) -> bool:
        return any(contact.peer == peer for contact in self._ring.contacts())

    def rank(self, key: Key) -> int | None:
        """How many live holders of the key come before us; None when we hold it not."""
        return self.live.rank(key, self.me.peer)

    def may_be_mine(self, key: Key) -> bool:
        """As `is_nearly_mine`, by the table alone: without the ring's own word about our predecessor."""
        return self.live.rank(key, self.me.peer, SLACK) is not None

    def is_nearly_mine(self, key: Key) -> bool:
        """Whether we take it from others: also where their view of the ring differs a little from ours."""
        if not self.live:
            return False
        if self._wide is None:
            self._wide = Arcs(self._ring.my_arcs(self._rule.copies + SLACK))
        return key in self._wide


class RingPositions(Protocol):
    """The part of `dht.Ring` that `LastingView` uses."""

    def positions(self) -> tuple[Contact, ...]:
        """Every position that the table knows, our own included once we are a member."""
        ...

    def standings(self) -> Mapping[PeerKey, Standing]:
        """How their peers count."""
        ...


class LastingView:
    """Made again by `look` only: between two looks all decisions rest on one table."""

    def __init__(self, absence: Absence) -> None:
        self._absence = absence
        self._made_of: tuple[object, ...] = ()
        self.table = absence.table(0.0)
        self.contacts: Mapping[PeerKey, Contact] = {}
        """How to reach each peer that is there: at its first position."""
        self.absent: Mapping[PeerKey, float] = {}
        """Since when they are."""
        self.returned: Sequence[PeerKey] = ()
        """Peers that came or are back since the previous look."""

    def depart(self, peer: PeerKey) -> None:
        """It will not come back: no day is waited."""
        self._absence.depart(peer)

    def look(self, ring: RingPositions, now: float) -> bool:
        """Whether anything is different since the last look."""
        contacts, standings = ring.positions(), ring.standings()
        self.returned = self._absence.see(contacts, now, standings)
        self._absence.advance(now)
        made_of = contacts, dict(standings), self._absence.standing(now)
        if made_of == self._made_of:
            return False
        self._made_of = made_of
        self.table, self.absent = self._absence.table(now), self._absence.absent
        self.contacts = {contact.peer: contact for contact in reversed(contacts)}
        return True
