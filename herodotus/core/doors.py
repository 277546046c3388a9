"""By which door did a capture come in, may another peer's capture come in at all, and how much of them a day?

Everybody may sign anything, so a signature alone opens no door. A capture of another peer is *crawled* if its signer
is one of those that fetch this URL and it is fresh (*late* for a week more); *healed* if two holders in different
places have the very same content; *brought in* (an import, a saved page) where the charter lets such captures
spread. Anything else is a claim, and is not stored for others (docs/protocol/replication.md 10).

The door is kept with the capture, in a field of its own. The receiver writes it: it is this peer's own judgement.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from enum import Enum
from statistics import median_low
from typing import Final

import msgspec
from cachetools import FIFOCache

from herodotus.core.captures import Deposit

DOOR: Final = "Herodotus-Door"
_VERSION: Final = "1"
_HEALED: Final = "healed"
AHEAD_S: Final = 600
"""Clocks of honest machines differ by seconds; a date further ahead is refused."""
FRESH_S: Final = 6 * 3_600
"""A capture goes to the other holders at once. So long a line may be down before it counts as late."""
LATE_S: Final = 7 * 86_400
"""A peer that was away for a week still brings what it fetched before."""
SLACK: Final = 2
"""Holders beyond k by the receiver's view: 0 to 0.3 % of keys are refused while tables differ (trust.md 1)."""


class Door(Enum):
    """The first by which a capture came into the ring."""

    CRAWLED = "crawled"
    LATE = "late"
    BROUGHT_IN = "brought-in"
    UNKNOWN = "unknown"
    """Its record is older than the doors, or those that had it did not say."""


class TurnedAway(Enum):
    """Why a capture was not let in."""

    STRANGER = "its sender is no member"
    AHEAD = "its date is ahead of this peer's clock"
    BROUGHT_IN = "it was brought in, and such captures do not spread here"
    CLAIMED = "nobody but its sender stands for it"
    UNASKED = "its signer is unknown, or others who might have it do not answer"
    QUOTA = "its signer or place sent enough today"


@dataclass(frozen=True, slots=True)
class Passage:
    first: Door
    is_healed: bool = False
    """Came here from those that had it, and not from its signer in time."""

    def __str__(self) -> str:
        return f"{self.first.value} {_HEALED}" if self.is_healed else self.first.value


NOT_SAID: Final = Passage(Door.UNKNOWN)
_FIRST: Final = {one.value: one for one in Door}


def passage_of(value: str | None) -> Passage:
    """What a record's field says; an unreadable one says nothing."""
    version, _, rest = (value or "").partition(" ")
    first, _, healed = rest.partition(" ")
    if version != _VERSION or healed not in ("", _HEALED):
        return NOT_SAID
    return Passage(_FIRST.get(first, Door.UNKNOWN), healed == _HEALED)


SHOWN_KEY: Final = 16


def door_shown(door: str, by: str) -> str:
    """What readers are told of a capture, by its door in words and its signer's key; nothing of what an owner crawled
    in time, as most is, or of what its record does not say."""
    first, _, healed = door.partition(" ")
    who = f" by {by[:SHOWN_KEY]}" if by else ""
    said = {Door.BROUGHT_IN.value: f"brought in{who}", Door.LATE.value: f"came late{who}"}.get(first, "")
    if not healed:
        return said
    return f"{said}, from other holders" if said else "from other holders"


def passage_in(deposit: Deposit) -> Passage:
    return passage_of(next((value for name, value in deposit.extra if name == DOOR), None))


def through(passage: Passage, deposit: Deposit) -> Deposit:
    """The deposit with this door, whatever it said of itself: the very same one where it says so already. The
    signature, which does not cover it, stays."""
    if [pair for pair in deposit.extra if pair[0] == DOOR] == [field_of(passage)]:
        return deposit
    kept = tuple(pair for pair in deposit.extra if pair[0] != DOOR)
    return replace(deposit, extra=(*kept, field_of(passage)))


def field_of(passage: Passage) -> tuple[str, str]:
    return DOOR, f"{_VERSION} {passage}"


def crawled_at(time_s: float, now_s: float) -> Door | None:
    """Which door an owner's capture of this date comes by; None when it is too old. Not for dates ahead."""
    age_s = now_s - time_s
    if age_s <= FRESH_S:
        return Door.CRAWLED
    return Door.LATE if age_s <= LATE_S else None


def is_ahead(time_s: float, now_s: float) -> bool:
    return time_s > now_s + AHEAD_S


DECLINED_MAX: Final = 65_536
"""Captures that were turned away: some 10 MB."""
DECLINED_S: Final = {
    TurnedAway.BROUGHT_IN: 86_400.0,
    TurnedAway.CLAIMED: 3_600.0,
    TurnedAway.QUOTA: 3_600.0,
}
"""Until one may be offered again: what nobody stood for now, others may have in an hour."""


class Declined:
    """Captures that were turned away lately: they are neither fetched from there nor sent here again and again."""

    def __init__(self) -> None:
        self._keys: FIFOCache[bytes, tuple[float, TurnedAway]] = FIFOCache(DECLINED_MAX)
        self._from: FIFOCache[tuple[bytes, bytes], float] = FIFOCache(DECLINED_MAX)

    def note(self, key: bytes, member: bytes, sender: bytes, until: float, why: TurnedAway) -> None:
        self._keys[key] = until, why
        self._from[sender, member] = until

    def why(self, key: bytes, now: float) -> TurnedAway | None:
        """None: it may be offered."""
        until, why = self._keys.get(key, (now, None))
        return why if until > now else None

    def not_from(self, sender: bytes, members: Iterable[bytes], now: float) -> list[bytes]:
        """Those that are worth fetching from there."""
        return [one for one in members if self._from.get((sender, one), now) <= now]


