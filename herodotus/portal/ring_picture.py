"""How does the ring look from here? A circle with the arcs that this peer holds, its positions and its neighbours.

Zero is at the top, and positions grow clockwise. Tables beside it say the same in numbers, so for those who do not
see it a sentence is enough.
"""

import math
from collections.abc import Iterable

from herodotus.core.status import RingStatus

CIRCLE = 1 << 160
RADIUS = 100
_MIDDLE = 110
ARCS_MAX = 64
"""A peer has no more positions than that."""


def ring_picture(ring: RingStatus) -> str:
    arcs = ring.arcs[:ARCS_MAX]
    own = [node.position for node in ring.nodes]
    near = {one.position for node in ring.nodes for one in (node.predecessor, *node.successors) if one}
    beside = sorted(near.difference(own))
    words = (
        f"The ring: {len(arcs):,} arcs that this peer holds, {len(own):,} positions of its own, "
        f"{len(beside):,} of neighbours"
    )
    size = 2 * _MIDDLE
    return (
        f'<figure class="ring"><svg viewBox="0 0 {size} {size}" role="img" aria-label="{words}">'
        f'<circle class="all" cx="{_MIDDLE}" cy="{_MIDDLE}" r="{RADIUS}"/>'
        f"{''.join(_arc(start, end) for start, end in arcs)}"
        f"{_dots('other', sorted(beside), 3)}{_dots('own', own, 4)}</svg>"
        "<figcaption>Strong: the keys whose pages this peer holds. Dots: its positions, and hollow ones the "
        "neighbours that it knows best.</figcaption></figure>"
    )


def share_of(arcs: Iterable[tuple[str, str]]) -> float:
    """Of the circle; the ends of an arc may lie around zero, and equal ends are all of it."""
    return min(1.0, sum(_length(start, end) for start, end in arcs) / CIRCLE)


def _length(start: str, end: str) -> int:
    return (int(end, 16) - int(start, 16)) % CIRCLE or CIRCLE


def _arc(start: str, end: str) -> str:
    length = _length(start, end)
    if length == CIRCLE:
        return f'<circle class="held" cx="{_MIDDLE}" cy="{_MIDDLE}" r="{RADIUS}"/>'
    is_large = int(length > CIRCLE // 2)
    return f'<path class="held" d="M{_place(start)}A{RADIUS} {RADIUS} 0 {is_large} 1 {_place(end)}"/>'


def _dots(kind: str, positions: Iterable[str], radius: int) -> str:
    places = (_place(one).split() for one in positions)
    return "".join(f'<circle class="{kind}" cx="{x}" cy="{y}" r="{radius}"/>' for x, y in places)


def _place(position: str) -> str:
    angle = int(position, 16) / CIRCLE * math.tau
    return f"{_MIDDLE + RADIUS * math.sin(angle):.1f} {_MIDDLE - RADIUS * math.cos(angle):.1f}"
