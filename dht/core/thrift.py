"""What may gossip cost? An average of what was spent, the levels of thrift that follow from it, and the sample that is
kept of a ring too large to know.

Over its budget gossip slows down once, and speeds up again when it is cheap; far over it, the table shrinks to a sample
of the ring, for good: to learn the whole of it again would cost what had just been too much.
"""

from itertools import islice
from math import exp

from dht.core import rules as bounds
from dht.core.host import MachineHost
from dht.core.ids import CIRCLE, distance, key_from_number, number_of
from dht.core.membership import MemberTable

FULL, SLOWER, SAMPLED = range(3)

# What messages weigh, near enough for a budget
SEALED_BYTES = 74  # headers, session and envelope
NEWS_BYTES = 190  # between a signed record with one address and a death
MARK_BYTES = 8


class Thrift:
    """How sparing we are; `level` is for everybody to read."""

    def __init__(self, host: MachineHost) -> None:
        self._host = host
        self.level = FULL if host.rules.gossips else SAMPLED
        self.bits_per_s = 0.0
        self._spent_at = 0.0

    def start(self, now: float) -> None:
        self._spent_at = now

    def spend(self, count: int) -> None:
        """An impulse into the average: `count` bytes within the window."""
        self.bits_per_s += 8 * count / bounds.BUDGET_WINDOW_S

    def judge(self, now: float) -> bool:
        """Settle on a level; True when that has just become the sampled one."""
        self.bits_per_s *= exp(-(now - self._spent_at) / bounds.BUDGET_WINDOW_S)
        self._spent_at = now
        assert self.bits_per_s >= 0
        budget = self._host.rules.gossip_bits_per_s_max
        if self.level == FULL and self.bits_per_s > budget:
            self.level = SLOWER
        elif self.level == SLOWER and self.bits_per_s > 1.5 * budget:
            self.level = SAMPLED
            self._host.counts["sampled mode"] += 1
            return True
        elif self.level == SLOWER and self.bits_per_s < budget / 2:
            self.level = FULL
        return False


def keep_sample(host: MachineHost, table: MemberTable) -> None:
    """All within 64 positions, a finger for every power of two, and of the rest each with probability
    ~1/distance.
    """
    me, random = host.me, host.random
    keep = {me.peer}
    for walk in (table.clockwise(me.position), table.counterclockwise(me.position)):
        keep.update(contact.peer for contact in islice(walk, bounds.NEAR_POSITIONS))
    for exponent in range(160):
        target = key_from_number(number_of(me.position) + (1 << exponent))
        keep.update(contact.peer for contact in islice(table.clockwise(target), 1))
    nearest = CIRCLE // (len(table.positions) + 1)
    for contact in list(table.contacts):
        away = distance(me.position, contact.position)
        if away and random.random() < bounds.NEAR_POSITIONS * nearest / away:
            keep.add(contact.peer)
    for peer in [peer for peer in table.records if peer not in keep]:
        table.remove(peer)
    assert me.peer in table.records, "a peer never forgets itself"
