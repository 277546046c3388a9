"""What is the world to a simulated peer? Virtual time, the world's network, disks and web, chance from the seed.

A `SimulatedMachine` is one life of one host, and serves the unchanged `herodotus.peer.Peer` as its `World`. The
things that outlive it (disk, rows, small files) belong to the `MachineHost`. Nothing here starts a thread, opens a
socket or reads a clock of the system.
"""

import socket
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import TypeVar
from urllib.parse import urlsplit

import anyio
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from crawler.core.rows import RowLimits
from crawler.core.urls import UrlRules
from crawler.http import FetchSettings
from crawler.ports import ConnectionRoom
from dht.discovery.lan import LanDiscovery
from dht.discovery.port_mapping import PortGateway
from dht.discovery.rendezvous import Rendezvous
from dht.endpoint import SessionEndpoint
from dht.finding import Finders
from dht.transport import OnEvent, OnMessages
from dht.udp import DatagramSocket, UdpTransport
from herodotus.core.ports import Lane
from herodotus.core.settings.fields import HostPort, PeerDoor
from herodotus.core.settings.sections import HttpSettings
from herodotus.core.supplies import Supplies
from herodotus.peers.membership import FinderParts
from herodotus.portal.answer import Answer, Request
from herodotus.portal.answer_cache import Front
from herodotus.portal.handlers import Handlers
from herodotus.portal.http_connection import SharedLine
from herodotus.portal.http_relay import ANSWER_S, AT_ONCE, BODY_BYTES_MAX, HEADERS_SAID
from herodotus.portal.other_holders import PortalAddress
from simnet.host import SimulatedPort, TrioCarrier
from simnet.lines import LinePort, Lines, SimulatedLine
from simnet.origins import Origins, SimulatedFetcher
from simnet.rows import KeptRows, SimulatedRows
from simnet.web.site import EPOCH_S
from simnet.world.disk import PowerCut, SimulatedDisk, Stat
from simnet.world.hosts import WorldHost
from simnet.world.network import Address

FREE_BYTES = 1 << 40
T = TypeVar("T")


class Surroundings:
    """The things that all machines of a world share."""

    def __init__(self, carrier: TrioCarrier, origins: Origins) -> None:
        self.carrier, self.origins = carrier, origins
        self.lines = Lines(carrier)
        self.portals: dict[str, SimulatedPortal] = {}
        """Of those that serve, by address."""
        self.relayed: Counter[str] = Counter()
        self.closed: set[str] = set()
        """Addresses behind routers that let nobody in: nobody can call there, or send what was not asked for."""


@dataclass(slots=True)
class KeptState:
    """The things that a machine keeps through all its lives, beside its disk."""

    rows: dict[Path, KeptRows] = field(default_factory=dict)
    has_log: dict[Path, bool] = field(default_factory=dict)

    def rows_in(self, folder: Path, *, has_log: bool) -> KeptRows:
        self.has_log[folder] = has_log
        return self.rows.setdefault(folder, KeptRows())

    def crash(self, chance: Random, *, power_cut: bool) -> None:
        for folder, kept in self.rows.items():
            if power_cut or not self.has_log[folder]:
                kept.crash(chance)


class LifeDisk:
    """A folder of a host's disk, for as long as a life lasts; implements `Disk`."""

    def __init__(self, disk: SimulatedDisk, folder: Path, check_alive: Callable[[], None]) -> None:
        self._whole, self._check_alive = disk, check_alive
        self._prefix = f"{folder}/"

    @property
    def _disk(self) -> SimulatedDisk:
        self._check_alive()
        return self._whole

    def open(self, path: str, flags: int, mode: int = 0o777) -> int:
        return self._disk.open(self._prefix + path, flags, mode)

    def close(self, fd: int) -> None:
        self._disk.close(fd)

    def pread(self, fd: int, length: int, offset: int) -> bytes:
        return self._disk.pread(fd, length, offset)

    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        return self._disk.pwrite(fd, data, offset)

    def ftruncate(self, fd: int, length: int) -> None:
        self._disk.ftruncate(fd, length)

    def fdatasync(self, fd: int) -> None:
        self._disk.fdatasync(fd)

    def fsync(self, fd: int) -> None:
        self._disk.fsync(fd)

    def rename(self, source: str, target: str) -> None:
        self._disk.rename(self._prefix + source, self._prefix + target)

    def unlink(self, path: str) -> None:
        self._disk.unlink(self._prefix + path)

    def mkdir(self, path: str, mode: int = 0o777) -> None:
        self._disk.mkdir(self._prefix + path, mode)

    def listdir(self, path: str) -> list[str]:
        return self._disk.listdir(self._prefix + path)

    def stat(self, path: str) -> Stat:
        return self._disk.stat(self._prefix + path)

    def free_bytes(self) -> int:
        return FREE_BYTES


