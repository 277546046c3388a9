"""Is the ring still sound?  The invariants I1-I6 of the ring, asserted after every event of a ring's carrier,
and I7 at its end.

They look from outside, at lists and messages, and share nothing with the code they judge.

* I1 every live member has a live member in its list, unless liars filled it with phantoms
* I2 at least min(r + 1, members) principals (members that no list passes over), while the network is whole
  and honest
* I3 lists are in ring order, without duplicates, hosts repeated or oneself
* I4 the first successor changes only on that node's own answer
* I5 a predecessor is a peer that said NOTIFY
* I6 an incarnation never falls, is never used twice, and only its owner raises it
* I7 after the faults stop, the ring is ideal within 10 (Ts + log2 N Tg)
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from math import log2

from dht.core.effects import Effect, PeerChanged
from dht.core.ids import Key, PeerKey, is_between
from dht.core.machine import RingMachine
from dht.core.messages import Message, NeighbourState, Notify, Unchanged
from dht.core.records import Contact, PeerRecord
from dht.core.ring import VirtualNode, merged
from dht.core.rules import RingRules
from simnet.rings import ListOnItsWay, WatchedRing, how_right, ring_of


class InvariantBrokenError(AssertionError):
    def __init__(self, name: str, detail: str) -> None:
        super().__init__(f"{name}: {detail}")
        self.name = name


class RingChecker:
    """Watches a world.  `is_honest` and `is_whole` say which promises can be asked for."""

    def __init__(self, world: WatchedRing) -> None:
        self.world = world
        self.is_honest = True
        self.is_whole = True
        self.checks = 0
        self._firsts: dict[Key, Contact] = {}
        self._notified: dict[Key, set[Key]] = {}
        self._incarnations: dict[tuple[PeerKey, PeerKey], int] = {}
        self._own_records: dict[tuple[PeerKey, int], PeerRecord] = {}
        self.false_alarms = 0
        world.after_event = self.after
        world.on_effect = self._watch_alarms

    def begin_from(self, machine: RingMachine) -> None:
        """It began with given lists, which nobody has to account for."""
        for node in machine.nodes:
            position = node.contact.position
            if node.successors:
                self._firsts[position] = node.successors[0]
            if node.predecessor is not None:
                self._notified.setdefault(position, set()).add(node.predecessor.position)

    def forget(self, machine: RingMachine) -> None:
        """It crashed: a restart begins from nothing."""
        for node in machine.nodes:
            self._firsts.pop(node.contact.position, None)
            self._notified.pop(node.contact.position, None)
        self._incarnations = {k: v for k, v in self._incarnations.items() if k[0] != machine.me.peer}

    def after(self, machine: RingMachine, message: Message | None, sender: Contact | None) -> None:
        self.checks += 1
        if isinstance(message, Notify) and sender is not None and message.target < len(machine.nodes):
            position = machine.nodes[message.target].contact.position
            self._notified.setdefault(position, set()).add(message.source.position)
        for node in machine.nodes:
            if node.is_member:
                self._order(node)
                self._first(node, machine, message, sender)
                self._predecessor(node, machine)
                self._living(node)
        self._own_number(machine)
        self._numbers(machine)
        if self.is_honest and self.is_whole and isinstance(message, (NeighbourState, Notify)):
            self.principals()

    def _watch_alarms(self, peer: PeerKey, effect: Effect) -> None:
        """Chord is correct only while nobody takes the living for dead; lost datagrams make that happen,
        rarely.
        """
        if not isinstance(effect, PeerChanged) or effect.clock != "unreachable":
            return
        if effect.peer != peer and effect.peer in self.world.machines:
            self.false_alarms += 1
            self.is_whole = False

    # --- one node

    def _living(self, node: VirtualNode) -> None:
        if self.is_honest and node.successors and not any(map(self._is_live, node.successors)):
            raise InvariantBrokenError("I1", f"{_short(node.contact)} has no live successor")

    def _is_live(self, contact: Contact) -> bool:
        machine = self.world.machines.get(contact.peer)
        return machine is not None and machine.nodes[contact.index].is_member

    def _holds(self, line: tuple[Contact, ...], one: PeerKey, gone: PeerKey) -> bool:
        """Does the list keep up a peer when another is gone?"""
        others = (c for c in line if c.peer not in (one, gone) and self.world.can_talk(one, c.peer))
        return any(map(self._is_live, others))

    def _order(self, node: VirtualNode) -> None:
        line = (node.contact, *node.successors)
        if len(node.successors) > self.world.rules.successors:
            raise InvariantBrokenError("I3", f"{_short(node.contact)} lists {len(node.successors)}")
        if len({c.peer for c in node.successors}) != len(node.successors) or node.contact in node.successors:
            raise InvariantBrokenError("I3", f"{_short(node.contact)} lists a host twice or itself")
        for before, after in pairwise(line[1:]):
            if not is_between(before.position, after.position, node.contact.position):
                raise InvariantBrokenError("I3", f"{_short(node.contact)} lists out of order")

    def _first(
        self, node: VirtualNode, machine: RingMachine, message: Message | None, sender: Contact | None
    ) -> None:
        first = node.successors[0] if node.successors else None
        known = self._firsts.get(node.contact.position)
        if first is None or first == known:
            return
        self._firsts[node.contact.position] = first
        is_own_answer = isinstance(message, (NeighbourState, Unchanged)) and sender is not None
        if first.peer == machine.me.peer or (
            is_own_answer and sender is not None and sender.peer == first.peer
        ):
            return
        if known is not None or sender is not None:
            raise InvariantBrokenError("I4", f"{_short(node.contact)} took {_short(first)} unasked")

    def _predecessor(self, node: VirtualNode, machine: RingMachine) -> None:
        before = node.predecessor
        if before is None or before.peer == machine.me.peer:
            return
        if before.position not in self._notified.get(node.contact.position, set()):
            raise InvariantBrokenError("I5", f"{_short(node.contact)} took {_short(before)} for predecessor")

    def _own_number(self, machine: RingMachine) -> None:
        record = machine.own_record
        known = self._own_records.setdefault((record.peer, record.incarnation), record)
        if known is not record and known != record:
            raise InvariantBrokenError("I6", f"two records with incarnation {record.incarnation}")

    def _numbers(self, machine: RingMachine) -> None:
        for peer in machine.table.peers():
            number = machine.table.incarnation(peer)
            known = self._incarnations.get((machine.me.peer, peer), -1)
            if number < known:
                raise InvariantBrokenError("I6", f"{known} fell to {number}")
            self._incarnations[machine.me.peer, peer] = number
            owner = self.world.machines.get(peer)
            if owner is not None and number > owner.own_record.incarnation:
                raise InvariantBrokenError("I6", "somebody raised another's incarnation")

    # --- the whole ring

    def count_principals(
        self,
        without: PeerKey | None = None,
        *,
        settled_only: bool = False,
        on_their_way: Iterable[ListOnItsWay] = (),
    ) -> tuple[int, int]:
        """The number of principals, and of members, in the ring (or in the ring without one peer).

        `settled_only` counts peers that have been notified: a peer that was restarted in place stands in
        lists that mean its former life, and will be dropped from them.  For the same reason a list that
        names a host by a virtual node which is gone has no excuse for leaving out another of that host.
        """
        members = [c for c in ring_of(self.world) if c.peer != without]
        excused = set(members) if settled_only else None
        skipped: set[Key] = set()
        for machine in self.world.machines.values():
            if machine.me.peer == without:
                continue
            for node in machine.nodes:
                if node.is_member:
                    skipped.update(_passed_over((node.contact, *node.successors), members, excused))
        for line in self._soon_adopted(on_their_way, without):
            skipped.update(_passed_over(line, members, excused))
        counted = [c for c in members if not settled_only or self._is_settled(c)]
        return sum(c.position not in skipped for c in counted), len(members)

    def _soon_adopted(
        self, on_their_way: Iterable[ListOnItsWay], without: PeerKey | None
    ) -> Iterator[tuple[Contact, ...]]:
        """Each list that somebody will have once a datagram under way has reached it."""
        for receiver, senders, following in on_their_way:
            machine = self.world.machines.get(receiver)
            for node in machine.nodes if machine is not None and receiver != without else ():
                for sender in senders if node.is_member and node.successors else ():
                    first = node.successors[0]
                    if sender in node.successors or is_between(
                        node.contact.position, sender.position, first.position
                    ):
                        adopted = merged(node.contact, sender, following, self.world.rules.successors)
                        yield (node.contact, *adopted)

    def _is_settled(self, contact: Contact) -> bool:
        return self.world.machines[contact.peer].nodes[contact.index].predecessor is not None

    def principals(self) -> None:
        found, members = self.count_principals()
        joined = [n for m in self.world.machines.values() for n in m.nodes if n.is_member]
        if any(not node.successors for node in joined):
            return  # a ring of one is becoming a ring of more
        if found < min(self.world.rules.successors + 1, members):
            raise InvariantBrokenError("I2", f"{found} principals of {members} members")

    def may_crash(self, peer: PeerKey, on_their_way: Iterable[ListOnItsWay] = ()) -> bool:
        """Would the ring still meet the assumption under which Chord is correct?

        Everybody must keep a live successor on its own side of a split, also when it adopts a list that is under
        way, or the one that the dead sent with its last datagram.  Enough principals must be left, also when
        everybody has adopted the lists that are under way: the proof knows no datagrams; in it the asker has
        adopted at once.
        """
        gone = self.world.machines[peer]
        on_their_way = list(on_their_way)
        if not all(
            self._holds(line[1:], line[0].peer, peer) for line in self._soon_adopted(on_their_way, peer)
        ):
            return False
        for machine in self.world.machines.values():
            for node in machine.nodes:
                if machine is gone or not node.is_member or not node.successors:
                    continue
                last = (g.successors for g in gone.nodes if g.contact in node.successors and g.successors)
                if not all(self._holds(line, machine.me.peer, peer) for line in (node.successors, *last)):
                    return False
        found, _ = self.count_principals(peer, settled_only=True, on_their_way=on_their_way)
        return not (self.is_whole and self.is_honest) or found >= self.world.rules.successors + 1

    def becomes_ideal(self) -> float:
        """I7, to be asked after the faults have stopped.  Gives the virtual seconds it took."""
        start, bound_s = self.world.now, ideal_within_s(self.world.rules, len(ring_of(self.world)))
        while self.world.now - start < bound_s:
            self.world.run(5)
            if how_right(self.world) == (1, 1):
                return self.world.now - start
        raise InvariantBrokenError("I7", f"not ideal after {bound_s:.0f} s: {how_right(self.world)}")

    def everybody_is_known(self) -> float:
        """I7 for the tables: in peace, every member comes to know every other, and takes nobody for dead."""
        members = ring_of(self.world)
        start = self.world.now
        bound_s = 10 * log2(max(len(members), 2)) * self.world.rules.digest_s
        while self.world.now - start < bound_s:
            self.world.run(5)
            tables = [machine.table for machine in self.world.machines.values()]
            if all(member.peer in table.records for table in tables for member in members):
                return self.world.now - start
        raise InvariantBrokenError("I7", f"after {bound_s:.0f} s of peace some are unknown to others")


def ideal_within_s(rules: RingRules, members: int) -> float:
    """I7: within so much virtual time of peace the ring is ideal."""
    return 10 * (rules.stabilize_s + log2(max(members, 2)) * rules.digest_s)


def _passed_over(
    line: tuple[Contact, ...], members: list[Contact], excused: set[Contact] | None
) -> list[Key]:
    """The members that this list, its owner in front, passes over, although the owner should know them.  (Hosts
    listed earlier are left out on purpose: by any entry, or only by those in `excused`.)
    """
    skipped = []
    for place, (before, after) in enumerate(pairwise(line)):
        hosts = {c.peer for c in line[: place + 1] if excused is None or c in excused}
        skipped += [
            c.position
            for c in members
            if c.peer not in hosts and is_between(before.position, c.position, after.position)
        ]
    return skipped


def _short(contact: Contact) -> str:
    return contact.position.hex()[:8]
