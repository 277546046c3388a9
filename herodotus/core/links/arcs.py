"""What of these arcs is not in those? Stretches of the circle as numbers; an arc whose ends are equal is all of it."""

from collections.abc import Iterable

from dht.core.ids import CIRCLE, Key, key_from_number, number_of

Ends = tuple[Key, Key]
"""(start, end]: the start is not in it, the end is."""


def minus(arcs: Iterable[Ends], without: Iterable[Ends]) -> list[Ends]:
    """In order from zero; arcs across zero come in two parts."""
    left = _merged(arcs)
    for low, high in _merged(without):
        kept = []
        for start, end in left:
            if high <= start or end <= low:
                kept.append((start, end))
                continue
            if start < low:
                kept.append((start, low))
            if high < end:
                kept.append((high, end))
        left = kept
    return [(key_from_number(start - 1), key_from_number(end - 1)) for start, end in left]


def is_within(key: Key, arcs: Iterable[Ends]) -> bool:
    place = number_of(key)
    return any(start <= place < end for start, end in _merged(arcs))


def _merged(arcs: Iterable[Ends]) -> list[tuple[int, int]]:
    """As half-open ranges of numbers, sorted, none touching another."""
    ranges = []
    for arc_start, arc_end in arcs:
        start, end = (number_of(arc_start) + 1) % CIRCLE, number_of(arc_end) + 1
        if start < end:
            ranges.append((start, end))
        else:
            ranges += [(start, CIRCLE), (0, end)]
    found: list[tuple[int, int]] = []
    for start, end in sorted(one for one in ranges if one[0] < one[1]):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found
