"""What time is it? The one place that reads the machine's clocks, so that everything else can be given another."""

import time
from datetime import UTC, datetime


def unix_seconds() -> float:
    return time.time()


def utc_now() -> datetime:
    return datetime.now(UTC)


def local_offset_seconds(unix_s: float) -> float:
    """What this machine's local time is ahead of UTC then."""
    return float(time.localtime(unix_s).tm_gmtoff)


def monotonic_seconds() -> float:
    """For how long something took; never set back."""
    return time.monotonic()


def waking_seconds() -> float:
    """As `monotonic_seconds`, but it goes on while the machine sleeps, where the system can tell (Linux)."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def slept_seconds() -> float:
    """From one look to the next it grows by as long as the machine slept, and `monotonic_seconds` stood still."""
    return waking_seconds() - monotonic_seconds()
