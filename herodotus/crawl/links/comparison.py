"""Does the owner still know what we know? Once a day each stand-in compares its URLs with the owner's.

An owner that acknowledged links and lost them would fetch nothing, and its stand-ins, which ask what it missed, would
never hear of them. So both compare sums of the URLs that they know in a stretch, part by part, down to a thousand
URLs. There the owner names its URLs, which we keep, and we send it the missing ones. A stand-in that forgot URLs gets
them in the same way. What is too much for one day waits for the next.
"""

import logging
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from typing import Final, NamedTuple, Protocol

import anyio

from crawler.core.link import Link
from crawler.core.recrawl import Known
from crawler.core.urls import UrlKey
from dht import Contact
from dht.core.arcs import Arcs
from dht.core.ids import KEY_BYTES, Key
from dht.core.limits import Buckets, Rate
from herodotus.core.captures import position_of
from herodotus.core.errors import MalformedError
from herodotus.core.reconciliation import Sum, parts_of, reconcile, sums_of
from herodotus.crawl.links.hand_over import KNOWN
from herodotus.crawl.links.outbox import Standby
from herodotus.crawl.links.owner import LinkReceiver, out_of
from herodotus.crawl.links.walks import SERVICE
from herodotus.crawl.links.wire import (
    BATCH_LINKS_MAX,
    decode_batch,
    decode_sums,
    encode_batch,
    encode_sums,
    in_order,
)
from herodotus.peers.calls import CallError, Calls, PeerKey, RefusedError, Services
from herodotus.peers.ring_view import RingView

logger = logging.getLogger(__name__)

SUMS: Final = "links.sums"
LEAF_LINKS: Final = 1_000
"""A part with no more is told whole: some 15 kB."""
ROWS_MAX: Final = 100_000
"""Looked through for one answer: a third of a second, in small pieces."""
CHUNK: Final = 1_000
QUESTIONS_MAX: Final = 128
"""About sums, of one stretch and day; and of parts that are told: half as many."""
QUESTIONS: Final = Rate(per_second=1, burst=512)
DEADLINE_S: Final = 60.0
_ZERO: Final = Key(bytes(KEY_BYTES))
"""Where a piece begins that lies behind zero: nobody has a URL of that very key."""


class KnownKeys(Protocol):
    """What this asks of the running crawl."""

    @property
    def takes_links(self) -> bool: ...
    def keys_after(self, key: bytes, count: int) -> list[UrlKey]: ...
    def known_of(self, keys: Sequence[UrlKey]) -> list[Known | None]: ...


@dataclass(slots=True)
class CompareCounts:
    differing: int = 0
    """Parts in which owner and stand-in did not know the same."""
    learned: int = 0
    reminded: int = 0
    """URLs that the owner had not told, sent to it."""


class _Part(NamedTuple):
    """Keys in (start, end], and how many one of the two sides has there; not across zero."""

    start: Key
    end: Key
    keys: int


