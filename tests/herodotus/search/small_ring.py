"""Peers that hold an archive and an index each, and ask each other: everything but the sockets between them."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import anyio

from dht import Contact
from dht.core.arcs import Arcs
from dht.core.holders import Table
from dht.core.ids import Key, PeerKey, key_of
from dht.core.placement import Rule
from dht.core.records import Address
from herodotus.core.captures import Deposit, position_of
from herodotus.core.ports import Lane
from herodotus.core.search.answers import After, Results
from herodotus.core.search.cover import PLACE_BYTES, indexed_by
from herodotus.core.search.grammar import parse
from herodotus.core.settings.sections import SearchSettings
from herodotus.peers.calls import CALL_DEADLINE_S, PeerUnreachableError
from herodotus.search.ring_search import RingParts, RingSearch
from herodotus.search.services import SearchServices, ServiceParts
from herodotus.store import Catalogue
from herodotus.store.catalogue import ArchiveCatalogue
from tests.herodotus.search.indexing import Bench
from tests.herodotus.store.making import store

COPIES = 6
POSITIONS = 4
T = TypeVar("T")
Answering = Callable[[str, bytes], Awaitable[bytes]]


@dataclass(frozen=True)
class Sight:
    me: bytes
    table: Table
    contacts: Mapping[PeerKey, Contact]
    absent: Mapping[PeerKey, float] = field(default_factory=dict)


class InPlace:
    """Jobs run at once, in the loop."""

    has_threads = False

    def steady_s(self) -> float:
        return 0.0

    async def work(self, job: Callable[[], T], lane: Lane) -> T:
        del lane
        await anyio.lowlevel.checkpoint()
        return job()


@dataclass
class Calls:
    """One peer's way to the others."""

    ring: "SmallRing"
    me: PeerKey

    async def call(
        self, to: Contact, service: str, body: bytes, *, deadline_s: float = CALL_DEADLINE_S
    ) -> bytes:
        self.ring.carried.append((service, to.peer, len(body)))
        with anyio.move_on_after(deadline_s):
            await anyio.sleep(self.ring.travel_s())
            answer = await self._answer(to.peer, service, body)
            self.ring.carried.append((service, self.me, len(answer)))
            return answer
        raise PeerUnreachableError("silent")

    async def _answer(self, peer: PeerKey, service: str, body: bytes) -> bytes:
        odd = self.ring.odd.get(peer)
        if odd is not None:
            return await odd(service, body)
        return await self.ring.peers[peer].services.services.calls[service](self.me, body)


async def dead(service: str, body: bytes) -> bytes:
    raise PeerUnreachableError("dead")


@dataclass
class Shelf:
    peer: "SmallPeer"

    async def ask(self, work: Callable[[Catalogue], T]) -> T:
        await anyio.lowlevel.checkpoint()
        return work(self.peer.catalogue)

    def shows(self, url: str) -> bool:
        return url not in self.peer.removed


class SmallPeer:
    def __init__(self, ring: "SmallRing", key: PeerKey, folder: Path, settings: SearchSettings) -> None:
        self.ring, self.key = ring, key
        self.bench = Bench(folder)
        self.catalogue = ArchiveCatalogue(self.bench.archive)
        self.settings = settings
        self.begin()

    def begin(self) -> None:
        """As after a restart."""
        ring, key = self.ring, self.key
        self.removed: set[str] = set()
        self.processor_s: Callable[[], float] = lambda: 0.0
        self.friends: set[bytes] = {*ring.contacts}
        self.services = SearchServices(
            ServiceParts(
                words=lambda: self.bench.words,
                indexed=self._indexed,
                is_member=self._knows,
                catalogue=lambda: self.catalogue,
                workers=InPlace(),
                processor_s=self._spent_s,
            )
        )
        self.search = RingSearch(
            RingParts(
                words=lambda: self.bench.words,
                indexed=self._indexed,
                sight=lambda: ring.sight(key),
                calls=lambda: Calls(ring, key),
                shelf=Shelf(self),
                settings=self.settings,
                unix_s=lambda: float(ring.now_s),
            )
        )

    def _indexed(self) -> Arcs:
        return self.ring.table.arcs(self.key).coarse(PLACE_BYTES) & self.bench.words.answered

    def follow(self, steps: int | None = None) -> None:
        """As its follower does, so far."""
        wanted = indexed_by(self.ring.table, self.key, self.settings.copies)
        if wanted is not None:
            self.bench.writer.follow_ring(wanted, self.ring.now_s)
        self.bench.catch_up(steps)

    def _knows(self, peer: bytes) -> bool:
        return peer in self.friends

    def _spent_s(self) -> float:
        return self.processor_s()

    async def ask(
        self, text: str, *, limit: int = 100, after: After | None = None, section: int = 0
    ) -> Results:
        question = parse(text, self.ring.now_s)
        return await self.search.ask(question, limit=limit, after=after, section=section)


class SmallRing:
    """`odd` peers answer in a way of their own; `absent` ones are known to be away."""

    def __init__(self, folder: Path, count: int, now_s: int, *, patience_s: float = 1.0) -> None:
        self.now_s = now_s
        contacts = [
            Contact(
                peer=PeerKey(bytes([1 + number]) * 32),
                address=Address(host=bytes((10, 0, 0, number)), port=1),
                slot=0,
                index=index,
                position=key_of(bytes((number, index))),
            )
            for number in range(count)
            for index in range(POSITIONS)
        ]
        self.all = contacts
        self.table = Table(contacts, Rule(COPIES))
        self.deposits: list[Deposit] = []
        self.contacts = {contact.peer: contact for contact in contacts}
        self.odd: dict[PeerKey, Answering] = {}
        self.absent: dict[PeerKey, float] = {}
        self.travel_s: Callable[[], float] = lambda: 0.0
        """Of a question and its answer together."""
        self.carried: list[tuple[str, PeerKey, int]] = []
        """Service, to whom, and how many bytes."""
        settings = SearchSettings(patience_s=patience_s)
        self.peers = {
            key: SmallPeer(self, key, folder / str(number), settings)
            for number, key in enumerate(sorted(self.contacts))
        }

    def begin(self) -> None:
        self.odd.clear()
        self.absent.clear()
        self.carried.clear()
        for peer in self.peers.values():
            peer.begin()

    def sight(self, me: PeerKey) -> Sight:
        return Sight(me, self.table, self.contacts, self.absent)

    def holders(self, url: str) -> Sequence[SmallPeer]:
        return [self.peers[contact.peer] for contact in self.table.of(Key(position_of(url)))]

    def put(self, deposits: Iterable[Deposit]) -> None:
        """At all their holders, of whom the first index them."""
        of_peer: dict[PeerKey, list[Deposit]] = {}
        for deposit in deposits:
            self.deposits.append(deposit)
            for peer in self.holders(deposit.capture.url):
                of_peer.setdefault(peer.key, []).append(deposit)
        for key, some in of_peer.items():
            store(self.peers[key].bench.archive, *some)
            self.peers[key].follow()

    def without(self, *gone: PeerKey) -> None:
        """These left, all others are there; who became a holder has its copies, and its index follows later."""
        self.table = Table([one for one in self.all if one.peer not in gone], Rule(COPIES))
        self.odd = dict.fromkeys(gone, dead)
        for deposit in self.deposits:
            for peer in self.holders(deposit.capture.url):
                store(peer.bench.archive, deposit)

    def close(self) -> None:
        for peer in self.peers.values():
            peer.bench.close()
