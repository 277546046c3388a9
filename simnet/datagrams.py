"""How do a ring node's datagrams travel in a world? `dht.udp` as it is, over a socket that the world answers for."""

import socket
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from dht.endpoint import SessionEndpoint as RingEndpoint
from dht.transport import OnEvent, OnMessages
from dht.udp import DatagramSocket, UdpTransport
from simnet.host import SimulatedPort
from simnet.world.network import Address


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
    ring: RingEndpoint,
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
