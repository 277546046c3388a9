"""Whose turn is it? Origins in the order in which they may be visited, handed to connections that wait.

One connection works on one origin at a time, so an origin never sees two requests at once. A waiting
connection is woken alone, by its own event: with hundreds of them a common signal would cost more than the
fetches.
"""

import heapq
import math
from collections import deque
from collections.abc import Callable

import anyio

from crawler.clocks import loop_clock
from crawler.core.urls import Origin

LONG_REST_S = 60.0
"""Origins that rest longer leave room for others, so that a thousand of them do not keep those from their turn."""
COUNTED_EVERY_S = 1.0


class Rota:
    """`activate` gives up to n further origins that have something due, `rest_s` how long each rests before its first
    turn. It closes when all that is left rests longer than `patience_s`. Used from one event loop.
    """

    def __init__(
        self,
        activate: Callable[[int], list[Origin]],
        *,
        active_max: int,
        rest_s: Callable[[Origin], float] = lambda origin: 0.0,
        patience_s: float = math.inf,
        looks_at: Callable[[], float | None] = lambda: None,
    ) -> None:
        """`looks_at`: when `activate` finds something by itself. It keeps the rota from closing no more than new links
        that may come."""
        self._looks_at = looks_at
        self._activate = activate
        self._rest_s = rest_s
        self._now = loop_clock()
        self._active_max = active_max
        self._patience_s = patience_s
        self._resting = 0
        self._counted_at = -math.inf
        self.has_lost_patience = False
        self._ready: list[tuple[float, int, Origin]] = []
        self._turn = 0
        self._busy = 0
        self._waiting: deque[anyio.Event] = deque()
        self._is_closed = False

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    @property
    def busy(self) -> int:
        return self._busy

    async def next(self) -> Origin | None:
        """The next origin that may be visited now; None when nothing is due and nobody is busy, or closed."""
        # From this look at the heap to the place in `_waiting` nothing awaits. So whatever becomes due is either seen
        # here or wakes somebody: no wake-up is lost between the two, and no lock is needed.
        while not self._is_closed:
            now = self._now()
            if self._ready and self._ready[0][0] <= now:
                return self._start()
            activated = self._activate(self._room(now))
            for origin in activated:
                self._push(origin, now + max(0.0, self._rest_s(origin)))
            if self._ready and self._ready[0][0] <= now:
                # One look at the disk may have found turns for many; others slept while it was made.
                self.wake(len(self._ready) - 1)
                return self._start()
            if activated:
                continue  # those rest; there may be room for more
            if not self._busy and (not self._ready or self._ready[0][0] > now + self._patience_s):
                self.has_lost_patience = bool(self._ready)
                self.close()
                break
            turns = (self._ready[0][0] if self._ready else None, self._looks_at())
            await self._wait(min((at for at in turns if at is not None), default=None))
        return None

    def resting(self, longer_than_s: float) -> list[tuple[float, Origin]]:
        """Origins whose turn is not within so many seconds, and when it is; the soonest first."""
        limit = self._now() + longer_than_s
        return sorted((at, origin) for at, _, origin in self._ready if at > limit)

    def left(self) -> list[Origin]:
        """Those that were not done when it was closed."""
        return [origin for _, _, origin in self._ready]

    def again(self, origin: Origin, at: float) -> None:
        """The visit is over; the origin's next turn is at `at`."""
        assert self._busy > 0, "an origin that was handed out"
        self._busy -= 1
        self._push(origin, at)
        self.wake()

    def done(self) -> None:
        """The visit is over and the origin has nothing left."""
        assert self._busy > 0, "an origin that was handed out"
        self._busy -= 1
        self.wake()

    def wake(self, count: int = 1) -> None:
        """Something may have become due: that many waiting connections look again."""
        for _ in range(min(count, len(self._waiting))):
            self._waiting.popleft().set()

    def close(self) -> None:
        self._is_closed = True
        self.wake(len(self._waiting))

    def _room(self, now: float) -> int:
        """For so many origins more; as many again as may be active may rest for long beside them."""
        room = self._active_max - len(self._ready) - self._busy
        # `_resting` only grows between two counts, as a heap does not say which of its turns came near. An exact
        # number would cost a walk over the heap at each turn; too much room for a second costs a few origins.
        if self._resting and room <= 0 and now >= self._counted_at + COUNTED_EVERY_S:
            self._counted_at = now
            self._resting = len(self.resting(LONG_REST_S))
        return max(0, room + min(self._resting, self._active_max))

    def _start(self) -> Origin:
        self._busy += 1
        return heapq.heappop(self._ready)[2]

    def _push(self, origin: Origin, at: float) -> None:
        self._turn += 1  # among equal times the first in goes first, and origins are never compared
        self._resting += at > self._now() + LONG_REST_S  # counted again from time to time
        heapq.heappush(self._ready, (at, self._turn, origin))

    async def _wait(self, until: float | None) -> None:
        event = anyio.Event()
        self._waiting.append(event)
        try:
            if until is None:
                await event.wait()
            else:
                with anyio.CancelScope(deadline=until):
                    await event.wait()
        finally:
            # `wake` took it out when it set it. One whose time came, or whose task ended, is still in the queue, where
            # it would swallow a wake-up that another connection needs.
            if not event.is_set():
                self._waiting.remove(event)
