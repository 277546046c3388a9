"""How is a peer's port for calls opened? The TCP side of the port that the ring has by UDP.

In two steps, because the parts of a peer that answer calls also make them: inside `calling` they may call, and
inside `answering` they are called.
"""

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from random import Random
from typing import Protocol

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dht.core.rules import RingRules
from dht.identity import Verifier
from herodotus.core.admission import AdmissionLimits
from herodotus.core.settings.sections import CallsSettings
from herodotus.core.status import CallsStatus
from herodotus.peers.calls import Calls, Services
from herodotus.peers.net.acquaintance import AskingRing, RingAcquaintance, RingTable
from herodotus.peers.net.answering import Answering, AnsweringParts, open_answering
from herodotus.peers.net.calling import CallingParts, TlsCalls, open_calling
from herodotus.peers.net.line import Dial, Port
from herodotus.peers.net.short_calls import ShortAnswering, ShortFirst, ShortRing


class CallRing(AskingRing, Protocol):
    @property
    def short_calls(self) -> ShortRing: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPortParts:
    key: Ed25519PrivateKey = field(repr=False)
    rules: RingRules
    settings: CallsSettings
    is_one_machine: bool
    """All peers may share an address: a network that allows private ones."""
    wall_clock: Callable[[], float]
    chance: Random
    dial: Dial
    urgent: Collection[str] = ()
    """Services whose calls never wait behind others, and that go by datagram where they fit one."""
    on_proven: Callable[[bytes], None] = lambda key: None
    """Told of each key that a connection proved, whoever called."""
    on_called: Callable[[bytes, str | None], None] = lambda peer, why: None
    """Told whether a call to a peer was answered, and if not, why."""


class CallPort:
    def __init__(self, parts: CallPortParts) -> None:
        self._parts = parts
        self._answering: Answering | None = None
        self._streams: TlsCalls
        self._short_answers: ShortAnswering | None = None
        self.calls: ShortFirst
        """Opened by `calling`."""

    @asynccontextmanager
    async def calling(self, ring: CallRing) -> AsyncIterator[Calls]:
        parts = self._parts
        calling = CallingParts(
            key=parts.key,
            network=parts.rules.network,
            dial=parts.dial,
            acquaintance=self._acquaintance(ring),
            urgent=parts.urgent,
            on_called=parts.on_called,
            on_proven=parts.on_proven,
            answers=ring.answers,
            lines_of=ring.lines_of,
        )
        own_key = parts.key.public_key().public_bytes_raw()
        async with open_calling(calling) as self._streams:
            self.calls = ShortFirst(self._streams, ring.short_calls, parts.urgent, own_key)
            yield self.calls

    @asynccontextmanager
    async def answering(self, ring: CallRing, port: Port, services: Services) -> AsyncIterator[None]:
        """Takes over the port."""
        parts, settings = self._parts, self._parts.settings
        limits = AdmissionLimits(connections_max=settings.connections_max)
        if parts.is_one_machine:
            limits = AdmissionLimits.for_one_machine(settings.connections_max)
        answering = AnsweringParts(
            own_key=parts.key.public_key().public_bytes_raw(),
            network=parts.rules.network,
            acquaintance=self._acquaintance(ring),
            services=services,
            limits=limits,
            idle_s=settings.idle_s,
            entropy=parts.chance.randbytes,
            on_proven=parts.on_proven,
        )
        self._streams.serve_own(services)
        async with open_answering(answering, port) as self._answering:
            short = ShortAnswering(services, answering.acquaintance, self._answering.admission)
            self._short_answers = short
            ring.short_calls.serve(short.answer)
            try:
                yield
            finally:
                ring.short_calls.serve(None)

    def _acquaintance(self, ring: RingTable) -> RingAcquaintance:
        parts = self._parts
        return RingAcquaintance(
            ring=ring, rules=parts.rules, wall_clock=parts.wall_clock, verifier=Verifier()
        )

    def status(self) -> CallsStatus:
        if self._answering is None or self._short_answers is None:
            return CallsStatus()
        out, into = self._streams.status(), self._answering.status()
        return replace(
            into,
            connections=into.connections + out.connections,
            called=out.called,
            failed=out.failed,
            bytes_in=into.bytes_in + out.bytes_in,
            bytes_out=into.bytes_out + out.bytes_out,
            short_called=self.calls.answered,
            short_failed=self.calls.fell_back,
            short_answered=self._short_answers.answered + self._short_answers.refused,
        )
