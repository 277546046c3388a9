"""How do stewards, and the peers that ask them, live in a world? The shells as they are, in virtual time, on a
made-up ring.

Simulated are the membership (each peer has its own view, which lags), the calls between peers,
and the hosts that are fetched from; every start of a fetch is noted with its time and peer. Runs under trio's mock
clock, by one seed.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import NamedTuple

import anyio
import anyio.abc
import trio
import trio.testing
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from crawler.core.capture import Capture, payload_digests
from crawler.core.politeness import (
    STARTS_MAX,
    HostSteward,
    LeaseTerms,
    OptOutList,
    OriginReport,
    PolitenessPolicy,
    Wait,
)
from crawler.core.urls import Origin, host_of, target_of
from crawler.ports import FetchRequest
from dht import Contact, Key
from dht.core.arcs import Arc, Arcs
from dht.core.ids import PeerKey
from dht.core.records import Address
from herodotus.crawl.gear import ROBOT
from herodotus.crawl.stewards import RingSteward, StewardParts
from herodotus.crawl.stewards.ask_queue import ASK_SERVICE
from herodotus.crawl.stewards.office import key_of_subject, subject_of
from herodotus.crawl.stewards.wire import Ask, encode_asks
from herodotus.peers.calls import CALL_DEADLINE_S, CallError, PeerUnreachableError
from simnet.host import repeatable_trio

VIEWS_BEHIND_MAX = 1_000
ENDLESS = 1_000_000
CLOSED_S = 60.0  # a host that may not be visited is looked at again


class GrantedStart(NamedTuple):
    at: float
    peer: int


@dataclass(slots=True)
class SimulatedHost:
    """`trouble` says which status a request at a moment gets."""

    name: str
    address: str
    robots: bytes = b""
    duration_s: float = 0.2
    trouble: Callable[[float], int] = lambda _now: 200
    starts: list[GrantedStart] = field(default_factory=list)
    robots_asked: int = 0


class _Ring:
    """One peer's view of the members."""

    def __init__(self, me: Contact) -> None:
        self.me = me
        self.members: list[Contact] = [me]
        self._news: list[MemoryObjectSendStream[bool]] = []

    def see(self, members: Sequence[Contact]) -> None:
        self.members = sorted(members, key=lambda one: one.position)
        for stream in self._news:
            stream.send_nowait(True)

    async def owner(self, key: Key) -> Contact | None:
        await anyio.lowlevel.checkpoint()
        positions = [one.position for one in self.members]
        return self.members[bisect_left(positions, key) % len(positions)]

    def my_arcs(self) -> Arcs:
        at = self.members.index(self.me)
        return Arcs([Arc(self.members[at - 1].position, self.me.position)])

    @asynccontextmanager
    async def changes(self) -> AsyncIterator[AsyncIterator[bool]]:
        send, receive = anyio.create_memory_object_stream[bool](VIEWS_BEHIND_MAX)
        self._news.append(send)
        try:
            with send, receive:
                yield _events(receive)
        finally:
            self._news.remove(send)


async def _events(receive: MemoryObjectReceiveStream[bool]) -> AsyncIterator[bool]:
    async for is_whole in receive:
        yield is_whole


