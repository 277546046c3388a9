"""How much may one of very many strangers ask for? A bucket of tokens each, in a table of bounded size.

A bucket fills with time and is emptied by questions. A full bucket tells nothing, so only the others are remembered.
If there are too many, the one that was idle for longest is forgotten, which fills it.
"""

from collections import OrderedDict
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    per_s: float
    burst: float


class Allowances:
    def __init__(self, rate: Rate, *, remembered_max: int) -> None:
        self._rate = rate
        self._remembered_max = remembered_max
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, who: str, cost: float, now: float) -> float:
        """0: taken. Else nothing was, and so many seconds later it can be. What costs more than a full bucket takes
        a full one."""
        tokens, at = self._buckets.pop(who, (self._rate.burst, now))
        tokens = min(self._rate.burst, tokens + max(0.0, now - at) * self._rate.per_s)
        wanted = min(cost, self._rate.burst)
        is_enough = tokens >= wanted
        self._buckets[who] = tokens - wanted if is_enough else tokens, now
        while len(self._buckets) > self._remembered_max:
            self._buckets.popitem(last=False)
        return 0.0 if is_enough else (wanted - tokens) / self._rate.per_s
