"""Does a ring find owners while its members die, or come and go? Each trial counts the results of lookups."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from statistics import fmean

from dht.core.effects import Effect, LookupDone
from dht.core.frames import SEALED_HEADER_BYTES, TAG_BYTES
from dht.core.ids import Key, PeerKey, key_from_number, number_of
from dht.core.machine import RingMachine
from dht.core.messages import Message
from dht.core.records import Contact
from dht.core.rules import RingRules
from dht.wire import encode_fitted
from simnet.rings import NETWORK, RingWorld, owner_in, peer_number, ring_of
from simnet.scenarios import Figures

LOSS = 0.01
NEVER_S = 1e9


def rules_with(*, gossips: bool = True, successors: int = 16) -> RingRules:
    return RingRules(network=NETWORK, gossips=gossips, successors=successors)


HEADERS = 28 + SEALED_HEADER_BYTES + TAG_BYTES  # IPv4 and UDP; session and counter; the seal


def size_of(message: Message) -> int:
    """A message's size on the wire."""
    return HEADERS + len(encode_fitted(message))


def churn(seed: int, peers: int, session_s: float, for_s: float = 3_600.0, lookups: int = 18_000) -> Figures:
    """Peers crash and others join at the same rate; live peers look up random keys all the while. Bits are those
    sent, in sealed datagrams with their headers, the lookups included."""
    world = RingWorld(seed, rules_with(), loss=LOSS)
    world.ideal([peer_number(n) for n in range(peers)])
    world.sizes = size_of
    world.run(60)
    trial = _ChurnTrial(world, seed, peers)
    world.bytes_sent, start = 0, world.now
    chance = Random(seed)
    next_change = world.now + chance.expovariate(peers / session_s)
    next_lookup = world.now
    while world.now < start + for_s:
        if next_change < next_lookup:
            world.run_until(next_change)
            trial.replace_one()
            next_change += chance.expovariate(peers / session_s)
        else:
            world.run_until(next_lookup)
            trial.look_up()
            next_lookup += for_s / lookups
    seconds = world.now - start
    bits = 8 * world.bytes_sent / seconds / peers
    world.run(60)
    return trial.figures() | {"bits per s and peer": bits}


class _ChurnTrial:
    def __init__(self, world: RingWorld, seed: int, peers: int) -> None:
        self.world = world
        self.chance = Random(seed + 1)
        self.number = peers
        self.asked = self.wrong = self.unanswered = self.empty = 0
        self.hops: list[int] = []
        self.open: dict[int, PeerKey] = {}
        world.on_effect = self._effect

    def replace_one(self) -> None:
        world = self.world
        peers = sorted(world.machines)
        world.crash(self.chance.choice(peers))
        contacts = [
            m.me for m in map(world.machines.__getitem__, sorted(world.machines)) if m.nodes[0].is_member
        ]
        world.join(peer_number(self.number), self.chance.sample(contacts, 4))
        self.number += 1
        self.empty += sum(
            not node.successors
            for machine in world.machines.values()
            for node in machine.nodes
            if node.is_member
        )

    def look_up(self) -> None:
        world = self.world
        machine = self._any_member()
        self.asked += 1
        lookup_id = machine.lookup(Key(self.chance.randbytes(20)), world.now)
        self.open[lookup_id] = machine.me.peer
        world.settle(machine)

    def _any_member(self) -> RingMachine:
        peers = list(self.world.machines)
        while True:
            machine = self.world.machines[self.chance.choice(peers)]
            if machine.nodes[0].is_member:
                return machine

    def _effect(self, _peer: PeerKey, effect: Effect) -> None:
        if isinstance(effect, LookupDone) and self.open.pop(effect.id, None) is not None:
            if not effect.holders:
                self.unanswered += 1
                return
            self.hops.append(effect.hops)
            if effect.holders[0] != owner_in(ring_of(self.world), effect.key):
                self.wrong += 1

    def figures(self) -> Figures:
        self.unanswered += sum(peer in self.world.machines for peer in self.open.values())
        return {
            "lookups": float(self.asked),
            "lookups wrong": float(self.wrong),
            "lookups unanswered": float(self.unanswered),
            "hops": fmean(self.hops or [0]),
            "empty lists": float(self.empty),
        }


