"""How does any test get three peers on this network with that fault? A pytest plugin.

    pytest_plugins = ("simnet.testing",)

    def test_three_peers_survive_a_mute_one(ring_world):
        ring = ring_world(3, link=Link(loss=0.1), faults=[Fault(kind="mute", at_s=20, hosts=(1,))])
        ring.pass_time(60)
        ring.settle()                        # faults end, and the ring must become ideal

`ring` is a `simnet.ringtest.RingUnderTest`. Its invariants are looked at after every
event; a violation raises `ViolationError` at once.
"""

from collections.abc import Callable

import pytest

from simnet.ringtest import MakeRing, RingUnderTest
from simnet.world.world import World


@pytest.fixture
def ring_world() -> MakeRing:
    """A whole ring of the given size from the start."""
    return RingUnderTest


@pytest.fixture
def empty_world() -> Callable[[int], World]:
    """A world by its seed, for programs of your own."""
    return lambda seed: World(seed=seed)
