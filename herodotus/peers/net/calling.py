"""How does a peer call another? `Calls` over TCP: connections that are kept, counted and authenticated.

A connection carries one exchange at a time; a few to one peer and some hundred in all are kept for the next, the
oldest of those at rest giving way. One of a peer's few is for calls that are urgent. A kept connection that turns out
dead is silently replaced once: calls may be repeated. A call to ourselves goes to our own services.
"""

from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import TypeVar

import anyio
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dht import Contact
from dht.core.records import Address
from herodotus.core.connections import NO_BOUND, Use
from herodotus.core.status import CallsStatus
from herodotus.peers.calls import (
    CALL_DEADLINE_S,
    CallError,
    PeerKey,
    PeerUnreachableError,
    RefusedError,
    Services,
    WrongPeerError,
)
from herodotus.peers.net.acquaintance import Acquaintance
from herodotus.peers.net.answer_memory import AnswerRoom
from herodotus.peers.net.connection import FrameConnection, closed_at_once
from herodotus.peers.net.line import Dial, Line, LineBrokenError, WrongProtocolError
from herodotus.peers.net.lines_wire import KNOCK
from herodotus.peers.net.pacing import LinePacer
from herodotus.peers.net.rooms import Room, Rooms, Slot
from herodotus.peers.net.ways import Ways, WaysParts, stream_address
from herodotus.peers.net.wire import (
    FROM_CALLED,
    CallFrame,
    CallHello,
    CallQuestion,
    CallRefusal,
    FrameError,
    FrameKind,
    Greeting,
    signed_by_caller,
)

CONNECT_S = 12.0
"""TCP, TLS and greeting; as long as a handshake of the ring."""
PER_PEER_MAX = 4
PATIENT_MAX = 3
"""Of those, for calls that are not urgent: copies, links and robots.txt may take a minute, and many calls wait for
them."""
CONNECTIONS_MAX = 128
KEPT_S = 45.0
"""Less than the other end keeps them, so that few are found dead."""
JOINED_KEPT_S = 5.0
"""Of a line that a relay joins: it has few, and each peer two of them."""
BETWEEN_PIECES_S = 130.0
"""A little more than the other end gives itself."""
_GREETING = frozenset({FrameKind.GREETING})
Handler = TypeVar("Handler")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallingParts:
    key: Ed25519PrivateKey = field(repr=False)
    network: bytes
    ways: WaysParts
    acquaintance: Acquaintance
    urgent: Collection[str] = ()
    """Services whose calls never wait behind others."""
    on_proven: Callable[[bytes], None] = lambda key: None
    on_called: Callable[[bytes, str | None], None] = lambda peer, why: None
    """A call to this peer was answered, or was in vain, and why."""
    room: Room = field(default_factory=lambda: Rooms(NO_BOUND).room(Use.CALLING))
    """Waited for before each connection, which leaves it when it is closed."""
    pacer: LinePacer = field(default_factory=LinePacer)


@dataclass(slots=True)
class _Slots:
    """Of one peer, and how many use or await one."""

    all: anyio.Semaphore = field(default_factory=lambda: anyio.Semaphore(PER_PEER_MAX))
    patient: anyio.Semaphore = field(default_factory=lambda: anyio.Semaphore(PATIENT_MAX))
    users: int = 0


@dataclass(frozen=True, slots=True)
class _Place:
    """Connections to one key at one address may stand in for each other."""

    peer: bytes
    address: Address


@dataclass(slots=True)
class _Kept:
    connection: FrameConnection
    until: float


