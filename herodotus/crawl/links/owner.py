"""Whose are the links that we found, and whose turn is it? The crawler's `UrlOwner` in a ring.

Links of which we are the first live holder go to our frontier, those that we hold as a stand-in to the standby, and
all of them to the outbox, because their other holders must know them too. A peer that is alone keeps everything;
peers that join later ask for the known URLs (`hand_over`).

What becomes of links that others send? Checked, put where they belong, durable, and only then acknowledged.

A batch is looked at link by link: is it canonical, does the network archive it, is it ours or nearly? What is not
ours is sent back with the contacts we think of; rubbish is counted against the sender (`Senders`). Links
of which we are the first live holder go to the frontier, those that we hold as a stand-in to the standby.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Final, Protocol

import anyio

from crawler.core.errors import MalformedUrlError
from crawler.core.link import Link, kind_of
from crawler.core.recrawl import Bounds, Known
from crawler.core.scope import Territory
from crawler.core.urls import UrlRules, has_web_port, host_of
from dht import Contact
from dht.core.ids import Key
from herodotus.core.captures import position_of
from herodotus.core.errors import MalformedError
from herodotus.core.links.senders import Senders
from herodotus.crawl.links.outbox import Outbox, Standby
from herodotus.crawl.links.walks import SERVICE
from herodotus.crawl.links.wire import Taken, decode_batch, encode_taken
from herodotus.peers.calls import PeerKey, RefusedError, Services
from herodotus.peers.ring_view import RingView

logger = logging.getLogger(__name__)

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
        self._given_to: dict[bytes, tuple[PeerKey, ...]] = {}
        """Of each key in `_given`: all stand-ins that were told it. They agree among themselves on one that fetches."""

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

    def give(self, key: Key, peer: PeerKey) -> bool:
        """A stand-in fetches it today; it may be told so again. False when those are too many."""
        was_given, told = self.is_given(key), self._given_to.pop(key, ())
        if not _note(self._given, key, self._today()):
            return False
        others = tuple(one for one in told if one != peer) if was_given else ()
        self._given_to[key] = (*others, peer)
        return True

    def given_today(self) -> dict[PeerKey, list[Key]]:
        """What each stand-in was told."""
        told = dict[PeerKey, list[Key]]()
        for key in filter(self.is_given, map(Key, self._given)):
            for peer in self._given_to[key]:
                told.setdefault(peer, []).append(key)
        return told

    def take_from(self, peer: PeerKey, keys: Sequence[Key]) -> list[Key]:
        """This stand-in does not fetch them. Says which of them are ours again, as no other stand-in was told them."""
        back = list[Key]()
        for key in filter(self.is_given, keys):
            self._given_to[key] = tuple(other for other in self._given_to[key] if other != peer)
            if not self._given_to[key]:
                del self._given[key], self._given_to[key]
                back.append(key)
        return back

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
        over = _some(self._given, count, self._today())
        for key in over:
            del self._given_to[key]
        return over


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


CHUNK: Final = 250
"""Links looked at between two turns of the loop: about 3 ms."""
NOT_READY_S: Final = 20.0
CONTACTS_NAMED: Final = 3
STRAYS_LOOKED_UP: Final = 4
FULL_AGAIN_S: Final = 3_600.0


class LinkTaker(Protocol):
    """What remembers URLs that are ours to fetch."""

    @property
    def takes_links(self) -> bool: ...
    def take_over(self, links: Sequence[Link]) -> int: ...
    def make_durable(self) -> None: ...


@dataclass(slots=True)
class ReceivedCounts:
    batches: int = 0
    taken: int = 0
    new: int = 0
    strays: int = 0
    malformed: int = 0
    out_of_scope: int = 0
    nonsense: int = 0
    refused: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptLinks:
    taken: int
    new: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverParts:
    view: RingView
    frontier: LinkTaker
    standby: Standby
    make_durable: Callable[[], None]
    """The standby's disk."""
    rules: UrlRules
    territory: Territory
    is_given: Callable[[Key], bool]
    """A stand-in fetches it today: we know it, and it stays left."""
    fetches_all: bool
    """The charter's `fetch_by = "all"`: each holder fetches for itself."""


