"""Peers that keep copies, without sockets: the real `Copies` and stores in memory, on a ring that is an oracle.

Calls go straight to the other peer's handlers, after a while and only while both are up and on the same side of a
split. Time is trio's mock clock.
"""

import hashlib
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Iterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import cast

import anyio
import anyio.abc
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dht import Contact, EventsLost, Subscription
from dht.core.holders import Table
from dht.core.ids import Key, PeerKey
from dht.core.placement import Rule
from dht.core.places import BY_PEER, PlaceRules, Standing
from dht.core.records import Address
from herodotus.copies.copies import Copies
from herodotus.copies.doors import DoorRules, Doors
from herodotus.copies.shared_state import Parts, View
from herodotus.core.captures import CaptureId
from herodotus.core.copies.possession import EachItsOwn, Standings
from herodotus.core.copies.tenure import Tenure
from herodotus.core.doors import Quotas
from herodotus.core.index_rows import CAPTURE, after
from herodotus.core.settings.sections import CopiesSettings
from herodotus.core.signatures import signed
from herodotus.peers.calls import Calls, PeerUnreachableError, Services
from herodotus.store.holdings import ArchiveHoldings
from simnet.host import TrioCarrier, run_world
from tests.herodotus.store.making import NOW_S, page
from tests.herodotus.store.memory_store import AtOnce, MemoryStore

LATENCY_S = 0.05
DAY_S = 86_400.0
SETTINGS = CopiesSettings(
    compare_s=600.0,
    departed_s=600.0,
    low_s=60.0,
    keep_s=30.0,
    full_share=0.0,
    let_go_share=1.0,
    promise_s=1_800.0,
    audit_s=1_500.0,
)
Tamper = Callable[[str, bytes], bytes]
"""What a lying peer makes of what it should have answered."""


NETWORK = b"networkk"


def steward_key(host: str) -> Key:
    return Key(hashlib.sha1(host.encode(), usedforsecurity=False).digest())


def key_number(number: int) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(b"peer %d" % number).digest())


def contact_of(key: Ed25519PrivateKey, seat: int) -> Contact:
    address = Address(host=bytes((127, 0, 0, 1)), port=4_000 + seat)
    return Contact.at(PeerKey(key.public_key().public_bytes_raw()), address, 0, 0, "off")


@dataclass
class Peer:
    number: int
    net: "Net"
    key: Ed25519PrivateKey
    contact: Contact
    store: MemoryStore
    copies: Copies
    is_up: bool = False
    is_in_ring: bool = False
    side: int = 0
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    subscriptions: list[Subscription] = field(default_factory=list)
    tamper: Tamper | None = None
    stalls: Collection[str] = ()
    """Streams that never end, once they began."""
    lost: tuple[float, Collection[bytes]] = (0.0, ())
    tenure: Tenure = field(default_factory=Tenure)

    @property
    def me(self) -> bytes:
        return self.contact.peer

    def ids(self) -> set[bytes]:
        index = self.store.archive.index
        return {key[1:] for key, _ in index.scan(CAPTURE, after(CAPTURE))}

    def positions(self) -> tuple[Contact, ...]:
        return self.net.seen_by(self)

    def standings(self) -> dict[PeerKey, Standing]:
        return {} if self.net.rule.is_plain else self.net.standings()

    @contextmanager
    def events(self) -> Iterator[Subscription]:
        subscription = Subscription()
        self.subscriptions.append(subscription)
        try:
            yield subscription
        finally:
            self.subscriptions.remove(subscription)


