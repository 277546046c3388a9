"""What does the portal count of its readers? For its operator."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class PortalFigures:
    """Since the peer runs."""

    answered: Mapping[int, int] = field(default_factory=dict)
    """Requests by status."""
    connections_refused: int = 0
    slow_readers_left: int = 0
    malformed: int = 0
    rationed: int = 0
    saves_asked: int = 0
    answers_disbelieved: int = 0
    """Of other peers, as parts of an answer of all."""
