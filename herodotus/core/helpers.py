"""How far does an owner trust the peers that fetch for it? How much each may have, and which results are fetched again.

A helper is a peer that owns nothing, because nobody can call it. Its key costs nothing, so its word is worth what was
looked at: of its first results every second is fetched again, later one in twenty. A result that differs twice from
what the origin says to the owner itself brings back every second; the third such one ends the trust for 30 days.

Shares are of the owner's day: what it fetched so far today, or all of yesterday if that was more.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Final

import msgspec

FORMAT: Final = 1
FIRST_RESULTS: Final = 50
"""Of a new helper's results, so many are looked at with `CHECKS_MANY`."""
WATCHED_RESULTS: Final = 200
"""So many after a difference."""
CHECKS_MANY: Final = 0.5
CHECKS_FEW: Final = 0.05
DIFFERENCES_MAX: Final = 3
"""One in twenty altered is found after 115 results at the median with these four (lines.md 9)."""
BARRED_S: Final = 30 * 86_400.0
YOUNG_SHARE: Final = 0.05
KNOWN_SHARE: Final = 0.30
ALL_YOUNG_SHARE: Final = 0.15
"""Keys cost nothing: a hundred young helpers together have no more than three."""
ALL_SHARE: Final = 0.5
YOUNG_S: Final = 7 * 86_400.0
"""As long as a member's probation. It must have brought `KNOWN_RESULTS` as well."""
KNOWN_RESULTS: Final = 200
LEAST_BATCH: Final = 8
LEAST_EVERY_S: Final = 3_600.0
"""Once in so long a helper has a small batch, however small the owner's day is."""
LEAST_HELPERS: Final = 16
"""So many helpers have that batch within `LEAST_EVERY_S`: an hour's 128 fetches for keys that cost nothing."""
LOST_MAX: Final = 3
"""So many items in a row without a result: then the helper rests."""
REST_FIRST_S: Final = 60.0
REST_MAX_S: Final = 86_400.0
HELPERS_MAX: Final = 2_048
"""Remembered: some 0.3 MB on disk, and a hundred times what an owner serves at a time."""


class Verdict(Enum):
    """What looking again showed."""

    SAME = "same"
    OTHER = "other"
    """The origin said the same to us twice, and not what the helper brought."""
    CHANGING = "changing"
    """The origin says something else each time: nothing is learned."""


class HelperRecord(msgspec.Struct, kw_only=True):
    """Times are seconds since 1970."""

    first_s: int
    last_s: int = 0
    results: int = 0
    watched: int = 0
    """Results that are still looked at with `CHECKS_MANY` after a difference."""
    differences: int = 0
    barred_until_s: int = 0
    lost: int = 0
    """Items in a row that had no result."""
    rests_until_s: int = 0
    today: int = 0
    least_s: int = 0
    """When its last small batch began."""
    least_left: int = 0


class HelpersFile(msgspec.Struct, kw_only=True):
    """`state/helpers.json`: keys in hexadecimal."""

    format: int = FORMAT
    day: int = 0
    fetched: int = 0
    yesterday: int = 0
    helpers: dict[str, HelperRecord] = msgspec.field(default_factory=dict)


@dataclass(slots=True)
class HelpersCounts:
    """Since the start."""

    given: int = 0
    brought: int = 0
    checked: int = 0
    differed: int = 0
    changing: int = 0
    lost: int = 0
    declined: int = 0
    barred: int = 0


