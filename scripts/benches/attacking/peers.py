"""Peers that lie at length: strangers with links, listings without end, datagrams of anything."""

import asyncio
import os
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from functools import partial

import anyio
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from crawler.core.link import Link, LinkKind
from crawler.core.urls import URL_CHARS_MAX
from herodotus.copies import wire
from herodotus.core.admission import AdmissionLimits
from herodotus.core.reconciliation import DIGEST_BYTES, directories
from herodotus.crawl.links.walks import SERVICE
from herodotus.crawl.links.wire import BATCH_LINKS_MAX, encode_batch, in_order
from herodotus.peers.calls import CallError, PeerKey, Services
from herodotus.peers.net.answering import AnsweringParts, open_answering
from herodotus.peers.net.tls_line import claim_tcp
from scripts.benches.attacking.target import Victim
from tests.herodotus.peers.net.peers import Known

ATTACK_S = 30.0
STRANGERS = 100


def batch(number: int) -> bytes:
    links = [
        Link(
            f"http://h{number}-{n % 500}.example/{'p' * (URL_CHARS_MAX - 64)}/{n}",
            LinkKind.PAGE,
            0,
            False,
            False,
            "",
            0,
        )
        for n in range(BATCH_LINKS_MAX)
    ]
    return encode_batch(in_order(links))


async def links_of_strangers(victim: Victim) -> str:
    taken = refused = 0
    bodies = [batch(number) for number in range(8)]

    async def one(key: Ed25519PrivateKey, number: int) -> None:
        nonlocal taken, refused
        async with victim.calls(key) as calls:
            while True:
                try:
                    await calls.call(
                        victim.contact, SERVICE, bodies[number % len(bodies)], deadline_s=ATTACK_S
                    )
                    taken += 1
                except CallError:
                    refused += 1
                    await anyio.sleep(0.2)
                number += 1

    keys = [victim.key, *(Ed25519PrivateKey.generate() for _ in range(STRANGERS - 1))]
    with anyio.move_on_after(ATTACK_S):
        async with anyio.create_task_group() as tasks:
            for number, key in enumerate(keys):
                tasks.start_soon(one, key, number)
    return f"{taken} batches of {BATCH_LINKS_MAX} links taken, {refused} refused"


async def endless_listings(victim: Victim) -> str:
    """The victim compares its catalogue with a neighbour, every ten seconds in a laboratory."""
    sent = 0

    async def endless(kind: str, peer: PeerKey, body: bytes) -> AsyncGenerator[bytes]:
        nonlocal sent
        if kind == wire.CELLS:
            yield wire.encode_count(1 << 20)
        noise = os.urandom(1 << 16)
        while True:
            sent += len(noise)
            yield noise

    async def root(peer: PeerKey, body: bytes) -> bytes:
        return wire.encode_root(wire.RootAnswer(root=os.urandom(DIGEST_BYTES), is_holder=True))

    async def tops(peer: PeerKey, body: bytes) -> bytes:
        scope = wire.decode_scope(body).scope
        return os.urandom(len(directories(scope)) * DIGEST_BYTES)

    services = Services(
        calls={wire.ROOT: root, wire.TOPS: tops},
        streams={kind: partial(endless, kind) for kind in (wire.CELLS, wire.MEMBERS, wire.TAKE)},
    )
    parts = AnsweringParts(
        own_key=victim.key.public_key().public_bytes_raw(),
        network=victim.network,
        acquaintance=Known(record=b""),
        services=services,
        limits=AdmissionLimits(),
        idle_s=60.0,
        entropy=os.urandom,
    )
    port = claim_tcp("127.0.0.1", int(victim.attacker.peer.rpartition(":")[2]), victim.key)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(open_answering(parts, port))
        await anyio.sleep(ATTACK_S)
    return f"{sent / 1e6:,.0f} MB of listings sent"


async def datagrams(victim: Victim) -> str:
    """Of noise, and of what begins as a greeting, from a hundred addresses of this machine."""
    sent = 0
    sockets = []
    for number in range(STRANGERS):
        one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        one.setblocking(False)
        one.bind((f"127.0.{10 + number}.1", 0))
        sockets.append(one)
    end = asyncio.get_running_loop().time() + ATTACK_S
    noise = [os.urandom(1_200) for _ in range(64)]
    while asyncio.get_running_loop().time() < end:
        for number, one in enumerate(sockets):
            for kind in range(8):
                with suppress(OSError):
                    data = bytes((kind,)) + victim.network + noise[(number + kind) % 64]
                    sent += one.sendto(data[:1_200], ("127.0.0.1", victim.port))
        await asyncio.sleep(0.001)
    for one in sockets:
        one.close()
    return f"{sent / 1e6:,.0f} MB of datagrams"


ATTACKS: dict[str, Callable[[Victim], Awaitable[str]]] = {
    "links of 100 strangers": links_of_strangers,
    "listings without end": endless_listings,
    "datagrams of anything": datagrams,
}
