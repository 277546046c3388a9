"""How does a process that runs for months give memory back, and what need its collector not look at?

By two settings of glibc's malloc. Each allocating thread gets one of up to eight arenas a core, and freed memory stays
in its arena. The archive's threads come and go, so each arena in turn grew to what a busy crawl needs: an hour of
crawls held 40 MiB that nobody used. Large blocks are to be mapped and unmapped by themselves; otherwise malloc learns
from the first freed megabyte to keep all of them. Other C libraries share one heap and keep their own rules.

What is freed in the midst of an arena stays, too: a site of crowded pages left 70 MB there between two pages. So malloc
is told now and then to give it back.
"""

import contextlib
import ctypes
import gc
import os
from collections.abc import Callable, Iterator, Mapping

import anyio

ARENAS_MAX = 2
"""The main thread's, and one for all others: they mostly wait for the disk or the interpreter's lock."""
MAPPED_FROM_BYTES = 512 * 1024
"""RocksDB's tables of what is not written yet are megabytes; bodies are smaller as a rule."""
KEPT_AT_END_BYTES = 1024 * 1024
"""Kept at an arena's end, so that it does not shrink and grow in turn: saves two thirds of the page faults."""

LOOK_EVERY_S = 0.25
"""Large pages come faster than one a second. A look costs less than a tenth of a millisecond."""
GIVEN_BACK_FROM_BYTES = 4 * 1024 * 1024
"""So much more must be free than after the last time: 8 MB take some 2 ms."""

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


class _Mallinfo2(ctypes.Structure):
    """malloc.h"""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


class Remains:
    """Freed memory that malloc keeps. `free` says how much there is, `trim` gives all of it back."""

    def __init__(self, free: Callable[[], int], trim: Callable[[], object]) -> None:
        self._free, self._trim = free, trim
        self._least = free()
        """Since it was given back: what is free and given back already counts as free, too."""

    def look(self) -> bool:
        """Whether something was given back."""
        free = self._free()
        self._least = min(self._least, free)
        if free - self._least < GIVEN_BACK_FROM_BYTES:
            return False
        self._trim()
        self._least = self._free()
        return True


def remains_of_malloc() -> Remains | None:
    """None without glibc of 2021 or later."""
    try:
        libc = ctypes.CDLL(None)
        info, trim = libc.mallinfo2, libc.malloc_trim
    except (AttributeError, OSError):
        return None
    info.restype, info.argtypes = _Mallinfo2, []
    trim.restype, trim.argtypes = ctypes.c_int, [ctypes.c_size_t]
    return Remains(lambda: int(info().fordblks), lambda: trim(0))


async def give_back_remains(remains: Remains | None) -> None:
    """Until cancelled."""
    while remains is not None:
        await anyio.sleep(LOOK_EVERY_S)
        remains.look()


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Around imports that stay until the end. No collection walks over them: meanwhile that took a tenth of a start's
    processor time, and later 5 to 10 % of a crawl's."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()
