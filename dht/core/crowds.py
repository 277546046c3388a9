"""What do places ask of whom?  Which positions of a crowded place count, and which members of rare places give way.

Copies in distinct places ask more of members that are alone in theirs.  That is bounded in two ways, both read off the
table alone (docs/adr/0018-holders-by-place.md has the reasons and the figures):

* Of each place some positions *count*, the same number at most in all.  It grows until much of the ring counts.
* In a ring that is short of places, a position that may be asked for much more than by peers alone holds only keys
  within its *reach*: an arc of `BOUND` times the share that it would have.  Elsewhere a place that was taken gives
  the copy.  A member whose reaches go round the circle anyway needs none.

What a ring offers is measured with no place and no area as more than a third of it: if not, one machine with enough
keys would make the rule give way, and all others small.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from dht.core.ids import CIRCLE, PeerKey
from dht.core.placement import AREA_SHARE, Rule
from dht.core.places import Standing
from dht.core.records import Contact

BOUND = 3
"""No position is asked for more than so many times what it would be asked for without places."""
LIMITED_FROM = 2
"""Times; whose mean share is below keeps all of it, as arcs differ at random in any ring."""
SHORT = 2
"""Rounds of `copies` positions.  A ring in which the walk for a key is no longer, in the mean, has places enough."""
LARGE_PLACE = 50
"""A fiftieth of all positions may count in one place."""
LONG, NEARLY = 64.0, 0.999
"""Rounds of the circle, and the part of the wanted places, after which a walk counts as one without an end."""
STEPS = 8
"""Sizes are rounded to so many steps from one power of two to the next: tables that differ by a few members
have the same."""


@dataclass(frozen=True, slots=True)
class Crowding:
    """Of the members of age in one table."""

    counted_max: int
    """Positions that count in a place."""
    offered: int
    """Positions, without what one place or area has beyond a third."""
    limited: frozenset[bytes]
    """Places whose positions have a reach: few have them, or so many that some sit far apart at random."""

    def reach(self, wanted: int) -> int:
        """Of the positions in limited places, for so many copies."""
        return BOUND * wanted * CIRCLE // max(self.offered, 1)


def crowding(positions: Mapping[bytes, int], areas: Mapping[bytes, bytes], rule: Rule) -> Crowding:
    """From the positions of each place, and the area of each."""
    total = sum(positions.values())
    by_area: dict[bytes, int] = {}
    for place, count in positions.items():
        by_area[areas[place]] = by_area.get(areas[place], 0) + count
    offered = _rounded_up(total - max(_excess(positions.values()), _excess(by_area.values())))
    counted_max = _counted_max(positions, total, offered, rule)
    if _has_enough(positions, by_area, offered, rule.copies, counted_max):
        return Crowding(counted_max, offered, frozenset())
    counted = {place: min(count, counted_max) for place, count in positions.items()}
    return Crowding(counted_max, offered, _limited(counted, areas, offered, rule))


def left_in(
    contacts: Sequence[Contact], standings: Mapping[PeerKey, Standing], most: int
) -> Sequence[Contact]:
    """The positions that count, in the same order: so many of a place, each member's first before anybody's second.
    One that is in two places counts if it does so in both."""
    by_place: dict[bytes, list[Contact]] = {}
    for contact in contacts:
        for place in standings[contact.peer].places:
            by_place.setdefault(place, []).append(contact)
    beyond: set[Contact] = set()
    for crowd in by_place.values():
        if len(crowd) > most:
            crowd.sort(key=lambda one: (one.index, sha256(one.position).digest(), one.peer))
            beyond.update(crowd[most:])
    return [contact for contact in contacts if contact not in beyond] if beyond else contacts


def _excess(sizes: Collection[int]) -> int:
    """What the largest has beyond a third of what is left without it, or of two beyond the other's size."""
    if len(sizes) < 2:
        return 0
    largest = max(sizes)
    rest = sum(sizes) - largest
    return max(largest - (rest if len(sizes) == 2 else rest // (AREA_SHARE - 1)), 0)


def _rounded_up(size: int) -> int:
    step = 1 << max(size.bit_length() - STEPS.bit_length(), 0)
    return -(-size // step) * step


def _counted_max(positions: Mapping[bytes, int], total: int, offered: int, rule: Rule) -> int:
    """The charter's number, doubled while a place of that size is small; more until half of what is offered counts,
    and a third of all.
    """
    most = rule.places.positions_per_place
    while 2 * most * LARGE_PLACE <= total:
        most *= 2
    if max(positions.values(), default=0) <= most:
        return most
    wanted = max(-(-offered // 2), -(-total // 3))
    ordered = sorted(positions.values())
    if sum(min(size, most) for size in ordered) >= wanted:
        return most
    below = 0
    for place, size in enumerate(ordered):
        # All places from here on have at least `size`: with so many of each, `below` + `size` for each would count.
        crowds = len(ordered) - place
        if below + size * crowds >= wanted:
            return _rounded_up(-(-(wanted - below) // crowds))
        below += size
    return most


def _has_enough(
    positions: Mapping[bytes, int], by_area: Mapping[bytes, int], offered: int, copies: int, counted_max: int
) -> bool:
    """Does a glance say that a ring is not short of places?  Most tables are made of so many that it does.

    1 - e^(-x) is at least x - x^2; and where no area is met once in the mean, none is full.
    """
    largest = max(positions.values(), default=0)
    length = SHORT * copies / max(offered, 1)
    if largest > counted_max or largest * length >= 1 or max(by_area.values(), default=0) * length > 1:
        return False
    return sum(positions.values()) * length * (1 - largest * length) >= copies


def _limited(
    counted: Mapping[bytes, int], areas: Mapping[bytes, bytes], offered: int, rule: Rule
) -> frozenset[bytes]:
    """In a ring short of places all of them.  Where only areas are short, places with positions that would be asked
    for `LIMITED_FROM` times as much, or more.

    A key's holders are found on a walk of some length, in parts of the circle.  Along it a place with w positions is
    met with probability 1 - e^(-w length); so the mean length is where the sum over places, with what areas allow, is
    the number of copies.  A position alone in its place is asked for all keys of that length.
    """
    copies, area_max = rule.copies, rule.area_max()
    if BOUND * copies >= offered:
        return frozenset()  # the reach is the whole circle
    groups: dict[bytes, list[int]] = {}
    for place, weight in counted.items():
        groups.setdefault(areas[place], []).append(weight)
    if _met(groups.values(), area_max, SHORT * copies / offered) >= copies:
        return frozenset()
    if _met(groups.values(), len(counted), SHORT * copies / offered) < copies:
        return frozenset(counted)
    wanted = min(copies, sum(min(area_max, len(weights)) for weights in groups.values()))
    length = copies / offered
    while length < LONG and _met(groups.values(), area_max, length) < wanted * NEARLY:
        length *= 1.25
    found = []
    for place, weight in counted.items():
        others = _met([groups[areas[place]]], len(counted), length)
        asked = _met([[weight]], 1, length) * min(1.0, area_max / others)
        if asked > weight * LIMITED_FROM * copies / offered:
            found.append(place)
    return frozenset(found)


def _met(groups: Iterable[Sequence[int]], area_max: int, length: float) -> float:
    """How many places the rule takes along a walk, in the mean.  Only operations that IEEE 754 fixes to the bit: all
    peers must get the same number."""
    chances: dict[int, float] = {}
    total = 0.0
    for weights in groups:
        found = 0.0
        for weight in weights:
            chance = chances.get(weight)
            if chance is None:
                missed = 1 / (1 + weight * length / 64)
                for _ in range(6):  # (1 + x/64)^-64 is e^-x well enough
                    missed *= missed
                chance = chances[weight] = 1 - missed
            found += chance
        total += min(found, area_max)
    return total