class SimulatedMachine:
    """Implements `herodotus.world.World`."""

    has_threads = False
    process_id = 1

    def __init__(
        self, around: Surroundings, host: WorldHost, endpoint: SimulatedPort | None, kept: KeptState
    ) -> None:
        self._around, self._host, self._endpoint, self._kept = around, host, endpoint, kept
        world = around.carrier.world
        self.chance: Random = world.chance(f"peer/{host.number}/{host.boots}")
        self._lanes: dict[Lane, anyio.CapacityLimiter] = {}
        self.is_over = False

    def check_alive(self) -> None:
        """Tasks of an ended life may still run; they must leave no trace."""
        if self.is_over:
            raise PowerCut

    # -- time, work

    def unix_s(self) -> float:
        return EPOCH_S + (anyio.current_time() if self._endpoint is None else self._endpoint.now())

    def elapsed_s(self) -> float:
        return anyio.current_time()

    def steady_s(self) -> float:
        return anyio.current_time()

    def local_offset_s(self, unix_s: float) -> float:
        del unix_s
        return 0.0

    async def work(self, job: Callable[[], T], lane: Lane) -> T:
        limiter = self._lanes.get(lane)
        if limiter is None:
            limiter = self._lanes[lane] = anyio.CapacityLimiter(lane.width)
        async with limiter:
            self.check_alive()
            return job()

    # -- storage

    def random_bytes(self, count: int) -> bytes:
        return self.chance.randbytes(count)

    def rows(self, folder: Path, limits: RowLimits) -> SimulatedRows:
        return self._kept.rows_in(folder, has_log=limits.has_log).opened(self.check_alive)

    def index(self, folder: Path) -> SimulatedRows:
        return self._kept.rows_in(folder, has_log=False).opened(self.check_alive)

    def disk(self, folder: Path) -> LifeDisk:
        disk = self._host.disk
        if not disk.isdir(folder):
            disk.makedirs(folder)
            disk.sync()  # it was made with the home
        return LifeDisk(disk, folder, self.check_alive)

    # -- other peers

    def claim(self, listen: HostPort, key: Ed25519PrivateKey) -> "MachinePort":
        del listen
        assert self._endpoint is not None, "a machine that is only looked into has no network"
        port = self._around.lines.claim(self._host, key.public_key().public_bytes_raw())
        return MachinePort(port, self._endpoint)

    async def dial(self, host: str, port: int) -> SimulatedLine:
        self.check_alive()
        if host in self._around.closed:
            raise OSError("no route to host")
        return await self._around.lines.dial(self._host, (host, port))

    async def knock(self, host: str, port: int) -> None:
        self.check_alive()
        await self._around.lines.knock(self._host, (host, port))

    def outgoing_hosts(self) -> Sequence[str]:
        return (self._host.address[0],)

    def finders(self, parts: FinderParts) -> Finders:
        return Finders(
            given=partial(self._given, parts.given),
            remembered=parts.remembered,
            lan=LanDiscovery(),
            rendezvous=Rendezvous(),
            times=parts.times,
            wall_clock=self.unix_s,
            random=self.chance,
        )

    async def _given(self, doors: Sequence[PeerDoor]) -> Sequence[tuple[str, int]]:
        await anyio.lowlevel.checkpoint()
        return [(door.host, door.port) for door in doors if door.port is not None]

    def gateways(self) -> Sequence[tuple[str, PortGateway]]:
        return ()

    def pinholes(self, host: str) -> Sequence[tuple[str, PortGateway]]:
        del host
        return ()

    async def watch_supplies(self, tell: Callable[[Supplies], None]) -> None:
        """Machines here have neither batteries nor bills."""
        del tell
        await anyio.lowlevel.checkpoint()

    async def dial_back(
        self, host: str, network: bytes, nonce: bytes, target: Address, counts: Counter[str], tries: int
    ) -> bool:
        del host, network, nonce, counts, tries
        await anyio.lowlevel.checkpoint()
        return target[0] not in self._around.closed

    async def dial_stream(self, address: Address, peer: bytes) -> bool:
        del peer
        await anyio.lowlevel.checkpoint()
        return address[0] not in self._around.closed

    # -- the web, readers

    def fetcher(
        self, settings: FetchSettings, rules: UrlRules, wall_clock: Callable[[], float]
    ) -> SimulatedFetcher:
        del rules
        return SimulatedFetcher(
            self._around.origins, self._host.number, settings.user_agent, wall_clock, self.check_alive
        )

    def serve(
        self,
        settings: HttpSettings,
        handlers: Handlers,
        front: Front,
        shared: Callable[[str], SharedLine | None],
    ) -> "SimulatedPortal":
        del front, shared
        return SimulatedPortal(self._around, self._host, settings, handlers)

    def relay(
        self,
        body_bytes_max: int | None = None,
        at_once: int | None = None,
        *,
        room: ConnectionRoom | None = None,
    ) -> "SimulatedRelay":
        del room
        return SimulatedRelay(self._around, self._host, body_bytes_max or BODY_BYTES_MAX, at_once or AT_ONCE)


