"""Real overlay nodes on loopback, each in a /16 of its own (127.1.0.1, 127.2.0.1, ...), and a stranger's
socket.
"""

import random
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from dht.discovery.kademlia_rendezvous import KademliaRendezvous, KademliaSettings
from tests.dht.discovery.records import NETWORK, validate, wall_clock


def overlay_node(
    number: int,
    contacts: Sequence[tuple[str, int]] = (),
    *,
    state_path: Path | None = None,
    port: int = 0,
    shards_read: int = 16,
    requests_per_s: float = 2000.0,
) -> KademliaRendezvous:
    settings = KademliaSettings(
        network=NETWORK,
        listen_host=f"127.{number}.0.1",
        listen_port=port,
        contacts=contacts,
        state_path=state_path,
        shards_read=shards_read,
        requests_per_s=requests_per_s,
        reply_timeout_s=0.3,
    )
    return KademliaRendezvous(
        settings, validate=validate, wall_clock=wall_clock, chance=random.Random(number)
    )


@asynccontextmanager
async def overlay(count: int) -> AsyncIterator[list[KademliaRendezvous]]:
    nodes: list[KademliaRendezvous] = []
    try:
        for number in range(1, count + 1):
            node = overlay_node(number, [nodes[0].endpoint] if nodes else [])
            await node.start()
            nodes.append(node)
        yield nodes
    finally:
        for node in nodes:
            await node.stop()


def neighbours(node: KademliaRendezvous) -> int:
    assert node._running is not None
    return len(node._running.protocol.router.nodes())


def counts_of(node: KademliaRendezvous) -> Mapping[str, int]:
    assert node._running is not None
    return node._running.protocol.counts


class Stranger:
    """A plain UDP socket that counts every byte it is sent."""

    def __init__(self, host: str = "127.200.0.1") -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setblocking(False)
        self.socket.bind((host, 0))
        self.endpoint: tuple[str, int] = self.socket.getsockname()

    def __enter__(self) -> "Stranger":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes, to: tuple[str, int]) -> None:
        self.socket.sendto(data, to)

    async def receive(self, timeout_s: float = 30.0) -> bytes:
        with anyio.fail_after(timeout_s):
            await anyio.wait_readable(self.socket)
        return self.socket.recv(65536)

    async def receive_all(self, quiet_s: float = 0.15) -> list[bytes]:
        """Everything until nothing has come for a while."""
        received: list[bytes] = []
        while True:
            with anyio.move_on_after(quiet_s) as scope:
                await anyio.wait_readable(self.socket)
            if scope.cancelled_caught:
                return received
            received.append(self.socket.recv(65536))
