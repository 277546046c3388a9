"""What time is it? The one place that reads the machine's clocks, so that everything else can be given another."""

import time
from datetime import UTC, datetime


def unix_seconds() -> float:
    return time.time()


def utc_now() -> datetime:
    return datetime.now(UTC)


def monotonic_seconds() -> float:
    """For how long something took; never set back."""
    return time.monotonic()
