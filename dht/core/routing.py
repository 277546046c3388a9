"""How does a host find its way? What it answers to FIND, and how it starts and judges lookups of its own.

A lookup begins with the best that the table and our lists know. A careful one begins a second time with members
chosen at random, so that one liar on the way is not enough; a plain one does so too when its holders sit farther apart
than this ring's do.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from dht.core import rules as bounds
from dht.core.effects import LookupDone
from dht.core.gossip import Gossip
from dht.core.host import MachineHost
from dht.core.ids import CIRCLE, Key, distance, is_between, is_in_arc, key_from_number, number_of
from dht.core.lookup import Lookup, LookupResult
from dht.core.membership import MemberTable
from dht.core.messages import CLOSER_MAX, HOLDERS_MAX, OWNER_RECORDS_MAX, Closer, Owner
from dht.core.placement import first
from dht.core.records import Contact, SignedRecord, contacts_of
from dht.core.ring import VirtualNode


class Router:
    """The guide of our lookups."""

    def __init__(
        self, host: MachineHost, table: MemberTable, gossip: Gossip, nodes: Sequence[VirtualNode]
    ) -> None:
        self._host = host
        self._table = table
        self._gossip = gossip
        self._unwell = gossip.detector.unwell
        self._nodes = nodes
        self._lookups = 0

    def lookup(self, key: Key, now: float, *, careful: bool) -> int:
        """Ends in a `LookupDone` with the id returned."""
        lookup_id = self._host.new_id()
        if careful:
            answers: list[LookupResult] = []
            for from_table in (True, False):
                self._start_lookup(key, partial(self._one_of_two, lookup_id, key, answers), now, from_table)
        else:
            self._start_lookup(key, partial(self._looked_up, lookup_id, key, False), now, True)
        return lookup_id

    def find_via(
        self, contact: Contact, key: Key, done: Callable[[LookupResult, float], None], now: float
    ) -> None:
        """From one contact on: before we are a member."""
        Lookup(self._host, self, key, done, is_newcomer=True).start([contact], (), now)

    def keep_fingers(self, now: float) -> None:
        self._host.at(now + self._host.random.uniform(0, self._host.rules.finger_s), self._refresh_finger)

    def answer(self, request_id: int, key: Key) -> Owner | Closer:
        unwell = self._unwell
        for node in self._nodes:
            if node.owns(key):
                return self._owner(request_id, (node.contact, *node.successors))
        for node in self._nodes:
            if node.is_member and node.successors:
                first = next((s for s in node.successors if s.peer not in unwell), None)
                if first is not None and is_in_arc(node.contact.position, key, first.position):
                    return self._owner(request_id, self._with_ours(key, node.successors))
        return Closer(id=request_id, contacts=tuple(self._closest_before(key)))

    def _with_ours(self, key: Key, line: tuple[Contact, ...]) -> tuple[Contact, ...]:
        """A list may be older than our other virtual nodes, of which nobody knows better than we."""
        end = line[-1].position
        ours = [
            node.contact
            for node in (self._nodes if len(self._nodes) > 1 else ())
            if node.is_member and node.contact not in line and is_in_arc(key, node.contact.position, end)
        ]
        if not ours:
            return line
        return tuple(sorted((*line, *ours), key=lambda contact: distance(key, contact.position)))

    def _owner(self, request_id: int, line: tuple[Contact, ...]) -> Owner:
        chosen = tuple(first(line, HOLDERS_MAX, self._unwell))
        assert len(chosen) <= HOLDERS_MAX
        records = [self._table.records[c.peer] for c in chosen if c.peer in self._table.records]
        return Owner(id=request_id, holders=chosen, records=tuple(records[:OWNER_RECORDS_MAX]))

    def _closest_before(self, key: Key) -> list[Contact]:
        """The three nearest before the key, of the table and of our lists, ourselves left out."""
        found: dict[Key, Contact] = {}
        for contact in self._table.counterclockwise(key, self._unwell):
            if contact.peer != self._host.me.peer:
                found[contact.position] = contact
                if len(found) == CLOSER_MAX:
                    break
        for node in self._nodes:
            for contact in node.successors:
                known = contact.peer == self._host.me.peer or contact.peer in self._unwell
                if not known and is_between(node.contact.position, contact.position, key):
                    found[contact.position] = contact
        by_distance = sorted(found.values(), key=lambda contact: distance(contact.position, key))
        mine = min((distance(n.contact.position, key) for n in self._nodes if n.is_member), default=CIRCLE)
        return [c for c in by_distance[:CLOSER_MAX] if distance(c.position, key) < mine]

    def guess_owner(self, key: Key) -> Contact | None:
        """The first live entry of the table at or after a key."""
        return next(self._table.clockwise(key, self._unwell), None)

    def learned(self, records: Iterable[SignedRecord], now: float) -> None:
        if self._gossip.level < 2:
            for signed in records:
                self._gossip.hear(signed, now, "table")

    def may_sit_there(self, contact: Contact) -> bool:
        """As far as the peer's own record tells, if we have it: also one that we hold for a former life's."""
        signed = self._table.records.get(contact.peer)
        return signed is None or contact in contacts_of(signed.record, self._host.rules.id_check)

    def _start_lookup(
        self, key: Key, done: Callable[[LookupResult, float], None], now: float, from_table: bool
    ) -> None:
        if self._lookups >= bounds.LOOKUPS_MAX:
            self._host.counts["lookups refused"] += 1
            self._host.at(now, lambda later: done(LookupResult((), 0, 0), later))
            return
        self._lookups += 1

        def finished(found: LookupResult, later: float) -> None:
            self._lookups -= 1
            assert self._lookups >= 0, "each lookup ends once"
            done(found, later)

        lookup = Lookup(self._host, self, key, finished)
        first = []
        if from_table:
            answer = self.answer(0, key)
            if isinstance(answer, Owner):
                lookup.claim(answer.holders)
                if answer.holders and answer.holders[0].peer == self._host.me.peer:
                    lookup.start((), (), now)
                    return
            guess = self.guess_owner(key) if self._gossip.level < 2 else None
            first = [guess] if guess is not None and guess.peer != self._host.me.peer else []
            stations = list(answer.contacts) if isinstance(answer, Closer) else []
        else:
            strangers = [c for c in self.strangers() if c.peer != self._host.me.peer]
            first, stations = strangers[:1], strangers[1:]
        lookup.start(first, stations, now)

    def strangers(self) -> list[Contact]:
        """Random members: another way into the ring than our own table's best guess."""
        pool = self._table.contacts or [c for node in self._nodes for c in node.successors]
        return [pool[self._host.random.randrange(len(pool))] for _ in range(CLOSER_MAX)] if pool else []

    def _one_of_two(
        self, lookup_id: int, key: Key, answers: list[LookupResult], found: LookupResult, now: float
    ) -> None:
        answers.append(found)
        if len(answers) == 2:
            found_any = [answer for answer in answers if answer.holders] or answers
            best = min(found_any, key=lambda f: distance(key, f.holders[0].position) if f.holders else CIRCLE)
            both = LookupResult(best.holders, sum(a.hops for a in answers), sum(a.timeouts for a in answers))
            self._looked_up(lookup_id, key, True, both, now)

    def _looked_up(self, lookup_id: int, key: Key, is_checked: bool, found: LookupResult, now: float) -> None:
        is_dense = self._is_dense(key, found.holders)
        if not is_dense and not is_checked:
            # Suspicious: a second way must confirm it before anybody relies on it.
            answers = [found]
            done = partial(self._one_of_two, lookup_id, key, answers)
            self._start_lookup(key, done, now, False)
            return
        done_effect = LookupDone(
            id=lookup_id,
            key=key,
            holders=found.holders,
            hops=found.hops,
            timeouts=found.timeouts,
            is_dense=is_dense,
        )
        self._host.effects.append(done_effect)

    def _is_dense(self, key: Key, holders: tuple[Contact, ...]) -> bool:
        """Real holders sit as close together as this ring is dense; invented ones are rarely that close."""
        if not holders:
            return False
        expected = len(holders) / self._peers_estimated()
        return distance(key, holders[-1].position) <= bounds.DENSITY_FACTOR * expected * CIRCLE

    def _peers_estimated(self) -> float:
        """How many virtual nodes the ring has: counted, or in sampled mode judged by how dense our lists
        are.
        """
        if self._gossip.level < 2:
            return float(max(len(self._table.positions), 1))
        estimates = sorted(
            len(node.successors)
            * CIRCLE
            / (distance(node.contact.position, node.successors[-1].position) or CIRCLE)
            for node in self._nodes
            if node.successors
        )
        return max(estimates[len(estimates) // 2], 1.0) if estimates else 1.0

    def _refresh_finger(self, now: float) -> None:
        """Sampled mode: learn who sits at a distance drawn evenly over powers of two."""
        self._host.at(now + self._host.jittered(self._host.rules.finger_s), self._refresh_finger)
        node = self._host.random.choice(self._nodes) if self._nodes else None
        if node is None or not node.successors:
            return
        nearest = distance(node.contact.position, node.successors[0].position).bit_length()
        exponent = self._host.random.randrange(min(nearest, 159), 160)
        target = key_from_number(number_of(node.contact.position) + (1 << exponent))

        def found(answer: LookupResult, _now: float) -> None:
            for contact in answer.holders[:1]:
                if contact.peer != self._host.me.peer:
                    self._table.hint(contact)

        self._start_lookup(target, found, now, True)
