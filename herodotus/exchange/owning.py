"""Whose are the links that we found, and whose turn is it? The crawler's `UrlOwner` in a ring.

Links of which we are the first live holder go to our frontier, those that we hold as a stand-in to the standby, and
all of them to the outbox: their other holders must know them as well. A peer that is alone keeps all for itself; who
joins later asks for what is known (`handing_over`).
"""

from collections.abc import Callable, Sequence

from crawler.frontier import FoundLink
from dht.core.ids import Key, key_of
from herodotus.exchange.outbox import Outbox
from herodotus.exchange.receiving import out_link
from herodotus.exchange.sight import RingSight
from herodotus.exchange.standby import Standby
from herodotus.exchange.wire import OutLink

TAKEN_OVER_MAX = 50_000
"""URLs that we fetch today for owners who are late, and that others fetch for us: more wait for tomorrow."""

GIVEN_AWAY_AT = 500_000
"""Links waiting, at most, when more of what we hold no longer is put to them."""


class RingOwner:
    """Implements `crawler.ports.UrlOwner`."""

    def __init__(
        self,
        sight: RingSight,
        outbox: Outbox,
        standby: Standby,
        *,
        wall_clock: Callable[[], float],
        fetches_all: bool,
        on_filled: Callable[[], None],
    ) -> None:
        self._sight = sight
        self._outbox = outbox
        self._standby = standby
        self._wall_clock = wall_clock
        self._fetches_all = fetches_all
        self._on_filled = on_filled
        self._taken_over: dict[bytes, None] = {}  # in the order of coming, which a set of bytes has not
        self._given: dict[bytes, None] = {}

    def divide(self, links: Sequence[FoundLink]) -> list[FoundLink]:
        if self._sight.is_alone:
            return list(links)
        mine, others = list[FoundLink](), list[FoundLink]()
        for link in links:
            rank = self._sight.rank(key_of(link.url.encode()))
            if rank == 0 or (rank is not None and self._fetches_all):
                mine.append(link)
            elif rank is not None:
                others.append(link)
        if others:
            self._standby.add(map(out_link, others))
        if self._outbox.add(map(out_link, links), self._wall_clock()):
            self._on_filled()
        return mine

    def give_away(self, links: Sequence[OutLink]) -> bool:
        """What we know and hold no more goes to whoever holds it now. False: not now, too much waits already."""
        if len(self._outbox) >= GIVEN_AWAY_AT:
            return False
        if self._outbox.add(links, self._wall_clock(), is_own=True):
            self._on_filled()
        return True

    def is_our_turn(self, url: str) -> bool:
        """Asked before each fetch: the ring may have changed since the URL came to our frontier."""
        if self._fetches_all or self._sight.is_alone:
            return True
        key = key_of(url.encode())
        return (self._sight.rank(key) == 0 and key not in self._given) or key in self._taken_over

    def take_over(self, key: Key) -> bool:
        """From now on until `give_up_some` it is ours to fetch, as its owner did not. False when that are too many."""
        if len(self._taken_over) >= TAKEN_OVER_MAX:
            return False
        self._taken_over[key] = None
        return True

    def give(self, key: Key) -> bool:
        """A stand-in fetches it today; it may be told so again. False when those are too many."""
        if key not in self._given and len(self._given) >= TAKEN_OVER_MAX:
            return False
        self._given[key] = None
        return True

    def has_taken(self, key: Key) -> bool:
        return key in self._taken_over

    def is_given(self, key: Key) -> bool:
        return key in self._given

    def give_up_some(self, count: int) -> list[Key]:
        """Of what was ours for the day that is over: each is told once. Empty: that was all."""
        return _some(self._taken_over, count)

    def want_back_some(self, count: int) -> list[Key]:
        """Of what others had for the day that is over: each is told once. Empty: that was all."""
        return _some(self._given, count)


def _some(keys: dict[bytes, None], count: int) -> list[Key]:
    return [Key(keys.popitem()[0]) for _ in range(min(count, len(keys)))]
