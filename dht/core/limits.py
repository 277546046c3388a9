"""How much may a stranger make us do? Token buckets and the amplification ledger, both of bounded size.

Buckets are keyed by (class of work, who): who is an address prefix, since an IPv4 /24 or an IPv6 /56 is
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


def prefix_of(address: Address) -> bytes:
    """The /24 or /56 that an address belongs to: the unit in which strangers are limited."""
    packed = packed_ip(address[0])
    if packed[:12] == bytes(10) + b"\xff\xff":
        return packed[:15]
    return packed[:7]


class Buckets:
    """Token buckets, refilled by the time that passed; the least recently used are forgotten."""

    def __init__(self, buckets_max: int = BUCKETS_MAX) -> None:
        self._level: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()
        self._max = buckets_max

    def __len__(self) -> int:
        return len(self._level)

    def take(self, who: Hashable, rate: Rate, now: float) -> bool:
        """Whether `who` may do it once more. A clock that went back refills nothing, takes nothing."""
        level = self._level
        found = level.get(who)
        if found is None:
            level[who] = (rate.burst - 1, now)
            if len(level) > self._max:
                level.popitem(last=False)
            return True
        tokens, then = found
        elapsed_s = now - then
        if elapsed_s > 0:
            tokens += elapsed_s * rate.per_second
            if tokens > rate.burst:
                tokens = rate.burst
        level.move_to_end(who)
        if tokens < 1:
            level[who] = (tokens, now)
            return False
        level[who] = (tokens - 1, now)
        return True


class AmplificationLedger:
    """What each unvalidated address sent, times three, less what it was sent. Never below zero."""

    def __init__(self, addresses_max: int = LEDGER_MAX) -> None:
        self._credit: OrderedDict[Address, int] = OrderedDict()
        self._max = addresses_max

    def __len__(self) -> int:
        return len(self._credit)

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
        self._credit[address] = credit
        return True

    def forget(self, address: Address) -> None:
        """The address has proven itself, the bound no longer concerns it."""
        self._credit.pop(address, None)
