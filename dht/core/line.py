"""Whom does the rule of places take along the circle?  The members of one table in order, who of them count, and the
walks from a key and back from a member.

`holders(key)`: from the key on, members of age whose positions count.  A member whose place was taken is passed over,
and one whose area has a third of the copies.  Where too few are found, those that were passed over fill the gap:
copies in one place are better than none.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from dht.core.arcs import Arc
from dht.core.crowds import crowding, left_in
from dht.core.ids import CIRCLE, Key, PeerKey, number_of
from dht.core.placement import NOBODY, Ahead, Rule
from dht.core.places import Standing, born_elsewhere, standing_at
from dht.core.records import Contact

NO_AREA_FULL = 1 << 30
PEER_OF = attrgetter("peer")


@dataclass(slots=True)
class _Taken:
    """By one walk, so far."""

    skip: Collection[PeerKey]
    members: dict[PeerKey, Contact] = field(default_factory=dict)
    places: set[bytes] = field(default_factory=set)
    areas: dict[bytes, int] = field(default_factory=dict)
    unbound: int = 0
    """Places without a reach."""

    def take(self, contact: Contact, standing: Standing) -> None:
        place, area, _, born, born_area = standing
        self.members[contact.peer] = contact
        self.places.add(place)
        self.areas[area] = self.areas.get(area, 0) + 1
        if born:
            self.places.add(born)
            if born_area != area:
                self.areas[born_area] = self.areas.get(born_area, 0) + 1


class Line:
    """`contacts` in the order of the circle, with their `positions`; a stretch is the number of the one it ends at."""

    def __init__(
        self,
        contacts: Sequence[Contact],
        positions: Sequence[Key],
        rule: Rule,
        given: Mapping[PeerKey, Standing],
    ) -> None:
        self._all, self._all_positions, self._rule = contacts, positions, rule
        # Tables are made often and members have several positions: what follows asks each peer once.
        peers = list(map(PEER_OF, contacts))
        weights = Counter(peers)
        self.standings: dict[PeerKey, Standing] = {peer: given[peer] for peer in weights if peer in given}
        if len(self.standings) < len(weights):
            for contact in contacts:
                if contact.peer not in self.standings:
                    standing = standing_at(contact.peer, contact.address.host, rule.places)
                    self.standings[contact.peer] = born_elsewhere(standing, contact, rule.places)
        known = self.standings
        by_place: dict[bytes, int] = {}
        areas: dict[bytes, bytes] = {}
        has_young = False
        self._are_in_two = False
        for peer, (place, area, is_of_age, born, _) in known.items():
            self._are_in_two = self._are_in_two or bool(born)
            if is_of_age:
                by_place[place] = by_place.get(place, 0) + weights[peer]
                areas[place] = area
            else:
                has_young = True
        self._crowding = crowding(by_place, areas, rule)
        self._areas = areas
        self._limited, self._bound = self._reaching(weights)
        most = self._crowding.counted_max
        if has_young:
            self._members = left_in([one for one in contacts if known[one.peer].is_of_age], known, most)
            self._young: Sequence[Contact] = left_in(
                [one for one in contacts if not known[one.peer].is_of_age], known, most
            )
        else:
            is_crowded = self._are_in_two or max(by_place.values(), default=0) > most
            self._members = left_in(contacts, known, most) if is_crowded else contacts
            self._young = ()
        self._young_places = {known[one.peer].place for one in self._young}
        self._is_whole = len(self._members) == len(contacts)
        if not self._is_whole:
            peers = list(map(PEER_OF, self._members))
        self._met = list(map(known.__getitem__, peers))
        self._positions = positions if self._is_whole else [contact.position for contact in self._members]
        self._seats: dict[PeerKey, list[int]] | None = None
        self._is_enough: dict[tuple[int, bool], bool] = {}
        self._capacities: dict[int, int] = {}

    def _reaching(self, positions: Mapping[PeerKey, int]) -> tuple[Collection[PeerKey], Collection[bytes]]:
        """Members that hold only what is in reach, and the places of which all members are such."""
        limited = self._crowding.limited
        reach = self._crowding.reach(self._rule.copies)
        if not limited:
            return NOBODY, limited
        peers, free = set(), set()
        for peer, (place, _, is_of_age, *_) in self.standings.items():
            if not is_of_age:
                continue  # the young hold nothing but where there is nobody else
            if place in limited and positions[peer] * reach < CIRCLE:
                peers.add(peer)
            else:
                free.add(place)
        return peers, limited - free

    # --- from a key

    def holders(self, stretch: int, slack: int, skip: Collection[PeerKey]) -> list[Contact]:
        """The holders, then `slack` more; these alone may have a larger part of one area."""
        rule, taken = self._rule, _Taken(skip)
        self._extend(taken, stretch, rule.copies, rule.area_max())
        if slack:
            self._extend(taken, stretch, rule.copies + slack, rule.area_max(slack))
        return list(taken.members.values())

    def _extend(self, taken: _Taken, stretch: int, wanted: int, area_max: int) -> None:
        """To so many members, as far as there are."""
        self._take_places(taken, stretch, wanted, area_max)
        if len(taken.members) >= wanted:
            return
        # The gap is filled: first from new places, then from any, also by positions that do not count; those of age
        # before the young; last those who gave way.
        self._take_places(taken, stretch, wanted, NO_AREA_FULL)
        self._take_young_places(taken, stretch, wanted)
        reach = self._crowding.reach(wanted)
        wanted = min(wanted, len(self.standings))
        for is_of_age, is_in_reach in ((True, True), (False, True), (True, False)):
            for contact in self._onwards(self._all, stretch):
                if len(taken.members) >= wanted:
                    return
                standing = self.standings[contact.peer]
                is_taken = contact.peer in taken.members or contact.peer in taken.skip
                if standing.is_of_age != is_of_age or is_taken:
                    continue
                if is_in_reach and contact.peer in self._limited and self._away(stretch, contact) > reach:
                    continue
                taken.take(contact, standing)

    def _take_places(self, taken: _Taken, stretch: int, wanted: int, area_max: int) -> None:
        """Members of age, each in a new place, until there can be no more."""
        members, met, limited = self._members, self._met, self._limited
        places, areas, skip = taken.places, taken.areas, taken.skip
        in_all, reach = self._in_all(area_max), self._crowding.reach(wanted) if limited else 0
        begin = bisect_left(self._positions, self._all_positions[stretch])
        for seat in _seats_from(begin, len(members)):
            place, area, _, born, born_area = met[seat]
            is_taken = place in places or areas.get(area, 0) >= area_max
            if is_taken or (born and (born in places or areas.get(born_area, 0) >= area_max)):
                if limited and taken.unbound >= in_all and self._away(stretch, members[seat]) > reach:
                    return
                continue
            contact = members[seat]
            if contact.peer in skip:
                continue
            if limited and contact.peer in limited and self._away(stretch, contact) > reach:
                continue
            taken.unbound += place not in self._bound
            taken.take(contact, met[seat])
            if len(taken.members) >= wanted or (not limited and taken.unbound >= in_all):
                return

    def _take_young_places(self, taken: _Taken, stretch: int, wanted: int) -> None:
        left = len(self._young_places - taken.places)
        for contact in self._onwards(self._young, stretch):
            if len(taken.members) >= wanted or not left:
                return
            standing = self.standings[contact.peer]
            if standing.is_apart(taken.places) and contact.peer not in taken.skip:
                taken.take(contact, standing)
                left -= 1

    def _in_all(self, area_max: int) -> int:
        """Places without a reach that the rule could take at all."""
        known = self._capacities.get(area_max)
        if known is None:
            by_area: dict[bytes, int] = {}
            for place, area in self._areas.items():
                if place not in self._bound:
                    by_area[area] = by_area.get(area, 0) + 1
            known = self._capacities[area_max] = sum(min(area_max, count) for count in by_area.values())
        return known

    def _onwards(self, some: Sequence[Contact], stretch: int) -> Iterator[Contact]:
        """In ring order, once around."""
        begin = bisect_left(some, self._all_positions[stretch], key=attrgetter("position"))
        return (some[seat] for seat in _seats_from(begin, len(some)))

    def _away(self, stretch: int, contact: Contact) -> int:
        """From the begin of a stretch to a member; none sits nearer than the stretch's end."""
        before = stretch - 1
        while (
            before > -len(self._all_positions) and self._all_positions[before] == self._all_positions[stretch]
        ):
            before -= 1
        begin = number_of(self._all_positions[before])
        return (number_of(contact.position) - begin) % CIRCLE or CIRCLE

    def learners(self, stretch: int, holders: Sequence[Contact]) -> list[Contact]:
        """The young met before the last holder; all where a gap was filled, as the walk then went round."""
        if not self._young:
            return []
        rule = self._rule
        found = {contact.peer: contact for contact in holders}
        is_filled = len({self.standings[peer].place for peer in found}) < rule.copies
        end = CIRCLE + 1 if is_filled else max(self._away(stretch, contact) for contact in holders)
        for contact in self._onwards(self._young, stretch):
            if len(found) == len(holders) + rule.copies or self._away(stretch, contact) >= end:
                break
            found.setdefault(contact.peer, contact)
        return list(found.values())[len(holders) :]

    def may_learn(self, peer: PeerKey) -> list[int]:
        """The stretches from each position of a young member back to where others are enough; where a gap is filled or
        members give way, all.
        """
        if not self.is_enough(0, NOBODY):
            return self._stretches_between(0, len(self._all))
        found: set[int] = set()
        for contact in self._young:
            if contact.peer == peer:
                begin, ahead = bisect_left(self._positions, contact.position), Ahead(self._rule)
                seat = begin
                while not ahead.is_enough:
                    seat -= 1
                    ahead.add(self._met[seat])
                after = bisect_right(self._all_positions, self._positions[seat])
                last = bisect_left(self._all_positions, contact.position) + 1
                if seat < 0:  # across zero
                    found.update(self._stretches_between(after, len(self._all)))
                    after = 0
                found.update(self._stretches_between(after, last))
        return sorted(found)

    # --- back from a member

    def is_enough(self, slack: int, missed: Collection[PeerKey]) -> bool:
        """Are no gaps filled and does nobody give way, so that what a position holds is one arc that ends there?"""
        if self._limited or self._are_in_two:
            return False
        known = self._is_enough.get((slack, bool(missed)))
        if known is None:
            ahead = Ahead(self._rule, slack)
            for contact, standing in zip(self._members, self._met, strict=True):
                if contact.peer not in missed:
                    ahead.add(standing)
                    if ahead.is_enough:
                        break
            known = self._is_enough[slack, bool(missed)] = ahead.is_enough
        return known

    def may_hold(self, peer: PeerKey, slack: int, missed: Collection[PeerKey]) -> list[int] | None:
        """Where members count in two places: stretches of which a peer may be a holder, none left out; None: all.

        Whoever a walk passes over shares a place with one that it took, or an area that is full.  While it has taken
        fewer than it wants, w, it has 2 (w - 1) places at most, and as many areas, of which 2 (w - 1) / `area_max` may
        be full.  So once more members than that stand before the peer, no two of them in one area, it is not asked.
        """
        members, count = self._members, len(self._members)
        if self._limited or not self._stand_apart(range(count), slack, missed):
            return None  # a gap may be filled
        found: set[int] = set()
        for own in self._seats_of(peer):
            # The nearest first: where the others stand apart they do so whatever is behind them.
            line = [(own - step) % count for step in range(count)]
            length = self._stand_apart(line[1:], slack, missed) or count
            for seat in line[:length]:
                if members[seat].peer == peer and seat != own:
                    break  # what lies behind is asked from there
                found.update(self._stretches_at(seat))
        return sorted(found)

    def _stand_apart(self, seats: Iterable[int], slack: int, missed: Collection[PeerKey]) -> int:
        """After how many of these enough of them are in areas of their own; 0 if they never are."""
        taken = 2 * (self._rule.copies + slack - 1)
        enough = taken + taken // max(self._rule.area_max(), 1) + 1
        areas: set[bytes] = set()
        for passed, seat in enumerate(seats, 1):
            if self._members[seat].peer in missed:
                continue
            its = {self._met[seat].area, self._met[seat].born_area} - {b""}
            if areas.isdisjoint(its):
                areas |= its
                enough -= 1
                if enough <= 0:
                    return passed
        return 0

    def back(self, peer: PeerKey, slack: int, missed: Collection[PeerKey]) -> Iterator[tuple[int, int]]:
        """(rank, stretch) of what a peer holds, where `is_enough`; the missed count as if they were not there."""
        members, met, count = self._members, self._met, len(self._members)
        for own in self._seats_of(peer):
            me = met[own]
            ahead, rank = Ahead(self._rule, slack), 0
            for step in range(count):
                seat = (own - step) % count
                if step:
                    if members[seat].peer == peer:
                        break
                    if members[seat].peer not in missed:
                        ahead.add(met[seat])
                        found = ahead.rank_of(me)
                        if found is None:
                            break
                        rank = found
                for stretch in self._stretches_at(seat):
                    yield rank, stretch

    def arcs(self, peer: PeerKey, slack: int) -> list[Arc]:
        """The same as arcs, if nobody is missed and no two sit at one position."""
        members, met, count = self._members, self._met, len(self._members)
        found = []
        for own in self._seats_of(peer):
            me, ahead, start = met[own], Ahead(self._rule, slack), own
            for step in range(1, count):
                start = own - step
                ahead.add(met[start])
                if members[start].peer == peer or ahead.rank_of(me) is None:
                    break
            else:
                start = own
            found.append(Arc(members[start].position, members[own].position))
        return found

    def _seats_of(self, peer: PeerKey) -> Sequence[int]:
        if self._seats is None:
            self._seats = {}
            for seat, contact in enumerate(self._members):
                self._seats.setdefault(contact.peer, []).append(seat)
        return self._seats.get(peer, ())

    def _stretches_at(self, seat: int) -> Iterator[int]:
        """Those between this member of the line and the one before it."""
        positions = self._positions
        end, begin = positions[seat], positions[seat - 1]
        if seat and begin == end:
            return  # a twin begins none
        if self._is_whole:
            yield seat
            return
        all_ = self._all_positions
        last, after = bisect_left(all_, end), bisect_right(all_, begin)
        if not seat:
            yield from self._stretches_between(after, len(all_))
            after = 0
        yield from self._stretches_between(after, last + 1)

    def _stretches_between(self, low: int, high: int) -> list[int]:
        """Without those that a second member at one position would begin."""
        all_ = self._all_positions
        return [place for place in range(low, high) if place == 0 or all_[place - 1] != all_[place]]


def _seats_from(seat: int, count: int) -> Iterator[int]:
    """Once around."""
    yield from range(seat, count)
    yield from range(seat)