class TlsCalls:
    """Implements `herodotus.peers.calls.Calls`; `open_calling` holds it open."""

    def __init__(self, parts: CallingParts) -> None:
        self._parts = parts
        self._own_key: PeerKey = parts.key.public_key().public_bytes_raw()
        self._own = Services()
        self._kept: OrderedDict[tuple[_Place, int], _Kept] = OrderedDict()  # the longest at rest first
        self._numbers = 0
        self._in_all = anyio.Semaphore(CONNECTIONS_MAX)
        self.ways = Ways(parts.ways, self._ask_relay)
        self._to_peer: dict[_Place, _Slots] = {}
        self.room = AnswerRoom()
        self._given: list[FrameConnection] = []
        """To be closed, as others need the room."""
        self._gave = anyio.Event()
        self.pacer = parts.pacer
        self._calls = self._failed = self._bytes_in = self._bytes_out = self._busy = 0

    def serve_own(self, services: Services) -> None:
        """Set the services that answer calls to ourselves."""
        self._own = services

    def status(self) -> CallsStatus:
        """Of this side of the port."""
        return CallsStatus(
            connections=len(self._kept) + self._busy,
            called=self._calls,
            failed=self._failed,
            bytes_in=self._bytes_in,
            bytes_out=self._bytes_out,
        )

    async def call(
        self, to: Contact, service: str, body: bytes, *, deadline_s: float = CALL_DEADLINE_S
    ) -> bytes:
        self._calls += 1
        try:
            with anyio.fail_after(deadline_s):
                if to.peer == self._own_key:  # without a wire: this peer may itself be a holder
                    return await _handler(self._own.calls, service)(self._own_key, body)
                answer = await self._called(
                    to, CallQuestion(service=service, deadline_s=deadline_s, is_stream=False, body=body)
                )
        except TimeoutError as error:
            self._failed += 1
            self._note(to, "no answer in time")
            raise PeerUnreachableError("deadline") from error
        except CallError as error:
            self._failed += 1
            self._note(to, _why(error))
            raise
        self._note(to)
        return answer

    async def _ask_relay(self, relay: Contact, service: str, body: bytes, deadline_s: float) -> bytes:
        return await self.call(relay, service, body, deadline_s=deadline_s)

    def _note(self, to: Contact, why: str | None = None) -> None:
        if to.peer != self._own_key:
            self._parts.on_called(to.peer, why)

    async def _called(self, to: Contact, question: CallQuestion) -> bytes:
        async with self._connection(to, question) as use:
            found = await use.ask(question)
            if found.kind is not FrameKind.ANSWER:
                raise PeerUnreachableError("protocol")
            use.is_reusable = True
            return found.content

    @asynccontextmanager
    async def stream(self, to: Contact, service: str, body: bytes) -> AsyncIterator[AsyncIterator[bytes]]:
        self._calls += 1
        if to.peer == self._own_key:
            handler = _handler(self._own.streams, service)
            async with closed_at_once(handler(self._own_key, body)) as own_pieces:
                yield own_pieces
            return
        question = CallQuestion(service=service, deadline_s=CALL_DEADLINE_S, is_stream=True, body=body)
        async with self._connection(to, question) as use:
            try:
                with anyio.fail_after(BETWEEN_PIECES_S):
                    first = await use.ask(question)
            except TimeoutError as error:
                self._note(to, "no answer in time")
                raise PeerUnreachableError("deadline") from error
            except CallError as error:
                self._note(to, _why(error))
                raise
            self._note(to)
            async with closed_at_once(_pieces(use, first)) as pieces:
                yield pieces

    # --- connections

    @asynccontextmanager
    async def _connection(self, to: Contact, question: CallQuestion) -> AsyncIterator["_Use"]:
        place = _Place(to.peer, to.address)
        is_urgent = question.service in self._parts.urgent
        # A call that asks a relay to reach a peer is made within the call to that peer, which has its place already.
        in_all = nullcontext() if question.service == KNOCK else self._in_all
        async with self._slot(place, is_urgent=is_urgent), in_all:
            use = _Use(self, place)
            self._busy += 1
            try:
                yield use
            finally:
                self._busy -= 1
                await self._put_back(use)

    @asynccontextmanager
    async def _slot(self, place: _Place, *, is_urgent: bool) -> AsyncIterator[None]:
        slots = self._to_peer.get(place)
        if slots is None:
            slots = self._to_peer[place] = _Slots()
            if self.ways.is_one_line(place.peer):
                slots.patient = anyio.Semaphore(1)
        slots.users += 1
        try:
            async with nullcontext() if is_urgent else slots.patient, slots.all:
                yield
        finally:
            slots.users -= 1
            if not slots.users:
                del self._to_peer[place]

    def take_kept(self, place: _Place) -> FrameConnection | None:
        for name in reversed(self._kept):
            if name[0] == place:
                return self._kept.pop(name).connection
        return None

    async def _put_back(self, use: "_Use") -> None:
        connection, use.connection = use.connection, None
        if connection is None:
            return
        self._bytes_in += connection.bytes_in - use.bytes_in_before
        self._bytes_out += connection.bytes_out - use.bytes_out_before
        if not use.is_reusable:
            await connection.close()
            return
        connection.tell_carried()
        self._numbers += 1
        kept_s = JOINED_KEPT_S if self.ways.is_relayed(use.place.peer) else KEPT_S
        self._kept[use.place, self._numbers] = _Kept(connection, anyio.current_time() + kept_s)

    async def make_room(self) -> None:
        """Close connections at rest in favour of those in use."""
        while self._kept and len(self._kept) + self._busy > CONNECTIONS_MAX:
            _, kept = self._kept.popitem(last=False)
            await kept.connection.close()

    def give_up(self) -> bool:
        """The connection that has rested the longest closes; False where there is none."""
        if not self._kept:
            return False
        self._given.append(self._kept.popitem(last=False)[1].connection)
        self._gave.set()
        return True

    async def close_given(self) -> None:
        """What was given up, until cancelled."""
        while True:
            await self._gave.wait()
            self._gave = anyio.Event()
            while self._given:
                await self._given.pop().close()

    async def dial(self, place: _Place) -> FrameConnection:
        await self.make_room()
        is_closed = self.ways.is_closed(place.peer)
        # Who arranges a line to a closed peer calls its relay meanwhile: that call must not wait for this one's room.
        slot = None if is_closed else await self._parts.room.enter()
        try:
            with anyio.fail_after(CONNECT_S), _call_errors():
                line = self.ways.line_to(place.peer, place.address)
                return await self._introduced(line, place.peer, slot)
        except BaseException:
            if slot is not None:
                slot.leave()
            raise

    async def _introduced(
        self, dialling: Awaitable[Line], peer: bytes, slot: Slot | None = None
    ) -> FrameConnection:
        try:
            line = await dialling
        except OSError as error:
            raise PeerUnreachableError(error.strerror or str(error) or "no connection") from error
        connection = FrameConnection(line, slot or self._parts.room.take())
        try:
            await self._introduce(connection, peer)
        except BaseException:
            await connection.close()
            raise
        return connection

    @asynccontextmanager
    async def held(self, to: Contact, dial: Dial) -> AsyncIterator[FrameConnection]:
        """A connection of its own, both ends introduced; closed at the end. Raises a CallError."""
        at = stream_address(to, self._parts.ways.lines_of(to.peer))
        try:
            with anyio.fail_after(CONNECT_S), _call_errors():
                connection = await self._introduced(dial(*at), to.peer)
        except TimeoutError as error:
            raise PeerUnreachableError("deadline") from error
        try:
            yield connection
        finally:
            await connection.close()

    async def reach(self, peer: PeerKey, address: Address) -> None:
        """Opens a line to it, by whichever way, and closes it. Raises OSError, CallError and the line's errors."""
        line = await self.ways.line_to(peer, address)
        await line.close()

    async def _introduce(self, connection: FrameConnection, wanted: bytes) -> None:
        """Before anything is said the other end must have shown the key that we want, in our network."""
        parts = self._parts
        found = connection.key
        greeting = Greeting.read((await connection.read(_GREETING)).content)
        if greeting.network != parts.network:
            raise WrongPeerError("another network")
        is_wanted = found is not None and (
            found == wanted or parts.acquaintance.is_rotation(greeting.record, old=wanted, new=found)
        )
        if found is None or not is_wanted:
            raise WrongPeerError("another key")
        parts.on_proven(found)
        signed = signed_by_caller(
            network=parts.network, called=found, nonce=greeting.nonce, caller=self._own_key
        )
        hello = CallHello(
            network=parts.network,
            caller=self._own_key,
            signature=parts.key.sign(signed),
            record=parts.acquaintance.own_record(),
        )
        await connection.send(hello.pack())

    async def close_idle(self) -> None:
        """Close connections that have rested for too long, until cancelled."""
        while True:
            await anyio.sleep(JOINED_KEPT_S)
            now = anyio.current_time()
            for name in [name for name, kept in self._kept.items() if kept.until <= now]:
                kept_now = self._kept.pop(name, None)
                if kept_now is not None:
                    await kept_now.connection.close()

    async def close(self) -> None:
        while self._given or self._kept:
            closing = self._given.pop() if self._given else self._kept.popitem()[1].connection
            with suppress(OSError):
                await closing.close()