# -- how much a day? --------------------------------------------------------------------------------------

PROVEN_SHARE: Final = 0.01
"""Of the bytes that a signer proved to have of ours: what it may bring besides a day."""
PLACE_TIMES: Final = 4
PEERS_TIMES: Final = 4
"""Members crawl alike. A young network whose peers bring 100 MB a day each is no flood (ADR 30)."""
SIGNERS_MAX: Final = 8_192
DAY_S: Final = 86_400


QUOTAS_FORMAT: Final = 1


class QuotasFile(msgspec.Struct, frozen=True, kw_only=True):
    """`state/quotas.json`: keys in hexadecimal."""

    format: int = QUOTAS_FORMAT
    day: int = 0
    own: int = 0
    signers: dict[str, int] = msgspec.field(default_factory=dict)
    places: dict[str, int] = msgspec.field(default_factory=dict)


class Quotas:
    """Bytes that came by doors which only the signer opens, since midnight UTC. `proven`: of the bytes here a member
    proved so many to have."""

    def __init__(
        self, quota_bytes: int, proven: Callable[[bytes], int], kept: QuotasFile | None = None
    ) -> None:
        self._quota_bytes, self._proven = quota_bytes, proven
        kept = kept or QuotasFile()
        self._day, self._own = kept.day, kept.own
        self._signers = Counter({bytes.fromhex(one): size for one, size in kept.signers.items()})
        self._places = Counter({bytes.fromhex(one): size for one, size in kept.places.items()})
        self._hit: dict[bytes, int] = {}
        self._kept = kept

    @property
    def is_changed(self) -> bool:
        """Since it was kept."""
        return self._kept != self._all()

    def is_within(self, signer: bytes, place: bytes, size: int, now_s: float) -> bool:
        """Books it where it is; `give_back` if nothing came of it."""
        self._turn(now_s)
        allowed = self.allowance(signer, place)
        is_full = len(self._signers) >= SIGNERS_MAX and signer not in self._signers
        too_much = is_full or self._signers[signer] + size > allowed
        if too_much or self._places[place] + size > PLACE_TIMES * allowed:
            self._hit[signer] = self._hit.get(signer, 0) + size
            if len(self._hit) > SIGNERS_MAX:
                self._hit.popitem()
            return False
        self._signers[signer] += size
        self._places[place] += size
        return True

    def give_back(self, signer: bytes, place: bytes, size: int) -> None:
        """It was here already, or could not be stored: another may have sent it to use up the signer's day."""
        self._signers[signer] = max(0, self._signers[signer] - size)
        self._places[place] = max(0, self._places[place] - size)

    def brought_own(self, size: int) -> None:
        """This peer crawled so much itself. From any thread."""
        self._own += size

    def allowance(self, signer: bytes, place: bytes) -> int:
        """Of a signer today. Half of the places, ours among them, bring a fourth of the last term or more: one person's
        keys raise it only from half of all places."""
        elsewhere = [self._own, *(size for one, size in self._places.items() if one != place)]
        usual = PEERS_TIMES * median_low(elsewhere)
        return max(self._quota_bytes + int(PROVEN_SHARE * self._proven(signer)), usual)

    def hit(self, now_s: float) -> dict[bytes, int]:
        """The signers that were held up today, and the bytes that were turned away."""
        self._turn(now_s)
        return self._hit

    def keep(self) -> QuotasFile:
        """For the peer's next life."""
        self._kept = self._all()
        return self._kept

    def _all(self) -> QuotasFile:
        return QuotasFile(
            day=self._day,
            own=self._own,
            signers={one.hex(): size for one, size in self._signers.items() if size},
            places={one.hex(): size for one, size in self._places.items() if size},
        )

    def _turn(self, now_s: float) -> None:
        day = int(now_s // DAY_S)
        if day != self._day:
            self._day, self._own, self._hit = day, 0, {}
            self._signers.clear()
            self._places.clear()


# -- which clock is wrong, ours or theirs? ----------------------------------------------------------------

PLACES_TO_DOUBT: Final = 3
DOUBTED_S: Final = 6 * 3_600.0
_PLACES_MAX: Final = 256


class ClockDoubts:
    """Notes which places disagree with our clock. One of them is wrong itself; three of them mean that we are."""

    def __init__(self) -> None:
        self._theirs: FIFOCache[Hashable, float] = FIFOCache(_PLACES_MAX)
        self._ours: FIFOCache[Hashable, float] = FIFOCache(_PLACES_MAX)

    def came_ahead(self, place: Hashable, now: float) -> None:
        """A capture came from there with a date ahead of our clock. `now` runs with the machine, not with its
        clock."""
        self._theirs[place] = now

    def was_ahead(self, place: Hashable, now: float) -> None:
        """There our capture was refused, as its date was ahead of their clock."""
        self._ours[place] = now

    def ours(self, now: float, others: int) -> str:
        """`behind` or `ahead` where our clock must be wrong, "" where nothing says so. `others` are the places that
        there are besides ours."""
        needed = max(1, min(PLACES_TO_DOUBT, others))
        for word, noted in (("behind", self._theirs), ("ahead", self._ours)):
            if sum(now - at < DOUBTED_S for at in noted.values()) >= needed:
                return word
        return ""
