"""How is another peer asked for its answer? Over its HTTP port, within bounds of time, size and number.

What comes back is a stranger's word; the asker decides what of it is passed on (`relayed_answers.py`).
"""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus

import aiohttp
import anyio
from yarl import URL

from crawler.ports import ConnectionRoom, FreeSlot
from herodotus.portal.answer import Answer, Request
from herodotus.portal.other_holders import RELAYED, PortalAddress

logger = logging.getLogger(__name__)

ANSWER_S = 10.0
CONNECT_S = 2.0
BODY_BYTES_MAX = 32 * 1024 * 1024
HELD_BYTES_MAX = 64 * 1024 * 1024
"""Of all answers that are coming in; one that would be more is given up."""
AT_ONCE = 16
AT_ONCE_OF_ONE = 4
"""A peer that says nothing holds so many, and leaves the others free."""
TURN_S = 2.0
"""A question waits so long for one of those to end; a browser asks for six parts of a page at once."""
HEADERS_SAID = ("accept", "accept-datetime", "range", RELAYED)


@dataclass(slots=True)
class _Turns:
    """At one peer; forgotten when nobody asks it."""

    room: anyio.Semaphore = field(default_factory=lambda: anyio.Semaphore(AT_ONCE_OF_ONE))
    users: int = 0


class HttpRelay:
    """Open inside `opened`; before and after it nobody is asked."""

    def __init__(
        self,
        *,
        body_bytes_max: int = BODY_BYTES_MAX,
        at_once: int = AT_ONCE,
        room: ConnectionRoom | None = None,
    ) -> None:
        """`room` for its connections, each of which then closes after its answer; without one they are kept."""
        self._connections = room
        self._session: aiohttp.ClientSession | None = None
        self._body_bytes_max = body_bytes_max
        self.held_bytes = 0
        self._room = anyio.Semaphore(at_once)
        self._turns: dict[str, _Turns] = {}

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        timeout = aiohttp.ClientTimeout(total=ANSWER_S, sock_connect=CONNECT_S)
        jar = aiohttp.DummyCookieJar()
        # Kept ones would take room that is counted, and nobody hears when they close.
        connector = aiohttp.TCPConnector(force_close=self._connections is not None)
        async with aiohttp.ClientSession(
            timeout=timeout, cookie_jar=jar, auto_decompress=False, connector=connector
        ) as session:
            self._session = session
            try:
                yield
            finally:
                self._session = None

    async def fetch(self, place: PortalAddress, request: Request) -> Answer | None:
        if self._session is None:
            return None
        turns = self._turns.setdefault(place.origin, _Turns())
        turns.users += 1
        has_turn = False
        try:
            with anyio.move_on_after(TURN_S):
                await turns.room.acquire()
                has_turn = True
            return await self._fetched(place, request) if has_turn else None
        finally:
            if has_turn:
                turns.room.release()
            turns.users -= 1
            if not turns.users:
                del self._turns[place.origin]

    async def _fetched(self, place: PortalAddress, request: Request) -> Answer | None:
        if self._session is None:
            return None
        headers = {name: request.header(name) for name in HEADERS_SAID if request.header(name)}
        headers["accept-encoding"] = request.header("accept-encoding") or "identity"
        address = URL(place.origin + request.target, encoded=True)
        async with self._room, self._with_room():
            try:
                async with self._session.request(
                    request.method, address, headers=headers, allow_redirects=False
                ) as response:
                    body = await self._body(response)
                    return None if body is None else _answer(response, body)
            except (TimeoutError, aiohttp.ClientError, ValueError) as error:
                logger.debug("no relay peer=%s error=%s", place.origin, type(error).__name__)
                return None

    @asynccontextmanager
    async def _with_room(self) -> AsyncIterator[None]:
        slot = FreeSlot() if self._connections is None else await self._connections.enter()
        try:
            yield
        finally:
            slot.leave()

    async def _body(self, response: aiohttp.ClientResponse) -> bytes | None:
        parts: list[bytes] = []
        size = 0
        try:
            async for part in response.content.iter_any():
                parts.append(part)
                size += len(part)
                self.held_bytes += len(part)
                if size > self._body_bytes_max or self.held_bytes > HELD_BYTES_MAX:
                    return None
            return b"".join(parts)
        finally:
            self.held_bytes -= size


def _answer(response: aiohttp.ClientResponse, body: bytes) -> Answer | None:
    try:
        status = HTTPStatus(response.status)
    except ValueError:
        return None
    fields = list(response.headers.items())
    return Answer(
        status=status,
        content_type=", ".join(response.headers.getall("Content-Type", [])),
        body=body,
        headers={name: value for name, value in fields if not name.startswith("X-Archive-Orig-")},
        repeated=tuple(pair for pair in fields if pair[0].startswith("X-Archive-Orig-")),
    )
