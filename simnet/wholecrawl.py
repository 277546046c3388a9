"""How does a whole peer crawl in a world? Ring node, crawler and archive as they are, under trio.

    peers = CrawlingPeers(carrier, rules, web, folder)
    peers.add_peer()                     its share of the web's hosts is crawled once a day

Simulated are the socket, the archive's disk (with what a power cut leaves of it), the archive's index (of which
a cut leaves any prefix since its last flush), the web, the clock and all chance. The frontier is RocksDB in a
real folder, so it sees a process that dies and not the power cut. Peers do not exchange links yet: the hosts of
the web are dealt out beforehand, and a link into another's share is left to it.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

import anyio

from crawler.core.capture import REDIRECTS, Capture, FetchOutcome, PayloadDigest, payload_digests
from crawler.core.content import MediaType
from crawler.core.politeness import HostSteward, PolitenessPolicy
from crawler.core.recrawl import Recrawl
from crawler.core.scope import CrawlScope
from crawler.core.urls import STANDARD, target_of
from crawler.frontier import FoundLink, Frontier
from crawler.frontier_rows import frontier_rows
from crawler.ports import FetchRequest, Skipped
from crawler.steward import LocalSteward
from crawler.worker import Crawler, WorkerSettings
from dht.core.rules import RingRules
from herodotus.core.captures import CaptureId, Deposit, Mode
from herodotus.crawl.gear import ROBOT, ArchiveSink
from herodotus.store.index import IndexBatch
from herodotus.store.store import Stored
from simnet.host import SimulatedPort, TrioCarrier
from simnet.memory_store import MemoryIndex, MemoryStore
from simnet.web import Oracle, Response, Web, WebRequest
from simnet.web.site import DAY_S, EPOCH_S
from simnet.whole import WholeNodes
from simnet.world.disk import PowerCut
from simnet.world.faults import Fault, fault_kind
from simnet.world.world import World

CONNECTIONS = 4
ROUND_TRIP_S = 0.08
DAWN_S = 60.0  # a day's crawl begins so long after midnight: clocks differ a little
BACK_AFTER_S = 120.0  # a machine whose power failed: the power comes back, it boots
CUT_LATEST_S = 60.0  # if no write meets the power cut within this time, it comes between two of them
EXAMPLES = 3  # named in a complaint


class SurvivingIndex(MemoryIndex):
    """Of what was written since the last flush, a power cut leaves a prefix of the batches."""

    def __init__(self, content: Mapping[bytes, bytes] | None = None) -> None:
        self._kept = dict(content or {})
        self._since: list[IndexBatch | None] = []  # None: a clear
        super().__init__(self._kept.items())

    def write(self, batch: IndexBatch) -> None:
        self._since.append(IndexBatch(list(batch.changes)))
        super().write(batch)

    def clear(self) -> None:
        self._since.append(None)
        super().clear()

    def flush(self) -> None:
        self._keep(len(self._since))

    def after_cut(self, rng: Random) -> "SurvivingIndex":
        self._keep(rng.randint(0, len(self._since)))
        return SurvivingIndex(self._kept)

    def _keep(self, count: int) -> None:
        for batch in self._since[:count]:
            if batch is None:
                self._kept.clear()
                continue
            for key, value in batch.changes:
                if value is None:
                    self._kept.pop(key, None)
                else:
                    self._kept[key] = value
        self._since.clear()


class WatchedStore(MemoryStore):
    """The archive on a host's disk; what it acknowledged is noted outside, where no crash reaches."""

    promised: dict[CaptureId, bytes]  # payload's SHA-256

    async def store(self, deposit: Deposit, mode: Mode = Mode.REGULAR) -> Stored:
        stored = await super().store(deposit, mode)
        self.promised[stored.id] = deposit.sha256
        return stored


class SimulatedServers:
    """All the web's servers: they answer, and note who was rude."""

    def __init__(self, web: Web, *, delay_floor_s: float) -> None:
        self.web, self.oracle = web, Oracle(web)
        self.requests = 0
        self.rude: list[str] = []
        self._floor_s = delay_floor_s
        self._last_s: dict[str, float] = {}
        self._busy: set[str] = set()

    async def answer(self, url: str, headers: Mapping[str, str], day: int) -> Response:
        parts, now = urlsplit(url), anyio.current_time()
        host = parts.netloc
        self._judge(url, host, now)
        self.requests += 1
        self._last_s[host] = now
        self._busy.add(host)
        try:
            response = self.web.respond(WebRequest(host=host, path=target_of(url), headers=headers), day)
            await anyio.sleep(ROUND_TRIP_S + response.delay_s)
        finally:
            self._busy.discard(host)
        return response

    def _judge(self, url: str, host: str, now: float) -> None:
        since_s = now - self._last_s.get(host, -1e9)
        if host in self._busy:
            self.rude.append(f"{url} was asked for while {host} was answering")
        elif since_s < self._floor_s - 1e-6:
            self.rude.append(f"{url} was asked for {since_s:.3f} s after the request before")
        elif not url.endswith("/robots.txt") and not self.oracle.is_allowed(url):
            self.rude.append(f"{url} was asked for against robots.txt")


