"""What is a lease among peers, and how long may it last? What a host's steward and those who ask him mean.

Times are moments of one peer's own clock. What travels is the distance from now; who receives it knows the moment
only to within the call's duration, and takes the later beginning and the earlier end, so no clocks need to agree.
"""

from dataclasses import dataclass
from typing import Self

from crawler.core.politeness import OriginReport, PolitenessPolicy

LIFE_MIN_S, LIFE_MAX_S = 2.0, 60.0
FLOORS_IN_A_LIFE = 30.0
"""A lease of a minute at the public floor of 2 s: some 25 fetches for one round trip."""
STARTS_MAX = 1_024

Holder = bytes
"""The holder of a window: a peer's key, and for addresses also the host on whose behalf."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTerms:
    """What all members derive from the charter, so that nobody has to tell."""

    policy: PolitenessPolicy
    life_s: float
    """Every lease ends so long after it was granted, at most."""
    window_s: float
    silent_s: float
    """How long a new steward grants nothing: all leases of another are over, and a delay has passed."""
    slack_s: float
    """How late a start may be: what a call may take, and a busy loop."""

    @classmethod
    def of(cls, policy: PolitenessPolicy) -> Self:
        life_s = min(max(FLOORS_IN_A_LIFE * policy.delay_floor_s, LIFE_MIN_S), LIFE_MAX_S)
        terms = cls(
            policy=policy,
            life_s=life_s,
            # Half a life to be used in, so that a window may begin up to half a life after it was promised.
            window_s=life_s / 2,
            # The last lease of the steward before ends within a life; the host then rests as after any fetch.
            silent_s=life_s + measured_delay_max_s(policy),
            slack_s=life_s / 8 if life_s < 8.0 else 1.0,
        )
        assert 0 < terms.slack_s < terms.window_s < terms.life_s <= terms.silent_s
        return terms


def measured_delay_max_s(policy: PolitenessPolicy) -> float:
    """A slow answer makes no longer rest than a new steward's silence covers."""
    return min(policy.delay_max_s, FLOORS_IN_A_LIFE * policy.delay_floor_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """`count` starts from `starts_at` to `ends_at`, `spacing_s` apart at least."""

    holder: Holder
    number: int
    starts_at: float
    ends_at: float
    count: int
    spacing_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRefusal:
    """No, and asking again is useless; the word is one of the protocol's."""

    reason: str


@dataclass(slots=True)
class HeldWindow:
    """A window as its holder sees it, and what has been done with it."""

    number: int
    starts_at: float
    ends_at: float
    left: int
    spacing_s: float
    fetches: int = 0
    status: int | None = None
    duration_s: float = 0.0
    retry_after_s: float | None = None
    next_start_at: float = 0.0

    @classmethod
    def received(
        cls,
        number: int,
        starts_in_s: float,
        lasts_s: float,
        count: int,
        spacing_s: float,
        *,
        asked: float,
        got: float,
    ) -> Self:
        """Asked and got by our clock: the true beginning is not later, the true end not earlier than ours."""
        # The steward answered at some moment between the two, so its beginning is at most `got + starts_in_s` and its
        # end at least `asked + starts_in_s + lasts_s`. Our window lies within its window, for any delay on the way.
        assert asked <= got, "this clock is never set back"
        return cls(
            number=number,
            starts_at=got + starts_in_s,
            ends_at=asked + starts_in_s + lasts_s,
            left=count,
            spacing_s=spacing_s,
        )

    def opens_at(self) -> float:
        """When the next start is allowed by this window."""
        return max(self.starts_at, self.next_start_at)

    def is_over(self, now: float) -> bool:
        return not self.left or now > self.ends_at or self.opens_at() > self.ends_at

    def start(self, now: float) -> None:
        assert self.left > 0, "asked `is_over` before"
        self.left -= 1
        self.next_start_at = now + self.spacing_s

    def note(self, report: OriginReport) -> None:
        """A fetch that it allowed ended."""
        self.fetches += report.fetches
        self.status = report.status
        self.duration_s = max(self.duration_s, report.duration_s)
        self.retry_after_s = report.retry_after_s

    def is_used_up(self) -> bool:
        """All that it allowed was done: more would have been wanted."""
        return not self.left
