"""How do the parts of the exchange live together? It walks when there is enough to carry, and looks when time moves.

One task walks: when some links for each peer have come together, or the oldest has waited long enough. One follows
the ring: it takes up new stretches and asks for their URLs. One looks late in the day for work that others have not
done. When more links wait than can be delivered, the crawler is held back.
"""

import logging
import math
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final, Protocol

import anyio

from crawler.core.link import Link
from crawler.core.rows import Rows
from crawler.core.scope import Territory
from crawler.core.urls import UrlRules
from crawler.frontier_rows import OpenRows
from dht import Subscription
from dht.core.ids import IdCheck
from dht.core.placement import Rule
from herodotus.core.captures import Deposit
from herodotus.core.links.cross_fetches import CrossTally
from herodotus.core.links.senders import Silences
from herodotus.core.links.turns import compares_at, looks
from herodotus.core.settings.sections import LinksSettings
from herodotus.core.status import CrossFetchStatus, LinksStatus
from herodotus.crawl.daily import NotCrawling
from herodotus.crawl.links.comparison import Comparing, KnownKeys
from herodotus.crawl.links.cross_fetches import Accuse, CrossFetches, CrossParts, cross_status, nobody_accused
from herodotus.crawl.links.disk import link_rows
from herodotus.crawl.links.hand_over import HandingOver
from herodotus.crawl.links.outbox import Outbox, Standby
from herodotus.crawl.links.owner import LinkReceiver, LinkTaker, ReceiverParts, RingOwner
from herodotus.crawl.links.substitute import OwnFrontier, StandingIn
from herodotus.crawl.links.walks import LinkWalks, WalkReport
from herodotus.peers.calls import Calls, PeerKey, Services
from herodotus.peers.ring_view import RingTable, RingView

logger = logging.getLogger(__name__)

SETTLE_S: Final = 2.0
"""After a change of the ring: more follow it."""
ASK_AGAIN_S: Final = 60.0
LOOK_EVERY_S: Final = 5.0
"""At the outbox and the day: clocks are set without telling us."""
COMPARE_LOOK_S: Final = 60.0
QUICK_LEAST_S: Final = 0.2
QUICK_PEERS: Final = 100.0
"""A new link waits the square of the ring's peers, divided by this, in seconds; a fifth of one at least, `links.wait_s`
at most. In a ring of five each hop takes half a second. A walk may call everybody, so a peer of *n* makes at most 100/n
calls a second: twenty in that ring, two among fifty. From 245 peers on it waits as long as ever."""
BACKOFF_FIRST_S: Final = 5.0
BACKOFF_MAX_S: Final = 300.0
"""Between walks for what others were left: whatever is new does not wait for them."""
LATE_SHARE: Final = 0.05
"""Of the day: a peer that woke up long after a look's time knows little of today's visits."""
ASK_AFTER_SHARE: Final = 0.02
"""Of the day, half an hour: a stand-in decides within minutes what it does of what an owner missed."""
SALT_BYTES: Final = 16
HELD_BACK_AT: Final = 1_000_000
"""Links waiting: some 150 MB on the disk, and 20 MB of memory while they are walked."""


class CrawlSide(OwnFrontier, LinkTaker, KnownKeys, Protocol):
    """The running crawl, as the exchange sees it."""

    @property
    def seconds_of_today(self) -> float: ...
    async def hold_back(self) -> None: ...
    def go_on(self) -> None: ...


