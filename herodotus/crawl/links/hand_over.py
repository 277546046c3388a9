"""How does a peer learn of the URLs that were known before it held them? It asks those who held them already.

A peer that gets a new stretch (it joined, a neighbour left, it was cut off) asks one other holder after the
other for the URLs that they know there, until one told all. Which stretches were told is a row on the disk, so a
restart does not ask again. Told URLs go the way of all links: checked, to the frontier or the standby.

If neither a peer nor any former holder holds a stretch any more (the peer was alone when many joined), it puts the
URLs that it knows there into its outbox: no other peer could tell them.
"""

import logging
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from heapq import merge
from itertools import islice
from typing import Final

import anyio
from cachetools import FIFOCache

from crawler.core.link import Link
from crawler.core.rows import Batch, Rows
from dht import Contact
from dht.core.arcs import NONE, WHOLE, Arc, Arcs
from dht.core.holders import Table, moves
from dht.core.ids import KEY_BYTES, Key, is_in_arc
from dht.core.limits import Buckets, Rate
from herodotus.core.captures import position_of
from herodotus.core.errors import MalformedError
from herodotus.crawl.links.outbox import Standby
from herodotus.crawl.links.owner import LinkReceiver, out_of
from herodotus.crawl.links.substitute import OwnFrontier
from herodotus.crawl.links.wire import arcs_row, decode_arcs, decode_batch, encode_batch, in_order
from herodotus.peers.calls import CallError, Calls, PeerKey, RefusedError, Services
from herodotus.peers.ring_view import RingView

logger = logging.getLogger(__name__)

KNOWN: Final = "links.known"
PIECE_LINKS: Final = 1_000
QUESTIONS: Final = Rate(per_second=0.2, burst=64)
ANSWERS_MAX: Final = 4
"""Under way at once, one for each peer: packing a piece takes a core some 20 ms."""
TOLD_S_MAX: Final = 600.0
"""For one answer: some ten million URLs. An answer without end would keep everything else from being followed."""
POOR_MAX: Final = 256
NOT_OURS_MAX: Final = 0.5
FIRST_JUDGED: Final = 2_000
"""Links after which an answer is left that is for the greater part rubbish, or of other places."""
KNOWS_ALL: Final = b"\x01"
KNOWS_SOME: Final = b"\x00"
"""The first piece of an answer: was the answering peer told itself what was known there before it came?"""
_TOLD_ROW: Final = b"mtold"
_HELD_ROW: Final = b"mheld"


