"""How do thousands of ring machines behave?  They run here on one heap, in virtual time, over a lossy,
partitioned network.

This drives `RingMachine` alone, without encoding, sockets or keys: messages are shared as immutable values, which
makes large rings affordable.  One seed gives one run.  It is a small carrier of its own; anything else that offers
deliver-at-a-time and a seeded chance could take the place of `RingWorld._push` and `RingWorld.run`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b
from heapq import heappop, heappush
from random import Random
from typing import Protocol

from dht.core.effects import Effect, Send
from dht.core.ids import Key, NetworkId, PeerKey
from dht.core.machine import RingMachine
from dht.core.messages import Closer, Message, NeighbourState, Owner
from dht.core.records import (
    RECORD_VERSION,
    Address,
    Contact,
    Departure,
    Line,
    News,
    PeerRecord,
    SignedRecord,
    contacts_of,
)
from dht.core.ring import merged
from dht.core.rules import RingRules

NETWORK = NetworkId(b"simulate")
START_S = 1_700_000_000.0
LATENCY_S = (0.020, 0.120)  # one way, evenly spread (design of the ring, 3.6)
ListOnItsWay = tuple[PeerKey, tuple[Contact, ...], tuple[Contact, ...]]
"""The receiver, the sending virtual node (one of these), and its successor."""


class SimulatedNotary:
    """Signatures that only this process can make: keyed hashes instead of Ed25519, which would dominate the
    run.
    """

    def __init__(self, peer: PeerKey) -> None:
        self._peer = peer

    def sign_record(self, record: PeerRecord) -> SignedRecord:
        return SignedRecord(record=record, signature=_record_tag(record))

    def is_record_signed(self, signed: SignedRecord) -> bool:
        return signed.signature == _record_tag(signed.record)

    def sign_death(self, peer: PeerKey, incarnation: int) -> bytes:
        return _tag(b"death", self._peer, peer, incarnation)

    def is_death_signed(self, peer: PeerKey, incarnation: int, by: PeerKey, signature: bytes) -> bool:
        return signature == _tag(b"death", by, peer, incarnation)

    def sign_departure(self, incarnation: int) -> Departure:
        signature = _tag(b"leave", self._peer, self._peer, incarnation)
        return Departure(peer=self._peer, incarnation=incarnation, signature=signature)

    def is_departure_signed(self, departure: Departure) -> bool:
        return departure.signature == _tag(b"leave", departure.peer, departure.peer, departure.incarnation)


@lru_cache(maxsize=1 << 17)
def _record_tag(record: PeerRecord) -> bytes:
    return blake2b(repr(record).encode(), digest_size=64, key=b"simulated").digest()


@lru_cache(maxsize=1 << 17)
def _tag(what: bytes, by: PeerKey, peer: PeerKey, incarnation: int) -> bytes:
    body = what + by + peer + incarnation.to_bytes(4, "big")
    return blake2b(body, digest_size=64, key=b"simulated").digest()


def peer_number(number: int, *, virtual_nodes: int = 1) -> PeerRecord:
    """The n-th simulated peer: a key and an address of its own, spread over all of IPv4."""
    digest = blake2b(number.to_bytes(8, "big"), digest_size=36).digest()
    address = Address(host=digest[32:], port=4484)
    return PeerRecord(
        version=RECORD_VERSION,
        network=NETWORK,
        peer=PeerKey(digest[:32]),
        lines=(Line.at(address),),
        slot=0,
        virtual_nodes=virtual_nodes,
        incarnation=0,
        issued_s=0,
        expires_s=0,
        flags=0,
        previous=b"",
        since=0,
    )


class RingWorld:
    """A clock, a network and the machines on it."""

    def __init__(
        self,
        seed: int,
        rules: RingRules | None = None,
        *,
        loss: float = 0.0,
        machine_class: type[RingMachine] = RingMachine,
    ) -> None:
        self.now = START_S
        self.random = Random(seed)
        self.rules = rules or RingRules(network=NETWORK)
        self.loss = loss
        self.machines: dict[PeerKey, RingMachine] = {}
        self.crashed: dict[PeerKey, PeerRecord] = {}
        self.sent: Counter[str] = Counter()
        self.events = 0
        self.sides: dict[PeerKey, int] = {}  # partition: peers of different sides cannot talk
        self.on_effect: Callable[[PeerKey, Effect], None] = lambda _peer, _effect: None
        self.after_event: Callable[[RingMachine, Message | None, Contact | None], None] | None = None
        self.tamper: Callable[[PeerKey, Contact, Message], Message | None] | None = None
        self.sizes: Callable[[Message], int] | None = None
        self.held_back_s: Callable[[PeerKey], float] = lambda _sender: 0.0
        """How long a member waits before it sends what it has to say."""
        self.bytes_sent = 0
        self._machine_class = machine_class
        self._heap: list[tuple[float, int, PeerKey, Message | None, Contact | None]] = []
        self._sequence = 0
        self._wakes: dict[PeerKey, float] = {}

    # --- peers

    def add(self, record: PeerRecord) -> RingMachine:
        machine = self._machine_class(
            record=record,
            rules=self.rules,
            notary=SimulatedNotary(record.peer),
            random=Random(self.random.getrandbits(64)),
        )
        self.machines[record.peer] = machine
        self.crashed.pop(record.peer, None)
        self._wakes.pop(record.peer, None)
        return machine

    def create(self, record: PeerRecord) -> RingMachine:
        machine = self.add(record)
        machine.create(self.now)
        self.settle(machine)
        return machine

    def join(self, record: PeerRecord, contacts: Iterable[Contact]) -> RingMachine:
        machine = self.add(record)
        machine.join(contacts, self.now)
        self.settle(machine)
        return machine

    def crash(self, peer: PeerKey) -> None:
        machine = self.machines.pop(peer)
        self.crashed[peer] = machine.own_record
        self._wakes.pop(peer, None)

    def leave(self, peer: PeerKey) -> None:
        machine = self.machines[peer]
        machine.leave(self.now)
        self.settle(machine)
        self.crash(peer)

    def ideal(self, records: Sequence[PeerRecord], *, knows_all: bool = True) -> None:
        """A whole ring at once, with correct lists and tables."""
        contacts = sorted(
            (c for record in records for c in contacts_of(record, self.rules.id_check)),
            key=lambda contact: contact.position,
        )
        right = right_lists(contacts, self.rules.successors)
        machines = [self.add(record) for record in records]
        for machine in machines:
            machine.restore([right[node.contact.position] for node in machine.nodes], self.now)
        if knows_all:
            news = [machine.record for machine in machines]
            all_learn(machines, [signed for signed in news if signed is not None], self.now)
        for machine in machines:
            self.settle(machine)

    # --- time

    def run(self, seconds: float) -> None:
        """Let so much virtual time pass."""
        self.run_until(self.now + seconds)

    def run_until(self, end: float) -> None:
        heap = self._heap
        while heap and heap[0][0] <= end:
            self.step()
        self.now = end

    def step(self) -> bool:
        """The next event; False when nothing is left to happen."""
        if not self._heap:
            return False
        when, _, peer, what, sender = heappop(self._heap)
        self.now = when
        machine = self.machines.get(peer)
        if what is None:
            if self._wakes.get(peer) != when:
                return True  # an alarm that was set again
            del self._wakes[peer]
        if machine is None:
            return True
        self.events += 1
        if what is None:
            machine.advance(when)
        elif sender is not None and self.can_talk(sender.peer, peer):
            machine.receive(what, sender, when)
        self.settle(machine)
        if self.after_event is not None:
            self.after_event(machine, what, sender)
        return True

    def settle(self, machine: RingMachine) -> None:
        """Perform a machine's effects and set its alarm."""
        me = machine.me
        for effect in machine.take_effects():
            if type(effect) is Send:
                self._send(me, effect)
            else:
                self.on_effect(me.peer, effect)
        deadline = machine.next_deadline()
        if deadline is not None:
            deadline = max(deadline, self.now)
            wake = self._wakes.get(me.peer)
            if wake is None or deadline < wake:
                self._wakes[me.peer] = deadline
                self._push(deadline, me.peer, None, None)

    # --- the network

    def _send(self, sender: Contact, effect: Send) -> None:
        message: Message | None = effect.message
        if self.tamper is not None and message is not None:
            message = self.tamper(sender.peer, effect.to, message)
        if message is None:
            return
        self.sent[type(message).__name__] += 1
        if self.sizes is not None:
            self.bytes_sent += self.sizes(message)
        random = self.random
        if self.loss and random.random() < self.loss:
            return
        low, high = LATENCY_S
        at = self.now + self.held_back_s(sender.peer) + low + (high - low) * random.random()
        self._push(at, effect.to.peer, message, sender)

    def can_talk(self, one: PeerKey, other: PeerKey) -> bool:
        sides = self.sides
        return not sides or sides.get(one, 0) == sides.get(other, 0)

    def _push(self, when: float, peer: PeerKey, what: Message | None, sender: Contact | None) -> None:
        self._sequence += 1
        heappush(self._heap, (when, self._sequence, peer, what, sender))

    def lists_on_their_way(self) -> list[ListOnItsWay]:
        """Also of senders that are gone by now."""
        found = []
        for _, _, receiver, what, sender in self._heap:
            if (
                isinstance(what, NeighbourState)
                and sender is not None
                and self.can_talk(sender.peer, receiver)
            ):
                machine = self.machines.get(sender.peer)
                record = machine.own_record if machine is not None else self.crashed[sender.peer]
                found.append((receiver, contacts_of(record, self.rules.id_check), what.successors))
        return found


