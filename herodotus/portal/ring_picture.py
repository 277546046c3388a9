"""How does the ring look from here? A circle with the arcs that this peer holds, its positions and its neighbours.

Zero is at the top, and positions grow clockwise. Tables beside it say the same in numbers, so for those who do not
see it a sentence is enough.
"""

import math
from collections.abc import Iterable

from markupsafe import Markup

from herodotus.core.status import RingStatus
from herodotus.portal.rendering import render_part

CIRCLE = 1 << 160
RADIUS = 100
_MIDDLE = 110
ARCS_MAX = 64
"""A peer has no more positions than that."""


def ring_picture(ring: RingStatus) -> Markup:
    own = [node.position for node in ring.nodes]
    near = {one.position for node in ring.nodes for one in (node.predecessor, *node.successors) if one}
    return render_part(
        "ring_picture.html",
        arcs=[_arc(start, end) for start, end in ring.arcs[:ARCS_MAX]],
        own=[_place(one) for one in own],
        beside=[_place(one) for one in sorted(near.difference(own))],
        middle=_MIDDLE,
        radius=RADIUS,
    )


def share_of(arcs: Iterable[tuple[str, str]]) -> float:
    """Of the circle; the ends of an arc may lie around zero, and equal ends are all of it."""
    return min(1.0, sum(_length(start, end) for start, end in arcs) / CIRCLE)


def _length(start: str, end: str) -> int:
    return (int(end, 16) - int(start, 16)) % CIRCLE or CIRCLE


def _arc(start: str, end: str) -> str:
    """As the data of a path; "" is the whole circle, which has no beginning."""
    length = _length(start, end)
    if length == CIRCLE:
        return ""
    is_large = int(length > CIRCLE // 2)
    return f"M{' '.join(_place(start))}A{RADIUS} {RADIUS} 0 {is_large} 1 {' '.join(_place(end))}"


def _place(position: str) -> tuple[str, str]:
    angle = int(position, 16) / CIRCLE * math.tau
    return f"{_MIDDLE + RADIUS * math.sin(angle):.1f}", f"{_MIDDLE - RADIUS * math.cos(angle):.1f}"
