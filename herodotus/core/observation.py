"""How long has this peer itself known each member, and for how much of that time did it see the member?

What a peer does on *another's word* (letting go of a copy, following a notice, believing a dispute) it decides by its
own observation, because a record can claim any age. Two rules make this hard to cheat:

* Only proof counts: the member's key opened a session, sealed a frame or shook hands for a call with us. A record in
  the table, however well signed, is no sighting. So invented members never grow old here.
* Ages are read from a **watch**, never from the calendar. It advances by the steady clock while this peer runs. The
  time between two runs is added by the wall clock, at most a day of it. So a clock that leaps ahead for years makes
  nobody older than a day, and what happens while we are away makes nobody absent.

`docs/protocol/observation.md` has the file's bytes. Times are minutes of the watch.
"""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

MAGIC: Final = b"hobserv"
VERSION: Final = b"1"
MEMBERS_MAX: Final = 65_536
"""2.9 MB. A ring of more is sampled, and a peer does not speak with all of it."""
DAY_MIN: Final = 24 * 60
BREAK_MIN: Final = DAY_MIN
"""A silence up to this counts as time there, as sessions last a day. A longer one, or one that began with two
witnesses who found the member dead, does not."""
FORGOTTEN_MIN: Final = 30 * DAY_MIN
"""Who is away for so long begins anew."""
AWAY_COUNTED_MIN: Final = DAY_MIN
"""What our own absence adds to the watch, at most: a peer that runs at night only has watched all day."""
FILE_BYTES_MAX: Final = 25 + 44 * MEMBERS_MAX + 8

_HEAD: Final = struct.Struct(">8sII5sI")
_ROW: Final = struct.Struct(">32sIII")
_U32_MAX: Final = (1 << 32) - 1
_WALL_MAX: Final = (1 << 40) - 1


class DamagedObservationError(Exception):
    """These bytes are no observation of a version that we read."""


@dataclass(slots=True)
class Sighting:
    """Of one member, in minutes of the watch."""

    first: int
    last: int
    there: int = 0

    @property
    def share(self) -> float:
        """Of the time since the first sighting, up to the last."""
        return self.there / (self.last - self.first) if self.last > self.first else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """What outlives a run."""

    watch_min: int = 0
    unbroken_min: int = 0
    wall_s: int = 0
    sightings: Mapping[bytes, Sighting]