def all_learn(machines: Sequence[RingMachine], known: Sequence[SignedRecord], now: float) -> None:
    """Everybody knows everybody: one learns, the others copy its table, unless it refused somebody."""
    first, *others = machines
    learn(first, known, now)
    for machine in others:
        if len(first.table) == len(known):
            _know_what(machine, first, now)
        else:
            learn(machine, known, now)


def learn(machine: RingMachine, news: Iterable[News], now: float) -> int:
    """Let a machine hear of a whole table at once, as no peer does; how much of it was new to it."""
    news = list(news)
    for one in news:
        if isinstance(one, SignedRecord):
            machine._gossip.newcomers.prove(one.peer, one.record.lines[0].host)
    return sum(machine._gossip.hear(one, now, "table") for one in news)


def _know_what(machine: RingMachine, other: RingMachine, now: float) -> None:
    """Copy the table of another member, which has heard of us: as `learn` of all of it, at a hundredth of the
    cost.
    """
    machine._now = now
    table, known = machine.table, other.table
    table.records = dict(known.records)
    table.tombs, table.key_tombs = known.tombs.copy(), known.key_tombs.copy()
    table.positions, table.contacts = known.positions.copy(), known.contacts.copy()
    table.sums, table._order = known.sums.copy(), known._order.copy()
    table._claims, table._weights = known._claims.copy(), known._weights.copy()
    table._hints = known._hints.copy()
    table.expires_at_least_s = known.expires_at_least_s
    firsts = {node.successors[0].peer for node in machine.nodes if node.successors}
    for peer, signed in known.records.items():
        if peer in firsts and peer != machine.me.peer:
            machine._table_changed(signed)