class HandingOver:
    def __init__(
        self,
        view: RingView,
        calls: Calls,
        frontier: OwnFrontier,
        standby: Standby,
        rows: Rows,
        receiver: LinkReceiver,
        give_away: Callable[[Sequence[Link]], bool],
    ) -> None:
        self._view = view
        self._calls = calls
        self._frontier = frontier
        self._standby = standby
        self._rows = rows
        self._receiver = receiver
        self._buckets = Buckets(4_096)
        self._give_away = give_away
        self._told = self._read(_TOLD_ROW)
        self._held = self._read(_HELD_ROW)
        self._before: Table | None = None  # when we last looked
        self._answered: set[PeerKey] = set()
        """Peers with an answer under way."""
        self._poor = FIFOCache[PeerKey, None](POOR_MAX)
        """Those who told rubbish, or had no end: they are asked last."""
        self.learned = 0

    @property
    def services(self) -> Services:
        return Services(streams={KNOWN: self.known})

    async def catch_up(self) -> bool:
        """Ask for what we hold now and did not hold before. False when somebody must be asked again later."""
        ring, me = self._view.live, self._view.me
        if not self._frontier.takes_links:
            return False
        if len(ring.peers) <= 1:
            self._note(ring, told=NONE, held=WHOLE)
            return True
        stretches = ring.share(me.peer)
        if not stretches:
            return True  # no member, or a leaf
        held = ring.arcs(me.peer)
        lost = self._held - held
        left = await self._give_away_what(lost, ring)
        is_all = not left
        told = self._told & held  # what we hold no more must be told again one day
        for _, stretch in stretches:
            others = [one for one in ring.holders(stretch) if one.peer != me.peer]
            for arc in Arcs([ring.arc(stretch)]) - self._told:
                if await self._ask_for(arc, others):
                    told |= Arcs([arc])
                else:
                    is_all = False
        self._note(self._before if left and self._before is not None else ring, told=told, held=held | left)
        if lost and not left and self._standby.is_crowded:
            await self._forget_what_is_others()
        return is_all

    async def _give_away_what(self, lost: Arcs, ring: Table) -> Arcs:
        """What we know there, where no holder of today was one before. Says where that is still to be done."""
        left = (lost & self._without_heir(ring)).pieces()
        while left:
            start, end = left[0]
            links = merge(self._in_frontier(start, end), self._in_standby(start, end), key=_key_of)
            while piece := list(islice(links, PIECE_LINKS)):
                if not self._give_away(piece):
                    return Arcs(Arc(*one) for one in left)
                left[0] = _key_of(piece[-1]), end
                await anyio.lowlevel.checkpoint()
            left.pop(0)
        return NONE

    async def _forget_what_is_others(self) -> None:
        """Its holders know it. What became ours again meanwhile, or may have, stays."""
        rows = self._standby.after(None)
        while chunk := list(islice(rows, PIECE_LINKS)):
            self._standby.forget([key for key, _ in chunk if not self._view.may_be_mine(key)])
            await anyio.lowlevel.checkpoint()

    def _without_heir(self, ring: Table) -> Arcs:
        """Where no holder of today but ourselves was one when we last looked. Where nothing moved, all were."""
        if self._before is None:
            return WHOLE
        me = {self._view.me.peer}
        return Arcs(
            move.arc for move in moves(self._before, ring) if not (set(move.before) - me) & set(move.after)
        )

    def _note(self, before: Table, *, told: Arcs, held: Arcs) -> None:
        is_news = (told, held) != (self._told, self._held)
        self._before, self._told, self._held = before, told, held
        if is_news:
            self._rows.write(Batch([(_TOLD_ROW, arcs_row(told)), (_HELD_ROW, arcs_row(held))]))

    def _read(self, row: bytes) -> Arcs:
        found = self._rows.get(row)
        return decode_arcs(found) if found else NONE

    async def _ask_for(self, arc: Arc, others: Sequence[Contact]) -> bool:
        """Until a holder that knew everything has told us; without one, each tells what it knows."""
        is_all = True
        for contact in sorted(others, key=lambda one: one.peer in self._poor):
            try:
                with anyio.fail_after(TOLD_S_MAX):
                    if await self._ask(contact, arc):
                        return True
            except CallError as error:
                logger.info("no answer about known URLs error=%s", error)
                is_all = False
            except (MalformedError, TimeoutError) as error:
                logger.warning(
                    "malformed answer about known URLs peer=%s error=%s", contact.peer.hex()[:16], error
                )
                self._poor[contact.peer] = None
                return False  # others are asked next time: meanwhile the ring may have changed
        return is_all

    async def _ask(self, contact: Contact, arc: Arc) -> bool:
        """Whether it knew all."""
        knew_all: bool | None = None
        told = kept = 0
        async with self._calls.stream(contact, KNOWN, b"".join(arc)) as pieces:
            async for piece in pieces:
                if knew_all is None:
                    knew_all = piece == KNOWS_ALL
                    continue
                links = decode_batch(piece)
                here = [link for link in links if is_in_arc(arc.start, _key_of(link), arc.end)]
                kept_now = await self._receiver.keep(here)
                self.learned += kept_now.new
                told, kept = told + len(links), kept + kept_now.taken
                if told >= FIRST_JUDGED and kept < NOT_OURS_MAX * told:
                    raise MalformedError("rubbish")
        return bool(knew_all)

    # --- what others ask of us

    async def known(self, peer: PeerKey, body: bytes) -> AsyncIterator[bytes]:
        """(start, end] of keys: whether we were told all there, and then the URLs that we know."""
        if len(body) != 2 * KEY_BYTES:
            raise RefusedError("nonsense")
        if not self._frontier.takes_links:
            raise RefusedError("not ready", retry_after_s=20.0)
        if not self._buckets.take(peer, QUESTIONS, anyio.current_time()):
            raise RefusedError("busy", retry_after_s=60.0)
        if peer in self._answered or len(self._answered) >= ANSWERS_MAX:
            raise RefusedError("busy", retry_after_s=60.0)
        asked = Arcs([Arc(Key(body[:KEY_BYTES]), Key(body[KEY_BYTES:]))])
        self._answered.add(peer)
        try:
            yield KNOWS_ALL if asked <= self._told else KNOWS_SOME
            for start, end in asked.pieces():
                for links in (self._in_frontier(start, end), self._in_standby(start, end)):
                    while piece := list(islice(links, PIECE_LINKS)):
                        yield encode_batch(in_order(piece))
                        await anyio.lowlevel.checkpoint()
        finally:
            self._answered.discard(peer)

    def _in_frontier(self, at: bytes, end: Key) -> Iterator[Link]:
        while rows := self._frontier.known_after(at, PIECE_LINKS):
            for key, known in rows:
                if key > end:
                    return
                yield out_of(known)
                at = key

    def _in_standby(self, at: bytes, end: Key) -> Iterator[Link]:
        for _, link in self._standby.after(Key(at) if at else None, end):
            yield link


def _key_of(link: Link) -> Key:
    return position_of(link.url)
