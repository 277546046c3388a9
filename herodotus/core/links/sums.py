"""Do two holders know the same URLs? Sums over parts of a stretch, which are equal where the sets are.

A sum is how many keys there are, and all of them XORed. A peer that hides a difference behind equal sums could as well
lie outright: sums detect forgotten keys only.
"""

from collections.abc import Iterable
from itertools import pairwise
from typing import Final, NamedTuple

from dht.core.arcs import Arc
from dht.core.ids import Key, key_from_number, number_of

PARTS: Final = 16


class Sum(NamedTuple):
    keys: int
    xor: int


def parts_of(start: Key, end: Key) -> list[Arc]:
    """(start, end] in sixteen, of which some may be empty; it does not cross zero."""
    low, high = number_of(start), number_of(end)
    cuts = [low + (high - low) * number // PARTS for number in range(PARTS + 1)]
    return [Arc(key_from_number(low), key_from_number(high)) for low, high in pairwise(cuts)]


def sums_of(keys: Iterable[bytes], start: Key, end: Key) -> list[Sum]:
    """Of ascending keys, for each of the parts; those outside are left out."""
    ends = [number_of(last) for _, last in parts_of(start, end)]
    low = number_of(start)
    counts, xors = [0] * PARTS, [0] * PARTS
    place = 0
    for key in keys:
        number = int.from_bytes(key, "big")
        if number <= low:
            continue
        while place < PARTS and number > ends[place]:
            place += 1
        if place == PARTS:
            break
        counts[place] += 1
        xors[place] ^= number
    return [Sum(*one) for one in zip(counts, xors, strict=True)]
