"""How do whole peers, shells and all, live in a world? As trio tasks under a clock that jumps.

The same `World` decides about the network, the hosts and the faults; a program is an async function that
gets an `SimulatedPort` in place of a socket. Time is trio's mock clock, which jumps when all tasks wait, so a
month takes minutes.

    async def peer(endpoint: Endpoint) -> None: ...
    async def main(carrier: TrioCarrier) -> int:
        for number in range(3):
            carrier.add_host(peer)
        await trio.sleep(600)
        return len(carrier.world.live())
    run_world(main, seed=7)

Trio shuffles runnable tasks to find hidden assumptions; here it does so from our seed. The two names that
make this possible are private to trio, so its version is pinned and a test fails when they go. What a stall
cannot do here: a stalled host's datagrams wait, but its tasks' own timers run on.
"""

import math
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TypeVar

import trio
import trio.testing

from simnet.world.disk import SimulatedDisk
from simnet.world.hosts import WorldHost
from simnet.world.network import Address, Latency, LineQuality
from simnet.world.world import World

SOCKET_DATAGRAMS_MAX = 1_000  # our datagrams in a socket buffer of 212 kB, generously
ROUNDING_S = 1e-9
FLAG = "_ALLOW_DETERMINISTIC_SCHEDULING"

T = TypeVar("T")


class TrioNamesError(Exception):
    """This trio has other private names than the pinned one: runs would not repeat."""


class SimulatedPort:
    """A simulated UDP socket, with the host's clock, disk and chance beside it."""

    def __init__(self, host: WorldHost, carrier: "TrioCarrier") -> None:
        self._host, self._carrier = host, carrier
        self._into, self._out = trio.open_memory_channel[tuple[bytes, Address]](SOCKET_DATAGRAMS_MAX)
        self.dropped = 0

    @property
    def local_address(self) -> Address:
        return self._host.address

    @property
    def number(self) -> int:
        return self._host.number

    @property
    def disk(self) -> SimulatedDisk:
        return self._host.disk

    @property
    def rng(self) -> random.Random:
        return self._host.rng

    def now(self) -> float:
        """By the host's own clock."""
        self._carrier.catch_up()
        return self._host.clock()

    def send(self, data: bytes, target: Address) -> None:
        """Never blocks and never fails, as UDP; a host that is suspended sends nothing."""
        self._carrier.catch_up()
        if self._host.is_responsive:
            self._carrier.world.network.send(self._host.number, target, data)
            self._carrier.poke()

    async def receive(self) -> tuple[bytes, Address]:
        return await self._out.receive()

    def put(self, data: bytes, sender: Address) -> None:
        try:
            self._into.send_nowait((data, sender))
        except trio.WouldBlock:
            self.dropped += 1


Peer = Callable[[SimulatedPort], Awaitable[None]]


class _Tasks:
    """The shape of a program for the world, around an async function."""

    def __init__(self, host: WorldHost, carrier: "TrioCarrier", peer: Peer) -> None:
        self.endpoint = SimulatedPort(host, carrier)
        self._scope = trio.CancelScope()
        self.peer = peer
        carrier.nursery.start_soon(self._run, name=f"host {host.number}")

    async def _run(self) -> None:
        with self._scope:
            await self.peer(self.endpoint)

    def stop(self) -> None:
        self._scope.cancel()

    def receive(self, data: bytes, sender: Address, now: float) -> None:
        self.endpoint.put(data, sender)

    def advance(self, now: float) -> None:
        """Tasks look at the clock themselves."""

    def next_deadline(self) -> float | None:
        return None

    def take_datagrams(self) -> Sequence[tuple[Address, bytes]]:
        return ()


class TrioCarrier:
    def __init__(self, world: World, nursery: trio.Nursery) -> None:
        self.world, self.nursery = world, nursery
        self._wake = trio.Event()
        self._sleeping_until = math.inf

    def add_host(
        self,
        peer: Peer,
        *,
        address: Address | None = None,
        start_at: float | None = 0.0,
    ) -> WorldHost:
        host = self.world.add_host(lambda host: _Tasks(host, self, peer), address=address, start_at=start_at)
        self.poke()
        return host

    def catch_up(self) -> None:
        """The world's clock follows trio's."""
        self.world.schedule.now = max(self.world.schedule.now, trio.current_time())

    def poke(self) -> None:
        """Something may happen sooner than the world is waiting for."""
        upcoming = self.world.schedule.next_time()
        if upcoming is not None and upcoming < self._sleeping_until:
            self._wake.set()

    async def drive(self) -> None:
        """The world's events, at their times, for ever."""
        schedule = self.world.schedule
        while True:
            upcoming = schedule.next_time()
            if upcoming is not None and upcoming <= trio.current_time() + ROUNDING_S:
                self.world.run_until(max(upcoming, trio.current_time()))
                await trio.lowlevel.checkpoint()
                continue
            self._wake = trio.Event()
            self._sleeping_until = math.inf if upcoming is None else upcoming
            with trio.move_on_at(self._sleeping_until):
                await self._wake.wait()


@contextmanager
def repeatable_trio(seed: int) -> Iterator[None]:
    """Trio's scheduler draws from our seed inside, and as before outside."""
    names = vars(trio._core._run)  # private: trio is pinned in pyproject.toml, and a test looks for the names
    chance = names.get("_r")
    if not isinstance(chance, random.Random) or FLAG not in names:
        raise TrioNamesError(
            f"trio {trio.__version__} keeps its scheduler's chance elsewhere; see simnet/host.py"
        )
    before = names[FLAG], chance.getstate()
    names[FLAG] = True
    chance.seed(seed)
    try:
        yield
    finally:
        names[FLAG] = before[0]
        chance.setstate(before[1])


@asynccontextmanager
async def open_world(world: World) -> AsyncIterator[TrioCarrier]:
    """Its events happen for as long as the context lasts; then everything in it stops."""
    async with trio.open_nursery() as nursery:
        carrier = TrioCarrier(world, nursery)
        nursery.start_soon(carrier.drive, name="world")
        try:
            yield carrier
        finally:
            nursery.cancel_scope.cancel()


def run_world(
    main: Callable[[TrioCarrier], Awaitable[T]],
    *,
    seed: int,
    latency: Latency | None = None,
    link: LineQuality | None = None,
) -> T:
    """Run `main` in a fresh world; when it returns, everything in the world stops."""
    world = World(seed=seed, latency=latency, link=link)

    async def within() -> T:
        async with open_world(world) as carrier:
            return await main(carrier)
        raise AssertionError("unreachable: only our own cancellation ends the nursery")

    with repeatable_trio(seed):
        return trio.run(within, clock=trio.testing.MockClock(autojump_threshold=0))
