"""How many copies does a capture have, and may ours go? The ledger notes the claims of other peers and their times.

A confirmation comes from comparing a scope with a peer: the peer has all our captures in it except the listed keys
(position, time, variant). A capture stored here later counts as lacking there until the peer acknowledges it. A
promise is a confirmation by a peer that holds the scope by its own view of the ring: only k of those, all of them
recent, let a copy go.

Which captures do we lack, which peers have them, and which comes next? Fewest known copies first, then the oldest
day.

Several peers may have a member. Each is first asked for captures that few others can give. If one peer cannot give a
capture, it stays wanted from the others.

Several holders offer the same capture at once: which of them sends it? The first, for a minute.

The others are told that it is coming and ask again. If a peer does not send the capture, we stop waiting for it, so
that an offer cannot keep a capture away.
"""

from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from cachetools import FIFOCache

from dht.core.arcs import Arcs
from herodotus.core.copies import PeerKey
from herodotus.core.index_rows import CAPTURE, KEY_BYTES
from herodotus.core.reconciliation import Range, arcs_of, member_of, ranges_of

LACKING_MAX = 200_000
"""Captures of one confirmation; beyond it the peer lacks so much that it has to be asked again."""
CONFIRMATIONS_MAX = 32
"""Of one peer; the oldest go."""
PROMISE_USED_WITHIN_S = 600.0
PROMISE_KEPT_S = 1_800.0
"""A promise outlives every action that relies on it, so two peers never both drop a capture because each relies on
the other."""


class Group(NamedTuple):
    """Keys with the same holders."""

    holders: tuple[PeerKey, ...]
    arcs: Arcs


def shared_with(groups: Iterable[Group], peer: PeerKey) -> Arcs:
    """The arcs of these groups that a peer should hold."""
    return Arcs(arc for holders, arcs in groups if peer in holders for arc in arcs)


@dataclass(slots=True)
class Confirmation:
    arcs: Arcs
    at: float
    is_promise: bool
    lacking: set[bytes]
    declined: set[bytes] = field(default_factory=set)
    """Of those that it lacks: removed there for good, so not wanted."""
    said: set[bytes] = field(default_factory=set)
    """Of those that it lacks: another peer got its acknowledgement. Good enough to be counted, and for nothing else."""
    is_outdated: bool = False
    """Something was stored here since."""


@dataclass(slots=True)
class Comparison:
    """One that is under way."""

    peer: PeerKey
    arcs: Arcs
    began: float
    stored: set[bytes] = field(default_factory=set)


