"""How do ring machines on a heap serve shells under trio? Their clock follows trio's, their events become news.

`RingWorld` carries the machines, some twenty times cheaper than whole nodes; a `MachineRing` is what one peer asks of
its own, as `dht.Ring` answers it. Handshakes, datagrams and their bytes are not in it.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial

import anyio

from dht import Contact, Key, Subscription
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
from dht.core.reader import RingReader
from dht.core.records import PeerRecord
from dht.core.seat import Restored, SearchEnded
from dht.core.seated_machine import SeatedMachine
from dht.node_types import Subscribers
from dht.open_lookups import OpenLookups
from simnet.rings import START_S, RingWorld

STEP_S = 0.25
"""The heap is looked at so often: many events cost one turn of the loop."""
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


class MachineRing(RingReader):
    """One life of a peer's membership, as `dht.Ring` answers for it."""

    def __init__(self, rings: TrioRings, seated: SeatedMachine) -> None:
        self.seated = seated
        self._rings = rings
        self._lookups = OpenLookups()
        self._subscribers = Subscribers()

    @property
    def machine(self) -> RingMachine:
        return self.seated.machine

    async def owner(self, key: Key) -> Contact:
        """Raises NoAnswerError."""
        self._rings.catch_up()
        lookup_id = self.machine.lookup(key, self._rings.world.now)
        return (await self._lookups.holders(lookup_id, key, self._act))[0]

    def _act(self) -> None:
        self._rings.world.settle(self.machine)

    def events(self) -> AbstractContextManager[Subscription]:
        return self._subscribers.events()

    def perform(self, effect: Effect) -> None:
        match effect:
            case LookupDone():
                self._lookups.done(effect)
            case ArcsChanged() | RingChanged() | PeerChanged() | Joined():
                self._subscribers.tell(effect)


def torn(rings: TrioRings, side_of: Mapping[PeerKey, int]) -> None:
    """From now on peers of different sides do not hear each other; an empty map heals."""
    rings.catch_up()
    rings.world.sides = dict(side_of)


def members(rings: TrioRings, peers: Iterable[PeerKey]) -> int:
    """How many of these take part in the ring now."""
    machines = rings.world.machines
    return sum(peer in machines and any(node.is_member for node in machines[peer].nodes) for peer in peers)
