"""Several holders offer the same capture at once: which of them sends it? The first, for a minute.

The others are told that it is coming and ask again. If a peer does not send the capture, we stop waiting for it, so
that an offer cannot keep a capture away.
"""

from collections import Counter, OrderedDict

from cachetools import FIFOCache

from herodotus.core.copies import PeerKey
from herodotus.core.digests import member_of
from herodotus.core.index_rows import CAPTURE

WAITED_S = 60.0
WAITING_MAX = 65_536
"""Captures. Those beyond the limit may come twice, since nothing notes their offers."""
SLOW_S = 3_600.0
SLOW_MAX = 1_024


class Offers:
    def __init__(self) -> None:
        self._waiting: OrderedDict[bytes, tuple[PeerKey, float]] = OrderedDict()
        """The peer that is to send each, and until when; the oldest first."""
        self._members: Counter[bytes] = Counter()
        self._slow: FIFOCache[PeerKey, float] = FIFOCache(SLOW_MAX)

    def is_to_send(self, key: bytes, sender: PeerKey, now: float) -> bool:
        self._end_waiting(now)
        known = self._waiting.get(key)
        if known is not None:
            return known[0] == sender
        if self._slow.get(sender, now) <= now and len(self._waiting) < WAITING_MAX:
            self._waiting[key] = sender, now + WAITED_S
            self._members[member_of(CAPTURE + key)] += 1
        return True

    def came(self, key: bytes) -> None:
        if self._waiting.pop(key, None) is not None:
            self._leave(key)

    def is_coming(self, member: bytes, now: float) -> bool:
        """Is somebody sending some of it, so that it need not be fetched?"""
        self._end_waiting(now)
        return member in self._members

    def _leave(self, key: bytes) -> None:
        member = member_of(CAPTURE + key)
        self._members[member] -= 1
        if not self._members[member]:
            del self._members[member]

    def _end_waiting(self, now: float) -> None:
        while self._waiting:
            key, (sender, until) = next(iter(self._waiting.items()))
            if until > now:
                return
            del self._waiting[key]
            self._leave(key)
            self._slow[sender] = now + SLOW_S
