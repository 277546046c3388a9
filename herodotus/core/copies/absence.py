"""Which peers are gone, and since when? The last of the ring's three clocks: a day until a lost copy is made again.

A peer that restarts, or whose line fails for an evening, comes back with everything it had. So it keeps its place
until it has been away for long. Where too few copies are within reach, it is passed over sooner.
"""

from collections.abc import Iterable, Mapping

from dht.core.holders import NO_STANDINGS, Table
from dht.core.ids import PeerKey
from dht.core.placement import Rule
from dht.core.places import Standing
from dht.core.records import Contact

ABSENT_MAX = 4_096
"""Peers beyond it count as gone: after a split of a large ring, half of it."""


class Absence:
    def __init__(self, *, departed_s: float, low_s: float, rule: Rule) -> None:
        self._departed_s = departed_s
        self._low_s = low_s
        self._rule = rule
        self._present: dict[PeerKey, tuple[Contact, ...]] = {}
        self._absent: dict[PeerKey, tuple[float, tuple[Contact, ...]]] = {}
        self._standings: dict[PeerKey, Standing] = {}
        """How they count; the absent as when they were last seen."""

    @property
    def absent(self) -> Mapping[PeerKey, float]:
        """Since when they are."""
        return {peer: since for peer, (since, _) in self._absent.items()}

    def see(
        self,
        contacts: Iterable[Contact],
        now: float,
        standings: Mapping[PeerKey, Standing] = NO_STANDINGS,
    ) -> list[PeerKey]:
        """All positions of the ring's table, and how their peers count; which peers are back."""
        present: dict[PeerKey, list[Contact]] = {}
        for contact in contacts:
            present.setdefault(contact.peer, []).append(contact)
        for peer, positions in self._present.items():
            if peer not in present and len(self._absent) < ABSENT_MAX:
                self._absent[peer] = (now, positions)
        returned = sorted(peer for peer in present if peer not in self._present)
        for peer in returned:
            self._absent.pop(peer, None)  # at its old place or at a new one: it is there
        self._present = {peer: tuple(positions) for peer, positions in present.items()}
        known = {peer: self._standings[peer] for peer in self._absent if peer in self._standings}
        self._standings = {**known, **standings}
        # `table` takes the positions of both: a peer in both would be there twice.
        assert self._present.keys().isdisjoint(self._absent)
        return returned

    def depart(self, peer: PeerKey) -> None:
        """It will not come back: no day is waited."""
        self._absent.pop(peer, None)
        self._present.pop(peer, None)

    def advance(self, now: float) -> bool:
        """Whether somebody is gone for good since the last call."""
        gone = [peer for peer, (since, _) in self._absent.items() if now - since >= self._departed_s]
        for peer in gone:
            del self._absent[peer]
        return bool(gone)

    def _missed(self, now: float) -> list[PeerKey]:
        return [peer for peer, (since, _) in self._absent.items() if now - since >= self._low_s]

    def standing(self, now: float) -> tuple[object, ...]:
        """While this is the same, and so is the ring's table, so are the holders."""
        return tuple(self._absent.items()), tuple(self._missed(now))

    def next_deadline(self) -> float | None:
        return min((since + self._departed_s for since, _ in self._absent.values()), default=None)

    def table(self, now: float) -> Table:
        """The table of holders. Absent peers that may come back keep their places."""
        there = [contact for positions in self._present.values() for contact in positions]
        away = [contact for _, positions in self._absent.values() for contact in positions]
        return Table(
            there + away,
            self._rule,
            standings=self._standings,
            absent=self._absent.keys(),
            missed=self._missed(now),
        )
