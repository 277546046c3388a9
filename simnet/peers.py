"""How do whole peers live in a world? `herodotus.peer.Peer` as it is, on machines that crash, restart and move.

    peers = Peers(carrier, folder, PeersSettings(peers=3), web)
    async with peers.running():
        await anyio.sleep(...)

Simulated are all of `herodotus.world.World`: clocks, chance, the network with its datagrams and lines, the archive's
disk as a power cut leaves it, the rows of index, frontier and links, the web, and readers. A home's small
files are real ones in a folder, which no power cut takes back.
"""

import hashlib
import shutil
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TypeVar

import anyio
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from crawler.core.rows import after
from dht import Key
from dht.core.arcs import Arcs
from dht.core.ids import PeerKey
from herodotus.core.charter import Charter
from herodotus.core.index_rows import CAPTURE
from herodotus.core.orders import Begin, Drain
from herodotus.core.settings.fields import HostPort, PeerDoor
from herodotus.core.settings.sections import (
    CallsSettings,
    CopiesSettings,
    CrawlSettings,
    DiscoverySettings,
    HttpSettings,
    LifecycleSettings,
    LinksSettings,
    RingSettings,
    Settings,
)
from herodotus.crawl.daily import NotCrawling
from herodotus.crawl.stewards.office import stewarded_by
from herodotus.home.folder import Home, NewHome, create_home
from herodotus.peer import Peer, PeerParts
from herodotus.portal.answer import Answer, Request
from herodotus.store.engine import Archive
from simnet.host import SimulatedPort, TrioCarrier, run_world
from simnet.machines import KeptState, SimulatedMachine, Surroundings
from simnet.origins import Origins
from simnet.rows import Changes
from simnet.web import Web
from simnet.world.disk import PowerCut
from simnet.world.hosts import WorldHost
from simnet.world.network import LineQuality

MEMORY_FOLDER = Path("/dev/shm")  # noqa: S108  # a new folder in it; there syncing costs nothing
HTTP_PORT = 5_484
START_APART_S = 5.0
AWAY_S = (30.0, 900.0)
CUT_LATEST_S = 60.0
"""If no write meets the power cut within this time, it comes between two of them."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class PeersSettings:
    peers: int
    day_s: float = 3_600.0
    day_start: str = "00:00"
    """The world begins at midnight, so a later start makes it begin in the midst of a day."""
    copies: int = 4
    delay_s: float = 1.0
    at_address: int = 2
    """Windows at an address at a time."""
    connections: int = 4
    compare_s: float = 1_800.0
    wait_s: float = 60.0
    """`links.wait_s`."""
    cross_fetch_share: float = 0.05
    departed_s: float = 86_400.0
    knock_s: float = 0.0
    """`calls.knock_s`: by default none, as a month of them takes as long as all else."""
    spread_imports: bool = False
    founded: str = ""
    """The charter's."""
    leaves: int = 0
    """So many of the peers, the last ones, are behind routers that let nobody in."""
    skew_s: float = 0.0
    """Clocks are wrong by so much at most, either way."""


@dataclass(slots=True)
class Member:
    """A peer through all its lives."""

    number: int
    key: Ed25519PrivateKey
    home: Home
    host: WorldHost
    kept: KeptState = field(default_factory=KeptState)
    machine: SimulatedMachine | None = None
    peer: Peer | None = None
    """While it serves."""
    has_left: bool = False
    is_down: anyio.Event = field(default_factory=anyio.Event)

    @property
    def archive(self) -> Archive | None:
        store = None if self.peer is None else self.peer._archive.store
        return None if store is None else store.archive

    def owned(self) -> Arcs:
        """As this peer sees the ring."""
        return Arcs(() if self.peer is None else self.peer._membership.node.my_arcs(1))

    def stewards(self, key: Key) -> bool:
        return self.peer is not None and key in stewarded_by(self.peer._membership.node)

    @property
    def id(self) -> PeerKey:
        return PeerKey(self.key.public_key().public_bytes_raw())


