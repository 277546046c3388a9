"""How much memory may incoming answers hold? Large ones wait for room before they are read.

A called peer says how long its answer is, and sends it as slowly as it likes. So an answer larger than one piece is
booked before it is read. One peer may hold little more than two of the largest answers. Waiting counts towards the
deadline.
"""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

MIB = 1 << 20
ROOM_BYTES = 64 * MIB
ROOM_BYTES_PER_PEER = 17 * MIB
SMALL_BYTES = 64 << 10
"""Not booked, so that leases and links continue while others fill the memory. 8 MiB for all connections."""


class AnswerRoom:
    def __init__(self, bytes_max: int = ROOM_BYTES, bytes_per_peer: int = ROOM_BYTES_PER_PEER) -> None:
        self._bytes_max, self._bytes_per_peer = bytes_max, bytes_per_peer
        self._bytes = 0
        self._bytes_of: Counter[bytes] = Counter()
        self._freed = anyio.Event()

    @property
    def bytes_held(self) -> int:
        return self._bytes

    @asynccontextmanager
    async def held(self, peer: bytes, size_bytes: int) -> AsyncIterator[None]:
        """Inside, so much may be read from the peer."""
        if size_bytes <= SMALL_BYTES:
            yield
            return
        while not self._has_room(peer, size_bytes):
            await self._freed.wait()
        self._book(peer, size_bytes)
        try:
            yield
        finally:
            self._book(peer, -size_bytes)
            self._freed.set()
            self._freed = anyio.Event()

    def _has_room(self, peer: bytes, size_bytes: int) -> bool:
        of_peer = self._bytes_of[peer] + size_bytes
        return self._bytes + size_bytes <= self._bytes_max and of_peer <= self._bytes_per_peer

    def _book(self, peer: bytes, size_bytes: int) -> None:
        self._bytes += size_bytes
        self._bytes_of[peer] += size_bytes
        if not self._bytes_of[peer]:
            del self._bytes_of[peer]
