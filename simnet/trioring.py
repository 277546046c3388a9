"""How do ring machines on a heap serve shells under trio? Their clock follows trio's, their events become news.

`RingWorld` carries the machines, some twenty times cheaper than whole nodes; a `MachineRing` is what one peer asks of
its own, as `dht.Ring` answers it. Handshakes, datagrams and their bytes are not in it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import anyio

from dht import Arc, Contact, Key, RingEvent, Subscription
from dht.core.effects import ArcsChanged, Effect, Joined, JoinFailed, LookupDone, PeerChanged, RingChanged
from dht.core.ids import PeerKey
from dht.core.machine import RingMachine
from dht.core.placement import Rule, own_arcs
from dht.core.records import PeerRecord
from dht.errors import NoAnswerError
from simnet.rings import START_S, RingWorld

STEP_S = 0.25
"""The heap is looked at so often: many events cost one turn of the loop."""
LOOKUP_S = 60.0
JOIN_AGAIN_S = 5.0
CONTACTS_GIVEN = 3


class TrioRings:
    """All machines. `run` keeps them going."""

    def __init__(self, world: RingWorld) -> None:
        self.world = world
        self.rings: dict[PeerKey, MachineRing] = {}
        world.on_effect = self._on_effect
        self._join_again: list[tuple[float, PeerKey]] = []

    def found(self, records: Sequence[PeerRecord]) -> None:
        """A whole ring at once, in which all know all."""
        self.world.ideal(records)
        for record in records:
            self.rings[record.peer] = MachineRing(self, self.world.machines[record.peer])

    def join(self, record: PeerRecord) -> None:
        """A new life, which knows how to find others and nothing else."""
        machine = self.world.add(self.world.crashed.get(record.peer, record))
        self.rings[record.peer] = MachineRing(self, machine)
        self._join(machine)

    def crash(self, peer: PeerKey) -> None:
        self.world.crash(peer)
        del self.rings[peer]

    async def run(self) -> None:
        while True:
            await anyio.sleep(STEP_S)
            self.catch_up()
            for at, peer in [one for one in self._join_again if one[0] <= anyio.current_time()]:
                self._join_again.remove((at, peer))
                if peer in self.world.machines:
                    self._join(self.world.machines[peer])

    def catch_up(self) -> None:
        self.world.run_until(START_S + anyio.current_time())

    def _join(self, machine: RingMachine) -> None:
        others = sorted(
            one.me.position
            for one in self.world.machines.values()
            if one is not machine and any(node.is_member for node in one.nodes)
        )
        by_position = {one.me.position: one.me for one in self.world.machines.values()}
        picked = self.world.random.sample(others, min(CONTACTS_GIVEN, len(others)))
        machine.join([by_position[position] for position in picked], self.world.now)
        self.world.settle(machine)

    def _on_effect(self, peer: PeerKey, effect: Effect) -> None:
        ring = self.rings.get(peer)
        if isinstance(effect, JoinFailed):
            self._join_again.append((anyio.current_time() + JOIN_AGAIN_S, peer))
        elif ring is not None:
            ring.perform(effect)


class MachineRing:
    """One life of a peer's membership."""

    def __init__(self, rings: TrioRings, machine: RingMachine) -> None:
        self.machine = machine
        self._rings = rings
        self._subscriptions: list[Subscription] = []
        self._waiting: dict[int, tuple[anyio.Event, list[LookupDone]]] = {}

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
