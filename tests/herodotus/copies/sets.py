"""Sets of members that compare like archives do, for figures of the protocol alone."""

from bisect import bisect_left
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import cast

import anyio.lowlevel

from dht import Contact
from dht.core.arcs import WHOLE
from herodotus.core.reconciliation import directory_of, leaf_digest, ranges_of
from herodotus.peers.calls import Services
from herodotus.store import Holdings, Stretch

WHOLE_RING = ranges_of(WHOLE)


class MemberSet:
    """As much of an archive's holdings as comparing asks for."""

    stamp = 0

    def __init__(self, members: Iterable[bytes]) -> None:
        self._sorted = sorted(members)
        self._digests: dict[tuple[bytes, bytes | None], dict[int, bytes]] = {}

    def _between(self, low: bytes, high: bytes | None) -> list[bytes]:
        end = len(self._sorted) if high is None else bisect_left(self._sorted, high)
        return self._sorted[bisect_left(self._sorted, low) : end]

    async def members(self, stretches: Sequence[Stretch]) -> list[bytes]:
        await anyio.lowlevel.checkpoint()
        return [member for pair in stretches for member in self._between(*pair)]

    async def digests(self, low: bytes, high: bytes | None) -> dict[int, bytes]:
        await anyio.lowlevel.checkpoint()
        if (low, high) not in self._digests:
            of_directory: dict[int, list[bytes]] = {}
            for member in self._between(low, high):
                of_directory.setdefault(directory_of(member), []).append(member)
            self._digests[low, high] = {number: leaf_digest(some) for number, some in of_directory.items()}
        return self._digests[low, high]

    @property
    def holdings(self) -> Holdings:
        return cast("Holdings", self)


class Straight:
    """Calls that go straight to one peer's handlers, as `sender`; `tamper` changes what it answers."""

    def __init__(
        self,
        services: Services,
        sender: bytes = bytes(32),
        tamper: Callable[[str, bytes], bytes] | None = None,
    ) -> None:
        self._services, self._sender = services, sender
        self._tamper = tamper or (lambda service, answer: answer)
        self.bytes: dict[str, int] = {}

    def _count(self, service: str, size: int) -> None:
        self.bytes[service] = self.bytes.get(service, 0) + size

    async def call(self, to: Contact, service: str, body: bytes, *, deadline_s: float = 30.0) -> bytes:
        del to, deadline_s
        answer = self._tamper(service, await self._services.calls[service](self._sender, body))
        self._count(service, len(body) + len(answer))
        return answer

    def stream(
        self, to: Contact, service: str, body: bytes
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        del to
        return self._stream(service, body)

    @asynccontextmanager
    async def _stream(self, service: str, body: bytes) -> AsyncIterator[AsyncIterator[bytes]]:
        pieces = cast("AsyncGenerator[bytes]", self._services.streams[service](self._sender, body))
        self._count(service, len(body))

        async def read() -> AsyncGenerator[bytes]:
            async for piece in pieces:
                self._count(service, len(piece))
                yield self._tamper(service, piece)

        async with aclosing(pieces), aclosing(read()) as reading:
            yield reading
