"""How is the kademlia package our rendezvous?

Its routing table, its node heap and its crawls are used; its `Server` is not (pickled state, background
tasks with no parent, `set()` that raises where all neighbours are dead). One UDP socket of its own, on
asyncio, which the package needs; the rest of the peer sees five coroutines. Nothing runs between calls:
chores wait for the next one.
"""

import asyncio
import logging
import random
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
from kademlia.crawling import NodeSpiderCrawl, SpiderCrawl
from kademlia.node import Node

from dht.discovery.addresses import Endpoint, overlay_node_id, parse_ip
from dht.discovery.overlay_protocol import REPLY_TIMEOUT_S, REQUESTS_PER_S, OverlayProtocol
from dht.discovery.record_store import RecordStore
from dht.discovery.rendezvous import (
    SHARDS,
    PublishedRecord,
    Rendezvous,
    Validate,
    shard_key,
    shard_of,
)
from dht.discovery.state_file import read_state, write_state

log = logging.getLogger(__name__)

COPIES = 8
"""Nodes that keep a record. kademlia's 20 would survive more, but every peer publishes again within the
hour.
"""
ALPHA = 3
ROUNDS_MAX = 12
"""A crawl halves the distance per round or better, so 12 serve thousands of nodes; liars cannot prolong
it.
"""
SHARDS_READ = 3
FOUND_MAX = 64
NEIGHBOURS_KEPT_MAX = 40


class _NodeCrawl(NodeSpiderCrawl):
    rounds = 0

    async def find(self) -> list[Node]:
        self.rounds += 1
        if self.rounds > ROUNDS_MAX:
            return list(self.nearest)
        found: list[Node] = await super().find()
        return found


class _RecordCrawl(SpiderCrawl):
    """Asks all the nearest, not the first who answers: one liar must not be able to hide the others'
    records.
    """

    rounds = 0
    records: set[bytes]

    async def find(self) -> set[bytes]:
        if self.rounds == 0:
            self.records = set()
        self.rounds += 1
        if self.rounds <= ROUNDS_MAX and not self.nearest.have_contacted_all():
            await self._find(self.protocol.call_find_value)
        return self.records

    async def _nodes_found(self, responses: dict[bytes, tuple[bool, Any]]) -> None:
        self.nearest.remove([node_id for node_id, (is_alive, _) in responses.items() if not is_alive])
        for is_alive, (contacts, records) in responses.values():
            if is_alive:
                self.records.update(records)
                self.nearest.push([Node(*contact) for contact in contacts])
        await self.find()


