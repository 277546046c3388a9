"""How does a peer call itself? Like any other, but without a wire: this peer may itself be a holder."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from herodotus.peers.calls import PeerKey, PeerUnreachableError, RefusedError, Services

CLOSE_S = 5.0


@asynccontextmanager
async def closed_at_once(pieces: AsyncIterator[bytes]) -> AsyncIterator[AsyncIterator[bytes]]:
    """Close a generator at once, even if it was not read to its end."""
    try:
        yield pieces
    finally:
        close = getattr(pieces, "aclose", None)
        if close is not None:
            with anyio.move_on_after(CLOSE_S, shield=True):
                await close()


class OwnCalls:
    def __init__(self, own_key: PeerKey, services: Services | None = None) -> None:
        self._own_key = own_key
        self._services = services or Services()

    async def call(self, service: str, body: bytes, *, deadline_s: float) -> bytes:
        handler = self._services.calls.get(service)
        if handler is None:
            raise RefusedError("service")
        try:
            with anyio.fail_after(deadline_s):
                return await handler(self._own_key, body)
        except TimeoutError as error:
            raise PeerUnreachableError("deadline") from error

    @asynccontextmanager
    async def stream(self, service: str, body: bytes) -> AsyncIterator[AsyncIterator[bytes]]:
        handler = self._services.streams.get(service)
        if handler is None:
            raise RefusedError("service")
        async with closed_at_once(handler(self._own_key, body)) as pieces:
            yield pieces
