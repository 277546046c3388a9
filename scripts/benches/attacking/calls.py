"""Connections to the port for calls: without a key, and with questions as long as they may be."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import anyio

from herodotus.peers.calls import CALL_BYTES_MAX, CallError
from scripts.benches.attacking.target import Victim

CONNECTIONS = 500
ATTACK_S = 20.0


async def without_key(victim: Victim) -> str:
    opened: list[asyncio.StreamWriter] = []

    async def one() -> None:
        with suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", victim.port)
            opened.append(writer)
            writer.write(b"\x16\x03\x01\x02\x00\x01" + bytes(500))
            await writer.drain()

    await asyncio.wait([asyncio.ensure_future(one()) for _ in range(CONNECTIONS)], timeout=ATTACK_S)
    await asyncio.sleep(5.0)
    for writer in opened:
        writer.close()
    return f"{len(opened)} connections"


async def long_questions(victim: Victim) -> str:
    """To services that exist and take no such bytes."""
    asked = 0
    services = ("copies/1/root", "copies/1/lacks", "copies/1/put", "links/1/deliver", "leases/1/ask")

    async def one(number: int) -> None:
        nonlocal asked
        while True:
            with suppress(CallError):
                asked += 1
                await calls.call(victim.contact, services[number % len(services)], body, deadline_s=ATTACK_S)

    body = bytes(CALL_BYTES_MAX - 64)
    async with victim.calls() as calls:
        with anyio.move_on_after(ATTACK_S):
            async with anyio.create_task_group() as tasks:
                for number in range(16):
                    tasks.start_soon(one, number)
    return f"{asked} questions of 8 MiB"


ATTACKS: dict[str, Callable[[Victim], Awaitable[str]]] = {
    "calls without a key": without_key,
    "calls of 8 MiB": long_questions,
}
