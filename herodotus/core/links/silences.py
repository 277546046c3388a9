"""Which peers are not called for a while? Those that did not answer. Each further silence lengthens the pause.

A walk visits the ring again and again. It must not wait for a silent peer until the deadline each time.
"""

from dataclasses import dataclass
from random import Random
from typing import Final

from cachetools import FIFOCache

FIRST_S: Final = 5.0
LONGEST_S: Final = 300.0
PEERS_MAX: Final = 4_096
"""The peer with the oldest silence is forgotten, and called once too often."""


@dataclass(slots=True)
class _Silence:
    lasts_s: float
    until: float


class Silences:
    def __init__(self, random: Random) -> None:
        self._random = random
        self._known: FIFOCache[bytes, _Silence] = FIFOCache(PEERS_MAX)

    def __len__(self) -> int:
        return len(self._known)

    def is_silent(self, peer: bytes, now: float) -> bool:
        silence = self._known.get(peer)
        return silence is not None and now < silence.until

    def failed(self, peer: bytes, now: float, *, asks_for_s: float = 0.0) -> None:
        """It did not answer, or wants nothing for so long."""
        before = self._known.get(peer)
        lasts_s = min(2 * before.lasts_s, LONGEST_S) if before is not None else FIRST_S
        until = now + max(lasts_s * self._random.uniform(0.8, 1.2), min(asks_for_s, LONGEST_S))
        self._known[peer] = _Silence(lasts_s, until)

    def answered(self, peer: bytes) -> None:
        self._known.pop(peer, None)