class HelperBook:
    """Pure: the caller brings chance, the day and the time. The times of a clock that is set back do no harm."""

    def __init__(self, chance: Random, kept: HelpersFile | None = None) -> None:
        kept = kept or HelpersFile()
        self._chance = chance
        self._day, self._fetched, self._yesterday = kept.day, kept.fetched, kept.yesterday
        self._helpers = {bytes.fromhex(key): record for key, record in kept.helpers.items()}
        self._least_times: deque[float] = deque(maxlen=LEAST_HELPERS)
        self.counts = HelpersCounts()
        self.is_changed = False

    # -- the owner's day

    def start_day(self, day: int) -> None:
        """Again for the same day: nothing happens."""
        if day == self._day:
            return
        self._yesterday = self._fetched if day == self._day + 1 else 0
        self._day, self._fetched = day, 0
        for record in self._helpers.values():
            record.today = 0
        self.is_changed = True

    def fetched(self, count: int) -> None:
        """The owner's day has so many fetches more, whoever made them."""
        self._fetched += count

    # -- how much

    def may_have(self, peer: bytes, now_s: float) -> int:
        """How many items the helper may be given now."""
        record = self._helpers.get(peer)
        if record is not None and now_s < max(record.barred_until_s, record.rests_until_s):
            return 0
        return max(self._share_left(peer, record, now_s), self._least_left(record, now_s))

    def give(self, peer: bytes, now_s: float) -> None:
        """One item, which `may_have` allowed."""
        record = self._record(peer, now_s)
        if self._share_left(peer, record, now_s) <= 0:
            if now_s - record.least_s >= LEAST_EVERY_S:
                record.least_s, record.least_left = int(now_s), LEAST_BATCH
                self._least_times.append(now_s)
            record.least_left -= 1
        record.today += 1
        self.counts.given += 1
        self.is_changed = True

    def is_barred(self, peer: bytes, now_s: float) -> bool:
        record = self._helpers.get(peer)
        return record is not None and now_s < record.barred_until_s

    def is_young(self, record: HelperRecord | None, now_s: float) -> bool:
        return record is None or now_s - record.first_s < YOUNG_S or record.results < KNOWN_RESULTS

    def _share_left(self, peer: bytes, record: HelperRecord | None, now_s: float) -> int:
        day = max(self._fetched, self._yesterday)
        all_left = int(ALL_SHARE * day) - sum(one.today for one in self._helpers.values())
        today = record.today if record is not None else 0
        if not self.is_young(record, now_s):
            return min(all_left, int(KNOWN_SHARE * day) - today)
        young = sum(one.today for one in self._helpers.values() if self.is_young(one, now_s))
        return min(all_left, int(ALL_YOUNG_SHARE * day) - young, int(YOUNG_SHARE * day) - today)

    def _least_left(self, record: HelperRecord | None, now_s: float) -> int:
        if record is not None and now_s - record.least_s < LEAST_EVERY_S:
            return record.least_left
        lately = sum(now_s - at < LEAST_EVERY_S for at in self._least_times)
        return LEAST_BATCH if lately < LEAST_HELPERS else 0

    # -- what it brought

    def brought(self, peer: bytes, now_s: float) -> bool:
        """A result came: whether it is to be fetched again. The helper cannot know before it answers."""
        record = self._record(peer, now_s)
        is_watched = record.results < FIRST_RESULTS or record.watched > 0
        record.results += 1
        if record.watched:
            record.watched -= 1
            # Some sites say something of their own to each country: a helper that met one of them is no liar.
            record.differences -= record.watched == 0 and record.differences > 0
        record.lost = 0
        self.counts.brought += 1
        self.is_changed = True
        return self._chance.random() < (CHECKS_MANY if is_watched else CHECKS_FEW)

    def judge(self, peer: bytes, verdict: Verdict, now_s: float) -> None:
        """What looking again at one of its results showed."""
        record = self._record(peer, now_s)
        self.counts.checked += 1
        self.is_changed = True
        if verdict is Verdict.CHANGING:
            self.counts.changing += 1
        if verdict is not Verdict.OTHER:
            return
        self.counts.differed += 1
        record.differences += 1
        record.watched = WATCHED_RESULTS
        if record.differences >= DIFFERENCES_MAX:
            record.barred_until_s = int(now_s + BARRED_S)
            record.differences = record.results = 0  # afterwards it begins as a new one
            record.first_s = record.barred_until_s
            self.counts.barred += 1

    def decline(self, peer: bytes, now_s: float) -> None:
        """It answered that it has none, as robots.txt forbids it or its line does not lead there. That is no fault: its
        share bounds what it can turn away."""
        self._record(peer, now_s).lost = 0
        self.counts.declined += 1

    def lose(self, peer: bytes, now_s: float) -> None:
        """An item has no result, or one that is of no use."""
        record = self._record(peer, now_s)
        record.lost += 1
        self.counts.lost += 1
        self.is_changed = True
        if record.lost >= LOST_MAX:
            rest_s = min(REST_FIRST_S * 2.0 ** min(record.lost - LOST_MAX, 30), REST_MAX_S)
            record.rests_until_s = int(now_s + rest_s)

    # -- memory

    def barred(self, now_s: float) -> Mapping[bytes, float]:
        """Helpers without trust, and until when."""
        helpers = self._helpers.items()
        return {peer: one.barred_until_s for peer, one in helpers if now_s < one.barred_until_s}

    def keep(self) -> HelpersFile:
        self.is_changed = False
        return HelpersFile(
            day=self._day,
            fetched=self._fetched,
            yesterday=self._yesterday,
            helpers={peer.hex(): record for peer, record in self._helpers.items()},
        )

    def _record(self, peer: bytes, now_s: float) -> HelperRecord:
        record = self._helpers.get(peer)
        if record is None:
            if len(self._helpers) >= HELPERS_MAX:
                self._forget_one(now_s)
            record = self._helpers[peer] = HelperRecord(first_s=int(now_s))
        record.last_s = int(now_s)
        return record

    def _forget_one(self, now_s: float) -> None:
        """The one that tells least: those without trust go last, and of others the one that brought fewest."""

        def worth(peer: bytes) -> tuple[float, int, int, bytes]:
            one = self._helpers[peer]
            barred_s = one.barred_until_s if now_s < one.barred_until_s else 0
            return barred_s, one.results, one.last_s, peer

        del self._helpers[min(self._helpers, key=worth)]
