"""How long does a datagram take from one host to another?

A pair of hosts has a base delay that stays, and each datagram some jitter on it. `Uniform` and `LogNormal`
draw the base per pair; `King` places hosts on a map with access delays of their own, so that near hosts are
near to the same others, as in the King measurements of the internet (median round trip 159 ms, mean 182 ms;
Gummadi et al. 2002).
"""

import math
import random
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol


class Latency(Protocol):
    def seconds(self, source: int, target: int, rng: random.Random) -> float: ...


def _pair_chance(seed: int, source: int, target: int) -> random.Random:
    low, high = sorted((source, target))
    return random.Random(f"{seed}/{low}/{high}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Uniform:
    """Drawn for each datagram: the harshest about order, and the quickest to draw."""

    low_s: float = 0.02
    high_s: float = 0.12

    def seconds(self, source: int, target: int, rng: random.Random) -> float:
        return self.low_s + (self.high_s - self.low_s) * rng.random()


class LogNormal:
    """`median_s` one way; sigma 0.6 puts one pair in twenty beyond 2.7 times the median."""

    def __init__(
        self, *, median_s: float = 0.05, sigma: float = 0.6, jitter: float = 0.1, seed: int = 0
    ) -> None:
        self._median_s, self._sigma, self._jitter, self._seed = median_s, sigma, jitter, seed
        self._base = lru_cache(maxsize=1 << 18)(self._draw)

    def seconds(self, source: int, target: int, rng: random.Random) -> float:
        return self._base(source, target) * (1.0 + self._jitter * rng.random())

    def _draw(self, source: int, target: int) -> float:
        chance = _pair_chance(self._seed, source, target)
        return self._median_s * math.exp(self._sigma * chance.gauss(0.0, 1.0))


class King:
    """A plane of `width_s` from side to side, five continents on it, and a log-normal access delay per
    host."""

    CONTINENTS = ((0.15, 0.3, 0.3), (0.25, 0.7, 0.1), (0.5, 0.25, 0.3), (0.8, 0.35, 0.25), (0.9, 0.85, 0.05))

    def __init__(
        self, *, width_s: float = 0.13, access_s: float = 0.012, jitter: float = 0.1, seed: int = 0
    ) -> None:
        self._width_s, self._access_s, self._jitter, self._seed = width_s, access_s, jitter, seed
        self._place = lru_cache(maxsize=1 << 18)(self._draw)

    def seconds(self, source: int, target: int, rng: random.Random) -> float:
        x1, y1, access1 = self._place(source)
        x2, y2, access2 = self._place(target)
        base = self._width_s * math.hypot(x1 - x2, y1 - y2) + access1 + access2
        return base * (1.0 + self._jitter * rng.random())

    def _draw(self, host: int) -> tuple[float, float, float]:
        chance = random.Random(f"{self._seed}/{host}")
        x, y, _ = chance.choices(self.CONTINENTS, weights=[share for _, _, share in self.CONTINENTS])[0]
        access_s = self._access_s * math.exp(0.7 * chance.gauss(0.0, 1.0))
        return chance.gauss(x, 0.06), chance.gauss(y, 0.06), access_s