class _Use:
    """One exchange's hold of a connection."""

    def __init__(self, calls: TlsCalls, place: _Place) -> None:
        self._calls = calls
        self.place = place
        self.connection: FrameConnection | None = None
        self.is_reusable = False
        self.bytes_in_before = self.bytes_out_before = 0

    async def ask(self, question: CallQuestion) -> CallFrame:
        """The first frame of the answer. Raises a CallError."""
        kept = self._calls.take_kept(self.place)
        if kept is not None:
            self._hold(kept)
            try:
                return await self._ask(kept, question)
            except LineBrokenError:
                self.connection = None
                await kept.close()
        fresh = await self._calls.dial(self.place)
        self._hold(fresh)
        with _call_errors():
            return await self._ask(fresh, question)

    def _hold(self, connection: FrameConnection) -> None:
        self.connection = connection
        self.bytes_in_before, self.bytes_out_before = connection.bytes_in, connection.bytes_out

    async def _ask(self, connection: FrameConnection, question: CallQuestion) -> CallFrame:
        await self._calls.pacer.send(connection, question.pack(), question.service)
        return await self.read(connection)

    async def read(self, connection: FrameConnection) -> CallFrame:
        try:
            kind, length = await connection.read_head(FROM_CALLED)
            async with self._calls.room.held(self.place.peer, length):
                found = await connection.read_content(kind, length)
            if found.kind is FrameKind.REFUSED:
                refusal = CallRefusal.read(found.content)
                self.is_reusable = True
                raise RefusedError(refusal.reason, retry_after_s=refusal.retry_after_s)
        except FrameError as error:
            raise PeerUnreachableError(f"protocol: {error}") from error
        return found


