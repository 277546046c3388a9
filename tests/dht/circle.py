"""A circle of 64 points for brute force: small enough to try every key, with the key zero and the last key on it."""

from collections.abc import Iterable

from hypothesis import strategies as st

from dht.core.arcs import Arc
from dht.core.ids import CIRCLE, Key, PeerKey, is_in_arc, key_from_number
from dht.core.records import Address, Contact

POINTS = 64
KEYS = [key_from_number(number * (CIRCLE - 1) // (POINTS - 1)) for number in range(POINTS)]
"""Any set of arcs that begin and end at these has, between two of them, all keys or none: they speak for all keys."""

points = st.integers(0, POINTS - 1)
ends = st.sampled_from([*KEYS, KEYS[0], KEYS[-1]])
arc_lists = st.lists(st.builds(Arc, ends, ends), max_size=6)


def inside(arcs: Iterable[Arc]) -> set[Key]:
    """By trying all keys."""
    arcs = list(arcs)
    return {key for key in KEYS if any(is_in_arc(arc.start, key, arc.end) for arc in arcs)}


def peer(number: int) -> PeerKey:
    return PeerKey(bytes((number,)) * 32)


def member(number: int, point: int, host: bytes = b"") -> Contact:
    address = Address(host=host or bytes((10, 0, 0, number)), port=1)
    return Contact(peer=peer(number), address=address, slot=0, index=0, position=KEYS[point])
