"""What does a relay do for peers that cannot be called, and which relays does such a peer keep? Bounds and bookkeeping.

`RelayDesk` is the relay's side: which peers keep a line here, which way two peers are told to try, who may be joined.
`RelayKeeper` is the side of a *closed* peer: which members to try, when it counts as a member behind a closed router,
and when its line breaks too often for that. Neither knows sockets; `docs/protocol/lines.md` is the protocol.
"""

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from math import ceil
from random import Random
from typing import Final

from dht.core.frames import Address as SocketAddress
from dht.core.limits import Buckets, Rate
from herodotus.core.copies import PeerKey

KEPT_MAX: Final = 64
"""Lines kept at one relay, 21 kB each. In the worst mix that was simulated a relay has 7."""
JOINED_MAX: Final = 8
JOINED_OF_A_KEY_MAX: Final = 2
KNOCKS: Final = Rate(per_second=2, burst=20)
"""Of one caller: a crawl calls its stewards and holders, and keeps the connections."""
KNOCKS_AT: Final = Rate(per_second=5, burst=50)
"""At one peer, whoever knocks."""

WANTED: Final = 3
TRIED: Final = 8
SPARED: Final = 2
"""So many of those that could be relays are not tried while there are enough others. A router lets in those to whom a
stream was opened, so whether the port is open again only others can tell (ADR 49); one of them may be away."""
REFUSED_S: Final = 300.0
"""Until a relay that refused, or did not answer, is asked again."""
FULL_AFTER_S: Final = 1800.0
GRACE_S: Final = 30.0
"""Without any line: in that time a lost one is replaced."""
BREAKS_MAX: Final = 3
BREAKS_WITHIN_S: Final = 6 * 3600.0
SILENT_S: Final = 20.0
"""Until one is tried again that did not answer while nobody else did: our own line was away, and comes back."""
RESTING_MAX: Final = 1_024


class Way(IntEnum):
    CALL_BACK = 1
    OPEN_AT_ONCE = 2
    JOIN = 3


class Mapping(IntEnum):
    """How its router shows a peer's port to others."""

    UNKNOWN = 0
    SAME = 1
    """All see one port."""
    CHANGES = 2
    OPEN = 3
    """It can be called: its record has the lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrangement:
    """What a relay told both ends."""

    token: bytes
    way: Way
    lines: tuple[SocketAddress, ...]
    """Of the other end: its own, or its router's for it."""
    relay: SocketAddress


@dataclass(slots=True, eq=False)
class Kept:
    """A line that a closed peer keeps here."""

    seen: SocketAddress
    mapping: Mapping = Mapping.UNKNOWN


class RelayDesk:
    """At the relay."""

    def __init__(self) -> None:
        self._kept: dict[PeerKey, Kept] = {}
        self._joined: Counter[PeerKey] = Counter()
        self._joints = 0
        self._buckets = Buckets()

    @property
    def kept(self) -> int:
        return len(self._kept)

    @property
    def joints(self) -> int:
        return self._joints

    def keeps(self, peer: PeerKey, seen: SocketAddress) -> Kept | None:
        """Its line is kept from now on, in the place of an older one. None: there is no room."""
        if peer not in self._kept and len(self._kept) >= KEPT_MAX:
            return None
        kept = self._kept[peer] = Kept(seen)
        assert len(self._kept) <= KEPT_MAX
        return kept

    def ends(self, peer: PeerKey, kept: Kept) -> None:
        if self._kept.get(peer) is kept:
            del self._kept[peer]

    def maps(self, peer: PeerKey, mapping: Mapping) -> bool:
        kept = self._kept.get(peer)
        if kept is not None:
            kept.mapping = mapping
        return kept is not None

    def knocked(self, caller: PeerKey, called: PeerKey, now: float) -> Kept | str:
        """The line of the peer that is wanted, or the word why not."""
        kept = self._kept.get(called)
        if kept is None:
            return "not-here"
        take = self._buckets.take
        if not take(("by", caller), KNOCKS, now) or not take(("at", called), KNOCKS_AT, now):
            return "too-many"
        return kept

    def may_join(self, one: PeerKey, other: PeerKey) -> bool:
        keys = {one, other}
        is_key_full = any(self._joined[key] >= JOINED_OF_A_KEY_MAX for key in keys)
        return self._joints < JOINED_MAX and not is_key_full

    def joins(self, one: PeerKey, other: PeerKey) -> bool:
        """Whether the two may be joined: then `parts` must follow."""
        if not self.may_join(one, other):
            return False
        self._joints += 1
        self._joined.update({one, other})
        return True

    def parts(self, one: PeerKey, other: PeerKey) -> None:
        self._joints -= 1
        assert self._joints >= 0, "`parts` follows `joins`"
        for key in {one, other}:
            self._joined[key] -= 1
            if not self._joined[key]:
                del self._joined[key]