class Peers:
    """All whole peers of one world."""

    def __init__(self, carrier: TrioCarrier, folder: Path, settings: PeersSettings, web: Web) -> None:
        self.carrier, self.folder, self.settings = carrier, folder, settings
        self.chance: Random = carrier.world.chance("peers")
        self.origins = Origins(web, day_s=settings.day_s, delay_floor_s=settings.delay_s)
        self.origins.note = lambda start: carrier.world.trace.note(start.at, "fetch", start.peer, start.url)
        self.around = Surroundings(carrier, self.origins)
        self.members: list[Member] = []
        self.fallen: list[str] = []
        """Peers that ended though nobody ended them."""
        self.committed: dict[bytes, float] = {}
        """Keys of captures that some archive has committed, and when the first did."""
        self.counts: Counter[str] = Counter()
        self.prepare: Callable[[Peer], None] = lambda peer: None
        """Called with every peer before it serves, to plant something in it."""
        self.torn: list[tuple[float, float]] = []
        """When the network was in two, and until when its peers may have thought so."""
        self.charter = Charter(
            name="simulated",
            copies=settings.copies,
            successors=max(4, settings.copies),
            allow_private_addresses=True,
            delay_floor_s=settings.delay_s,
            per_address_concurrency=settings.at_address,
            day_start=settings.day_start,
            day_length_s=int(settings.day_s),
            content="html+images",
            spread_imports=settings.spread_imports,
            founded=settings.founded,
        )

    @property
    def serving(self) -> list[Member]:
        return [one for one in self.members if one.peer is not None]

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Peers"]:
        for number in range(self.settings.peers):
            self._add(number)
        yield self

    def _add(self, number: int) -> None:
        identity = hashlib.sha256(f"peer/{self.carrier.world.seed}/{number}".encode()).digest()
        home = Home(self.folder / f"{number}")
        self._make_home(home)
        host = self.carrier.add_host(self._live, start_at=number * START_APART_S)
        if self._is_leaf(number):
            self.around.closed.add(host.address[0])
        self.members.append(
            Member(number=number, key=Ed25519PrivateKey.from_private_bytes(identity), home=home, host=host)
        )

    def _is_leaf(self, number: int) -> bool:
        return number >= self.settings.peers - self.settings.leaves

    def _make_home(self, home: Home) -> None:
        create_home(home, NewHome(config="", charter=self.charter, key_pem=b""))

    def _settings_of(self, member: Member) -> Settings:
        own, first = member.host.address, self.members[0].host.address
        chosen = self.settings
        return Settings(
            http=HttpSettings(listen=HostPort(host=own[0], port=HTTP_PORT)),
            ring=RingSettings(
                listen=HostPort(host="0.0.0.0", port=own[1]),  # noqa: S104  # nothing listens but in the world
                advertise=own[0],
                join=() if own == first else (PeerDoor(host=first[0], port=first[1]),),
                virtual_nodes=1,
            ),
            discovery=DiscoverySettings(
                lan=False, kademlia=False, port_mapping=False, dial_backs=int(self._is_leaf(member.number))
            ),
            crawl=CrawlSettings(connections=chosen.connections),
            copies=CopiesSettings(
                compare_s=chosen.compare_s,
                cross_fetch_share=chosen.cross_fetch_share,
                departed_s=chosen.departed_s,
            ),
            links=LinksSettings(wait_s=chosen.wait_s),
            calls=CallsSettings(knock_s=chosen.knock_s),
            lifecycle=LifecycleSettings(drain_s=8.0),
        )

    async def _live(self, endpoint: SimulatedPort) -> None:
        member = self.members[endpoint.number]
        machine = SimulatedMachine(self.around, member.host, endpoint, member.kept)
        member.machine, member.is_down = machine, anyio.Event()
        member.host.set_clock(skew_s=self.chance.uniform(-self.settings.skew_s, self.settings.skew_s))
        self._watch(member)
        try:
            parts = PeerParts(
                home=member.home, charter=self.charter, settings=self._settings_of(member), key=member.key
            )
            peer = Peer(parts, machine)
            self.prepare(peer)
            async with peer.serving():
                member.peer = peer
                await peer.left.wait()
                member.has_left = True
                member.peer = None
        except* PowerCut:
            if not machine.is_over:
                self.lose(member, power_cut=True)
        except* Exception as error:  # noqa: BLE001  # whatever ends a peer is for the checkers
            if not machine.is_over:
                self.fallen.append(
                    f"peer {member.number} fell at {anyio.current_time():.0f} s: {_first_of(error)}"
                )
        finally:
            member.is_down.set()
            if not machine.is_over:
                self.lose(member, power_cut=False)

    def _watch(self, member: Member) -> None:
        """The index is written after the log: every capture in it is acknowledged."""

        def note(changes: Changes) -> None:
            for key, value in changes:
                if key[:1] == CAPTURE and value is not None:
                    self.committed.setdefault(key, anyio.current_time())

        member.kept.rows_in(member.home.path / "index", has_log=False).on_written = note

    # --- events that may strike them

    def lose(self, member: Member, *, power_cut: bool) -> None:
        """The process is gone, with or without its machine's power."""
        machine, host = member.machine, member.host
        if machine is None or machine.is_over:
            return
        machine.is_over, member.peer = True, None
        self.counts["power cuts" if power_cut else "kills"] += 1
        self.around.lines.lose(member.number, is_silent=power_cut)
        self.around.portals.pop(host.address[0], None)
        member.kept.crash(host.rng, power_cut=power_cut)
        host.crash(power_cut=power_cut)

    async def come_back(self, member: Member, after_s: float, is_wiped: bool = False) -> None:
        await anyio.sleep(after_s)
        await member.is_down.wait()
        if is_wiped:
            self.wipe(member)
        member.host.start()
        self.carrier.poke()

    def wipe(self, member: Member) -> None:
        """Its disk is broken: it comes back with another. What nobody else had yet is lost by that, and not by us."""
        self.counts["disks lost"] += 1
        own = member.kept.rows_in(member.home.path / "index", has_log=False).opened()
        others = [
            one.kept.rows_in(one.home.path / "index", has_log=False)
            for one in self.members
            if one is not member
        ]
        for key in own.keys(CAPTURE, after(CAPTURE)):
            if not any(rows.has(key) for rows in others):
                self.committed.pop(key, None)
        del member.host.__dict__["disk"]  # made again when it is asked for
        member.kept = KeptState()
        shutil.rmtree(member.home.path)
        self._make_home(member.home)

    async def tear(self, for_s: float, patience_s: float) -> None:
        """The network is in two; for a while after it is whole, not all know it."""
        network, begin = self.carrier.world.network, anyio.current_time()
        sides = [[one.number for one in self.members if one.number % 2 == side] for side in (0, 1)]
        network.partition("torn", *sides)
        self.torn.append((begin, float("inf")))
        await anyio.sleep(for_s)
        network.heal("torn")
        self.torn[-1] = (begin, anyio.current_time() + patience_s)

    def is_torn(self, at: float) -> bool:
        return any(begin <= at <= end for begin, end in self.torn)

    async def churn(self, kills_a_day: float, until: float, *, wiped: float = 0.0) -> None:
        """Now and then a peer loses its power or its process, and is back after a while; a share without its disk."""
        every_s = self.settings.day_s / max(kills_a_day * len(self.members), 1e-9)
        async with anyio.create_task_group() as tasks:
            while anyio.current_time() < until:
                await anyio.sleep(self.chance.expovariate(1 / every_s))
                member = self.chance.choice(self.members)
                away_s = self.chance.uniform(*AWAY_S)
                down = sum(one.peer is None for one in self.members)
                is_wiped = self.chance.random() < wiped
                now = anyio.current_time()
                if member.peer is not None and down == self.counts["drained"] and now < until:
                    self._kill(member)
                    tasks.start_soon(self.come_back, member, away_s, is_wiped and not self.is_torn(now))

    def _kill(self, member: Member) -> None:
        if self.chance.random() < 0.5:
            self.lose(member, power_cut=False)
        else:  # in the midst of a commit, if one comes soon
            life = member.machine
            member.host.disk.cut_after(self.chance.randrange(20))
            self.carrier.world.schedule.after(CUT_LATEST_S, self._lose_life, member, life)
            self.carrier.poke()

    def _lose_life(self, member: Member, life: SimulatedMachine | None) -> None:
        if member.machine is life:
            self.lose(member, power_cut=True)

    async def drain(self, member: Member) -> None:
        """It hands over its captures, and leaves for good."""
        if member.peer is not None:
            self.counts["drained"] += 1
            await member.peer.perform(Drain(wait_s=0.0), lambda words: None)

    # --- requests by people

    async def seed(self, urls: Sequence[str]) -> None:
        """Each is somebody's wish."""
        for url in urls:
            if not self.serving:
                return
            await self.give(self.chance.choice(self.serving), url)

    async def give(self, member: Member, *urls: str) -> None:
        """Its operator wants them archived; they wait until it crawls."""
        while member.peer is None or not await self._takes(member.peer, urls):  # noqa: ASYNC110  # nobody tells
            await anyio.sleep(1.0)

    async def _takes(self, peer: Peer, urls: tuple[str, ...]) -> bool:
        try:
            await peer.perform(Begin(urls=urls), lambda words: None)
        except NotCrawling:  # it is just starting
            return False
        return True

    async def read(self, member: Member, target: str) -> Answer | None:
        """A reader's answer from its portal; None when the portal does not answer."""
        portal = self.around.portals.get(member.host.address[0])
        if portal is None:
            return None
        return await portal.answer(
            Request(target=target, headers={"host": f"{member.host.address[0]}:{HTTP_PORT}"})
        )


def run_peers(
    story: Callable[[Peers], Awaitable[T]], settings: PeersSettings, web: Web, *, seed: int, loss: float = 0.0
) -> T:
    """Whole peers in a world of their own, for as long as the story lasts."""

    async def main(carrier: TrioCarrier) -> T:
        async with Peers(carrier, Path(folder), settings, web).running() as peers:
            return await story(peers)

    where = MEMORY_FOLDER if MEMORY_FOLDER.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="simnet-", dir=where) as folder:
        return run_world(main, seed=seed, link=LineQuality(loss=loss))


def _first_of(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
