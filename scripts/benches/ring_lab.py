"""How long does a ring of real processes take to form, to mend, and to merge with another?

Starts peers on loopback as `herodotus ring up` does, kills half of them with SIGKILL, revives them, and merges two
rings, once by a single `--join` and once by the rendezvous overlay alone. A ring counts as ideal when each peer sees
all of its peers and no others, with the lists and predecessors that follow from that. Everybody shares one machine,
so the figures say as much about its load as about the protocol: both are printed.
"""

import argparse
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from random import SystemRandom
from typing import Any

import anyio

from dht.discovery.kademlia_rendezvous import KademliaRendezvous, KademliaSettings
from herodotus.core.charter import TEST_CHARTER
from herodotus.home.folder import Home
from herodotus.operate import lab_ring
from herodotus.operate.lab_ring import LabPeer

IDEAL_S = 300.0
RENDEZVOUS_PORT_OFFSET = 2_000
RENDEZVOUS_LOOK_S = 2.0
MERGE_PEERS = 10
KADEMLIA = {
    "HERODOTUS_DISCOVERY_KADEMLIA": "true",
    "HERODOTUS_DISCOVERY_RENDEZVOUS_FIND_S": "5",
    "HERODOTUS_DISCOVERY_RENDEZVOUS_PUBLISH_S": "10",
}
Processes = dict[str, subprocess.Popen[bytes]]


class Bench:
    def __init__(self, folder: Path, base_port: int) -> None:
        self._folder = folder
        self._port = base_port
        self.started: Processes = {}
        self.figures: list[tuple[str, str]] = []

    def note(self, name: str, value: str) -> None:
        self.figures.append((name, value))
        print(f"  {name}: {value}", file=sys.stderr, flush=True)

    def place(self, count: int, name: str) -> tuple[LabPeer, ...]:
        """Homes of a ring with ports of their own."""
        first, self._port = self._port, self._port + count
        peers = tuple(lab_ring.place(self._folder / name, number, first) for number in range(count))
        for peer in peers:
            lab_ring.make_home(Home(Path(peer.home)), TEST_CHARTER)
        return peers

    def start(self, peer: LabPeer, join: str | None) -> None:
        listen, http = peer.peer, peer.http.removeprefix("http://")
        self.started[peer.home] = lab_ring.start(Path(peer.home), listen, http, join)

    def up(self, peers: Sequence[LabPeer]) -> float:
        began = time.monotonic()
        for number, peer in enumerate(peers):
            self.start(peer, peers[0].peer if number else None)
        self.wait_ideal(peers)
        return time.monotonic() - began

    def wait_ideal(self, peers: Sequence[LabPeer]) -> float:
        began = time.monotonic()
        anyio.run(lab_ring.wait_ideal, peers, self.started, IDEAL_S, lambda _ideal: None)
        return time.monotonic() - began

    def kill(self, peers: Sequence[LabPeer]) -> None:
        processes = [self.started.pop(peer.home) for peer in peers]
        for process in processes:
            process.send_signal(signal.SIGKILL)
        for process in processes:
            process.wait()

    def end_all(self) -> None:
        for process in self.started.values():
            process.terminate()
        for process in self.started.values():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.started.clear()


def positions(peers: Sequence[LabPeer]) -> dict[str, list[str]]:
    views = {peer.home: lab_ring.ring_view(peer) for peer in peers}
    return {home: [node["position"] for node in view["nodes"]] for home, view in views.items() if view}


def resident_mb(process: subprocess.Popen[bytes]) -> float:
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def cpu_s(process: subprocess.Popen[bytes]) -> float:
    fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def idle(bench: Bench, peers: Sequence[LabPeer], for_s: float) -> None:
    """Traffic, memory and CPU time of peers that have nothing to do but keep the ring."""

    def sent() -> list[int]:
        views: list[Any] = [lab_ring.ring_view(peer) for peer in peers]
        return [view["traffic"]["bytes_out"] for view in views]

    processes = [bench.started[peer.home] for peer in peers]
    before, used_before, began = sent(), sum(map(cpu_s, processes)), time.monotonic()
    time.sleep(for_s)
    after, used, took_s = sent(), sum(map(cpu_s, processes)) - used_before, time.monotonic() - began
    rates = sorted((b - a) / took_s for a, b in zip(before, after, strict=True))
    memory = sorted(map(resident_mb, processes))
    middle = len(peers) // 2
    bench.note(
        "idle, sent per peer", f"median {rates[middle]:.0f} B/s, most {rates[-1]:.0f} B/s, {took_s:.0f} s"
    )
    bench.note("idle, CPU per peer", f"{100 * used / took_s / len(peers):.2f} % of a core")
    bench.note("memory per process", f"median {memory[middle]:.0f} MB, most {memory[-1]:.0f} MB resident")


