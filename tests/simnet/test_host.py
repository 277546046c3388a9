"""Async programs under trio in a world; the same machine on both carriers."""

import subprocess
import sys

import pytest
import trio

from simnet.host import FLAG, SimulatedPort, TrioCarrier, TrioNamesError, repeatable_trio, run_world
from simnet.world.faults import Fault
from simnet.world.hosts import WorldHost
from simnet.world.network import Address, LineQuality, Uniform
from simnet.world.world import World

STEADY = Uniform(low_s=0.05, high_s=0.05)


class Rumour:
    """Tells what it knows to the next host every second, for ever."""

    def __init__(self, number: int, peers: list[Address], now: float) -> None:
        self.known = {number}
        self.deadline = now + 1.0
        self._next = peers[(number + 1) % len(peers)]
        self._out: list[tuple[Address, bytes]] = []
        self.learnt_at: dict[int, float] = {}

    def receive(self, data: bytes, sender: Address, now: float) -> None:
        for number in sorted(set(data) - self.known):
            self.known.add(number)
            self.learnt_at[number] = round(now, 6)

    def advance(self, now: float) -> None:
        if now >= self.deadline:
            self.deadline += 1.0
            self._out.append((self._next, bytes(sorted(self.known))))

    def next_deadline(self) -> float:
        return self.deadline

    def take_datagrams(self) -> list[tuple[Address, bytes]]:
        out, self._out = self._out, []
        return out


async def shell(machine: Rumour, endpoint: SimulatedPort) -> None:
    """The one loop of a shell: wait for bytes or the deadline, call, perform."""
    while True:
        with trio.move_on_at(machine.next_deadline()):
            data, sender = await endpoint.receive()
            machine.receive(data, sender, endpoint.now())
        machine.advance(trio.current_time())
        for target, out in machine.take_datagrams():
            endpoint.send(out, target)


def on_trio(hosts: int, until: float, faults: list[Fault]) -> list[dict[int, float]]:
    machines: dict[int, Rumour] = {}

    async def main(carrier: TrioCarrier) -> list[dict[int, float]]:
        addresses = [carrier.world.fresh_address(number) for number in range(hosts)]

        async def peer(endpoint: SimulatedPort) -> None:
            machines[endpoint.number] = Rumour(endpoint.number, addresses, endpoint.now())
            await shell(machines[endpoint.number], endpoint)

        for _ in range(hosts):
            carrier.add_host(peer)
        carrier.world.plan(faults)
        carrier.poke()
        await trio.sleep_until(until)
        return [machines[number].learnt_at for number in range(hosts)]

    return run_world(main, seed=3, latency=STEADY)


def on_heap(hosts: int, until: float, faults: list[Fault]) -> list[dict[int, float]]:
    world = World(seed=3, latency=STEADY)
    addresses = [world.fresh_address(number) for number in range(hosts)]
    machines: dict[int, Rumour] = {}

    def boot(host: WorldHost) -> Rumour:
        machines[host.number] = Rumour(host.number, addresses, host.clock())
        return machines[host.number]

    for _ in range(hosts):
        world.add_host(boot)
    world.plan(faults)
    world.run_until(until)
    return [machines[number].learnt_at for number in range(hosts)]


@pytest.mark.parametrize(
    "faults",
    [
        [],
        [
            Fault(kind="restart", at_s=3.5, hosts=(2,), settings={"for_s": 4.0}),
            Fault(kind="partition", at_s=5.5, hosts=(0, 1)),
            Fault(kind="heal", at_s=9.5),
        ],
    ],
)
def test_a_machine_learns_the_same_at_the_same_times_on_both_carriers(faults: list[Fault]) -> None:
    learnt = on_heap(6, 20.2, faults)
    assert on_trio(6, 20.2, faults) == learnt
    assert all(len(times) == 5 for times in learnt)


