"""Rings in worlds: every scenario heals, the same seed is the same run, and both carriers agree."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass

import pytest
import trio

from dht.core.ids import KEY_BYTES, Key
from dht.core.records import Contact
from dht.core.ring import VirtualNode
from dht.core.rules import RingRules
from simnet.host import TrioCarrier, run_world
from simnet.mutants import MUTANTS, hunt, sound
from simnet.ringprogram import RingProgram, SimulatedRing
from simnet.rings import NETWORK, owner_in, ring_of
from simnet.ringwatch import RingHeals, RingIsSound
from simnet.runs import Options, RunReport, ScenarioRun, run_scenario
from simnet.scenarios import find_scenario
from simnet.world.faults import Fault
from simnet.world.network import LineQuality
from simnet.world.world import World
from tests.simnet.whole_nodes import WholeNodes

RULES = RingRules(network=NETWORK)


def play(name: str, **settings: str) -> RunReport:
    report, _ = run_scenario(find_scenario(name), Options(seed=1, peers=12, settings=settings))
    return report


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("quiet", {"for_s": "120"}),
        ("join-storm", {}),
        ("half-dies", {}),
        ("churn", {"session_h": "0.05", "for_s": "200", "lookups_per_s": "2"}),
        ("flash-crowd", {"for_s": "30"}),
        ("split-and-heal", {"apart_s": "300"}),
        ("rolling-restart", {}),
        ("merge", {}),
        ("liars", {"for_s": "100"}),
    ],
)
def test_a_ring_stays_sound_and_becomes_ideal_after(name: str, settings: dict[str, str]) -> None:
    report = play(name, **settings)
    assert report.ok, report.violation
    assert report.figures["ideal after"] >= 0
    assert report.figures["datagrams"] > 100


def test_a_ring_that_is_not_ideal_after_the_quiet_is_reported() -> None:
    options = Options(seed=1, peers=6, settings={"for_s": "120"})
    apart = [Fault(kind="partition", at_s=30.0, hosts=(0, 1, 2))]
    report, _ = run_scenario(find_scenario("quiet"), options, faults=apart)
    assert report.violation is not None
    assert report.virtual_s is not None
    assert report.virtual_s > 120


def test_what_a_large_ring_is_not_asked_is_not_in_the_checkers_name() -> None:
    names = [
        RingIsSound(SimulatedRing(World(seed=1), RULES), peers=peers, is_whole=is_whole).name
        for peers in (32, 33)
        for is_whole in (True, False)
    ]
    assert names == [
        "ring I1-I6",
        "ring I3-I6",
        "ring I1, I3-I5, I6 of own records",
        "ring I3-I5, I6 of own records",
    ]


@pytest.mark.parametrize("seed", range(4))
def test_in_a_flash_crowd_the_peer_that_answers_for_the_key_dies(seed: int) -> None:
    scenario, options = find_scenario("flash-crowd"), Options(seed=seed, peers=12, settings={"for_s": "30"})
    run = ScenarioRun(scenario, options)
    scenario.play(run)
    (crash,) = run.faults
    run.world.run_until(crash.at_s - 0.001)
    ring = next(host.program.ring for host in run.world.hosts if isinstance(host.program, RingProgram))
    key = Key(run.world.chance("crowd").randbytes(KEY_BYTES))
    assert ring.peers[crash.hosts[0]] == owner_in(ring_of(ring), key).peer


@pytest.mark.parametrize("seed", range(8))
def test_a_split_ring_of_four_has_two_on_each_side(seed: int) -> None:
    scenario = find_scenario("split-and-heal")
    run = ScenarioRun(scenario, Options(seed=seed, peers=4))
    scenario.play(run)
    assert len(run.faults[0].hosts) == 2


def test_churn_reports_lookups_that_mostly_find_the_owner() -> None:
    figures = play("churn", session_h="0.2", for_s="300").figures
    assert figures["lookups"] > 1_000
    assert figures["lookups wrong"] < 0.05 * figures["lookups"]
    assert figures["lookups empty"] == 0


def test_a_ring_that_stays_apart_is_reported_with_the_share_that_is_right() -> None:
    world = World(seed=4)
    ring = SimulatedRing(world, RULES)
    ring.found(6)
    heals = RingHeals(ring, peers=6, peace_at_s=10.0)
    world.plan([Fault(kind="partition", at_s=5.0, hosts=(0, 1, 2))])
    world.run_until(300.0, [heals])
    told = heals.at_end(world)
    assert told is not None
    assert "of all lists are right" in told


class _Forgetful(VirtualNode):
    def _rectify(self, source: Contact, now: float) -> None:
        if source.position < self.contact.position:  # it forgets that the circle goes on behind zero
            self._set_predecessor(source, now)


def test_a_broken_core_is_found_in_a_world_too() -> None:
    world = World(seed=4, link=LineQuality(loss=0.01))
    broken = type("Broken", (SimulatedRing(world).machine_class,), {"node_class": _Forgetful})
    ring = SimulatedRing(world, RULES, machine_class=broken)
    for number in range(5):
        ring.add(start_at=5.0 * number)
    sound_check = RingIsSound(ring, peers=5)
    heals = RingHeals(ring, peers=5, peace_at_s=60.0)
    world.run_until(700.0)
    assert (sound_check.at_end(world) or heals.at_end(world)) is not None


HASHES = """
import json
from simnet.runs import Options, run_scenario
from simnet.scenarios import find_scenario
told = []
for name, seed in (("half-dies", 1), ("half-dies", 2), ("rolling-restart", 1)):
    report, _ = run_scenario(find_scenario(name), Options(seed=seed, peers=6))
    told.append(report.trace)
