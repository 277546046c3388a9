"""Who holds this key?  From a table of members and a rule: the ordered holders of each key, what each member holds
and as which of the holders, and what changes between two tables.

The circle is cut at every position.  Between two neighbouring cuts, in a *stretch*, all keys have the same holders:
the owner, which sits at the end of the stretch, and those that the rule takes of the members after it.  So answers
are kept by stretch, and a table of n positions has at most n of them.

A table is a snapshot of one peer's opinion: where it is wrong, the answers of others say so.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice, pairwise
from operator import attrgetter, lt
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from dht.core.arcs import BEFORE_ZERO, LAST, Arc, Arcs
from dht.core.ids import Key, PeerKey
from dht.core.line import Line
from dht.core.placement import NOBODY, Rule, first, start_of
from dht.core.places import Standing, apart
from dht.core.records import Contact

REACHABLE_SHARE = 2 / 3
"""Of the copies: with fewer within reach for a while, the absent are no longer waited for (ring.md 4.5: 4 of 6)."""

NO_STANDINGS: Final[Mapping[PeerKey, Standing]] = MappingProxyType({})

Holders = tuple[PeerKey, ...]
"""The owner first."""


class SortedKeys(Protocol):
    """Many keys in order, to be divided."""

    def __len__(self) -> int: ...
    def __getitem__(self, place: int, /) -> Key: ...
    def up_to(self, end: Key) -> int:
        """How many are at most `end`."""
        ...


class Table:
    """A snapshot of the members.  Stretches have numbers, and the number goes from the last to 0 across zero."""

    def __init__(
        self,
        members: Iterable[Contact],
        rule: Rule,
        *,
        standings: Mapping[PeerKey, Standing] = NO_STANDINGS,
        lost: Collection[PeerKey] = (),
        absent: Collection[PeerKey] = (),
        missed: Collection[PeerKey] = (),
    ) -> None:
        """`members` gives every position, and `standings` how they count; one without a standing counts where its
        first position is.  The `lost` are none.  The `absent` keep their place, as they may come
        back with all they had; those of them that are `missed` for long are passed over wherever too few of the
        other holders are within reach.
        """
        contacts = list(members)
        if lost:
            contacts = [contact for contact in contacts if contact.peer not in lost]
        contacts.sort(key=attrgetter("position"))
        positions = [contact.position for contact in contacts]
        self._has_twins = not all(map(lt, positions, islice(positions, 1, None)))
        if self._has_twins:
            # Two peers at one position: one of them is gone and keeps its place, the other has its address now.
            distinct = {(contact.position, contact.peer): contact for contact in contacts}
            contacts = [distinct[at] for at in sorted(distinct)]
            positions = [contact.position for contact in contacts]
        self._contacts, self._positions = contacts, positions
        self.rule = rule
        self._absent, self._missed = frozenset(absent), frozenset(missed)
        assert self._missed <= self._absent, "a missed peer is absent"
        self._line = None if rule.is_plain else Line(contacts, positions, rule, standings)
        self._held: dict[tuple[int, int], tuple[Contact, ...]] = {}
        self._shares: dict[int, dict[PeerKey, list[tuple[int, int]]]] = {}
        self._seats: dict[PeerKey, list[int]] | None = None

    def __len__(self) -> int:
        """Positions."""
        return len(self._positions)

    def is_like(self, other: "Table") -> bool:
        """The same peers in the same places, and the same of them away: under one rule, the same answers."""
        return (self._contacts, self._absent, self._missed, self.standings) == (
            other._contacts,
            other._absent,
            other._missed,
            other.standings,
        )

    @property
    def standings(self) -> Mapping[PeerKey, Standing]:
        """Of all that are in the table; none where each key is a place of its own."""
        return self._line.standings if self._line is not None else NO_STANDINGS

    @property
    def peers(self) -> Collection[PeerKey]:
        return self._places.keys()

    @property
    def _places(self) -> dict[PeerKey, list[int]]:
        """Where each peer sits; made when it is first asked."""
        if self._seats is None:
            self._seats = {}
            for place, contact in enumerate(self._contacts):
                self._seats.setdefault(contact.peer, []).append(place)
        return self._seats

    @property
    def contacts(self) -> Sequence[Contact]:
        """In the order of the circle."""
        return self._contacts

    # --- by key

    def stretch(self, key: Key) -> int:
        """The stretch that the key lies in; the table is not empty."""
        place = bisect_left(self._positions, key)
        return place if place < len(self._positions) else 0

    def arc(self, stretch: int) -> Arc:
        return Arc(self._positions[stretch - 1], self._positions[stretch])

    def of(self, key: Key, slack: int = 0) -> tuple[Contact, ...]:
        """The owner first; fewer than the copies where there are fewer peers.  `slack` only adds some at the end."""
        return self.holders(self.stretch(key), slack) if self._positions else ()

    def learners(self, key: Key) -> tuple[Contact, ...]:
        """Members that are not yet of age and sit before the last holder: they store and answer like holders, and
        nobody counts them.
        """
        if self._line is None or not self._positions:
            return ()
        stretch = self.stretch(key)
        return tuple(self._line.learners(stretch, self.holders(stretch)))

    def places_of(self, peers: Iterable[PeerKey]) -> int:
        """In how many places some of its peers are."""
        known = self.standings
        return apart(known.get(peer) or Standing(peer, peer) for peer in sorted(peers))

    def holders(self, stretch: int, slack: int = 0) -> tuple[Contact, ...]:
        """Of all keys of a stretch."""
        found = self._held.get((stretch, slack))
        if found is None:
            found = self._held[stretch, slack] = self._find(stretch, slack)
        return found

    def rank(self, key: Key, peer: PeerKey, slack: int = 0) -> int | None:
        """How many holders of the key stand before it; None when it holds the key not."""
        for rank, contact in enumerate(self.of(key, slack)):
            if contact.peer == peer:
                return rank
        return None

    def _find(self, stretch: int, slack: int) -> tuple[Contact, ...]:
        wanted = self.rule.copies + slack
        found = self._first(stretch, slack, NOBODY)
        if self._missed:
            reachable = sum(contact.peer not in self._absent for contact in found)
            is_missed = any(contact.peer in self._missed for contact in found)
            if is_missed and reachable < wanted * REACHABLE_SHARE:
                found = self._first(stretch, slack, self._missed)
        assert len(found) <= wanted
        return tuple(found)

    def _first(self, stretch: int, slack: int, skip: Collection[PeerKey]) -> list[Contact]:
        if self._line is not None:
            return self._line.holders(stretch, slack, skip)
        line = chain(islice(self._contacts, stretch, None), islice(self._contacts, stretch))
        return first(line, self.rule.copies + slack, skip)

    # --- by peer

    def share(self, peer: PeerKey, slack: int = 0) -> list[tuple[int, int]]:
        """(rank, stretch) of all that a peer holds, by rank.

        From each of its positions we walk backwards until too many others stand before it, some ten steps, instead
        of asking every stretch; why that may be is told at `placement.Ahead`.  It may not be where the table has
        too few places and gaps are filled, or where members give way beyond their reach: a peer may then hold a
        stretch although it is passed over in a nearer one; so may it where members count in two places.  And
        where some are missed, the walk without them finds all that the peer may hold (fewer stand before it then),
        and each of these stretches is asked.
        """
        if not self._walks_back(slack):
            few = None if self._line is None else self._line.may_hold(peer, slack, self._missed)
            return self._all_shares(slack).get(peer, []) if few is None else self._among(peer, few, slack)
        if not self._missed:
            return sorted(self._back(peer, slack))
        return self._among(peer, {stretch for _, stretch in self._back(peer, slack)}, slack)

    def _among(self, peer: PeerKey, stretches: Iterable[int], slack: int) -> list[tuple[int, int]]:
        """What of some stretches a peer holds, by asking each."""
        found = []
        for stretch in stretches:
            for rank, contact in enumerate(self.holders(stretch, slack)):
                if contact.peer == peer:
                    found.append((rank, stretch))
        return sorted(found)

    def _all_shares(self, slack: int) -> dict[PeerKey, list[tuple[int, int]]]:
        """Of all peers, by asking every stretch."""
        known = self._shares.get(slack)
        if known is None:
            known = self._shares[slack] = {}
            for stretch in self._stretches():
                for rank, contact in enumerate(self.holders(stretch, slack)):
                    known.setdefault(contact.peer, []).append((rank, stretch))
            for share in known.values():
                share.sort()
        return known

    def _back(self, peer: PeerKey, slack: int) -> Iterator[tuple[int, int]]:
        """(rank, stretch) from each position of a peer backwards; the missed count as if they were not there."""
        if self._line is not None:
            yield from self._line.back(peer, slack, self._missed)
            return
        contacts, positions, count = self._contacts, self._positions, len(self._positions)
        wanted = self.rule.copies + slack
        for own in self._places.get(peer, ()):
            ahead: set[PeerKey] = set()
            for step in range(count):
                place = (own - step) % count
                met = contacts[place].peer
                if step and met not in self._missed:
                    ahead.add(met)
                if step and (met == peer or len(ahead) >= wanted):
                    break
                if place == 0 or positions[place - 1] != positions[place]:
                    yield len(ahead), place

    def _walks_back(self, slack: int) -> bool:
        """Does a walk backwards say what a peer may hold?"""
        return self._line is None or self._line.is_enough(slack, self._missed)

    def _stretches(self) -> Iterator[int]:
        """The numbers of all; where two peers sit at one position, the second begins none."""
        positions = self._positions
        return (
            place for place in range(len(positions)) if place == 0 or positions[place - 1] != positions[place]
        )

    def arcs(self, peer: PeerKey, slack: int = 0, ranks: Container[int] | None = None) -> Arcs:
        """What it holds; with `ranks`, only what it holds as one of these."""
        if ranks is not None or self._missed or self._has_twins or not self._walks_back(slack):
            share = self.share(peer, slack)
            return Arcs(self.arc(stretch) for rank, stretch in share if ranks is None or rank in ranks)
        if self._line is not None:
            return Arcs(self._line.arcs(peer, slack))
        contacts, count = self._contacts, len(self._contacts)
        found, wanted = [], self.rule.copies + slack
        for own in self._places.get(peer, ()):
            back = (contacts[own - step] for step in range(1, count))
            found.append(Arc(start_of(contacts[own], back, wanted), contacts[own].position))
        return Arcs(found)

    def learned(self, peer: PeerKey) -> Arcs:
        """What a member that is not yet of age stores without counting."""
        standing = self.standings.get(peer)
        if self._line is None or standing is None or standing.is_of_age:
            return Arcs()
        return Arcs(
            self.arc(stretch)
            for stretch in self._line.may_learn(peer)
            if any(one.peer == peer for one in self.learners(self._positions[stretch]))
        )

    # --- many keys

    def groups(self, of: PeerKey | Arcs) -> dict[Holders, Arcs]:
        """What a peer holds, or a set of keys, with the same holders together, in the order of the holders' keys."""
        pieces = self._within(of) if isinstance(of, Arcs) else self._held_by(of)
        found: dict[Holders, list[Arc]] = {}
        for stretch, arc in pieces:
            holders = tuple(contact.peer for contact in self.holders(stretch))
            found.setdefault(holders, []).append(arc)
        return {holders: Arcs(found[holders]) for holders in sorted(found)}

    def _held_by(self, peer: PeerKey) -> Iterator[tuple[int, Arc]]:
        return ((stretch, self.arc(stretch)) for _, stretch in self.share(peer))

    def _within(self, arcs: Arcs) -> Iterator[tuple[int, Arc]]:
        """The set cut at every position."""
        positions = self._positions
        if not positions:
            return
        for start, end in arcs.pieces():
            place = bisect_right(positions, start)
            last = bisect_left(positions, end)
            cuts = [start, *dict.fromkeys(positions[place:last]), end]
            for low, high in pairwise(cuts):
                yield self.stretch(high), Arc(LAST if low == BEFORE_ZERO else low, high)

    def runs(self, keys: SortedKeys, begin: Key) -> Iterator[tuple[int, int, int]]:
        """(stretch, from, to): which places of the sorted keys lie in which stretch, once around after `begin`.  The
        stretch that has `begin` or zero inside may come in two parts.
        """
        if not self._positions:
            return
        middle = keys.up_to(begin)
        for low, high in ((middle, len(keys)), (0, middle)):
            place = low
            while place < high:
                key = keys[place]
                stretch = self.stretch(key)
                end = self._positions[stretch]
                is_last = key > end  # its stretch continues across zero
                reached = high if is_last else min(keys.up_to(end), high)
                assert reached > place, "each run has a key"
                yield stretch, place, reached
                place = reached


class Move(NamedTuple):
    """Keys that have other holders, or others first, than before."""

    arc: Arc
    before: Holders
    after: Holders


def moves(before: Table, after: Table) -> list[Move]:
    """What changes from one table to the other, in the order of the circle; each arc is as long as it can be."""
    cuts = sorted({contact.position for table in (before, after) for contact in table.contacts})
    found: dict[tuple[Holders, Holders], list[Arc]] = {}
    for place, cut in enumerate(cuts):
        # Neither table is cut between two neighbours, so the key at the end speaks for all of them.
        then = tuple(contact.peer for contact in before.of(cut))
        now = tuple(contact.peer for contact in after.of(cut))
        if then != now:
            found.setdefault((then, now), []).append(Arc(cuts[place - 1], cut))
    return sorted(Move(arc, then, now) for (then, now), arcs in found.items() for arc in Arcs(arcs))
