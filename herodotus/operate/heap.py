"""How does a process that runs for months give memory back, and what need its collector not look at?

By two settings of glibc's malloc. Each allocating thread gets one of up to eight arenas a core, and freed memory stays
in its arena. The archive's threads come and go, so each arena in turn grew to what a busy crawl needs: an hour of
crawls held 40 MiB that nobody used. Large blocks are to be mapped and unmapped by themselves; otherwise malloc learns
from the first freed megabyte to keep all of them. Other C libraries share one heap and keep their own rules.
"""

import ctypes
import gc
import os
from collections.abc import Mapping

ARENAS_MAX = 2
"""The main thread's, and one for all others: they mostly wait for the disk or the interpreter's lock."""
MAPPED_FROM_BYTES = 512 * 1024
"""RocksDB's tables of what is not written yet are megabytes; bodies are smaller as a rule."""
KEPT_AT_END_BYTES = 1024 * 1024
"""Kept at an arena's end, so that it does not shrink and grow in turn: saves two thirds of the page faults."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # malloc.h
_RULES = (
    (_M_ARENA_MAX, "MALLOC_ARENA_MAX", ARENAS_MAX),
    (_M_MMAP_THRESHOLD, "MALLOC_MMAP_THRESHOLD_", MAPPED_FROM_BYTES),
    (_M_TRIM_THRESHOLD, "MALLOC_TRIM_THRESHOLD_", KEPT_AT_END_BYTES),
)


def keep_heap_small(environment: Mapping[str, str] = os.environ) -> bool:
    """Call before the process starts threads. An operator's own glibc variables win. False without such a malloc."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    tunables = environment.get("GLIBC_TUNABLES", "")
    if "glibc.malloc." in tunables:
        return False
    return all(mallopt(rule, value) for rule, name, value in _RULES if name not in environment)


def keep_imports_out_of_collections() -> None:
    """Call once everything is imported. It stays until the end, so no collection need walk over it: that took 5 to 10 %
    of a crawl's CPU time."""
    gc.collect()
    gc.freeze()