class HoldingLedger:
    def __init__(self) -> None:
        self._confirmed: dict[PeerKey, list[Confirmation]] = {}
        self._open: list[Comparison] = []

    def begin(self, peer: PeerKey, arcs: Arcs, now: float) -> Comparison:
        comparison = Comparison(peer, arcs, now)
        self._open.append(comparison)
        return comparison

    def give_up(self, comparison: Comparison) -> None:
        self._open.remove(comparison)

    def confirm(
        self,
        comparison: Comparison,
        lacking: Collection[bytes],
        *,
        declined: Collection[bytes] = (),
        is_promise: bool,
        is_exact: bool = False,
    ) -> None:
        """Note our captures that the peer lacks, besides those stored since the comparison began. What it declined is
        lacking as well: nobody may rely on a copy there. `is_exact`: the peer was asked for every content, not only
        for something of each day. Only an exact answer proves that a promised capture is there."""
        self._open.remove(comparison)
        missing = {*lacking, *declined, *comparison.stored}
        known = self._confirmed.setdefault(comparison.peer, [])
        known[:] = [one for one in known if not one.arcs <= comparison.arcs]
        for one in known:  # of other scopes: the new answer replaces theirs, for and against
            if is_exact or not one.is_promise:
                one.lacking = {key for key in one.lacking if key not in comparison.arcs}
                one.declined &= one.lacking
                one.said &= one.lacking
            one.lacking |= {key for key in missing if key in one.arcs}
        known[:] = [one for one in known if len(one.lacking) <= LACKING_MAX]
        if len(missing) <= LACKING_MAX:
            known.append(Confirmation(comparison.arcs, comparison.began, is_promise, missing, {*declined}))
            del known[:-CONFIRMATIONS_MAX]
        assert len(known) <= CONFIRMATIONS_MAX
        assert all(len(one.lacking) <= LACKING_MAX for one in known), "keys beyond the limit are asked again"

    def stored(self, *keys: bytes) -> None:
        """Something new is here: nobody is known to have it."""
        for known in self._confirmed.values():
            for one in known:
                new = [key for key in keys if key in one.arcs]
                one.lacking.update(new)
                one.is_outdated |= bool(new)
            known[:] = [one for one in known if len(one.lacking) <= LACKING_MAX]
        for comparison in self._open:
            comparison.stored.update(key for key in keys if key in comparison.arcs)

    def held(self, peer: PeerKey, keys: Iterable[bytes]) -> None:
        """The peer acknowledged these as durable."""
        gone = set(keys)
        for one in self._confirmed.get(peer, ()):
            one.lacking -= gone
            one.declined -= gone
            one.said -= gone

    def said_to_hold(self, peer: PeerKey, keys: Iterable[bytes]) -> None:
        """By the peer that sent these to both of us. The next comparison replaces its word."""
        told = set(keys)
        for one in self._confirmed.get(peer, ()):
            one.said |= told & one.lacking

    def declined(self, peer: PeerKey, key: bytes) -> None:
        """The peer removed this one and takes it no more."""
        for one in self._confirmed.get(peer, ()):
            if key in one.lacking:
                one.declined.add(key)

    def doubt(self, peer: PeerKey) -> None:
        """The peer's claims no longer count."""
        self._confirmed.pop(peer, None)

    def keep_only(self, peers: Collection[PeerKey]) -> None:
        for peer in [known for known in self._confirmed if known not in peers]:
            del self._confirmed[peer]

    # -- questions ----------------------------------------------------------------------------------------

    def _confirmation(
        self, peer: PeerKey, part: Arcs, since: float, *, is_promise: bool = False
    ) -> Confirmation | None:
        """The newest that has all of a part."""
        found = [
            one
            for one in self._confirmed.get(peer, ())
            if one.at >= since and (one.is_promise or not is_promise) and part <= one.arcs
        ]
        return max(found, key=lambda one: one.at, default=None)

    def is_held(self, peer: PeerKey, key: bytes) -> bool:
        """Did the peer confirm this one, and nothing against it since?"""
        return any(key in one.arcs and key not in one.lacking for one in self._confirmed.get(peer, ()))

    def is_behind(self, peer: PeerKey) -> bool:
        """Is there something that the peer was not asked about, and did not acknowledge?"""
        known = self._confirmed.get(peer, ())
        return any(one.is_outdated and one.lacking - one.declined for one in known if not one.is_promise)

    def needs_promises(self, group: Group, now: float) -> list[PeerKey]:
        """The peers whose promise for a group is missing or soon too old."""
        since = now - PROMISE_USED_WITHIN_S / 2
        return [
            peer
            for peer in group.holders
            if any(self._confirmation(peer, part, since, is_promise=True) is None for part in _parts(group))
        ]

    def may_go(self, group: Group, absent: Collection[PeerKey], now: float) -> bool:
        """Ours of a group that is no longer ours: each of its holders promised all of it, just now."""
        return bool(group.holders) and all(
            peer not in absent and self._has_promised(peer, group, now) for peer in group.holders
        )

    def _has_promised(self, peer: PeerKey, group: Group, now: float) -> bool:
        for part in _parts(group):
            one = self._confirmation(peer, part, now - PROMISE_USED_WITHIN_S, is_promise=True)
            if one is None or any(key in part for key in one.lacking):
                return False
        return True

    def histogram(
        self,
        me: PeerKey,
        groups: Sequence[Group],
        counts: Mapping[Range, int],
        since: float,
        *,
        counts_declined: bool = False,
    ) -> dict[int, int]:
        """Captures of ours by how many hosts are known or said to have them. `counts` are those of each range. With
        `counts_declined`, a peer that removed one counts as if it had it: nothing was lost there."""
        total: Counter[int] = Counter()
        for holders, arcs in groups:
            others = [peer for peer in holders if peer != me]
            for one_range in ranges_of(arcs):
                part = arcs_of((one_range,))
                known = [one for peer in others if (one := self._confirmation(peer, part, since)) is not None]
                lacking = Counter(
                    key
                    for one in known
                    for key in one.lacking - one.said
                    if key in part and not (counts_declined and key in one.declined)
                )
                for missing in lacking.values():
                    assert missing <= len(known), "each peer lacks a capture once"
                    total[1 + len(known) - missing] += 1
                total[1 + len(known)] += max(0, counts.get(one_range, 0) - len(lacking))
        return {copies: number for copies, number in sorted(total.items()) if number}


def _parts(group: Group) -> list[Arcs]:
    """One confirmation need not have all of a group, but all of an arc."""
    return [Arcs([arc]) for arc in group.arcs]


class Steadiness:
    """Since when does each stretch have the holders that it has? A deletion waits until they were the same for a day:
    keys that come, promise and go within an hour never have a say in it."""

    def __init__(self) -> None:
        self._since: dict[Arcs, tuple[Sequence[PeerKey], float]] = {}

    def see(self, stretches: Mapping[Arcs, Sequence[PeerKey]], now: float) -> None:
        """All stretches that matter now, with their holders; others are forgotten."""
        before = self._since
        self._since = {
            stretch: known
            if (known := before.get(stretch)) is not None and known[0] == holders
            else (holders, now)
            for stretch, holders in stretches.items()
        }

    def since(self, stretch: Arcs) -> float:
        """Never, where it was not seen yet."""
        known = self._since.get(stretch)
        return float("inf") if known is None else known[1]


WANTED_MAX = 200_000
"""Members, some 300 bytes each. The next comparison finds the rest again."""


