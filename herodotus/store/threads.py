"""Which threads work for an archive that is open on this machine? A limited number for each lane."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
import anyio.to_thread

from herodotus.core.ports import Lane
from herodotus.home.clock import steady_seconds

T = TypeVar("T")


class ThreadWorkers:
    """Implements `Workers`."""

    has_threads = True

    def __init__(self) -> None:
        self._limiters: dict[Lane, anyio.CapacityLimiter] = {}

    def steady_s(self) -> float:
        return steady_seconds()

    def work(self, job: Callable[[], T], lane: Lane) -> Awaitable[T]:
        limiter = self._limiters.get(lane)
        if limiter is None:
            limiter = self._limiters[lane] = anyio.CapacityLimiter(lane.width)
        return anyio.to_thread.run_sync(job, limiter=limiter)