class _SavedState(msgspec.Struct, array_like=True):
    version: int
    neighbours: list[tuple[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class KademliaSettings:
    network: bytes
    """ring8: the first eight bytes of the network id."""
    listen_host: str = "0.0.0.0"  # noqa: S104 - a peer is reached from outside
    listen_port: int = 0
    public_endpoint: Endpoint | None = None
    """Where others reach us, if that differs from where we listen; our node id is made from it."""
    contacts: Sequence[Endpoint] = ()
    state_path: Path | None = None
    shards_read: int = SHARDS_READ
    requests_per_s: float = REQUESTS_PER_S
    """Answered per /24; a whole overlay on one machine needs more."""
    reply_timeout_s: float = REPLY_TIMEOUT_S


@dataclass(slots=True)
class _Running:
    protocol: OverlayProtocol
    transport: asyncio.DatagramTransport
    endpoint: Endpoint


class KademliaRendezvous(Rendezvous):
    """`stop()` may be called twice; calls after it find nothing and store
    nowhere.
    """

    def __init__(
        self,
        settings: KademliaSettings,
        *,
        validate: Validate,
        wall_clock: Callable[[], float],
        chance: random.Random,
    ) -> None:
        self._settings = settings
        self._store = RecordStore(validate, wall_clock)
        self._chance = chance
        self._running: _Running | None = None
        self._unmet: list[Endpoint] = []

    @property
    def endpoint(self) -> Endpoint:
        """Where we listen; only while running."""
        assert self._running is not None, "the rendezvous has not been started"
        return self._running.endpoint

    async def start(self) -> None:
        """Listen, then greet the contacts and the remembered neighbours. Raises `OSError` if the port is
        taken.
        """
        assert self._running is None, "started twice"
        settings = self._settings
        loop = asyncio.get_running_loop()
        self._running = await self._listen(loop)
        saved = read_state(settings.state_path, _SavedState) if settings.state_path else None
        remembered = saved.neighbours[:NEIGHBOURS_KEPT_MAX] if saved and saved.version == 1 else []
        self._unmet = list(dict.fromkeys([*settings.contacts, *remembered]))
        await self._greet_unmet()

    async def _greet_unmet(self) -> None:
        """Those who were down may be another part of the overlay, which nobody else would show us."""
        unmet = self._unmet
        met = await self.greet(unmet)
        self._unmet = [contact for contact in unmet if contact not in met]

    async def _listen(self, loop: asyncio.AbstractEventLoop) -> _Running:
        settings = self._settings
        family = socket.AF_INET6 if ":" in settings.listen_host else socket.AF_INET
        listening = socket.socket(family, socket.SOCK_DGRAM)
        try:
            listening.setblocking(False)
            listening.bind((settings.listen_host, settings.listen_port))
            bound: Endpoint = listening.getsockname()[:2]
            known = settings.public_endpoint or bound
            ip = parse_ip(known[0])
            # Without an address of our own to name we ask under an id that nobody takes into a table.
            node_id = self._chance.randbytes(20) if ip is None else overlay_node_id(*known)
            node = Node(node_id, *known)
            protocol = OverlayProtocol(
                node,
                self._store,
                is_public=ip is not None and ip.is_global,
                requests_per_s=settings.requests_per_s,
                reply_timeout_s=settings.reply_timeout_s,
            )
            transport, _ = await loop.create_datagram_endpoint(lambda: protocol, sock=listening)
        except BaseException:
            listening.close()
            raise
        return _Running(protocol, transport, bound)

    async def greet(self, contacts: Sequence[Endpoint]) -> set[Endpoint]:
        """Make ourselves known to nodes at these addresses and find our neighbourhood; which answered."""
        if self._running is None:
            return set()
        protocol, own = self._running.protocol, self._running.endpoint
        answered: set[Endpoint] = set()

        async def greet_one(contact: Endpoint) -> None:
            reply = await protocol.call(contact, "ping")
            if reply is not None:
                node = Node(reply.node_id, *contact)
                protocol.welcome_if_new(node)
                answered.add(contact)

        async with anyio.create_task_group() as group:
            for contact in dict.fromkeys(contacts):
                if contact != own and parse_ip(contact[0]) is not None:
                    group.start_soon(greet_one, contact)
        if answered:
            await self._nearest(protocol.source_node.id)
        return answered

    async def _nearest(self, point: bytes) -> list[Node]:
        assert self._running is not None
        protocol, node = self._running.protocol, Node(point)
        known = protocol.router.find_neighbors(node, COPIES)
        return await _NodeCrawl(protocol, node, known, COPIES, ALPHA).find()

    async def stop(self) -> None:
        running, self._running = self._running, None
        if running is None:
            return
        running.protocol.abandon_all()
        self._save(running)
        running.transport.close()
        # The transport tells its protocol in the loop's next turn; only then is the socket closed.
        await anyio.lowlevel.checkpoint()

    def _save(self, running: _Running) -> None:
        neighbours = [(node.ip, node.port) for node in running.protocol.router.nodes()][-NEIGHBOURS_KEPT_MAX:]
        if self._settings.state_path is None or not neighbours:
            return
        try:
            write_state(self._settings.state_path, _SavedState(1, neighbours))
        except OSError as error:
            log.warning("overlay neighbours not saved path=%s error=%s", self._settings.state_path, error)

    async def publish(self, record: bytes) -> int:
        facts = self._store.check(record)
        if facts is None:
            # A clock that stepped does this: the record is renewed soon, and no reason to stop the peer.
            log.warning("own record not published: invalid, expired, too long or of an unknown network")
            return 0
        if self._running is None:
            return 0
        protocol = self._running.protocol
        await protocol.do_chores()
        key = shard_key(facts.network, shard_of(facts.first_position))
        self._store.offer(key, record)
        copies = 0

        async def store_at(node: Node) -> None:
            nonlocal copies
            _, is_stored = await protocol.call_store(node, key, record)
            copies += is_stored

        nearest = await self._nearest(key)
        async with anyio.create_task_group() as group:
            for node in nearest:
                group.start_soon(store_at, node)
        return copies

    async def find(self) -> list[bytes]:
        await self._greet_unmet()
        if self._running is None:
            return []
        await self._running.protocol.do_chores()
        best: dict[bytes, tuple[PublishedRecord, bytes]] = {}
        for shard in self._chance.sample(range(SHARDS), self._settings.shards_read):
            for record in sorted(await self._read(shard_key(self._settings.network, shard))):
                facts = self._store.check(record)
                if facts is None or facts.network != self._settings.network:
                    continue
                known = best.get(facts.peer_id)
                if known is None or known[0].incarnation < facts.incarnation:
                    best[facts.peer_id] = (facts, record)
        return [record for _, record in best.values()][:FOUND_MAX]

    async def _read(self, key: bytes) -> set[bytes]:
        if self._running is None:
            return set()
        protocol, node = self._running.protocol, Node(key)
        known = protocol.router.find_neighbors(node, COPIES)
        found = await _RecordCrawl(protocol, node, known, COPIES, ALPHA).find()
        return found | set(self._store.records(key))
