"""Since when is a key ours without a break? A steward grants nothing until all earlier grants are over.

Remembered are the arcs that were ours within the last `memory_s`; a key that was in all of them is ours for as long.
"""

from collections import deque

from dht.core.arcs import Arcs
from dht.core.ids import Key

CHANGES_MAX = 256
"""A ring that changes more often within the silence is judged by its oldest change: longer silence, never shorter."""


class Tenure:
    def __init__(self, memory_s: float) -> None:
        self._memory_s = memory_s
        self._arcs = Arcs()
        self._earlier: deque[tuple[float, Arcs]] = deque()  # and when each ended

    def change(self, arcs: Arcs, now: float) -> None:
        """From now on these are ours; nothing was, before the first call."""
        assert not self._earlier or self._earlier[-1][0] <= now, "time does not run backwards"
        if arcs == self._arcs and self._earlier:
            return
        self._earlier.append((now, self._arcs))
        self._arcs = arcs
        while len(self._earlier) > CHANGES_MAX:
            self._join_oldest()
        while len(self._earlier) > 1 and self._earlier[0][0] + self._memory_s < now:
            self._earlier.popleft()

    def lose_all(self, now: float) -> None:
        """Our knowledge may have gaps: every key of ours counts as ours from now."""
        self._earlier.append((now, Arcs()))

    def has(self, key: Key) -> bool:
        return key in self._arcs

    def opens_at(self, key: Key) -> float:
        """`memory_s` after the last moment at which the key was not ours; meaningless for one that is not."""
        for ended, arcs in reversed(self._earlier):
            if key not in arcs:
                return ended + self._memory_s
        return 0.0

    def _join_oldest(self) -> None:
        """Join the two oldest: the end of the second, with the keys that both had."""
        _, first = self._earlier.popleft()
        ended, second = self._earlier.popleft()
        self._earlier.appendleft((ended, first & second))
