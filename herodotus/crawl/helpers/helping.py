"""What does a peer do that nobody can call? It fetches for peers that own URLs: the helper's side of the work.

It asks three owners of its choice for work, each by a call that the owner answers when it has some. Each URL comes with
the window under which it may be fetched, signed by the steward of its host for that owner. So an owner cannot send
helpers to a host that knows nothing of the visit. Otherwise the rules are those of the peer's own fetches: the scope of
the charter, opt-outs, robots.txt as the host's steward tells it, public addresses alone, and its own rests between two
fetches from one host, for whomever they are.
"""

import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Final, Protocol, Self

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from cachetools import LRUCache

from crawler.core.errors import FetchError, MalformedUrlError, TooLateError
from crawler.core.politeness import HostSteward, Lease, OptOutList, OriginReport, Stay, Wait
from crawler.core.robots import RobotsRules
from crawler.core.scope import ContentChoice, Territory
from crawler.core.urls import Origin, UrlRules, has_web_port, host_of, origin_of, target_of
from crawler.outcomes import report_of
from crawler.ports import Fetcher, FetchRequest
from crawler.worker import wanted_types
from dht import Contact
from dht.core.ids import IPV4_BYTES, Key
from dht.core.ids import PeerKey as MemberKey
from dht.core.records import CLOSED, LEAF, PeerRecord, SignedRecord
from herodotus.core.errors import MalformedError
from herodotus.core.signatures import is_signed_window
from herodotus.core.status import HelpingStatus
from herodotus.crawl.helpers.results import no_result, result_of
from herodotus.crawl.helpers.wire import (
    GIVE,
    GIVE_BYTES_MAX,
    IPV4,
    IPV6,
    TAKE,
    UNTRUSTED,
    WAIT_MS_MAX,
    WANT_MAX,
    Item,
    Result,
    Work,
    decode_taken,
    decode_work,
    encode_give,
    encode_take,
)
from herodotus.crawl.stewards.office import key_of_subject, subject_of
from herodotus.crawl.stewards.windows import soon
from herodotus.peers.calls import CallError, PeerKey, Questions, RefusedError

logger = logging.getLogger(__name__)

OWNERS: Final = 3
LOOK_S: Final = 10.0
"""Whether it is a helper at all may change at any time."""
ANSWER_S: Final = 15.0
"""Beyond the time for which the owner waits."""
EMPTY_MAX: Final = 2
"""Answers without work, then another owner is asked: a minute and a half."""
OWNER_FOR_S: Final = 3_600.0
"""So that all owners see it, also those with little work."""
AVOID_MAX: Final = 1_024
AGAIN_LEAST_S, AGAIN_MAX_S = 60.0, 86_400.0
AT_ONCE: Final = 16
"""Fetches: what a weak home line bears beside its people."""
WAIT_LEAST_S, REST_LOOK_S = 0.01, 0.5
"""Another fetch of ours at the host ends nobody knows when: it is looked again, for as long as the work may wait."""
GIVE_AFTER_S: Final = 0.25
"""Results that end together travel together."""
GIVE_DEADLINE_S: Final = 60.0
SLACK: Final = 2
"""Holders of a host's key beyond the charter's copies: tables differ a little while news travels."""


class HelperRing(Protocol):
    """The part of the ring that a helper uses."""

    @property
    def record(self) -> SignedRecord | None: ...
    def record_of(self, peer: MemberKey) -> PeerRecord | None: ...
    def owners_that_are_well(self) -> list[Contact]: ...
    def holders_by_place(self, key: Key, copies: int) -> tuple[Contact, ...]: ...


class Rules(Protocol):
    """Of robots.txt, and this peer's own rests."""

    core: HostSteward

    async def rules_alone(self, origin: Origin) -> RobotsRules | Wait: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HelpingParts:
    fetcher: Fetcher
    steward: Rules
    chance: Random
    rules: UrlRules
    territory: Territory
    content: ContentChoice
    opted_out: OptOutList
    network: bytes
    copies: int
    wall_clock: Callable[[], float]
    rests: Callable[[], str]
    """Why nothing may be fetched now; empty: it may."""
    charge: Callable[[int], None]
    """Books bytes that were sent."""
    today: Callable[[], int]
    is_on: bool = True


