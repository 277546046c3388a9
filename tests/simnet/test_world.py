"""The world's parts, driven by programs a few lines long."""

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from simnet.world.faults import Fault, FaultError, draw_faults, shorten
from simnet.world.hosts import LivelockError, WorldHost
from simnet.world.network import Address, King, LineQuality, LogNormal, Uniform
from simnet.world.schedule import EventQueue
from simnet.world.trace import Trace, TraceError, TraceHeader, read_trace, write_trace
from simnet.world.world import Silent, ViolationError, World


class Echo:
    """Remembers what it hears; says what it is told to; ticks every `tick_s`."""

    def __init__(self, host: WorldHost, tick_s: float | None = None) -> None:
        self.host, self.tick_s = host, tick_s
        self.heard: list[tuple[float, bytes, Address]] = []
        self.out: list[tuple[Address, bytes]] = []
        self.ticks: list[float] = []
        self.deadline = None if tick_s is None else host.clock() + tick_s

    def say(self, target: WorldHost, data: bytes) -> None:
        self.out.append((target.address, data))
        self.host.wake()

    def receive(self, data: bytes, sender: Address, now: float) -> None:
        self.heard.append((now, data, sender))

    def advance(self, now: float) -> None:
        assert self.tick_s is not None
        self.ticks.append(now)
        self.deadline = now + self.tick_s

    def next_deadline(self) -> float | None:
        return self.deadline

    def take_datagrams(self) -> list[tuple[Address, bytes]]:
        out, self.out = self.out, []
        return out


def program(host: WorldHost) -> Echo:
    assert isinstance(host.program, Echo)
    return host.program


def heard(host: WorldHost) -> list[bytes]:
    return [data for _, data, _ in program(host).heard]


def two_hosts(
    seed: int = 1, tick_s: float | None = None, **settings: object
) -> tuple[World, WorldHost, WorldHost]:
    world = World(seed=seed, **settings)  # type: ignore[arg-type]  # the keywords of World
    one, two = (world.add_host(lambda host: Echo(host, tick_s)) for _ in range(2))
    world.run_until(0.0)
    return world, one, two


def test_events_come_in_order_of_time_and_then_of_scheduling() -> None:
    schedule, seen = EventQueue(), list[str]()
    schedule.at(2.0, seen.append, "late")
    schedule.at(1.0, seen.append, "first")
    schedule.at(1.0, seen.append, "second")
    cancelled = schedule.at(1.5, seen.append, "never")
    schedule.cancel(cancelled)
    schedule.run_until(1.7)
    assert (seen, schedule.now, schedule.next_time()) == (["first", "second"], 1.7, 2.0)
    schedule.run_until(2.0)
    assert (seen[-1], schedule.next_time()) == ("late", None)


def test_a_datagram_arrives_after_its_latency_with_its_senders_address() -> None:
    world, one, two = two_hosts(latency=Uniform(low_s=0.1, high_s=0.1))
    program(one).say(two, b"hello")
    world.run_until(1.0)
    assert program(two).heard == [(0.1, b"hello", one.address)]


def test_a_lossy_link_loses_its_share_and_a_doubling_one_doubles_it() -> None:
    world, one, two = two_hosts(link=LineQuality(loss=0.3, duplicate=0.2))
    for number in range(2_000):
        program(one).say(two, number.to_bytes(2, "big"))
    world.run_until(5.0)
    assert len(set(heard(two))) == pytest.approx(1_400, abs=80)
    assert len(heard(two)) / len(set(heard(two))) == pytest.approx(1.2, abs=0.04)


def test_a_reordering_link_changes_the_order_of_a_steady_one() -> None:
    def arrivals(reorder: float) -> list[bytes]:
        steady = Uniform(low_s=0.05, high_s=0.05)
        world, one, two = two_hosts(latency=steady, link=LineQuality(reorder=reorder))
        for number in range(50):
            program(one).say(two, bytes([number]))
        world.run_until(5.0)
        return heard(two)

    assert arrivals(0.0) == sorted(arrivals(0.0))
    assert arrivals(0.3) != sorted(arrivals(0.3))
    assert sorted(arrivals(0.3)) == arrivals(0.0)


def test_a_partition_cuts_both_ways_until_healed_and_a_mute_host_still_hears() -> None:
    world, one, two = two_hosts()
    world.network.partition("split", [0], [1])
    program(one).say(two, b"cut")
    program(two).say(one, b"cut")
    world.run_until(1.0)
    world.network.heal("split")
    world.network.cut("mute", [0], [1])
    program(one).say(two, b"unheard")
    program(two).say(one, b"heard")
    world.run_until(2.0)
    assert (heard(one), heard(two)) == ([b"heard"], [])


