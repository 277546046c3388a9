"""How fast does a repair go, and when will it be done? Counted over the last ten minutes."""

from collections import deque

SPAN_S = 600.0
SAMPLES_MAX = 64


class Pace:
    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque(maxlen=SAMPLES_MAX)

    def note(self, done: int, now: float) -> None:
        """`done` is of all time; it never falls."""
        self._samples.append((now, done))
        while now - self._samples[0][0] > SPAN_S:
            self._samples.popleft()

    def left_s(self, left: int) -> int | None:
        """For so much more; None when nothing was done lately, so that nobody can tell."""
        if not left:
            return 0
        if len(self._samples) < 2:
            return None
        (began, before), (now, done) = self._samples[0], self._samples[-1]
        return round(left * (now - began) / (done - before)) if done > before else None
