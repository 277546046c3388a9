"""What must hold in a world of ring machines? The ring's own checker as checkers of `simnet.runs`.

Safety is looked at after every event, liveness once the faults have stopped. Checks that cost too much are left out
for large rings; a checker's name says which it makes.
"""

from collections import Counter
from collections.abc import Sequence

from dht.core.effects import LookupDone
from dht.core.ids import Key
from dht.core.machine import RingMachine
from dht.core.messages import Message
from dht.core.records import Contact
from dht.core.ring import VirtualNode
from dht.core.rules import RingRules
from simnet.ringchecks import InvariantBrokenError, RingChecker, ideal_within_s
from simnet.ringprogram import RingProgram, SimulatedRing
from simnet.rings import how_right, owner_in, ring_of
from simnet.world.faults import Fault, apply_fault
from simnet.world.network import Latency, LineQuality
from simnet.world.world import Silent, World

SMALL = 32  # peers up to which the checks that look at everybody are made after every event
LOOK_S = 5.0


class _Invariants(RingChecker):
    """`is_whole`: nobody is cut off and crashes leave survivors in every list, so I1 and I2 can be asked."""

    def __init__(self, ring: SimulatedRing, *, is_small: bool, is_whole: bool) -> None:
        super().__init__(ring)
        self.is_whole, self._is_small = is_whole, is_small

    def _living(self, node: VirtualNode) -> None:
        if self.is_whole:
            super()._living(node)

    def _numbers(self, machine: RingMachine) -> None:
        if self._is_small:
            super()._numbers(machine)

    def principals(self) -> None:
        if self._is_small:
            super().principals()


class RingIsSound:
    """I3 to I6 after every event, I1 and I2 too where the scenario spares enough peers, until somebody takes the
    living for dead (`false_alarms`). Above 32 peers I2 is left out, and I6 is asked of each peer's own records."""

    def __init__(self, ring: SimulatedRing, *, peers: int, is_whole: bool = False) -> None:
        self.invariants = _Invariants(ring, is_small=peers <= SMALL, is_whole=is_whole)
        self.name = _asked(is_small=peers <= SMALL, is_whole=is_whole)
        self._broken: str | None = None
        ring.after_event = self._look
        ring.on_stop = self.invariants.forget
        ring.on_found = self.invariants.begin_from

    def _look(self, machine: RingMachine, message: Message | None, sender: Contact | None) -> None:
        if self._broken is None:
            try:
                self.invariants.after(machine, message, sender)
            except InvariantBrokenError as error:
                self._broken = str(error)

    def after_event(self, world: World) -> str | None:
        return self._broken

    def at_end(self, world: World) -> str | None:
        return self._broken


def _asked(*, is_small: bool, is_whole: bool) -> str:
    if is_small:
        return "ring I1-I6" if is_whole else "ring I3-I6"
    return f"ring {'I1, ' if is_whole else ''}I3-I5, I6 of own records"


class RingHeals:
    """I7: after the faults stop at `peace_at_s`, every list becomes right, and all peers that are up are members."""

    name = "ring I7 becomes ideal"

    def __init__(self, ring: SimulatedRing, *, peers: int, peace_at_s: float) -> None:
        self._ring, self._peace_at_s = ring, peace_at_s
        self._look_at_s = peace_at_s
        self._deadline_s = peace_at_s + ideal_within_s(ring.rules, peers)
        self.first_s = self.ideal_s = -1.0

    @property
    def is_done(self) -> bool:
        return self.ideal_s >= 0

    def after_event(self, world: World) -> str | None:
        if self.is_done or world.now < self._look_at_s:
            return None
        self._look_at_s = max(self._look_at_s + LOOK_S, world.now)
        first, whole = health(self._ring)
        if first < 1:
            self.first_s = -1.0
        elif self.first_s < 0:
            self.first_s = world.now - self._peace_at_s
        if whole == 1:
            self.ideal_s = world.now - self._peace_at_s
        elif world.now > self._deadline_s:
            return self._sentence(world, first, whole)
        return None

    def at_end(self, world: World) -> str | None:
        return None if self.is_done else self._sentence(world, *health(self._ring))

    def _sentence(self, world: World, first: float, whole: float) -> str:
        return (
            f"{world.now - self._peace_at_s:.0f} s after the last fault {first:.1%} of the first successors "
            f"and {whole:.1%} of all lists are right"
        )


