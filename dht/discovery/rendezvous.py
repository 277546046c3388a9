"""Where do peers who know nobody leave word, and where do they look?

A rendezvous is four methods. What lies behind them (today the kademlia package) can be replaced or switched
off (`Rendezvous` itself), and nothing about archive data ever depends on it. Records are opaque here: the ring's
`validate` alone says whether bytes are a record of a network we know, and what they state.
"""

import hashlib
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import anyio

SHARDS = 16
"""Keys per network: so that no 20 nodes carry a whole network's word."""
LOOKS_MIN = 2.0
LOOKS_RARER_MAX = 6.0
"""In each period of a peer alone so many members of a ring look, and from twelve members on more: with six peers that
each looked as often as one alone, this was a quarter of an idle peer's traffic."""
PUBLISHERS_WANTED = 48
"""Three per shard on average: enough to be found, few enough that a big ring does not flood 16 keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRecord:
    """What a valid peer record states."""

    network: bytes
    peer_id: bytes
    incarnation: int
    expires_at: float
    """Wall clock, seconds since 1970: records travel between machines."""
    addresses: tuple[tuple[str, int], ...]
    """The first is the anchor."""
    first_position: bytes


Validate = Callable[[bytes], PublishedRecord | None]


class Rendezvous:
    """Where peers leave word; this one is switched off: it takes nothing and finds nothing."""

    async def start(self) -> None:
        return

    async def stop(self) -> None:
        return

    async def publish(self, record: bytes) -> int:
        """Leave our record; how many others took it (0 is an answer, not an error)."""
        del record
        return 0

    async def find(self) -> list[bytes]:
        """Valid records that others left, at most one per peer."""
        return []


def shard_key(network: bytes, shard: int) -> bytes:
    text = b"herodotus/rdv/1" + network + bytes([shard])
    return hashlib.sha1(text, usedforsecurity=False).digest()


def shard_of(first_position: bytes) -> int:
    """The top four bits."""
    return first_position[0] >> 4


def publish_probability(members: int) -> float:
    return min(1.0, PUBLISHERS_WANTED / max(1, members))


def looks_rarer(members: int) -> float:
    """By what a member's wait between two looks is longer than that of a peer alone. Whoever of a part of a ring finds
    another one shows it to all, so no part finds others later than a peer alone does."""
    return min(LOOKS_RARER_MAX, max(1.0, members / LOOKS_MIN))


@dataclass(frozen=True, slots=True, kw_only=True)
class RendezvousTimes:
    find_every_s: float = 600.0
    publish_every_s: float = 1800.0
    jitter: float = 0.2
    """Part by which each wait varies, so that peers started together do not stay in step."""


async def run_rendezvous(
    rendezvous: Rendezvous,
    *,
    own_record: Callable[[], bytes | None],
    members: Callable[[], int],
    on_found: Callable[[bytes], Awaitable[None]],
    chance: random.Random,
    times: RendezvousTimes | None = None,
) -> None:
    """Publish and look until cancelled; the rendezvous is started and stopped here.

    `own_record` answers `None` while we are a leaf or not yet a member: then we only look.
    """
    waits = times or RendezvousTimes()
    publish_due = look_due = anyio.current_time()
    await rendezvous.start()
    try:
        while True:
            is_look_due = anyio.current_time() >= look_due
            if is_look_due:
                jitter = 1 + waits.jitter * (2 * chance.random() - 1)
                look_due = anyio.current_time() + waits.find_every_s * looks_rarer(members()) * jitter
            if anyio.current_time() >= publish_due:
                record = own_record()
                is_left = record is not None
                if record is not None and chance.random() < publish_probability(members()):
                    is_left = await rendezvous.publish(record) > 0
                # Where nobody took it, as before we know anybody, the next look is the next try.
                publish_due = anyio.current_time() + waits.publish_every_s if is_left else look_due
            if is_look_due:
                for record in await rendezvous.find():
                    await on_found(record)
            await anyio.sleep_until(min(publish_due, look_due))
    finally:
        with anyio.CancelScope(shield=True):
            await rendezvous.stop()
