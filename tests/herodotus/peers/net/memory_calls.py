"""How do peers call each other where there are no sockets? The same port in memory, with the faults of a network.

For tests and simulations: under trio's virtual clock a call over a slow line takes no time at all. Chance is seeded,
so a run repeats itself. It loses questions and answers apart (the second: carried out, and nobody knows), carries
out questions twice, holds calls up, cuts streams, and lets peers die and lines between two of them break.
"""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random

import anyio

from dht import Contact
from herodotus.peers.calls import (
    CALL_BYTES_MAX,
    CALL_DEADLINE_S,
    Calls,
    PeerKey,
    PeerUnreachableError,
    RefusedError,
    Services,
)
from herodotus.peers.net.connection import closed_at_once
from herodotus.peers.net.wire import HEAD_BYTES

PIECE_DEADLINE_S = 130.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LineFaults:
    """Of each call, as shares of one."""

    delay_s: float = 0.0
    """One way, at least; half as much again at most."""
    lost: float = 0.0
    """The question, or the answer: each with half of it."""
    twice: float = 0.0
    """Carried out twice, the second time after the answer."""
    cut: float = 0.0
    """Per piece of a stream."""


GOOD_LINE = LineFaults()


class MemoryCalls:
    """A network of peers in one process. `faults` may change at any time."""

    def __init__(self, random: Random, faults: LineFaults = GOOD_LINE) -> None:
        self._random = random
        self.faults = faults
        self._services: dict[PeerKey, Services] = {}
        self._dead: set[PeerKey] = set()
        self._cut: set[frozenset[PeerKey]] = set()
        self.calls: Counter[str] = Counter()
        """By service: how many questions arrived."""
        self.bytes: Counter[str] = Counter()
        """By service: of questions and answers, each with the head of its frame."""

    def joined(self, peer: PeerKey, services: Services) -> Calls:
        """From now on the peer answers; what it calls through."""
        self._services[peer] = services
        self._dead.discard(peer)
        return _OneOf(self, peer)

    def kill(self, peer: PeerKey) -> None:
        """It answers nobody and reaches nobody, until `revive` or `joined` again."""
        self._dead.add(peer)

    def revive(self, peer: PeerKey) -> None:
        self._dead.discard(peer)

    def cut_between(self, one: PeerKey, other: PeerKey) -> None:
        self._cut.add(frozenset((one, other)))

    def heal(self) -> None:
        self._cut.clear()

    def reaches(self, one: PeerKey, other: PeerKey) -> bool:
        return one == other or not ({one, other} & self._dead or frozenset((one, other)) in self._cut)

    def services_of(self, peer: PeerKey) -> Services:
        return self._services.get(peer) or Services()

    def happens(self, share: float) -> bool:
        return share > 0 and self._random.random() < share

    async def cross(self, one: PeerKey, other: PeerKey) -> None:
        """One way over the line. Whatever is lost is waited for until the caller's deadline."""
        await anyio.sleep(self.faults.delay_s * self._random.uniform(1.0, 1.5) if one != other else 0)
        if not self.reaches(one, other) or (one != other and self.happens(self.faults.lost / 2)):
            await anyio.sleep_forever()

    def count(self, service: str, question: bytes, answer: bytes) -> None:
        self.calls[service] += 1
        self.bytes[service] += 2 * HEAD_BYTES + len(question) + len(answer) + 5 + len(service)


class _OneOf:
    """What one peer calls through."""

    def __init__(self, net: MemoryCalls, peer: PeerKey) -> None:
        self._net = net
        self._peer = peer

    async def call(
        self, to: Contact, service: str, body: bytes, *, deadline_s: float = CALL_DEADLINE_S
    ) -> bytes:
        assert len(body) <= CALL_BYTES_MAX, f"a question of {len(body)} bytes to {service}"
        net, peer = self._net, PeerKey(to.peer)
        try:
            with anyio.fail_after(deadline_s):
                await net.cross(self._peer, peer)
                answer = await self._carried_out(peer, service, body)
                if net.happens(net.faults.twice):
                    answer = await self._carried_out(peer, service, body)
                net.count(service, body, answer)
                await net.cross(peer, self._peer)
        except TimeoutError as error:
            raise PeerUnreachableError("deadline") from error
        assert len(answer) <= CALL_BYTES_MAX, f"an answer of {len(answer)} bytes from {service}"
        return answer

    async def _carried_out(self, peer: PeerKey, service: str, body: bytes) -> bytes:
        handler = self._net.services_of(peer).calls.get(service)
        if handler is None:
            raise RefusedError("service")
        return await handler(self._peer, body)

    @asynccontextmanager
    async def stream(self, to: Contact, service: str, body: bytes) -> AsyncIterator[AsyncIterator[bytes]]:
        net, peer = self._net, PeerKey(to.peer)
        await self._within(PIECE_DEADLINE_S, peer)
        life = net.services_of(peer)
        handler = life.streams.get(service)
        if handler is None:
            raise RefusedError("service")
        net.count(service, body, b"")
        async with (
            closed_at_once(handler(self._peer, body)) as pieces,
            closed_at_once(self._carried(peer, life, service, pieces)) as carried,
        ):
            yield carried

    async def _carried(
        self, peer: PeerKey, life: Services, service: str, pieces: AsyncIterator[bytes]
    ) -> AsyncIterator[bytes]:
        net = self._net
        while True:
            is_there = net.reaches(peer, self._peer) and net.services_of(peer) is life
            if not is_there or net.happens(net.faults.cut):
                raise PeerUnreachableError("cut")  # before the dead, or their next life, are asked for more
            piece = await anext(pieces, None)
            if piece is None:
                return
            await self._within(PIECE_DEADLINE_S, peer)
            net.bytes[service] += HEAD_BYTES + len(piece)
            yield piece

    async def _within(self, deadline_s: float, peer: PeerKey) -> None:
        try:
            with anyio.fail_after(deadline_s):
                await self._net.cross(peer, self._peer)
        except TimeoutError as error:
            raise PeerUnreachableError("deadline") from error
