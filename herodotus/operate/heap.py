"""How does a process that runs for months give memory back?

By two rules for glibc's malloc, which are its own but for the numbers. Each thread that allocates gets one of up to
eight arenas a core; what was freed in an arena stays there, and the archive's threads come and go, so that each
arena in turn grew to what a crawl needs at its busiest: an hour of crawls took 40 MiB that nobody used. And what is
large is to be mapped and unmapped by itself; without a rule malloc learns from the first megabyte that is freed to
keep all such. Other C libraries share one heap among all threads, and keep their own rules.
"""

import ctypes
import os
from collections.abc import Mapping

ARENAS_MAX = 2
"""The main thread's and one for all others, which wait for the disk or the interpreter's lock most of the time."""
MAPPED_FROM_BYTES = 512 * 1024
"""RocksDB's tables of what is not written yet are megabytes; bodies are smaller as a rule."""
KEPT_AT_END_BYTES = 1024 * 1024
"""At an arena's end, against shrinking and growing it in turn: it saves two thirds of the page faults."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # malloc.h
_RULES = (
    (_M_ARENA_MAX, "MALLOC_ARENA_MAX", ARENAS_MAX),
    (_M_MMAP_THRESHOLD, "MALLOC_MMAP_THRESHOLD_", MAPPED_FROM_BYTES),
    (_M_TRIM_THRESHOLD, "MALLOC_TRIM_THRESHOLD_", KEPT_AT_END_BYTES),
)


def keep_heap_small(environment: Mapping[str, str] = os.environ) -> bool:
    """For a process, before its threads begin. What an operator set by glibc's own variables stands. False where there
    is no such malloc.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    tunables = environment.get("GLIBC_TUNABLES", "")
    if "glibc.malloc." in tunables:
        return False
    return all(mallopt(rule, value) for rule, name, value in _RULES if name not in environment)