def test_a_clogged_link_holds_datagrams_until_it_opens() -> None:
    world, one, two = two_hosts()
    world.network.clog(0, 1, until=10.0)
    program(one).say(two, b"clogged")
    world.run_until(9.9)
    assert heard(two) == []
    world.run_until(10.0)
    assert heard(two) == [b"clogged"]


def test_a_crashed_host_hears_nothing_and_restarts_with_what_its_disk_kept() -> None:

    world, one, two = two_hosts()
    fd = two.disk.open("/kept", os.O_CREAT | os.O_RDWR)
    two.disk.pwrite(fd, b"synced", 0)
    two.disk.sync()
    two.disk.pwrite(fd, b"forgot", 0)
    program(one).say(two, b"on its way")
    world.plan([Fault(kind="restart", at_s=0.001, hosts=(1,), settings={"for_s": 5.0})])
    world.run_until(4.0)
    assert not two.is_up
    world.run_until(6.0)
    assert (heard(two), two.boots) == ([], 2)
    assert two.disk.read_bytes("/kept") in (b"synced", b"forgot")


def test_a_stalled_host_hears_late_and_a_suspended_one_never() -> None:
    for pause, expected in (("stall", [b"meanwhile"]), ("suspend", [])):
        world, one, two = two_hosts(tick_s=1.0)
        world.plan([Fault(kind=pause, at_s=0.5, hosts=(1,), settings={"for_s": 10.0})])
        world.run_until(2.0)
        program(one).say(two, b"meanwhile")
        world.run_until(10.4)
        assert (heard(two), program(two).ticks) == ([], [])
        world.run_until(12.0)
        assert heard(two) == expected
        assert program(two).ticks == [10.5, 11.5]


def test_a_wrong_clock_shows_in_what_a_program_is_told_and_moves_its_deadlines() -> None:
    world, one, _ = two_hosts(tick_s=10.0)
    world.plan([Fault(kind="clock", at_s=5.0, hosts=(0,), settings={"skew_s": 3.0})])
    world.run_until(12.0)
    assert program(one).ticks == [10.0]  # by its clock, which is 7 by ours
    world.plan([Fault(kind="clock", at_s=13.0, hosts=(0,), settings={"skew_s": -100.0})])
    world.run_until(119.0)
    assert program(one).ticks == [10.0]
    world.run_until(121.0)
    assert program(one).ticks == [10.0, 20.0]


def test_a_clock_that_drifts_does_so_from_then_on() -> None:
    world, one, _ = two_hosts()
    world.run_until(1_000.0)
    one.set_clock(skew_s=5.0, drift=0.01)
    assert one.clock() == pytest.approx(1_005.0)
    world.run_until(1_100.0)
    assert one.clock() == pytest.approx(1_106.0)


def test_a_host_that_crashed_while_it_slept_is_awake_when_it_starts() -> None:
    for pause in ("suspend", "stall"):
        world, one, _ = two_hosts(tick_s=1.0)
        world.plan([Fault(kind=pause, at_s=0.5, hosts=(0,), settings={"for_s": 100.0})])
        world.plan([Fault(kind="restart", at_s=2.0, hosts=(0,), settings={"for_s": 1.0})])
        world.run_until(5.5)
        assert program(one).ticks == [4.0, 5.0]


def test_who_is_killed_leaves_no_descriptor_open_and_its_disk_as_it_was() -> None:
    _, one, _ = two_hosts()
    fd = one.disk.open("/unlinked", os.O_CREAT | os.O_RDWR)
    one.disk.pwrite(fd, b"unsynced", 0)
    one.disk.unlink("/unlinked")
    kept = one.disk.open("/kept", os.O_CREAT | os.O_RDWR)
    one.disk.pwrite(kept, b"unsynced", 0)
    assert one.disk.bytes_used == 16
    one.crash(power_cut=False)
    assert one.disk.bytes_used == 8
    assert one.disk.read_bytes("/kept") == b"unsynced"
    with pytest.raises(OSError, match="Bad file descriptor"):
        one.disk.pread(kept, 1, 0)


def test_settling_mends_links() -> None:
    world, one, two = two_hosts()
    world.plan([Fault(kind="link", at_s=0.0, settings={"loss": 1.0}), Fault(kind="settle", at_s=10.0)])
    world.run_until(1.0)
    program(one).say(two, b"lost")
    world.run_until(11.0)
    program(one).say(two, b"found")
    world.run_until(12.0)
    assert heard(two) == [b"found"]


