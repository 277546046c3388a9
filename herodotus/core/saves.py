"""What became of a page that somebody asked to save?"""

from dataclasses import dataclass
from enum import Enum


class SaveResult(Enum):
    SAVED = "saved"
    UNCHANGED = "unchanged"
    """Unchanged: the version of `time_s` is still the current one."""
    REFUSED = "refused"
    """By its owner's rules, or by ours: asking again is of no use."""
    FAILED = "failed"
    LATER = "later"
    """Its turn comes: the host must rest, or it takes long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveOutcome:
    result: SaveResult
    url: str
    time_s: int = 0
    """Of the version that there is now, for SAVED and UNCHANGED."""
    reason: str = ""
    """A sentence without its first word's capital, where it was not stored."""
    retry_after_s: float = 0.0
