"""How fast may copies travel? As fast as the volunteer said, each way, with a second's worth at once."""

from collections.abc import Callable

import anyio


class Budget:
    def __init__(self, bytes_per_s: float, now: Callable[[], float] = anyio.current_time) -> None:
        self._rate = bytes_per_s
        self._now = now
        self._free_at = 0.0
        self.spent = 0

    async def spend(self, size: int) -> None:
        """Returns when so many bytes may have travelled; the next one waits for what this one took."""
        now = self._now()
        self.spent += size
        self._free_at = max(self._free_at, now - 1.0) + size / self._rate
        if self._free_at > now:
            await anyio.sleep(self._free_at - now)
