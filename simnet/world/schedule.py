"""What happens next, and what time is it? A virtual clock and a heap of plain tuples.

Ties go by order of scheduling, so a run has one order only. A timer is cancelled by its number and dropped
when it comes up: searching a heap costs more than letting it pass.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

Callback = Callable[..., None]


class EventQueue:
    """`now` is in seconds from the start of the world."""

    def __init__(self) -> None:
        self.now = 0.0
        self.events = 0
        self._sequence = 0
        self._heap: list[tuple[float, int, Callback, tuple[Any, ...]]] = []
        self._cancelled: set[int] = set()

    def at(self, when: float, callback: Callback, *arguments: Any) -> int:
        """A time that has passed means at once, after the entries due already. The number is for `cancel`."""
        self._sequence = number = self._sequence + 1
        heappush(self._heap, (max(self.now, when), number, callback, arguments))
        return number

    def after(self, delay_s: float, callback: Callback, *arguments: Any) -> int:
        self._sequence = number = self._sequence + 1
        heappush(self._heap, (self.now + max(delay_s, 0.0), number, callback, arguments))
        return number

    def cancel(self, number: int) -> None:
        """Cancel an event that has not happened; the caller forgets numbers of those that have."""
        self._cancelled.add(number)

    def next_time(self) -> float | None:
        heap, cancelled = self._heap, self._cancelled
        while heap and heap[0][1] in cancelled:
            cancelled.discard(heappop(heap)[1])
        return heap[0][0] if heap else None

    def run_until(self, when: float, after_each: Callable[[], None] | None = None) -> None:
        """All events up to and at `when`; then it is `when`."""
        heap, cancelled = self._heap, self._cancelled
        events = 0
        try:
            while heap and heap[0][0] <= when:
                self.now, number, callback, arguments = heappop(heap)
                if cancelled and number in cancelled:
                    cancelled.discard(number)
                    continue
                events += 1
                callback(*arguments)
                if after_each is not None:
                    after_each()
        finally:
            self.events += events
        if when > self.now:
            self.now = when