class Wires:
    """`Calls` of one peer."""

    def __init__(self, net: "Net", me: Peer) -> None:
        self._net, self._me = net, me

    def _services(self, to: Contact) -> tuple[Peer, Services]:
        peer = self._net.by_key.get(to.peer)
        if peer is None or not peer.is_up or not self._me.is_up or peer.side != self._me.side:
            raise PeerUnreachableError
        return peer, peer.copies.services()

    async def call(self, to: Contact, service: str, body: bytes, *, deadline_s: float = 30.0) -> bytes:
        await anyio.sleep(LATENCY_S)
        peer, services = self._services(to)
        with anyio.move_on_after(deadline_s):
            answer = await services.calls[service](self._me.me, body)
            await anyio.sleep(LATENCY_S)
            self._services(to)
            self._net.count(service, len(body) + len(answer))
            return answer if peer.tamper is None else peer.tamper(service, answer)
        raise PeerUnreachableError

    def stream(
        self, to: Contact, service: str, body: bytes
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._stream(to, service, body)

    @asynccontextmanager
    async def _stream(self, to: Contact, service: str, body: bytes) -> AsyncIterator[AsyncIterator[bytes]]:
        await anyio.sleep(LATENCY_S)
        peer, services = self._services(to)
        pieces = cast("AsyncGenerator[bytes]", services.streams[service](self._me.me, body))
        self._net.count(service, len(body))

        async def read() -> AsyncGenerator[bytes]:
            async for piece in pieces:
                await anyio.sleep(LATENCY_S / 10)
                self._services(to)
                self._net.count(service, len(piece))
                yield piece if peer.tamper is None else peer.tamper(service, piece)
                if service in peer.stalls:
                    await anyio.sleep_forever()

        async with aclosing(pieces), aclosing(read()) as reading:
            yield reading


class Net:
    def __init__(
        self, tasks: anyio.abc.TaskGroup, *, seed: int = 0, copies: int = 6, places: PlaceRules = BY_PEER
    ) -> None:
        self.tasks, self.copies, self.places = tasks, copies, places
        self.random = random.Random(seed)
        self.by_key: dict[bytes, Peer] = {}
        self.peers: list[Peer] = []
        self.bytes: dict[str, int] = {}
        self.settings = SETTINGS
        self.spreads_imports = True
        self.began = anyio.current_time()
        self.began_s = float(NOW_S) + 4 * DAY_S
        """By the peers' clocks: pages of these days are none of the future."""
        self.clock_off_s: dict[int, float] = {}
        self.quota_bytes = 1 << 40
        self.young: set[bytes] = set()
        self.place_of: dict[bytes, bytes] = {}
        """Of those that are not a place of their own."""

        self.known: Standings = EachItsOwn()
        self.known_days: dict[bytes, int] = {}
        self.known_days_else = 0
        """As each peer has observed all others, and itself."""
        self.founded_s: float | None = None

    @property
    def rule(self) -> Rule:
        return Rule(self.copies, self.places)

    def wall_s(self, peer: Peer) -> float:
        passed_s = anyio.current_time() - self.began
        return self.began_s + passed_s + self.clock_off_s.get(peer.number, 0.0)

    def standings(self) -> dict[PeerKey, Standing]:
        return {
            one.contact.peer: Standing(
                place := self.place_of.get(one.me, one.me), place, one.me not in self.young
            )
            for one in self.peers
            if one.is_up or one.is_in_ring
        }

    def count(self, service: str, size: int) -> None:
        self.bytes[service] = self.bytes.get(service, 0) + size

    def seen_by(self, peer: Peer) -> tuple[Contact, ...]:
        there = [one.contact for one in self.peers if one.is_in_ring and one.side == peer.side]
        return tuple(sorted(there, key=lambda contact: contact.position))

    def tell(self) -> None:
        """The ring changed; everybody looks."""
        for peer in self.peers:
            for subscription in peer.subscriptions:
                subscription.put(EventsLost())

    def add(self, store: MemoryStore | None = None, *, seat: int | None = None) -> Peer:
        """Where it sits follows from its number, or from another one."""
        number = len(self.peers)
        key = key_number(number)
        contact = contact_of(key, number if seat is None else seat)
        peer = Peer(number, self, key, contact, store or new_store(), cast("Copies", None))
        self.peers.append(peer)
        self.by_key[contact.peer] = peer
        return peer

    async def start(self, peer: Peer) -> None:
        async def opened() -> None:
            await anyio.lowlevel.checkpoint()

        parts = Parts(
            view=View(me=peer.me, table=Table((), self.rule)),
            holdings=lambda: ArchiveHoldings(peer.store),
            calls=lambda: cast("Calls", Wires(self, peer)),
            sign=partial(signed, peer.key),
            random=random.Random(self.random.random()),
            now=anyio.current_time,
            workers=AtOnce(),
            doors=Doors(
                DoorRules(
                    wall_s=lambda: self.wall_s(peer),
                    spreads_imports=self.spreads_imports,
                    quotas=Quotas(
                        self.quota_bytes, lambda signer: parts.states.proven_bytes(signer, parts.now())
                    ),
                    standings=self.standings,
                    network=NETWORK,
                    steward_key=steward_key,
                    tenure=peer.tenure,
                    age_days=lambda one: self.known_days.get(one, self.known_days_else),
                    founded_s=self.founded_s,
                )
            ),
            standings=lambda: self.known,
        )
        peer.copies = Copies(parts, self.settings, ring=lambda: peer, archive_opened=opened)
        peer.is_up = peer.is_in_ring = True
        peer.scope = anyio.CancelScope()
        await self.tasks.start(self._run, peer)
        self.tell()

    async def _run(self, peer: Peer, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        with peer.scope:
            async with peer.copies.opened():
                task_status.started()
                await anyio.sleep_forever()

    def crash(self, peer: Peer, *, loses_disk: bool = False) -> None:
        peer.scope.cancel()
        peer.is_up = peer.is_in_ring = False
        if loses_disk:
            peer.lost = anyio.current_time(), peer.ids()
            peer.store = new_store()
        self.tell()

    def split(self, sides: dict[int, int]) -> None:
        for number, side in sides.items():
            self.peers[number].side = side
        self.tell()

    def heal(self) -> None:
        self.split({peer.number: 0 for peer in self.peers})

    def table(self) -> Table:
        there = [peer.contact for peer in self.peers if peer.is_in_ring]
        return Table(there, self.rule, standings={} if self.rule.is_plain else self.standings())

    def holders(self, key: bytes) -> list[PeerKey]:
        """Of a capture."""
        return [contact.peer for contact in self.table().of(Key(key[:12]))]

    def copies_of(self, key: bytes) -> set[int]:
        return {peer.number for peer in self.peers if peer.is_up and key in peer.ids()}

    def wrong(self, keys: set[bytes]) -> list[str]:
        """Where the captures are not with just those who must have them."""
        table, found = self.table(), []
        held = {peer.number: peer.ids() for peer in self.peers if peer.is_up}
        for key in sorted(keys):
            wanted = {self.by_key[one.peer].number for one in table.of(Key(key[:12]))}
            there = {number for number, ids in held.items() if key in ids}
            if there != wanted:
                found.append(f"{key.hex()[:8]} is with {sorted(there)}, not {sorted(wanted)}")
        return found

    async def settle(self, keys: set[bytes], *, within_s: float) -> None:
        with anyio.move_on_after(within_s):
            while self.wrong(keys):  # noqa: ASYNC110  # what peers hold in virtual time tells nobody
                await anyio.sleep(5)
        assert not self.wrong(keys), self.wrong(keys)[:5]


def in_world(
    play: Callable[[Net], Awaitable[None]], *, seed: int = 1, copies: int = 6, places: PlaceRules = BY_PEER
) -> None:
    """Plays in a world of its own, which ends with it."""

    async def main(_: TrioCarrier) -> None:
        async with anyio.create_task_group() as tasks:
            await play(Net(tasks, seed=seed, copies=copies, places=places))
            tasks.cancel_scope.cancel()

    run_world(main, seed=seed)


async def ring_of(net: Net, *stores: MemoryStore | None) -> None:
    """So many peers, each with its store or a new one, that have found each other."""
    for store in stores:
        await net.start(net.add(store))
    await anyio.sleep(60)


def new_store() -> MemoryStore:
    return MemoryStore(lambda: float(NOW_S))


async def deposit(peer: Peer, url: str, *, time_s: int = NOW_S, body: bytes = b"") -> bytes:
    stored = await peer.store.store(page(url, time_s, body or url.encode() * 20))
    return key_of(stored.id)


def key_of(id_: CaptureId) -> bytes:
    return id_.key[:12] + id_.time_s.to_bytes(4, "big") + id_.digest[:3]
