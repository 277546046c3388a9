"""A recording relay between real sockets: what a listener on the wire between peers would see.

Each peer listens at a private address and tells others a public one, which is the relay's. The relay passes every
datagram on from its sender's public address, so that the peers never notice, and keeps a copy.
"""

import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
import trio

from dht import udp
from dht.core.frames import DATAGRAM_BYTES_MAX

SocketAddress = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    source: str
    target: str
    data: bytes


@dataclass(slots=True, kw_only=True)
class Relay:
    """`seen` are all datagrams between named peers, in order."""

    public: Mapping[str, SocketAddress]
    private: Mapping[str, SocketAddress]
    seen: list[Seen] = field(default_factory=list)


async def _pass_on(relay: Relay, name: str, sockets: Mapping[str, socket.socket]) -> None:
    names = {address: other for other, address in relay.private.items()}
    while True:
        await trio.lowlevel.wait_readable(sockets[name])
        data, source = sockets[name].recvfrom(DATAGRAM_BYTES_MAX + 1)
        sender = names.get(source)
        if sender is not None:
            relay.seen.append(Seen(source=sender, target=name, data=data))
            sockets[sender].sendto(data, relay.private[name])


@asynccontextmanager
async def relayed(*names: str) -> AsyncIterator[Relay]:
    """A relay for these peers, with free addresses for each of them."""
    listening = {name: udp.bind(("127.0.0.1", 0)) for name in names}
    probes = {name: udp.bind(("127.0.0.1", 0)) for name in names}
    private = {name: probe.getsockname() for name, probe in probes.items()}
    for probe in probes.values():
        probe.close()
    public = {name: sock.getsockname() for name, sock in listening.items()}
    relay = Relay(public=public, private=private)
    try:
        async with anyio.create_task_group() as tasks:
            for name in names:
                tasks.start_soon(_pass_on, relay, name, listening)
            yield relay
            tasks.cancel_scope.cancel()
    finally:
        for sock in listening.values():
            sock.close()