# --- lookups in a ring that nobody repairs (the Chord papers' experiment)


@dataclass(frozen=True, slots=True, kw_only=True)
class Paths:
    """Path: the peers that answered before the owner was asked, as the papers count (the owner adds one)."""

    mean: float
    low: int  # 1st percentile
    high: int  # 99th
    timeouts: float
    timeouts_low: int
    timeouts_high: int
    wrong: int
    lookups: int


def lookups_without_repair(
    seed: int, peers: int, successors: int, failed: float, lookups: int = 10_000
) -> Paths:
    """Perfect lists and fingers, a share of the peers dead at once, and no time to notice: only the lookup
    copes.
    """
    world = unrepaired(seed, peers, successors)
    chance = Random(seed)
    for peer in chance.sample(sorted(world.machines), round(failed * peers)):
        world.crash(peer)
    living = ring_of(world)
    results: list[LookupDone] = []
    for _ in range(lookups):
        machine = world.machines[chance.choice(living).peer]
        results += looked_up(world, machine, Key(chance.randbytes(20)))
        _forgive(machine)  # it shall learn nothing for later lookups
    return _paths(results, living)


def looked_up(world: RingWorld, machine: RingMachine, key: Key) -> list[LookupDone]:
    """The machine's answer, once it is there."""
    done: list[LookupDone] = []

    def note(_peer: PeerKey, effect: Effect) -> None:
        if isinstance(effect, LookupDone):
            done.append(effect)

    world.on_effect = note
    machine.lookup(key, world.now)
    world.settle(machine)
    while not done and world.step():
        pass
    return done


def _forgive(machine: RingMachine) -> None:
    for peer in sorted(machine._detector.unwell):
        machine._detector.heard(peer)
    machine._host.health = 1


def unrepaired(seed: int, peers: int, successors: int = 16) -> RingWorld:
    """A whole ring that routes by fingers, as the papers'; only lookups run."""
    rules = replace(
        rules_with(gossips=False, successors=successors),
        stabilize_s=NEVER_S,
        graveyard_s=NEVER_S,
        finger_s=NEVER_S,
        digest_s=NEVER_S,
    )
    world = RingWorld(seed, rules)
    world.ideal([peer_number(n + seed * 1_000_000) for n in range(peers)], knows_all=False)
    ring = ring_of(world)
    positions = [contact.position for contact in ring]
    for machine in world.machines.values():
        _give_fingers(machine, ring, positions)
    return world


def _give_fingers(machine: RingMachine, ring: Sequence[Contact], positions: Sequence[Key]) -> None:
    """The first contact at or after every power of two, the farthest first: once one leads to the successor, all
    nearer ones do."""
    me, first = number_of(machine.me.position), machine.nodes[0].successors[0]
    for exponent in range(159, -1, -1):
        target = key_from_number(me + (1 << exponent))
        finger = ring[bisect_left(positions, target) % len(ring)]
        if finger.peer != machine.me.peer:
            machine.table.hint(finger)
        if finger == first:
            return


def _paths(results: list[LookupDone], living: list[Contact]) -> Paths:
    hops = sorted(max(result.hops - 1, 0) for result in results)
    timeouts = sorted(result.timeouts for result in results)
    wrong = sum(not r.holders or r.holders[0] != owner_in(living, r.key) for r in results)
    last = len(results) - 1
    return Paths(
        mean=fmean(hops),
        low=hops[last // 100],
        high=hops[last - last // 100],
        timeouts=fmean(timeouts),
        timeouts_low=timeouts[last // 100],
        timeouts_high=timeouts[last - last // 100],
        wrong=wrong,
        lookups=len(results),
    )
