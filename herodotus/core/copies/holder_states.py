"""Does a holder count? By what it proved, failed to prove, or did not answer.

`unproven -> proven (for a week) -> doubted (a proof was wrong, or a day of silence) -> failed (again after an hour)`.
Who failed is not counted as a holder by this peer for 30 days, or until a full proof of all that both hold. That is
this peer's own judgement, and it only ever adds copies: who the holders are does not depend on it. What a holder says
itself that it lacks is no failure: disks break, and it gets the captures again.

`FullHolders`: a peer whose disk is full says so of each capture that it would take (`full`, replication.md 3), or
refuses a whole call. Nothing is sent to it for an hour: what it would answer is known, and each try costs its line and
ours. What it has counts; what it lacks does not, and the next peer on the ring gets that meanwhile.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from herodotus.core.copies import PeerKey

DAY_S: Final = 86_400.0
PROVEN_S: Final = 7 * DAY_S
SILENT_S: Final = DAY_S
AGAIN_S: Final = 3_600.0
FAILED_S: Final = 30 * DAY_S
FAILED_MAX: Final = 4_096
"""Kept over a restart, the newest of them."""


FULL_S: Final = 3_600.0
"""Until it is asked again: an operator who makes room does so in hours, not in minutes."""


class HolderState(Enum):
    UNPROVEN = "unproven"
    PROVEN = "proven"
    DOUBTED = "doubted"
    FAILED = "failed"


class Outcome(Enum):
    """Of asking a holder for a proof."""

    PROVEN = "proven"
    FULLY_PROVEN = "fully proven"
    """All that both hold."""
    WRONG = "wrong"
    LACKING = "lacking"
    """It says itself that it lacks something, or has other contents."""
    OTHER_SET = "other set"
    """The two must compare first."""
    SILENT = "silent"


@dataclass(slots=True)
class _Known:
    proven_at: float | None = None
    proven_bytes: int = 0
    """Of ours, by the last proof."""
    doubted_at: float | None = None
    silent_since: float | None = None
    failed_at: float | None = None
    asked_at: float | None = None
    last: Outcome | None = None


class HolderStates:
    def __init__(self, *, every_s: float = DAY_S) -> None:
        self._every_s = every_s
        self._again_s = min(AGAIN_S, every_s)
        self._known: dict[PeerKey, _Known] = {}

    def note(self, peer: PeerKey, outcome: Outcome, now: float, proven_bytes: int = 0) -> None:
        """`proven_bytes`: how much of ours a proof was about."""
        known = self._known.setdefault(peer, _Known())
        known.asked_at, known.last = now, outcome
        if outcome is not Outcome.SILENT:
            known.silent_since = None
        match outcome:
            case Outcome.PROVEN | Outcome.FULLY_PROVEN:
                known.proven_at, known.doubted_at = now, None
                known.proven_bytes = proven_bytes
                if outcome is Outcome.FULLY_PROVEN:
                    known.failed_at = None
            case Outcome.WRONG:
                self._doubt(known, now)
            case Outcome.SILENT:
                known.silent_since = now if known.silent_since is None else known.silent_since
                if now - known.silent_since >= SILENT_S:
                    self._doubt(known, now)
            case Outcome.LACKING | Outcome.OTHER_SET:
                pass

    def _doubt(self, known: _Known, now: float) -> None:
        """The second time in a row is not chance: something that came in between, a line that broke."""
        if known.doubted_at is None:
            known.doubted_at = now
        elif now - known.doubted_at >= self._again_s / 2:
            known.failed_at, known.doubted_at, known.proven_at = now, None, None

    def state(self, peer: PeerKey, now: float) -> HolderState:
        known = self._known.get(peer)
        if known is None:
            return HolderState.UNPROVEN
        if known.failed_at is not None and now - known.failed_at < FAILED_S:
            return HolderState.FAILED
        if known.doubted_at is not None:
            return HolderState.DOUBTED
        is_proven = known.proven_at is not None and now - known.proven_at < PROVEN_S
        return HolderState.PROVEN if is_proven else HolderState.UNPROVEN

    def counts(self, peer: PeerKey, now: float) -> bool:
        """May we rely on what it says it has?"""
        return self.state(peer, now) in (HolderState.UNPROVEN, HolderState.PROVEN)

    def failed(self, now: float) -> frozenset[PeerKey]:
        return frozenset(peer for peer in self._known if self.state(peer, now) is HolderState.FAILED)

    def proven_at(self, peer: PeerKey) -> float | None:
        known = self._known.get(peer)
        return None if known is None else known.proven_at

    def proven_bytes(self, peer: PeerKey, now: float) -> int:
        """Of ours, that it proved to have within the week; nothing of who failed since, or is doubted."""
        is_proven = self.state(peer, now) is HolderState.PROVEN
        return self._known[peer].proven_bytes if is_proven else 0

    def due_at(self, peer: PeerKey, now: float) -> float:
        """When to ask it the next time; a stranger at once."""
        known = self._known.get(peer)
        if known is None or known.asked_at is None:
            return float("-inf")
        is_soon = known.doubted_at is not None or known.last in (Outcome.SILENT, Outcome.OTHER_SET)
        return known.asked_at + (self._again_s if is_soon else self._every_s)

    def keep_only(self, peers: Collection[PeerKey], now: float) -> None:
        """Who failed and left the ring is remembered: it may be back tomorrow."""
        failed = self.failed(now)
        kept = sorted(failed - set(peers), key=lambda peer: -(self._known[peer].failed_at or 0.0))[
            :FAILED_MAX
        ]
        self._known = {
            peer: known for peer, known in self._known.items() if peer in peers or peer in frozenset(kept)
        }

    # -- over a restart -----------------------------------------------------------------------------------

    def saved(self, now: float) -> dict[PeerKey, float]:
        """Who failed, and how long ago."""
        return {peer: now - (self._known[peer].failed_at or now) for peer in sorted(self.failed(now))}

    def restore(self, failed: Mapping[PeerKey, float] | Iterable[tuple[PeerKey, float]], now: float) -> None:
        for peer, age_s in dict(failed).items():
            self._known[peer] = _Known(failed_at=now - max(0.0, age_s))


class FullHolders:
    def __init__(self, *, for_s: float = FULL_S) -> None:
        self._for_s = for_s
        self._until: dict[PeerKey, float] = {}

    def note(self, peer: PeerKey, now: float) -> None:
        self._until[peer] = now + self._for_s

    def is_full(self, peer: PeerKey, now: float) -> bool:
        return self._until.get(peer, now) > now

    def now_full(self, now: float) -> frozenset[PeerKey]:
        return frozenset(peer for peer, until in self._until.items() if until > now)

    def take_over(self, now: float) -> list[PeerKey]:
        """Those whose time is over, once: they are asked again."""
        over = sorted(peer for peer, until in self._until.items() if until <= now)
        for peer in over:
            del self._until[peer]
        return over

    def keep_only(self, peers: Collection[PeerKey]) -> None:
        self._until = {peer: until for peer, until in self._until.items() if peer in peers}
