"""How is a peer's port for calls opened? The TCP side of the port that the ring has by UDP.

In two steps, because the parts of a peer that answer calls also make them: inside `calling` they may call, and
inside `answering` they are called.
"""

import errno
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Protocol

import anyio
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dht import Contact
from dht.core.ids import PeerKey
from dht.core.reader import Member
from dht.core.rules import RingRules
from dht.endpoint import socket_address
from dht.identity import Verifier
from herodotus.core.admission import AdmissionLimits
from herodotus.core.connections import NO_BOUND, Use
from herodotus.core.relays import Candidate, Mapping
from herodotus.core.settings.sections import CallsSettings, RelaySettings
from herodotus.core.status import CallsStatus, RelayStatus
from herodotus.peers.calls import CallError, Calls, Services
from herodotus.peers.net.acquaintance import AskingRing, RingAcquaintance, RingTable
from herodotus.peers.net.answering import Answering, AnsweringParts, open_answering
from herodotus.peers.net.calling import CallingParts, TlsCalls, open_calling
from herodotus.peers.net.kept_lines import KeptLines, KeptLinesParts
from herodotus.peers.net.line import Dial, LineBrokenError, Port, WrongProtocolError
from herodotus.peers.net.pacing import LinePacer
from herodotus.peers.net.relaying import Relay
from herodotus.peers.net.rooms import Rooms
from herodotus.peers.net.short_calls import ShortAnswering, ShortFirst, ShortRing
from herodotus.peers.net.ways import WaysParts


