"""From what does the ring recover, how soon, and by which of its means?"""

import pytest

from dht.core import rules as bounds
from dht.core.effects import Effect, PeerChanged
from dht.core.ids import PeerKey
from dht.core.machine import RingMachine
from dht.core.records import Contact
from dht.core.round_trips import TIMEOUT_FIRST_S
from scripts.benches.ring_recoveries import half_dies, merge
from simnet.rings import RingWorld, how_right, learn, peer_number, ring_of

PEERS = 60
REACH = 16  # the length of a successor list


def ring_around(*, knows_all: bool) -> tuple[RingWorld, list[Contact]]:
    world = RingWorld(1)
    world.ideal([peer_number(n) for n in range(PEERS)], knows_all=knows_all)
    ring = ring_of(world)
    world.run(20)
    return world, ring


def crash_all(world: RingWorld, contacts: list[Contact]) -> None:
    for contact in contacts:
        world.crash(contact.peer)


def until_ideal(world: RingWorld, patience_s: float) -> float:
    start = world.now
    while how_right(world) != (1, 1):
        assert world.now - start < patience_s, how_right(world)
        world.run(1)
    return world.now - start


def is_alone(machine: RingMachine, world: RingWorld) -> bool:
    (node,) = machine.statistics().nodes
    return not any(contact.peer in world.machines for contact in node.successors)


def test_when_all_successors_die_at_once_the_table_names_the_next() -> None:
    world, ring = ring_around(knows_all=True)
    survivor = world.machines[ring[0].peer]
    crash_all(world, ring[1 : REACH + 1])
    assert is_alone(survivor, world)
    world.run(25)
    assert survivor.statistics().nodes[0].successors[0] == ring[REACH + 1]
    until_ideal(world, 125)


def test_without_a_table_the_way_leads_back_along_the_predecessors() -> None:
    world, ring = ring_around(knows_all=False)
    crash_all(world, ring[1 : REACH + 1])
    until_ideal(world, 600)


def cut_off() -> tuple[RingWorld, RingMachine, Contact]:
    """A survivor that knows nobody alive, in a ring of which nobody alive knows it; and one of the others."""
    world, ring = ring_around(knows_all=False)
    survivor = world.machines[ring[0].peer]
    others = [world.machines[contact.peer] for contact in ring[1:]]
    records = [machine.record for machine in others]
    for machine in others:
        learn(machine, [signed for signed in records if signed is not None], world.now)
    crash_all(world, [*ring[1 : REACH + 1], *ring[-REACH:]])
    return world, survivor, ring[PEERS // 2]


def test_without_table_and_neighbours_a_grave_that_answers_leads_back() -> None:
    world, survivor, other = cut_off()
    world.sides = {other.peer: 1}
    survivor.merge(other, world.now)  # what it asks now is lost; the contact stays among those visited
    world.settle(survivor)
    world.run(10)
    world.sides = {}
    assert is_alone(survivor, world)
    until_ideal(world, 900)


def test_cut_off_from_everybody_the_rendezvous_leads_back() -> None:
    world, survivor, other = cut_off()
    world.run(900)
    assert is_alone(survivor, world)
    assert how_right(world) != (1, 1)
    survivor.merge(other, world.now)  # the shell does so for whomever the rendezvous or the LAN shows
    world.settle(survivor)
    assert until_ideal(world, 300) < 200


def test_a_run_of_dead_successors_costs_the_patience_for_two() -> None:
    world, ring = ring_around(knows_all=True)
    survivor = world.machines[ring[0].peer]
    crash_all(world, ring[1:REACH])
    start = world.now
    while survivor.statistics().nodes[0].successors[0] != ring[REACH]:
        world.run(0.5)
        assert world.now - start < 30
    longest_wait_s = world.rules.stabilize_s * (1 + bounds.JITTER)
    assert world.now - start < longest_wait_s + 2.5 * bounds.TRIES * TIMEOUT_FIRST_S


def test_a_living_peer_whose_answers_were_lost_is_well_again_within_seconds() -> None:
    """Nothing between two peers arrives for a while; helpers reach it, so it is soon tried again."""
    world, ring = ring_around(knows_all=True)
    one, other = ring[0].peer, ring[1].peer
    clocks: list[tuple[float, str]] = []

    def note(peer: PeerKey, effect: Effect) -> None:
        if peer == one and isinstance(effect, PeerChanged) and effect.peer == other:
            clocks.append((world.now, effect.clock))

    world.on_effect = note
    lost, start = {one: other, other: one}, world.now
    world.tamper = lambda sender, to, message: None if lost.get(sender) == to.peer else message
    while not clocks:
        world.run(1)
        assert world.now - start < 3 * world.rules.stabilize_s
    world.tamper = None
    began = world.now
    while clocks[-1][1] != "well":
        world.run(1)
        assert world.now - began < 30
    assert [clock for _, clock in clocks] == ["unreachable", "well"]
    until_ideal(world, 60)


@pytest.mark.parametrize("seed", [1, 2])
def test_two_rings_of_thirty_are_one_within_two_minutes_of_a_single_contact(seed: int) -> None:
    recovery = merge(seed, 30)
    assert recovery.first_s is not None
    assert recovery.first_s <= 75
    assert recovery.whole_s is not None
    assert recovery.whole_s <= 160


def test_first_successors_are_right_soon_after_half_of_a_ring_died() -> None:
    recovery = half_dies(1, 100)
    assert recovery.first_s is not None
    assert recovery.first_s <= 25
    assert recovery.whole_s is not None
    assert recovery.whole_s <= 125
