"""How do many whole peers crawl one web together? Ring, links, leases and the daily crawl as they are, under trio.

    world = CrawlWorld(folder, seed, settings)
    async with world.running():
        await anyio.sleep(...)

Simulated are the peers' machines (clocks that differ, processes that are killed, disks that are lost), the calls
between them, the servers with all their pages, and what carries the ring's messages (`trioring`). Archives are in
memory and outlive a kill; frontiers and outboxes are RocksDB in a real folder. Copies and readers are not in it.
"""

import shutil
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import NamedTuple, cast
from urllib.parse import urlsplit

import anyio
from anyio.abc import TaskGroup

from crawler.core.capture import Capture
from crawler.core.content import MediaType
from crawler.core.leases import LeaseTerms, measured_delay_max_s
from crawler.core.politeness import HostSteward, PolitenessPolicy
from crawler.core.scope import THE_WHOLE_WEB, ScopeKind
from crawler.core.urls import STANDARD, target_of
from crawler.frontier import Frontier
from crawler.frontier_rows import frontier_rows
from crawler.ports import FetchRequest, Skipped
from crawler.rocks import RocksRows
from dht.core.ids import PeerKey
from dht.core.records import PeerRecord
from dht.core.rules import RingRules
from herodotus.core.settings.sections import LinksSettings
from herodotus.crawl.daily import DailyCrawl, DailyParts
from herodotus.crawl.gear import ROBOT, ArchiveSink, CrawlGear, CrawlOrder
from herodotus.crawl.links.exchange import Exchange, ExchangeParts
from herodotus.crawl.stewards import NodeRing, RingSteward, StewardParts
from herodotus.home.folder import Home
from herodotus.machine import Machine
from herodotus.peers.calls import Services
from herodotus.store.home_archive import HomeArchive
from herodotus.store.store import ArchiveStore, DiskStore
from simnet.memory_calls import LineFaults, MemoryCalls
from simnet.memory_store import MemoryStore
from simnet.rings import NETWORK, RingWorld, peer_number
from simnet.trioring import TrioRings, torn
from simnet.web import Oracle, Response, Web, WebRequest
from simnet.web.site import EPOCH_S
from simnet.wholecrawl import capture_of_response

CONNECTIONS = 3
COPIES = 6
ROUND_TRIP_S = 0.1
HOSTS_AT_AN_ADDRESS = 2
FIRST_START_S = 20.0
"""Peers start within it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawlWorldSettings:
    peers: int
    day_s: float
    delay_s: float = 1.0
    loss: float = 0.02
    skew_s: float = 30.0
    """Clocks are wrong by so much at most, either way."""
    wait_s: float = 60.0
    """`links.wait_s`."""
    cross_fetch_share: float = 0.0


class FetchStart(NamedTuple):
    at: float
    peer: int
    url: str


class Servers:
    """All the web's servers. They answer, and write down who asked."""

    def __init__(self, web: Web) -> None:
        self.web, self.oracle = web, Oracle(web)
        self.starts: dict[str, list[FetchStart]] = defaultdict(list)

    async def answer(self, url: str, headers: Mapping[str, str], peer: int, day: int) -> Response:
        host = urlsplit(url).netloc
        self.starts[host].append(FetchStart(anyio.current_time(), peer, url))
        response = self.web.respond(WebRequest(host=host, path=target_of(url), headers=headers), day)
        await anyio.sleep(ROUND_TRIP_S + response.delay_s)
        return response

    def address(self, host: str) -> str:
        place = self.oracle.place(f"http://{host}/")
        if place is None:
            return ""
        number = place.host.number // HOSTS_AT_AN_ADDRESS
        return f"93.184.{number >> 8}.{number & 255}"


class WorldFetcher:
    """One peer's `Fetcher`. What it fetched for which of its days is noted."""

    def __init__(self, world: "CrawlWorld", peer: "CrawlPeer") -> None:
        self._world, self._peer = world, peer

    async def address_of(self, host: str) -> str:
        await anyio.lowlevel.checkpoint()
        return self._world.servers.address(host)

    async def fetch(self, request: FetchRequest) -> Capture | Skipped:
        world, peer = self._world, self._peer
        headers = {"user-agent": ROBOT}
        if request.etag:
            headers["if-none-match"] = request.etag
        if request.last_modified:
            headers["if-modified-since"] = request.last_modified
        started_at, start = peer.wall_clock(), anyio.current_time()
        day = world.order.day(started_at) - world.first_day
        world.visits[day][request.url].append(peer.number)
        response = await world.servers.answer(request.url, headers, peer.number, world.today)
        duration_s = anyio.current_time() - start
        mime = MediaType.of(response.header("Content-Type")).mime
        if response.status == 200 and request.accepts is not None and not request.accepts(mime):
            return Skipped(url=request.url, status=200, mime=mime, duration_s=duration_s)
        return capture_of_response(request, headers, response, started_at, duration_s, mime)