class Helping:
    """`running` keeps it at work inside the ring."""

    def __init__(self, parts: HelpingParts) -> None:
        self._parts = parts
        self._avoided: LRUCache[PeerKey, float] = LRUCache(AVOID_MAX)
        self._distrusted: LRUCache[PeerKey, None] = LRUCache(AVOID_MAX)
        """Owners that found pages altered which this peer brought."""
        self._asked: set[PeerKey] = set()
        self._room = anyio.Semaphore(AT_ONCE)
        self._is_helper = False
        self._day = -1
        self._fetched = self._declined = self._late = 0
        self._owners: set[PeerKey] = set()

    def status(self) -> HelpingStatus:
        self._turn()
        return HelpingStatus(
            is_helper=self._is_helper,
            fetched=self._fetched,
            owners=len(self._owners),
            declined=self._declined,
            late=self._late,
            distrusted=len(self._distrusted),
            rests=self._parts.rests() if self._is_helper else "",
        )

    @asynccontextmanager
    async def running(self, ring: HelperRing, calls: Questions) -> AsyncIterator[None]:
        async with anyio.create_task_group() as tasks:
            if self._parts.is_on:
                tasks.start_soon(self._look, ring, calls)
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()

    async def _look(self, ring: HelperRing, calls: Questions) -> None:
        while True:
            self._is_helper = is_helper(ring)
            if self._is_helper:
                async with anyio.create_task_group() as tasks:
                    for _ in range(OWNERS):
                        tasks.start_soon(self._help, ring, calls)
                    await self._while_helper(ring)
                    tasks.cancel_scope.cancel()
            await anyio.sleep(LOOK_S)

    async def _while_helper(self, ring: HelperRing) -> None:
        while True:
            await anyio.sleep(LOOK_S)
            if not is_helper(ring):
                return

    # -- one owner after the other

    async def _help(self, ring: HelperRing, calls: Questions) -> None:
        while True:
            owner = None if self._parts.rests() else self._chosen(ring)
            if owner is None:
                await anyio.sleep(LOOK_S)
                continue
            self._asked.add(owner.peer)
            try:
                await _Service(self, ring, calls, owner).run()
            finally:
                self._asked.discard(owner.peer)

    def _chosen(self, ring: HelperRing) -> Contact | None:
        now = anyio.current_time()
        able = [
            one
            for one in ring.owners_that_are_well()
            if one.peer not in self._asked and self._avoided.get(one.peer, now) <= now
        ]
        # Each question to an owner whose line is closed, too, goes through a third peer.
        open_ones = [one for one in able if not _is_closed(ring, one.peer)]
        return self._parts.chance.choice(open_ones or able) if able else None

    def avoid(self, owner: PeerKey, for_s: float, word: str = "") -> None:
        self._avoided[owner] = anyio.current_time() + min(max(for_s, AGAIN_LEAST_S), AGAIN_MAX_S)
        if word == UNTRUSTED:
            self._distrusted[owner] = None

    # -- one URL

    def refusal(self, item: Item, owner: PeerKey, ring: HelperRing) -> str:
        """Why it is not fetched; empty: it may be, if robots.txt says so."""
        parts, url = self._parts, item.url
        try:
            is_canonical = parts.rules.canonical(url) == url
        except (MalformedUrlError, UnicodeError):
            is_canonical = False
        if not is_canonical or not has_web_port(url) or target_of(url) == "/robots.txt":
            return "url"
        host = host_of(url)
        if not parts.territory.holds(url, host):
            return "scope"
        if parts.opted_out.covers(host):
            return "opt-out"
        return self._refusal_of_window(item, host, owner, ring)

    def _refusal_of_window(self, item: Item, host: str, owner: PeerKey, ring: HelperRing) -> str:
        window, subject = item.window, subject_of(host)
        if not item.address or (window.addresses and item.address not in window.addresses):
            return "address"
        if not window.covers(self._parts.wall_clock()):
            return "window"
        stewards = ring.holders_by_place(key_of_subject(subject), self._parts.copies + SLACK)
        if all(one.peer != window.steward for one in stewards):
            return "steward"
        if not is_signed_window(window, self._parts.network, owner, subject):
            return "signature"
        return ""

    async def fetched(self, index: int, item: Item, times: "Times") -> Result:
        """What came of a URL that `refusal` has nothing against."""
        async with self._room:
            lease = await self._permitted(item, times.starts_by)
            if isinstance(lease, str):
                return no_result(index, lease)
            started, core = anyio.current_time(), self._parts.steward.core
            report, result = OriginReport(status=None, duration_s=0.0), no_result(index, "late")
            stay = Stay()
            try:
                with anyio.move_on_after(times.due - started):
                    found = await self._parts.fetcher.fetch(self._request(item, stay, times.starts_by))
                    report = report_of(found, self._parts.wall_clock())
                    result = result_of(index, found, started - times.got)
            except TooLateError:
                report = OriginReport(status=None, duration_s=0.0, fetches=0)  # and it is late, as it was
            except FetchError as error:
                result = no_result(index, type(error).__name__)
            finally:
                stay.end()  # the owner's window may go back now: what stays open there would count for nobody
                core.give_back(lease, report, anyio.current_time())
            return result

    async def _permitted(self, item: Item, starts_by: float) -> Lease | str:
        """By robots.txt, and by our own rests: it starts now. Else why it may not."""
        origin, core = origin_of(item.url), self._parts.steward.core
        while anyio.current_time() <= starts_by:
            rest: RobotsRules | Lease | Wait = await self._parts.steward.rules_alone(origin)
            if isinstance(rest, RobotsRules):
                if not rest.allows(target_of(item.url)):
                    return "robots"
                now = anyio.current_time()
                rest = core.lease(origin, now, address=item.address) if now <= starts_by else soon("late")
            if isinstance(rest, Lease):
                return rest
            await anyio.sleep(min(max(WAIT_LEAST_S, rest.until - anyio.current_time()), REST_LOOK_S))
        return "late"

    def _request(self, item: Item, stay: Stay, starts_by: float) -> FetchRequest:
        return FetchRequest(
            url=item.url,
            etag=item.etag,
            last_modified=item.modified,
            accepts=wanted_types(item.url, self._parts.content),
            body_bytes_max=item.body_bytes_max,
            address=item.address,
            stay=stay,
            starts_by=starts_by,
        )

    # -- what is told

    def count(self, owner: PeerKey, result: Result) -> None:
        self._turn()
        if result.status:
            self._fetched += 1
            self._owners.add(owner)
        else:
            self._declined += 1

    def sent(self, size: int, late: int) -> None:
        """Bytes, and results that nobody waited for."""
        self._turn()
        self._late += max(0, late)
        self._parts.charge(size)

    @property
    def rests(self) -> bool:
        return bool(self._parts.rests())

    def _turn(self) -> None:
        today = self._parts.today()
        if today != self._day:
            self._day = today
            self._fetched = self._declined = self._late = 0
            self._owners.clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Of one item, by our clock."""

    got: float
    starts_by: float
    due: float

    @classmethod
    def of(cls, work: Work, item: Item, asked: float, got: float) -> Self:
        """The owner answered at `asked` + `waited_ms` at the earliest: what it promised from then on lies within its
        window, however long the answer took."""
        answered = min(asked + work.waited_ms / 1000, got)
        return cls(
            got=got,
            starts_by=answered + item.lasts_ms / 1000,
            due=answered + work.deadline_ms / 1000,
        )


class _Service:
    """For one owner, while it has work."""

    def __init__(self, helping: Helping, ring: HelperRing, calls: Questions, owner: Contact) -> None:
        self._helping, self._ring, self._calls, self._owner = helping, ring, calls, owner
        self._under_way = 0
        self._has_room = anyio.Event()

    async def run(self) -> None:
        until = anyio.current_time() + OWNER_FOR_S
        empty = 0
        results, given = anyio.create_memory_object_stream[tuple[bytes, Result]](WANT_MAX)
        async with anyio.create_task_group() as giving:
            giving.start_soon(self._give, given)
            async with results, anyio.create_task_group() as tasks:
                while empty < EMPTY_MAX and anyio.current_time() < until and not self._helping.rests:
                    found = await self._take()
                    if found is None:
                        break
                    work, asked = found
                    got = anyio.current_time()
                    empty = 0 if work.items else empty + 1
                    for index, item in enumerate(work.items):
                        self._under_way += 1
                        times = Times.of(work, item, asked, got)
                        tasks.start_soon(self._fetch, work.batch, index, item, times, results)
        if empty:
            self._helping.avoid(self._owner.peer, AGAIN_LEAST_S)

    async def _take(self) -> tuple[Work, float] | None:
        """Work, and when it was asked for. None: not from this owner."""
        while self._under_way >= AT_ONCE:
            self._has_room = anyio.Event()
            await self._has_room.wait()
        asked = anyio.current_time()
        families = families_of(self._ring)
        body = encode_take(want=AT_ONCE - self._under_way, wait_ms=WAIT_MS_MAX, families=families)
        try:
            reply = await self._calls.call(self._owner, TAKE, body, deadline_s=WAIT_MS_MAX / 1000 + ANSWER_S)
            return decode_work(reply), asked
        except RefusedError as error:
            self._helping.avoid(self._owner.peer, error.retry_after_s or 0.0, error.reason)
        except (CallError, MalformedError) as error:
            logger.debug("no work from an owner peer=%s error=%s", self._owner.peer.hex()[:16], error)
            self._helping.avoid(self._owner.peer, 0.0)
        return None

    async def _fetch(
        self,
        batch: bytes,
        index: int,
        item: Item,
        times: Times,
        results: MemoryObjectSendStream[tuple[bytes, Result]],
    ) -> None:
        helping = self._helping
        try:
            why = helping.refusal(item, self._owner.peer, self._ring)
            result = no_result(index, why) if why else await helping.fetched(index, item, times)
            helping.count(self._owner.peer, result)
            await results.send((batch, result))
        finally:
            self._under_way -= 1
            self._has_room.set()

    async def _give(self, given: MemoryObjectReceiveStream[tuple[bytes, Result]]) -> None:
        async with given:
            async for first in given:
                await anyio.sleep(GIVE_AFTER_S)
                more = range(given.statistics().current_buffer_used)
                waiting = [first, *(given.receive_nowait() for _ in more)]
                together: dict[bytes, list[Result]] = {}
                size = 0
                for batch, result in waiting:
                    if size + _size(result) > GIVE_BYTES_MAX:
                        await self._send(together)
                        together, size = {}, 0
                    together.setdefault(batch, []).append(result)
                    size += _size(result)
                await self._send(together)

    async def _send(self, together: Mapping[bytes, list[Result]]) -> None:
        for batch, results in together.items():
            body = encode_give(batch, results)
            taken = 0
            try:
                reply = await self._calls.call(self._owner, GIVE, body, deadline_s=GIVE_DEADLINE_S)
                taken = decode_taken(reply).results
            except (CallError, MalformedError) as error:
                logger.debug("results were not taken peer=%s error=%s", self._owner.peer.hex()[:16], error)
            self._helping.sent(len(body), len(results) - taken)


def is_helper(ring: HelperRing) -> bool:
    """It has no share of its own, and knows peers that have one."""
    record = ring.record
    return record is not None and bool(record.record.flags & LEAF) and bool(ring.owners_that_are_well())


def families_of(ring: HelperRing) -> int:
    """Of addresses that this peer has, and so can connect to."""
    lines = ring.record.record.lines if ring.record is not None else ()
    return sum({IPV4 if len(line.host) == IPV4_BYTES else IPV6 for line in lines}) or IPV4 | IPV6


def _is_closed(ring: HelperRing, peer: MemberKey) -> bool:
    record = ring.record_of(peer)
    return record is not None and bool(record.flags & CLOSED)


def _size(result: Result) -> int:
    """On the way, generously."""
    return len(result.body) + len(result.head) + len(result.request) + 1_024
