"""Which of a line of members does a rule take?  The one walk round the ring: for the holders of a key, for the
successors of a node, for witnesses.

A line is a row of contacts in ring order, from wherever the caller begins.
"""

from collections.abc import Callable, Container, Hashable, Iterable
from dataclasses import dataclass
from itertools import chain, islice
from operator import attrgetter

from dht.core.arcs import Arc
from dht.core.ids import Key, PeerKey
from dht.core.records import Contact

NOBODY: frozenset[PeerKey] = frozenset()


def peer_of(contact: Contact) -> Hashable:
    return contact.peer


@dataclass(frozen=True, slots=True)
class Rule:
    """Which members of a line are taken: in order, of each place the first, of each wide place at most `wide_max`
    places.  What `place_of` and `wide_of` say is the same for all positions of a peer, and for all peers of a place.

    Where a line has too few places, members that were passed over fill the gap, in order, each peer once: copies on
    one network are better than none.
    """

    copies: int
    place_of: Callable[[Contact], Hashable] = peer_of
    wide_of: Callable[[Contact], Hashable] | None = None
    wide_max: int = 0

    def __post_init__(self) -> None:
        assert self.copies >= 0
        assert self.wide_of is None or self.wide_max > 0, "a wide place that nobody may be of"

    @property
    def is_plain(self) -> bool:
        """Only distinct peers: a member that is passed over was taken already, so no gap is ever filled."""
        return self.place_of is peer_of and self.wide_of is None


def first(
    line: Iterable[Contact], rule: Rule, skip: Container[PeerKey] = NOBODY, slack: int = 0
) -> list[Contact]:
    """What the rule takes of a line in ring order, and `slack` more.  Fewer slack gives a prefix of more."""
    wanted = rule.copies + slack
    found: dict[Hashable, Contact] = {}
    if wanted <= 0:
        return []
    if rule.is_plain:
        for contact in line:
            if contact.peer not in found and contact.peer not in skip:
                found[contact.peer] = contact
                if len(found) == wanted:
                    break
        return list(found.values())
    passed: dict[PeerKey, Contact] = {}
    ahead = Ahead(rule)
    for contact in line:
        if contact.peer in skip:
            continue
        if contact.peer not in found and ahead.takes(contact):
            ahead.add(contact)
            found[contact.peer] = contact
            if len(found) == wanted:
                break
        else:
            passed.setdefault(contact.peer, contact)
    filling = (contact for peer, contact in passed.items() if peer not in found)
    return [*found.values(), *islice(filling, wanted - len(found))]


class Ahead:
    """The places taken along some members, in whatever order they are added.

    The rule takes min(wide_max, places) of each wide place, whichever come first.  So the count does not depend on
    the order of the members, and more members never lower it: a walk *backwards* from a member that adds
    all it meets knows at each step how many stand before the member, and once the member is passed over, it is so for
    everything farther back.
    """

    __slots__ = ("_places", "_rule", "_wides", "count")

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._places: set[Hashable] = set()
        self._wides: dict[Hashable, int] = {}
        self.count = 0

    def takes(self, contact: Contact) -> bool:
        """Would it be taken after them all?"""
        rule = self._rule
        if rule.place_of(contact) in self._places:
            return False
        return rule.wide_of is None or self._wides.get(rule.wide_of(contact), 0) < rule.wide_max

    def add(self, contact: Contact) -> None:
        rule = self._rule
        place = rule.place_of(contact)
        if place in self._places:
            return
        self._places.add(place)
        if rule.wide_of is not None:
            wide = rule.wide_of(contact)
            taken = self._wides.get(wide, 0)
            if taken == rule.wide_max:
                return
            self._wides[wide] = taken + 1
        self.count += 1


def start_of(me: Contact, back: Iterable[Contact], rule: Rule, slack: int = 0) -> Key:
    """Where what I hold for this position begins: at the nearest of those before me, walking back, from which on too
    many others come first, or my own next position takes over.  The whole circle gives my own position.

    Right where the line has enough places for the rule (see `Table.share`).
    """
    wanted = rule.copies + slack
    if rule.is_plain:
        peers = set()
        for contact in back:
            peers.add(contact.peer)
            if len(peers) >= wanted or contact.peer == me.peer:
                return contact.position
        return me.position
    ahead = Ahead(rule)
    for contact in back:
        ahead.add(contact)
        if ahead.count >= wanted or not ahead.takes(me):
            return contact.position
    return me.position


def own_arcs(
    nodes: Iterable[tuple[Contact, Contact | None]],
    before: Callable[[Key], Iterable[Contact]],
    rule: Rule,
) -> tuple[Arc, ...]:
    """What a host must hold for each of its positions, sorted by end: of each it knows the predecessor, as the ring
    has it; all others `before` a key, walking back, are the table's.
    """
    arcs = []
    for me, predecessor in nodes:
        nearest = () if predecessor is None else (predecessor,)
        arcs.append(Arc(start_of(me, chain(nearest, before(me.position)), rule), me.position))
    return tuple(sorted(arcs, key=attrgetter("end")))
