"""How fast does virtual time pass, and what does a peer weigh? Rings of several sizes, on every carrier.

Each measurement is a process of its own, so that its memory is its own. CPU time counts, as wall time moves
with whatever else runs; memory is the resident peak less what the process had before the peers.
"""

import argparse
import json
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable

import trio

from dht.core.rules import QUIET_AFTER_S, RingRules
from simnet.host import TrioCarrier, run_world
from simnet.ringprogram import SimulatedRing
from simnet.rings import NETWORK, RingWorld, peer_number
from simnet.runs import patient_collector
from simnet.scenarios import find_scenario
from simnet.world.network import LineQuality
from simnet.world.world import World
from tests.simnet.whole_nodes import WholeNodes

RULES = RingRules(network=NETWORK)
ROUTING_ONLY = RingRules(network=NETWORK, gossips=False)


def memory_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measured(peers: int, setup: Callable[[], Callable[[float], int]], virtual_s: float) -> dict[str, float]:
    """`setup` gives what runs so many virtual seconds and tells the events."""
    before_mb, began = memory_mb(), time.process_time()
    go = setup()
    with patient_collector():  # as `simnet run` does
        setup_s, began = time.process_time() - began, time.process_time()
        events = go(virtual_s)
        cpu_s = time.process_time() - began
    return {
        "peers": peers,
        "setup_cpu_s": setup_s,
        "virtual_s_per_cpu_s": virtual_s / cpu_s,
        "events_per_cpu_s": events / cpu_s,
        "kb_per_peer": 1024 * (memory_mb() - before_mb) / peers,
    }


def settled(peers: int, virtual_s: float) -> dict[str, float]:
    """A ring that has been quiet for longer than half an hour: its peers look at their neighbours less often."""
    return worlds(peers, virtual_s, after_s=QUIET_AFTER_S * 4 / 3)


def worlds(peers: int, virtual_s: float, after_s: float = 30.0) -> dict[str, float]:
    def setup() -> Callable[[float], int]:
        world = World(seed=1, link=LineQuality(loss=0.01))
        SimulatedRing(world, RULES).found(peers)
        world.run_until(after_s)

        def go(seconds: float) -> int:
            before = world.schedule.events
            world.run_until(world.now + seconds)
            return world.schedule.events - before

        return go

    return measured(peers, setup, virtual_s)


def _bare(peers: int, virtual_s: float, rules: RingRules, *, knows_all: bool) -> dict[str, float]:
    def setup() -> Callable[[float], int]:
        world = RingWorld(1, rules, loss=0.01)
        world.ideal([peer_number(number) for number in range(peers)], knows_all=knows_all)
        if knows_all:
            world.run(30.0)

        def go(seconds: float) -> int:
            before = world.events
            world.run(seconds)
            return world.events - before

        return go

    return measured(peers, setup, virtual_s)


def machines(peers: int, virtual_s: float) -> dict[str, float]:
    return _bare(peers, virtual_s, RULES, knows_all=True)


def routing(peers: int, virtual_s: float) -> dict[str, float]:
    return _bare(peers, virtual_s, ROUTING_ONLY, knows_all=False)


def whole(peers: int, virtual_s: float) -> dict[str, float]:
    """Real nodes on trio; the time in which they join, one a second, is left out."""
    told: dict[str, float] = {}

    async def main(carrier: TrioCarrier) -> None:
        before_mb, began = memory_mb(), time.process_time()
        nodes = WholeNodes(carrier, RULES)
        for number in range(peers):
            nodes.add((f"20.{number >> 8}.{number & 255}.1", 4_484), start_at=float(number))
        await trio.sleep(peers + 60.0)
        told["setup_cpu_s"], began = time.process_time() - began, time.process_time()
        events = carrier.world.schedule.events
        await trio.sleep(virtual_s)
        cpu_s = time.process_time() - began
        told["peers"] = peers
        told["virtual_s_per_cpu_s"] = virtual_s / cpu_s
        told["events_per_cpu_s"] = (carrier.world.schedule.events - events) / cpu_s
        told["kb_per_peer"] = 1024 * (memory_mb() - before_mb) / peers

    run_world(main, seed=1, link=LineQuality(loss=0.01))
    return told


def storms(seeds: int, virtual_s: float) -> dict[str, float]:
    """Seeds of the short sweep, one after the other."""
    del virtual_s
    from simnet.runs import Options, run_scenario

    began = time.process_time()
    for seed in range(1, seeds + 1):
        report, _ = run_scenario(find_scenario("storms"), Options(seed=seed))
        assert report.ok, report.violation
    return {"seeds": seeds, "seeds_per_cpu_min": 60 * seeds / (time.process_time() - began)}


CARRIERS: dict[str, Callable[[int, float], dict[str, float]]] = {
    "world": worlds, "settled": settled, "machines": machines, "routing": routing, "whole": whole, "storms": storms,
}  # fmt: skip
PLAN = (
    ("world", 100, 300.0), ("world", 1_000, 60.0), ("settled", 1_000, 60.0), ("machines", 100, 300.0),
    ("machines", 1_000, 60.0),
    ("routing", 1_000, 60.0), ("routing", 100_000, 5.0), ("whole", 20, 60.0), ("storms", 20, 0.0),
)  # fmt: skip
LARGE = (
    ("world", 3_000, 20.0), ("world", 10_000, 20.0), ("machines", 10_000, 5.0), ("whole", 100, 60.0),
)  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench simnet", description=__doc__)
    parser.add_argument("--only", choices=sorted(CARRIERS), help="this carrier alone")
    parser.add_argument("--peers", type=int, help="with --only: so many")
    parser.add_argument("--seconds", type=float, default=60.0, help="with --peers: virtual seconds")
    parser.add_argument("--large", action="store_true", help="sizes that need minutes and gigabytes as well")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.only and options.peers:
        told = CARRIERS[options.only](options.peers, options.seconds)
        sys.stdout.write(json.dumps(told) + "\n")
        return 0
    plan = [each for each in PLAN + LARGE * options.large if options.only in (None, each[0])]
    results = [{"carrier": name, **_apart(name, peers, seconds)} for name, peers, seconds in plan]
    if options.json:
        sys.stdout.write(json.dumps({"python": platform.python_version(), "results": results}) + "\n")
        return 0
    for result in results:
        figures = ", ".join(
            f"{key} {value:,.1f}" for key, value in result.items() if isinstance(value, float)
        )
        sys.stdout.write(f"{result['carrier']:<9} {result.get('peers', ''):>7}  {figures}\n")
    return 0


def _apart(name: str, peers: int, seconds: float) -> dict[str, float]:
    command = [sys.executable, "-m", "scripts.benches.simnet"]
    command += ["--only", name, "--peers", str(peers), "--seconds", str(seconds)]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    figures: dict[str, float] = json.loads(told.stdout)
    return figures


if __name__ == "__main__":
    sys.exit(main())
