"""Are coarse arcs the ranges that copies compare and send?"""

from random import Random

import pytest

from dht.core.arcs import BEFORE_ZERO, LAST, Arc, Arcs
from dht.core.ids import Key
from herodotus.core.copies.directories import Range, Scope, joined, ranges_of_arc, rest_of_ring


def scope_of(arcs: Arcs) -> Scope:
    return tuple(
        Range(_next(start), None if end == LAST else _next(end)) for start, end in arcs.coarse().pieces()
    )


def _next(end: Key) -> bytes:
    return bytes(12) if end == BEFORE_ZERO else (int.from_bytes(end[:12], "big") + 1).to_bytes(12, "big")


@pytest.mark.parametrize("seed", range(30))
def test_coarse_arcs_are_the_ranges_of_a_scope(seed: int) -> None:
    chance = Random(seed)
    for _ in range(100):
        ends = [Key(chance.randbytes(20)) for _ in range(chance.randint(1, 12))]
        ends += [Key(end[:12] + chance.randbytes(8)) for end in ends if chance.random() < 0.3]
        ends += chance.sample([Key(bytes(20)), LAST], chance.randint(0, 2))
        arcs = [Arc(chance.choice(ends), chance.choice(ends)) for _ in range(chance.randint(0, 6))]
        # An arc within one prefix became the whole ring, which it is only where its ends are equal.
        arcs = [arc for arc in arcs if arc.start == arc.end or arc.start[:12] != arc.end[:12]]
        parts = [part for arc in arcs for part in ranges_of_arc(arc.start, arc.end)]
        # An arc that starts in the last prefix has an empty range of nothing behind it.
        scope = joined(part for part in parts if len(part.low) == 12)
        assert scope_of(Arcs(arcs)) == scope
        assert scope_of(~Arcs(arcs)) == rest_of_ring(scope)