class LinkReceiver:
    def __init__(self, parts: ReceiverParts) -> None:
        self._parts = parts
        self._senders = Senders()
        self._reading = anyio.Lock()
        self._sound_bounds: Bounds | None = None
        """The last that were looked at: most links of a batch have the same."""
        self.counts = ReceivedCounts()

    @property
    def services(self) -> Services:
        return Services(calls={SERVICE: self.take})

    def senders_closed(self) -> int:
        return self._senders.closed(anyio.current_time())

    async def take(self, peer: PeerKey, body: bytes) -> bytes:
        """Raises RefusedError."""
        now = anyio.current_time()
        not_now = self._senders.may_send(peer, now)
        if not_now is not None:
            self.counts.refused += 1
            raise RefusedError(not_now.reason, retry_after_s=not_now.retry_after_s)
        if not self._parts.frontier.takes_links:
            self.counts.refused += 1
            raise RefusedError("not ready", retry_after_s=NOT_READY_S)
        if self._parts.standby.is_full:
            self.counts.refused += 1
            raise RefusedError("full", retry_after_s=FULL_AGAIN_S)
        # One at a time: some kilobytes may unfold to forty megabytes of addresses with one beginning.
        async with self._reading:
            try:
                links = decode_batch(body)
            except MalformedError as error:
                logger.info("a batch of links could not be read reason=%s peer=%s", error, peer.hex()[:16])
                self.counts.nonsense += 1
                self._senders.nonsense(peer, now)
                raise RefusedError("nonsense") from error
            taken = await self._sorted(links)
        self._senders.sent(peer, now, links=len(links), strays=len(taken.strays), rubbish=len(taken.rubbish))
        self.counts.batches += 1
        self.counts.taken += len(links) - len(taken.strays) - len(taken.rubbish)
        return encode_taken(taken)

    async def keep(self, links: Sequence[Link]) -> KeptLinks:
        """What another holder told us, on our asking. Rubbish and strays are left out."""
        before = self.counts.new
        taken = await self._sorted(links)
        return KeptLinks(
            taken=len(links) - len(taken.strays) - len(taken.rubbish), new=self.counts.new - before
        )

    async def _sorted(self, links: Sequence[Link]) -> Taken:
        strays, rubbish, stray_keys = list[int](), list[int](), list[Key]()
        for start in range(0, len(links), CHUNK):
            mine = []
            for place in range(start, min(start + CHUNK, len(links))):
                link = links[place]
                key = position_of(link.url)
                if not self._is_sound(link.url) or not self._has_sound_bounds(link.bounds):
                    rubbish.append(place)
                elif self._parts.view.rank(key) is not None:
                    mine.append((key, link))
                else:
                    strays.append(place)
                    stray_keys.append(key)
                    if self._parts.view.is_nearly_mine(
                        key
                    ):  # or is, by the sender's view, which may be newer
                        mine.append((key, link))
            self._keep(mine)
            await anyio.lowlevel.checkpoint()
        self._make_durable()
        self.counts.strays += len(strays)
        return Taken(strays=tuple(strays), rubbish=tuple(rubbish), contacts=self._better(stray_keys))

    def _is_sound(self, url: str) -> bool:
        try:
            is_canonical = self._parts.rules.canonical(url) == url
        except MalformedUrlError:
            is_canonical = False
        if not is_canonical:
            self.counts.malformed += 1
            return False
        if not has_web_port(url):
            self.counts.out_of_scope += 1
            return False
        if not self._parts.territory.holds(url, host_of(url)):
            self.counts.out_of_scope += 1
            return False
        return True

    def _has_sound_bounds(self, bounds: Bounds | None) -> bool:
        """Their seed is what we would compare hosts and paths with."""
        if bounds is None or bounds == self._sound_bounds:
            return True
        try:
            is_sound = self._parts.rules.canonical(bounds.seed) == bounds.seed
        except MalformedUrlError:
            is_sound = False
        if not is_sound:
            self.counts.malformed += 1
            return False
        self._sound_bounds = bounds
        return True

    def _keep(self, links: Sequence[tuple[Key, Link]]) -> None:
        parts = self._parts
        ours, others = list[Link](), list[Link]()
        for key, link in links:
            if parts.is_given(key):
                continue
            if parts.fetches_all or parts.view.rank(key) == 0:
                ours.append(link)
            else:
                others.append(link)
        if ours:
            self.counts.new += parts.frontier.take_over(ours)
        if others:
            self.counts.new += parts.standby.add(others)

    def _make_durable(self) -> None:
        self._parts.frontier.make_durable()
        self._parts.make_durable()

    def _better(self, strays: Sequence[Key]) -> tuple[Contact, ...]:
        """Our contacts for the first of them, the last, and some in between."""
        ring = self._parts.view.live
        step = max(1, len(strays) // STRAYS_LOOKED_UP)
        named = {
            contact.position: contact
            for key in strays[::step][:STRAYS_LOOKED_UP]
            for contact in ring.of(key)[:CONTACTS_NAMED]
        }
        return tuple(named.values())


def out_of(known: Known) -> Link:
    kind = kind_of(is_embedded=known.is_embedded)
    return Link(known.url, kind, known.depth, known.is_doubtful, bounds=known.bounds)