class SightingLog:
    """`now` is the steady clock of this run in seconds, `wall_s` the calendar's, which is asked only here."""

    def __init__(self, saved: Saved, *, now: float, wall_s: float) -> None:
        away_min = max(0, int(wall_s - saved.wall_s) // 60) if saved.watch_min else 0
        self._sightings = dict(saved.sightings)
        self._offset_min = saved.watch_min + min(away_min, AWAY_COUNTED_MIN) - now / 60
        self.unbroken_min = (
            saved.unbroken_min if away_min <= AWAY_COUNTED_MIN else saved.watch_min + AWAY_COUNTED_MIN
        )
        """Since when the watch ran without a gap of more than a day: before it we may have missed something."""
        self._broken: set[bytes] = set()  # found dead since we last saw them

    def __len__(self) -> int:
        return len(self._sightings)

    def watch_min(self, now: float) -> int:
        return max(0, int(now / 60 + self._offset_min))

    def unbroken_days(self, now: float) -> int:
        """For how long nothing can have escaped us because we were away."""
        return max(0, self.watch_min(now) - self.unbroken_min) // DAY_MIN

    def see(self, peers: Iterable[bytes], now: float) -> None:
        """These keys have just been proven to us."""
        at = self.watch_min(now)
        for peer in peers:
            known = self._sightings.get(peer)
            if known is None:
                self._sightings[peer] = Sighting(at, at)
                continue
            silent = at - known.last
            if silent >= FORGOTTEN_MIN:
                self._sightings[peer] = Sighting(at, at)
            elif silent > 0:
                if silent <= BREAK_MIN and peer not in self._broken:
                    known.there += silent
                known.last = at
            self._broken.discard(peer)
        if len(self._sightings) > MEMBERS_MAX:
            self._make_room(at)

    def lose(self, peers: Iterable[bytes]) -> None:
        """Two witnesses found these dead, or they said goodbye: the silence is no time there."""
        self._broken.update(peer for peer in peers if peer in self._sightings)

    def succeed(self, old: bytes, new: bytes) -> None:
        """A member rotated its key, as both keys say: what we saw of it stands under the new one."""
        before = self._sightings.pop(old, None)
        self._broken.discard(old)
        if before is None:
            return
        known = self._sightings.get(new)
        if known is None or known.first >= before.first:
            after = known or before
            there = before.there + (known.there if known else 0)
            self._sightings[new] = Sighting(before.first, max(before.last, after.last), there)

    def sighting(self, peer: bytes, now: float) -> Sighting | None:
        """None for strangers, and for a member that has been away for so long that it begins anew."""
        known = self._sightings.get(peer)
        if known is None or self.watch_min(now) - known.last >= FORGOTTEN_MIN:
            return None
        return known

    def age_days(self, peer: bytes, now: float) -> int:
        """Whole days since the first sighting; 0 for a stranger."""
        known = self.sighting(peer, now)
        return (self.watch_min(now) - known.first) // DAY_MIN if known is not None else 0

    def saved(self, *, now: float, wall_s: float) -> Saved:
        at = self.watch_min(now)
        kept = {peer: one for peer, one in self._sightings.items() if at - one.last < FORGOTTEN_MIN}
        return Saved(
            watch_min=at,
            unbroken_min=self.unbroken_min,
            wall_s=min(max(0, int(wall_s)), _WALL_MAX),
            sightings=kept,
        )

    def _make_room(self, at: int) -> None:
        """The shortest acquaintances go, so that a flood of new keys takes nobody's age away."""
        by_worth = sorted(self._sightings, key=lambda peer: (self._worth(peer, at), peer))
        for peer in by_worth[: len(self._sightings) - MEMBERS_MAX]:
            del self._sightings[peer]
            self._broken.discard(peer)
        assert len(self._sightings) <= MEMBERS_MAX

    def _worth(self, peer: bytes, at: int) -> int:
        one = self._sightings[peer]
        return -1 if at - one.last >= FORGOTTEN_MIN else one.there


def encode(saved: Saved) -> bytes:
    head = _HEAD.pack(
        MAGIC + VERSION,
        min(saved.watch_min, _U32_MAX),
        min(saved.unbroken_min, _U32_MAX),
        saved.wall_s.to_bytes(5, "big"),
        len(saved.sightings),
    )
    rows = (_ROW.pack(key, one.first, one.last, one.there) for key, one in sorted(saved.sightings.items()))
    content = head + b"".join(rows)
    return content + blake2b(content, digest_size=8).digest()


def is_of_newer_release(data: bytes) -> bool:
    return data[:7] == MAGIC and data[7:8] > VERSION


def decode(data: bytes) -> Saved:
    """Raises DamagedObservationError."""
    content, check = data[:-8], data[-8:]
    if len(content) < _HEAD.size or blake2b(content, digest_size=8).digest() != check:
        raise DamagedObservationError("its checksum is wrong")
    magic, watch, unbroken, wall, count = _HEAD.unpack_from(content)
    if magic != MAGIC + VERSION or len(content) != _HEAD.size + count * _ROW.size:
        raise DamagedObservationError("it is not of this format")
    rows = _ROW.iter_unpack(content[_HEAD.size :])
    sightings = {key: Sighting(first, last, there) for key, first, last, there in rows}
    if any(not one.first <= one.last <= watch or one.there > watch for one in sightings.values()):
        raise DamagedObservationError("it saw members before it began, or after it ended")
    return Saved(
        watch_min=watch, unbroken_min=unbroken, wall_s=int.from_bytes(wall, "big"), sightings=sightings
    )