class Comparing:
    def __init__(
        self,
        view: RingView,
        calls: Calls,
        frontier: KnownKeys,
        standby: Standby,
        receiver: LinkReceiver,
    ) -> None:
        self._view = view
        self._calls = calls
        self._frontier = frontier
        self._standby = standby
        self._receiver = receiver
        self._buckets = Buckets(4_096)
        self.counts = CompareCounts()

    @property
    def services(self) -> Services:
        return Services(calls={SUMS: self.sums})

    async def compare(self) -> None:
        """All stretches that we hold as a stand-in, each with its owner."""
        ring = self._view.live
        for rank, stretch in ring.share(self._view.me.peer):
            if not rank or not self._frontier.takes_links:
                continue
            side = _WithOwner(self, ring.holders(stretch)[0])
            try:
                for start, end in Arcs([ring.arc(stretch)]).pieces():
                    await reconcile(side, _Part(start or _ZERO, end, 0))
            except (CallError, MalformedError) as error:
                logger.info("known URLs were not compared to the end error=%s", error)

    async def their_sums(self, owner: Contact, start: Key, end: Key) -> tuple[Key, list[Sum]]:
        """How far it looked, and the sums up to there."""
        answer = await self._calls.call(owner, SUMS, start + end, deadline_s=DEADLINE_S)
        reached, theirs = decode_sums(answer)
        if not start < reached <= end:
            raise MalformedError("reached")
        return reached, theirs

    async def make_equal(self, owner: Contact, start: Key, end: Key) -> None:
        told = set[Key]()
        with anyio.move_on_after(DEADLINE_S) as too_long:
            async with self._calls.stream(owner, KNOWN, start + end) as pieces:
                is_first = True
                async for piece in pieces:
                    if not is_first:
                        links = decode_batch(piece)
                        told |= {position_of(link.url) for link in links}
                        self.counts.learned += (await self._receiver.keep(links)).new
                    is_first = False
                    if len(told) > BATCH_LINKS_MAX:
                        raise MalformedError("too many")
        if too_long.cancelled_caught:
            raise MalformedError("too slow")
        ours = [key for key in self._keys(start, end) if key not in told]
        links = [*self._links(ours[:BATCH_LINKS_MAX])]
        if links:
            await self._calls.call(owner, SERVICE, encode_batch(in_order(links)), deadline_s=DEADLINE_S)
            self.counts.reminded += len(links)

    def _links(self, keys: Sequence[Key]) -> Iterator[Link]:
        for key, known in zip(keys, self._frontier.known_of([UrlKey(key) for key in keys]), strict=True):
            link = out_of(known) if known is not None else self._standby.get(key)
            if link is not None:
                yield link

    # --- what stand-ins ask of us

    async def sums(self, peer: PeerKey, body: bytes) -> bytes:
        """(start, end] of keys: how far was looked, and the sums of its parts."""
        if len(body) != 2 * KEY_BYTES or not body[:KEY_BYTES] < body[KEY_BYTES:]:
            raise RefusedError("nonsense")
        if not self._frontier.takes_links:
            raise RefusedError("not ready", retry_after_s=20.0)
        start, end = Key(body[:KEY_BYTES]), Key(body[KEY_BYTES:])
        ring = self._view.live
        holders = {one.peer for key in (start, end) for one in ring.of(key)}
        if peer not in holders or not self._buckets.take(peer, QUESTIONS, anyio.current_time()):
            raise RefusedError("busy", retry_after_s=60.0)
        reached, found = await self.summed(start, end)
        return encode_sums(reached, found)

    async def summed(self, start: Key, end: Key) -> tuple[Key, list[Sum]]:
        """How far was looked, and the sums up to there."""
        keys = list[Key]()
        for key in self._keys(start, end):
            keys.append(key)
            if len(keys) == ROWS_MAX:
                end = key
                break
            if not len(keys) % CHUNK:
                await anyio.lowlevel.checkpoint()
        return end, sums_of(keys, start, end)

    def _keys(self, start: Key, end: Key) -> Iterator[Key]:
        """What we know there, owned or not, ascending, each once."""
        before = None
        for key in merge(self._in_frontier(start, end), self._standby.keys(start, end)):
            if key != before:
                yield key
            before = key

    def _in_frontier(self, start: Key, end: Key) -> Iterator[Key]:
        at: bytes = start
        while keys := self._frontier.keys_after(at, CHUNK):
            for key in keys:
                if key > end:
                    return
                yield Key(key)
            at = keys[-1]


class _WithOwner:
    """The `Side` of links: counts and sums of a sixteenth each, down to what is told whole. For one stretch and day."""

    def __init__(self, comparing: Comparing, owner: Contact) -> None:
        self._comparing = comparing
        self._owner = owner
        self._questions_left = QUESTIONS_MAX
        self._told_left = QUESTIONS_MAX // 2

    async def differing(self, part: _Part) -> AsyncGenerator[_Part]:
        at, end = part.start, part.end
        while at < end and self._questions_left:
            self._questions_left -= 1
            reached, theirs = await self._comparing.their_sums(self._owner, at, end)
            _, ours = await self._comparing.summed(at, reached)
            for (start, stop), our, their in zip(parts_of(at, reached), ours, theirs, strict=True):
                if our != their:
                    yield _Part(start, stop, max(our.keys, their.keys))
            at = reached

    async def settle(self, part: _Part) -> bool:
        """What is left of a day's budget, and no more."""
        if part.keys > LEAF_LINKS:
            return False
        if self._told_left:
            self._told_left -= 1
            self._comparing.counts.differing += 1
            await self._comparing.make_equal(self._owner, part.start, part.end)
        return True