class _OpenStore:
    """What of `HomeArchive` a daily crawl needs."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    async def wait_open(self) -> DiskStore:
        await anyio.lowlevel.checkpoint()
        return cast("DiskStore", self._store)  # the same face, and the archive behind it


class CrawlPeer:
    """One life of a peer, on what its disk holds."""

    def __init__(
        self,
        world: "CrawlWorld",
        number: int,
        record: PeerRecord,
        *,
        skew_s: float,
        store: MemoryStore | None = None,
    ) -> None:
        self.number, self.record, self.skew_s = number, record, skew_s
        self._world = world
        self.folder = world.folder / f"{number}"
        self.store = store or MemoryStore(self.wall_clock)
        self.life, self.is_up, self.is_down = anyio.CancelScope(), anyio.Event(), anyio.Event()
        self.accused: list[tuple[bytes, str]] = []
        self._calls = world.net.joined(self.key, Services())
        self._fetcher = WorldFetcher(world, self)
        self.steward = self._made_steward()
        self.exchange = self._made_exchange()
        self.daily = self._made_daily()

    @property
    def key(self) -> PeerKey:
        return self.record.peer

    def wall_clock(self) -> float:
        return self._world.starts_at_s + anyio.current_time() + self.skew_s

    async def live(self) -> None:
        net = self._world.net
        with self.life:
            ring = self._world.rings.rings[self.key]
            async with self.exchange.opened(ring, self._calls, self.daily) as links, self.steward.running():
                net.joined(self.key, Services.of(links, self.steward.services))
                async with self.daily.opened():
                    self.is_up.set()
                    await anyio.sleep_forever()
        self.is_down.set()

    def _made_exchange(self) -> Exchange:
        settings = self._world.settings
        return Exchange(
            ExchangeParts(
                folder=self.folder / "exchange",
                open_rows=RocksRows,
                settings=LinksSettings(wait_s=settings.wait_s),
                copies=COPIES,
                id_check="ip",
                rules=STANDARD,
                territory=THE_WHOLE_WEB,
                fetches_all=False,
                day_length_s=settings.day_s,
                wall_clock=self.wall_clock,
                random=Random(self.number),
                cross_fetch_share=settings.cross_fetch_share,
                accuse=lambda peer, how: self.accused.append((peer, how)),
            )
        )

    def _made_steward(self) -> RingSteward:
        world = self._world
        parts = StewardParts(
            own_key=self.key,
            terms=world.terms,
            fetcher=self._fetcher,
            product_token=ROBOT,
            wall_clock=self.wall_clock,
            slept_s=lambda: 0.0,
            ring=lambda: NodeRing(world.rings.rings[self.key]),
            calls=lambda: self._calls,
            may_visit_private=False,
        )
        return RingSteward(parts, HostSteward(world.policy))

    def _made_daily(self) -> DailyCrawl:
        return DailyCrawl(
            DailyParts(
                home=Home(self.folder),
                order=self._world.order,
                holdings=cast("HomeArchive", _OpenStore(self.store)),  # it is asked for its store alone
                make_steward=lambda _fetcher, sink: self.steward.attach(sink),
                world=Machine(),  # asked for nothing, as the gear is our own
                wall_clock=self.wall_clock,
                owner=self.exchange,
                open_gear=self._open_gear,
            )
        )

    @asynccontextmanager
    async def _open_gear(
        self, home: Path, store: ArchiveStore, order: CrawlOrder, *_more: object, **_options: object
    ) -> AsyncIterator[CrawlGear]:
        """As `herodotus.crawl.gear.open_gear`, with the world's servers in place of HTTP."""
        frontier = Frontier(frontier_rows(home / "queue"), day=order.day(self.wall_clock()))
        try:
            sink = ArchiveSink(store, wall_clock=self.wall_clock)
            yield CrawlGear(
                frontier=frontier,
                fetcher=self._fetcher,
                sink=sink,
                steward=self.steward.attach(sink),
                wall_clock=self.wall_clock,
            )
        finally:
            frontier.close()


