"""What do all peers together have? One question to each of them at once, within bounds, and who did not answer.

A prefix or a host lies on many peers, as addresses are spread by their hashes. Each is asked for what it has itself:
the question is marked as relayed, and who gets it asks nobody else, so that no view of the ring, wrong or stale, makes
a circle. What comes back was written by strangers and is checked by whoever merges it.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import anyio

from herodotus.portal.answer import Answer
from herodotus.portal.elsewhere import RELAYED, Place, Relay
from herodotus.portal.request import Request

logger = logging.getLogger(__name__)

PEERS_ASKED_MAX = 64
AT_ONCE = 32
PATIENCE_S = 6.0
ANSWER_BYTES_MAX = 2 * 1024 * 1024
"""Of one peer: some thousand rows."""
GATHERINGS_AT_ONCE = 4
"""As many answers as that may lie in memory; who comes then is told what this peer has by itself."""


class Members(Protocol):
    async def others(self) -> tuple[Place, ...]:
        """The other peers that seem to live, in the ring's order from here on; none where there is no ring."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """Answers in the order of the ring; `asked` and `known` count the others, not this peer."""

    answers: tuple[tuple[Place, Answer], ...]
    asked: int
    known: int

    @property
    def is_partial(self) -> bool:
        return len(self.answers) < self.known

    def headers(self) -> Mapping[str, str]:
        """Of the peers, ourselves included, how many are in the answer."""
        told = {"X-Herodotus-Peers": f"{len(self.answers) + 1} of {self.known + 1}"}
        return {**told, "X-Herodotus-Partial": "true"} if self.is_partial else told


class Gatherer:
    def __init__(self, members: Members, relay: Relay) -> None:
        self._members = members
        self._relay = relay
        self._under_way = 0

    async def others(self, request: Request) -> Sequence[Place]:
        """Who would be asked; nobody for a question that was relayed itself."""
        return () if request.header(RELAYED) else await self._members.others()

    async def ask_all(self, target: str, others: Sequence[Place]) -> Gathered:
        """`target` is path and query, the same for all. What is no good answer is none."""
        if self._under_way >= GATHERINGS_AT_ONCE:
            return Gathered(answers=(), asked=0, known=len(others))
        asked = others[:PEERS_ASKED_MAX]
        found: dict[Place, Answer] = {}
        self._under_way += 1
        try:
            with anyio.move_on_after(PATIENCE_S):
                async with anyio.create_task_group() as tasks:
                    for place in asked:
                        tasks.start_soon(self._ask, place, target, found)
        finally:
            self._under_way -= 1
        answers = tuple((place, found[place]) for place in asked if place in found)
        return Gathered(answers=answers, asked=len(asked), known=len(others))

    async def _ask(self, place: Place, target: str, found: dict[Place, Answer]) -> None:
        request = Request(target=target, headers={"accept": "application/json", RELAYED: "1"})
        answer = await self._relay.fetch(place, request)
        if answer is None:
            logger.debug("no part of a gathering peer=%s", place.origin)
        elif answer.status < 500 and len(answer.body) <= ANSWER_BYTES_MAX:
            found[place] = answer
