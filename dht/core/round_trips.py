"""How long may an answer take before it is asked for again? RFC 6298's estimate, clamped by the ring.

An answer to a repeated request is not measured (Karn): nobody knows which of the copies it answers.
"""

from collections import OrderedDict
from typing import Final

TIMEOUT_MIN_S: Final = 0.5  # ring.md 4.5
TIMEOUT_MAX_S: Final = 3.0
TIMEOUT_FIRST_S: Final = 1.0  # before anything is known, as RFC 6298 says
PEERS_MAX: Final = 4_096


class RoundTrips:
    def __init__(self, peers_max: int = PEERS_MAX) -> None:
        self._known: OrderedDict[bytes, tuple[float, float]] = OrderedDict()
        self._max = peers_max

    def measured(self, peer: bytes, sample_s: float) -> None:
        known = self._known.pop(peer, None)
        if known is None:
            self._known[peer] = (sample_s, sample_s / 2)
        else:
            smooth_s, variation_s = known
            variation_s += (abs(sample_s - smooth_s) - variation_s) / 4
            self._known[peer] = (smooth_s + (sample_s - smooth_s) / 8, variation_s)
        if len(self._known) > self._max:
            self._known.popitem(last=False)

    def timeout_s(self, peer: bytes) -> float:
        known = self._known.get(peer)
        if known is None:
            return TIMEOUT_FIRST_S
        return min(max(known[0] + 4 * known[1], TIMEOUT_MIN_S), TIMEOUT_MAX_S)
