"""What do all peers together have? One question to each of them at once, within bounds, and who did not answer.

A prefix or a host lies on many peers, because addresses are spread by their hashes. Each is asked for what it has
itself: the question is marked as relayed, and a peer that gets it asks no other, so that no wrong or stale view of the
ring makes a circle. Strangers wrote the answers: the asker says how they are read, in a thread, and what it does not
believe is counted and left out, like an answer that never came.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from itertools import islice
from typing import Generic, Protocol, TypeVar

import anyio
from cachetools import TTLCache

from herodotus.core.ports import Lane, Workers
from herodotus.portal.answer import Answer, Request
from herodotus.portal.other_holders import RELAYED, PortalAddress, Relay

logger = logging.getLogger(__name__)

PEERS_ASKED_MAX = 64
AT_ONCE = 16
"""For all questions together: as many answers as that may lie in memory unread."""
PEER_COST = 1.0
"""Of a reader's share, for each peer that is asked for him."""
PATIENCE_S = 6.0
ANSWER_BYTES_MAX = 2 * 1024 * 1024
"""Of one peer: some thousand rows."""
HELD_BYTES_MAX = 64 * 1024 * 1024
"""Of answers that were read and wait for the others; an answer beyond that is left out."""
GATHERINGS_AT_ONCE = 4
TURN_S = 2.0
"""A question without a turn by then, or behind `WAITING_MAX` others, is answered from this peer alone."""
WAITING_MAX = 64
SLOW_S = 60.0
"""So long a peer that kept everybody waiting is not asked, or each answer would take as long as it likes."""
_SLOW_MAX = 1_024
READING = Lane("answers of other peers", 1)
"""What others sent takes one processor at most, and none of those who read the archive."""

T = TypeVar("T")


def cost_of_asking(others: Sequence[PortalAddress]) -> float:
    return PEER_COST * min(len(others), PEERS_ASKED_MAX)


class Members(Protocol):
    async def others(self) -> tuple[PortalAddress, ...]:
        """The other peers that seem to live, in the ring's order from here on; none where there is no ring."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered(Generic[T]):
    """What was believed, in the order of the ring; `known` counts the others, not this peer."""

    given: tuple[T, ...]
    known: int

    @property
    def is_partial(self) -> bool:
        return len(self.given) < self.known

    def headers(self) -> Mapping[str, str]:
        """Of the peers, ourselves included, how many are in the answer."""
        told = {"X-Herodotus-Peers": f"{len(self.given) + 1} of {self.known + 1}"}
        return {**told, "X-Herodotus-Partial": "true"} if self.is_partial else told


@dataclass(slots=True)
class _Round(Generic[T]):
    """One question, while it is under way."""

    read: Callable[[Answer], T | None]
    silent: set[PortalAddress] = field(default_factory=set)
    """Asked, and not heard of yet; not those whose turn to be asked has not come."""
    found: dict[PortalAddress, T] = field(default_factory=dict)
    held_bytes: int = 0


class Gatherer:
    def __init__(self, members: Members, relay: Relay, workers: Workers) -> None:
        self._members = members
        self._relay = relay
        self._turns = anyio.Semaphore(GATHERINGS_AT_ONCE)
        self._slow: TTLCache[str, None] = TTLCache(_SLOW_MAX, SLOW_S, anyio.current_time)
        """Until when; by origin."""
        self._held_bytes = 0
        self._room = anyio.Semaphore(AT_ONCE)
        self._workers = workers
        self.disbelieved = 0
        """Answers of other peers that were left out for what stood in them."""

    async def others(self, request: Request) -> Sequence[PortalAddress]:
        """Who would be asked; nobody for a question that was relayed itself."""
        return () if request.header(RELAYED) else await self._members.others()

    async def ask_all(
        self, target: str, others: Sequence[PortalAddress], read: Callable[[Answer], T | None]
    ) -> Gathered[T]:
        """`target` is path and query, the same for all. `read` runs in a thread, and gives None for an answer that
        is not to be believed."""
        if not await self._has_turn():
            return Gathered(given=(), known=len(others))
        quick = (place for place in others if place.origin not in self._slow)
        asked = tuple(islice(quick, PEERS_ASKED_MAX))
        round_ = _Round[T](read=read)
        try:
            with anyio.move_on_after(PATIENCE_S):
                async with anyio.create_task_group() as tasks:
                    for place in asked:
                        tasks.start_soon(self._ask, place, target, round_)
            for place in round_.silent:
                self._slow[place.origin] = None
        finally:
            self._turns.release()
            self._held_bytes -= round_.held_bytes
        found = round_.found
        return Gathered(given=tuple(found[place] for place in asked if place in found), known=len(others))

    async def _has_turn(self) -> bool:
        if self._turns.statistics().tasks_waiting >= WAITING_MAX:
            return False
        with anyio.move_on_after(TURN_S):
            await self._turns.acquire()
            return True
        return False

    async def _ask(self, place: PortalAddress, target: str, round_: "_Round[T]") -> None:
        request = Request(target=target, headers={"accept": "application/json", RELAYED: "1"})
        async with self._room:
            round_.silent.add(place)
            answer = await self._relay.fetch(place, request)
            round_.silent.discard(place)
            if answer is None or answer.status >= 500 or answer.status == HTTPStatus.TOO_MANY_REQUESTS:
                logger.debug("no answer for a question to all peers peer=%s", place.origin)
                return
            size = len(answer.body)
            if size > ANSWER_BYTES_MAX or self._held_bytes + size > HELD_BYTES_MAX:
                logger.debug("another peer's answer is too large peer=%s bytes=%d", place.origin, size)
                return
            self._held_bytes += size
            round_.held_bytes += size
            given = await self._workers.work(partial(round_.read, answer), READING)
        if given is None:
            self.disbelieved += 1
            logger.info("another peer's answer was left out peer=%s", place.origin)
        else:
            round_.found[place] = given