def way_between(
    caller: Mapping, caller_lines: Sequence[SocketAddress], called: Kept, wanted: Way | None
) -> Way:
    """The first way that can work; the ends fall back to the next one by themselves."""
    if wanted is Way.JOIN:
        return Way.JOIN
    has_common_family = any((":" in host) == (":" in called.seen[0]) for host, _ in caller_lines)
    if not has_common_family:
        return Way.JOIN
    if caller is Mapping.OPEN:
        return Way.CALL_BACK
    return Way.OPEN_AT_ONCE if caller is called.mapping is Mapping.SAME else Way.JOIN


def closed_sentence(found: str, relays: int, member_in_s: float | None, *, is_member: bool) -> str:
    """Who a peer is that dial-backs did not reach, from their finding, which ends in advice on the router."""
    advice = found.partition("In the router, ")[2]
    if is_member:
        through = "1 relay" if relays == 1 else f"{relays} relays"
        faster = f" Faster: {advice}" if advice else ""
        return f"Member behind a closed router: others reach it through {through}.{faster}"
    if member_in_s is None:
        return found
    return f"{found} Member in {max(1, ceil(member_in_s / 60))} min if its lines hold."


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A member that can be called, as a relay."""

    peer: PeerKey
    place: bytes
    area: bytes
    """A /16, or a /32 of IPv6: two relays of one provider go with it."""


class RelayKeeper:
    """At the closed peer."""

    def __init__(self, chance: Random, *, wanted: int = WANTED, full_after_s: float = FULL_AFTER_S) -> None:
        self._chance, self._wanted, self._full_after_s = chance, wanted, full_after_s
        self._kept: dict[PeerKey, Candidate] = {}
        self._resting: dict[PeerKey, float] = {}
        self._full_since: float | None = None
        self._empty_since: float | None = None
        self._breaks: deque[float] = deque(maxlen=BREAKS_MAX)
        self.is_member = False
        """It kept its relays for long enough, and has one."""

    @property
    def relays(self) -> tuple[PeerKey, ...]:
        return tuple(self._kept)

    @property
    def is_full(self) -> bool:
        return len(self._kept) >= self._wanted

    def breaks_often(self, now: float) -> bool:
        return len(self._breaks) == BREAKS_MAX and now - self._breaks[0] < BREAKS_WITHIN_S

    def member_in_s(self, now: float) -> float | None:
        """Until it is one, if the lines hold; None where it lacks relays."""
        return None if self._full_since is None else max(0.0, self._full_since + self._full_after_s - now)

    def choice(self, members: Iterable[Candidate], now: float) -> list[Candidate]:
        """At random some that could be kept besides those that are. The first to accept are the nearest."""
        if self.is_full:
            return []
        self._resting = {peer: until for peer, until in self._resting.items() if now < until}
        found = [one for one in members if one.peer not in self._resting and self.may_keep(one)]
        lacking = self._wanted - len(self._kept)
        return self._chance.sample(found, min(TRIED, max(len(found) - SPARED, lacking), len(found)))

    def may_keep(self, one: Candidate) -> bool:
        """Room for one more, and none of its place or area yet."""
        return not self.is_full and not any(
            one.peer == kept.peer or one.place == kept.place or one.area == kept.area
            for kept in self._kept.values()
        )

    def keeps(self, one: Candidate, now: float) -> None:
        assert self.may_keep(one), "asked before"
        self._kept[one.peer] = one
        self._empty_since = None
        if self.is_full and self._full_since is None:
            self._full_since = now

    def lost(self, peer: PeerKey, now: float) -> None:
        """Its line broke."""
        self._kept.pop(peer, None)
        if not self.is_member:
            self._full_since = None
        if not self._kept and self._empty_since is None:
            self._empty_since = now
            self._breaks.append(now)

    def refused(self, peer: PeerKey, now: float, *, is_silent: bool = False) -> None:
        """`is_silent`: it did not say so."""
        if len(self._resting) < RESTING_MAX:
            self._resting[peer] = now + (SILENT_S if is_silent and not self._kept else REFUSED_S)

    def advance(self, now: float) -> bool:
        """Whether `is_member` changed. Who is a member stays one while any line is kept: lost ones are replaced."""
        before = self.is_member
        if self.breaks_often(now) or (self._empty_since is not None and now - self._empty_since >= GRACE_S):
            self.is_member, self._full_since = False, (now if self.is_full else None)
        elif self._full_since is not None and now - self._full_since >= self._full_after_s:
            self.is_member = True
        return self.is_member is not before
