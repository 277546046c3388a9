"""How long have we ourselves known a member? `age_days(peer)`, asked before anything is done on another's word.

`core/observation.py` decides and has the file's format; this shell looks at the ring now and then, is told of calls,
reads the clocks, and keeps `state/observation` in the home. It is replaced in one step, hourly and at the end, so that
a killed peer forgets an hour. Without the file all members are strangers again: nothing is lost by that, but for weeks
nothing is let go.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Protocol

import anyio

from dht.core.ids import PeerKey
from dht.core.reader import Member
from herodotus.core.observation import (
    DAY_MIN,
    FILE_BYTES_MAX,
    DamagedObservationError,
    Saved,
    SightingLog,
    decode,
    encode,
    is_of_newer_release,
)
from herodotus.core.ports import Clocks
from herodotus.core.status import ObservationStatus, ObservedStatus
from herodotus.home.checked_files import CheckedFile

LOOK_EVERY_S = 300.0
"""Members that spoke with us since the last look were there; presence is kept to the minute."""
LOOKS_PER_SAVE = 12
PROVEN_MAX = 4_096
"""Keys that calls proved between two looks: as many as there are sessions."""
SHOWN_MAX = 64
"""Members in the status, those first that were there the least."""


class ObservedRing(Protocol):
    """The part of `dht.RingNode` that is watched."""

    def members(self) -> tuple[Member, ...]: ...
    def frames_received(self) -> Mapping[bytes, int]:
        """By each key with an open session, the sealed frames that it has sent us over the sessions now open."""
        ...

    def heirs(self) -> Mapping[PeerKey, PeerKey]:
        """Rotated keys, and those that both keys name as the next."""
        ...


class Observation:
    """One for the whole peer. Ages are 0 until `kept` has begun."""

    def __init__(self, file: Path, clocks: Clocks, own_key: bytes) -> None:
        self._file = CheckedFile(
            path=file,
            bytes_max=FILE_BYTES_MAX,
            decode=decode,
            damaged=DamagedObservationError,
            encode=encode,
            is_of_newer_release=is_of_newer_release,
            content="what was seen of members",
        )
        self._clocks = clocks
        self._own_key = own_key
        before = self._file.read() or Saved(
            sightings={}
        )  # then the peer knows nobody, which is the cautious side
        self._log = SightingLog(before, now=clocks.elapsed_s(), wall_s=clocks.unix_s())
        self._ring: ObservedRing | None = None
        self._members: set[PeerKey] = set()  # at the last look
        self._frames: dict[bytes, int] = {}
        self._proven: set[bytes] = set()  # by calls, since the last look

    def age_days(self, peer: bytes) -> int:
        """Whole days since we first had proof of this key; 0 for a stranger, or one that was away for 30 days.

        Of our own key: for how long we have watched at all.
        """
        now = self._clocks.elapsed_s()
        if peer == self._own_key:
            return self._log.watch_min(now) // DAY_MIN
        return self._log.age_days(peer, now)

    def unbroken_days(self) -> int:
        """For how long we have watched without being away for more than a day."""
        return self._log.unbroken_days(self._clocks.elapsed_s())

    def met(self, peer: bytes) -> None:
        """A call proved this key to us."""
        if len(self._proven) < PROVEN_MAX:
            self._proven.add(peer)

    def look(self) -> None:
        """Note who was there since the last look."""
        if self._ring is None:
            return
        now = self._clocks.elapsed_s()
        for old, new in self._ring.heirs().items():
            self._log.succeed(old, new)
        frames = dict(self._ring.frames_received())
        spoke = {peer for peer, count in frames.items() if count != self._frames.get(peer)}
        members = {member.peer for member in self._ring.members() if member.peer != self._own_key}
        self._log.see(sorted((spoke | self._proven) & members), now)
        self._log.lose(self._members - members)  # two witnesses found them dead, or they said goodbye
        self._members, self._frames, self._proven = members, frames, set()

    @asynccontextmanager
    async def kept(self, ring: ObservedRing) -> AsyncIterator[None]:
        """Inside, the ring is watched; leaving saves what was seen."""
        self._ring = ring
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._keep)
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()
                self.look()
                self._ring = None
                self.save()

    async def _keep(self) -> None:
        while True:
            for _ in range(LOOKS_PER_SAVE):
                await anyio.sleep(LOOK_EVERY_S)
                self.look()
            self.save()

    def save(self) -> None:
        self._file.write(self._log.saved(now=self._clocks.elapsed_s(), wall_s=self._clocks.unix_s()))

    def status(self) -> ObservationStatus:
        self.look()
        now = self._clocks.elapsed_s()
        rows: list[ObservedStatus] = []
        for member in self._ring.members() if self._ring is not None else ():
            known = self._log.sighting(member.peer, now)
            if known is not None:
                rows.append(
                    ObservedStatus(
                        peer=member.peer.hex()[:16],
                        age_days=self._log.age_days(member.peer, now),
                        there=round(known.share, 4),
                        seen_min_ago=self._log.watch_min(now) - known.last,
                    )
                )
        rows.sort(key=lambda one: (one.there, one.age_days, one.peer))
        return ObservationStatus(
            watched_days=self._log.watch_min(now) // DAY_MIN,
            unbroken_days=self._log.unbroken_days(now),
            seen=len(rows),
            there=round(median(one.there for one in rows), 4) if rows else 0.0,
            members=tuple(rows[:SHOWN_MAX]),
        )
