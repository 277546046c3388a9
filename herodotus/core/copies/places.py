"""Who must hold what? The circle cut at every position, and behind each cut the first k distinct hosts.

The ring's table says who is where. A peer that has gone keeps its place in here for a while (`absence`), so that
copies are not made anew each time somebody restarts.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from herodotus.core.copies.directories import Range, Scope, joined, ranges_of_arc

PeerKey = bytes
REACHABLE_SHARE = 2 / 3
"""Of the copies: with fewer within reach for a while, the absent are no longer waited for (ring.md 4.5: 4 of 6)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A stretch of the ring and who holds it, the owner first."""

    ranges: Scope
    holders: tuple[PeerKey, ...]


class Places:
    """`positions` are (key, peer) of everybody, the absent included; `missed` are absent for so long that they
    only count where enough others are there."""

    def __init__(
        self,
        positions: Iterable[tuple[bytes, PeerKey]],
        copies: int,
        *,
        absent: Collection[PeerKey] = (),
        missed: Collection[PeerKey] = (),
    ) -> None:
        self._positions = sorted(set(positions))
        self._keys = [key for key, _ in self._positions]
        self._copies = copies
        self._absent = frozenset(absent)
        self._missed = frozenset(missed)

    def __len__(self) -> int:
        return len(self._positions)

    def is_like(self, other: "Places") -> bool:
        """The same peers in the same places, and the same of them away."""
        return (self._positions, self._absent, self._missed) == (
            other._positions,
            other._absent,
            other._missed,
        )

    @property
    def keys(self) -> list[bytes]:
        """All positions, ascending."""
        return self._keys

    @property
    def peers(self) -> frozenset[PeerKey]:
        return frozenset(peer for _, peer in self._positions)

    def holders(self, key: bytes, copies: int | None = None) -> tuple[PeerKey, ...]:
        """Fewer than `copies` where there are fewer hosts."""
        return self._holders_at(bisect_left(self._keys, key), copies or self._copies)

    def _holders_at(self, place: int, copies: int) -> tuple[PeerKey, ...]:
        found = self._walk(place, copies, frozenset())
        reachable = sum(peer not in self._absent for peer in found)
        if self._missed.intersection(found) and reachable < copies * REACHABLE_SHARE:
            return self._walk(place, copies, self._missed)
        return found

    def _walk(self, place: int, copies: int, skipped: frozenset[PeerKey]) -> tuple[PeerKey, ...]:
        found: dict[PeerKey, None] = {}
        count = len(self._positions)
        for step in range(count):
            peer = self._positions[(place + step) % count][1]
            if peer not in skipped:
                found[peer] = None
                if len(found) == copies:
                    break
        return tuple(found)

    def segments_of(self, peer: PeerKey, slack: int = 0) -> tuple[Segment, ...]:
        """All that a peer holds; with a slack, also what it would hold if there were so many copies more."""
        copies = self._copies + slack
        cuts = self._cuts_of(peer, copies)
        stretches: dict[tuple[PeerKey, ...], list[Range]] = {}
        for place in cuts:
            holders = self._holders_at(place, copies)
            if peer in holders:
                stretches.setdefault(holders, []).extend(self._stretch(place))
        return tuple(
            Segment(ranges=joined(ranges), holders=holders) for holders, ranges in sorted(stretches.items())
        )

    def _cuts_of(self, peer: PeerKey, copies: int) -> list[int]:
        """Places of the positions that a peer may hold the keys before."""
        count = len(self._positions)
        # Where the absent may be passed over, a peer holds what lies farther back.
        wanted = copies + len(self._missed)
        found: set[int] = set()
        for own in [place for place, (_, holder) in enumerate(self._positions) if holder == peer]:
            others: set[PeerKey] = set()
            for step in range(count):
                place = (own - step) % count
                if step and self._positions[place][1] == peer:
                    break
                if self._positions[place][1] != peer:
                    others.add(self._positions[place][1])
                if len(others) > wanted:
                    break
                found.add(place)
        return sorted(found)

    def _stretch(self, place: int) -> list[Range]:
        return ranges_of_arc(self._keys[place - 1], self._keys[place])

    def segments_in(self, scope: Scope) -> list[Segment]:
        """Who holds what of a scope, which must be joined: for what lies outside a peer's own share."""
        found: dict[tuple[PeerKey, ...], list[Range]] = {}
        for place in range(len(self._positions)):
            for stretch in self._stretch(place):
                parts = _parts_of(scope, stretch)
                if parts:
                    found.setdefault(self._holders_at(place, self._copies), []).extend(parts)
        return [Segment(ranges=joined(parts), holders=holders) for holders, parts in sorted(found.items())]

    def scope_of(self, peer: PeerKey, slack: int = 0) -> Scope:
        return joined(one for segment in self.segments_of(peer, slack) for one in segment.ranges)


def shared_with(segments: Iterable[Segment], peer: PeerKey) -> Scope:
    """What a peer should have of these segments."""
    return joined(one for segment in segments if peer in segment.holders for one in segment.ranges)


def _parts_of(scope: Scope, stretch: Range) -> list[Range]:
    """A leaver's scope may have thousands of ranges: none is looked at that is not near."""
    first = max(0, bisect_right(scope, stretch.low, key=lambda one: one.low) - 1)
    end = len(scope)
    if stretch.high is not None:
        end = bisect_left(scope, stretch.high, lo=first, key=lambda one: one.low)
    return [part for one in scope[first:end] if (part := _common(one, stretch)) is not None]


def _common(one: Range, other: Range) -> Range | None:
    low = max(one.low, other.low)
    high = one.high if other.high is None else other.high if one.high is None else min(one.high, other.high)
    return Range(low, high) if high is None or low < high else None
