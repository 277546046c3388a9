"""What does an owner give to helpers, and what becomes of it? The owner's side of `work.take` and `work.give`.

The crawl asks its fetcher for a URL, with a lease that it holds. If a helper waits for work and may have more
(`core.helpers`), the fetch is the helper's: the owner's connection waits for the result, so the host has one visitor at
a time and rests afterwards as after the owner's own fetch. The window stays the owner's; the helper has a copy of it,
signed by the steward, by which it sees that the host's steward knows of the visit.

A helper that is late, brings nothing, or says ill of a host costs one window: the URL is due as before, and then the
owner asks by itself. Of what helpers bring, the owner looks at some again, under another lease.
"""

import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

import anyio
from cachetools import FIFOCache
from msgspec.structs import replace

from crawler.core.capture import Capture
from crawler.core.errors import AnotherTimeError
from crawler.core.politeness import NoWay, Wait
from crawler.core.urls import UrlKey, UrlRules, url_key
from crawler.ports import Fetcher, FetchRequest, Skipped
from herodotus.core.errors import FileSyntaxError, MalformedError, StorageFailure
from herodotus.core.helpers import FORMAT, HelperBook, HelpersFile, Verdict
from herodotus.core.status import HelpersStatus
from herodotus.crawl.gear import WindowOf
from herodotus.crawl.helpers.results import found_in, is_believed, is_same
from herodotus.crawl.helpers.wire import (
    BATCH_BYTES,
    BODY_BYTES_MAX,
    GIVE,
    TAKE,
    UNTRUSTED,
    VALIDATOR_CHARACTERS_MAX,
    Item,
    Result,
    decode_give,
    decode_take,
    encode_taken,
    encode_work,
    family_of,
)
from herodotus.home.state_files import read_state_file, write_state_file
from herodotus.peers.calls import PeerKey, RefusedError, Services

logger = logging.getLogger(__name__)

WAITING_MAX: Final = 64
"""Helpers that wait at an owner at once: a third of the connections that a home router bears."""
WAITING_OF_ONE: Final = 2
"""The question before may hang in a dead connection."""
OUT_OF_ONE: Final = 32
"""Items that one helper has at a time: what it would fetch in a minute by 16 connections."""
GATHER_S: Final = 0.25
"""After a batch's first item, others may come: hosts' windows open at any moment."""
STARTS_WITHIN_S: Final = 15.0
"""Less of a window than this is not waited for: a result that is not there then is late."""
DECLINED_WITHIN_S: Final = 20.0
"""So soon a helper knows that robots.txt, its own rest or its line is in the way. Later, a host has waited in vain."""
LEAST_S: Final = 1.0
"""A window with less left is over before the work has arrived."""
FETCH_S: Final = 30.0
"""For the fetch, and for the way back. A slower page the owner fetches."""
BODY_ROOM_FROM: Final = 1 << 20
"""As for the crawl's own fetches (`crawler.ports.BodyRooms`)."""
OWN_MAX: Final = 16_384
"""URLs that the owner fetches itself the next time: some 2 MB."""
REFUSED_AGAIN_S: Final = 60.0
NO_WORK_AGAIN_S: Final = 600.0
"""A member whose line has just closed is known as one for a minute."""
BARRED_AGAIN_S: Final = 86_400.0
FILE_BYTES_MAX: Final = 4 << 20
SAVE_EVERY_S: Final = 60.0


@dataclass(slots=True)
class _Piece:
    """One item, from the moment at which a helper was chosen for it."""

    asked: FetchRequest
    item: Item
    helper: PeerKey
    batch: bytes = b""
    """Empty until it is sent."""
    index: int = 0
    sent_at: float = 0.0
    """By the wall clock."""
    done: anyio.Event = field(default_factory=anyio.Event)
    is_back: bool = False
    is_declined: bool = False
    """The helper said that it has nothing, or nothing that is believed: it did its part."""
    found: Capture | Skipped | None = None


@dataclass(slots=True)
class _Waiting:
    """A helper that waits for work."""

    peer: PeerKey
    want: int
    body_bytes_max: int
    families: int
    pieces: list[_Piece] = field(default_factory=list)
    has_some: anyio.Event = field(default_factory=anyio.Event)

    @property
    def is_full(self) -> bool:
        return len(self.pieces) >= self.want


