"""Which cases did the other scenarios miss? Every seed draws its own ring: size, rules, network, and which faults
there are.

Constants are drawn within what a charter may say; each kind of fault is present in about half of the runs, so
that runs differ in kind and not only in order (swarm testing, Groce et al. 2012). The first peer is spared
restarts, as a ring that is down as a whole has nobody left to join.
"""

import random
from dataclasses import replace

from dht.core.rules import RingRules
from simnet.mutants import sound
from simnet.ringprogram import SimulatedRing
from simnet.rings import NETWORK
from simnet.runs import ScenarioRun
from simnet.scenarios import Figures, scenario, try_out
from simnet.scenarios.ring import watch
from simnet.world.faults import Fault, draw_faults
from simnet.world.network import King, Latency, LineQuality, LogNormal, Uniform

KINDS = ("restart", "clock", "suspend", "stall", "partition", "mute", "heal", "clog", "link")
CALM_S = 60.0


@scenario("swarm", summary="ring, network and faults all drawn from the seed",
          peers=12, peers_min=5, peers_max=200, seconds=600.0)  # fmt: skip
def swarm(run: ScenarioRun) -> None:
    blows_max = int(run.setting("faults", 20, high=1_000))
    rng = random.Random(f"{run.options.seed}/swarm")  # drawn before there is a world to ask
    run.use_network(latency=_latency(rng, run.options.seed), link=_link(rng))
    ring = SimulatedRing(run.world, _rules(rng))
    if run.options.peers is None:
        run.peers = rng.randint(5, 16)
    ring.found(run.peers, virtual_nodes=rng.choice((1, 1, 2, 3)))
    kinds = [kind for kind in KINDS if rng.random() < 0.5] or ["restart"]
    until_s = CALM_S + rng.uniform(60.0, 600.0)
    drawn = draw_faults(rng, hosts=run.peers, count=rng.randint(0, blows_max), until_s=until_s, kinds=kinds)
    watch(run, ring, until_s)
    run.plan(filter(None, map(_sparing, drawn)))


def _sparing(fault: Fault) -> Fault | None:
    if fault.kind != "restart":
        return fault
    others = tuple(host for host in fault.hosts if host != 0)
    return replace(fault, hosts=others) if others else None


def _latency(rng: random.Random, seed: int) -> Latency:
    return rng.choice(
        (
            Uniform(),
            Uniform(low_s=0.001, high_s=rng.uniform(0.01, 0.4)),
            LogNormal(seed=seed),
            King(seed=seed),
        )
    )


def _link(rng: random.Random) -> LineQuality:
    return LineQuality(
        loss=rng.choice((0.0, 0.01, 0.05)), duplicate=rng.choice((0.0, 0.02)), reorder=rng.choice((0.0, 0.1))
    )


def _rules(rng: random.Random) -> RingRules:
    return RingRules(
        network=NETWORK,
        successors=rng.randint(4, 16),
        stabilize_s=rng.uniform(2.0, 20.0),
        rumour_s=rng.uniform(1.0, 10.0),
        digest_s=rng.uniform(20.0, 90.0),
        graveyard_s=rng.uniform(20.0, 90.0),
    )


@scenario("storms", summary="small rings through every blow, long splits and forgeries; the toy log: by seeds",
          peers=12, peers_min=12, peers_max=12, seconds=1.0)  # fmt: skip
def storms(run: ScenarioRun) -> None:
    """Does the core pass the storms that catch the mutants? One seed is a storm of each kind."""

    def work() -> tuple[Figures, str | None]:
        return {}, sound(run.options.seed)

    try_out(run, "storms leave the core sound", work)
