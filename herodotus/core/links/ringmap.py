"""Who holds which keys, as far as we know the ring? Stretches of the circle, and the holders of each.

Between two neighbouring positions all keys have the same holders: the owner and the next distinct hosts. So links are
looked up by stretch, not one by one. A map is a snapshot; where it is wrong, the receivers' answers say so.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping

from dht.core.ids import Key, PeerKey
from dht.core.records import Contact

LOST = frozenset({"dead", "departed"})
"""Words of the ring's clocks for those whom two witnesses found dead; "unreachable" is one peer's impression."""


class RingMap:
    def __init__(self, contacts: Iterable[Contact], clocks: Mapping[PeerKey, str] | None = None) -> None:
        """`clocks` names those who are not well; the lost are no holders."""
        lost = {peer for peer, clock in (clocks or {}).items() if clock in LOST}
        known = {contact.position: contact for contact in contacts if contact.peer not in lost}
        self._positions = sorted(known)
        self._contacts = [known[position] for position in self._positions]
        self._holders: dict[tuple[int, int], tuple[Contact, ...]] = {}

    def __len__(self) -> int:
        return len(self._positions)

    @property
    def peers(self) -> int:
        return len({contact.peer for contact in self._contacts})

    def stretch(self, key: Key) -> int:
        """The number of the stretch that the key lies in: the place of its owner."""
        place = bisect_left(self._positions, key)
        return place if place < len(self._positions) else 0

    def end(self, stretch: int) -> Key:
        return self._positions[stretch]

    def holders(self, stretch: int, copies: int) -> tuple[Contact, ...]:
        """The owner and the next distinct hosts; fewer where the ring is smaller."""
        found = self._holders.get((stretch, copies))
        if found is None:
            found = self._holders[stretch, copies] = self._find(stretch, copies)
        return found

    def holders_of(self, key: Key, copies: int) -> tuple[Contact, ...]:
        return self.holders(self.stretch(key), copies) if self._positions else ()

    def _find(self, stretch: int, copies: int) -> tuple[Contact, ...]:
        found: dict[PeerKey, Contact] = {}
        count = len(self._contacts)
        for step in range(count):
            contact = self._contacts[(stretch + step) % count]
            found.setdefault(contact.peer, contact)
            if len(found) == copies:
                break
        return tuple(found.values())

    def owned(self, peer: bytes) -> list[tuple[Key, Key]]:
        """The arcs (start, end] of which the peer is the first live holder; the whole circle where it is alone."""
        contacts, count = self._contacts, len(self._contacts)
        return [
            (self._positions[place - 1], self._positions[place])
            for place in range(count)
            if contacts[place].peer == peer
        ]

    def stands_in(self, peer: bytes, copies: int) -> list[tuple[int, int]]:
        """(rank, stretch) of what the peer holds, the stretches that it owns (rank 0) included."""
        count, found = len(self._contacts), dict[int, int]()
        for place in range(count):
            if self._contacts[place].peer != peer:
                continue
            hosts = set[bytes]()
            for step in range(count):  # back from its position, until enough others come before it
                stretch = (place - step) % count
                hosts.add(self._contacts[stretch].peer)
                if len(hosts - {peer}) >= copies:
                    break
                ranks: list[bytes] = [one.peer for one in self.holders(stretch, copies)]
                if peer in ranks:
                    found[stretch] = ranks.index(peer)
        return sorted((rank, stretch) for stretch, rank in found.items())

    def arc(self, stretch: int) -> tuple[Key, Key]:
        return self._positions[stretch - 1], self._positions[stretch]

    def with_more(self, contacts: Iterable[Contact]) -> "RingMap":
        """Beside those known, somebody that a receiver told of."""
        return RingMap((*self._contacts, *contacts))
