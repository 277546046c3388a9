"""How do the portal's answers reach a browser? One aiohttp server: bounded connections, one write an answer."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager, nullcontext, suppress
from dataclasses import replace
from operator import itemgetter
from typing import Any

import anyio
from aiohttp import ClientConnectionResetError, web
from aiohttp.http import HttpVersion11
from aiohttp.http_exceptions import HttpProcessingError

from herodotus.core.admission import Crowds
from herodotus.core.errors import ArchiveError, PortTaken
from herodotus.core.settings.fields import HostPort
from herodotus.core.settings.sections import HttpSettings
from herodotus.portal.answer import BODY_BYTES_MAX, Answer, Passing, Request
from herodotus.portal.answer_cache import Front
from herodotus.portal.client_limits import is_this_machine
from herodotus.portal.handlers import Handlers
from herodotus.portal.http_connection import PACED_BYTES, Entry, HttpConnection, SharedLine

logger = logging.getLogger(__name__)

_BACKLOG = 1_024  # a reader that comes while the loop is busy would wait a second for the next try
_LARGE_BYTES = 256 * 1024  # less waits in the buffers of sockets, and costs no more than the connection does
_OUTGOING_BYTES_MAX = 64 * 1024 * 1024
"""Of large answers that are being sent from memory. A larger one goes alone."""
_NEVER_S = 1e9
_LOOKS_PER_IDLE = 4  # so that silence lasts a quarter longer than it may, at most
_AT_DOOR_MAX = 16
"""More than there are who know the secret: the operator's commands and monitor."""
SLOWEST_BYTES_PER_S = 4_000.0  # a modem's speed


class _Strangers(logging.LoggerAdapter[logging.Logger]):
    """aiohttp reports a malformed request as an error, with traceback; to us it is weather, and counted."""

    malformed = 0

    def log(self, level: int, msg: object, *args: object, exc_info: Any = None, **options: Any) -> None:
        if isinstance(exc_info, HttpProcessingError):
            self.malformed += 1
            super().log(logging.DEBUG, "malformed request reason=%s", type(exc_info).__name__)
        elif isinstance(exc_info, ClientConnectionResetError):  # while the last of an answer was written
            super().log(logging.DEBUG, "a reader left before the answer was whole")
        else:
            super().log(level, msg, *args, exc_info=exc_info, **options)


def _response(answer: Answer) -> web.Response:
    response = web.Response(status=answer.status, body=answer.body, headers=answer.headers)
    _finish_head(response, answer)
    return response


def _finish_head(response: web.StreamResponse, answer: Answer) -> None:
    for name, value in answer.repeated:
        response.headers.add(name, value)
    response.headers["Content-Type"] = answer.content_type


def _writer(
    request: web.Request,
    response: web.StreamResponse,
    visitor: HttpConnection | None,
    patience: anyio.CancelScope,
) -> Callable[[bytes | memoryview], Awaitable[None]]:
    """By turns where the line is shared; waiting for them does not count against the reader."""
    transport = request.transport
    if visitor is None or visitor.line is None or transport is None:
        return response.write
    sock, held = transport.get_extra_info("socket"), transport.get_write_buffer_size
    send = visitor.line.reader(sock, visitor.address, response.write, held)

    async def write(data: bytes | memoryview) -> None:
        patience.deadline += await send(bytes(data))

    return write


