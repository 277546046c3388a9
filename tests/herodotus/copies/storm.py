"""Months of bad luck in one seed: peers join, leave, crash, come back, lose their disks; the ring splits and heals.

No more than five peers are lost at a time, and one who is back counts as lost until it had time to fill: so much
six copies must bear. Everything that was acknowledged must be on some disk at every moment; nothing may go from a
peer before six others have it; and when the storm is over, all is back where it belongs within a stated time.
"""

import random
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import anyio
import pytest

from herodotus.store import holdings
from herodotus.store.engine import Archive
from herodotus.store.holdings import drop
from herodotus.store.intake import Intake
from tests.herodotus.copies.world import SETTINGS, Net, Peer, deposit, in_world

LOST_AT_ONCE_MAX = 5
FILLED_WITHIN_S = 1_500.0
"""After a return or a departure: the clock of the absent (600 s), a comparison (600 s), what has failed meanwhile."""
SETTLED_WITHIN_S = 1_800.0 + 1_800.0
"""Promises (half an hour here), then as above: until then there may be more copies than k, never fewer for longer
than it takes to fill."""
PEERS_MAX = 16
NEWS_S = 10.0
"""Until everybody has looked at a ring that changed."""


class CaptureLostError(AssertionError):
    pass


@dataclass
class Storm:
    net: Net
    random: random.Random
    acknowledged: set[bytes] = field(default_factory=set)
    lost_until: dict[int, float] = field(default_factory=dict)
    split_until: float = 0.0
    pages: int = 0

    async def run(self, events: int) -> None:
        for _ in range(9):
            await self.net.start(self.net.add())
        await anyio.sleep(120)
        for _ in range(20):
            await self.store()
        for _ in range(events):
            await anyio.sleep(self.random.expovariate(1 / 150))
            losses = [self.leave, self.crash, self.lose]
            happens = self.random.choice([self.store] * 3 + losses + [self.join, self.back, self.split])
            await happens()
            self.check()
        self.net.heal()
        for peer in self.net.peers:
            if not peer.is_up and peer.is_in_ring is False and peer.number in self.lost_until:
                await self.net.start(peer)
        await self.net.settle(self.acknowledged, within_s=SETTLED_WITHIN_S)
        self.check()

    def check(self) -> None:
        everywhere: set[bytes] = set()
        for peer in self.net.peers:
            everywhere |= peer.ids()
        gone = self.acknowledged - everywhere
        if gone:
            raise CaptureLostError(f"{len(gone)} captures are nowhere at {anyio.current_time():.0f} s")

    # -- what happens -------------------------------------------------------------------------------------

    def _up(self) -> list[Peer]:
        return [peer for peer in self.net.peers if peer.is_up]

    def _may_lose(self) -> bool:
        now = anyio.current_time()
        out = [n for n, until in self.lost_until.items() if until > now]
        return len(out) < LOST_AT_ONCE_MAX and now > self.split_until and len(self._up()) > 7

    async def store(self) -> None:
        peer = self.random.choice(self._up())
        self.pages += 1
        url = f"http://example.org/{self.random.randrange(200)}"
        time_s = 1_700_000_000 + self.random.randrange(3) * 86_400 + self.pages
        key = await deposit(peer, url, time_s=time_s, body=b"%d" % self.pages)
        if anyio.current_time() > self.split_until:  # else some of the six may be on the other side
            self.acknowledged.add(key)

    async def join(self) -> None:
        if len(self.net.peers) < PEERS_MAX:
            await self.net.start(self.net.add())

    async def leave(self) -> None:
        if self._may_lose():
            peer = self.random.choice(self._up())
            with anyio.move_on_after(300):
                await peer.copies.hand_over()
            self._out(peer, loses_disk=False)

    async def crash(self) -> None:
        if self._may_lose():
            self._out(self.random.choice(self._up()), loses_disk=False)

    async def lose(self) -> None:
        if self._may_lose():
            self._out(self.random.choice(self._up()), loses_disk=True)

    def _out(self, peer: Peer, *, loses_disk: bool) -> None:
        self.lost_until[peer.number] = float("inf")
        self.net.crash(peer, loses_disk=loses_disk)

    async def back(self) -> None:
        down = [peer for peer in self.net.peers if not peer.is_up]
        if down:
            peer = self.random.choice(down)
            await self.net.start(peer)
            self.lost_until[peer.number] = anyio.current_time() + FILLED_WITHIN_S

    async def split(self) -> None:
        now = anyio.current_time()
        if now < self.split_until or any(until > now for until in self.lost_until.values()):
            return
        self.split_until = now + 1_500 + FILLED_WITHIN_S
        self.net.split({peer.number: self.random.randrange(2) for peer in self.net.peers})
        await anyio.sleep(self.random.uniform(10, 1_500))
        self.net.heal()


@contextmanager
def watched_drops(net: Net) -> Iterator[None]:
    """Whatever a peer lets go must be with six others, or with all there are."""

    def watched(
        archive: Archive,
        intake: Intake,
        low: bytes,
        high: bytes | None,
        may_go: Callable[[], bool],
        only: Container[bytes],
    ) -> int:
        peer = next(one for one in net.peers if one.store.archive is archive)
        before = peer.ids()
        count = drop(archive, intake, low, high, may_go, only)
        hosts = sum(one.is_up for one in net.peers)
        for key in before - peer.ids():
            others = sum(key in one.ids() or _had_just_now(one, key) for one in net.peers)
            if others < min(net.copies, hosts - 1):
                raise CaptureLostError(f"dropped with {others} copies elsewhere")
        return count

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(holdings, "drop", watched)
        yield


def _had_just_now(peer: Peer, key: bytes) -> bool:
    """It lost its disk, and nobody can know that yet."""
    lost_at, lost = peer.lost
    return anyio.current_time() - lost_at < NEWS_S and key in lost


def storm(seed: int, events: int = 60) -> None:
    """Raises where the seed finds a fault."""

    async def play(net: Net) -> None:
        net.settings = replace(SETTINGS, acknowledge="k")
        with watched_drops(net):
            await Storm(net, random.Random(seed)).run(events)

    in_world(play, seed=seed)
