"""Which calls need no connection? A small question and its answer are one datagram each over the ring's session.

`ShortFirst` is a peer's `Calls`: services that say so go by datagram while the asked peer answers them, and by
stream where it is silent, where the body is large or where the peer says so. `ShortAnswering` is the other side: the
same services, the same ration of calls. A call may be carried out twice, once each way; calls bear that.
"""

from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import anyio

from dht import Contact
from dht.core.messages import ANSWERED, BY_STREAM, REFUSED, SHORT_BYTES_MAX, ShortAnswer, ShortCall
from herodotus.core.admission import Admission, Caller, CallerStanding
from herodotus.peers.calls import (
    CALL_DEADLINE_S,
    Calls,
    PeerKey,
    PeerUnreachableError,
    RefusedError,
    Services,
)
from herodotus.peers.net.acquaintance import Acquaintance
from herodotus.peers.net.answering import guarded
from herodotus.peers.net.wire import CallRefusal, FrameError

SILENT_S = 60.0
"""A peer whose datagrams do not come through is called by streams for so long: each try costs two seconds."""
SILENT_MAX = 4_096


class ShortRing(Protocol):
    """What carries short calls: `dht.short_calls.ShortCalls`."""

    async def ask(self, to: Contact, service: str, body: bytes) -> ShortAnswer | None: ...
    def serve(
        self, answerer: Callable[[Contact, ShortCall], Awaitable[ShortAnswer | None]] | None
    ) -> None: ...


class ShortFirst:
    """Implements `Calls`."""

    def __init__(self, calls: Calls, ring: ShortRing, services: Collection[str], own_key: PeerKey) -> None:
        self._calls = calls
        self._ring = ring
        self._services = frozenset(services)
        self._own_key = own_key
        self._silent: OrderedDict[PeerKey, float] = OrderedDict()
        self.answered = self.fell_back = 0

    async def call(
        self, to: Contact, service: str, body: bytes, *, deadline_s: float = CALL_DEADLINE_S
    ) -> bytes:
        until = anyio.current_time() + deadline_s
        if self._goes_short(to.peer, service, body):
            answer = None
            with anyio.move_on_after(deadline_s):
                answer = await self._ring.ask(to, service, body)
            if answer is not None and answer.outcome != BY_STREAM:
                self.answered += 1
                return _told(answer)
            self.fell_back += 1
            if answer is None:
                self._note_silent(to.peer)
        left_s = until - anyio.current_time()
        if left_s <= 0:
            raise PeerUnreachableError("deadline")
        return await self._calls.call(to, service, body, deadline_s=left_s)

    def stream(
        self, to: Contact, service: str, body: bytes
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._calls.stream(to, service, body)

    def _goes_short(self, peer: PeerKey, service: str, body: bytes) -> bool:
        if service not in self._services or len(body) > SHORT_BYTES_MAX or peer == self._own_key:
            return False
        return self._silent.get(peer, 0.0) <= anyio.current_time()

    def _note_silent(self, peer: PeerKey) -> None:
        self._silent.pop(peer, None)
        self._silent[peer] = anyio.current_time() + SILENT_S
        if len(self._silent) > SILENT_MAX:
            self._silent.popitem(last=False)


def _told(answer: ShortAnswer) -> bytes:
    if answer.outcome == ANSWERED:
        return answer.body
    try:
        refusal = CallRefusal.read(answer.body)
    except FrameError as error:
        raise PeerUnreachableError(f"protocol: {error}") from error
    raise RefusedError(refusal.reason, retry_after_s=refusal.retry_after_s)


class ShortAnswering:
    """Answers other peers' short calls by the services that allow it."""

    def __init__(self, services: Services, acquaintance: Acquaintance, admission: Admission) -> None:
        self._services = services
        self._acquaintance = acquaintance
        self._admission = admission
        self.answered = self.refused = 0

    async def answer(self, sender: Contact, question: ShortCall) -> ShortAnswer | None:
        """None where the caller asks too often: it asks again, which slows it down."""
        outcome, body = BY_STREAM, b""
        if question.service in self._services.by_datagram and self._is_member(sender.peer):
            asker = Caller(b"", "")
            asker.peer, asker.standing = sender.peer, CallerStanding.MEMBER
            if not self._admission.may_ask(asker, anyio.current_time()):
                return None
            outcome, body = await self._work(sender.peer, question)
        return ShortAnswer(id=question.id, outcome=outcome, body=body)

    def _is_member(self, peer: PeerKey) -> bool:
        return self._acquaintance.standing(peer, b"", "") is CallerStanding.MEMBER

    async def _work(self, peer: PeerKey, question: ShortCall) -> tuple[int, bytes]:
        handler = self._services.calls[question.service]
        found = await guarded(lambda: handler(peer, question.body), question.service)
        if isinstance(found, CallRefusal):
            self.refused += 1
            return REFUSED, found.content
        if found is None or len(found) > SHORT_BYTES_MAX:
            return BY_STREAM, b""
        self.answered += 1
        return ANSWERED, found