class CrawlWorld:
    def __init__(self, folder: Path, seed: int, web: Web, settings: CrawlWorldSettings) -> None:
        self.settings = settings
        self.chance = Random(f"crawl/{seed}")
        self.servers = Servers(web)
        self.net = MemoryCalls(Random(f"calls/{seed}"), LineFaults(delay_s=0.05, lost=settings.loss))
        self.rings = TrioRings(RingWorld(seed, RingRules(network=NETWORK), loss=settings.loss))
        self.first_day = int(EPOCH_S // settings.day_s)
        self.starts_at_s = self.first_day * settings.day_s
        policy = PolitenessPolicy(delay_floor_s=settings.delay_s)
        self.policy = replace(policy, delay_max_s=measured_delay_max_s(policy))
        self.terms = LeaseTerms.of(self.policy)
        self.order = CrawlOrder(
            urls=(),
            scope=ScopeKind.ANY,
            connections=CONNECTIONS,
            politeness=self.policy,
            day_length_s=settings.day_s,
        )
        self.visits: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        """By day of the visitor's clock, from 0: URLs and who fetched them."""
        self.peers: list[CrawlPeer] = []
        self.torn_times: list[tuple[float, float]] = []
        self.counts: Counter[str] = Counter()
        self.folder = folder
        self._tasks: TaskGroup | None = None

    @property
    def today(self) -> int:
        """By the truth."""
        return int(anyio.current_time() // self.settings.day_s)

    @asynccontextmanager
    async def running(self) -> AsyncIterator["CrawlWorld"]:
        records = [peer_number(number) for number in range(self.settings.peers)]
        self.rings.found(records)
        async with anyio.create_task_group() as self._tasks:
            self._tasks.start_soon(self.rings.run)
            for number, record in enumerate(records):
                peer = CrawlPeer(self, number, record, skew_s=self._new_skew_s())
                self.peers.append(peer)
                self._tasks.start_soon(self._start_at, peer, self.chance.uniform(0.0, FIRST_START_S))
            yield self
            self._tasks.cancel_scope.cancel()

    async def seed(self, urls: Sequence[str]) -> None:
        """Each is somebody's wish."""
        for url in urls:
            peer = self.chance.choice(self.peers)
            await peer.is_up.wait()
            while not peer.daily.takes_links:  # noqa: ASYNC110  # nobody tells of it, and time is virtual
                await anyio.sleep(1.0)
            await peer.daily.begin([url])

    # --- what may happen to them

    async def kill(self, peer: CrawlPeer) -> None:
        """In the midst of whatever it does."""
        self.counts["killed"] += 1
        self.net.kill(peer.key)
        self.rings.catch_up()
        self.rings.crash(peer.key)
        peer.life.cancel()
        await peer.is_down.wait()

    async def revive(self, peer: CrawlPeer, *, has_disk: bool = True) -> None:
        if not has_disk:
            self.counts["disks lost"] += 1
            shutil.rmtree(peer.folder)
        self.rings.catch_up()
        self.rings.join(peer.record)
        store = peer.store if has_disk else None
        again = CrawlPeer(self, peer.number, peer.record, skew_s=self._new_skew_s(), store=store)
        self.peers[self.peers.index(peer)] = again
        await self._start_at(again, 0.0)

    def tear(self, side_of: Mapping[PeerKey, int]) -> None:
        """The ring is torn until `heal`."""
        torn(self.rings, side_of)
        for one in self.peers:
            for other in self.peers:
                if one.number < other.number and side_of[one.key] != side_of[other.key]:
                    self.net.cut_between(one.key, other.key)
        self.torn_times.append((anyio.current_time(), float("inf")))

    def heal(self) -> None:
        torn(self.rings, {})
        self.net.heal()
        self.torn_times[-1] = (self.torn_times[-1][0], anyio.current_time())

    # --- inside

    def _new_skew_s(self) -> float:
        return self.chance.uniform(-self.settings.skew_s, self.settings.skew_s)

    async def _start_at(self, peer: CrawlPeer, at: float) -> None:
        assert self._tasks is not None
        await anyio.sleep(at)
        self._tasks.start_soon(peer.live)
        await peer.is_up.wait()
