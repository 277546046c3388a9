"""What is the world to a daemon? This machine: its clocks, its chance and its threads.

The one module that reads the system's clocks, so that everything else can be given another.
"""

import os
import random
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.to_thread

from crawler.core.rows import RowLimits
from crawler.rocks import RocksRows
from herodotus.core.ports import Lane
from herodotus.store.slices import LocalStorage

T = TypeVar("T")


def unix_seconds() -> float:
    return time.time()


def utc_now() -> datetime:
    return datetime.now(UTC)


class ThreadWorkers:
    """Implements `Workers`: each lane has threads of its own."""

    has_threads = True

    def __init__(self) -> None:
        self._limiters: dict[Lane, anyio.CapacityLimiter] = {}

    def steady_s(self) -> float:
        return time.monotonic()

    def work(self, job: Callable[[], T], lane: Lane) -> Awaitable[T]:
        limiter = self._limiters.get(lane)
        if limiter is None:
            limiter = self._limiters[lane] = anyio.CapacityLimiter(lane.width)
        return anyio.to_thread.run_sync(job, limiter=limiter)


class Machine(ThreadWorkers, LocalStorage):
    """Implements `herodotus.world.World`."""

    def __init__(self) -> None:
        super().__init__()
        self.chance: random.Random = random.SystemRandom()
        self.process_id = os.getpid()

    def unix_s(self) -> float:
        return unix_seconds()

    def elapsed_s(self) -> float:
        return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))

    def local_offset_s(self, unix_s: float) -> float:
        return float(time.localtime(unix_s).tm_gmtoff)

    def rows(self, folder: Path, limits: RowLimits) -> RocksRows:
        return RocksRows(folder, limits)
