"""How does a peer leave without taking anything with it? It gives all it holds to those who come after it."""

import logging
from collections.abc import Iterable

import anyio

from herodotus.calls import CallError
from herodotus.core.replication.places import PeerKey, Places
from herodotus.core.replication.schedule import AGAIN_S, Purpose
from herodotus.core.replication.scope import Range, Scope, joined, split
from herodotus.replication import wire
from herodotus.replication.parts import Parts, RingView
from herodotus.replication.pushing import Pusher
from herodotus.replication.rounds import Rounds

logger = logging.getLogger(__name__)


async def hand_over(
    parts: Parts, rounds: Rounds, pusher: Pusher, ring: RingView, surplus: Iterable[Range]
) -> int:
    """Give what we hold to those who will hold it without us; to how many. Tries until all of them have it."""
    parts.hear()
    scopes = _heirs(parts, ring, surplus)
    async with anyio.create_task_group() as tasks:
        for peer, ranges in scopes.items():
            tasks.start_soon(_hand_to, rounds, pusher, peer, joined(ranges))
    return len(scopes)


def _heirs(parts: Parts, ring: RingView, surplus: Iterable[Range]) -> dict[PeerKey, list[Range]]:
    view = parts.view
    others = Places([(c.position, c.peer) for c in ring.positions() if c.peer != view.me], view.copies)
    scopes: dict[PeerKey, list[Range]] = {}
    for segment in others.segments_in([*view.scope, *surplus]):
        for peer in segment.holders:
            scopes.setdefault(peer, []).extend(segment.ranges)
    return scopes


async def _hand_to(rounds: Rounds, pusher: Pusher, peer: PeerKey, scope: Scope) -> None:
    tries = 0
    for part in split(scope):
        while not await _is_with(rounds, pusher, peer, part):
            await anyio.sleep(AGAIN_S[min(tries, len(AGAIN_S) - 1)])
            tries += 1


async def _is_with(rounds: Rounds, pusher: Pusher, peer: PeerKey, scope: Scope) -> bool:
    """Whether a peer has all of ours of a scope; if not, it is sent what it lacks."""
    try:
        lacking = await rounds.compare_scope(peer, Purpose.SURPLUS, scope)
    except (CallError, wire.MalformedMessageError) as error:
        logger.warning("a share could not be handed over yet error=%s", error)
        return False
    await pusher.wait_idle(peer)
    return not lacking
