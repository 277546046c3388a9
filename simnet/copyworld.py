"""How do six copies fare while peers come and go for a year? The cores that decide, no stores, no sockets.

The peers' own code (`core.copies`) decides which peer must hold a unit, how long to wait for a peer, which unit is
fetched first and which may go. A *unit* is a stretch of the ring so small that its captures share their fate; the
ring's table is the same for all at once, as gossip takes seconds and repairs take days. Lines are as wide as they are
given, one unit at a time goes over one of them. A unit is very many captures, each durable when it has come: where an
end went away, another source gives the rest. It counts as a copy when it is whole.
"""

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from random import Random

from dht.core import ids
from dht.core.holders import Table
from dht.core.ids import Key
from dht.core.placement import Rule
from dht.core.places import PlaceRules, Standing
from dht.core.records import Address, Contact
from herodotus.core.copies import PeerKey
from herodotus.core.copies.absence import Absence
from herodotus.core.copies.ledger import Group, HoldingLedger, Wanted
from herodotus.core.copies.possession import are_trusted
from herodotus.core.reconciliation import Range, arcs_of
from simnet.world.schedule import EventQueue

DAY_S = 86_400.0
WINDOW = 16
"""Positions before a change whose holders it may change: six hosts, and the absent ones between them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyRules:
    copies: int = 6
    departed_s: float = DAY_S
    low_s: float = 900.0
    keep_s: float = 3_600.0
    unit_bytes: float = 2e9
    up_bit_s: float = 75e3
    down_bit_s: float = 150e3
    by_place: bool = False
    """Copies count by place, and the young do not; else each key is a place, and everybody of age."""
    asks_veterans: bool = False
    """A copy goes on the word of old acquaintances only, in different places; else on anybody's."""
    veteran_s: float = 60 * DAY_S
    of_age_s: float = 7 * DAY_S


@dataclass(slots=True)
class SimulatedHolder:
    contact: Contact
    place: bytes = b""
    joined_at: float = 0.0
    units: set[bytes] = field(default_factory=set)
    wanted: Wanted = field(default_factory=Wanted)
    is_up: bool = True
    fetching: dict[bytes, PeerKey] = field(default_factory=dict)
    began: dict[bytes, float] = field(default_factory=dict)
    """Of these, since when."""
    partly: dict[bytes, float] = field(default_factory=dict)
    """Bytes that came of units before their source, or this peer, went away."""
    is_giving: bool = False
    asked_by: dict[PeerKey, None] = field(default_factory=dict)
    """Peers that want something of it, in the order in which they asked."""
    turn: int = 0
    """Changes when the peer comes or goes: earlier plans are void."""

    @property
    def key(self) -> PeerKey:
        return self.contact.peer


