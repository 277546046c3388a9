"""Whose are the links that we found, and whose turn is it? The crawler's `UrlOwner` in a ring.

Links of which we are the first live holder go to our frontier, those that we hold as a stand-in to the standby, and
all of them to the outbox, because their other holders must know them too. A peer that is alone keeps everything;
peers that join later ask for the known URLs (`hand_over`).
"""

from collections.abc import Callable, Sequence
from itertools import islice, takewhile

from crawler.core.link import Link
from dht.core.ids import Key
from herodotus.core.positions import position_of
from herodotus.crawl.links.outbox import Outbox
from herodotus.crawl.links.standby import Standby
from herodotus.peers.ring_view import RingView

TAKEN_OVER_MAX = 50_000
"""URLs that we fetch today for owners who are late, and that others fetch for us: more wait for tomorrow."""

GIVEN_AWAY_AT = 500_000
"""Links waiting, at most, when more of what we hold no longer is put to them."""


class RingOwner:
    """Implements `crawler.ports.UrlOwner`."""

    def __init__(
        self,
        view: RingView,
        outbox: Outbox,
        standby: Standby,
        *,
        wall_clock: Callable[[], float],
        today: Callable[[], int],
        fetches_all: bool,
        on_filled: Callable[[], None],
    ) -> None:
        self._view = view
        self._outbox = outbox
        self._standby = standby
        self._wall_clock = wall_clock
        self._fetches_all = fetches_all
        self._on_filled = on_filled
        self._today = today
        self._taken_over: dict[bytes, int] = {}  # for which day, the oldest first
        self._given: dict[bytes, int] = {}

    def divide(self, links: Sequence[Link]) -> list[Link]:
        if self._view.is_alone:
            return list(links)
        mine, others = list[Link](), list[Link]()
        for link in links:
            rank = self._view.rank(position_of(link.url))
            if rank == 0 or (rank is not None and self._fetches_all):
                mine.append(link)
            elif rank is not None:
                others.append(link)
        if others:
            self._standby.add(others)
        if self._outbox.add(links, self._wall_clock()):
            self._on_filled()
        return mine

    def give_away(self, links: Sequence[Link]) -> bool:
        """Give known URLs that we no longer hold to their new holders. False: not now, too much waits already."""
        if len(self._outbox) >= GIVEN_AWAY_AT:
            return False
        if self._outbox.add(links, self._wall_clock(), is_own=True):
            self._on_filled()
        return True

    def is_our_turn(self, url: str) -> bool:
        """Asked before each fetch: the ring may have changed since the URL came to our frontier."""
        if self._fetches_all or self._view.is_alone:
            return True
        key = position_of(url)
        return (self._view.rank(key) == 0 and not self.is_given(key)) or self.has_taken(key)

    def take_over(self, key: Key) -> bool:
        """For today it is ours to fetch, as its owner did not. False when that are too many."""
        return _note(self._taken_over, key, self._today())

    def give(self, key: Key) -> bool:
        """A stand-in fetches it today; it may be told so again. False when those are too many."""
        return _note(self._given, key, self._today())

    def has_taken(self, key: Key) -> bool:
        """Today: with the day's end it is its owner's at once."""
        return self._taken_over.get(key) == self._today()

    def is_given(self, key: Key) -> bool:
        return self._given.get(key) == self._today()

    def give_up_some(self, count: int) -> list[Key]:
        """Of what was ours for days that are over: each is told once. Empty: that was all."""
        return _some(self._taken_over, count, self._today())

    def want_back_some(self, count: int) -> list[Key]:
        """Of what others had for days that are over: each is told once. Empty: that was all."""
        return _some(self._given, count, self._today())


def _note(keys: dict[bytes, int], key: Key, today: int) -> bool:
    if keys.get(key) == today:
        return True
    keys.pop(key, None)  # or it would not be in the order of days
    if len(keys) >= TAKEN_OVER_MAX:
        return False
    keys[key] = today
    return True


def _some(keys: dict[bytes, int], count: int, today: int) -> list[Key]:
    over = [Key(key) for key, _ in islice(takewhile(lambda row: row[1] != today, keys.items()), count)]
    for key in over:
        del keys[key]
    return over
