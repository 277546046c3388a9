"""How does moving old bytes stay out of the way of new ones?

Sealing and compaction say what they just moved; if it was too much for the time that passed, they wait. The
wait ends early when the archive closes.
"""

from collections.abc import Callable

BURST_S = 0.1
"""How much of a second's share may go at once: more would be felt by readers of the same disk."""


class Throttle:
    """A bucket of bytes that fills with time. `wait` waits so many seconds, or less."""

    def __init__(self, bytes_per_s: int, now: Callable[[], float], wait: Callable[[float], object]) -> None:
        self._bytes_per_s = bytes_per_s
        self._now = now
        self._wait = wait
        self._last = now()
        self._owed_bytes = 0.0

    def __call__(self, moved: int) -> None:
        now = self._now()
        passed = (now - self._last) * self._bytes_per_s
        # What was not used does not pile up: the disk is not faster after a pause.
        self._owed_bytes = max(0.0, self._owed_bytes - passed) + moved
        self._last = now
        wait_s = self._owed_bytes / self._bytes_per_s
        if wait_s > BURST_S:
            self._wait(wait_s)