class Wanted:
    def __init__(self) -> None:
        self._sources: dict[bytes, set[PeerKey]] = {}
        self._by_source: dict[PeerKey, set[bytes]] = {}
        self._asked: dict[bytes, PeerKey] = {}
        self._queues: dict[PeerKey, list[bytes]] = {}
        """Sorted when they were made, the next one last; a capture missing in a list makes the list again."""
        self._cut: set[PeerKey] = set()
        """They have more than there was room for."""
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._sources)

    def __contains__(self, member: bytes) -> bool:
        return member in self._sources

    @property
    def is_full(self) -> bool:
        return len(self._sources) >= WANTED_MAX

    def add(self, members: Iterable[bytes], source: PeerKey) -> None:
        for member in members:
            if member not in self._sources and self.is_full:
                self.dropped += 1
                self._cut.add(source)
                continue
            self._sources.setdefault(member, set()).add(source)
            self._by_source.setdefault(source, set()).add(member)
        self._queues.pop(source, None)
        assert len(self._sources) <= WANTED_MAX

    def sources(self) -> list[PeerKey]:
        """Peers that could be asked for something now."""
        return sorted(source for source in self._by_source if self._queue(source))

    def take(self, source: PeerKey, count: int) -> list[bytes]:
        """Up to `count` members to ask a peer for. No other peer is asked for them meanwhile."""
        taken: list[bytes] = []
        while len(taken) < count and (queue := self._queue(source)):
            member = queue.pop()
            assert source in self._sources[member], "only a peer that has it is asked"
            self._asked[member] = source
            taken.append(member)
        return taken

    def _queue(self, source: PeerKey) -> list[bytes]:
        queue = self._queues.get(source)
        if queue is None:
            free = [member for member in self._by_source.get(source, ()) if member not in self._asked]
            free.sort(
                key=lambda member: (len(self._sources[member]), member[KEY_BYTES:], member), reverse=True
            )
            queue = self._queues[source] = free
        while queue and not self._is_free(queue[-1], source):
            queue.pop()
        return queue

    def _is_free(self, member: bytes, source: PeerKey) -> bool:
        return member not in self._asked and source in self._sources.get(member, ())

    def got(self, member: bytes) -> None:
        """It is here, wherever it came from."""
        self._asked.pop(member, None)
        for source in self._sources.pop(member, ()):
            self._leave(source, member)

    def failed(self, member: bytes, source: PeerKey) -> None:
        """The peer did not give it: it is not asked again until it says again that it has it."""
        if self._asked.get(member) == source:
            del self._asked[member]
        sources = self._sources.get(member)
        if sources is None or source not in sources:
            return
        sources.discard(source)
        self._leave(source, member)
        for other in sources:
            self._queues.pop(other, None)
        if not sources:
            assert member not in self._asked, "nobody is left who could be under way with it"
            del self._sources[member]

    def cut(self, source: PeerKey) -> None:
        """The peer has more than was given here."""
        self._cut.add(source)

    def has_more(self, source: PeerKey) -> bool:
        """Are all noted members of a peer settled, while the peer has more? True once."""
        if source in self._by_source or source not in self._cut:
            return False
        self._cut.discard(source)
        return True

    def lost(self, source: PeerKey) -> None:
        """The peer does not answer, or did not send the announced capture."""
        self._cut.discard(source)
        for member in list(self._by_source.get(source, ())):
            self.failed(member, source)

    def _leave(self, source: PeerKey, member: bytes) -> None:
        members = self._by_source.get(source)
        if members is not None:
            members.discard(member)
            if not members:
                del self._by_source[source]
                self._queues.pop(source, None)


WAITED_S = 60.0
WAITING_MAX = 65_536
"""Captures. Those beyond the limit may come twice, since nothing notes their offers."""
SLOW_S = 3_600.0
SLOW_MAX = 1_024


class Offers:
    def __init__(self) -> None:
        self._waiting: OrderedDict[bytes, tuple[PeerKey, float]] = OrderedDict()
        """The peer that is to send each, and until when; the oldest first."""
        self._members: Counter[bytes] = Counter()
        self._slow: FIFOCache[PeerKey, float] = FIFOCache(SLOW_MAX)

    def is_to_send(self, key: bytes, sender: PeerKey, now: float) -> bool:
        self._end_waiting(now)
        known = self._waiting.get(key)
        if known is not None:
            return known[0] == sender
        if self._slow.get(sender, now) <= now and len(self._waiting) < WAITING_MAX:
            self._waiting[key] = sender, now + WAITED_S
            self._members[member_of(CAPTURE + key)] += 1
        return True

    def came(self, key: bytes) -> None:
        if self._waiting.pop(key, None) is not None:
            self._leave(key)

    def is_coming(self, member: bytes, now: float) -> bool:
        """Is somebody sending some of it, so that it need not be fetched?"""
        self._end_waiting(now)
        return member in self._members

    def _leave(self, key: bytes) -> None:
        member = member_of(CAPTURE + key)
        self._members[member] -= 1
        assert self._members[member] >= 0, "each offer is counted once, and leaves once"
        if not self._members[member]:
            del self._members[member]

    def _end_waiting(self, now: float) -> None:
        while self._waiting:
            key, (sender, until) = next(iter(self._waiting.items()))
            if until > now:
                return
            del self._waiting[key]
            self._leave(key)
            self._slow[sender] = now + SLOW_S
