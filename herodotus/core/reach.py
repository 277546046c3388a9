"""Do calls get through to those that matter? A member may answer datagrams while nothing reaches its TCP port.

Then the ring's lists are right, and yet no copy, link or lease gets there. So a peer notes which calls worked, and
*knocks*: it opens a TCP connection and closes it. Two knocks in vain, or four calls in vain with none that worked, and
the member counts as uncallable until one gets through.

A member whose router closes should hear of it soon, however few call it, and calls may go by connections that were
open before. So each peer has one *ward*, the member whose key comes next after its own: it knocks there all the time,
and each member that can be called has somebody who does. Its neighbours on the ring it tries one after the other, and
rarely those that only relays reach: such a call costs all three of them thirty times the bytes, and the closed peer
notices by itself that a line of its own broke.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from herodotus.core.copies import PeerKey

TARGETS_MAX: Final = 16
CONFIRM_S: Final = 5.0
"""From a knock in vain to the next: a TCP connection that is under way has tried four times by then."""
AGAIN_S: Final = 30.0
"""Until one that is uncallable is tried again."""
KNOCKS: Final = 2
CALLS: Final = 4
CALLS_WITHIN_S: Final = 3_600.0
"""A call in vain that is older says nothing of today."""
PROVEN_MIN_S: Final = 600.0
NEIGHBOURS_RARER: Final = 4
"""Than the ward: a minute between two of them. They are there for the case that a ward's only knocker lies, which they
find out within minutes (ADR 74); at the ward's own pace they were a tenth of an idle line's traffic."""
ARRANGED_REST_S: Final = 3_600.0
"""Where a relay has to arrange it: 6 kB at each of the three, which each few minutes would be an idle line's most."""
CYCLES: Final = 3
"""So many rounds of knocks may pass before what worked counts no more."""
KNOWN_MAX: Final = 1_024


@dataclass(slots=True)
class _Known:
    reached_at: float | None = None
    knocked_at: float | None = None
    knocks_in_vain: int = 0
    calls_in_vain: int = 0
    failed_at: float | None = None
    """The last time that something was in vain."""
    since: float = 0.0
    """When it first was, with nothing that worked since."""
    why: str = ""

    def is_uncallable(self, now: float) -> bool:
        if self.knocks_in_vain >= KNOCKS:
            return True
        return (
            self.calls_in_vain >= CALLS
            and self.failed_at is not None
            and now - self.failed_at < CALLS_WITHIN_S
        )


class Reach:
    def __init__(self, every_s: float) -> None:
        """One knock in so many seconds at the ward, and more rarely one at others, where nothing is wrong; 0 for none
        at all."""
        self._every_s = every_s
        self._others_every_s = NEIGHBOURS_RARER * every_s
        self._known: dict[PeerKey, _Known] = {}
        self._targets: tuple[PeerKey, ...] = ()
        self._arranged: frozenset[PeerKey] = frozenset()
        self._ward: PeerKey | None = None
        self._knocked_at = float("-inf")
        """The last knock at another one than the ward."""

    def watch(
        self,
        neighbours: Iterable[PeerKey],
        members: Iterable[PeerKey],
        *,
        ward: PeerKey | None = None,
        arranged: Iterable[PeerKey] = (),
    ) -> None:
        """Who must be callable now, and which of them by relays alone; of others that are members, what calls showed
        is kept.
        """
        self._targets = tuple(dict.fromkeys(neighbours))[:TARGETS_MAX]
        self._arranged, self._ward = frozenset(arranged), ward
        kept = {*members, *self._targets}
        self._known = {peer: known for peer, known in self._known.items() if peer in kept}

    def _of(self, peer: PeerKey) -> _Known | None:
        known = self._known.get(peer)
        if known is None and len(self._known) < KNOWN_MAX:
            known = self._known[peer] = _Known()
        return known

    def called(self, peer: PeerKey, now: float, why: str | None = None) -> None:
        """A call worked (a refusal is an answer), or did not, and why."""
        known = self._of(peer)
        if known is None:
            return
        if why is None:
            known.reached_at, known.knocks_in_vain, known.calls_in_vain, known.failed_at = now, 0, 0, None
        else:
            known.calls_in_vain += 1
            self._fail(known, why, now)

    def knocks(self, peer: PeerKey, now: float) -> None:
        """A knock begins."""
        if peer != self._ward:
            self._knocked_at = now
        if (known := self._of(peer)) is not None:
            known.knocked_at = now

    def knocked(self, peer: PeerKey, now: float, why: str | None = None) -> None:
        known = self._of(peer)
        if known is None:
            return
        known.knocked_at = now
        if why is None:
            known.knocks_in_vain = 0
            known.reached_at = now
            known.failed_at = known.failed_at if known.calls_in_vain else None
        else:
            known.knocks_in_vain += 1
            self._fail(known, why, now)

    def _fail(self, known: _Known, why: str, now: float) -> None:
        if known.failed_at is None:
            known.since = now
        known.failed_at, known.why = now, why

    # -- whom to try, and when ----------------------------------------------------------------------------

    def next_knock(self, now: float, under_way: Collection[PeerKey] = ()) -> tuple[PeerKey, float] | None:
        """Who is next, and when; what is in doubt goes first."""
        if not self._every_s:
            return None
        doubtful = [peer for peer, known in self._known.items() if known.failed_at is not None]
        ward = () if self._ward is None else (self._ward,)
        asked = dict.fromkeys(peer for peer in (*ward, *self._targets, *doubtful) if peer not in under_way)
        due = [(self._due(peer, now), peer) for peer in asked]
        if not due:
            return None
        at, peer = min(due)
        return peer, at

    def _due(self, peer: PeerKey, now: float) -> float:
        known = self._known.get(peer)
        if known is None or (known.reached_at is None and known.failed_at is None):
            return float("-inf")
        if known.failed_at is not None:
            if known.knocked_at is None or known.knocked_at < known.since:
                return known.failed_at
            return known.knocked_at + (AGAIN_S if known.is_uncallable(now) else CONFIRM_S)
        if peer == self._ward:  # calls may go by a connection that has been open for long
            return now if known.knocked_at is None else known.knocked_at + self._every_s
        assert known.reached_at is not None
        return max(self._knocked_at + self._others_every_s, known.reached_at + self._rest_s(peer))

    def _rest_s(self, peer: PeerKey) -> float:
        return ARRANGED_REST_S if peer in self._arranged else self._others_every_s * len(self._targets)

    # -- what is known ------------------------------------------------------------------------------------

    def uncallable(self, now: float) -> Sequence[tuple[PeerKey, str, float]]:
        """Each with why, and since when."""
        return [
            (peer, known.why, known.since)
            for peer, known in sorted(self._known.items())
            if known.is_uncallable(now)
        ]

    def is_proven(self, now: float) -> bool:
        """To each neighbour a call or a knock got through within bounded time, and nobody is uncallable."""
        if not self._every_s:
            return not self.uncallable(now)
        for peer in self._targets:
            known = self._known.get(peer)
            oldest = now - max(PROVEN_MIN_S, CYCLES * self._rest_s(peer))
            if known is None or known.reached_at is None or known.reached_at < oldest:
                return False
        return not self.uncallable(now)
