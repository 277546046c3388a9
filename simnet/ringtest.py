"""How does any test get three peers on this network with that fault? As a ring to hurt and to look at.

    ring = RingUnderTest(3, link=LineQuality(loss=0.1), faults=[Fault(kind="mute", at_s=20, hosts=(1,))])
    ring.pass_time(60)
    ring.settle()                            # faults end, and the ring must become ideal

Its invariants are looked at after every event; a violation raises `ViolationError` at once.
"""

from collections.abc import Sequence

from dht.core.machine import RingMachine
from dht.core.rules import RingRules
from simnet.ringchecks import ideal_within_s
from simnet.ringprogram import SimulatedRing
from simnet.ringwatch import RingHeals, RingIsSound
from simnet.world.faults import Fault, apply_fault
from simnet.world.latency import Latency
from simnet.world.network import LineQuality
from simnet.world.world import World


class RingUnderTest:
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
