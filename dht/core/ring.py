"""Who comes after me, and who before?  One virtual node of the ring: Chord's operations as Zave corrected
them.

* **stabilize**: ask the first successor for its lists.  What answers is adopted with its *whole* list; what
  is silent is passed by.  Then the closest candidate between us (its predecessor, or a table entry) is
  asked, and only its own answer makes it the first successor.  Then it is notified, unless it just told us
  that we are its predecessor.  Where the first is silent all the others are pinged at once, for the dead
  come in runs; and when nobody of the list is left, the table is asked in the same step.
* **rectify**, on being notified: take a closer predecessor; ping the present one before taking a farther
  one.  Nothing else ever writes `predecessor`.

While a step of ours awaits an answer we say BUSY to those who ask for our state, and a step that meets BUSY
is abandoned whole and tried again soon.  (Waiting instead would deadlock small rings in which everybody
waits for the next.)  As lists hold distinct hosts, the entries left out are on hosts listed earlier: they
die together, so the first live entry is right.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from itertools import islice
from operator import is_not

from dht.core import placement
from dht.core import rules as bounds
from dht.core.effects import RingChanged
from dht.core.host import MachineHost
from dht.core.ids import Key, PeerKey, is_between, is_in_arc
from dht.core.membership import MemberTable
from dht.core.messages import (
    Busy,
    GetState,
    NeighbourState,
    Notify,
    NotMember,
    Ping,
    Reply,
    Unchanged,
)
from dht.core.records import U32, Contact

RETRY_SPREAD_S = bounds.RETRY_MAX_S - bounds.RETRY_MIN_S


def merged(me: Contact, first: Contact, following: tuple[Contact, ...], length: int) -> tuple[Contact, ...]:
    """The list of a peer that adopts `first`: it and its successors, in ring order, one per host, ending before
    ourselves.
    """
    return tuple(placement.first(_in_order(me, first, following), length))


# Why a list is taken over whole: if the first entry is alive and its list was right when it answered, ours is right but
# for the peers that came or went since. One that is put together from what several peers said mixes several moments,
# and nobody vouches for the whole.
def _in_order(me: Contact, first: Contact, following: Iterable[Contact]) -> Iterator[Contact]:
    last = first.position
    yield first
    for contact in following:
        if contact.position == me.position:
            return  # once around
        if is_between(last, contact.position, me.position):
            last = contact.position
            yield contact
        # else out of order: somebody is confused or lies


class VirtualNode:
    __slots__ = (
        "_adopted", "_are_pinged", "_asks_since_afresh",
        "_changed_at", "_host", "_is_desperate", "_known", "_next_at", "_not_members",
        "_notifies", "_on_change", "_passed_over", "_table", "_tried", "_unwell", "contact", "is_busy", "is_member",
        "predecessor", "successors", "version", )  # fmt: skip

    def __init__(
        self,
        host: MachineHost,
        table: MemberTable,
        unwell: Collection[PeerKey],
        contact: Contact,
        on_change: Callable[["VirtualNode", float], None],
    ) -> None:
        self._host = host
        self._table = table
        self._unwell = unwell
        self._on_change = on_change
        self.contact = contact
        self.predecessor: Contact | None = None
        self.successors: tuple[Contact, ...] = ()
        self.version = host.random.randrange(1, U32 // 2)  # a restarted node never looks unchanged
        self.is_member = False
        self.is_busy = False
        # The last full state of the first successor, and which list was taken from which state.
        self._known: tuple[Contact, NeighbourState] | None = None
        self._adopted: tuple[NeighbourState, tuple[Contact, ...]] | None = None
        self._are_pinged = False  # the whole list, in the present step
        self._is_desperate = False  # nobody of the list was left in the present step
        self._tried: list[Key] = []  # in the present step
        self._changed_at = 0.0
        self._next_at = float("inf")
        self._not_members = 0
        self._asks_since_afresh = 0
        self._notifies: deque[Contact] = deque(maxlen=bounds.NOTIFIES_QUEUED_MAX)
        self._passed_over: OrderedDict[Key, float] = OrderedDict()

    # --- becoming and being a member

    def create(self, now: float) -> None:
        """A ring of one."""
        self.is_member = True
        self._changed(now)
        self._schedule(now, self._period(now))

    def join(self, owner: Contact, state: NeighbourState, now: float) -> None:
        """Take over the list of the owner of our position, who just told it to us."""
        assert not self.is_member, "a node joins once"
        self.is_member = True
        self._adopt(owner, state, now)
        self._notify(owner, now)
        self._schedule(now, self._soon())

    def restore(self, predecessor: Contact | None, successors: tuple[Contact, ...], now: float) -> None:
        """Begin with lists known from elsewhere; stabilize will correct them."""
        self.is_member = True
        self.predecessor, self.successors = predecessor, successors
        self._changed(now)
        self._schedule(now, self._host.random.uniform(0, self._host.rules.stabilize_s))

    def leave(self) -> None:
        self.is_member = self.is_busy = False
        self._next_at = float("inf")
        self._notifies.clear()

    def owns(self, key: Key) -> bool:
        """As far as we know: from our predecessor on; alone, everything; just joined, nothing yet."""
        if not self.is_member:
            return False
        if self.predecessor is not None:
            return is_in_arc(self.predecessor.position, key, self.contact.position)
        return not self.successors

    # --- stabilize

    def hurry(self, now: float) -> None:
        """Stabilize soon: something happened nearby."""
        if self.is_member and self._next_at - now > bounds.RETRY_MAX_S:
            self._schedule(now, self._soon())

    def met(self, contact: Contact, now: float) -> None:
        """Our table took somebody in, or let somebody go: does it touch our first successor?"""
        if not self.successors:
            if contact.peer != self._host.me.peer:
                self.hurry(now)
            return
        first = self.successors[0]
        if contact == first or is_between(self.contact.position, contact.position, first.position):
            self.hurry(now)

    def found_at(self, contact: Contact, now: float) -> None:
        """A member sits where it sat, and is called at another address: our lists name that from now on."""
        self.predecessor, before = self._renewed(self.predecessor, contact), self.predecessor
        lists = tuple(self._renewed(one, contact) or one for one in self.successors)
        is_new = before is not self.predecessor or any(map(is_not, lists, self.successors))
        if is_new:
            self.successors = lists
            self._changed(now)

    @staticmethod
    def _renewed(listed: Contact | None, contact: Contact) -> Contact | None:
        is_elsewhere = listed is not None and listed == contact and listed.address != contact.address
        return contact if is_elsewhere else listed

    def _tick(self, now: float) -> None:
        if now < self._next_at or not self.is_member:
            return  # an entry of an older schedule
        self._next_at = float("inf")
        if self.is_busy:
            self._schedule(now, self._soon())
            return
        self.is_busy = True  # until `_finish`: a peer that asks for our state meanwhile gets BUSY
        self._are_pinged = self._is_desperate = False
        self._tried.clear()
        self._ask_next(deque(self._living_successors()), now)

    def _living_successors(self) -> Iterable[Contact]:
        """Candidates for our first successor, the nearest first.  If none is left: any known member."""
        if self.successors and not self._unwell and not self._passed_over:
            return self.successors  # nearly always
        living = [s for s in self.successors if s.peer not in self._unwell and not self._is_passed(s)]
        if living:
            return living
        others = (
            contact
            for contact in self._table.clockwise(self.contact.position, self._unwell)
            if contact != self.contact and not self._is_passed(contact)
        )
        known = list(islice(others, bounds.TRIES))
        if self.predecessor is not None and self.predecessor not in known:
            known.append(self.predecessor)
        if known:
            return known
        return self._host.random.sample(self.successors, min(bounds.TRIES, len(self.successors)))

    def _ask_next(self, targets: deque[Contact], now: float) -> None:
        assert self.is_busy, "only a step asks"
        if not targets:
            self._finish(now, self._period(now))
            return
        target = targets.popleft()
        self._tried.append(target.position)
        # With the version that we know the answer is short where nothing changed (UNCHANGED). Now and then we ask for
        # the whole state all the same, so that no stale or false list is kept for long.
        known = self._known[1].version if self._known and self._known[0] == target else 0
        self._asks_since_afresh += 1
        is_due = self._asks_since_afresh >= bounds.STATE_AFRESH_ASKS_MAX  # a long run of bad luck ends here
        if self._host.random.random() < bounds.STATE_AFRESH or is_due:
            known = 0
        if known == 0:
            self._asks_since_afresh = 0
        self._ask_state(target, known, partial(self._first_answered, target, targets), now)

    def _first_answered(self, target: Contact, rest: deque[Contact], reply: Reply | None, now: float) -> None:
        if not self.is_busy:
            return  # we left meanwhile
        if reply is None:
            self._ping_all(rest, now)
            self._ask_next(self._who_is_left(rest), now)
        elif self._has_moved(target):
            self._pass_over(target, now)
            self._ask_next(self._who_is_left(rest), now)
        elif (
            isinstance(reply, (NeighbourState, Unchanged))
            and (back := self._is_back_before(target)) is not None
        ):
            self._ask_next(deque((back, target, *rest)), now)
        elif isinstance(reply, NeighbourState):
            self._known = (target, reply)
            self._adopted_first(target, reply, now)
        elif isinstance(reply, Unchanged) and self._known is not None and self._known[0] == target:
            self._adopted_first(target, self._known[1], now)
        elif isinstance(reply, NotMember) and target not in self.successors:
            self._pass_over(target, now)
            self._ask_next(rest, now)
        else:
            if isinstance(reply, NotMember):
                self._count_not_member(target, now)
            self._finish(now, self._soon())  # BUSY: abandon the step whole

    def _who_is_left(self, rest: deque[Contact]) -> deque[Contact]:
        """Those still to be asked that nobody found silent meanwhile; else, once in a step, others."""
        left = deque(contact for contact in rest if contact.peer not in self._unwell)
        if not left and not self._is_desperate:
            self._is_desperate = True
            left.extend(self._living_successors())
        return left

    def _is_back_before(self, target: Contact) -> Contact | None:
        """A nearer one of our list that was passed by when this step began, and has been heard of since."""
        if not self.successors or target == self.successors[0]:
            return None  # nearly always
        back = (
            contact
            for contact in self.successors
            if is_between(self.contact.position, contact.position, target.position)
            and contact.position not in self._tried
            and contact.peer not in self._unwell
            and not self._is_passed(contact)
        )
        return next(back, None)

    def _ping_all(self, contacts: Iterable[Contact], now: float) -> None:
        """The first is silent, so the next may be too.  All are tried at once, so that a run of dead hosts
        costs the patience for two of them, not for each; the detector notes who stays silent.
        """
        if not self._are_pinged:
            self._are_pinged = True
            for contact in contacts:
                self._host.ask(contact, Ping(id=self._host.new_id()), _taken, now)

    def _adopted_first(self, first: Contact, state: NeighbourState, now: float) -> None:
        self._not_members = 0
        was_changed = self._adopt(first, state, now)
        candidate = self._candidate(first, state)
        if candidate is not None:
            self._ask_state(candidate, 0, partial(self._candidate_answered, candidate, state), now)
        else:
            self._conclude(state, was_changed, now)

    def _candidate(self, first: Contact, state: NeighbourState) -> Contact | None:
        """The nearest that may sit between us and the first successor: only a candidate, for it is hearsay. It becomes
        the first when it answers itself, else a liar or a dead peer could be put between us and the living.
        """
        if state.predecessor == self.contact:
            nearest = self._table.next_after(self.contact.position)
            if nearest is not None and nearest.position == first.position:
                return None  # nearly always
        best: Contact | None = None
        following = self._table.clockwise(self.contact.position, self._unwell)
        near = (
            c
            for c in following
            if c != self.contact and c.peer != self._host.me.peer and not self._is_passed(c)
        )
        for other in (state.predecessor, next(near, None)):
            if other is None or other.peer in self._unwell or self._is_passed(other):
                continue
            end = best.position if best else first.position
            if is_between(self.contact.position, other.position, end):
                best = other
        return best

    def _candidate_answered(
        self, candidate: Contact, first_state: NeighbourState, reply: Reply | None, now: float
    ) -> None:
        if not self.is_busy:
            return
        if isinstance(reply, NeighbourState):
            self._known = (candidate, reply)
            self._adopt(candidate, reply, now)
            self._conclude(reply, True, now)
        elif isinstance(reply, Busy):
            self._finish(now, self._soon())
        else:
            self._pass_over(candidate, now)
            self._conclude(first_state, True, now)

    def _conclude(self, state: NeighbourState, was_changed: bool, now: float) -> None:
        if state.predecessor != self.contact:
            self._notify(self.successors[0], now)
        self._finish(now, self._soon() if was_changed else self._period(now))

    def _adopt(self, first: Contact, state: NeighbourState, now: float) -> bool:
        if self._adopted is not None and self._adopted[0] is state and self._adopted[1] is self.successors:
            return False  # nearly always: an UNCHANGED stands for the state that the list was made from
        named = merged(self.contact, first, state.successors, self._host.rules.successors)
        adopted = tuple(map(self._as_we_know_it, named))
        if adopted == self.successors:
            self._adopted = (state, self.successors)
            return False
        # Invariant: the list begins with a peer that answered in this very step, so one entry at least was alive.
        assert adopted[0] == first
        assert len(adopted) <= self._host.rules.successors
        known, self.successors = self.successors, adopted
        self._adopted = (state, adopted)
        for contact in adopted:
            if contact not in known:
                self._look_again(contact, now)
        self._changed(now)
        return True

    def _as_we_know_it(self, contact: Contact) -> Contact:
        """Others may not know its new address yet; or we do not, then its own record will tell us."""
        known = self._table.at(contact.position)
        return known if known is not None and known == contact else contact

    def _look_again(self, contact: Contact, now: float) -> None:
        """A peer that we found silent or not a member may be back: another peer lists it. Its own word decides."""
        self.forgive(contact)
        if contact.peer in self._unwell:
            self._host.ask(contact, Ping(id=self._host.new_id()), _taken, now)

    def forgive(self, contact: Contact) -> None:
        """It has shown that it is a member, or may have become one."""
        self._passed_over.pop(contact.position, None)

    def _finish(self, now: float, delay_s: float) -> None:
        assert self.is_busy, "a step ends once"
        self.is_busy = False
        self._schedule(now, min(delay_s, max(self._next_at - now, 0.0)))  # or sooner, if hurried meanwhile
        # Those who notified us during the step have waited: we said BUSY, so nobody saw a state that they would have
        # changed in its midst. Rectify may begin a step of its own, which ends in the next `_finish`.
        while self._notifies and not self.is_busy:
            self._rectify(self._notifies.popleft(), now)

    # --- rectify

    def notified(self, source: Contact, now: float) -> None:
        if not self.is_member or source == self.contact:
            return
        self.forgive(source)
        if self.is_busy:
            if source not in self._notifies:
                self._notifies.append(source)
        else:
            self._rectify(source, now)

    def _rectify(self, source: Contact, now: float) -> None:
        """The predecessor only ever comes closer, except over a dead one: so no key between the two changes its owner
        while its owner lives.
        """
        assert self.is_member
        assert not self.is_busy
        present = self.predecessor
        if present is None or is_between(present.position, source.position, self.contact.position):
            self._set_predecessor(source, now)
        elif source != present:
            self.is_busy = True
            self._ask_state(present, 0, partial(self._predecessor_pinged, present, source), now)

    def _predecessor_pinged(self, present: Contact, source: Contact, reply: Reply | None, now: float) -> None:
        if not self.is_busy:
            return
        is_gone = reply is None or isinstance(reply, NotMember) or self._has_moved(present)
        if is_gone and self.predecessor is present:
            self._set_predecessor(source, now)
        self._finish(now, self._period(now))

    def _set_predecessor(self, contact: Contact, now: float) -> None:
        assert contact != self.contact, "alone, a node has no predecessor"
        self.predecessor = contact
        self._changed(now)
        if not self.successors:
            self._schedule(now, self._soon())

    # --- answering

    def state(self, request: GetState) -> Reply:
        if not self.is_member:
            return NotMember(id=request.id)
        if self.is_busy:
            return Busy(id=request.id)
        if request.known == self.version:
            return Unchanged(id=request.id)
        return NeighbourState(
            id=request.id, version=self.version, predecessor=self.predecessor, successors=self.successors
        )

    # --- small parts

    def _ask_state(
        self, target: Contact, known: int, done: Callable[[Reply | None, float], None], now: float
    ) -> None:
        request = GetState(id=self._host.new_id(), source=self.contact, target=target.index, known=known)
        self._host.ask(target, request, done, now)

    def _notify(self, first: Contact, now: float) -> None:
        request = Notify(id=self._host.new_id(), source=self.contact, target=first.index)
        self._host.ask(first, request, _taken, now)

    def _changed(self, now: float) -> None:
        self.version = self.version % (U32 - 1) + 1
        assert 1 <= self.version < U32, "0 stands for no version"
        self._changed_at = now
        self._host.effects.append(RingChanged(contact=self.contact))
        self._on_change(self, now)

    def _count_not_member(self, target: Contact, now: float) -> None:
        self._not_members += 1
        if self._not_members >= bounds.NOT_MEMBER_MAX:
            self._not_members = 0
            self._pass_over(target, now)

    def _pass_over(self, contact: Contact, now: float) -> None:
        self._passed_over[contact.position] = now + bounds.PASSED_OVER_S
        if len(self._passed_over) > bounds.PASSED_OVER_MAX:
            self._passed_over.popitem(last=False)
        self._host.at(now + bounds.PASSED_OVER_S, partial(self._forgive, contact.position))

    def _forgive(self, position: Key, now: float) -> None:
        if self._passed_over.get(position, now + 1) <= now:
            del self._passed_over[position]

    def _has_moved(self, contact: Contact) -> bool:
        """It answers, but sits elsewhere by now: a peer that takes another slot keeps its address and key."""
        present = self._table.at(contact.position)
        if present is None:
            return contact.peer in self._table.records
        return present.peer != contact.peer

    def _is_passed(self, contact: Contact) -> bool:
        return bool(self._passed_over) and contact.position in self._passed_over

    def _period(self, now: float) -> float:
        """The longer nothing changed, the longer we wait: news of the ring travels backwards, one asker at a
        time.
        """
        period, quiet_s = self._host.jittered(self._host.rules.stabilize_s), now - self._changed_at
        if quiet_s > bounds.QUIET_AFTER_S:
            return period * bounds.QUIET_FACTOR
        return min(period, max(quiet_s * bounds.IMPATIENCE, self._soon()))

    def _soon(self) -> float:
        return bounds.RETRY_MIN_S + RETRY_SPREAD_S * self._host.random.random()

    def _schedule(self, now: float, delay_s: float) -> None:
        if now + delay_s != self._next_at:
            self._next_at = now + delay_s
            self._host.at(self._next_at, self._tick)


def _taken(_reply: Reply | None, _now: float) -> None:
    """A lost NOTIFY is repeated by the next stabilize; who answers a PING, the detector notes."""