def _why(error: CallError) -> str | None:
    """A refusal is an answer."""
    return None if isinstance(error, RefusedError) else str(error) or "no connection"


def _handler(handlers: Mapping[str, Handler], service: str) -> Handler:
    if service not in handlers:
        raise RefusedError("service")
    return handlers[service]


async def _pieces(use: _Use, first: CallFrame) -> AsyncGenerator[bytes]:
    found, connection = first, use.connection
    while found.kind is FrameKind.PIECE:
        yield found.content
        if connection is None or use.connection is not connection:
            raise PeerUnreachableError("closed")
        try:
            with anyio.fail_after(BETWEEN_PIECES_S), _call_errors():
                found = await use.read(connection)
        except TimeoutError as error:
            raise PeerUnreachableError("deadline") from error
    if found.kind is not FrameKind.END:
        raise PeerUnreachableError("protocol")
    use.is_reusable = True


@contextmanager
def _call_errors() -> Iterator[None]:
    try:
        yield
    except LineBrokenError as error:
        raise PeerUnreachableError(str(error)) from error
    except WrongProtocolError as error:
        raise WrongPeerError("another protocol") from error
    except FrameError as error:
        raise PeerUnreachableError(f"protocol: {error}") from error


@asynccontextmanager
async def open_calling(parts: CallingParts) -> AsyncIterator[TlsCalls]:
    calls = TlsCalls(parts)
    parts.room.gives(calls.give_up)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(calls.close_idle)
        tasks.start_soon(calls.close_given)
        try:
            yield calls
        finally:
            parts.room.gives_no_more(calls.give_up)
            tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await calls.close()