class SimulatedPeer:
    """A peer's life between a start and a crash; a restart is another one at the same place."""

    def __init__(self, world: "StewardWorld", number: int) -> None:
        self.world, self.number = world, number
        key = number.to_bytes(32, "big")
        host = bytes([10, number >> 16, number >> 8 & 255, number & 255])
        self.contact = Contact.at(PeerKey(key), Address(host=host, port=4484), 0, 0, "off")
        self.ring = _Ring(self.contact)
        self.side = 0
        self.slept_s = 0.0
        self.done: dict[str, int] = defaultdict(int)
        self._life = anyio.CancelScope()
        self.steward = self._new_steward()
        self.is_up = False

    def _new_steward(self) -> RingSteward:
        world = self.world
        parts = StewardParts(
            own_key=self.contact.peer,
            terms=world.terms,
            fetcher=self,
            product_token=ROBOT,
            wall_clock=lambda: 1e9 + anyio.current_time(),
            ring=lambda: self.ring,
            calls=lambda: self,
            may_visit_private=world.may_visit_private,
            opted_out=world.opted_out,
            slept_s=lambda: self.slept_s,
        )
        return RingSteward(parts, HostSteward(world.terms.policy))

    async def live(self, demand: dict[str, int], *, greedy: bool = False) -> None:
        """Fetches a number of pages from each host."""
        self._life = anyio.CancelScope()
        self.steward = self._new_steward()
        with self._life:
            async with self.steward.running(), anyio.create_task_group() as tasks:
                self.is_up = True
                for host, count in sorted(demand.items()):
                    tasks.start_soon(self._be_greedy if greedy else self._crawl, host, count)
                await anyio.sleep_forever()
        self.is_up = False

    def crash(self) -> None:
        self.is_up = False
        self._life.cancel()

    # -- the part of the crawler's worker

    async def _crawl(self, host: str, count: int) -> None:
        origin, steward = Origin(f"http://{host}"), self.steward
        while self.done[host] < count:
            rules = await steward.rules(origin)
            if isinstance(rules, Wait):
                await _sleep_until(rules.until)
                continue
            if not rules.is_reachable or not rules.allows("/"):
                await anyio.sleep(CLOSED_S)
                continue
            lease = await steward.lease(origin, self.world.hosts[host].address)
            if isinstance(lease, Wait):
                await _sleep_until(lease.until)
                continue
            report = OriginReport(status=None, duration_s=0.0)
            try:
                status, duration_s = await self.world.visit(host, self.number)
                report = OriginReport(status=status, duration_s=duration_s)
                self.done[host] += 1
            finally:
                next_at = await steward.give_back(lease, report)
            await _sleep_until(next_at)

    async def _be_greedy(self, host: str, count: int) -> None:
        """It asks ten times a second for everything, whatever the answers, and uses every grant."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._crawl, host, count)
            while self.done[host] < count:
                await self.call_for(host)
                await anyio.sleep(0.1)

    async def call_for(self, host: str) -> None:
        """Past our own shell, to the steward itself."""
        subject = subject_of(host)
        owner = await self.ring.owner(key_of_subject(subject))
        if owner is not None and owner.peer != self.contact.peer:
            with suppress(CallError):
                await self.call(
                    owner,
                    ASK_SERVICE,
                    encode_asks([Ask(subject, STARTS_MAX, purpose=f"http://{host}")], []),
                    deadline_s=1.0,
                )

    # -- the steward's `Fetcher` and `Calls`

    async def address_of(self, host: str) -> str:
        await anyio.lowlevel.checkpoint()
        found = self.world.hosts.get(host)
        return found.address if found is not None else ""

    async def fetch(self, request: FetchRequest) -> Capture:
        assert target_of(request.url) == "/robots.txt"
        name = host_of(request.url)
        self.world.hosts[name].robots_asked += 1
        status, duration_s = await self.world.visit(name, self.number)
        body = self.world.hosts[name].robots
        sha256, sha1 = payload_digests(body)
        return Capture(
            url=request.url,
            requested_at=anyio.current_time(),
            duration_s=duration_s,
            request=b"",
            status=status,
            head=b"HTTP/1.1 200 OK\r\n\r\n",
            body=body,
            sha256=sha256,
            sha1=sha1,
            remote_ip=self.world.hosts[name].address,
        )

    async def call(
        self, to: Contact, service: str, body: bytes, *, deadline_s: float = CALL_DEADLINE_S
    ) -> bytes:
        world = self.world
        target = world.peer_of(to)
        with anyio.move_on_after(deadline_s):
            await anyio.sleep(world.latency_s())
            if not world.is_lost() and target.is_up and target.side == self.side:
                answer = await target.steward.services.calls[service](self.contact.peer, body)
                await anyio.sleep(world.latency_s())
                if not world.is_lost() and target.side == self.side:
                    return answer
            await anyio.sleep_forever()
        raise PeerUnreachableError


class StewardWorld:
    """Peers live in `tasks`. Crash, part and heal change a peer's view after a delay of its own."""

    def __init__(
        self,
        tasks: anyio.abc.TaskGroup,
        policy: PolitenessPolicy,
        *,
        seed: int,
        loss: float = 0.0,
        terms: LeaseTerms | None = None,
        may_visit_private: bool = False,
        opted_out: OptOutList | None = None,
    ) -> None:
        self.chance = Random(seed)
        self.terms = terms or LeaseTerms.of(policy)
        self.hosts: dict[str, SimulatedHost] = {}
        self.peers: list[SimulatedPeer] = []
        self.may_visit_private = may_visit_private
        self.opted_out = opted_out or OptOutList()
        self.noticed_s_max = 5.0
        self._open: Counter[str] = Counter()
        self.most_open: Counter[str] = Counter()
        """Requests that an address had to answer at once, at most."""
        self._tasks = tasks
        self._loss = loss

    def add_host(self, name: str, **facts: object) -> SimulatedHost:
        number = len(self.hosts)
        address = f"93.184.{number >> 8}.{number & 255}"
        host = SimulatedHost(**{"name": name, "address": address, **facts})  # type: ignore[arg-type]  # its own fields
        self.hosts[name] = host
        return host

    def add_peers(self, count: int) -> None:
        self.peers += [
            SimulatedPeer(self, number + 1) for number in range(len(self.peers), len(self.peers) + count)
        ]
        for peer in self.peers:
            peer.ring.see([one.contact for one in self.peers])

    def peer_of(self, contact: Contact) -> SimulatedPeer:
        return self.peers[int.from_bytes(contact.peer, "big") - 1]

    def start(self, peer: SimulatedPeer, demand: dict[str, int], *, greedy: bool = False) -> None:
        async def live() -> None:
            await peer.live(demand, greedy=greedy)

        self._tasks.start_soon(live)

    def members_changed(self) -> None:
        """Each peer notices by itself, within some seconds, which peers are left on its side."""
        for peer in self.peers:
            self._tasks.start_soon(self._notice, peer, self.chance.uniform(0.0, self.noticed_s_max))

    async def _notice(self, peer: SimulatedPeer, after_s: float) -> None:
        await anyio.sleep(after_s)
        there = [one.contact for one in self.peers if one is peer or (one.is_up and one.side == peer.side)]
        peer.ring.see(there)

    def latency_s(self) -> float:
        return min(0.02 + self.chance.expovariate(1 / 0.06), 2.0)

    def is_lost(self) -> bool:
        return self.chance.random() < self._loss

    async def visit(self, name: str, peer: int) -> tuple[int, float]:
        host, now = self.hosts[name], anyio.current_time()
        host.starts.append(GrantedStart(now, peer))
        duration_s = host.duration_s * self.chance.uniform(0.5, 1.5)
        self._open[host.address] += 1
        self.most_open[host.address] = max(self.most_open[host.address], self._open[host.address])
        try:
            await anyio.sleep(duration_s)
        finally:
            self._open[host.address] -= 1
        return host.trouble(now), duration_s