class Portal:
    """`claimed` holds the port, `serving` answers on it; `endpoint` is where it listens meanwhile."""

    def __init__(
        self,
        settings: HttpSettings,
        handlers: Handlers,
        front: Front,
        shared: Callable[[str], SharedLine | None] = lambda address: None,
    ) -> None:
        """`shared`: the line by which a reader at this address is answered, if other parts of this peer share it."""
        self._settings = settings
        self._shared = shared
        self._handlers = handlers
        self._front = front
        self._visitors: dict[object, HttpConnection] = {}
        """By the protocol of aiohttp's that each stands before."""
        self._crowds = Crowds(
            per_address=settings.connections_per_address, per_network=settings.connections_per_network
        )
        self._own_visitors = 0
        """From this machine: an operator finds room when strangers hold all of theirs."""
        self._at_door: set[HttpConnection] = set()
        """Beyond those, for the operator alone; also while they are answered."""
        self._watch: asyncio.TimerHandle | None = None
        self._listener: socket.socket | None = None
        self.endpoint = settings.listen
        self._outgoing_bytes = 0
        self.refused = 0
        self.carried = 0, 0
        """In and out by readers' connections that are closed, with headers, but for readers of this machine."""
        self.left = 0
        """Readers who took their answer too slowly."""
        self._strangers = _Strangers(logger)

    @property
    def malformed(self) -> int:
        """Requests that were not HTTP."""
        return self._strangers.malformed

    @property
    def connections(self) -> int:
        return len(self._visitors)

    @property
    def crowd(self) -> str:
        """The address that wants many more connections than it may have, if one does."""
        return self._crowds.worst(anyio.current_time())

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Readers who come wait until `serving`: what else needs the port learns here that it is taken."""
        self._listener = self._listen()
        try:
            yield
        finally:
            self._listener.close()
            self._listener = None

    @asynccontextmanager
    async def serving(self, stop_s: float) -> AsyncIterator[None]:
        """Leaving waits up to `stop_s` for answers under way."""
        with self.claimed() if self._listener is None else nullcontext():
            assert self._listener is not None
            async with self._answering(self._listener, stop_s):
                yield

    @asynccontextmanager
    async def _answering(self, listener: socket.socket, stop_s: float) -> AsyncIterator[None]:
        application = web.Application(client_max_size=1_000_000)
        application.router.add_route("*", r"/{path:[\s\S]*}", self._handle)  # an escaped line end, too
        runner = web.AppRunner(
            application,
            handle_signals=False,
            access_log=None,
            logger=self._strangers,
            keepalive_timeout=_NEVER_S,  # it does not see what the answer cache answers: silence is watched here
            shutdown_timeout=stop_s,
            handler_cancellation=True,
        )
        await runner.setup()
        try:
            answering = runner.server
            assert answering is not None
            server = await asyncio.get_running_loop().create_server(
                lambda: self._new_connection(answering), sock=listener, backlog=_BACKLOG
            )
            self._watch_silence()
            try:
                yield
            finally:
                if self._watch is not None:
                    self._watch.cancel()
                server.close()
        finally:
            listener.close()
            await runner.cleanup()

    def _listen(self) -> socket.socket:
        wanted = self._settings.listen
        family = socket.AF_INET6 if ":" in wanted.host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((wanted.host, wanted.port))
            listener.listen(_BACKLOG)
            listener.setblocking(False)
        except OSError as error:
            listener.close()
            reason = (error.strerror or str(error)).lower()
            raise PortTaken(
                address=str(wanted), setting="http.listen", flag="--http", reason=reason
            ) from error
        self.endpoint = HostPort(host=wanted.host, port=listener.getsockname()[1])
        return listener

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        visitor = self._visitors.get(request.protocol)
        if visitor is None:  # gone already
            return await self._response(request, None)
        visitor.begun()
        try:
            response = await self._response(request, visitor)
            visitor.made()
            await response.prepare(request)
            await response.write_eof()
        finally:
            visitor.ended()
        return response

    async def _response(self, request: web.Request, visitor: HttpConnection | None) -> web.StreamResponse:
        answer = await self._answer(request, visitor)
        if answer.passing is not None:
            if visitor is not None:
                visitor.sending()
            return await self._passed(request, answer, answer.passing, visitor)
        size, line = len(answer.body), None if visitor is None else visitor.line
        if request.method == "HEAD" or size <= (_LARGE_BYTES if line is None else PACED_BYTES):
            if line is not None and request.method != "HEAD":
                line.charge(size)
            return _response(answer)
        if self._outgoing_bytes and self._outgoing_bytes + size > _OUTGOING_BYTES_MAX:
            return web.Response(status=503, headers={"Retry-After": "10"})
        self._outgoing_bytes += size
        if visitor is not None:
            visitor.sending()
        try:
            patience_s = self._settings.idle_s + size / SLOWEST_BYTES_PER_S
            return await self._sent(request, answer, patience_s, visitor)
        finally:
            self._outgoing_bytes -= size

    async def _passed(
        self, request: web.Request, answer: Answer, passing: Passing, visitor: HttpConnection | None
    ) -> web.StreamResponse:
        """A body that is read while it is sent takes no room."""
        response = web.StreamResponse(status=answer.status, headers=answer.headers)
        _finish_head(response, answer)
        response.content_length = passing.size
        patience_s = self._settings.idle_s + passing.size / SLOWEST_BYTES_PER_S
        is_whole = False
        with anyio.move_on_after(patience_s) as scope, suppress(ArchiveError):
            await response.prepare(request)
            if request.method != "HEAD":
                write = _writer(request, response, visitor, scope)
                async with aclosing(passing.pieces()) as pieces:
                    async for piece in pieces:
                        await write(piece)
            await response.write_eof()
            is_whole = True
        if not is_whole:
            self.left += 1
            if request.transport is not None:
                request.transport.abort()
        return response

    async def _sent(
        self, request: web.Request, answer: Answer, patience_s: float, visitor: HttpConnection | None
    ) -> web.StreamResponse:
        """A reader that is slower than that is dropped, because the answer waits in memory. In parts: the transport
        would copy what it cannot send at once."""
        response = web.StreamResponse(status=answer.status, headers=answer.headers)
        _finish_head(response, answer)
        response.content_length = len(answer.body)
        body = memoryview(answer.body)
        with anyio.move_on_after(patience_s) as scope:
            await response.prepare(request)
            write = _writer(request, response, visitor, scope)
            for start in range(0, len(body), _LARGE_BYTES):
                await write(body[start : start + _LARGE_BYTES])
            await response.write_eof()
        if scope.cancelled_caught:
            self.left += 1
            if request.transport is not None:
                request.transport.abort()
        return response

    async def _answer(self, request: web.Request, visitor: HttpConnection | None) -> Answer:
        headers = {name.lower(): value for name, value in request.headers.items()}
        asked = Request(
            method=request.method,
            target=request.raw_path,
            headers=headers,
            client=request.remote or "",
            is_http_1_0=request.version < HttpVersion11,
        )
        if request.method == "POST":
            asked = replace(asked, body=await self._body(request))
        question = None if visitor is None else visitor.question
        stamp = self._front.stamp()
        answer = await self._handlers.answer(asked)
        if question is not None:
            self._front.keep(question, answer, stamp)
        return answer

    async def _body(self, request: web.Request) -> bytes:
        """Of an order, one byte more than its bound at most; it must come whole and in time."""
        body = bytearray()
        with anyio.move_on_after(self._settings.idle_s), suppress(HttpProcessingError, ConnectionError):
            async for piece in request.content.iter_any():
                body += piece
                if len(body) > BODY_BYTES_MAX:
                    break
            return bytes(body[: BODY_BYTES_MAX + 1])
        return b""

    def _new_connection(self, server: web.Server) -> asyncio.Protocol:
        return HttpConnection(
            server(),
            self._front,
            now=asyncio.get_running_loop().time,
            enters=self._enters,
            left=self._left,
            is_secret=self._handlers.is_secret,
            shared=self._shared,
        )

    def _enters(self, visitor: HttpConnection) -> Entry:
        """Whether there is room for one more from its address."""
        if is_this_machine(visitor.address):
            return self._enters_here(visitor)
        held = len(self._visitors) - self._own_visitors - len(self._at_door)
        now = asyncio.get_running_loop().time()
        if held >= self._settings.connections_max or not self._crowds.take(visitor.address, now):
            self.refused += 1
            return Entry.FULL
        self._visitors[visitor.inner] = visitor
        return Entry.ROOM

    def _enters_here(self, visitor: HttpConnection) -> Entry:
        """Nobody tells the programs of one machine apart, and a proxy brings all readers from here. So the newcomer has
        the place of the one that has asked nothing for the longest time, or has taken longest over an answer."""
        is_full = self._own_visitors >= self._settings.connections_max
        if is_full and not self._send_away(filter(self._is_own, self._visitors.values())):
            if len(self._at_door) >= _AT_DOOR_MAX and not self._send_away(self._at_door):
                self.refused += 1
                return Entry.FULL
            self._at_door.add(visitor)
            self._visitors[visitor.inner] = visitor
            return Entry.DOOR
        self._own_visitors += 1
        self._visitors[visitor.inner] = visitor
        return Entry.ROOM

    def _is_own(self, visitor: HttpConnection) -> bool:
        return is_this_machine(visitor.address) and visitor not in self._at_door

    def _send_away(self, among: Iterable[HttpConnection]) -> bool:
        order = ((one.gives_way(self._settings.idle_s), one) for one in among)
        found = min(((when, one) for when, one in order if when is not None), key=itemgetter(0), default=None)
        if found is None:
            return False
        self.refused += 1
        self._left(found[1])
        found[1].leave()
        return True

    def _left(self, visitor: HttpConnection) -> None:
        if self._visitors.pop(visitor.inner, None) is None:
            return  # it had to give way before
        if not is_this_machine(visitor.address):
            bytes_in, bytes_out = visitor.carried()
            self.carried = self.carried[0] + bytes_in, self.carried[1] + bytes_out
        if visitor in self._at_door:
            self._at_door.remove(visitor)
        elif is_this_machine(visitor.address):
            self._own_visitors -= 1
        else:
            self._crowds.give_back(visitor.address)

    def _leave_the_silent(self) -> None:
        for visitor in list(self._visitors.values()):
            if visitor.is_silent(self._settings.idle_s):
                visitor.leave()
        self._watch_silence()

    def _watch_silence(self) -> None:
        period_s = self._settings.idle_s / _LOOKS_PER_IDLE
        self._watch = asyncio.get_running_loop().call_later(period_s, self._leave_the_silent)
