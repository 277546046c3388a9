"""What time is it on this machine? The one module that reads its clocks; everything else can be given another."""

import time


def unix_seconds() -> float:
    return time.time()


def steady_seconds() -> float:
    """Never set back; it stands still while the machine sleeps."""
    return time.monotonic()


def elapsed_seconds() -> float:
    """As `steady_seconds`, but it runs on while the machine sleeps, if the system can tell (Linux)."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def local_offset_seconds(unix_s: float) -> float:
    """By how much this machine's local time is ahead of UTC then."""
    return float(time.localtime(unix_s).tm_gmtoff)


def processor_seconds() -> float:
    """That this thread had of a processor."""
    return time.thread_time()
