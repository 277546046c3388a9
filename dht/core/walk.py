"""How does a sorted batch get around the ring without a lookup per key?  (Thesis §4.4.3.)

Items are sorted by position from our own.  Each stop takes what lies in its arc; its answer names its arc
and its successors, which says where the rest belongs.  The membership table lets the walk skip peers for
which there is nothing; the answers correct the table. Who had much to take names few successors: the next keys
are near, and sixteen contacts would weigh as much as ten links.  A dead stop is passed by.  Only an item that is
refused again and again costs a lookup, and what cannot be delivered at all stays with the caller.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from dht.core import rules as bounds
from dht.core.effects import BatchDelivered, WalkDone
from dht.core.host import Host
from dht.core.ids import CIRCLE, Key, distance, is_in_arc
from dht.core.lookup import Found
from dht.core.messages import BATCH_ITEMS_MAX, Batch, BatchReply, Item, Reply
from dht.core.records import Contact

LEARNED_MAX = 256
ITEM_OVERHEAD_BYTES = 28


class WalkGuide(Protocol):
    def guess_owner(self, key: Key) -> Contact | None: ...
    def is_unwell(self, contact: Contact) -> bool: ...
    def find_owner(self, key: Key, done: Callable[[Found, float], None], now: float) -> None: ...


class Walk:
    def __init__(self, host: Host, guide: WalkGuide, walk_id: int, items: Sequence[Item]) -> None:
        self._host = host
        self._guide = guide
        self.id = walk_id
        start = host.me.position
        ahead = sorted(items, key=lambda item: distance(start, item.key) or CIRCLE)
        self._items: list[Item | None] = [*ahead]
        self._at = 0  # the first that is still ours; those after it that are not are None
        self._undelivered: list[Item] = []
        self._learned: list[Contact] = []  # successors named by earlier stops, sorted by position
        self._refused: set[Contact] = set()  # for the present first key
        self._tries = 0
        self._stops = 0
        self._lookups = 0
        self.is_done = False

    def go(self, now: float) -> None:
        first = self._first()
        if first is None:
            self._finish()
            return
        key = first.key
        if self._tries >= bounds.WALK_TRIES_PER_KEY:
            self._give_up(first, now)
        elif self._tries == bounds.WALK_TRIES_PER_KEY - 1:
            self._lookups += 1
            self._guide.find_owner(key, self._looked_up, now)
        else:
            target = self._owner_by_sight(key)
            if target is None:
                self._tries = bounds.WALK_TRIES_PER_KEY - 1
                self.go(now)
            else:
                self._visit(target, now)

    def _first(self) -> Item | None:
        items = self._items
        while self._at < len(items) and items[self._at] is None:
            self._at += 1
        return items[self._at] if self._at < len(items) else None

    def _owner_by_sight(self, key: Key) -> Contact | None:
        """The nearest at or after the key that we know, by the table or by an earlier stop."""
        seen = [self._guide.guess_owner(key), self._first_learned(key)]
        usable = [
            c for c in seen if c is not None and c not in self._refused and not self._guide.is_unwell(c)
        ]
        return min(usable, key=lambda c: distance(key, c.position), default=None)

    def _first_learned(self, key: Key) -> Contact | None:
        count = len(self._learned)
        place = bisect_left(self._learned, key, key=lambda contact: contact.position)
        for step in range(count):
            contact = self._learned[(place + step) % count]
            if contact not in self._refused and not self._guide.is_unwell(contact):
                return contact
        return None

    def _looked_up(self, found: Found, now: float) -> None:
        if self.is_done:
            return
        if found.holders:
            self._visit(found.holders[0], now)
        else:
            self._tries += 1
            self.go(now)

    def _visit(self, target: Contact, now: float) -> None:
        """Give it what lies between the first key and itself; its answer says how much of that it took."""
        part = self._part_for(target)
        self._stops += 1
        request = Batch(id=self._host.new_id(), target=target.index, items=tuple(part.values()))
        done = partial(self._visited, target, part)
        self._host.ask(target, request, done, now, timeout_s=self._host.rules.batch_timeout_s)

    def _part_for(self, target: Contact) -> dict[int, Item]:
        """By place in `_items`."""
        items, part = self._items, dict[int, Item]()
        first, size = items[self._at], 0
        assert first is not None
        reach = distance(first.key, target.position)
        for place in range(self._at, len(items)):
            item = items[place]
            if item is None:
                continue
            size += len(item.payload) + ITEM_OVERHEAD_BYTES
            is_full = size > self._host.rules.batch_bytes_max or len(part) == BATCH_ITEMS_MAX
            if is_full or distance(first.key, item.key) > reach:
                break
            part[place] = item
        return part

    def _visited(self, target: Contact, part: dict[int, Item], reply: Reply | None, now: float) -> None:
        if self.is_done:
            return
        if isinstance(reply, BatchReply):
            self._learn(reply.successors)
            start, end = reply.arc_start, reply.arc_end
            taken = {place: item for place, item in part.items() if is_in_arc(start, item.key, end)}
            if taken:
                delivered = BatchDelivered(walk=self.id, to=target, items=tuple(taken.values()))
                self._host.effects.append(delivered)
                for place in taken:
                    self._items[place] = None
                if self._at in taken:
                    self._tries = 0
                    self._refused.clear()
                    self.go(now)
                    return
        self._refused.add(target)
        self._tries += 1
        self.go(now)

    def _learn(self, contacts: tuple[Contact, ...]) -> None:
        known = {contact.position: contact for contact in (*self._learned, *contacts)}
        self._learned = [known[position] for position in sorted(known)]
        if len(self._learned) > LEARNED_MAX:
            first = self._first()
            assert first is not None, "what was answered is not yet taken out"
            place = bisect_left(self._learned, first.key, key=lambda contact: contact.position)
            ahead = self._learned[place:] + self._learned[:place]
            self._learned = sorted(ahead[:LEARNED_MAX], key=lambda contact: contact.position)

    def _give_up(self, first: Item, now: float) -> None:
        for place in range(self._at, len(self._items)):
            item = self._items[place]
            if item is not None:
                if item.key != first.key:
                    break
                self._undelivered.append(item)
                self._items[place] = None
        self._tries = 0
        self._refused.clear()
        self._host.at(now, self.go)

    def _finish(self) -> None:
        self.is_done = True
        done = WalkDone(
            walk=self.id, undelivered=tuple(self._undelivered), stops=self._stops, lookups=self._lookups
        )
        self._host.effects.append(done)