class RingSide(RingTable, Protocol):
    """What the exchange asks of `dht.Ring`."""

    def events(self) -> AbstractContextManager[Subscription]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeParts:
    folder: Path
    open_rows: OpenRows
    settings: LinksSettings
    holders: Rule
    id_check: IdCheck
    rules: UrlRules
    territory: Territory
    fetches_all: bool
    day_length_s: float
    wall_clock: Callable[[], float]
    random: Random
    cross_fetch_share: float = 0.0
    accuse: Accuse = nobody_accused
    """Told of a peer whose captures are not what we are shown."""
    reaches_most: Callable[[], bool] = lambda: True
    """Has this machine IPv4?"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    ring: RingSide
    crawl: CrawlSide
    view: RingView
    outbox: Outbox
    standby: Standby
    owner: RingOwner
    receiver: LinkReceiver
    walks: LinkWalks
    standing_in: StandingIn
    handing_over: HandingOver
    comparing: Comparing
    crossing: CrossFetches


class Exchange:
    """The running crawl's `UrlOwner`. `opened` keeps it going, inside the ring and for longer than the crawl."""

    def __init__(self, parts: ExchangeParts) -> None:
        self._parts = parts
        self._open: _Opened | None = None
        self._filled = anyio.Event()
        self._waits_since = 0.0
        self._left = 0
        """Links that the last walk could not deliver."""
        self._is_held_back = False
        self._looked = (-1, 0)
        """The day, and how many of its looks are over."""
        self._walked = 0
        self._crossed = CrossTally()
        self._last = WalkReport()

    # --- the crawler's side

    def divide(self, links: Sequence[Link]) -> list[Link]:
        return self._open.owner.divide(links) if self._open is not None else list(links)

    def is_our_turn(self, url: str) -> bool:
        return self._open is None or self._open.owner.is_our_turn(url)

    def came(self, deposit: Deposit, signer: PeerKey) -> None:
        """Another peer's capture, which the archive did not have."""
        opened, length_s = self._open, self._parts.day_length_s
        is_drawn_from = self._parts.cross_fetch_share and not self._parts.fetches_all
        if opened is None or not opened.crawl.takes_links or not is_drawn_from:
            return
        starts = self._parts.wall_clock() - opened.crawl.seconds_of_today
        with _while_crawling():
            opened.crossing.came(deposit, signer, starts, starts + length_s)

    def cross_fetches(self) -> CrossFetchStatus:
        return cross_status(self._crossed)

    @property
    def waiting(self) -> int:
        """Links in the outbox."""
        return len(self._open.outbox) if self._open is not None else 0

    # --- life

    @asynccontextmanager
    async def opened(self, ring: RingSide, calls: Calls, crawl: CrawlSide) -> AsyncIterator[Services]:
        """What it answers to calls."""
        rows = link_rows(self._parts.folder, self._parts.open_rows)
        try:
            self._open = opened = self._made(ring, calls, crawl, rows)
            parts = (
                opened.receiver,
                opened.standing_in,
                opened.handing_over,
                opened.comparing,
                opened.crossing,
            )
            services = [part.services for part in parts]
            async with anyio.create_task_group() as tasks:
                for work in (self._walk_on, self._follow_ring, self._keep_day, self._ask_others):
                    tasks.start_soon(work, opened)
                yield Services.of(*services)
                tasks.cancel_scope.cancel()
        finally:
            self._open = None
            rows.flush()
            rows.close()

    def _made(self, ring: RingSide, calls: Calls, crawl: CrawlSide, rows: Rows) -> _Opened:
        parts = self._parts
        view = RingView(ring, parts.holders)
        outbox, standby = Outbox(rows), Standby(rows)
        owner = RingOwner(
            view,
            outbox,
            standby,
            wall_clock=parts.wall_clock,
            today=lambda: crawl.today,
            fetches_all=parts.fetches_all,
            on_filled=self._note_filled,
        )
        receiver = LinkReceiver(
            ReceiverParts(
                view=view,
                frontier=crawl,
                standby=standby,
                make_durable=rows.flush,
                is_given=owner.is_given,
                rules=parts.rules,
                territory=parts.territory,
                fetches_all=parts.fetches_all,
            )
        )
        return _Opened(
            ring=ring,
            crawl=crawl,
            view=view,
            outbox=outbox,
            standby=standby,
            owner=owner,
            receiver=receiver,
            walks=LinkWalks(outbox, calls, view, Silences(parts.random), parts.id_check),
            standing_in=StandingIn(view, calls, crawl, standby, owner, self._parts.reaches_most),
            handing_over=HandingOver(view, calls, crawl, standby, rows, receiver, owner.give_away),
            comparing=Comparing(view, calls, crawl, standby, receiver),
            crossing=CrossFetches(
                CrossParts(
                    view=view,
                    calls=calls,
                    frontier=crawl,
                    standby=standby,
                    owner=owner,
                    rules=parts.rules,
                    territory=parts.territory,
                    share=parts.cross_fetch_share,
                    salt=parts.random.randbytes(SALT_BYTES) if parts.cross_fetch_share else b"",
                    wall_clock=parts.wall_clock,
                    accuse=parts.accuse,
                ),
                self._crossed,
            ),
        )

    def status(self) -> LinksStatus:
        if self._open is None:
            return LinksStatus()
        opened, last = self._open, self._last
        box, got, late = opened.outbox, opened.receiver.counts, opened.standing_in.counts
        return LinksStatus(
            waiting=len(box),
            standby=len(opened.standby),
            walks=self._walked,
            last_walk={
                "links": last.links,
                "stops": last.stops,
                "delivered": last.delivered,
                "left": last.left,
                "bytes": last.bytes_sent,
                "unreachable": last.unreachable,
            },
            received=got.taken,
            received_new=got.new,
            strays=got.strays,
            rubbish=got.malformed + got.out_of_scope + got.nonsense,
            senders_closed=opened.receiver.senders_closed(),
            repeated=box.repeated,
            over_budget=box.over_budget,
            given_up=box.given_up,
            learned=opened.handing_over.learned + opened.comparing.counts.learned,
            reminded=opened.comparing.counts.reminded,
            taken_over=late.taken_over,
            silent_owners=late.silent_owners,
        )

    # --- walks

    def _note_filled(self) -> None:
        if not self._filled.is_set():
            self._waits_since = anyio.current_time()
            self._filled.set()

    async def _walk_on(self, opened: _Opened) -> None:
        backoff_s, again_at = BACKOFF_FIRST_S, math.inf
        if len(opened.outbox):
            self._note_filled()
        while True:
            await self._wait_for_cause(opened, again_at)
            self._filled = anyio.Event()
            report = await opened.walks.walk(self._parts.wall_clock())
            self._walked += 1
            self._last, self._left = report, report.left
            logger.info(
                "walked links=%d stops=%d delivered=%d left=%d bytes=%d",
                report.links, report.stops, report.delivered, report.left, report.bytes_sent,
            )  # fmt: skip
            backoff_s = BACKOFF_FIRST_S if report.acknowledged else min(2 * backoff_s, BACKOFF_MAX_S)
            pause_s = max(backoff_s, self._parts.settings.wait_s) * self._parts.random.uniform(0.8, 1.2)
            again_at = anyio.current_time() + pause_s if report.left else math.inf

    async def _wait_for_cause(self, opened: _Opened, again_at: float) -> None:
        """Some new links for each peer, or one that has waited long enough; or it is time for what was left. And
        somebody else must be there.
        """
        settings = self._parts.settings
        while True:
            await self._mind_the_crawl(opened)
            ring, now = opened.view.live, anyio.current_time()
            wait_s = min(settings.wait_s, max(QUICK_LEAST_S, len(ring.peers) ** 2 / QUICK_PEERS))
            look_s = min(LOOK_EVERY_S, wait_s / 4)
            is_enough = len(opened.outbox) - self._left >= settings.per_peer * len(ring.peers)
            has_waited = self._filled.is_set() and now - self._waits_since >= wait_s
            if len(ring.peers) > 1 and (is_enough or has_waited or now >= again_at):
                return
            if self._filled.is_set() or now >= again_at:
                await anyio.sleep(look_s)
            else:
                with anyio.move_on_after(again_at - now):
                    await self._filled.wait()

    async def _mind_the_crawl(self, opened: _Opened) -> None:
        # A peer without others has nothing to deliver.
        is_too_much = len(opened.outbox) > HELD_BACK_AT and not opened.view.is_alone
        if is_too_much:
            await opened.crawl.hold_back()  # also the next day's crawler
        elif self._is_held_back:
            opened.crawl.go_on()
        self._is_held_back = is_too_much

    # --- the ring and the day

    async def _follow_ring(self, opened: _Opened) -> None:
        with opened.ring.events() as changes:
            while True:
                opened.view.look_again()
                with _while_crawling():
                    is_settled = False
                    await opened.standing_in.sweep()
                    is_settled = await opened.handing_over.catch_up() and opened.standing_in.has_left_all
                with anyio.move_on_after(ASK_AGAIN_S if is_settled else LOOK_EVERY_S):
                    await changes.wait()
                    await anyio.sleep(SETTLE_S)

    async def _keep_day(self, opened: _Opened) -> None:
        """The looks of a day, each once. One that was slept through is left to the other stand-ins, and so is one from
        before this peer started: in a ring that is founded in the afternoon, all owners seem to be late.
        """
        parts, me = self._parts, opened.view.me.peer
        times = looks(max(0, parts.holders.copies - 1), parts.day_length_s, me)
        while True:
            await anyio.sleep(min(LOOK_EVERY_S, parts.day_length_s / 40))
            if not opened.crawl.takes_links or opened.view.is_alone or parts.fetches_all:
                continue
            today, seconds = opened.crawl.today, opened.crawl.seconds_of_today
            if self._looked[0] != today:
                with _while_crawling():
                    await opened.standing_in.begin_day()
                    self._looked = (today, sum(at <= seconds for at in times))
            with _while_crawling():
                opened.crossing.settle()
            number = self._looked[1]
            if number < len(times) and seconds >= times[number]:
                self._looked = (today, number + 1)
                if opened.crawl.may_fetch and seconds < times[number] + LATE_SHARE * parts.day_length_s:
                    with _while_crawling():
                        await opened.standing_in.look(number + 1)

    async def _ask_others(self, opened: _Opened) -> None:
        """Once a day: what owners know, and what we know of theirs. And now and then, what became of what we left to
        stand-ins.
        """
        parts, done = self._parts, -1
        at_s = compares_at(parts.day_length_s, opened.view.me.peer)
        while True:
            await anyio.sleep(min(COMPARE_LOOK_S, parts.day_length_s / 40))
            if not opened.crawl.takes_links or opened.view.is_alone:
                continue
            today, seconds = opened.crawl.today, opened.crawl.seconds_of_today
            if done != today and seconds >= at_s:
                done = today
                with _while_crawling():
                    await opened.comparing.compare()
            await opened.crossing.ask()
            with _while_crawling():
                await opened.standing_in.ask_after(ASK_AFTER_SHARE * parts.day_length_s)


@contextmanager
def _while_crawling() -> Iterator[None]:
    """A crawl that failed is opened again soon; until then its URLs cannot be asked for."""
    try:
        yield
    except NotCrawling as error:
        logger.info("links wait for the crawl reason=%s", error)