def health(ring: SimulatedRing) -> tuple[float, float]:
    """Shares of the peers that are up whose first successor, and whose whole lists, are right."""
    nodes = sum(len(machine.nodes) for machine in ring.machines.values())
    members = len(ring_of(ring))
    first, whole = how_right(ring)
    share = members / nodes if nodes else 0.0
    return first * share, whole * share


class Lookups:
    """Random members look up random keys all the while; the owner that they find is compared with the
    owner at that moment. With `key`, all of them want the same."""

    def __init__(
        self, ring: SimulatedRing, *, per_s: float, from_s: float, until_s: float, key: Key | None = None
    ) -> None:
        self._ring, self._per_s, self._until_s, self._key = ring, per_s, until_s, key
        self._chance = ring.world.chance("lookups")
        self.asked = self.answered = self.wrong = self.empty = self.hops = 0
        self.paths: Counter[int] = Counter()  # answered lookups by their hops
        ring.world.schedule.at(from_s, self._ask)

    def _ask(self) -> None:
        ring = self._ring
        if ring.world.now >= self._until_s:
            return
        ring.world.schedule.after(1.0 / self._per_s, self._ask)
        members = [p for p in ring.programs.values() if self._is_asked(p)]
        if members:
            self.asked += 1
            key = self._key or Key(self._chance.randbytes(20))
            ring.look_up(self._chance.choice(members), key, self._done)

    def _is_asked(self, program: RingProgram) -> bool:
        return program.machine.nodes[0].is_member and program.host.is_responsive

    def _done(self, done: LookupDone) -> None:
        self.answered += 1
        self.hops += done.hops
        self.paths[done.hops] += 1
        if not done.holders:
            self.empty += 1
        elif done.holders[0] != owner_in(ring_of(self._ring), done.key):
            self.wrong += 1

    @property
    def failed(self) -> int:
        return self.wrong + self.empty + self.asked - self.answered


class MostAreFound(Silent):
    """Of the lookups at most a share fails: wrong, empty or never answered."""

    name = "lookups find the owner"

    def __init__(self, lookups: Lookups, *, share: float) -> None:
        self._lookups, self._share = lookups, share

    def at_end(self, world: World) -> str | None:
        failed, asked = self._lookups.failed, self._lookups.asked
        return f"{failed:,} of {asked:,} lookups failed" if failed > self._share * asked else None


class RingUnderTest:
    """Three peers on this network with that fault, for any test: a ring to hurt and to look at.

        ring = RingUnderTest(3, link=LineQuality(loss=0.1), faults=[Fault(kind="mute", at_s=20, hosts=(1,))])
        ring.pass_time(60)
        ring.settle()                            # faults end, and the ring must become ideal

    Its invariants are looked at after every event; a violation raises `ViolationError` at once.
    """

    def __init__(
        self,
        peers: int,
        *,
        seed: int = 1,
        link: LineQuality | None = None,
        latency: Latency | None = None,
        faults: Sequence[Fault] = (),
        rules: RingRules | None = None,
        machine_class: type[RingMachine] = RingMachine,
    ) -> None:
        self.world = World(seed=seed, link=link, latency=latency)
        self.ring = SimulatedRing(self.world, rules, machine_class=machine_class)
        self.peers = peers
        self.ring.found(peers)
        self.world.plan(faults)
        self._sound = RingIsSound(self.ring, peers=peers)
        self.world.run_until(0.0, [self._sound])  # they start

    def pass_time(self, seconds: float) -> None:
        self.world.run_until(self.world.now + seconds, [self._sound])

    def strike(self, kind: str, *hosts: int, **settings: float) -> None:
        """A fault, now."""
        fault = Fault(kind=kind, at_s=self.world.now, hosts=hosts, settings=settings)
        fault.check(self.peers)
        apply_fault(fault, self.world)

    def machine(self, host: int) -> RingMachine:
        """Of a host that is up."""
        return self.ring.machines[self.ring.peers[host]]

    def settle(self) -> float:
        """All trouble ends; gives the seconds until every list is right, and raises where that never comes."""
        self.strike("settle")
        heals = RingHeals(self.ring, peers=self.peers, peace_at_s=self.world.now)
        until_s = self.world.now + ideal_within_s(self.ring.rules, self.peers)
        while not heals.is_done and self.world.now < until_s:
            self.world.run_until(self.world.now + 10.0, [self._sound, heals])
        self.world.conclude([self._sound, heals])
        return heals.ideal_s
