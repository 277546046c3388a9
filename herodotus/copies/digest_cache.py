"""Which digests does a scope have? The former ones, if nothing was stored or deleted since the last question."""

from collections.abc import Sequence

from cachetools import LRUCache

from herodotus.core.copies import directories as scopes
from herodotus.core.copies.directories import Scope
from herodotus.store import Holdings

KEPT = 64
"""Scopes: two to a neighbour; 5 kB each where a scope is all of the ring."""


class Tops:
    def __init__(self) -> None:
        self._known: LRUCache[Scope, tuple[object, Sequence[bytes]]] = LRUCache(KEPT)

    async def of(self, holdings: Holdings, scope: Scope) -> Sequence[bytes]:
        """The digest of each of `directories`. What is stored meanwhile may be in it or not."""
        stamp = holdings.stamp  # before the look: what comes in between is looked for the next time
        known = self._known.get(scope)
        if known is None or known[0] != stamp:
            known = stamp, scopes.tops_of(scope, [await holdings.digests(one.low, one.high) for one in scope])
            self._known[scope] = known
        return known[1]
