"""How much may a stranger make us do? Token buckets and the amplification ledger, both of bounded size.

Buckets are keyed by (class of work, requester): a requester is an address prefix, as an IPv4 /24 or an IPv6 /56 is
about what one subscriber or small site holds, or a public key. The ledger keeps the promise that an address
which has not proven itself is never sent more than three times what came from it.
"""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass

from dht.core.frames import Address, packed_ip

BUCKETS_MAX = 8_192
LEDGER_MAX = 4_096
AMPLIFICATION_MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A steady rate, and how much may come at once after a silence."""

    per_second: float
    burst: float

    def __post_init__(self) -> None:
        if self.per_second <= 0 or self.burst < 1:
            raise ValueError(f"a rate lets something through: {self.per_second}/s, burst {self.burst}")

    def times(self, factor: float) -> "Rate":
        return Rate(per_second=self.per_second * factor, burst=self.burst * factor)


def prefix_of(address: Address) -> bytes:
    """The /24 or /56 that an address belongs to: the unit in which strangers are limited."""
    packed = packed_ip(address[0])
    if packed[:12] == bytes(10) + b"\xff\xff":
        return packed[:15]
    return packed[:7]


class Bucket:
    """Tokens, refilled by the time that passed."""

    __slots__ = ("rate", "then", "tokens")

    def __init__(self, rate: Rate, now: float) -> None:
        self.rate = rate
        self.tokens = rate.burst
        self.then = now

    def change(self, rate: Rate, now: float) -> None:
        """From now on another rate; as much of the burst as was used stays used."""
        self._refill(now)
        self.tokens += rate.burst - self.rate.burst
        self.rate = rate

    def take(self, now: float) -> bool:
        """Whether one more is allowed. A clock that went back refills nothing, and takes nothing."""
        self._refill(now)
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True

    def wait_s(self, now: float, cost: float = 1.0) -> float:
        """Until so much is there, which is not taken. What costs more than a full bucket waits for a full one."""
        self._refill(now)
        missing = min(cost, self.rate.burst) - self.tokens
        return missing / self.rate.per_second if missing > 0 else 0.0

    def spend(self, now: float, cost: float) -> None:
        """Take so much whether it is there or not: others wait until the debt is paid."""
        self._refill(now)
        self.tokens -= cost

    def _refill(self, now: float) -> None:
        if now > self.then:
            tokens = self.tokens + (now - self.then) * self.rate.per_second
            self.tokens = min(tokens, self.rate.burst)
            self.then = now


class Buckets:
    """Buckets by name; the one that was looked up the longest ago is forgotten first.

    Who takes often keeps the bucket itself: it stays shared with everybody of that name as long as
    the table knows it. A name has the rate that was asked for last, so that a newcomer who became a
    member is not held to a newcomer's.
    """

    def __init__(self, buckets_max: int = BUCKETS_MAX) -> None:
        self._known: OrderedDict[Hashable, Bucket] = OrderedDict()
        self._max = buckets_max

    def of(self, who: Hashable, rate: Rate, now: float) -> Bucket:
        found = self._known.get(who)
        if found is not None:
            self._known.move_to_end(who)
            if found.rate != rate:
                found.change(rate, now)
            return found
        bucket = self._known[who] = Bucket(rate, now)
        if len(self._known) > self._max:
            self._known.popitem(last=False)
        return bucket

    def take(self, who: Hashable, rate: Rate, now: float) -> bool:
        return self.of(who, rate, now).take(now)

    def ration(self, who: Hashable, rate: Rate, cost: float, now: float) -> float:
        """0: taken. Else nothing was, and so many seconds later it can be. What costs more than a full bucket takes a
        full one.
        """
        bucket = self.of(who, rate, now)
        wait_s = bucket.wait_s(now, cost)
        if not wait_s:
            bucket.spend(now, min(cost, rate.burst))
        return wait_s


class AmplificationLedger:
    """What each unvalidated address sent, times three, less what it was sent. Never below zero."""

    def __init__(self, addresses_max: int = LEDGER_MAX) -> None:
        self._credit: OrderedDict[Address, int] = OrderedDict()
        self._max = addresses_max

    def received(self, address: Address, size_bytes: int) -> None:
        credit = self._credit.pop(address, 0) + AMPLIFICATION_MAX * size_bytes
        self._credit[address] = credit
        if len(self._credit) > self._max:
            self._credit.popitem(last=False)

    def spend(self, address: Address, size_bytes: int) -> bool:
        """Whether a reply of this size is within bounds; if so it is booked."""
        credit = self._credit.get(address, 0) - size_bytes
        if credit < 0:
            return False
        assert credit >= 0, "never more than three times what came"
        self._credit[address] = credit
        return True

    def forget(self, address: Address) -> None:
        """The address has proven itself, the bound no longer concerns it."""
        self._credit.pop(address, None)
