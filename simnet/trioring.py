"""How do ring machines on a heap serve shells under trio? Their clock follows trio's, their events become news.

`RingWorld` carries the machines, some twenty times cheaper than whole nodes; a `MachineRing` is what one peer asks of
its own, as `dht.Ring` answers it. Handshakes, datagrams and their bytes are not in it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import anyio

from dht import Arc, Contact, Key, RingEvent, Subscription
from dht.core.effects import (
    ArcsChanged,
    Effect,
    Joined,
    JoinFailed,
    LookupDone,
    PeerChanged,
    PositionTaken,
    RingChanged,
)
from dht.core.ids import PeerKey
from dht.core.machine import RingMachine
from dht.core.placement import Rule, own_arcs
from dht.core.records import PeerRecord
from dht.core.seat import Restored, SearchEnded
from dht.core.seated_machine import SeatedMachine
from dht.errors import NoAnswerError
from simnet.rings import START_S, RingWorld

STEP_S = 0.25
"""The heap is looked at so often: many events cost one turn of the loop."""
LOOKUP_S = 60.0
CONTACTS_GIVEN = 3


class TrioRings:
    """All machines, each in its seat. `run` keeps them going."""

    def __init__(self, world: RingWorld) -> None:
        self.world = world
        self.rings: dict[PeerKey, MachineRing] = {}
        world.on_effect = self._on_effect

    def found(self, records: Sequence[PeerRecord]) -> None:
        """A whole ring at once, in which all know all."""
        self.world.ideal(records)
        for record in records:
            seated = self._seated(record, self.world.machines[record.peer])
            seated.tell(Restored(), self.world.now)

    def join(self, record: PeerRecord) -> None:
        """A new life, which knows how to find others and nothing else."""
        seated = self._seated(self.world.crashed.get(record.peer, record))
        seated.tell(SearchEnded(), self.world.now)
        self.world.settle(seated.machine)

    def crash(self, peer: PeerKey) -> None:
        self.world.crash(peer)
        del self.rings[peer]

    async def run(self) -> None:
        while True:
            await anyio.sleep(STEP_S)
            self.catch_up()
            for ring in list(self.rings.values()):
                if ring.seated.seat.due_at is not None:
                    ring.seated.advance(self.world.now)
                    self.world.settle(ring.machine)

    def catch_up(self) -> None:
        self.world.run_until(START_S + anyio.current_time())

    def _seated(self, record: PeerRecord, machine: RingMachine | None = None) -> SeatedMachine:
        first = [machine] if machine is not None else []
        seated = SeatedMachine(
            record=record,
            build=lambda record: first.pop() if first else self.world.add(record),
            given=partial(self._some_members, record.peer),
            id_check=self.world.rules.id_check,
            random=self.world.random,
        )
        self.rings[record.peer] = MachineRing(self, seated)
        return seated

    def _some_members(self, but: PeerKey) -> list[Contact]:
        """As a rendezvous would name them."""
        members = [
            one.me
            for peer, one in self.world.machines.items()
            if peer != but and any(node.is_member for node in one.nodes)
        ]
        members.sort(key=lambda contact: contact.position)
        return self.world.random.sample(members, min(CONTACTS_GIVEN, len(members)))

    def _on_effect(self, peer: PeerKey, effect: Effect) -> None:
        ring = self.rings.get(peer)
        if ring is None:
            return
        if isinstance(effect, JoinFailed | PositionTaken):
            ring.seated.tell(effect, self.world.now)
            self.world.settle(ring.machine)
        else:
            ring.perform(effect)


class MachineRing:
    """One life of a peer's membership."""

    def __init__(self, rings: TrioRings, seated: SeatedMachine) -> None:
        self.seated = seated
        self._rings = rings
        self._subscriptions: list[Subscription] = []
        self._waiting: dict[int, tuple[anyio.Event, list[LookupDone]]] = {}

    @property
    def machine(self) -> RingMachine:
        return self.seated.machine

    @property
    def me(self) -> Contact:
        return self.machine.me

    def contacts(self) -> tuple[Contact, ...]:
        return tuple(self.machine.table.contacts)

    def clocks(self) -> Mapping[PeerKey, str]:
        return dict(self.machine.statistics().unwell)

    def my_arcs(self, copies: int | None = None) -> tuple[Arc, ...]:
        if copies is None or copies == self._rings.world.rules.copies:
            return self.machine.arcs()
        nodes = [(node.contact, node.predecessor) for node in self.machine.nodes if node.is_member]
        return own_arcs(nodes, self.machine.table.counterclockwise, Rule(copies))

    async def owner(self, key: Key) -> Contact:
        """Raises NoAnswerError."""
        self._rings.catch_up()
        event, found = anyio.Event(), list[LookupDone]()
        number = self.machine.lookup(key, self._rings.world.now)
        self._waiting[number] = event, found
        self._rings.world.settle(self.machine)
        try:
            with anyio.move_on_after(LOOKUP_S):
                await event.wait()
        finally:
            self._waiting.pop(number, None)
        if not found or not found[0].holders:
            raise NoAnswerError(key.hex())
        return found[0].holders[0]

    @contextmanager
    def events(self) -> Iterator[Subscription]:
        subscription = Subscription()
        self._subscriptions.append(subscription)
        try:
            yield subscription
        finally:
            self._subscriptions.remove(subscription)

    def perform(self, effect: Effect) -> None:
        match effect:
            case LookupDone():
                event, found = self._waiting.get(effect.id, (anyio.Event(), list[LookupDone]()))
                found.append(effect)
                event.set()
            case ArcsChanged() | RingChanged() | PeerChanged() | Joined():
                self._tell(effect)

    def _tell(self, event: RingEvent) -> None:
        for subscription in self._subscriptions:
            subscription.put(event)


def torn(rings: TrioRings, side_of: Mapping[PeerKey, int]) -> None:
    """From now on peers of different sides do not hear each other; an empty map heals."""
    rings.catch_up()
    rings.world.sides = dict(side_of)


def members(rings: TrioRings, peers: Iterable[PeerKey]) -> int:
    """How many of these take part in the ring now."""
    machines = rings.world.machines
    return sum(peer in machines and any(node.is_member for node in machines[peer].nodes) for peer in peers)