class CallRing(AskingRing, Protocol):
    @property
    def short_calls(self) -> ShortRing: ...

    def near(self, peer: PeerKey) -> tuple[str, int] | None:
        """Where it is inside our own network, if it was met there and is behind our router."""
        ...

    def sent_bytes(self) -> int:
        """By datagrams since the start, headers included."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPortParts:
    key: Ed25519PrivateKey = field(repr=False)
    rules: RingRules
    settings: CallsSettings
    relay: RelaySettings
    relays_wanted: int
    """That keep a line of ours, where we cannot be called."""
    is_one_machine: bool
    """All peers may share an address: a network that allows private ones."""
    wall_clock: Callable[[], float]
    chance: Random
    dial: Dial
    knock: Callable[[str, int], Awaitable[None]]
    """Opens a connection and closes it. Raises OSError."""
    rooms: Rooms = field(default_factory=lambda: Rooms(NO_BOUND))
    """For the connections of all parts of the peer."""
    pacer: LinePacer = field(default_factory=LinePacer)
    """Of all that leaves by the line."""
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
        self._relay: Relay | None = None
        self._kept: KeptLines | None = None
        self.streams: TlsCalls
        self._short_answers: ShortAnswering | None = None
        self.calls: ShortFirst
        """Opened by `calling`."""

    @asynccontextmanager
    async def calling(self, ring: CallRing, port: Port) -> AsyncIterator[Calls]:
        parts = self._parts
        parts.pacer.sent_beside = ring.sent_bytes
        parts.pacer.own_lines = lambda: None if ring.record is None else ring.record.record.lines
        ways = WaysParts(
            dial=parts.dial,
            lines_of=ring.lines_of,
            relays_of=ring.relays_of,
            is_apart=ring.is_apart,
            near=ring.near,
            answers=ring.answers,
            arrangements=port.arrangements,
            own_port=self._own_port,
        )
        calling = CallingParts(
            key=parts.key,
            network=parts.rules.network,
            ways=ways,
            acquaintance=self._acquaintance(ring),
            urgent=parts.urgent,
            on_called=parts.on_called,
            on_proven=parts.on_proven,
            room=parts.rooms.room(Use.CALLING),
            pacer=parts.pacer,
        )
        own_key = parts.key.public_key().public_bytes_raw()
        async with open_calling(calling) as self.streams:
            self.calls = ShortFirst(self.streams, ring.short_calls, parts.urgent, own_key)
            yield self.calls

    @asynccontextmanager
    async def answering(self, ring: CallRing, port: Port, services: Services) -> AsyncIterator[None]:
        """Takes over the port. Others that cannot be called are helped; where we cannot be called we are."""
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
            room=parts.rooms.room(Use.CALLED),
            on_proven=parts.on_proven,
            pacer=parts.pacer,
        )
        relay = Relay(parts.relay, parts.chance.randbytes, lambda peer: stream_addresses(ring, peer))
        all_services = Services.of(services, relay.services())
        self.streams.serve_own(all_services)
        async with (
            relay.running(port.arrangements),
            open_answering(replace(answering, services=all_services), port) as self._answering,
            self._lines_kept(ring, port),
        ):
            self._relay = relay
            short = ShortAnswering(services, answering.acquaintance, self._answering.admission)
            self._short_answers = short
            ring.short_calls.serve(short.answer)
            try:
                yield
            finally:
                ring.short_calls.serve(None)

    @asynccontextmanager
    async def _lines_kept(self, ring: AskingRing, port: Port) -> AsyncIterator[None]:
        if port.arrangements is None:
            yield
            return
        parts = self._parts
        kept = KeptLinesParts(
            number=port.number,
            chance=parts.chance,
            wanted=parts.relays_wanted,
            full_after_s=parts.relay.member_after_s,
            members=partial(candidates, ring),
            lines_of=ring.lines_of,
            is_closed=lambda: ring.is_closed,
            is_apart=lambda: ring.is_apart_from_some,
            on_changed=ring.keep_relays,
        )
        self._kept = KeptLines(kept, self.streams, port.arrangements)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._kept.run)
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()

    async def knock(self, member: Member) -> None:
        """Does a connection to it come about, at any of its lines or by its relays? Raises OSError."""
        ways = self.streams.ways
        try:
            if ways.is_closed(member.peer) or ways.is_near(member.peer):
                await self.streams.reach(member.peer, member.address)
            else:
                await ways.knock(member.peer, member.address, self._parts.knock)
        except (CallError, LineBrokenError, WrongProtocolError) as error:
            raise ConnectionRefusedError(errno.ECONNREFUSED, str(error)) from error

    def _own_port(self) -> tuple[int, Mapping]:
        return (0, Mapping.OPEN) if self._kept is None else self._kept.own_port()

    def _acquaintance(self, ring: RingTable) -> RingAcquaintance:
        parts = self._parts
        return RingAcquaintance(
            ring=ring, rules=parts.rules, wall_clock=parts.wall_clock, verifier=Verifier()
        )

    def status(self) -> CallsStatus:
        if self._answering is None or self._short_answers is None:
            return CallsStatus()
        out, into = self.streams.status(), self._answering.status()
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
            relaying=self._relaying(),
        )

    def _relaying(self) -> RelayStatus:
        found = RelayStatus() if self._relay is None else self._relay.status()
        if self._kept is None:
            return found
        keeper = self._kept.keeper
        member_in_s = keeper.member_in_s(anyio.current_time())
        return replace(
            found,
            relays=tuple(relay.hex()[:16] for relay in keeper.relays),
            is_member=keeper.is_member,
            member_in_s=None if member_in_s is None else int(member_in_s),
            knocks=dict(self._kept.counts),
        )


def candidates(ring: AskingRing) -> Iterator[tuple[Candidate, Contact]]:
    """Members that can be called, with the place and the area of each."""
    standings = ring.standings()
    for contact in ring.relay_candidates():
        standing = standings.get(contact.peer)
        if standing is not None:
            yield Candidate(peer=contact.peer, place=standing.place, area=standing.area), contact


def stream_addresses(ring: AskingRing, peer: bytes) -> tuple[tuple[str, int], ...]:
    return tuple(socket_address(line.host, line.tcp) for line in ring.lines_of(PeerKey(peer)) if line.tcp)
