"""Copies that unpack to much: put, or announced and then fetched by the victim."""

import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from time import time

import anyio
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from herodotus.copies import wire
from herodotus.core.admission import AdmissionLimits
from herodotus.core.index_rows import capture_key
from herodotus.core.reconciliation import member_of
from herodotus.core.signatures import signed
from herodotus.peers.calls import CallError, PeerKey, Services
from herodotus.peers.net.answering import AnsweringParts, open_answering
from herodotus.peers.net.tls_line import claim_tcp
from herodotus.store.intake import compress_bundle
from scripts.benches.attacking.target import Victim
from tests.herodotus.peers.net.peers import Known
from tests.herodotus.store.making import page

KEY = Ed25519PrivateKey.from_private_bytes(b"\3" * 32)
MIB = 1 << 20
CONNECTIONS = 4
"""Of one key, by one caller; the victim would take eight."""
ATTACK_S = 40.0


def parcel(name: str, body: bytes) -> tuple[bytes, bytes]:
    """Its member and its bytes."""
    deposit = signed(KEY, page(f"http://attack.example/{name}", int(time()) - 60, body))
    return member_of(capture_key(deposit.id)), b"".join(compress_bundle(deposit, None))


async def put(victim: Victim, batches: list[list[bytes]]) -> str:
    outcomes = failures = 0

    async def one(batch: list[bytes]) -> None:
        nonlocal outcomes, failures
        body = b"".join(frame for one in batch for frame in wire.frames_of(wire.PARCEL, one))
        try:
            outcomes += len(await calls.call(victim.contact, wire.PUT, body, deadline_s=ATTACK_S))
        except CallError:
            failures += 1

    with anyio.move_on_after(ATTACK_S):
        async with victim.calls() as calls, anyio.create_task_group() as tasks:
            for batch in batches:
                tasks.start_soon(one, batch)
    return f"{outcomes} parcels answered, {failures} calls refused"


async def largest_put(victim: Victim) -> str:
    bombs = [parcel(f"largest-{n}", bytes(120 * MIB) + b"%d" % n)[1] for n in range(2 * CONNECTIONS)]
    return await put(victim, [[bomb] for bomb in bombs])


async def medium_put(victim: Victim) -> str:
    bombs = [parcel(f"medium-{n}", bytes(30 * MIB) + b"%d" % n)[1] for n in range(8 * CONNECTIONS)]
    return await put(victim, [bombs[n::CONNECTIONS] for n in range(CONNECTIONS)])


async def light_put(victim: Victim) -> str:
    bombs = [parcel(f"light-{n}", bytes(MIB - 2_000) + b"%d" % n)[1] for n in range(128 * CONNECTIONS)]
    return await put(victim, [bombs[n::CONNECTIONS] for n in range(CONNECTIONS)])


async def fetched(victim: Victim, parcels: dict[bytes, bytes]) -> str:
    """The victim is told to come, and is served what it asks for."""
    sent = 0
    is_over = anyio.Event()

    async def take(peer: PeerKey, body: bytes) -> AsyncGenerator[bytes]:
        nonlocal sent
        for member in wire.decode_members(body):
            for frame in wire.frames_of(wire.PARCEL, parcels[member]):
                sent += len(frame)
                yield frame
        is_over.set()

    parts = AnsweringParts(
        own_key=victim.key.public_key().public_bytes_raw(),
        network=victim.network,
        acquaintance=Known(record=b""),
        services=Services(streams={wire.TAKE: take}),
        limits=AdmissionLimits(),
        idle_s=60.0,
        entropy=os.urandom,
    )
    port = claim_tcp("127.0.0.1", int(victim.attacker.peer.rpartition(":")[2]), victim.key)
    async with victim.calls() as calls, open_answering(parts, port):
        await calls.call(victim.contact, wire.COME, wire.encode_list(list(parcels)), deadline_s=20.0)
        with anyio.move_on_after(ATTACK_S):
            await is_over.wait()
            await anyio.sleep(5.0)
    return f"{sent / 1e6:,.0f} MB fetched"


async def largest_fetched(victim: Victim) -> str:
    return await fetched(victim, dict(parcel(f"come-{n}", os.urandom(120 * MIB)) for n in range(2)))


async def bombs_fetched(victim: Victim) -> str:
    return await fetched(victim, dict(parcel(f"bomb-{n}", bytes(120 * MIB) + b"%d" % n) for n in range(8)))


ATTACKS: dict[str, Callable[[Victim], Awaitable[str]]] = {
    "parcels put, 120 MiB unpacked each": largest_put,
    "parcels put, 30 MiB unpacked each": medium_put,
    "parcels put, 1 MiB unpacked each": light_put,
    "parcels fetched, 120 MiB that do not pack": largest_fetched,
    "parcels fetched, 120 MiB unpacked each": bombs_fetched,
}
