"""What of ours was found damaged, and which peer gives it to us again? Each look costs nothing until something is.

Whatever reads a record notes where it is damaged: a reader's visit, a poll, `verify`. The captures that lie there are
fetched from other holders like any that are missing; the archive takes a whole copy in place of a broken one.
"""

from herodotus.copies.shared_state import Parts
from herodotus.core.digests import member_of
from herodotus.store import Holdings

BROKEN_MAX = 10_000
"""Captures under repair; the rest follows when these are whole."""
SCAN_S = 600.0
"""The whole index is read for newly noted damage at most so often."""


class Repairs:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._noted = 0
        """Damages that were looked for."""
        self._scan_at = 0.0
        """Not again before."""
        self._broken: set[bytes] = set()

    def __len__(self) -> int:
        return len(self._broken)

    async def look(self, holdings: Holdings) -> bool:
        """Ask for whole copies of what is damaged; whether there is something to fetch."""
        before, known, now = self._noted, frozenset(self._broken), self._parts.now()
        may_scan = now >= self._scan_at
        found = await holdings.broken(before, known, may_scan=may_scan, most=BROKEN_MAX)
        self._noted, broken = found.noted, found.keys
        if found.is_scan:
            self._scan_at = now + SCAN_S
        self._broken = set(broken)
        self._parts.counts.repaired += len(known - self._broken)
        view = self._parts.view
        for key in broken:
            for peer in view.holders(key[1:]):
                is_there = peer != view.me and peer not in view.absent
                if is_there and self._parts.ledger.is_held(peer, key[1:]):
                    self._parts.wanted.add([member_of(key)], peer)
        return bool(broken)
