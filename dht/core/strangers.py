"""What does an address get from us that has proven nothing yet? Cookies, hints and echoes, within bounds.

The source of a datagram can be forged, so an answer may hit somebody who never asked. Hence nothing here begins a
handshake, each kind of answer has a rate for its sender's prefix or for all together, and all of them share a ledger:
an address gets no more than three times what came from it.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from dht.core.frames import NO_COOKIE, Address, DatagramHello, Echo, Hint, Nonce, Retry
from dht.core.handshake import CookieJar
from dht.core.limits import AmplificationLedger, Buckets, Rate, prefix_of

NONCE_PER_PREFIX: Final = Rate(per_second=5, burst=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkLimits:
    """How much work strangers may cause. The defaults are for the open internet (ring.md 5)."""

    hello_per_prefix: Rate = Rate(per_second=5, burst=10)
    retry_overall: Rate = Rate(per_second=2_000, burst=2_000)  # 70 kB/s and about 2 % of a core
    hint_per_prefix: Rate = Rate(per_second=5, burst=5)
    hint_overall: Rate = Rate(per_second=100, burst=100)
    sessions_max: int = 4_096


class StrangerReplies:
    """For one link, whose counters it uses; `put` takes a frame that may go out."""

    def __init__(
        self,
        *,
        network: bytes,
        limits: LinkLimits,
        cookies: CookieJar,
        put: Callable[[bytes, Address], None],
        dropped: Counter[str],
        done: Counter[str],
    ) -> None:
        self.ledger = AmplificationLedger()
        self.cookies = cookies
        self.nonces_awaited_until = float("-inf")
        self._network = network
        self._limits = limits
        self._put = put
        self._dropped = dropped
        self._done = done
        self._buckets = Buckets()

    def reply(self, frame: bytes, address: Address) -> bool:
        """To an address that need not be who it says: never more than the ledger allows."""
        if not self.ledger.spend(address, len(frame)):
            self._dropped["amplification"] += 1
            return False
        self._put(frame, address)
        return True

    def has_cookie(self, hello: DatagramHello, address: Address, now: float) -> bool:
        """Has it shown that it hears us at this address? If not, it is given the cookie to show."""
        if hello.cookie != NO_COOKIE:
            if self.cookies.is_ours(hello, address, now):
                return True
            self._dropped["cookie"] += 1
        if not self._buckets.take("retry", self._limits.retry_overall, now):
            self._dropped["flood"] += 1
            return False
        cookie = self.cookies.bake(hello, address, now)
        frame = Retry(network=self._network, initiator_id=hello.initiator_id, cookie=cookie).pack()
        self.reply(frame, address)
        return False

    def may_begin(self, address: Address, now: float) -> bool:
        """Another handshake for this prefix: two signatures of our time."""
        if self._buckets.take(("hello", prefix_of(address)), self._limits.hello_per_prefix, now):
            return True
        self._dropped["flood"] += 1
        return False

    def hint(self, session_id: bytes, address: Address, now: float) -> None:
        """We do not have this session (any more)."""
        take = self._buckets.take
        if take(("hint", prefix_of(address)), self._limits.hint_per_prefix, now) and take(
            "hint", self._limits.hint_overall, now
        ):
            self.reply(Hint(network=self._network, session_id=session_id).pack(), address)
            self._done["hints"] += 1

    def echo(self, nonce: Nonce, address: Address, now: float) -> None:
        """A peer dials us back, as we asked. Whichever it is, it gets no more bytes than it sent."""
        if now >= self.nonces_awaited_until:
            self._dropped["unasked"] += 1
        elif not self._buckets.take(("nonce", prefix_of(address)), NONCE_PER_PREFIX, now):
            self._dropped["flood"] += 1
        elif self.reply(Echo(network=self._network, value=nonce.value).pack(), address):
            self._done["echoes"] += 1
