"""How does a peer answer calls? The TCP side of its port: which callers it accepts, what it reads, when it stops.

Each connection is a task of its own with a deadline on every step, from the TLS handshake to the last byte of an
answer, so a slow caller cannot hold it. Memory for a connection is booked first (`core.admission`). A connection that
breaks the protocol is counted by a word and closed. A caller without a proven key gets no answer.
"""

import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field

import anyio

from dht.core.handshake import is_signed
from dht.core.limits import prefix_of
from herodotus.core.admission import Admission, AdmissionLimits, Caller, CallerStanding
from herodotus.core.connections import NO_BOUND, Use
from herodotus.core.status import CallsStatus
from herodotus.peers.calls import CALL_BYTES_MAX, PeerKey, RefusedError, Services
from herodotus.peers.net.acquaintance import Acquaintance
from herodotus.peers.net.connection import FrameConnection, closed_at_once
from herodotus.peers.net.line import Arrival, LineBrokenError, Port, WrongProtocolError, caller_address
from herodotus.peers.net.pacing import LinePacer
from herodotus.peers.net.rooms import Room, Rooms, Slot
from herodotus.peers.net.wire import (
    NONCE_BYTES,
    CallHello,
    CallQuestion,
    CallRefusal,
    FrameError,
    FrameKind,
    Greeting,
    frame,
    signed_by_caller,
)

logger = logging.getLogger(__name__)

HANDSHAKE_S = 10.0
"""From the first packet to a proven key: a far peer needs six crossings, a lost packet a second each."""
SLOWEST_BYTES_PER_S = 16_000.0
"""Below half of ISDN: such a line cannot be a member's."""
STEP_S = 15.0
"""On top of that, for any one frame."""
PART_BYTES = 1 << 16
"""A part of a question. Each part has its own deadline; otherwise a caller that announces 8 MiB and then sends
nothing would hold that memory for minutes."""
BOOKING_S = 10.0
"""How long a question waits for room in our memory before its connection is closed."""
HANDLER_S_MAX = 120.0
"""Whatever deadline the caller names."""
BETWEEN_PIECES_S_MAX = 120.0
STRANGERS_QUESTION_BYTES_MAX = 256
STRANGERS_ANSWER_BYTES_MAX = 1 << 16
STRANGERS_AGAIN_S = 5.0
ACCEPT_AGAIN_S = 0.5
_HELLO = frozenset({FrameKind.HELLO})
_QUESTION = frozenset({FrameKind.CALL, FrameKind.STREAM})


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweringParts:
    own_key: PeerKey
    network: bytes
    acquaintance: Acquaintance
    services: Services
    limits: AdmissionLimits
    idle_s: float
    entropy: Callable[[int], bytes]
    room: Room = field(default_factory=lambda: Rooms(NO_BOUND).room(Use.CALLED))
    """Where there is none left, callers are turned away."""
    on_proven: Callable[[bytes], None] = lambda key: None
    pacer: LinePacer = field(default_factory=LinePacer)


