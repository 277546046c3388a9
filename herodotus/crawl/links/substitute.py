"""Who fetches what its owner does not? The stand-ins, one after the other, each URL by one of them.

Two ways. When the ring finds an owner dead, or positions change hands, this peer may become the first live holder of
URLs in its standby: they go to its frontier, and URLs that another peer now owns leave it (`sweep`). And late in the
day a stand-in asks a living owner which URLs of a stretch it has not visited today (the owner then leaves them to
us), and asks the holders in between which of those they have done. It fetches the rest today (`look`). If an owner
does not answer, we assume that it has visited nothing.

An owner remembers which stand-ins it left a URL to. When they are lost, or say that they do not fetch it, it fetches
the URL itself (`sweep`, `ask_after`). It looks for a copy in its own archive first, since one of them may have done it.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Final, Protocol, TypeVar

import anyio

from crawler.core.link import Link
from crawler.core.recrawl import Known
from crawler.core.urls import UrlKey
from crawler.frontier import LEFT
from dht import Contact
from dht.core.arcs import NONE, Arc, Arcs
from dht.core.ids import KEY_BYTES, Key
from dht.core.limits import Buckets, Rate
from herodotus.crawl.links.outbox import Standby
from herodotus.crawl.links.owner import RingOwner, out_of
from herodotus.peers.calls import CallError, PeerKey, Questions, RefusedError, Services
from herodotus.peers.ring_view import RingView

MISSED: Final = "links.missed"
VISITED: Final = "links.visited"
KEYS_MAX: Final = 4_000
"""In one question or answer."""
ROWS_MAX: Final = 20_000
"""Looked through for one answer: a tenth of a second, in small pieces."""
CHUNK: Final = 500
ALONE_S: Final = 300.0
_ZERO: Final = Key(bytes(KEY_BYTES))
"""Where a piece begins that lies behind zero: nobody has a URL of that very key."""
Row = TypeVar("Row")
PAGES_MAX: Final = 64
"""Questions about one stretch: more than a million URLs."""
QUESTIONS: Final = Rate(per_second=1, burst=256)
DEADLINE_S: Final = 60.0
TRIES: Final = 3
"""At two lost calls in a hundred one of 100,000 who answered is taken for silent, and a stretch fetched twice."""
AGAIN_S: Final = 5.0
AGAIN_MAX_S: Final = 30.0


class OwnFrontier(Protocol):
    """What this asks of the running crawl."""

    @property
    def takes_links(self) -> bool: ...
    @property
    def may_fetch(self) -> bool: ...
    @property
    def today(self) -> int: ...
    def take_over(self, links: Sequence[Link], *, may_be_done: bool = False) -> int: ...
    def is_out(self, key: UrlKey) -> bool: ...
    def leave(self, keys: Sequence[UrlKey]) -> int: ...
    def take_back(self, keys: Sequence[UrlKey], *, may_be_done: bool = False) -> int: ...
    def look_again(self) -> None: ...
    def look_for(self, key: UrlKey, digest: bytes) -> bool: ...
    def known_of(self, keys: Sequence[UrlKey]) -> list[Known | None]: ...
    def known_after(self, key: bytes, count: int) -> list[tuple[UrlKey, Known]]: ...


@dataclass(slots=True)
class StandInCounts:
    left: int = 0
    """URLs that became somebody else's to fetch."""
    taken_over: int = 0
    """URLs fetched for an owner that was late."""
    silent_owners: int = 0


