"""What does this peer believe about who holds what, just now? One object that all parts of the copying look at."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dht import Contact
from herodotus.core.copies.directories import Scope, covers, has, joined
from herodotus.core.copies.places import PeerKey, Places, Segment, shared_with

SLACK = 1
"""Copies beyond k that are taken when offered: two views of the ring may differ by a peer (ring.md 5)."""
PROMISES_MAX = 16
"""To one peer; more are made one, of all their ranges and the longest."""
PROMISED_MAX = 4_096
"""Peers at a time: whoever holds something with us is one of far fewer."""


@dataclass(slots=True)
class Promise:
    scope: Scope
    until: float


@dataclass(slots=True)
class View:
    me: PeerKey
    copies: int
    places: Places
    contacts: Mapping[PeerKey, Contact] = field(default_factory=dict)
    absent: Mapping[PeerKey, float] = field(default_factory=dict)
    segments: Sequence[Segment] = ()
    scope: Scope = ()
    wide_scope: Scope = ()
    changed_at: float = 0.0
    """When this peer's own share last was another."""
    version: int = 0
    """Grows with every change of who holds what, anywhere."""
    promises: dict[PeerKey, list[Promise]] = field(default_factory=dict)
    given: int = 0
    """Promises ever."""

    def take(self, places: Places, contacts: Mapping[PeerKey, Contact], now: float) -> bool:
        """A new look at the ring; whether who holds what of ours is different now."""
        segments = places.segments_of(self.me)
        is_other = segments != tuple(self.segments)
        scope = joined(one for segment in segments for one in segment.ranges)
        if scope != self.scope:
            self.changed_at = now
        self.version += not places.is_like(self.places)
        self.places, self.contacts = places, contacts
        self.segments, self.scope = segments, scope
        self.wide_scope = places.scope_of(self.me, SLACK)
        return is_other

    def may_hold(self, position: bytes) -> bool:
        return has(self.wide_scope, position)

    def holds_all(self, scope: Scope) -> bool:
        return all(covers(self.scope, one) for one in scope)

    def may_hold_all(self, scope: Scope) -> bool:
        return all(covers(self.wide_scope, one) for one in scope)

    def promise(self, peer: PeerKey, scope: Scope, until: float) -> bool:
        """Nothing of it goes from here until then. False when too many others count on us already."""
        if peer not in self.promises and len(self.promises) >= PROMISED_MAX:
            return False
        known = self.promises.setdefault(peer, [])
        known[:] = [one for one in known if one.scope != scope or one.until > until]
        known.append(Promise(scope, until))
        if len(known) > PROMISES_MAX:
            everything = joined(part for one in known for part in one.scope)
            known[:] = [Promise(everything, max(one.until for one in known))]
        self.given += 1
        return True

    def is_promised(self, scope: Scope, now: float) -> bool:
        """Does somebody count on us for any of it?"""
        self.end_promises(now)
        return any(_touches(one.scope, scope) for known in self.promises.values() for one in known)

    def end_promises(self, now: float) -> None:
        for peer in list(self.promises):
            kept = [one for one in self.promises[peer] if one.until > now]
            if kept:
                self.promises[peer] = kept
            else:
                del self.promises[peer]

    def shared_with(self, peer: PeerKey) -> Scope:
        return shared_with(self.segments, peer)

    def others(self) -> list[PeerKey]:
        """Those whom we share something with."""
        return sorted({peer for segment in self.segments for peer in segment.holders} - {self.me})


def _touches(one: Scope, other: Scope) -> bool:
    return any(
        (b.high is None or a.low < b.high) and (a.high is None or b.low < a.high) for a in one for b in other
    )
