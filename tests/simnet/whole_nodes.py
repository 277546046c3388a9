"""How does the real node live in a world? `dht.node` and `dht.udp` as they are, over a simulated socket.

Only the system calls are replaced: datagrams go through the world's network instead of the kernel, time is
trio's mock clock, keys and entropy come from the host's chance. Handshakes, sessions, rates and the shell's
own tasks run as they do outside.

    nodes = WholeNodes(carrier, rules)
    nodes.add()                          the first one makes the ring
    nodes.add(start_at=5.0)              joins through those before it
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from random import Random

import anyio
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dht.core.frames import Address as SocketAddress
from dht.core.rules import RingRules
from dht.endpoint import SessionEndpoint as RingEndpoint
from dht.endpoint import packed_address
from dht.node import RingNode, open_node
from dht.node_types import NodePorts, NodeSettings
from dht.transport import OnEvent, OnMessages
from dht.udp import UdpTransport
from simnet.host import SimulatedPort, TrioCarrier
from simnet.machines import open_datagrams
from simnet.rings import START_S
from simnet.world.hosts import WorldHost
from simnet.world.network import Address


class WholeNodes:
    """The peers of one ring on the trio carrier."""

    def __init__(self, carrier: TrioCarrier, rules: RingRules) -> None:
        self.carrier, self.rules = carrier, rules
        self.nodes: dict[int, RingNode] = {}  # of the hosts that are up, by number
        self.hosts: list[WorldHost] = []

    def add(self, address: Address, *, start_at: float = 0.0) -> WorldHost:
        host = self.carrier.add_host(self._live, address=address, start_at=start_at)
        self.hosts.append(host)
        return host

    async def _live(self, endpoint: SimulatedPort) -> None:
        rng = Random(endpoint.rng.getrandbits(64))
        identity = Random(f"identity/{self.carrier.world.seed}/{endpoint.number}")  # survives restarts
        settings = NodeSettings(rules=self.rules, address=packed_address(endpoint.local_address))
        ports = NodePorts(
            wall_clock=lambda: endpoint.now() + START_S, random=rng, entropy=Random(rng.random()).randbytes
        )
        key = Ed25519PrivateKey.from_private_bytes(identity.randbytes(32))

        @asynccontextmanager
        async def opened(
            ring: RingEndpoint,
            listen: Sequence[SocketAddress],
            *,
            on_messages: OnMessages,
            on_event: OnEvent,
        ) -> AsyncIterator[UdpTransport]:
            del listen
            async with open_datagrams(
                endpoint, ring, on_messages=on_messages, on_event=on_event
            ) as transport:
                yield transport

        async with open_node(settings, key, ports, [endpoint.local_address], open_transport=opened) as node:
            self.nodes[endpoint.number] = node
            try:
                others = [
                    host.address for host in self.hosts if host.number != endpoint.number and host.boots
                ]
                await node.join([packed_address(address) for address in others])
                await anyio.sleep_forever()
            finally:
                if self.nodes.get(endpoint.number) is node:
                    del self.nodes[endpoint.number]