@pytest.mark.parametrize("kind", ["disk full", "disk errors"])
def test_a_disk_that_fails_does_so_until_it_is_mended(kind: str) -> None:
    world, one, _ = two_hosts()
    fd = one.disk.open("/log", os.O_CREAT | os.O_RDWR)
    world.plan([Fault(kind=kind, at_s=1.0, hosts=(0,), settings={"share": 1.0})])
    world.plan([Fault(kind="disk repaired", at_s=2.0, hosts=(0,))])
    world.run_until(1.0)
    with pytest.raises(OSError, match="No space" if kind == "disk full" else "Input/output"):
        one.disk.pwrite(fd, b"x", 0)
    world.run_until(2.0)
    assert one.disk.pwrite(fd, b"x", 0) == 1


def test_rot_turns_one_bit_of_a_disk() -> None:
    world, one, _ = two_hosts()
    fd = one.disk.open("/log", os.O_CREAT | os.O_RDWR)
    one.disk.pwrite(fd, bytes(100), 0)
    one.disk.sync()
    world.plan([Fault(kind="rot", at_s=1.0, hosts=(0,))])
    world.run_until(1.0)
    assert sum(byte.bit_count() for byte in one.disk.read_bytes("/log")) == 1


def test_a_moved_host_is_reached_at_its_new_address_only() -> None:
    world, one, two = two_hosts()
    old = two.address
    world.plan([Fault(kind="move", at_s=1.0, hosts=(1,))])
    world.run_until(1.0)
    program(one).out.append((old, b"old"))
    program(one).say(two, b"new")
    world.run_until(2.0)
    assert heard(two) == [b"new"]
    assert old != two.address


def test_a_program_that_never_moves_its_deadline_is_stopped_with_its_host() -> None:
    class Stuck(Echo):
        def advance(self, now: float) -> None:
            pass

    world = World(seed=1)
    world.add_host(lambda host: Stuck(host, 1.0))
    with pytest.raises(LivelockError, match="host 0 keeps a deadline"):
        world.run_until(10.0)


def test_a_checker_that_objects_stops_the_run_at_that_event() -> None:
    class NobodyHears(Silent):
        name = "nobody hears"

        def after_event(self, world: World) -> str | None:
            hearers = [host.number for host in world.hosts if host.is_up and program(host).heard]
            return f"host {hearers[0]} heard" if hearers else None

    world, one, two = two_hosts(latency=Uniform(low_s=0.5, high_s=0.5))
    program(one).say(two, b"psst")
    with pytest.raises(ViolationError, match=r"nobody hears: host 1 heard \(at 0\.500 s"):
        world.run_until(10.0, [NobodyHears()])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LineQuality(loss=-0.1), "loss is a share"),
        (lambda: LineQuality(extra_s=-1.0), "extra_s cannot be negative"),
        (lambda: World(seed=1).plan([Fault(kind="meteor", at_s=1.0)]), "no fault is called 'meteor'"),
        (lambda: World(seed=1).plan([Fault(kind="crash", at_s=1.0, hosts=(4,))]), "host 4, but there are 0"),
        (lambda: World(seed=1).plan([Fault(kind="heal", at_s=-1.0)]), "before the world begins"),
        (lambda: World(seed=1).plan([Fault(kind="heal", at_s=float("nan"))]), "or never"),
        (lambda: World(seed=1).plan([Fault(kind="clog", at_s=1.0)]), "clog is of a link"),
        (lambda: World(seed=1).plan([Fault(kind="link", at_s=1.0, settings={"lost": 1})]), "lost"),
        (lambda: World(seed=1).plan([Fault(kind="link", at_s=1.0, settings={"loss": 2})]), "a share, 0 to 1"),
        (lambda: draw_faults(random.Random(1), hosts=0, count=1, until_s=1.0), "cannot draw"),
        (lambda: Fault.from_json({"kind": "crash"}), "not a fault"),
    ],
)
def test_impossible_worlds_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises((ValueError, FaultError), match=message):
        make()