def test_a_crashed_host_stops_all_its_tasks_and_a_restart_begins_anew() -> None:
    beats: list[tuple[int, float]] = []

    async def peer(endpoint: SimulatedPort) -> None:
        boot = len({b for b, _ in beats}) + 1
        while True:
            beats.append((boot, trio.current_time()))
            await trio.sleep(1.0)

    async def main(carrier: TrioCarrier) -> int:
        host = carrier.add_host(peer)
        carrier.world.plan([Fault(kind="restart", at_s=2.5, hosts=(0,), settings={"for_s": 5.0})])
        await trio.sleep(9.2)
        return host.boots

    assert run_world(main, seed=1) == 2
    assert beats == [(1, 0.0), (1, 1.0), (1, 2.0), (2, 7.5), (2, 8.5)]


def test_a_program_that_raises_ends_the_run_with_its_error() -> None:
    async def peer(endpoint: SimulatedPort) -> None:
        raise ArithmeticError("a bug")

    async def main(carrier: TrioCarrier) -> None:
        carrier.add_host(peer)
        await trio.sleep(10)

    with pytest.raises(ExceptionGroup) as caught:
        run_world(main, seed=1)
    assert caught.group_contains(ArithmeticError, match="a bug")


def test_a_full_socket_drops_datagrams_and_counts_them() -> None:
    async def deaf(endpoint: SimulatedPort) -> None:
        ends.append(endpoint)
        await trio.sleep_forever()

    async def loud(endpoint: SimulatedPort) -> None:
        for _ in range(1_500):
            endpoint.send(b"x", ends[0].local_address)
        await trio.sleep_forever()

    ends: list[SimulatedPort] = []

    async def main(carrier: TrioCarrier) -> int:
        carrier.add_host(deaf)
        carrier.add_host(loud, start_at=1.0)
        await trio.sleep(5)
        return ends[0].dropped

    assert run_world(main, seed=1) == 500


def test_trios_private_names_are_where_we_expect_them_and_are_put_back() -> None:
    names = vars(trio._core._run)
    before = names["_r"].getstate(), names[FLAG]
    with repeatable_trio(1):
        assert names[FLAG] is True
    assert (names["_r"].getstate(), names[FLAG]) == before


def test_another_trio_is_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING")
    with pytest.raises(TrioNamesError, match="keeps its scheduler's chance elsewhere"), repeatable_trio(1):
        pass


PROGRAM = """
import trio
from simnet.host import run_world
from simnet.world.network import LineQuality

async def peer(endpoint):
    async def listen():
        while True:
            data, sender = await endpoint.receive()
            if len(data) < 5:
                endpoint.send(data + bytes([endpoint.number]), sender)
    async def talk():
        while True:
            await trio.sleep(endpoint.rng.choice([0.5, 1.0]))
            endpoint.send(b"x", carrier_world.hosts[endpoint.rng.randrange(10)].address)
    async with trio.open_nursery() as nursery:
        for task in (listen, talk, talk):
            nursery.start_soon(task)

async def main(carrier):
    global carrier_world
    carrier_world = carrier.world
    for _ in range(10):
        carrier.add_host(peer)
    await trio.sleep(10)
    return carrier.world.trace.digest(), carrier.world.trace.lines

print(run_world(main, seed=SEED, link=LineQuality(loss=0.1, duplicate=0.1)))
"""


def test_a_run_on_trio_is_the_same_in_every_process_and_another_for_another_seed() -> None:
    def run(seed: int, hash_seed: str) -> bytes:
        command = [sys.executable, "-c", PROGRAM.replace("SEED", str(seed))]
        return subprocess.run(
            command, env={"PYTHONHASHSEED": hash_seed}, capture_output=True, check=True
        ).stdout

    assert len({run(5, hash_seed) for hash_seed in ("0", "1", "4242")}) == 1
    assert run(6, "0") != run(5, "0")


def test_links_rules_hold_on_trio_too() -> None:
    async def quiet(endpoint: SimulatedPort) -> None:
        await trio.sleep_forever()

    async def loud(endpoint: SimulatedPort) -> None:
        for _ in range(100):
            endpoint.send(b"x", ("10.0.0.1", 4_484))
        await trio.sleep_forever()

    async def main(carrier: TrioCarrier) -> int:
        carrier.add_host(quiet)
        carrier.add_host(loud)
        await trio.sleep(2)
        return carrier.world.network.counters.lost

    assert run_world(main, seed=1, link=LineQuality(loss=1.0)) == 100
