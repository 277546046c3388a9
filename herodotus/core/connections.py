"""How many connections may a peer have open, and which of its parts may have one more?

A home router keeps a row for each connection and forgets some when its table is full, which then breaks those of the
whole household. So one bound holds for all TCP connections to other peers and to sites together. Each use has a floor
that is always kept free for it; what is left over belongs to whoever comes first. So no use can starve another, and
connections never exceed the bound: those open, and the floors not yet taken, fit into it together.
"""

from collections import Counter
from enum import Enum
from typing import Final


class Use(Enum):
    WEB = "sites"
    CALLED = "calls of others"
    CALLING = "calls to others"
    READING = "readers' questions to other portals"


FLOORS: Final = {Use.WEB: 0.36, Use.CALLED: 0.2, Use.CALLING: 0.2, Use.READING: 0.04}
"""Of the bound. The rest, a fifth, is for whoever comes first: a relay's kept lines, a day's round of links, or
connections to sites that are kept for the next page."""
NO_BOUND: Final = 1_000_000
"""Of a network on one machine or in one house, which no router stands before."""


class Connections:
    def __init__(self, most: int) -> None:
        self.floors = {use: max(1, int(most * share)) for use, share in FLOORS.items()}
        assert sum(self.floors.values()) <= most, "a bound has room for one of each at least"
        self._most = most
        self._open: Counter[Use] = Counter()

    def of(self, use: Use) -> int:
        return self._open[use]

    def take(self, use: Use) -> bool:
        """Whether there was room for one more, which is then taken."""
        if self._open[use] >= self.floors[use] and self._spoken_for() >= self._most:
            return False
        self._open[use] += 1
        assert self._spoken_for() <= self._most
        return True

    def leave(self, use: Use) -> None:
        assert self._open[use] > 0, "nobody leaves who did not come"
        self._open[use] -= 1

    def status(self) -> dict[str, int]:
        """Those open, by use."""
        return {use.value: self._open[use] for use in Use}

    def _spoken_for(self) -> int:
        return sum(max(self._open[use], floor) for use, floor in self.floors.items())

    def giving(self, use: Use) -> list[Use]:
        """Whose connections at rest could make room for this use: its own, and of others what is above their floor."""
        above = [other for other in Use if other is not use and self._open[other] > self.floors[other]]
        return [*above, use]
