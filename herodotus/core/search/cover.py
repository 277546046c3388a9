"""Which peers are asked a question in words, so that each position of the ring is answered for once, by few of them?

Positions are the first 64 bits of a URL's key, as the index of words has them. The circle is cut at each member's
position; all keys of a stretch have the same holders, of whom the first few index it. The cover is greedy: the peer
with most that nobody answers for yet comes first. Every peer is told its arcs, so no spell counts twice.

By the same rule a peer knows which words it has to have (`indexed_by`). Its index follows that slowly (`Extent`).
"""

import heapq
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from dht.core.arcs import NONE, WHOLE, Arcs
from dht.core.arcs import Arc as KeyArc
from dht.core.holders import Table
from dht.core.ids import KEY_BYTES, Key, PeerKey

CIRCLE: Final = 1 << 64
RUNS_MAX: Final = 64
"""Arcs that one peer is told. With eight positions a member and three copies it is six."""
PLACE_BYTES: Final = 8
SURPLUS_S: Final = 86_400
"""So long, and twice as long at most, a peer keeps words that nobody asks it for any more. Members that leave and come
back change the first holders of an arc back and forth; to index a capture again costs a millisecond."""
ARCS_MAX: Final = 256
"""Of one index. With eight positions a peer is among the first three holders of 5 to 8 arcs (search.md 2)."""
_REST = b"\xff" * (KEY_BYTES - PLACE_BYTES)


class Arc(NamedTuple):
    """Of the first 64 bits of positions, in (after, last]; it may go across zero. Equal ends are the whole circle."""

    after: int
    last: int

    @property
    def length(self) -> int:
        return (self.last - self.after) % CIRCLE or CIRCLE

    def has(self, position: int) -> bool:
        return 0 < (position - self.after) % CIRCLE <= self.length or self.length == CIRCLE


class Stretch(NamedTuple):
    """`indexers`: the peers that have its words, the owner first."""

    arc: Arc
    indexers: tuple[PeerKey, ...]


@dataclass(frozen=True, slots=True)
class Share:
    """What one peer is asked to answer for: which of the stretches, and these as few arcs."""

    peer: PeerKey
    stretches: tuple[int, ...]
    arcs: tuple[Arc, ...]


def stretches_of(table: Table, indexers: int, absent: Collection[PeerKey] = ()) -> list[Stretch]:
    """In the order of the circle. Those who are absent keep their place: the peers behind them do not index in their
    stead before they departed."""
    contacts = table.contacts
    found: list[Stretch] = []
    before = _place(contacts[-1].position) if contacts else 0
    is_one = all(_place(contact.position) == before for contact in contacts)
    for number, contact in enumerate(contacts):
        last = _place(contact.position)
        if last != before or (is_one and number == 0):
            holders = table.of(contact.position)[:indexers]
            here = tuple(holder.peer for holder in holders if holder.peer not in absent)
            found.append(Stretch(Arc(before, last), here))
        before = last
    return found


def cover(
    stretches: Sequence[Stretch],
    *,
    wanted: Iterable[int] | None = None,
    first: PeerKey | None = None,
    avoid: Collection[PeerKey] = (),
) -> list[Share]:
    """Who answers for which of the `wanted` stretches, all by default. What only peers to `avoid` index, and what has
    more pieces than a peer is told, is in no share. `first`, who costs nothing to ask, takes all that it can."""
    left = set(range(len(stretches)) if wanted is None else wanted)
    of_peer: dict[PeerKey, set[int]] = {}
    for number in left:
        for peer in stretches[number].indexers:
            if peer not in avoid:
                of_peer.setdefault(peer, set()).add(number)
    shares: list[Share] = []
    if first in of_peer:
        shares.append(_share(stretches, first, of_peer.pop(first)))
        left -= {*shares[0].stretches}
    # What a peer would add only shrinks, so whoever still adds what it did when it was put on the heap adds most.
    heap = [(-_length(stretches, numbers), peer) for peer, numbers in of_peer.items()]
    heapq.heapify(heap)
    while heap and left:
        then, peer = heapq.heappop(heap)
        of_peer[peer] &= left
        now = -_length(stretches, of_peer[peer])
        if now == then:
            shares.append(_share(stretches, peer, of_peer[peer]))
            left -= {*shares[-1].stretches}
        elif now:
            heapq.heappush(heap, (now, peer))
    return shares