class StandingIn:
    def __init__(
        self,
        view: RingView,
        calls: Questions,
        frontier: OwnFrontier,
        standby: Standby,
        owner: RingOwner,
        reaches_most: Callable[[], bool] = lambda: True,
    ) -> None:
        """`reaches_most`: has this machine IPv4? Else it could not fetch what it took over at sites that have that
        alone, and while it meant to, no other stand-in would.
        """
        self._reaches_most = reaches_most
        self._view = view
        self._calls = calls
        self._frontier = frontier
        self._standby = standby
        self._owner = owner
        self._owned: Arcs | None = None
        self._to_leave = NONE
        """Stretches that are not ours any more, in which something was being fetched when we left them."""
        self._alone_since: float | None = None
        self._deciding = set[Key]()
        """What a late owner left to us, while it names more, and while we ask the holders in between."""
        self._asked_after: dict[PeerKey, float] = {}
        """When each stand-in of ours was last left something, or asked what became of it."""
        self._buckets = Buckets(4_096)
        self.counts = StandInCounts()

    @property
    def services(self) -> Services:
        return Services(calls={MISSED: self.missed, VISITED: self.visited})

    # --- stretches that became ours, or somebody else's

    async def sweep(self) -> None:
        """Put into the frontier what we are now the first live holder of, and out of it what we are no more.

        A peer that sees nobody waits for a while before it takes everything: most are alone while they join.
        """
        ring, now = self._view.live, anyio.current_time()
        if len(ring.peers) > 1 or self._alone_since is None:
            self._alone_since = now
        if len(ring.peers) <= 1 and now - self._alone_since < ALONE_S:
            return
        if not self._frontier.takes_links or not len(ring):
            return
        owned = ring.arcs(self._view.me.peer, ranks=(0,))
        for peer, keys in self._owner.given_today().items():
            if peer not in ring.peers:
                await self._take_back(peer, keys)
        before, self._owned = self._owned, None  # everything again, if the crawl ends in the middle of it
        lost = ~owned if before is None else (before | self._to_leave) - owned
        self._to_leave = Arcs([arc for arc in lost if not await self._leave(arc)])
        new = owned - (before or NONE)
        for arc in new:
            await self._take_up(arc)
        self._owned = owned
        if new:
            self._frontier.look_again()

    @property
    def has_left_all(self) -> bool:
        return not self._to_leave

    async def _leave(self, arc: Arc) -> bool:
        """False: what is being fetched there is still to be left."""
        is_all = True
        for chunk in _chunks(self._in_frontier(arc)):
            keys = [key for key, known in chunk if known.due_day != LEFT]
            is_all = is_all and not any(map(self._frontier.is_out, keys))
            kept = [out_of(known) for key, known in chunk if self._view.rank(Key(key)) is not None]
            self._standby.add(kept)
            self.counts.left += self._frontier.leave(keys) if keys else 0
            await anyio.lowlevel.checkpoint()
        return is_all

    async def _take_up(self, arc: Arc) -> None:
        for chunk in _chunks(self._in_frontier(arc)):
            left = [key for key, known in chunk if known.due_day == LEFT]
            ours = [key for key in left if not self._owner.is_given(Key(key))]
            self._frontier.take_back(ours, may_be_done=True)
            await anyio.lowlevel.checkpoint()
        for rows in _chunks(self._within(arc)):
            found = [link for key, link in rows if not self._owner.is_given(key)]
            self._frontier.take_over(found, may_be_done=True)
            await anyio.lowlevel.checkpoint()

    def _in_frontier(self, arc: Arc) -> Iterator[tuple[UrlKey, Known]]:
        for start, end in Arcs([arc]).pieces():
            at = bytes(start)
            while rows := self._frontier.known_after(at, CHUNK):
                inside = [row for row in rows if row[0] <= end]
                yield from inside
                if len(inside) < len(rows):
                    break
                at = rows[-1][0]

    def _within(self, arc: Arc) -> Iterator[tuple[Key, Link]]:
        for start, end in Arcs([arc]).pieces():
            yield from self._standby.after(start or None, end)

    # --- owners that are late

    async def begin_day(self) -> None:
        """What we fetched for others yesterday is theirs again, and what others fetched for us is ours."""
        self._asked_after.clear()
        while self._frontier.takes_links and (keys := self._owner.give_up_some(CHUNK)):
            self._frontier.leave([UrlKey(key) for key in keys if self._view.rank(key) != 0])
            await anyio.lowlevel.checkpoint()
        while self._frontier.takes_links and (keys := self._owner.want_back_some(CHUNK)):
            self._frontier.take_back([UrlKey(key) for key in keys if self._view.rank(key) == 0])
            await anyio.lowlevel.checkpoint()
        self._frontier.look_again()

    async def look(self, rank: int) -> None:
        """At all stretches of which we are this stand-in."""
        if not self._reaches_most():
            return
        ring, today = self._view.live, self._frontier.today
        for at_rank, stretch in ring.share(self._view.me.peer):
            if self._frontier.today != today:
                return  # so long did somebody not answer: all of the new day is missed, as yet
            if at_rank == rank and self._frontier.takes_links:
                before = ring.holders(stretch)[:rank]
                await self._look_at(ring.arc(stretch), before)
        self._frontier.look_again()

    async def _look_at(self, arc: Arc, before: Sequence[Contact]) -> None:
        for piece in Arcs([arc]).pieces():
            part = Arc(*piece)
            if not any(True for _ in islice(self._within(part), 1)):
                continue
            try:
                missed = await self._missed_by(before[0], part)
                for contact in before[1:]:
                    with suppress(CallError):
                        missed = await self._not_visited(contact, missed)
                self._fetch(missed, part)
            finally:
                self._deciding.clear()

    async def _missed_by(self, owner: Contact, part: Arc) -> list[Key]:
        """All of it where the owner does not answer."""
        try:
            return await self._ask_missed(owner, part.start or _ZERO, part.end)
        except CallError:
            self.counts.silent_owners += 1
            missed = [key for key, _ in islice(self._within(part), KEYS_MAX)]
            self._deciding.update(missed)
            return missed

    async def _ask_missed(self, owner: Contact, start: Key, end: Key) -> list[Key]:
        found: list[Key] = []
        at = start
        for _ in range(PAGES_MAX):
            answer = await self._ask(owner, MISSED, at + end)
            if len(answer) % KEY_BYTES or not KEY_BYTES <= len(answer) <= KEY_BYTES * (KEYS_MAX + 1):
                raise CallError("no answer to what is missed")
            at, *keys = _keys(answer)
            found += keys
            self._deciding.update(keys)
            if at == end or len(found) >= KEYS_MAX:
                break
        return found[:KEYS_MAX]

    async def _not_visited(self, contact: Contact, keys: list[Key]) -> list[Key]:
        """Nor will it visit these. Raises a CallError."""
        bits = await self._ask(contact, VISITED, b"".join(keys)) if keys else b""
        return [key for place, key in enumerate(keys) if not _bit(bits, place)]

    async def _ask(self, contact: Contact, service: str, body: bytes) -> bytes:
        """Some more times before it counts as silent: its stretch would be fetched twice. Raises a CallError."""
        for tries_left in range(TRIES - 1, -1, -1):
            again_s = AGAIN_S
            try:
                return await self._calls.call(contact, service, body, deadline_s=DEADLINE_S)
            except CallError as error:
                if isinstance(error, RefusedError):
                    again_s = error.retry_after_s or AGAIN_S
                if not tries_left or again_s > AGAIN_MAX_S:
                    raise
            await anyio.sleep(again_s)
        raise AssertionError("the last try returns or raises")

    def _fetch(self, missed: Sequence[Key], arc: Arc) -> None:
        wanted = set(missed)
        found = [
            (key, link)
            for key, link in (self._within(arc) if wanted else ())
            if key in wanted and self._owner.take_over(key)
        ]
        if found:
            self._frontier.take_over([link for _, link in found], may_be_done=True)
            self.counts.taken_over += len(found)

    # --- what we left to stand-ins

    async def ask_after(self, every_s: float) -> None:
        """Do our stand-ins still mean to fetch what we left to them? One that started again has forgotten it; one that
        was paused does nothing. One that does not answer keeps it, until the ring has lost that peer.
        """
        now = anyio.current_time()
        if not any(now - at >= every_s for at in self._asked_after.values()):
            return
        given = self._owner.given_today()
        contacts: dict[PeerKey, Contact] = {one.peer: one for one in self._view.live.contacts}
        for peer, at in list(self._asked_after.items()):
            if now - at < every_s:
                continue
            self._asked_after[peer] = now
            for keys in _chunks(iter(given.get(peer, [])), KEYS_MAX) if peer in contacts else ():
                with suppress(CallError):
                    left = await self._not_visited(contacts[peer], keys)
                    has_asked_again = self._asked_after.get(peer) != now  # then it may want them now
                    if not has_asked_again:
                        await self._take_back(peer, left)

    async def _take_back(self, peer: PeerKey, keys: Sequence[Key]) -> None:
        for chunk in _chunks(iter(keys)):
            ours = [UrlKey(key) for key in self._owner.take_from(peer, chunk) if self._view.rank(key) == 0]
            # The peer may have fetched some of them before it was lost: then our archive has a copy by now.
            self._frontier.take_back(ours, may_be_done=True)
            await anyio.lowlevel.checkpoint()
        self._frontier.look_again()

    # --- what stand-ins ask of us

    async def missed(self, peer: PeerKey, body: bytes) -> bytes:
        """(start, end] of keys: which of those due today were not visited? First how far was looked.

        The owner names again what it gave to a stand-in already: the answer may have been lost, or the stand-in is
        gone; the next stand-in asks that one as well.
        """
        self._check(peer, len(body) == 2 * KEY_BYTES)
        at, end = _keys(body)
        found: list[Key] = []
        holders = {contact.peer for key in (at, end) for contact in self._holders(key)}
        is_over = at >= end or peer not in holders  # a peer that holds nothing there gets nothing
        today, given = self._frontier.today, 0
        for _ in range(0 if is_over else ROWS_MAX // CHUNK):
            rows = self._frontier.known_after(at, CHUNK)
            for key, known in rows:
                if key > end:
                    is_over = True
                    break
                at = Key(key)
                is_open = known.due_day <= today or self._owner.is_given(at)
                is_open = is_open and known.last_day < today and not self._frontier.is_out(key)
                if is_open and self._gives(at, peer):
                    found.append(at)
            self._frontier.leave([UrlKey(key) for key in found[given:]])
            given = len(found)
            if given:
                self._asked_after[peer] = anyio.current_time()
            if is_over or len(rows) < CHUNK:
                is_over = True
                break
            if len(found) > KEYS_MAX - CHUNK:
                break
            await anyio.lowlevel.checkpoint()
        return (end if is_over else at) + b"".join(found)

    def _gives(self, key: Key, peer: PeerKey) -> bool:
        """A holder that asks what we missed fetches it: from then on it is not our turn today."""
        return any(contact.peer == peer for contact in self._holders(key)) and self._owner.give(key, peer)

    def _holders(self, key: Key) -> tuple[Contact, ...]:
        return self._view.live.of(key)

    async def visited(self, peer: PeerKey, body: bytes) -> bytes:
        """Keys: one bit each, the first the lowest of its byte: was it visited today, or will it be?"""
        self._check(peer, 0 < len(body) <= KEYS_MAX * KEY_BYTES and not len(body) % KEY_BYTES)
        await anyio.lowlevel.checkpoint()
        keys = _keys(body)
        known = self._frontier.known_of([UrlKey(key) for key in keys])
        bits = bytearray((len(known) + 7) // 8)
        for place, (key, one) in enumerate(zip(keys, known, strict=True)):
            if key in self._deciding or (one is not None and self._sees_to(key, one)):
                bits[place // 8] |= 1 << place % 8
        return bytes(bits)

    def _sees_to(self, key: Key, known: Known) -> bool:
        today = self._frontier.today
        is_to_come = known.due_day <= today and self._owner.has_taken(key) and self._frontier.may_fetch
        return known.last_day >= today or is_to_come

    def _check(self, peer: PeerKey, is_question: bool) -> None:
        if not is_question:
            raise RefusedError("nonsense")
        if not self._frontier.takes_links:
            raise RefusedError("not ready", retry_after_s=20.0)
        if not self._buckets.take(peer, QUESTIONS, anyio.current_time()):
            raise RefusedError("busy", retry_after_s=10.0)


def _keys(data: bytes) -> list[Key]:
    return [Key(data[at : at + KEY_BYTES]) for at in range(0, len(data), KEY_BYTES)]


def _bit(bits: bytes, place: int) -> bool:
    return place // 8 < len(bits) and bool(bits[place // 8] >> place % 8 & 1)


def _chunks(rows: Iterator[Row], size: int = CHUNK) -> Iterator[list[Row]]:
    while chunk := list(islice(rows, size)):
        yield chunk
