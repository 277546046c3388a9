"""Which holders have no room, and until when is nothing sent to them?

A peer whose disk is full says so of each capture that it would take (`full`, replication.md 3), or refuses a whole
call. Nothing is sent to it for an hour: what it would answer is known, and each try costs its line and ours. What it
has counts; what it lacks does not, and the next peer on the ring gets that meanwhile.
"""

from collections.abc import Collection
from typing import Final

from herodotus.core.copies import PeerKey

FULL_S: Final = 3_600.0
"""Until it is asked again: an operator who makes room does so in hours, not in minutes."""


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
