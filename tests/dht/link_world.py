"""Two or more links in virtual time, and a wire between them that a test may cut, copy or bend."""

import hashlib
import heapq
from collections.abc import Callable
from random import Random

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dht.core.frames import Address
from dht.core.link import LinkEvent, SessionKeeper, SessionOpened
from dht.core.strangers import LinkLimits

NETWORK = bytes.fromhex("00112233aabbccdd")
LATENCY_S = 0.05
Wire = Callable[[bytes, Address, Address, int], list[bytes]]


def key_from(name: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(name.encode()).digest())


def deliver_all(data: bytes, source: Address, target: Address, index: int) -> list[bytes]:
    del source, target, index
    return [data]


class LinkWorld:
    """`received[address]` are payloads with the key that sent them; `log` is every datagram sent."""

    def __init__(self, wire: Wire = deliver_all) -> None:
        self.now = 1_000.0
        self.wire = wire
        self.links: dict[Address, SessionKeeper] = {}
        self.received: dict[Address, list[tuple[bytes, bytes]]] = {}
        self.events: dict[Address, list[LinkEvent]] = {}
        self.log: list[tuple[float, Address, Address, bytes]] = []
        self._queue: list[tuple[float, int, Address, Address, bytes]] = []

    def add(
        self,
        name: str,
        address: Address,
        network: bytes = NETWORK,
        limits: LinkLimits | None = None,
        record: bytes | None = None,
    ) -> SessionKeeper:
        link = SessionKeeper(
            key=key_from(name),
            network=network,
            record=lambda: f"record of {name}".encode() if record is None else record,
            is_record_good=lambda given, _key: given.startswith(b"record of"),
            entropy=Random(f"{name} {address}").randbytes,
            limits=limits,
        )
        self.links[address] = link
        self.received.setdefault(address, [])
        self.events.setdefault(address, [])
        return link

    def inject(self, data: bytes, source: Address, target: Address) -> None:
        heapq.heappush(self._queue, (self.now, len(self.log) + len(self._queue), source, target, data))

    def settle(self, seconds: float = 30.0) -> None:
        """Lets everything happen that happens within this time."""
        end = self.now + seconds
        self._collect()
        while True:
            deadlines = [d for link in self.links.values() if (d := link.next_deadline()) is not None]
            upcoming = min([*deadlines, *(entry[0] for entry in self._queue[:1])], default=end)
            if upcoming >= end:
                break
            self.now = max(self.now, upcoming)
            while self._queue and self._queue[0][0] <= self.now:
                _, _, source, target, data = heapq.heappop(self._queue)
                self._deliver(data, source, target)
            for link in self.links.values():
                link.advance(self.now)
            self._collect()
        self.now = end

    def _deliver(self, data: bytes, source: Address, target: Address) -> None:
        link = self.links.get(target)
        if link is None:
            return
        opened = link.receive(data, source, self.now)
        if opened is not None:
            self.received[target].append((opened[1], opened[0].public_key))

    def _collect(self) -> None:
        for address, link in self.links.items():
            self.events[address].extend(link.events)
            link.events.clear()
            sent, link.outgoing[:] = link.outgoing[:], []
            for data, target in sent:
                self.log.append((self.now, address, target, data))
                for copy in self.wire(data, address, target, len(self.log) - 1):
                    entry = (self.now + LATENCY_S, len(self.log) + len(self._queue), address, target, copy)
                    heapq.heappush(self._queue, entry)

    def payloads(self, address: Address) -> list[bytes]:
        return [payload for payload, _ in self.received[address]]

    def opened(self, address: Address) -> list[SessionOpened]:
        return [event for event in self.events[address] if isinstance(event, SessionOpened)]

    def kinds(self) -> list[int]:
        return [data[1] & 0xF for _, _, _, data in self.log]