@dataclass(frozen=True, slots=True, kw_only=True)
class DeskParts:
    file: Path
    chance: Random
    """Nobody else's to know."""
    wall_clock: Callable[[], float]
    window_of: WindowOf
    owns: Callable[[PeerKey], bool]
    """Whether it has a share of its own: such a peer is no helper."""
    rules: UrlRules
    today: Callable[[], int]
    is_on: bool = True


class WorkDesk:
    """Made for a peer's life; `kept` is open for as long as it answers."""

    def __init__(self, parts: DeskParts) -> None:
        self._parts = parts
        self._book = _kept_book(parts)
        self._waiting: list[_Waiting] = []
        self._batches: dict[PeerKey, dict[bytes, dict[int, _Piece]]] = {}
        """What is out, by helper and batch."""
        self._own: FIFOCache[UrlKey, None] = FIFOCache(OWN_MAX)
        self._late = 0
        self._untold = 0
        """Fetches that the book has not heard of: it is asked only where helpers wait."""

    @property
    def services(self) -> Services:
        return Services(calls={TAKE: self.take, GIVE: self.give})

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Inside, what is known of helpers is saved now and then; leaving saves it a last time."""

        async def keep() -> None:
            while True:
                await anyio.sleep(SAVE_EVERY_S)
                self._save()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(keep)
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()
                self._save()

    def status(self) -> HelpersStatus:
        counts, now = self._book.counts, self._parts.wall_clock()
        return HelpersStatus(
            waiting=len({one.peer for one in self._waiting}),
            out=sum(self._out(peer) for peer in self._batches),
            given=counts.given,
            brought=counts.brought,
            checked=counts.checked,
            differed=counts.differed,
            changing=counts.changing,
            lost=counts.lost,
            declined=counts.declined,
            late=self._late,
            barred={peer.hex(): int(until - now) for peer, until in sorted(self._book.barred(now).items())},
        )

    # -- the crawl's side

    def keep_own(self, key: UrlKey) -> None:
        """This peer fetches it itself the next time."""
        self._own[key] = None

    def hand_out(self, asked: FetchRequest) -> _Piece | None:
        """To a helper that waits. None: nobody may have it."""
        parts = self._parts
        self._untold += 1
        if not self._waiting or asked.again is None or asked.starts_by is None or not asked.address:
            return None
        key = url_key(asked.url)
        if key in self._own:
            del self._own[key]
            return None
        self._tell_book()
        left_s = asked.starts_by - anyio.current_time()
        window = parts.window_of(asked.url, parts.wall_clock())
        has_place = window is not None and (not window.addresses or asked.address in window.addresses)
        is_long = max(len(asked.etag), len(asked.last_modified)) > VALIDATOR_CHARACTERS_MAX
        if left_s < LEAST_S or window is None or not has_place or is_long:
            return None
        helper = self._choose(family_of(asked.address))
        if helper is None:
            return None
        item = Item(
            asked.url,
            asked.etag,
            asked.last_modified,
            int(1000 * min(left_s, STARTS_WITHIN_S)),
            asked.address,
            min(helper.body_bytes_max, asked.body_bytes_max or BODY_BYTES_MAX),
            window,
        )
        piece = _Piece(asked, item, helper.peer)
        helper.pieces.append(piece)
        helper.has_some.set()
        return piece

    def may_hand_out(self, address: str) -> bool:
        """Does a helper wait that can fetch from there?"""
        return self._choose(family_of(address)) is not None

    def _tell_book(self) -> None:
        self._book.start_day(self._parts.today())
        self._book.fetched(self._untold)
        self._untold = 0

    def _choose(self, family: int) -> _Waiting | None:
        now = self._parts.wall_clock()
        chosen = Counter({one.peer: 0 for one in self._waiting})
        for one in self._waiting:
            chosen[one.peer] += len(one.pieces)
        able = [
            one
            for one in self._waiting
            if not one.is_full
            and one.families & family
            and self._out(one.peer) + chosen[one.peer] < OUT_OF_ONE
            and self._book.may_have(one.peer, now) > chosen[one.peer]
        ]
        return self._parts.chance.choice(able) if able else None

    def _out(self, peer: PeerKey) -> int:
        return sum(map(len, self._batches.get(peer, {}).values()))

    async def finished(self, piece: _Piece) -> None:
        """Until its result is there, or late, or no helper heard of it."""
        try:
            with anyio.move_on_after(piece.item.lasts_ms / 1000 + FETCH_S + GATHER_S):
                await piece.done.wait()
        finally:
            batches = self._batches.get(piece.helper, {})
            batch = batches.get(piece.batch, {})
            batch.pop(piece.index, None)
            if not batch:
                batches.pop(piece.batch, None)
            if not batches:
                self._batches.pop(piece.helper, None)

    def wants_check(self, helper: PeerKey) -> bool:
        return self._book.brought(helper, self._parts.wall_clock())

    def judge(self, helper: PeerKey, verdict: Verdict, url: str) -> None:
        now = self._parts.wall_clock()
        self._book.judge(helper, verdict, now)
        if verdict is Verdict.OTHER:
            logger.warning(
                "a helper brought what its origin does not say peer=%s url=%s", helper.hex()[:16], url
            )
        if self._book.is_barred(helper, now):
            logger.warning("a helper has no work here for a month peer=%s", helper.hex()[:16])

    def lose(self, helper: PeerKey, *, is_declined: bool) -> None:
        """It brought nothing."""
        if is_declined:
            self._book.decline(helper, self._parts.wall_clock())
        else:
            self._book.lose(helper, self._parts.wall_clock())

    # -- the helpers' side

    async def take(self, peer: PeerKey, body: bytes) -> bytes:
        """Some URLs to fetch, as soon as there are any."""
        started = anyio.current_time()
        try:
            asked = decode_take(body)
        except MalformedError as error:
            raise RefusedError("malformed") from error
        self._check(peer)
        mine = _Waiting(peer, asked.want, asked.body_bytes_max, asked.families)
        self._waiting.append(mine)
        is_heard = False
        try:
            with anyio.move_on_after(asked.wait_ms / 1000):
                await mine.has_some.wait()
                if not mine.is_full:
                    await anyio.sleep(GATHER_S)
            is_heard = True
        finally:
            self._waiting.remove(mine)
            if not is_heard:  # the helper is gone before it was told: the owner fetches them at once
                for piece in mine.pieces:
                    piece.done.set()
        return self._sent(mine, anyio.current_time() - started)

    def _sent(self, mine: _Waiting, waited_s: float) -> bytes:
        batch = self._parts.chance.randbytes(BATCH_BYTES)
        wall_s, now = self._parts.wall_clock(), anyio.current_time()
        items = []
        for index, piece in enumerate(mine.pieces):
            assert piece.asked.starts_by is not None, "it was handed out under a window"
            left_ms = int(1000 * max(0.0, piece.asked.starts_by - now))
            items.append(replace(piece.item, lasts_ms=min(piece.item.lasts_ms, left_ms)))
            piece.batch, piece.index, piece.sent_at = batch, index, wall_s
            self._book.give(mine.peer, wall_s)
            self._batches.setdefault(mine.peer, {}).setdefault(batch, {})[index] = piece
        longest_ms = max((item.lasts_ms for item in items), default=0)
        deadline_ms = longest_ms + int(1000 * FETCH_S)
        return encode_work(batch, items, waited_ms=int(1000 * waited_s), deadline_ms=deadline_ms)

    def _check(self, peer: PeerKey) -> None:
        now = self._parts.wall_clock()
        if self._book.is_barred(peer, now):
            raise RefusedError(UNTRUSTED, retry_after_s=BARRED_AGAIN_S)
        if not self._parts.is_on or self._parts.owns(peer):
            raise RefusedError("no work", retry_after_s=NO_WORK_AGAIN_S)
        of_one = sum(one.peer == peer for one in self._waiting)
        if of_one >= WAITING_OF_ONE or len(self._waiting) >= WAITING_MAX:
            raise RefusedError("busy", retry_after_s=REFUSED_AGAIN_S)

    async def give(self, peer: PeerKey, body: bytes) -> bytes:
        """What came of it. Of an item only the first result counts."""
        try:
            given = decode_give(body)
        except MalformedError as error:
            raise RefusedError("malformed") from error
        batch = self._batches.get(peer, {}).get(given.batch, {})
        taken = 0
        for result in given.results:
            piece = batch.get(result.index)
            if piece is None or piece.is_back:  # it came before, or is late, or was never asked for
                self._late += 1
                continue
            piece.is_back = True
            await self._receive(piece, result)
            taken += 1
        return encode_taken(taken)

    async def _receive(self, piece: _Piece, result: Result) -> None:
        try:
            took_s = self._parts.wall_clock() - piece.sent_at
            piece.is_declined = not is_believed(result.status) and took_s <= DECLINED_WITHIN_S
            found = found_in(
                piece.asked,
                result,
                sent_at=piece.sent_at,
                now=self._parts.wall_clock(),
                helper=piece.helper.hex(),
                rules=self._parts.rules,
            )
        except MalformedError as error:
            piece.is_declined = False
            logger.info("a helper's result is of no use peer=%s error=%s", piece.helper.hex()[:16], error)
            found = None
        try:
            # The caller waits while other large bodies are in memory, as our own fetches do.
            if found is not None and len(result.body) > BODY_ROOM_FROM and piece.asked.place is not None:
                await piece.asked.place.grow()
            piece.found = found
        finally:
            piece.done.set()

    def _save(self) -> None:
        self._tell_book()
        if not self._book.is_changed:
            return
        try:
            write_state_file(self._parts.file, self._book.keep())
        except StorageFailure as error:
            logger.warning("what is known of helpers is not saved error=%s", error)


class HelpedFetcher:
    """A `Fetcher` that has helpers fetch what they may, and asks the origin itself for the rest."""

    def __init__(self, inner: Fetcher, desk: WorkDesk) -> None:
        self._inner, self._desk = inner, desk

    async def address_of(self, host: str) -> str | Wait:
        """Where we have no way to, a helper may have one."""
        found = await self._inner.address_of(host)
        return found.address if isinstance(found, NoWay) and self._desk.may_hand_out(found.address) else found

    async def fetch(self, request: FetchRequest) -> Capture | Skipped:
        desk = self._desk
        piece = desk.hand_out(request)
        if piece is None:
            return await self._inner.fetch(request)
        await desk.finished(piece)
        if not piece.batch:
            return await self._own_or_later(request)
        if piece.found is None:
            desk.lose(piece.helper, is_declined=piece.is_declined)
            raise self._later(request, "its helper brought nothing")
        if not desk.wants_check(piece.helper):
            return piece.found
        return await self._looked_at(request, piece, piece.found)

    async def _looked_at(
        self, request: FetchRequest, piece: _Piece, brought: Capture | Skipped
    ) -> Capture | Skipped:
        """The helper's if we find the same, else what the origin says to us. A page that says something else each time
        tells nothing about who brought it."""
        own = await self._own_again(request, brought)
        if is_same(brought, own):
            self._desk.judge(piece.helper, Verdict.SAME, request.url)
            return brought
        once_more = await self._own_again(request, own)
        verdict = Verdict.OTHER if is_same(own, once_more) else Verdict.CHANGING
        self._desk.judge(piece.helper, verdict, request.url)
        return once_more

    async def _own_again(self, request: FetchRequest, found: Capture | Skipped) -> Capture | Skipped:
        assert request.again is not None, "only such a one is handed out"
        again = await request.again(found)
        if again is None:
            raise self._later(request, "its host rests for long, and nobody looked at what a helper brought")
        return await self._inner.fetch(again)

    async def _own_or_later(self, request: FetchRequest) -> Capture | Skipped:
        """A helper that left at once takes no time; the window may be over all the same."""
        if request.starts_by is not None and anyio.current_time() < request.starts_by:
            return await self._inner.fetch(request)
        raise self._later(request, "its helper left")

    def _later(self, request: FetchRequest, reason: str) -> AnotherTimeError:
        self._desk.keep_own(url_key(request.url))
        return AnotherTimeError(request.url, reason)


def _kept_book(parts: DeskParts) -> HelperBook:
    """What a damaged file said is forgotten: helpers then begin as new ones, and are looked at more."""
    try:
        kept = read_state_file(parts.file, HelpersFile, newest=FORMAT, bytes_max=FILE_BYTES_MAX)
        return HelperBook(parts.chance, kept)
    except (FileSyntaxError, StorageFailure, ValueError) as error:  # ValueError: a key that is none
        logger.warning("what was known of helpers is forgotten error=%s", error)
        return HelperBook(parts.chance)
