"""How does a peer that leaves give away all that it holds? Part by part, to those who will hold it without it.

A round compares every part that its heirs are not known to have, and sends what they lack; the next round checks that
it came. If the ring changes meanwhile, the heirs change too: the hand-over ends when the heirs of that moment have
all parts. Nothing is remembered on disk, because comparing equal parts costs little: an interrupted peer starts
again.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import anyio

from dht.core import ids
from dht.core.arcs import NONE, Arcs
from dht.core.holders import Table
from herodotus.copies.push_queue import Pusher
from herodotus.copies.rounds import COMPARE_DEADLINE_S, Lacked, Rounds
from herodotus.copies.shared_state import Parts
from herodotus.core.copies import PeerKey
from herodotus.core.copies.schedule import AGAIN_S, Purpose
from herodotus.core.errors import ArchiveError, MalformedError
from herodotus.core.reconciliation import Scope, ranges_of, split
from herodotus.peers.calls import CallError
from herodotus.peers.ring_view import RingPositions

logger = logging.getLogger(__name__)

Heirs = Callable[[], Mapping[PeerKey, Scope]]
"""Who will hold what without us, as the ring is now."""
Give = Callable[[PeerKey, Scope], Awaitable[Lacked | None]]
"""Sends a peer what it lacks of a part, and says what that was; None where the peer gives no answer."""
_Part = tuple[PeerKey, Scope]


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedOver:
    """How far it is; `silent` are heirs that took nothing when they were last asked. `turned_away` counts the copies
    that heirs do not let in for now: without them the hand-over is not over. `kept_out` are copies of what was
    brought in here, where the network does not spread that: nobody waits for them."""

    peers: int = 0
    parts: int = 0
    parts_over: int = 0
    silent: int = 0
    turned_away: int = 0
    kept_out: int = 0

    def __str__(self) -> str:
        silent = f"; {self.silent} of them do not take it now" if self.silent else ""
        turned_away = (
            f"; {self.turned_away:,} copies are not let in there yet (it is tried again every hour; `herodotus export"
            " --wacz FILE` saves them, and `herodotus stop` leaves without them)"
            if self.turned_away
            else ""
        )
        return f"{self.parts_over} of {self.parts} parts are with {others(self.peers)}{silent}{turned_away}"


def others(count: int) -> str:
    return f"{count:,} other peer{'' if count == 1 else 's'}"


def facts_of(done: HandedOver | None) -> dict[str, Any]:
    """For a command; None is not over yet."""
    so_far = done or HandedOver()
    return {"peers": so_far.peers, "kept_out": so_far.kept_out, "is_over": done is not None}


def said_at_end(facts: Mapping[str, Any]) -> str:
    if not facts["peers"]:
        return "it held nothing"
    words = f"everything it held is with {others(facts['peers'])}"
    if facts["kept_out"]:
        words += (
            ", but for captures that were brought in here: this network does not spread such captures, so they stay in"
            " this home alone; `herodotus export --wacz FILE` saves them"
        )
    return words


async def hand_over(heirs: Heirs, give: Give, tell: Callable[[HandedOver], None]) -> HandedOver:
    """Returns when all heirs have their parts; at once where there are none. `tell` hears of every part."""
    return await _HandOver(heirs, give, tell).run()


def heirs(parts: Parts, ring: RingPositions, also: Arcs) -> dict[PeerKey, Scope]:
    """Who will hold our share, and what else is here, once we are gone."""
    view, given = parts.view, dict[PeerKey, Arcs]()
    without_us = Table(
        ring.positions(), view.table.rule, standings=ring.standings(), lost=(ids.PeerKey(view.me),)
    )
    for holders, arcs in without_us.groups(view.share | also).items():
        for peer in holders:
            given[peer] = given.get(peer, NONE) | arcs
    return {peer: ranges_of(arcs) for peer, arcs in given.items()}


async def give(parts: Parts, rounds: Rounds, pusher: Pusher, peer: PeerKey, scope: Scope) -> Lacked | None:
    """A `Give`, once the first three are known."""
    try:
        with anyio.fail_after(COMPARE_DEADLINE_S):
            lacking = await rounds.compare_scope(peer, Purpose.SURPLUS, scope)
    except (CallError, TimeoutError, MalformedError, ArchiveError) as error:
        logger.warning("a share could not be handed over yet error=%s", error)
        return None
    await pusher.wait_idle(peer)
    return None if lacking.coming and parts.full.is_full(peer, parts.now()) else lacking


class _HandOver:
    def __init__(self, heirs: Heirs, give: Give, tell: Callable[[HandedOver], None]) -> None:
        self._heirs = heirs
        self._give = give
        self._tell = tell
        self._parts: set[_Part] = set()
        self._over: set[_Part] = set()
        self._silent: set[PeerKey] = set()
        self._lacked: dict[_Part, Lacked] = {}

    async def run(self) -> HandedOver:
        fruitless = 0
        self._look()
        while left := self._parts - self._over:
            before = len(self._over)
            self._silent.clear()
            async with anyio.create_task_group() as tasks:
                for peer in sorted({peer for peer, _ in left}):
                    scopes = sorted(scope for one, scope in left if one == peer)
                    tasks.start_soon(self._give_to, peer, scopes)
            fruitless = 0 if len(self._over) > before else fruitless + 1
            self._look()
            if self._parts != self._over:
                # What the first round sent, the second one finds there: that need not wait longer.
                await anyio.sleep(AGAIN_S[min(max(0, fruitless - 1), len(AGAIN_S) - 1)])
        return self._standing()

    def _look(self) -> None:
        """At the ring, which may have changed."""
        self._parts = {(peer, part) for peer, scope in self._heirs().items() for part in split(scope)}
        self._over &= self._parts
        self._lacked = {part: lacked for part, lacked in self._lacked.items() if part in self._parts}
        self._tell(self._standing())

    async def _give_to(self, peer: PeerKey, scopes: list[Scope]) -> None:
        for scope in scopes:
            lacked = await self._give(peer, scope)
            if lacked is None:
                self._silent.add(peer)  # and the round continues without it
                return
            self._lacked[peer, scope] = lacked
            if not lacked.coming and not lacked.turned_away:
                self._over.add((peer, scope))
            self._tell(self._standing())

    def _standing(self) -> HandedOver:
        return HandedOver(
            peers=len({peer for peer, _ in self._parts}),
            parts=len(self._parts),
            parts_over=len(self._over & self._parts),
            silent=len(self._silent),
            turned_away=sum(lacked.turned_away for lacked in self._lacked.values()),
            kept_out=sum(lacked.kept_out for lacked in self._lacked.values()),
        )
