"""Do calls get through to those that matter? A member may answer datagrams while nothing reaches its TCP port.

Then the ring's lists are right, and yet no copy, link or lease gets there. So a peer notes which calls worked, and
*knocks* where none did lately: it opens a TCP connection and closes it. One after the other, those first of which
nothing is known; one that does not answer is tried again at once. Two knocks in vain, or four calls in vain with none
that worked, and the member counts as uncallable until one gets through.
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
        """One knock in so many seconds, where nothing is wrong; 0 for none at all."""
        self._every_s = every_s
        self._known: dict[PeerKey, _Known] = {}
        self._targets: tuple[PeerKey, ...] = ()
        self._knocked_at = float("-inf")

    def watch(self, neighbours: Iterable[PeerKey], members: Iterable[PeerKey]) -> None:
        """Who must be callable now; of others that are members, what calls showed is kept."""
        self._targets = tuple(dict.fromkeys(neighbours))[:TARGETS_MAX]
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
        asked = dict.fromkeys(peer for peer in (*self._targets, *doubtful) if peer not in under_way)
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
        assert known.reached_at is not None
        cycle_s = self._every_s * len(self._targets)
        return max(self._knocked_at + self._every_s, known.reached_at + cycle_s)

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
        oldest = now - max(PROVEN_MIN_S, CYCLES * self._every_s * len(self._targets))
        for peer in self._targets:
            known = self._known.get(peer)
            if known is None or known.reached_at is None or known.reached_at < oldest:
                return False
        return not self.uncallable(now)
