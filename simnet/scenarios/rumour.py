"""Does news reach everybody, whatever the network does? The simplest gossip, as a load for the world itself.

Each peer tells a random other what it knows, about once a second. Faults of every kind strike for half of
the time; then all must know all. Knowledge survives no restart, so a peer that came back must learn again.
"""

from simnet.runs import ScenarioRun
from simnet.scenarios import scenario
from simnet.world.faults import draw_faults
from simnet.world.hosts import WorldHost
from simnet.world.network import Address
from simnet.world.world import Silent, World

TOLD_MAX = 200  # numbers in one datagram


class RumourScenario:
    def __init__(self, host: WorldHost, world: World, peers: int) -> None:
        self._host, self._world, self._peers = host, world, peers
        self.known = {host.number}
        self._out: list[tuple[Address, bytes]] = []
        self._deadline = host.clock() + host.rng.random()

    def receive(self, data: bytes, sender: Address, now: float) -> None:
        told = (int.from_bytes(data[at : at + 4], "big") for at in range(0, len(data) - 3, 4))
        self.known.update(number for number in told if number < self._peers)

    def advance(self, now: float) -> None:
        rng = self._host.rng
        target = self._world.hosts[rng.randrange(self._peers)].address
        told = sorted(self.known)
        if len(told) > TOLD_MAX:
            told = rng.sample(told, TOLD_MAX)
        self._out.append((target, b"".join(number.to_bytes(4, "big") for number in told)))
        self._deadline = now + 0.5 + rng.random()

    def next_deadline(self) -> float | None:
        return self._deadline

    def take_datagrams(self) -> list[tuple[Address, bytes]]:
        out, self._out = self._out, []
        return out

    def describe(self) -> str:
        return f"knows {len(self.known)} of {self._peers}"


def ignorant(world: World) -> list[int]:
    everybody = len(world.hosts)
    return [
        host.number
        for host in world.hosts
        if not isinstance(host.program, RumourScenario) or len(host.program.known) < everybody
    ]


class AllKnowAll(Silent):
    name = "all know all"

    def at_end(self, world: World) -> str | None:
        left = ignorant(world)
        return f"{len(left)} peers do not know all, the first is {left[0]}" if left else None


@scenario("rumour", summary="gossip under faults of every kind: does news reach everybody?",
          peers=50, peers_min=2, peers_max=2_000, seconds=600.0)  # fmt: skip
def rumour(run: ScenarioRun) -> None:
    count = int(run.setting("faults", 20, high=10_000))
    for _ in range(run.peers):
        run.world.add_host(lambda host: RumourScenario(host, run.world, run.peers))
    faults = draw_faults(run.world.chance("faults"), hosts=run.peers, count=count, until_s=run.seconds / 2)
    run.plan(faults)
    run.check(AllKnowAll())
    run.figure("ignorant", lambda: float(len(ignorant(run.world))))
    run.sample("ignorant", lambda: float(len(ignorant(run.world))))
    run.sample("up", lambda: float(len(run.world.live())))
