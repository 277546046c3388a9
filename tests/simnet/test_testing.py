"""The fixtures for other people's tests: rings, faults and their checkers in a few lines."""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from dht.core.machine import RingMachine
from dht.core.ring import VirtualNode
from dht.core.rules import RingRules
from simnet.rings import NETWORK
from simnet.ringwatch import RingUnderTest
from simnet.runs import Options, run_scenario
from simnet.scenarios import find_scenario
from simnet.scenarios.measures import _links_wrong
from simnet.world.faults import Fault, FaultError
from simnet.world.network import LineQuality
from simnet.world.world import ViolationError


def test_three_peers_on_a_lossy_network_survive_a_mute_one() -> None:
    ring = RingUnderTest(3, link=LineQuality(loss=0.1), faults=[Fault(kind="mute", at_s=20.0, hosts=(1,))])
    ring.pass_time(60)
    assert ring.world.network.counters.cut > 0
    assert 0 <= ring.settle() < 600


def test_a_crash_is_noticed_and_a_start_as_well() -> None:
    ring = RingUnderTest(5, seed=3)
    gone = ring.machine(2).me
    ring.strike("crash", 2)
    ring.pass_time(120)
    assert all(gone not in ring.machine(host).nodes[0].successors for host in (0, 1, 3, 4))
    ring.strike("start", 2)
    ring.settle()
    assert any(gone in ring.machine(host).nodes[0].successors for host in (0, 1, 3, 4))


def test_a_ring_that_was_down_as_a_whole_comes_back() -> None:
    ring = RingUnderTest(4, seed=5)
    ring.pass_time(30)
    ring.strike("crash", 0, 1, 2, 3)
    ring.pass_time(5)
    assert ring.settle() > 0


def test_a_laptop_that_slept_for_an_hour_is_dropped_meanwhile_and_then_back_at_its_place() -> None:
    ring = RingUnderTest(6, seed=4)
    asleep = ring.machine(2).me
    ring.strike("suspend", 2, for_s=3_600.0)
    ring.pass_time(600)
    others = [ring.machine(host) for host in (0, 1, 3, 4, 5)]
    assert all(asleep not in one.nodes[0].successors for one in others)
    assert all(asleep.peer not in one.table.records for one in others)  # dead, by two witnesses
    ring.pass_time(3_060)
    assert ring.settle() < 600
    assert ring.machine(2).me == asleep
    assert all(asleep in ring.machine(host).nodes[0].successors for host in (0, 1, 3, 4, 5))


def test_a_fault_that_cannot_be_is_refused() -> None:
    ring = RingUnderTest(3)
    with pytest.raises(FaultError, match="there are 3"):
        ring.strike("crash", 7)
    with pytest.raises(FaultError, match="no fault is called"):
        ring.strike("earthquake", 1)


class _Backwards(VirtualNode):
    """Keeps its lists in the wrong order."""

    def _changed(self, now: float) -> None:
        self.successors = tuple(reversed(self.successors))
        super()._changed(now)


def test_what_breaks_an_invariant_is_raised_when_it_happens() -> None:
    machine_class = type("Machine", (RingMachine,), {"node_class": _Backwards})
    ring = RingUnderTest(6, rules=RingRules(network=NETWORK), machine_class=machine_class)
    ring.strike("crash", 2)
    with pytest.raises(ViolationError, match="out of order"):
        ring.pass_time(120)


class WorldUnderBlows(RuleBasedStateMachine):
    """Hypothesis drives a world; the first host stays, so that there is always a ring to come back to."""

    @initialize(seed=st.integers(0, 1_000), peers=st.integers(3, 7))
    def begin(self, seed: int, peers: int) -> None:
        self.ring = RingUnderTest(peers, seed=seed, link=LineQuality(loss=0.02))

    @rule(seconds=st.sampled_from((0.05, 1.0, 10.0, 40.0)))
    def time_passes(self, seconds: float) -> None:
        self.ring.pass_time(seconds)

    @rule(host=st.integers(1, 6), kind=st.sampled_from(("crash", "start")))
    def come_and_go(self, host: int, kind: str) -> None:
        self.ring.strike(kind, 1 + host % (self.ring.peers - 1))

    @rule(host=st.integers(0, 6), kind=st.sampled_from(("suspend", "stall", "partition", "mute")))
    def trouble(self, host: int, kind: str) -> None:
        self.ring.strike(kind, host % self.ring.peers)

    def teardown(self) -> None:
        if hasattr(self, "ring"):
            self.ring.settle()


WorldUnderBlows.TestCase.settings = settings(
    max_examples=8,
    stateful_step_count=10,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
TestWorldUnderBlows = WorldUnderBlows.TestCase


def test_swarm_runs_differ_in_kind_and_repeat_by_seed() -> None:
    swarm = find_scenario("swarm")
    reports = [run_scenario(swarm, Options(seed=seed, settings={"faults": "5"}))[0] for seed in (2, 3, 2)]
    assert all(report.ok for report in reports), reports
    assert reports[0].trace == reports[2].trace != reports[1].trace
    assert len({report.peers for report in reports}) > 1


def test_links_cost_least_on_a_walk_and_most_by_a_lookup_each() -> None:
    options = Options(seed=1, peers=60, settings={"lookups": "60"})
    figures = run_scenario(find_scenario("paper-links"), options)[0].figures
    direct, batched = figures["direct, bytes per link"], figures["batched lookup, bytes per link"]
    assert direct > batched > figures["walk, bytes per link"] > 10
    assert figures["thesis sizes, ring walk"] < 72
    assert _links_wrong(figures) is None
    assert _links_wrong(figures | {"lookups wrong": 2.0}) == "2 lookups found a wrong owner"
    assert _links_wrong(figures | {"links undelivered": 3.0}) == "3 links did not arrive"
    assert "on a walk" in str(_links_wrong(figures | {"walk, bytes per link": 9_999.0}))


def test_lookups_in_a_ring_that_nobody_repairs_find_the_owner_while_half_is_dead() -> None:
    options = Options(seed=1, peers=100, settings={"lookups": "100"})
    report, _ = run_scenario(find_scenario("chord-table"), options)
    assert report.ok, report.violation
    assert report.figures["timeouts at 0.5 dead"] > report.figures["timeouts at 0.1 dead"] > 0


def test_lookups_under_churn_succeed() -> None:
    options = Options(seed=1, peers=40, settings={"for_s": "30"})
    report, _ = run_scenario(find_scenario("chord-churn"), options)
    assert report.ok, report.violation
    assert report.figures["lookups"] > 100
