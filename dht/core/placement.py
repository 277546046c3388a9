"""Which of a line of members does a rule take?  The one walk round the ring: for the holders of a key, for the
successors of a node, for witnesses.

A line is a row of contacts in ring order, from wherever the caller begins.
"""

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter

from dht.core.arcs import Arc
from dht.core.ids import Key, PeerKey
from dht.core.places import BY_PEER, PlaceRules, Standing
from dht.core.records import Contact

NOBODY: frozenset[PeerKey] = frozenset()
AREA_SHARE = 3
"""At most one copy in so many lies in one area, rounded up."""


@dataclass(frozen=True, slots=True)
class Rule:
    """How many holders a key has, and what must be different about them."""

    copies: int
    places: PlaceRules = BY_PEER

    def __post_init__(self) -> None:
        assert self.copies >= 0

    @property
    def is_plain(self) -> bool:
        """Only distinct peers: a member that is passed over was taken already, so no gap is ever filled."""
        return self.places.by == "peer"

    def area_max(self, slack: int = 0) -> int:
        """Places of one area among the copies."""
        return -(-(self.copies + slack) // AREA_SHARE)


def first(line: Iterable[Contact], count: int, skip: Container[PeerKey] = NOBODY) -> list[Contact]:
    """The first so many distinct peers of a line."""
    found: dict[PeerKey, Contact] = {}
    if count <= 0:
        return []
    for contact in line:
        if contact.peer not in found and contact.peer not in skip:
            found[contact.peer] = contact
            if len(found) == count:
                break
    return list(found.values())


class Ahead:
    """The places taken along some members, in whatever order they are added.

    Of each area the rule takes min(area_max, places), whichever come first.  So the count does not depend on
    the order of the members, and more members never lower it: a walk *backwards* from a member that adds
    all it meets knows at each step how many stand before the member, and once the member is passed over, it is so for
    everything farther back.

    With slack there is a second walk from the key on, which takes `slack` more and more of an area.  Before a member
    stand then `copies` and what the second walk takes of those that the first one passed over: that, too, only grows.

    None of that holds where members count in two places each (`Standing.born`): whom a walk takes then decides who is
    passed over next.  `Line.may_hold` is for those.
    """

    __slots__ = ("_area_max", "_areas", "_copies", "_few", "_many", "_places", "_slack", "_wide_max")

    def __init__(self, rule: Rule, slack: int = 0) -> None:
        self._copies, self._slack = rule.copies, slack
        self._area_max, self._wide_max = rule.area_max(), rule.area_max(slack)
        self._places: set[bytes] = set()
        self._areas: dict[bytes, int] = {}
        self._few = self._many = 0  # places taken with the narrow bound on areas, and with the wide one

    def add(self, standing: Standing) -> None:
        place, area = standing.place, standing.area
        if place in self._places:
            return
        self._places.add(place)
        known = self._areas.get(area, 0)
        self._areas[area] = known + 1
        self._few += known < self._area_max
        self._many += known < self._wide_max

    def rank_of(self, standing: Standing) -> int | None:
        """How many holders come first; None if it is passed over."""
        place, area = standing.place, standing.area
        if place in self._places:
            return None
        known = self._areas.get(area, 0)
        if self._few < self._copies and known < self._area_max:
            return self._few
        second = self._many - min(self._few, self._copies)
        return self._copies + second if second < self._slack and known < self._wide_max else None

    @property
    def is_enough(self) -> bool:
        """Are there places for all copies and the slack?"""
        return self._few >= self._copies and self._many >= self._copies + self._slack


def start_of(me: Contact, back: Iterable[Contact], wanted: int) -> Key:
    """Where what I hold for this position begins, if all holders are only distinct peers: at the nearest of those
    before me, walking back, from which on too many others come first, or my own next position takes over.  The whole
    circle gives my own position.
    """
    peers = set()
    for contact in back:
        peers.add(contact.peer)
        if len(peers) >= wanted or contact.peer == me.peer:
            return contact.position
    return me.position


def own_arcs(
    nodes: Iterable[tuple[Contact, Contact | None]],
    before: Callable[[Key], Iterable[Contact]],
    wanted: int,
) -> tuple[Arc, ...]:
    """What a host must hold for each of its positions, sorted by end: of each it knows the predecessor, as the ring
    has it; all others `before` a key, walking back, are the table's.
    """
    arcs = []
    for me, predecessor in nodes:
        nearest = () if predecessor is None else (predecessor,)
        arcs.append(Arc(start_of(me, chain(nearest, before(me.position)), wanted), me.position))
    return tuple(sorted(arcs, key=attrgetter("end")))