class Answering:
    """`open_answering` holds it open."""

    def __init__(self, parts: AnsweringParts) -> None:
        self._parts = parts
        self._admission = Admission(parts.limits)
        self._dropped: Counter[str] = Counter()
        self._unbegun: dict[Arrival, None] = {}
        self._answered = self._refused = self._bytes_in = self._bytes_out = 0

    @property
    def admission(self) -> Admission:
        """Which also rations calls that need no connection."""
        return self._admission

    def status(self) -> CallsStatus:
        """Of this side of the port."""
        return CallsStatus(
            connections=self._admission.open,
            answered=self._answered,
            refused=self._refused,
            bytes_in=self._bytes_in,
            bytes_out=self._bytes_out,
            dropped={**self._dropped, **self._admission.refused},
            crowd=self._admission.crowd(anyio.current_time()),
        )

    async def accept(self, port: Port) -> None:
        try:
            async with anyio.create_task_group() as tasks:
                while True:
                    try:
                        arrival = await port.accept()
                    except OSError as error:  # too many open files, or a caller that left while it waited
                        logger.warning("no connection was accepted error=%s", error)
                        self._dropped["accept"] += 1
                        await anyio.sleep(ACCEPT_AGAIN_S)
                        continue
                    self._unbegun[arrival] = None
                    tasks.start_soon(self._receive, arrival)
        finally:  # asyncio never begins a task that is cancelled before its first step
            for arrival in self._unbegun:
                await arrival.turn_away()

    async def _receive(self, arrival: Arrival) -> None:
        del self._unbegun[arrival]
        slot = self._parts.room.take()
        if slot is None:
            self._dropped["room"] += 1
            await arrival.turn_away()
            return
        try:
            await self._admit(arrival, slot)
        finally:
            slot.leave()

    async def _admit(self, arrival: Arrival, slot: Slot) -> None:
        host = arrival.host
        try:
            prefix = prefix_of((host or "", 1))
        except ValueError:
            self._dropped["left"] += 1
            await arrival.turn_away()
            return
        visitor = self._admission.arrives(prefix, anyio.current_time(), host or "")
        if isinstance(visitor, str):
            await arrival.turn_away()
            return
        try:
            await self._serve(arrival, visitor, host or "", slot)
        except (LineBrokenError, WrongProtocolError) as error:
            self._drop("handshake" if visitor.peer is None else "line", error)
        except FrameError as error:
            self._drop(str(error), error)
        except TimeoutError as error:
            self._drop("slow handshake" if visitor.peer is None else "slow", error)
        except Exception:  # a task meets its supervisor: one caller's connection must not end the peer
            self._dropped["fault"] += 1
            logger.exception("a connection failed by our fault")
        finally:
            self._admission.leaves(visitor)

    def _drop(self, word: str, error: Exception) -> None:
        self._dropped[word] += 1
        logger.debug("connection dropped reason=%s error=%r", word, error)

    async def _serve(self, arrival: Arrival, visitor: Caller, host: str, slot: Slot) -> None:
        with anyio.fail_after(HANDSHAKE_S):
            line = await arrival.answer()
        if line is None:
            return
        connection = FrameConnection(line, slot)
        try:
            caller_address.set((host, arrival.port))
            with anyio.fail_after(HANDSHAKE_S):
                peer = await self._meet(connection, visitor, host)
            while peer is not None and await self._answer_next(connection, visitor, peer):
                connection.tell_carried()
        finally:
            self._bytes_in += connection.bytes_in
            self._bytes_out += connection.bytes_out
            await connection.close()

    async def _meet(self, connection: FrameConnection, visitor: Caller, host: str) -> PeerKey | None:
        parts = self._parts
        nonce = parts.entropy(NONCE_BYTES)
        record = parts.acquaintance.own_record()
        await connection.send(Greeting(network=parts.network, nonce=nonce, record=record).pack())
        hello = CallHello.read((await connection.read(_HELLO)).content)
        if hello.network != parts.network:
            raise FrameError("foreign")
        signed = signed_by_caller(
            network=parts.network, called=parts.own_key, nonce=nonce, caller=hello.caller
        )
        if not is_signed(hello.caller, hello.signature, signed):
            raise FrameError("forged")
        parts.on_proven(hello.caller)
        standing = parts.acquaintance.standing(hello.caller, hello.record, host)
        if standing is CallerStanding.UNKNOWN and await self._answer_stranger(connection, visitor):
            return None
        word = self._admission.proves(visitor, hello.caller, standing)
        if word is None:
            return hello.caller
        after_s = 60.0 if standing is CallerStanding.UNKNOWN else 5.0
        await self._say_no(connection, word, after_s)
        return None

    async def _answer_stranger(self, connection: FrameConnection, visitor: Caller) -> bool:
        """The question that anybody may ask, if this is one: how else would a newcomer learn the charter?"""
        services = self._parts.services
        kind, length = await connection.read_head(_QUESTION)
        if kind is not FrameKind.CALL or length > STRANGERS_QUESTION_BYTES_MAX:
            return False
        asked = CallQuestion.read(await connection.read_content(kind, length))
        if asked.service not in services.for_anybody:
            return False
        if not self._admission.may_stranger_ask(visitor, anyio.current_time()):
            await self._say_no(connection, "busy", STRANGERS_AGAIN_S)
            return True
        found = await guarded(lambda: services.calls[asked.service](b"", asked.body), asked.service)
        if isinstance(found, CallRefusal):
            return await self._refuse(connection, found)
        assert found is not None, "only a stream ends so"
        assert len(found) <= STRANGERS_ANSWER_BYTES_MAX, (
            f"{asked.service} answers {len(found)} bytes to a stranger"
        )
        self._answered += 1
        await self._send(connection, FrameKind.ANSWER, found, asked.service)
        return True

    async def _say_no(self, connection: FrameConnection, word: str, after_s: float) -> None:
        """The caller's question is on its way: it is taken off the line unread, or closing would take back our no."""
        await connection.send(CallRefusal(reason=word, retry_after_s=after_s).pack())
        await connection.drain()

    async def _answer_next(self, connection: FrameConnection, visitor: Caller, peer: PeerKey) -> bool:
        """One question; false when the caller has no more."""
        with anyio.move_on_after(self._parts.idle_s) as waiting:
            try:
                kind, length = await connection.read_head(_QUESTION)
            except LineBrokenError:
                return False
        if waiting.cancelled_caught:
            return False
        await self._wait_for_turn(visitor)
        async with self._booked(visitor, length):
            asked = await self._read_question(connection, kind, length)
            if connection.has_more:
                raise FrameError("out of turn")
            if asked.is_stream:
                return await self._stream(connection, visitor, peer, asked)
            return await self._call(connection, visitor, peer, asked)

    async def _read_question(self, connection: FrameConnection, kind: FrameKind, length: int) -> CallQuestion:
        with anyio.fail_after(_patience_s(length)):
            for part in range(PART_BYTES, length, PART_BYTES):
                with anyio.fail_after(_patience_s(PART_BYTES)):
                    await connection.wait_for(part)
            with anyio.fail_after(_patience_s(PART_BYTES)):
                return CallQuestion.read(await connection.read_content(kind, length))

    async def _wait_for_turn(self, visitor: Caller) -> None:
        if visitor.standing is CallerStanding.NEWCOMER and self._is_member_by_now(visitor):
            self._admission.becomes_member(visitor)
        limits = self._parts.limits
        is_member = visitor.standing is CallerStanding.MEMBER
        rate = limits.calls_per_peer if is_member else limits.calls_per_newcomer
        while True:
            if self._admission.may_ask(visitor, anyio.current_time()):
                return
            await anyio.sleep(1 / rate.per_second)

    def _is_member_by_now(self, visitor: Caller) -> bool:
        """Its connection may be busy for days: it must not stay as slow as on its first one."""
        standing = self._parts.acquaintance.standing(visitor.peer or b"", b"", "")
        return standing is CallerStanding.MEMBER

    @asynccontextmanager
    async def _booked(self, visitor: Caller, size: int) -> AsyncIterator[None]:
        """Nothing is read from the line until there is room, so the caller waits as well."""
        until = anyio.current_time() + BOOKING_S
        while not self._admission.books(visitor, size):
            if anyio.current_time() >= until:
                raise FrameError("no room")
            await anyio.sleep(0.05)
        try:
            yield
        finally:
            self._admission.unbooks(visitor, size)

    async def _call(
        self, connection: FrameConnection, visitor: Caller, peer: PeerKey, asked: CallQuestion
    ) -> bool:
        handler = self._parts.services.calls.get(asked.service)
        if handler is None:
            return await self._refuse(connection, CallRefusal(reason="service"))
        found = await self._while_connected(connection, lambda: handler(peer, asked.body), asked)
        if isinstance(found, CallRefusal):
            return await self._refuse(connection, found)
        if found is None:
            return False
        assert len(found) <= CALL_BYTES_MAX, f"{asked.service} answers {len(found)} bytes"
        async with self._booked(visitor, len(found)):
            self._answered += 1
            await self._send(connection, FrameKind.ANSWER, found, asked.service)
        return True

    async def _while_connected(
        self, connection: FrameConnection, work: Callable[[], Awaitable[bytes]], asked: CallQuestion
    ) -> bytes | CallRefusal | None:
        """The answer, or why not; None when nobody waits for it any more."""
        found: bytes | CallRefusal | None = None
        fault: FrameError | None = None
        async with anyio.create_task_group() as tasks:

            async def watch() -> None:
                nonlocal fault
                try:
                    await connection.read_end()
                except FrameError as error:
                    fault = error
                tasks.cancel_scope.cancel()

            tasks.start_soon(watch)
            with anyio.move_on_after(min(asked.deadline_s, HANDLER_S_MAX)):
                found = await guarded(work, asked.service)
            tasks.cancel_scope.cancel()
        if fault is not None:
            raise fault
        return found

    async def _stream(
        self, connection: FrameConnection, visitor: Caller, peer: PeerKey, asked: CallQuestion
    ) -> bool:
        handler = self._parts.services.streams.get(asked.service)
        if handler is None:
            return await self._refuse(connection, CallRefusal(reason="service"))
        async with closed_at_once(handler(peer, asked.body)) as pieces:
            while True:
                piece = await self._next_piece(connection, pieces, asked)
                if isinstance(piece, CallRefusal):
                    return await self._refuse(connection, piece)
                if piece is None:
                    break
                assert len(piece) <= CALL_BYTES_MAX, f"{asked.service} answers {len(piece)} bytes at once"
                async with self._booked(visitor, len(piece)):
                    await self._send(connection, FrameKind.PIECE, piece, asked.service)
        self._answered += 1
        await self._send(connection, FrameKind.END, b"", asked.service)
        return True

    async def _next_piece(
        self, connection: FrameConnection, pieces: AsyncIterator[bytes], asked: CallQuestion
    ) -> bytes | CallRefusal | None:
        with anyio.fail_after(BETWEEN_PIECES_S_MAX):
            return await guarded(lambda: anext(pieces), asked.service)

    async def _refuse(self, connection: FrameConnection, refusal: CallRefusal) -> bool:
        self._refused += 1
        with anyio.fail_after(STEP_S):
            await connection.send(refusal.pack())
        return True

    async def _send(self, connection: FrameConnection, kind: FrameKind, content: bytes, service: str) -> None:
        await self._parts.pacer.send(connection, frame(kind, content), service, _patience_s)


async def guarded(work: Callable[[], Awaitable[bytes]], service: str) -> bytes | CallRefusal | None:
    """A handler's answer; None at the end of a stream. A fault of ours ends the question, not the peer."""
    try:
        return await work()
    except StopAsyncIteration:
        return None
    except RefusedError as error:
        return CallRefusal(reason=error.reason, retry_after_s=error.retry_after_s)
    except Exception:
        logger.exception("a service failed service=%s", service)
        return CallRefusal(reason="failed", retry_after_s=60.0)


def _patience_s(size: int) -> float:
    return STEP_S + size / SLOWEST_BYTES_PER_S


@asynccontextmanager
async def open_answering(parts: AnsweringParts, port: Port) -> AsyncIterator[Answering]:
    """Answers on a port that is closed at the end, with all connections."""
    answering = Answering(parts)
    with closing(port):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(answering.accept, port)
            try:
                yield answering
            finally:
                tasks.cancel_scope.cancel()