class CopyWorld:
    def __init__(self, rules: CopyRules, seed: int, *, peers: int, units: int) -> None:
        self.rules = rules
        self.time = EventQueue()
        self.bytes_moved = 0.0
        self.lost: list[bytes] = []
        self.dropped = self.dropped_early = 0
        self.random = Random(seed)
        self.peers: dict[PeerKey, SimulatedHolder] = {}
        rule = Rule(rules.copies, PlaceRules()) if rules.by_place else Rule(rules.copies)
        self._absence = Absence(departed_s=rules.departed_s, low_s=rules.low_s, rule=rule)
        self._ledger = HoldingLedger()
        self.owners: dict[bytes, set[PeerKey]] = {}
        """The peers with a unit on their disks, absent ones included."""
        self._holders: dict[bytes, tuple[PeerKey, ...]] = {}
        self._eager: dict[PeerKey, None] = {}
        """Peers that may start to fetch something."""
        for _ in range(peers):
            self.add().joined_at = -rules.veteran_s
        self._look()
        self.units = sorted(self.random.randbytes(12) + bytes(3) + b"c" for _ in range(units))
        for unit in self.units:
            self.owners[unit] = set()
            self._holders[unit] = self._holders_of(unit)
            for key in self._holders[unit]:
                self._have(self.peers[key], unit)

    @property
    def now(self) -> float:
        return self.time.now

    def run_until(self, end: float) -> None:
        self.time.run_until(end, self._fetch_all)

    # -- peers come and go --------------------------------------------------------------------------------

    def add(self, place: bytes = b"") -> SimulatedHolder:
        """In a place of its own, if it has no other."""
        peer = SimulatedHolder(
            contact_of(ids.PeerKey(self.random.randbytes(32)), Key(self.random.randbytes(20)))
        )
        peer.place, peer.joined_at = place or peer.key, self.now
        self.peers[peer.key] = peer
        return peer

    def join(self, place: bytes = b"") -> SimulatedHolder:
        peer = self.add(place)
        self._changed(peer)
        self.time.after(self.rules.of_age_s + 1, self._stayed_away, peer, peer.turn)  # it counts from then on
        return peer

    def go(self, peer: SimulatedHolder) -> None:
        """Off, and its disk with it."""
        peer.is_up = False
        peer.turn += 1
        self._stop_lines(peer)
        self._changed(peer)
        for delay_s in (self.rules.low_s, self.rules.departed_s):
            self.time.after(delay_s + 1, self._stayed_away, peer, peer.turn)

    def come_back(self, peer: SimulatedHolder) -> None:
        peer.is_up = True
        peer.turn += 1
        self._changed(peer)
        for unit in sorted(peer.units):
            self._mend(unit)

    def lose(self, peer: SimulatedHolder) -> None:
        """For good: its disk is gone from now on, and nobody knows."""
        if peer.is_up:
            self.go(peer)
        for unit in sorted(peer.units):
            self.owners[unit].discard(peer.key)
            if not self.owners[unit]:
                self.lost.append(unit)
        peer.units.clear()
        peer.partly.clear()

    def _stayed_away(self, peer: SimulatedHolder, turn: int) -> None:
        if peer.turn == turn:
            self._changed(peer)

    def _look(self) -> None:
        there = [one for one in self.peers.values() if one.is_up]
        standings = {
            one.contact.peer: Standing(one.place, one.place, is_of_age=self.is_of_age(one.key))
            for one in there
        }
        self._absence.see([one.contact for one in there], self.now, standings)
        self._absence.advance(self.now)
        self.table = self._absence.table(self.now)

    def _holders_of(self, unit: bytes) -> tuple[PeerKey, ...]:
        return tuple(contact.peer for contact in self.table.of(Key(position_of(unit))))

    def _changed(self, peer: SimulatedHolder) -> None:
        before = self.table
        self._look()
        concerned = {
            *self._units_before(before, peer.contact.position),
            *self._units_before(self.table, peer.contact.position),
        }
        for unit in sorted(concerned):
            holders = self._holders_of(unit)
            is_lacking = peer.key in holders and peer.is_up and unit not in peer.units
            if holders != self._holders[unit] or is_lacking:
                self._holders[unit] = holders
                self._mend(unit)
                self._plan_review(unit)

    def _plan_review(self, unit: bytes) -> None:
        """Plan a review of a unit if a peer has it that need not hold it."""
        if not self.owners[unit].issubset(self._holders[unit]):
            self.time.after(self.rules.keep_s, self._review, unit)

    def _units_before(self, table: Table, position: Key) -> list[bytes]:
        """Those whose holders a change at a position may concern."""
        keys = [contact.position for contact in table.contacts]
        at = bisect_left(keys, position)
        low, high = keys[(at - WINDOW) % len(keys)], keys[at % len(keys)]
        start, end = bisect_left(self.units, low), bisect_left(self.units, high)
        if (
            len(keys) <= WINDOW or self.rules.by_place
        ):  # many keys of one place may lie between two that count
            return list(self.units)
        return self.units[start:end] if start <= end and low < high else self.units[start:] + self.units[:end]

    # -- copies -------------------------------------------------------------------------------------------

    def _have(self, peer: SimulatedHolder, unit: bytes) -> None:
        peer.units.add(unit)
        self.owners[unit].add(peer.key)

    def _mend(self, unit: bytes) -> None:
        """Each holder without the unit wants it from those that have it and are up."""
        lacking = [key for key in self._holders[unit] if key not in self.owners[unit]]
        sources = sorted(key for key in self.owners[unit] if self.peers[key].is_up) if lacking else ()
        for key in lacking if sources else ():
            peer = self.peers[key]
            if peer.is_up:
                for source in sources:
                    peer.wanted.add([unit], source)
                    self.peers[source].asked_by[key] = None
                self._eager[key] = None

    def _fetch_all(self) -> None:
        """Called after an event: it may have made many units wanted."""
        while self._eager:
            key = next(iter(self._eager))
            del self._eager[key]
            self._fetch(self.peers[key])

    def _fetch(self, peer: SimulatedHolder) -> None:
        lines = max(1, int(self.rules.down_bit_s // self.rules.up_bit_s))
        if len(peer.fetching) >= lines or not peer.is_up:
            return
        for source_key in peer.wanted.sources():
            source = self.peers[source_key]
            if len(peer.fetching) >= lines or not peer.is_up:
                return
            if not source.is_up:
                peer.wanted.lost(source_key)
            elif not source.is_giving:
                for unit in peer.wanted.take(source_key, 1):
                    self._begin(peer, source, unit)

    def _begin(self, peer: SimulatedHolder, source: SimulatedHolder, unit: bytes) -> None:
        peer.fetching[unit] = source.key
        peer.began[unit] = self.now
        source.is_giving = True
        took_s = (self.rules.unit_bytes - peer.partly.get(unit, 0.0)) * 8 / self.rules.up_bit_s
        self.time.after(took_s, self._end, peer, source, unit, (peer.turn, source.turn))

    def _end(
        self, peer: SimulatedHolder, source: SimulatedHolder, unit: bytes, turns: tuple[int, int]
    ) -> None:
        if turns != (peer.turn, source.turn):
            return
        self._break_off(peer, unit)
        del peer.partly[unit]
        source.is_giving = False
        peer.wanted.got(unit)
        self._have(peer, unit)
        self._mend(unit)  # it may be a source for others
        self._plan_review(unit)
        self._eager[peer.key] = None
        self._lines_are_free(source)

    def _break_off(self, peer: SimulatedHolder, unit: bytes) -> None:
        """The part that arrived so far stays."""
        del peer.fetching[unit]
        came = (self.now - peer.began.pop(unit)) * self.rules.up_bit_s / 8
        peer.partly[unit] = peer.partly.get(unit, 0.0) + came
        self.bytes_moved += came

    def _stop_lines(self, gone: SimulatedHolder) -> None:
        freed = [self.peers[key] for key in gone.fetching.values()]
        for unit, source_key in list(gone.fetching.items()):
            gone.wanted.failed(unit, source_key)
            self._break_off(gone, unit)
        for source in freed:
            source.is_giving = False
            self._lines_are_free(source)
        for peer in self.peers.values():
            for unit in [unit for unit, source in peer.fetching.items() if source == gone.key]:
                self._break_off(peer, unit)
                peer.wanted.failed(unit, gone.key)
                self._mend(unit)
                self._eager[peer.key] = None
        gone.is_giving = False

    def _lines_are_free(self, source: SimulatedHolder) -> None:
        """The peer's next unit goes to the first asker that still wants one."""
        for key in list(source.asked_by):
            if source.is_giving:
                return
            del source.asked_by[key]
            self._fetch(self.peers[key])
            if source.key in self.peers[key].fetching.values():
                source.asked_by[key] = None  # it may want more, after the others

    def _review(self, unit: bytes) -> None:
        """A peer that need not hold it asks all that must, and drops it when the ledger agrees."""
        holders = self._holders[unit]
        arcs = arcs_of([Range(position_of(unit), after(position_of(unit)))])
        for key in sorted(self.owners[unit].difference(holders)):
            peer = self.peers[key]
            if not peer.is_up:
                continue
            for other in holders:
                if self.peers[other].is_up:
                    lacking = () if unit in self.peers[other].units else (unit,)
                    asked = self._ledger.begin(other, arcs, self.now)
                    self._ledger.confirm(asked, lacking, is_promise=True, is_exact=True)
            group = Group(holders, arcs)
            is_enough = len(holders) == self.rules.copies and self._are_trusted(holders)
            if is_enough and self._ledger.may_go(group, self._absence.absent, self.now):
                self._drop(peer, unit, holders)
            for other in holders:
                self._ledger.doubt(other)

    def _are_trusted(self, holders: tuple[PeerKey, ...]) -> bool:
        return not self.rules.asks_veterans or are_trusted(holders, self.table.peers, self, self.rules.copies)

    # -- `Standings`, by everybody's sight

    def place_of(self, peer: PeerKey) -> bytes:
        return self.peers[peer].place

    def is_of_age(self, peer: PeerKey) -> bool:
        return not self.rules.by_place or self.now - self.peers[peer].joined_at >= self.rules.of_age_s

    def is_veteran(self, peer: PeerKey) -> bool:
        return self.now - self.peers[peer].joined_at >= self.rules.veteran_s

    def _drop(self, peer: SimulatedHolder, unit: bytes, holders: tuple[PeerKey, ...]) -> None:
        peer.units.discard(unit)
        self.owners[unit].discard(peer.key)
        self.dropped += 1
        self.dropped_early += len(self.owners[unit].intersection(holders)) < self.rules.copies

    # -- figures ------------------------------------------------------------------------------------------

    def histogram(self) -> Counter[int]:
        """Units by the disks that have them, of peers that may come back."""
        return Counter(len(self.owners[unit]) for unit in self.units)

    def reachable(self) -> Counter[int]:
        return Counter(sum(self.peers[key].is_up for key in self.owners[unit]) for unit in self.units)


def contact_of(peer: ids.PeerKey, position: Key) -> Contact:
    """Where it can be reached is of no matter here."""
    return Contact(peer=peer, address=Address(host=bytes(4), port=1), slot=0, index=0, position=position)


def position_of(unit: bytes) -> bytes:
    return unit[:12]


def after(position: bytes) -> bytes:
    return (int.from_bytes(position, "big") + 1).to_bytes(12, "big")
