"""How does each member stand with us, just now: where is it, is it of age, and have we known it for long ourselves?

Place and age come from the ring's records, so all peers see them alike. Who is a veteran is this peer's own opinion:
what it deletes rests on nobody else's word.
"""

from collections.abc import Callable, Hashable, Mapping

from dht import Standing
from dht.core.ids import PeerKey
from dht.core.places import PlaceRules
from herodotus.core.copies.possession import Standings


class MemberStandings:
    """Implements `Standings`, as of one moment. A member that the ring does not know is in no place of anybody else's,
    and not of age."""

    def __init__(
        self,
        standings: Mapping[PeerKey, Standing],
        rules: PlaceRules,
        day: int,
        age_days: Callable[[bytes], int],
    ) -> None:
        self._standings, self._rules, self._day, self._age_days = standings, rules, day, age_days

    def place_of(self, peer: bytes) -> Hashable:
        known = self._standings.get(PeerKey(peer))
        return peer if known is None else known.place

    def is_of_age(self, peer: bytes) -> bool:
        known = self._standings.get(PeerKey(peer))
        return known is not None and known.is_of_age

    def is_veteran(self, peer: bytes) -> bool:
        """Where each key is a place, members trust each other, and nobody has two keys."""
        return self._rules.by == "peer" or self._age_days(peer) >= self._rules.veteran_on(self._day)


def standings_now(
    ring: Callable[[], Mapping[PeerKey, Standing]],
    rules: PlaceRules,
    wall_clock: Callable[[], float],
    age_days: Callable[[bytes], int],
) -> Callable[[], Standings]:
    return lambda: MemberStandings(ring(), rules, rules.day_of(wall_clock()), age_days)