class MachinePort:
    """Implements `Port`: lines for calls, and the world's datagrams."""

    def __init__(self, port: LinePort, endpoint: SimulatedPort) -> None:
        self._port, self._endpoint = port, endpoint
        self.number = port.number
        self.arrangements = port.arrangements
        self.accept = port.accept
        self.close = port.close

    @asynccontextmanager
    async def datagrams(
        self,
        ring: SessionEndpoint,
        listen: Sequence[tuple[str, int]],
        *,
        on_messages: OnMessages,
        on_event: OnEvent,
    ) -> AsyncIterator[UdpTransport]:
        del listen
        async with open_datagrams(
            self._endpoint, ring, on_messages=on_messages, on_event=on_event
        ) as transport:
            yield transport


class SimulatedPortal:
    """Implements `PortalServer`: answers all askers in this world."""

    refused = left = malformed = connections = 0
    crowd = ""
    carried = 0, 0

    def __init__(
        self, around: Surroundings, host: WorldHost, settings: HttpSettings, handlers: Handlers
    ) -> None:
        self._around, self._host = around, host
        self.endpoint: HostPort = settings.listen
        self.handlers = handlers

    @contextmanager
    def claimed(self) -> Iterator[None]:
        yield

    @asynccontextmanager
    async def serving(self, stop_s: float) -> AsyncIterator[None]:
        del stop_s
        address = self._host.address[0]
        self._around.portals[address] = self
        try:
            yield
        finally:
            if self._around.portals.get(address) is self:
                del self._around.portals[address]

    async def answer(self, request: Request) -> Answer:
        return await self.handlers.answer(request)


class SimulatedRelay:
    """Implements `OpenRelay`."""

    def __init__(self, around: Surroundings, host: WorldHost, body_bytes_max: int, at_once: int) -> None:
        self._around, self._host = around, host
        self._body_bytes_max = body_bytes_max
        self._room = anyio.Semaphore(at_once)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        await anyio.lowlevel.checkpoint()
        yield

    async def fetch(self, place: PortalAddress, request: Request) -> Answer | None:
        with anyio.move_on_after(ANSWER_S):
            async with self._room:
                return await self._fetched(urlsplit(place.origin).hostname or "", request)
        return None

    async def _fetched(self, address: str, request: Request) -> Answer | None:
        world = self._around.carrier.world
        called = await self._around.lines.reach(self._host, address)
        await anyio.sleep(2 * world.network.latency.seconds(self._host.number, called.number, self._chance))
        portal = self._around.portals.get(address)
        if portal is None:
            return None
        said = {name: request.header(name) for name in HEADERS_SAID if request.header(name)}
        said["accept-encoding"] = request.header("accept-encoding") or "identity"
        said["host"] = address
        self._around.relayed[request.method] += 1
        answer = await portal.answer(replace(request, headers=said, client=self._host.address[0]))
        return answer if len(answer.body) <= self._body_bytes_max else None

    @property
    def _chance(self) -> Random:
        return self._host.rng


class SimulatedSocket:
    """Implements `DatagramSocket`."""

    family = socket.AF_INET

    def __init__(self, endpoint: SimulatedPort) -> None:
        self._endpoint = endpoint
        self._arrived: deque[tuple[bytes, Address]] = deque()

    def fileno(self) -> int:
        return -1

    async def wait(self) -> None:
        self._arrived.append(await self._endpoint.receive())

    def recvfrom(self, bufsize: int, /) -> tuple[bytes, Address]:
        if not self._arrived:
            raise BlockingIOError
        data, address = self._arrived.popleft()
        return data[:bufsize], address

    def sendto(self, data: bytes, address: Address, /) -> int:
        self._endpoint.send(data, address)
        return len(data)

    def getsockname(self) -> Address:
        return self._endpoint.local_address


class SimulatedTransport(UdpTransport):
    async def _serve_trio(self, sock: DatagramSocket) -> None:
        assert isinstance(sock, SimulatedSocket)
        while True:
            await sock.wait()
            self._on_readable(sock)


@asynccontextmanager
async def open_datagrams(
    endpoint: SimulatedPort,
    ring: SessionEndpoint,
    *,
    on_messages: OnMessages,
    on_event: OnEvent,
) -> AsyncIterator[UdpTransport]:
    """As `dht.udp.open_udp`, for as long as the context lasts."""
    transport = SimulatedTransport(ring, [SimulatedSocket(endpoint)], on_messages, on_event)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(transport.run)
        try:
            yield transport
        finally:
            transport.close()
            tasks.cancel_scope.cancel()