class SimulatedFetcher:
    """The crawler's `Fetcher`, without sockets."""

    def __init__(self, servers: SimulatedServers, wall_clock: Callable[[], float]) -> None:
        self._servers, self._wall_clock = servers, wall_clock

    async def address_of(self, host: str) -> str:
        return host  # every host of this web has a server of its own

    async def fetch(self, request: FetchRequest) -> Capture | Skipped:
        headers = {"user-agent": ROBOT}
        if request.etag:
            headers["if-none-match"] = request.etag
        if request.last_modified:
            headers["if-modified-since"] = request.last_modified
        started_at, start = self._wall_clock(), anyio.current_time()
        response = await self._servers.answer(request.url, headers, day_at(started_at))
        duration_s = anyio.current_time() - start
        mime = MediaType.of(response.header("Content-Type")).mime
        if response.status == 200 and request.accepts is not None and not request.accepts(mime):
            return Skipped(url=request.url, status=200, mime=mime, duration_s=duration_s)
        return capture_of_response(request, headers, response, started_at, duration_s, mime)


def capture_of_response(
    request: FetchRequest,
    headers: Mapping[str, str],
    response: Response,
    started_at: float,
    duration_s: float,
    mime: str,
) -> Capture:
    body, outcome = response.body, FetchOutcome.STORED
    sha256, sha1 = payload_digests(body)
    if response.status == 304 and request.digest is not None:
        outcome, body, sha256, sha1 = FetchOutcome.NOT_MODIFIED, b"", request.digest, b""
    elif response.status == 200 and sha256 == request.digest:
        outcome, body = FetchOutcome.SAME_DIGEST, b""
    location = response.header("Location")
    return Capture(
        url=request.url,
        requested_at=started_at,
        duration_s=duration_s,
        request=_head(f"GET {target_of(request.url)} HTTP/1.1", headers.items()),
        status=response.status,
        head=_head(f"HTTP/1.1 {response.status} OK", response.headers),
        body=body,
        sha256=PayloadDigest(sha256),
        sha1=sha1,
        remote_ip="",
        outcome=outcome,
        mime=mime,
        redirect_to=STANDARD.canonical(location, request.url)
        if location and response.status in REDIRECTS
        else None,
        via=request.via,
    )


def _head(first: str, fields: Iterable[tuple[str, str]]) -> bytes:
    lines = [first, *(f"{name}: {value}" for name, value in fields)]
    return "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape")


def day_at(wall_s: float) -> int:
    """The web's day."""
    return int(wall_s - EPOCH_S) // DAY_S


class Share:
    """The crawler's `UrlOwner`: every so many hosts of the web are ours."""

    def __init__(self, oracle: Oracle, number: int, peers: int) -> None:
        self._oracle, self._number, self._peers = oracle, number, peers

    def divide(self, links: Sequence[FoundLink]) -> list[FoundLink]:
        return [link for link in links if self.has(link.url)]

    def is_our_turn(self, url: str) -> bool:
        return True

    def has(self, url: str) -> bool:
        place = self._oracle.place(url)
        return place is not None and not place.is_trap and place.host.number % self._peers == self._number

    def seeds(self) -> list[str]:
        return [url for url in self._oracle.front_pages() if self.has(url)]


