"""Which links go to which peer, in which order? One pass around the ring that serves all holders (thesis §4.6).

The links are sorted by key. Going around once from our own position, each stretch of the ring with links in it names
its six holders; a holder of several stretches (six, for each of its positions) gets them together, at the place
where the walk first meets it. This is the thesis's rotating array, written as a table of ranges.
"""

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

from dht.core.holders import Table
from dht.core.ids import KEY_BYTES, Key, PeerKey
from dht.core.records import Contact


class Keys:
    """Sorted keys in one piece of memory: 20 bytes each."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data) // KEY_BYTES

    def __getitem__(self, place: int) -> Key:
        return Key(self.data[place * KEY_BYTES : (place + 1) * KEY_BYTES])

    def up_to(self, end: Key) -> int:
        """How many are at most `end`."""
        return bisect_right(self, end)

    def place(self, key: Key) -> int:
        """Where it is, or would be."""
        return bisect_left(self, key)


@dataclass(slots=True)
class WalkStop:
    """A peer, and which of the sorted keys it is to get."""

    contact: Contact
    ranges: list[tuple[int, int]] = field(default_factory=list)

    def places(self) -> Iterator[int]:
        for start, end in self.ranges:
            yield from range(start, end)


def mark_of(keys: Keys, stop: WalkStop) -> bytes:
    """Two stops of one walk have the same only where the later one has nothing more: keys may go from a walk's list
    between its first plan and another, as some are delivered, but none comes.
    """
    ends = b"".join(keys[start] + keys[end - 1] for start, end in stop.ranges)
    return hashlib.sha1(ends, usedforsecurity=False).digest()


def stops_of(keys: Keys, ring: Table, own: Contact) -> list[WalkStop]:
    """In ring order from our own position; ourselves left out."""
    stops: dict[PeerKey, WalkStop] = {}
    for stretch, start, end in ring.runs(keys, own.position):
        for contact in ring.holders(stretch):
            if contact.peer != own.peer:
                stop = stops.setdefault(PeerKey(contact.peer), WalkStop(contact))
                if stop.ranges and stop.ranges[-1][1] == start:
                    stop.ranges[-1] = (stop.ranges[-1][0], end)
                else:
                    stop.ranges.append((start, end))
    return list(stops.values())