def indexed_by(table: Table, peer: PeerKey, indexers: int) -> Arcs | None:
    """The keys for which others ask this peer, as of `stretches_of`. None: it is in no ring now, which says nothing."""
    if peer not in table.peers:
        return None
    return table.arcs(peer, ranks=range(indexers)).coarse(PLACE_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """Of which keys an index has the words. It may say too little, never too much: `todo` grows before anything is
    written or deleted for it, and shrinks afterwards."""

    arcs: Arcs = WHOLE
    """It takes these captures in as they come."""
    todo: Arcs = NONE
    """There documents may be missing, or lie although they should not."""
    surplus: Arcs = NONE
    """Those of `arcs` for which nobody asks since `since_s`, or longer."""
    since_s: int | None = None
    """None: no ring was seen yet."""

    @property
    def answered(self) -> Arcs:
        return self.arcs - self.todo

    @property
    def lacking(self) -> Arcs:
        return self.todo & self.arcs

    def towards(self, wanted: Arcs, now_s: int) -> "Extent":
        """What is wanted is taken in at once; what is no longer wanted goes after a day or two."""
        surplus, since_s = self.surplus - wanted, self.since_s
        if since_s is None:
            target, since_s = wanted, now_s
        else:
            target = self.arcs | wanted
            if not 0 <= now_s - since_s < SURPLUS_S:
                if now_s > since_s:  # else the clock was put back
                    target -= surplus
                surplus, since_s = target - wanted, now_s
        if len(target) > ARCS_MAX:
            target, surplus = wanted, NONE
        todo = self.todo | (target - self.arcs) | (self.arcs - target)
        if len(todo) > ARCS_MAX:
            todo = WHOLE
        return Extent(arcs=target, todo=todo, surplus=surplus, since_s=since_s)


def part_of_circle(arcs: Iterable[Arc]) -> float:
    return sum(arc.length for arc in arcs) / CIRCLE


def keys_of(arcs: Iterable[Arc]) -> Arcs:
    """The keys whose first 64 bits these are."""
    return Arcs(KeyArc(_end(arc.after), _end(arc.last)) for arc in arcs)


def arcs_of(keys: Arcs) -> tuple[Arc, ...]:
    """The inverse, of keys with such ends."""
    return tuple(Arc(_place(arc.start), _place(arc.end)) for arc in keys)


def _place(position: bytes) -> int:
    return int.from_bytes(position[:PLACE_BYTES], "big")


def _end(place: int) -> Key:
    return Key(place.to_bytes(PLACE_BYTES, "big") + _REST)


def _length(stretches: Sequence[Stretch], numbers: Iterable[int]) -> int:
    return sum(stretches[number].arc.length for number in numbers)


def _share(stretches: Sequence[Stretch], peer: PeerKey, numbers: Iterable[int]) -> Share:
    """Neighbours are one arc. Of too many the longest are kept."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][-1] + 1 == number:
            runs[-1].append(number)
        else:
            runs.append([number])
    if len(runs) > 1 and runs[0][0] == 0 and runs[-1][-1] == len(stretches) - 1:
        runs[0] = runs.pop() + runs[0]  # across zero
    runs.sort(key=lambda run: (-_length(stretches, run), run))
    kept = sorted(runs[:RUNS_MAX])
    arcs = (Arc(stretches[run[0]].arc.after, stretches[run[-1]].arc.last) for run in kept)
    return Share(peer, tuple(number for run in kept for number in run), tuple(arcs))
