"""Who owns this key?  An iterative lookup: the asker takes every step itself, so a liar is seen and nothing
is amplified.

Two kinds of peers are asked.  *Claimed owners* sit at or after the key: somebody named them.  They are
tried nearest first, and one is believed when it says so itself, or at least knows nobody between the key
and itself.
*Stations* sit before the key: they name owners, or stations that are nearer.  When all owners named by a
station are dead, that is not the end: the nearest live station is asked for its whole successor list, in
which the next live entry after the key is the owner.

A list has a say beyond the key only when everybody it names before the key is dead.  While one of them
lives, that one knows better: lists hold distinct hosts, so a farther list may leave the owner out because
its host stands in it already, with another virtual node.  A nearer station that is BUSY is therefore asked
again rather than passed over.  When all ways are used up we read our own lists again, because they now leave
out the members that we found silent on the way.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple, Protocol

from dht.core import rules as bounds
from dht.core.host import MachineHost, OnReply
from dht.core.ids import CIRCLE, Key, distance, is_between
from dht.core.messages import (
    HOLDERS_MAX,
    Busy,
    Closer,
    Find,
    GetState,
    NeighbourState,
    NotMember,
    Owner,
    Reply,
)
from dht.core.records import Contact, SignedRecord


class LookupResult(NamedTuple):
    """What a lookup came to."""

    holders: tuple[Contact, ...]
    hops: int
    timeouts: int
    says_so: bool = False
    """The first of them claims the key itself; else it only knows nobody nearer."""


class Guide(Protocol):
    """What a lookup asks of the machine that runs it."""

    def guess_owner(self, key: Key) -> Contact | None: ...
    def answer(self, request_id: int, key: Key) -> Owner | Closer: ...
    def learned(self, records: Iterable[SignedRecord], now: float) -> None: ...
    def may_sit_there(self, contact: Contact) -> bool: ...


class Lookup:
    def __init__(
        self,
        host: MachineHost,
        guide: Guide,
        key: Key,
        done: Callable[[LookupResult, float], None],
        *,
        is_newcomer: bool = False,
    ) -> None:
        """Before we are a member (`is_newcomer`) our own, nearly empty table has no say."""
        self._host = host
        self._guide = guide
        self._is_newcomer = is_newcomer
        self._done = done
        self._is_over = False
        self.key = key
        self.hops = 0
        self.timeouts = 0
        self._asks = 0
        self._first: list[Contact] = []  # to be asked before anything else
        self._owners: dict[Contact, tuple[Contact, ...]] = {}  # claimed owner -> the holders from it on
        self._stations: set[Contact] = set()
        self._answered: set[Contact] = set()
        self._say_so: set[Contact] = set()
        self._verified: set[Contact] = set()  # owners that said so, or know nobody between the key and them
        self._silent: set[Contact] = set()
        self._stated: set[Contact] = set()
        self._busy = 0

    def start(self, first: Iterable[Contact], stations: Iterable[Contact], now: float) -> None:
        self._first = list(first)
        self._stations.update(stations)
        self._step(now)

    def claim(self, holders: tuple[Contact, ...]) -> None:
        """Somebody names these as owner and followers.  Ourselves at the very key are no owner: we are
        joining there, and the list remembers our former life.
        """
        for place, contact in enumerate(holders):
            if contact.position == self.key and contact.peer == self._host.me.peer:
                continue
            # Each holder is an owner too, should those before it turn out dead; the longest list of followers is kept.
            if len(holders[place:]) >= len(self._owners.get(contact, ())):
                self._owners[contact] = holders[place:]

    # --- steps

    # Invariant: one question is open, or one timer to ask again, until `_finish`. Each answer begins the next step, so
    # the asker alone decides how much a lookup costs (LOOKUP_ASKS_MAX), whatever it is told.

    def _step(self, now: float) -> None:
        assert not self._is_over
        if self._asks >= bounds.LOOKUP_ASKS_MAX:
            self._finish((), now)
            return
        while self._first:
            contact = self._first.pop(0)
            if contact not in self._answered and contact not in self._silent:
                self._find(contact, now)
                return
        if self._try_owner(now) or self._try_station(now) or self._try_list(now):
            return
        if self._consult_ourselves():
            self._step(now)
        else:
            self._finish((), now)

    def _try_owner(self, now: float) -> bool:
        for contact in sorted(self._owners, key=lambda c: distance(self.key, c.position)):
            if contact in self._silent:
                continue
            if contact.peer == self._host.me.peer or contact in self._verified:
                self._finish(self._owners[contact], now)
            elif contact in self._answered:
                self._verify(contact, now)
            else:
                self._find(contact, now)
            return True
        return False

    def _verify(self, contact: Contact, now: float) -> None:
        """It was named owner but does not say so itself: which members does it know before it?"""
        self._ask_state(contact, partial(self._verified_by, contact), now)

    def _verified_by(self, contact: Contact, reply: Reply | None, now: float) -> None:
        if self._is_to_be_asked_again(reply, now):
            return
        if reply is None or isinstance(reply, NotMember):
            self._silent.add(contact)
            self.timeouts += reply is None
        else:
            self._verified.add(contact)
        before = reply.predecessor if isinstance(reply, NeighbourState) else None
        if before is not None and distance(self.key, before.position) < distance(self.key, contact.position):
            self.claim((before, *self._owners[contact])[:HOLDERS_MAX])
        self._step(now)

    def _is_to_be_asked_again(self, reply: Reply | None, now: float) -> bool:
        """BUSY: yes, in a moment; but not for ever."""
        if not isinstance(reply, Busy) or self._busy >= bounds.LOOKUP_BUSY_MAX:
            return False
        self._busy += 1
        self._host.at(now + self._host.random.uniform(bounds.RETRY_MIN_S, bounds.RETRY_MAX_S), self._step)
        return True

    def _try_station(self, now: float) -> bool:
        """Ask the nearest station; but one that is behind a live station only when that one's list has not
        helped.
        """
        unasked = [c for c in self._stations if c not in self._answered and c not in self._silent]
        if not unasked:
            return False
        nearest = min(unasked, key=self._way_to_go)
        listable = self._nearest_listable()
        if listable is not None and self._way_to_go(listable) < self._way_to_go(nearest):
            return False
        self._find(nearest, now)
        return True

    def _way_to_go(self, contact: Contact) -> int:
        return distance(contact.position, self.key)

    def _nearest_listable(self) -> Contact | None:
        live = [c for c in self._answered if c in self._stations and c not in self._stated]
        return min(live, key=self._way_to_go, default=None)

    def _try_list(self, now: float) -> bool:
        """Skip the dead: whose list reaches over the key?  The nearest live station's."""
        station = self._nearest_listable()
        if station is None:
            return False
        self._stated.add(station)
        self._ask_state(station, partial(self._listed, station), now)
        return True

    def _ask_state(self, contact: Contact, done: OnReply, now: float) -> None:
        self._asks += 1
        request = GetState(id=self._host.new_id(), source=self._host.me, target=contact.index, known=0)
        self._host.ask(contact, request, done, now)

    def _find(self, contact: Contact, now: float) -> None:
        self._asks += 1
        request = Find(id=self._host.new_id(), key=self.key)
        self._host.ask(contact, request, partial(self._found, contact), now)

    # --- answers

    def _found(self, contact: Contact, reply: Reply | None, now: float) -> None:
        if reply is None:
            self._silent.add(contact)
            self.timeouts += 1
        else:
            self._answered.add(contact)
            self.hops += 1
        if isinstance(reply, Owner) and reply.holders:
            self._guide.learned(reply.records, now)
            if reply.holders[0].peer == contact.peer:
                self._claims_itself(contact, reply, now)
                return
            self._stations.add(contact)
            self.claim(reply.holders)
        elif isinstance(reply, Closer):
            self._closer(contact, reply)
        self._step(now)

    def _claims_itself(self, contact: Contact, reply: Owner, now: float) -> None:
        """Believed, unless we know a living peer between the key and it; then that one is asked first.

        A position follows from an address, and this peer has answered at one.  So it speaks for positions of that
        address, and of its record where we have it: else whoever is asked would name an address of which nobody
        answers, next to any key that it wants to own.
        """
        owner = reply.holders[0]
        if owner.address.host != contact.address.host or not self._guide.may_sit_there(owner):
            self._host.counts["lookup claims forged"] += 1
            self._silent.add(contact)
            self._step(now)
            return
        self._answered.add(owner)
        self._verified.add(owner)
        self._say_so.add(owner)
        self.claim(reply.holders)
        rival = None if self._is_newcomer else self._guide.guess_owner(self.key)
        if (
            rival is not None
            and rival not in self._answered
            and rival not in self._silent
            and rival.peer != self._host.me.peer
            and distance(self.key, rival.position) < distance(self.key, owner.position)
        ):
            self._first.append(rival)
        self._step(now)

    def _closer(self, contact: Contact, reply: Closer) -> None:
        for nearer in reply.contacts:
            if nearer == contact or nearer.peer == self._host.me.peer:
                continue
            # Every step must come nearer to the key, so a lookup ends. A station that names one behind itself would
            # send us in circles, by mistake or on purpose.
            if is_between(contact.position, nearer.position, self.key):
                self._stations.add(nearer)
            elif nearer not in self._stations:
                self._host.counts["lookup steps backwards"] += 1
        if distance(contact.position, self.key) < CIRCLE // 2:
            self._stations.add(contact)

    def _listed(self, station: Contact, reply: Reply | None, now: float) -> None:
        if self._is_to_be_asked_again(reply, now):
            self._stated.discard(station)
            return
        if isinstance(reply, NeighbourState):
            self._read_list(station, reply.successors)
        elif not isinstance(reply, Busy):
            self._silent.add(station)  # silent, or not a member (any more)
            self.timeouts += reply is None
        self._step(now)

    def _read_list(self, station: Contact, line: tuple[Contact, ...]) -> None:
        before = [c for c in line if is_between(station.position, c.position, self.key)]
        nearer = {c for c in before if c not in self._silent and c.peer != self._host.me.peer}
        self._stations |= nearer
        if nearer:
            if nearer - self._answered:
                self._stated.discard(station)  # to be read again should they all be dead
            return
        after = line[len(before) :]
        for place in range(len(after)):
            self.claim(after[place : place + HOLDERS_MAX])

    def _consult_ourselves(self) -> bool:
        """Is there a way that we did not know of, or did not take, when we began?"""
        if self._is_newcomer:
            return False
        way, tried = self._guide.answer(0, self.key), self._answered | self._silent
        if isinstance(way, Owner):
            self.claim(way.holders)
            return any(contact not in tried for contact in way.holders)
        unasked = {contact for contact in way.contacts if contact not in tried}
        self._stations |= unasked
        return bool(unasked)

    def _finish(self, holders: tuple[Contact, ...], now: float) -> None:
        assert not self._is_over, "a lookup ends once"
        self._is_over = True
        assert self._asks <= bounds.LOOKUP_ASKS_MAX, "whatever a lookup is told, it costs no more"
        living = tuple(c for c in holders if c not in self._silent)
        says_so = bool(living) and living[0] in self._say_so
        self._done(LookupResult(living, self.hops, self.timeouts, says_so=says_so), now)
