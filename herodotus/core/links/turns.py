"""When does a stand-in ask whether the owner has done its day's work? Late, rank after rank, not all at once.

The owner has the first half of the day for itself. Each stand-in looks a twelfth of the day after the previous one,
and a little later by its own key, so that not all peers of a ring look at one moment. A peer that the ring found dead
is no longer a holder, so the first live one is the owner at once; this module is about owners that live and do not
keep up.
"""

from typing import Final

OWNERS_SHARE: Final = 0.5
STEP_SHARE: Final = 0.08
JITTER_SHARE: Final = 0.04
"""Of the day. The fifth stand-in looks at 0.5 + 4 × 0.08 + 0.04 at the latest: a seventh of the day is left."""


def looks(stand_ins: int, day_length_s: float, me: bytes) -> list[float]:
    """When in a day this peer checks the keys for which it is first, second … stand-in: seconds after the day's
    start."""
    chance = int.from_bytes(me[:4], "big") / (1 << 32)
    shares = [OWNERS_SHARE + number * STEP_SHARE + chance * JITTER_SHARE for number in range(stand_ins)]
    return [min(share, 0.95) * day_length_s for share in shares]


COMPARE_SHARE: Final = 0.2
COMPARE_JITTER_SHARE: Final = 0.2
"""Before stand-ins check an owner: by then it has learned its forgotten keys again."""


def compares_at(day_length_s: float, me: bytes) -> float:
    """When in a day this peer compares its URLs with the owners' URLs: seconds after the day's start."""
    chance = int.from_bytes(me[4:8], "big") / (1 << 32)
    return (COMPARE_SHARE + chance * COMPARE_JITTER_SHARE) * day_length_s
