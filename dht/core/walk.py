"""How does a sorted batch get around the ring without a lookup per key?  (Thesis §4.4.3.)

Items are sorted by position from our own.  Each stop takes what lies in its arc; its answer names its arc
and its successors, which says where the rest belongs.  The membership table lets the walk skip peers for
which there is nothing; the answers correct the table.  A dead stop is passed by.  Only an item that is
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
        self._rest = sorted(items, key=lambda item: distance(start, item.key) or CIRCLE)
        self._undelivered: list[Item] = []
        self._learned: list[Contact] = []  # successors named by earlier stops, sorted by position
        self._refused: set[Contact] = set()  # for the present first key
        self._tries = 0
        self._stops = 0
        self._lookups = 0
        self.is_done = False

    def go(self, now: float) -> None:
        if not self._rest:
            self._finish()
            return
        key = self._rest[0].key
        if self._tries >= bounds.WALK_TRIES_PER_KEY:
            self._give_up(key, now)
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
        first, size, part = self._rest[0].key, 0, []
        for item in self._rest[:BATCH_ITEMS_MAX]:
            size += len(item.payload) + ITEM_OVERHEAD_BYTES
            if size > self._host.rules.batch_bytes_max or distance(first, item.key) > distance(
                first, target.position
            ):
                break
            part.append(item)
        self._stops += 1
        request = Batch(id=self._host.new_id(), target=target.index, items=tuple(part))
        done = partial(self._visited, target, tuple(part))
        self._host.ask(target, request, done, now, timeout_s=self._host.rules.batch_timeout_s)

    def _visited(self, target: Contact, part: tuple[Item, ...], reply: Reply | None, now: float) -> None:
        if self.is_done:
            return
        if isinstance(reply, BatchReply):
            self._learn(reply.successors)
            taken = {id(item) for item in part if is_in_arc(reply.arc_start, item.key, reply.arc_end)}
            if taken:
                kept = tuple(item for item in part if id(item) in taken)
                self._host.effects.append(BatchDelivered(walk=self.id, to=target, items=kept))
                is_first_taken = id(self._rest[0]) in taken
                self._rest = [item for item in self._rest if id(item) not in taken]
                if is_first_taken:
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
            place = bisect_left(self._learned, self._rest[0].key, key=lambda contact: contact.position)
            ahead = self._learned[place:] + self._learned[:place]
            self._learned = sorted(ahead[:LEARNED_MAX], key=lambda contact: contact.position)

    def _give_up(self, key: Key, now: float) -> None:
        self._undelivered += [item for item in self._rest if item.key == key]
        self._rest = [item for item in self._rest if item.key != key]
        self._tries = 0
        self._refused.clear()
        self._host.at(now, self.go)

    def _finish(self) -> None:
        self.is_done = True
        done = WalkDone(
            walk=self.id, undelivered=tuple(self._undelivered), stops=self._stops, lookups=self._lookups
        )
        self._host.effects.append(done)