from tests.simnet.test_ring_worlds import lists_of_whole_nodes
told += [lists_of_whole_nodes(seed)[0] for seed in (1, 2)]
print(json.dumps(told))
"""


def test_a_seed_is_one_run_on_both_carriers_whatever_python_hashes() -> None:
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", HASHES],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for hash_seed in ("0", "4242")
    ]
    told = [json.loads(run.communicate()[0]) for run in runs]
    assert told[0] == told[1]
    assert len(set(told[0])) == len(told[0]), "another seed or scenario is another run"


# --- one small scenario on both carriers: five join one by one, one crashes, and comes back


@dataclass(frozen=True)
class Lists:
    """Positions follow from addresses, so they are the same on both."""

    predecessor: bytes | None
    successors: tuple[bytes, ...]


ADDRESSES = [(f"20.0.{number}.1", 4_484) for number in range(5)]
BLOWS = [Fault(kind="crash", at_s=60.0, hosts=(2,)), Fault(kind="start", at_s=260.0, hosts=(2,))]


def lists_in(nodes: list[VirtualNode]) -> Lists:
    node = nodes[0]
    before = node.predecessor.position if node.predecessor else None
    return Lists(before, tuple(contact.position for contact in node.successors))


def lists_of_machines(seed: int) -> tuple[dict[bytes, Lists], dict[bytes, Lists]]:
    """While one is away, and at the end."""
    world = World(seed=seed, link=LineQuality(loss=0.01))
    ring = SimulatedRing(world, RULES)
    for number, address in enumerate(ADDRESSES):
        ring.add(start_at=5.0 * number, address=address)
    world.plan(BLOWS)

    def now() -> dict[bytes, Lists]:
        return {machine.me.position: lists_in(machine.nodes) for machine in ring.machines.values()}

    world.run_until(255.0)
    between = now()
    world.run_until(460.0)
    return between, now()


def lists_of_whole_nodes(seed: int) -> tuple[str, dict[bytes, Lists], dict[bytes, Lists]]:
    async def main(carrier: TrioCarrier) -> tuple[str, dict[bytes, Lists], dict[bytes, Lists]]:
        whole = WholeNodes(carrier, RULES)
        for number, address in enumerate(ADDRESSES):
            whole.add(address, start_at=5.0 * number)
        carrier.world.plan(BLOWS)

        def now() -> dict[bytes, Lists]:
            found = {}
            for node in whole.nodes.values():
                (view,) = node.statistics().ring.nodes
                before = view.predecessor.position if view.predecessor else None
                found[bytes(node.me.position)] = Lists(before, tuple(c.position for c in view.successors))
            return found

        await trio.sleep(255.0)
        between = now()
        await trio.sleep(205.0)
        return carrier.world.trace.digest(), between, now()

    return run_world(main, seed=seed, link=LineQuality(loss=0.01))


def test_real_nodes_on_trio_and_machines_on_the_heap_end_with_the_same_lists() -> None:
    _, between, at_end = lists_of_whole_nodes(3)
    assert (between, at_end) == lists_of_machines(3)
    assert (len(between), len(at_end)) == (4, 5)


# --- planted bugs


@pytest.mark.parametrize("name", [mutant.name for mutant in MUTANTS])
def test_a_planted_bug_is_found_within_a_few_seeds(name: str) -> None:
    (catch,) = hunt(200, (name,))
    assert catch.seed is not None, f"{name} passed 200 storms"


@pytest.mark.parametrize("seed", range(101, 104))
def test_the_core_as_it_is_passes_the_storms_that_find_the_bugs(seed: int) -> None:
    assert sound(seed) is None


@pytest.mark.sweep
@pytest.mark.timeout(14_400)
def test_the_core_as_it_is_passes_five_thousand_storms() -> None:
    assert [seed for seed in range(1, 5_001) if sound(seed) is not None] == []