def twisted(message: Message, invented: Sequence[Contact], successors: int) -> Message:
    """What a liar says about the ring: invented peers as neighbours, owners and ways."""
    some = tuple(invented)
    if isinstance(message, NeighbourState):
        return NeighbourState(
            id=message.id, version=message.version, predecessor=some[0], successors=some[:successors]
        )
    if isinstance(message, Owner):
        return Owner(id=message.id, holders=some, records=())
    if isinstance(message, Closer):
        return Closer(id=message.id, contacts=some[:3])
    return message


# --- the ideal ring


class WatchedRing(Protocol):
    """Questions that every carrier of ring machines answers."""

    rules: RingRules
    machines: dict[PeerKey, RingMachine]
    after_event: Callable[[RingMachine, Message | None, Contact | None], None] | None
    on_effect: Callable[[PeerKey, Effect], None]

    @property
    def now(self) -> float: ...
    def run(self, seconds: float) -> None: ...
    def can_talk(self, one: PeerKey, other: PeerKey) -> bool:
        """False across a partition."""
        ...


def successors_at(ring: Sequence[Contact], place: int, length: int) -> tuple[Contact, ...]:
    """The list that the contact at a place of the sorted ring should have."""
    count = len(ring)
    if count < 2:
        return ()
    me, first = ring[place], ring[(place + 1) % count]
    near = tuple(ring[place + 2 : place + length + 2])  # enough, where no host has several of these
    if len(near) == length:
        found = merged(me, first, near, length)
        if len(found) == length:
            return found
    following = tuple(ring[(place + step) % count] for step in range(2, min(count, 4 * length + 64)))
    return merged(me, first, following, length)


Lists = tuple[Contact | None, tuple[Contact, ...]]
"""A predecessor, and successors."""


def right_lists(ring: Sequence[Contact], length: int) -> dict[Key, Lists]:
    """What each contact of the sorted ring should have, by its position."""
    return {
        contact.position: (ring[place - 1] if len(ring) > 1 else None, successors_at(ring, place, length))
        for place, contact in enumerate(ring)
    }


def ring_of(world: WatchedRing) -> list[Contact]:
    """All live members, in ring order."""
    members = [node.contact for m in world.machines.values() for node in m.nodes if node.is_member]
    return sorted(members, key=lambda contact: contact.position)


def how_right(world: WatchedRing) -> tuple[float, float]:
    """Which share of the members has the right first successor, and which share all its lists right?"""
    ring = ring_of(world)
    right = right_lists(ring, world.rules.successors)
    first = whole = 0
    for machine in world.machines.values():
        for node in machine.nodes:
            if node.is_member:
                before, line = right[node.contact.position]
                first += node.successors[:1] == line[:1]
                whole += node.successors == line and node.predecessor == before
    return first / max(len(ring), 1), whole / max(len(ring), 1)


def owner_in(ring: Sequence[Contact], key: Key) -> Contact:
    """The true owner of a key: the first live member at or after it."""
    return next((contact for contact in ring if contact.position >= key), ring[0])
