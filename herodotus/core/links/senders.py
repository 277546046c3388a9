"""Which senders of links do we believe, and how much may one send? Counts for each sender, without a clock.

A sender may send as many links a second as a crawler finds at its best, and a day's worth at once after a silence.
Rubbish (a URL that is not canonical or outside the network's scope) has a price: above one part in twenty, the sender
is slowed down, longer each time. If most links are rubbish, it is ignored for a day. A wrong view of the ring is not
malice: strays count a tenth.

Which peers are not called for a while? Those that did not answer. Each further silence lengthens the pause.

A walk visits the ring again and again. It must not wait for a silent peer until the deadline each time.
"""

from dataclasses import dataclass
from random import Random
from typing import Final

from cachetools import FIFOCache, LRUCache

from dht.core.limits import Bucket, Rate

SENDERS_MAX: Final = 4_096
LINKS_RATE: Final = Rate(per_second=500, burst=100_000)
"""A page has some 30 links and a peer fetches some 15 pages a second at most; a sixth of that is for any one of us."""
FIRST_JUDGED: Final = 200
"""Links after which a sender is judged; then again after as many, with half of the past forgotten."""
RUBBISH_SLOWED: Final = 0.05
RUBBISH_IGNORED: Final = 0.5
STRAY_WEIGHT: Final = 0.1
SLOWED_FIRST_S: Final = 60.0
SLOWED_MAX_S: Final = 3_600.0
IGNORED_S: Final = 86_400.0


@dataclass(slots=True)
class _Sender:
    budget: Bucket
    links: int = 0
    rubbish: float = 0.0
    slowed_s: float = 0.0
    closed_until: float = 0.0
    is_ignored: bool = False


@dataclass(frozen=True, slots=True)
class NotNow:
    reason: str
    retry_after_s: float


class Senders:
    def __init__(self) -> None:
        self._known: LRUCache[bytes, _Sender] = LRUCache(SENDERS_MAX)

    def __len__(self) -> int:
        return len(self._known)

    def may_send(self, peer: bytes, now: float) -> NotNow | None:
        """Before its batch is unpacked."""
        sender = self._of(peer, now)
        if now < sender.closed_until:
            reason = "ignored" if sender.is_ignored else "slow down"
            return NotNow(reason, sender.closed_until - now)
        debt_s = sender.budget.wait_s(now, 0.0)
        return NotNow("busy", debt_s) if debt_s else None

    def sent(self, peer: bytes, now: float, *, links: int, strays: int, rubbish: int) -> None:
        """Note a sender's batch. One batch may overdraw the budget; the sender then waits until it is paid back."""
        sender = self._of(peer, now)
        sender.budget.spend(now, links)
        sender.links += links
        sender.rubbish += rubbish + STRAY_WEIGHT * strays
        if sender.links >= FIRST_JUDGED:
            self._judge(sender, now)

    def nonsense(self, peer: bytes, now: float) -> None:
        """A batch that could not be read at all counts as one full of rubbish."""
        self.sent(peer, now, links=FIRST_JUDGED, strays=0, rubbish=FIRST_JUDGED)

    def _judge(self, sender: _Sender, now: float) -> None:
        share = sender.rubbish / sender.links
        sender.links //= 2
        sender.rubbish /= 2
        sender.is_ignored = share >= RUBBISH_IGNORED
        if sender.is_ignored:
            sender.closed_until = now + IGNORED_S
        elif share >= RUBBISH_SLOWED:
            sender.slowed_s = min(max(2 * sender.slowed_s, SLOWED_FIRST_S), SLOWED_MAX_S)
            sender.closed_until = now + sender.slowed_s
        else:
            sender.slowed_s /= 2

    def closed(self, now: float) -> int:
        """Senders that are slowed down or ignored now."""
        return sum(now < sender.closed_until for sender in self._known.values())

    def _of(self, peer: bytes, now: float) -> _Sender:
        sender = self._known.get(peer)
        if sender is None:
            sender = self._known[peer] = _Sender(Bucket(LINKS_RATE, now))
        return sender


FIRST_S: Final = 5.0
LONGEST_S: Final = 300.0
PEERS_MAX: Final = 4_096
"""The peer with the oldest silence is forgotten, and called once too often."""


@dataclass(slots=True)
class _Silence:
    lasts_s: float
    until: float


class Silences:
    def __init__(self, random: Random) -> None:
        self._random = random
        self._known: FIFOCache[bytes, _Silence] = FIFOCache(PEERS_MAX)

    def __len__(self) -> int:
        return len(self._known)

    def is_silent(self, peer: bytes, now: float) -> bool:
        silence = self._known.get(peer)
        return silence is not None and now < silence.until

    def failed(self, peer: bytes, now: float, *, asks_for_s: float = 0.0) -> None:
        """It did not answer, or wants nothing for so long."""
        before = self._known.get(peer)
        lasts_s = min(2 * before.lasts_s, LONGEST_S) if before is not None else FIRST_S
        until = now + max(lasts_s * self._random.uniform(0.8, 1.2), min(asks_for_s, LONGEST_S))
        self._known[peer] = _Silence(lasts_s, until)

    def answered(self, peer: bytes) -> None:
        self._known.pop(peer, None)