def half_dies(bench: Bench, count: int, idle_s: float) -> None:
    peers = bench.place(count, "half")
    bench.note(f"ring of {count} ideal", f"{bench.up(peers):.1f} s from the first start")
    idle(bench, peers, idle_s)
    where = positions(peers)
    dead, alive = peers[1::2], peers[0::2]
    bench.kill(dead)
    bench.note(f"{len(dead)} of {count} killed", f"{bench.wait_ideal(alive):.1f} s until {len(alive)} ideal")
    began = time.monotonic()
    for peer in dead:
        bench.start(peer, alive[0].peer)
    bench.wait_ideal(peers)
    bench.note(f"{len(dead)} revived", f"{time.monotonic() - began:.1f} s until {count} ideal")
    bench.note("positions after the revival", "as before" if positions(peers) == where else "CHANGED")
    bench.end_all()


def merge_by_join(bench: Bench, count: int) -> None:
    """Two rings; one peer of the second is started again, now with `--join` of the first."""
    one, two = bench.place(count, "join-a"), bench.place(count, "join-b")
    bench.up(one)
    bench.up(two)
    last = two[-1]
    process = bench.started.pop(last.home)
    process.terminate()
    process.wait(20)
    began = time.monotonic()
    bench.start(last, one[0].peer)
    bench.wait_ideal([*one, *two])
    bench.note(f"{count} + {count} merged by one --join", f"{time.monotonic() - began:.1f} s")
    bench.end_all()


async def _run_overlay_node(
    port: int, contacts: list[tuple[str, int]], *, task_status: anyio.abc.TaskStatus[None]
) -> None:
    """A node of the rendezvous that is in no ring: both overlays come to know each other through it."""
    node = KademliaRendezvous(
        KademliaSettings(
            network=TEST_CHARTER.network_id()[:8],
            listen_host="127.0.0.1",
            listen_port=port,
            contacts=contacts,
            requests_per_s=10_000,
        ),
        validate=lambda _data: None,
        wall_clock=time.time,
        chance=SystemRandom(),
    )
    await node.start()
    task_status.started()
    try:
        await anyio.sleep_forever()
    finally:
        with anyio.CancelScope(shield=True):
            await node.stop()


async def _merged_by_overlay(bench: Bench, rings: Sequence[Sequence[LabPeer]], port: int) -> None:
    contacts = [("127.0.0.1", int(ring[0].peer.split(":")[1]) + RENDEZVOUS_PORT_OFFSET) for ring in rings]
    everybody = [peer for ring in rings for peer in ring]
    async with anyio.create_task_group() as tasks:
        await tasks.start(_run_overlay_node, port, contacts)
        await lab_ring.wait_ideal(everybody, bench.started, IDEAL_S, lambda _ideal: None)
        tasks.cancel_scope.cancel()


def merge_by_rendezvous(bench: Bench, count: int) -> None:
    one, two = bench.place(count, "kad-a"), bench.place(count, "kad-b")
    os.environ.update(KADEMLIA)
    try:
        bench.up(one)
        bench.up(two)
    finally:
        for name in KADEMLIA:
            del os.environ[name]
    began = time.monotonic()
    (port,) = (int(peer.peer.split(":")[1]) + 1 for peer in two[-1:])
    anyio.run(_merged_by_overlay, bench, (one, two), port + RENDEZVOUS_PORT_OFFSET)
    bench.note(f"{count} + {count} merged by kademlia alone", f"{time.monotonic() - began:.1f} s")
    bench.end_all()


def conditions() -> str:
    load = os.getloadavg()[0]
    return f"Python {platform.python_version()}, {os.cpu_count()} cores, load {load:.1f}, test preset"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", type=int, default=30, help="of the ring of which half is killed (30)")
    parser.add_argument("--merge", type=int, default=MERGE_PEERS, help="peers of each ring that merges (10)")
    parser.add_argument("--idle-s", type=float, default=60.0, help="how long idle traffic is watched (60)")
    parser.add_argument("--base-port", type=int, default=14_484)
    parser.add_argument("--only", choices=["half", "join", "kademlia"], action="append")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    chosen = given.only or ["half", "join", "kademlia"]
    folder = Path(tempfile.mkdtemp(prefix="ring-lab-"))
    bench = Bench(folder, given.base_port)
    before = conditions()
    try:
        if "half" in chosen:
            half_dies(bench, given.peers, given.idle_s)
        if "join" in chosen:
            merge_by_join(bench, given.merge)
        if "kademlia" in chosen:
            merge_by_rendezvous(bench, given.merge)
    finally:
        bench.end_all()
        if sys.exc_info()[0] is None:
            shutil.rmtree(folder)
    if given.json:
        print(json.dumps({"conditions": before, "figures": dict(bench.figures)}))
        return
    width = max(len(name) for name, _ in bench.figures)
    print(f"ring of real processes on loopback ({before}; afterwards {conditions()})")
    for name, value in bench.figures:
        print(f"  {name:<{width}}  {value}")


if __name__ == "__main__":
    main()