class CrawlingPeers(WholeNodes):
    def __init__(
        self, carrier: TrioCarrier, rules: RingRules, servers: SimulatedServers, folder: Path, peers: int
    ) -> None:
        super().__init__(carrier, rules)
        self.servers, self.policy = servers, PolitenessPolicy()
        self.promised: dict[int, dict[CaptureId, bytes]] = {}
        self.lost: list[str] = []
        self.wrong: list[str] = []  # where an archive differs from the web at the end of a day's crawl
        self.days_done: dict[int, int] = {}  # by peer: days whose crawl came to its end
        self.pages_compared = self.cuts = self.audited = self.recovered = 0
        self._folder, self._peers = folder, peers
        self._indexes: dict[int, SurvivingIndex] = {}

    async def _live(self, endpoint: SimulatedPort) -> None:
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(super()._live, endpoint)
                await self._crawl(endpoint)
        except* PowerCut:
            self._lose_power(endpoint.number)

    def power_fails(self, number: int, changes: int) -> None:
        """At the disk's next change after so many: in the midst of a commit, if one comes soon."""
        host = self.carrier.world.hosts[number]
        boots = host.boots
        host.disk.cut_after(changes)

        def at_last() -> None:
            if host.is_up and host.boots == boots:
                self._lose_power(number)

        self.carrier.world.schedule.after(CUT_LATEST_S, at_last)
        self.carrier.poke()

    def _lose_power(self, number: int) -> None:
        self.cuts += 1
        host = self.carrier.world.hosts[number]
        self._indexes[number] = self._indexes[number].after_cut(host.rng)
        host.crash()
        self.carrier.world.schedule.after(BACK_AFTER_S, host.start)
        self.carrier.poke()

    async def _crawl(self, endpoint: SimulatedPort) -> None:
        number = endpoint.number

        def wall_clock() -> float:
            return EPOCH_S + endpoint.now()

        index = self._indexes.setdefault(number, SurvivingIndex())
        store = WatchedStore(wall_clock, disk=endpoint.disk, index=index)
        store.promised = self.promised.setdefault(number, {})
        await self.audit(number, store)
        frontier = Frontier(frontier_rows(self._folder / str(number)), day=int(wall_clock()) // DAY_S)
        share = Share(self.servers.oracle, number, self._peers)
        fetcher = SimulatedFetcher(self.servers, wall_clock)
        core = HostSteward(self.policy)
        try:
            while True:
                frontier.start_day(max(int(wall_clock()) // DAY_S, frontier.day))
                crawler = Crawler(
                    frontier,
                    fetcher,
                    ArchiveSink(store, wall_clock=wall_clock),
                    LocalSteward(core, fetcher, product_token=ROBOT, wall_clock=wall_clock),
                    CrawlScope(),
                    WorkerSettings(connections=CONNECTIONS, recrawl=Recrawl.DAILY),
                    wall_clock=wall_clock,
                    owner=share,
                )
                crawler.seed(share.seeds())
                await crawler.run()
                self.recovered += crawler.counts.recovered
                day = day_at(wall_clock())
                if self.days_done.get(number, 0) <= day:
                    await self._compare(number, store, share, day)
                    self.days_done[number] = day + 1
                await anyio.sleep((day + 1) * DAY_S + DAWN_S - endpoint.now())
        finally:
            frontier.close()

    async def _compare(self, number: int, store: MemoryStore, share: Share, day: int) -> None:
        """Is the newest version of everything that could be reached today what the web says today?"""
        oracle = self.servers.oracle
        for url in sorted(oracle.reachable(share.seeds(), day, scope=share.has)):
            expected = oracle.digest(url, day)
            if expected is None:
                continue
            self.pages_compared += 1
            found = await store.newest(url, EPOCH_S + (day + 1) * DAY_S)
            if found is None or hashlib.sha256(found.body).hexdigest() != expected:
                what = "has no version" if found is None else f"has the version of {found.time_s}"
                self.wrong.append(f"on day {day} peer {number} {what} of {url}")

    async def audit(self, number: int, store: MemoryStore) -> None:
        """Is everything there that was ever acknowledged, byte by byte?"""
        self.audited += 1
        for id_, sha256 in self.promised.get(number, {}).items():
            found = await store.read(id_)
            if found is None or hashlib.sha256(found.body).digest() != sha256:
                self.lost.append(f"peer {number} lost its capture {id_}")

    async def audit_all(self) -> None:
        """From what is on the disks, as after a power cut everywhere."""
        for host in self.hosts:
            if host.number in self._indexes:
                index = self._indexes[host.number].after_cut(host.rng)
                host.disk.power_cut(host.rng)
                await self.audit(host.number, WatchedStore(lambda: EPOCH_S, disk=host.disk, index=index))


@fault_kind("power fails")
def _power_fails(fault: Fault, world: World) -> None:
    """The power goes in the midst of a commit, and comes back after two minutes; for peers that crawl."""
    for number in fault.hosts:
        tasks: object = world.hosts[number].program
        peers = getattr(getattr(tasks, "peer", None), "__self__", None)
        if isinstance(peers, CrawlingPeers):
            peers.power_fails(number, int(fault.settings.get("changes", 0.0)))
