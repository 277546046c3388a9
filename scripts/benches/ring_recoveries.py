"""How does a ring take the standard blows? Each trial builds a world, hurts it, and measures how long it takes to be
right.

The blows are those by which the design was judged: half of the ring dies, many join few, two rings merge through one
contact, a split ring heals. A time is from the blow until every member's first successor is right, and until every
list is.
"""

from dataclasses import dataclass
from random import Random

from simnet.rings import RingWorld, how_right, peer_number, ring_of
from simnet.ringtrials import LOSS, rules_with

CHECK_S = 5.0
PATIENCE_S = 3_600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """Virtual seconds from the blow; None: not within the patience."""

    first_s: float | None
    whole_s: float | None


def recovery(world: RingWorld, patience_s: float = PATIENCE_S) -> Recovery:
    """Run until all is right.  A moment counts as right only if nothing turns wrong before all lists are."""
    start, first_s = world.now, None
    while world.now - start < patience_s:
        world.run(CHECK_S)
        first, whole = how_right(world)
        if first < 1:
            first_s = None
        elif first_s is None:
            first_s = world.now - start
        if whole == 1:
            return Recovery(first_s=first_s, whole_s=world.now - start)
    return Recovery(first_s=first_s, whole_s=None)


def half_dies(seed: int, peers: int, *, gossips: bool = True) -> Recovery:
    world = RingWorld(seed, rules_with(gossips=gossips), loss=LOSS)
    world.ideal([peer_number(n) for n in range(peers)], knows_all=gossips)
    world.run(30)
    for peer in Random(seed).sample(sorted(world.machines), peers // 2):
        world.crash(peer)
    return recovery(world)


def join_storm(seed: int, members: int, joiners: int, *, gossips: bool = True) -> Recovery:
    world = RingWorld(seed, rules_with(gossips=gossips), loss=LOSS)
    world.ideal([peer_number(n) for n in range(members)], knows_all=gossips)
    world.run(30)
    chance = Random(seed)
    contacts = [world.machines[peer].me for peer in sorted(world.machines)]
    for number in range(members, members + joiners):
        world.join(peer_number(number), chance.sample(contacts, 4))
        world.run(10 / joiners)
    return recovery_of(world, members + joiners)


def recovery_of(world: RingWorld, members: int) -> Recovery:
    """As `recovery`, but a ring that some have not joined yet is not right."""
    start = world.now
    while len(ring_of(world)) < members and world.now - start < PATIENCE_S:
        world.run(CHECK_S)
    waited_s = world.now - start
    rest = recovery(world)
    return Recovery(
        first_s=None if rest.first_s is None else rest.first_s + waited_s,
        whole_s=None if rest.whole_s is None else rest.whole_s + waited_s,
    )


def merge(seed: int, each: int, *, gossips: bool = True) -> Recovery:
    """Two rings, whole in themselves, learn of each other through a single contact."""
    world = RingWorld(seed, rules_with(gossips=gossips), loss=LOSS)
    for half in range(2):
        world.ideal([peer_number(n) for n in range(half * each, half * each + each)], knows_all=gossips)
    world.run(30)
    peers = [peer_number(0).peer, peer_number(each).peer]
    one, other = (world.machines[peer] for peer in peers)
    one.merge(other.me, world.now)
    world.settle(one)
    return recovery(world)


def split_and_heal(seed: int, peers: int, apart_s: float = 1_800.0) -> Recovery:
    world = RingWorld(seed, rules_with(), loss=LOSS)
    world.ideal([peer_number(n) for n in range(peers)])
    world.run(30)
    chance = Random(seed)
    world.sides = {peer: chance.randrange(2) for peer in sorted(world.machines)}
    world.run(apart_s)
    world.sides = {}
    return recovery(world)