async def _sleep_until(at: float) -> None:
    await anyio.sleep(max(0.0, at - anyio.current_time()))


def too_close(host: SimulatedHost, delay_s: float) -> list[tuple[GrantedStart, GrantedStart]]:
    """Starts that followed one another too soon."""
    return [pair for pair in pairwise(sorted(host.starts)) if pair[1].at - pair[0].at < delay_s - 1e-6]


def most_within(host: SimulatedHost, seconds: float) -> int:
    """The largest number of starts in any stretch of this length."""
    times = sorted(start.at for start in host.starts)
    most = 0
    first = 0
    for last, at in enumerate(times):
        while times[first] <= at - seconds + 1e-6:
            first += 1
        most = max(most, last - first + 1)
    return most


def steward_of(world: StewardWorld, name: str) -> SimulatedPeer:
    """The ring as seen by peers that know every live peer."""
    key = key_of_subject(subject_of(name))
    up = sorted((peer for peer in world.peers if peer.is_up), key=lambda one: one.contact.position)
    return up[bisect_left([one.contact.position for one in up], key) % len(up)]


def share_of(world: StewardWorld, name: str) -> dict[int, int]:
    shares: dict[int, int] = defaultdict(int)
    for start in world.hosts[name].starts:
        shares[start.peer] += 1
    return dict(shares)


def in_virtual_time(main: Callable[[anyio.abc.TaskGroup], Awaitable[None]], *, seed: int) -> None:
    """Runs `main` with a task group for peers, which are stopped when it returns."""

    async def within() -> None:
        async with anyio.create_task_group() as tasks:
            await main(tasks)
            tasks.cancel_scope.cancel()

    with repeatable_trio(seed):
        trio.run(within, clock=trio.testing.MockClock(autojump_threshold=0))


async def settled(world: StewardWorld) -> None:
    """Everybody is up, and no steward is silent any more."""
    await anyio.sleep(world.terms.silent_s + 1)


async def crowd(world: StewardWorld, hosts: int = 4, peers: int = 8) -> None:
    """Peers with endless work at every host."""
    for number in range(hosts):
        world.add_host(f"h{number}.example", duration_s=0.5)
    world.add_peers(peers)
    for peer in world.peers:
        world.start(peer, dict.fromkeys(world.hosts, ENDLESS))
    await settled(world)


async def churn(world: StewardWorld, seconds: float) -> None:
    """Every now and then the steward of some host dies, and comes back knowing nothing. All are up at the end."""
    until = anyio.current_time() + seconds
    while anyio.current_time() < until:
        await anyio.sleep(world.chance.uniform(20, 300))
        victim = steward_of(world, world.chance.choice(sorted(world.hosts)))
        victim.crash()
        world.members_changed()
        await anyio.sleep(world.chance.uniform(5, 200))
        world.start(victim, dict.fromkeys(world.hosts, ENDLESS))
        await anyio.sleep(0.1)
        world.members_changed()
