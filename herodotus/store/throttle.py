"""How does moving old bytes stay out of the way of new ones?

Sealing and compaction report the bytes that they moved. If these were too many for the time that passed, they wait.
The wait ends early when the archive closes.
"""

from collections.abc import Callable

from dht.core.limits import Bucket, Rate

BURST_S = 0.1
"""How much of a second's share may go at once: more would be felt by readers of the same disk."""


class Throttle:
    """A bucket of bytes that fills with time. `wait` waits for the given seconds, or less."""

    def __init__(self, bytes_per_s: int, now: Callable[[], float], wait: Callable[[float], object]) -> None:
        self._bucket = Bucket(Rate(per_second=bytes_per_s, burst=max(1.0, bytes_per_s * BURST_S)), now())
        self._now = now
        self._wait = wait

    def __call__(self, moved: int) -> None:
        bucket, now = self._bucket, self._now()
        bucket.spend(now, moved)
        if bucket.tokens < 0:
            self._wait(bucket.wait_s(now, bucket.rate.burst))
