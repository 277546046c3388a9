"""Many peers that exchange links, without rings, crawlers or sockets: tables are given, calls are in memory.

Each peer is the real exchange over its own folder; what it asks of the ring and the crawl is made here, so that a test
may give it a wrong table, kill it, or let it forget. Runs on trio under its virtual clock.
"""

from bisect import bisect_right, insort
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import anyio
from anyio.abc import TaskGroup

from crawler.core.link import Link
from crawler.core.recrawl import Known, priority_of
from crawler.core.scope import THE_WHOLE_WEB, Territory
from crawler.core.urls import STANDARD, UrlKey, url_key
from crawler.frontier import LEFT
from crawler.rocks import RocksRows
from dht.core.ids import Key, PeerKey
from dht.core.placement import Rule
from dht.core.records import PeerRecord
from herodotus.core.settings.sections import LinksSettings
from herodotus.crawl.daily import CrawlState, NotCrawling
from herodotus.crawl.links.exchange import Exchange, ExchangeParts
from herodotus.peers.calls import Services
from tests.herodotus.peers.net.memory_calls import GOOD_LINE, LineFaults, MemoryCalls
from tests.herodotus.peers.table_ring import TableRing, link_peer

DAY_S = 86_400.0


class MemoryFrontier:
    """What the exchange asks of the crawl. A test lets it visit, and forget what was not durable."""

    def __init__(self) -> None:
        self._keys: list[bytes] = []
        self._known: dict[bytes, Known] = {}
        self._durable: dict[bytes, Known] = {}
        self.takes_links = True
        self.may_fetch = True
        self.today = 0
        self.looked_again = 0
        self.is_held_back = False
        self.doubted: set[str] = set()
        """Of which the archive is asked first."""
        self.out: set[bytes] = set()
        """Keys of those that are being fetched."""
        self.is_broken = False
        """An error has ended the crawl, and nobody knows yet."""

    @property
    def urls(self) -> set[str]:
        """Those that are ours to fetch."""
        return {known.url for known in self._known.values() if known.due_day != LEFT}

    @property
    def all_known(self) -> set[str]:
        return {known.url for known in self._known.values()}

    @property
    def seconds_of_today(self) -> float:
        return anyio.current_time() - self.today * DAY_S

    def take_over(self, links: Sequence[Link], *, may_be_done: bool = False) -> int:
        if may_be_done:
            self.doubted |= {link.url for link in links}
        new = 0
        for link in links:
            key = url_key(link.url)
            if key not in self._known:
                priority = priority_of(link.depth, is_embedded=link.is_embedded)
                self._known[key] = Known(
                    url=link.url, depth=link.depth, priority=priority, due_day=self.today, flags=link.flags
                )
                insort(self._keys, key)
                new += 1
        self.take_back([url_key(link.url) for link in links])
        return new

    def make_durable(self) -> None:
        self._durable = dict(self._known)

    def lose(self) -> None:
        """A power cut."""
        self._known = dict(self._durable)
        self._keys = sorted(self._known)

    def forget(self) -> None:
        """It acknowledged, and lost it all the same."""
        self._known, self._durable, self._keys = {}, {}, []

    def visit(self, url: str) -> None:
        known = self._known[url_key(url)]
        known.last_day, known.due_day = self.today, self.today + 1

    def is_out(self, key: UrlKey) -> bool:
        return key in self.out

    def leave(self, keys: Sequence[UrlKey]) -> int:
        keys = [key for key in keys if key not in self.out]
        left = [self._known[key] for key in keys if key in self._known and self._known[key].due_day != LEFT]
        for known in left:
            known.due_day = LEFT
        return len(left)

    def take_back(self, keys: Sequence[UrlKey], *, may_be_done: bool = False) -> int:
        if may_be_done:
            self.doubted |= {self._known[key].url for key in keys if key in self._known}
        back = [self._known[key] for key in keys if key in self._known and self._known[key].due_day == LEFT]
        for known in back:
            known.due_day = self.today
        return len(back)

    def look_again(self) -> None:
        self.looked_again += 1

    def look_for(self, key: UrlKey, digest: bytes) -> bool:
        known = self._known.get(key)
        if known is None or key in self.out:
            return False
        known.due_day, known.digest = self.today, digest
        return True

    def known_of(self, keys: Sequence[UrlKey]) -> list[Known | None]:
        return [self._known.get(key) for key in keys]

    def known_after(self, key: bytes, count: int) -> list[tuple[UrlKey, Known]]:
        if self.is_broken:
            raise NotCrawling(CrawlState.FAILED, None)
        at = bisect_right(self._keys, key) if key else 0
        return [(UrlKey(found), self._known[found]) for found in self._keys[at : at + count]]

    def keys_after(self, key: bytes, count: int) -> list[UrlKey]:
        return [found for found, _ in self.known_after(key, count)]

    async def hold_back(self) -> None:
        self.is_held_back = True

    def go_on(self) -> None:
        self.is_held_back = False