def test_drawn_faults_repeat_for_their_seed_go_through_json_and_end_in_peace() -> None:
    drawn = [draw_faults(random.Random(seed), hosts=9, count=30, until_s=100.0) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert [Fault.from_json(fault.to_json()) for fault in drawn[0]] == drawn[0]
    assert drawn[0][-1] == Fault(kind="settle", at_s=100.0)
    world = World(seed=1)
    for _ in range(9):
        world.add_host(lambda host: Echo(host, 1.0))
    world.plan(drawn[0])
    world.run_until(200.0)
    assert len(world.live()) == 9
    assert all(host.is_responsive and host.skew_s == 0.0 for host in world.hosts)


def test_a_schedule_is_shortened_to_the_faults_that_matter() -> None:
    faults = [Fault(kind="crash", at_s=float(number)) for number in range(40)]
    needed = {7.0, 31.0}
    short = shorten(faults, lambda tried: needed <= {fault.at_s for fault in tried})
    assert [fault.at_s for fault in short] == [7.0, 31.0]


def test_king_delays_look_like_those_of_the_internet() -> None:
    king, rng = King(seed=1), random.Random(2)
    trips = sorted(2 * king.seconds(rng.randrange(2_000), rng.randrange(2_000), rng) for _ in range(4_000))
    assert 0.13 < trips[2_000] < 0.19  # King: median 159 ms
    assert 0.15 < sum(trips) / 4_000 < 0.21  # mean 182 ms
    pair = [king.seconds(3, 4, rng) for _ in range(50)]
    assert max(pair) < 1.11 * min(pair)


def test_log_normal_delays_have_their_median_and_stay_with_the_pair() -> None:
    latency, rng = LogNormal(median_s=0.05, jitter=0.0), random.Random(1)
    delays = sorted(latency.seconds(0, other, rng) for other in range(1, 2_001))
    assert delays[1_000] == pytest.approx(0.05, rel=0.08)
    assert latency.seconds(5, 6, rng) == latency.seconds(6, 5, rng)


def test_a_trace_file_tells_how_to_run_it_again(tmp_path: Path) -> None:
    trace = Trace()
    for number in range(1_000):
        trace.note(float(number), "tick", number, "name")
    header = TraceHeader(scenario="quiet", seed=7, options={"peers": 3}, commit="abc")
    write_trace(tmp_path / "run.trace", header, trace)
    assert read_trace(tmp_path / "run.trace") == (header, trace.digest())
    assert trace.last[-1] == "(999.0, 'tick', 999, 'name')\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a whole trace"),
        ("not json\n", "not a whole trace"),
        ('{"format": "other"}\n{}\n', "not a trace of simnet"),
        ('{"format": "simnet-trace", "version": 99}\n{}\n', "version 99, and this simnet reads 2"),
        ('{"format": "simnet-trace", "version": 2}\n', "not a whole trace"),
        ("[]\n", "not a whole trace"),
    ],
)
def test_another_or_a_broken_trace_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "run.trace"
    path.write_text(text)
    with pytest.raises(TraceError, match=message):
        read_trace(path)
    with pytest.raises(TraceError, match="cannot read"):
        read_trace(tmp_path / "none")


PROGRAM = """
import os
import random
from simnet.world.faults import draw_faults
from simnet.world.world import World
from simnet.world.network import LineQuality

class Gossip:
    def __init__(self, host):
        self.host, self.deadline = host, host.clock() + host.rng.random()
        self.out, self.known = [], {host.number}
    def receive(self, data, sender, now):
        self.known |= {f"peer {number}" for number in data} | set(data)
    def advance(self, now):
        self.deadline = now + 1.0
        target = self.host.rng.randrange(20)
        numbers = sorted(number for number in self.known if isinstance(number, int))
        self.out.append((world.hosts[target].address, bytes(numbers)))
    def next_deadline(self): return self.deadline
    def take_datagrams(self):
        out, self.out = self.out, []
        return out

world = World(seed=SEED, link=LineQuality(loss=0.05, duplicate=0.02, reorder=0.1))
for number in range(20):
    world.add_host(Gossip)
world.plan(draw_faults(world.chance("faults"), hosts=20, count=20, until_s=100.0))
world.run_until(200.0)
print(world.trace.digest())
"""


def test_a_run_is_the_same_in_every_process_and_another_for_another_seed() -> None:
    def run(seed: int, hash_seed: str) -> bytes:
        program = PROGRAM.replace("SEED", str(seed))
        command = [sys.executable, "-c", program]
        return subprocess.run(
            command, env={"PYTHONHASHSEED": hash_seed}, capture_output=True, check=True
        ).stdout

    assert len({run(5, hash_seed) for hash_seed in ("0", "1", "4242")}) == 1
    assert run(6, "0") != run(5, "0")