@dataclass
class LinkPeer:
    record: PeerRecord
    ring: TableRing
    frontier: MemoryFrontier
    exchange: Exchange
    folder: Path
    stop: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    is_up: anyio.Event = field(default_factory=anyio.Event)
    is_down: anyio.Event = field(default_factory=anyio.Event)

    @property
    def key(self) -> PeerKey:
        return self.record.peer

    def found(self, links: Sequence[Link]) -> None:
        """Its crawler found these on a page."""
        self.frontier.take_over(self.exchange.divide(links))

    @property
    def remembers(self) -> set[str]:
        """By frontier or standby."""
        return self.frontier.all_known | self._stood_by()

    def _stood_by(self) -> set[str]:
        opened = self.exchange._open
        return {link.url for _, link in opened.standby.after(None)} if opened is not None else set()


class LinkWorld:
    def __init__(
        self,
        folder: Path,
        seed: int,
        faults: LineFaults = GOOD_LINE,
        *,
        settings: LinksSettings | None = None,
        territory: Territory = THE_WHOLE_WEB,
        fetches_all: bool = False,
        copies: int = 6,
        cross_fetch_share: float = 0.0,
    ) -> None:
        self.net = MemoryCalls(Random(seed), faults)
        self.random = Random(seed + 1)
        self.peers: list[LinkPeer] = []
        self._folder = folder
        self._settings = settings or LinksSettings(per_peer=10, wait_s=60.0)
        self._territory = territory
        self._fetches_all = fetches_all
        self._copies = copies
        self._cross_fetch_share = cross_fetch_share
        self._tasks: TaskGroup | None = None

    @asynccontextmanager
    async def running(self, peers: int) -> AsyncIterator["LinkWorld"]:
        async with anyio.create_task_group() as self._tasks:
            for number in range(peers):
                await self.add(number)
            self.agree()
            yield self
            self._tasks.cancel_scope.cancel()

    async def add(self, number: int) -> LinkPeer:
        record = link_peer(number)
        folder = self._folder / f"{number}"
        peer = LinkPeer(record, TableRing(record), MemoryFrontier(), self._exchange(folder, number), folder)
        peer.ring.copies = self._copies
        peer.ring.see([record])
        self.peers.append(peer)
        await self.start(peer)
        return peer

    def _exchange(self, folder: Path, number: int) -> Exchange:
        return Exchange(
            ExchangeParts(
                folder=folder,
                open_rows=RocksRows,
                settings=self._settings,
                holders=Rule(self._copies),
                id_check="ip",
                rules=STANDARD,
                territory=self._territory,
                fetches_all=self._fetches_all,
                day_length_s=DAY_S,
                wall_clock=anyio.current_time,
                random=Random(number),
                cross_fetch_share=self._cross_fetch_share,
            )
        )

    async def start(self, peer: LinkPeer) -> None:
        assert self._tasks is not None
        peer.stop, peer.is_up, peer.is_down = anyio.CancelScope(), anyio.Event(), anyio.Event()
        self._tasks.start_soon(self._live, peer)
        await peer.is_up.wait()

    async def _live(self, peer: LinkPeer) -> None:
        with peer.stop:
            calls = self.net.joined(peer.key, Services())
            async with peer.exchange.opened(peer.ring, calls, peer.frontier) as services:
                self.net.joined(peer.key, services)
                peer.is_up.set()
                await anyio.sleep_forever()
        peer.is_down.set()

    async def crash(self, peer: LinkPeer, *, loses_power: bool = False) -> None:
        """Kills it in the middle of its work; `restart` starts it again with what was on its disk."""
        self.net.kill(peer.key)
        peer.stop.cancel()
        await peer.is_down.wait()
        if loses_power:
            peer.frontier.lose()

    async def restart(self, peer: LinkPeer) -> None:
        peer.exchange = self._exchange(peer.folder, self.peers.index(peer))
        await self.start(peer)

    def agree(self, clocks: Mapping[PeerKey, str] | None = None) -> None:
        """All know all."""
        records = [peer.record for peer in self.peers]
        for peer in self.peers:
            peer.ring.see(records, clocks)

    def holders(self, url: str) -> list[LinkPeer]:
        """Who must remember it, owner first, whatever anybody's table says."""
        around = sorted(self.peers, key=lambda peer: peer.ring.me.position)
        key = Key(url_key(url))
        at = next((n for n, peer in enumerate(around) if peer.ring.me.position >= key), 0)
        return [around[(at + n) % len(around)] for n in range(min(self._copies, len(around)))]

    def missing(self, urls: Iterable[str]) -> list[tuple[str, int]]:
        """Holders that do not remember a URL, as (URL, rank)."""
        remembered = {peer.key: peer.remembers for peer in self.peers}
        return [
            (url, rank)
            for url in urls
            for rank, peer in enumerate(self.holders(url))
            if url not in remembered[peer.key]
        ]

    async def settle(self, seconds: float) -> None:
        await anyio.sleep(seconds)
