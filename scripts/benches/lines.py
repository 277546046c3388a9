"""Do leases get through a slow line that is full of copies, and how much of it do the copies get?

    scripts/bench lines [--seconds 30]

Two peers in namespaces of their own, with a modem between them: 256 kbit/s up, a queue of 800 ms, 20 ms each way; the
modem is a loop in this process, since not every kernel has `netem`. The near peer asks the far one for leases three
times a second: on an idle line, beside three calls that carry copies, and again from 10 s after the line has become
half as fast. The same without the pacer, and with leases by stream, is shown beside it. It needs root, `ip` and
/dev/net/tun, and says so where it cannot.
"""

import argparse
import fcntl
import heapq
import json
import os
import select
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import anyio
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dht import Contact
from dht.core.ids import NetworkId
from dht.core.places import BY_PEER
from dht.core.records import Address
from dht.core.rules import RingRules
from dht.identity import peer_key
from dht.node import RingNode, open_node
from dht.node_types import NodePorts, NodeSettings
from dht.transport import TransportLimits
from herodotus.core.settings.sections import CallsSettings, RelaySettings
from herodotus.machine import Machine
from herodotus.peers.calls import CallError, Calls, Services
from herodotus.peers.net.connection import FrameConnection
from herodotus.peers.net.pacing import LinePacer
from herodotus.peers.net.port import CallPort, CallPortParts
from herodotus.peers.net.tls_line import claim_tcp

UP_BYTES_PER_S, DOWN_BYTES_PER_S = 32_000.0, 256_000.0
QUEUE_S, WAY_S = 0.8, 0.02
NEAR, FAR, PORT = "10.99.0.1", "10.99.0.2", 4_484
LEASE_EVERY_S, LEASE_BYTES = 0.3, 90
COPIES_AT_ONCE, COPY_BYTES = 3, 200_000
SETTLE_S = 10.0
RULES = RingRules(network=NetworkId(b"lines..."), id_check="off", places=BY_PEER)


# --- the modem


class Way:
    """One direction: a rate, a queue, and the length of the line."""

    def __init__(self, target: int, rate: float) -> None:
        self.target, self.rate = target, rate
        self.free_at = 0.0
        self.carried = self.dropped = 0
        """Bytes of TCP with all headers, and packets."""

    def leaves_at(self, packet: bytes, now: float) -> float | None:
        if self.free_at - now > QUEUE_S:
            self.dropped += 1
            return None
        self.free_at = max(self.free_at, now) + len(packet) / self.rate
        return self.free_at + WAY_S


def is_tcp(packet: bytes) -> bool:
    return packet[0] >> 4 == 4 and packet[9] == 6


class Modem:
    def __init__(self, near: int, far: int) -> None:
        self.up, self.down = Way(far, UP_BYTES_PER_S), Way(near, DOWN_BYTES_PER_S)
        self._of = {near: self.up, far: self.down}
        self._under_way: list[tuple[float, int, int, bytes]] = []
        self._number = 0

    def run_until(self, others: list[int]) -> list[int]:
        """Until one of the other files has something to read."""
        while True:
            now = time.monotonic()
            while self._under_way and self._under_way[0][0] <= now:
                _, _, target, packet = heapq.heappop(self._under_way)
                os.write(target, packet)
            wait_s = self._under_way[0][0] - now if self._under_way else 1.0
            readable, _, _ = select.select([*self._of, *others], [], [], max(0.0, wait_s))
            for file in (one for one in readable if one in self._of):
                self._take(self._of[file], os.read(file, 65_536))
            if found := [one for one in readable if one in others]:
                return found

    def _take(self, way: Way, packet: bytes) -> None:
        when = way.leaves_at(packet, time.monotonic())
        if when is not None:
            way.carried += len(packet) if is_tcp(packet) else 0
            self._number += 1
            heapq.heappush(self._under_way, (when, self._number, way.target, packet))


@contextmanager
def tunnel(name: str, namespace: str, own: str, other: str) -> Iterator[int]:
    """A device of the namespace; what it sends is read here."""
    file = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    try:
        fcntl.ioctl(
            file, 0x400454CA, struct.pack("16sH", name.encode(), 0x1001)
        )  # TUNSETIFF: a TUN, without heads
        run("ip", "link", "set", name, "netns", namespace)
        inside = ("ip", "-n", namespace)
        run(*inside, "address", "add", own, "peer", other, "dev", name)
        run(*inside, "link", "set", "lo", "up")
        run(*inside, "link", "set", name, "mtu", "1500", "txqueuelen", "1000", "up")
        yield file
    finally:
        os.close(file)


@contextmanager
def namespace_of(name: str) -> Iterator[str]:
    run("ip", "netns", "add", name)
    try:
        yield name
    finally:
        run("ip", "netns", "delete", name)


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)  # our own words


def why_not() -> str | None:
    if os.geteuid() != 0:
        return "it needs root, for namespaces"
    if shutil.which("ip") is None:
        return "there is no program ip"
    return None if os.access("/dev/net/tun", os.R_OK | os.W_OK) else "there is no /dev/net/tun"


# --- the peers


class Unpaced(LinePacer):
    """As it was: everything leaves at once."""

    async def send(
        self, connection: FrameConnection, data: bytes, service: str, patience_s: object = None
    ) -> None:
        await connection.send(data)


def key_of(host: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(Random(host).randbytes(32))


def address_of(host: str) -> Address:
    return Address(host=bytes(map(int, host.split("."))), port=PORT)


@asynccontextmanager
async def peer_at(
    host: str, services: Services, pacer: LinePacer, *, is_short: bool
) -> AsyncIterator[tuple[RingNode, Calls]]:
    key, machine, chance = key_of(host), Machine(), Random(host)
    settings = NodeSettings(rules=RULES, address=address_of(host), limits=TransportLimits.for_one_machine())
    claimed = claim_tcp(host, PORT, key)
    parts = CallPortParts(
        key=key,
        rules=RULES,
        settings=CallsSettings(),
        relay=RelaySettings(),
        relays_wanted=0,
        is_one_machine=True,
        wall_clock=time.time,
        chance=chance,
        dial=machine.dial,
        knock=machine.knock,
        pacer=pacer,
        urgent=("leases.ask",) if is_short else (),
    )
    port = CallPort(parts)
    async with (
        open_node(settings, key, NodePorts(wall_clock=time.time, random=chance), [(host, PORT)]) as node,
        port.calling(node, claimed) as calls,
        port.answering(node, claimed, services),
    ):
        await node.join([] if host == FAR else [address_of(FAR)])
        yield node, calls


async def far() -> None:
    async def grant(_peer: bytes, body: bytes) -> bytes:
        return body

    async def put(_peer: bytes, _body: bytes) -> bytes:
        return b""

    services = Services(calls={"leases.ask": grant, "copies.put": put}, by_datagram=frozenset({"leases.ask"}))
    async with peer_at(FAR, services, LinePacer(), is_short=True):
        say("ready")
        await anyio.sleep_forever()


async def near(seconds: float, *, is_paced: bool) -> None:
    pacer = LinePacer() if is_paced else Unpaced()
    to = Contact.at(peer_key(key_of(FAR)), address_of(FAR), 0, 0, "off")
    async with peer_at(NEAR, Services(), pacer, is_short=is_paced) as (node, calls):
        while not node.knows(to.peer):  # noqa: ASYNC110  # nobody tells
            await anyio.sleep(0.1)
        await asked(calls, to, 2.0)
        say("idle", took=await asked(calls, to, seconds))
        async with anyio.create_task_group() as tasks:
            for _ in range(COPIES_AT_ONCE):
                tasks.start_soon(copy, calls, to)
            await asked(calls, to, SETTLE_S)
            say("begin", rate=pacer.rate)
            say("bulk", took=await asked(calls, to, seconds), rate=pacer.rate)
            say("halve")
            await asked(calls, to, SETTLE_S)
            say("begin", rate=pacer.rate)
            say("half", took=await asked(calls, to, seconds), rate=pacer.rate)
            tasks.cancel_scope.cancel()


async def copy(calls: Calls, to: Contact) -> None:
    while True:
        try:
            await calls.call(to, "copies.put", os.urandom(COPY_BYTES), deadline_s=120.0)
        except CallError as error:
            say("failed", why=str(error))


async def asked(calls: Calls, to: Contact, seconds: float) -> list[float]:
    """How long leases took, in milliseconds; each is asked for in its own time, whatever became of the one before."""
    took: list[float] = []

    async def one() -> None:
        began = time.monotonic()
        try:
            await calls.call(to, "leases.ask", os.urandom(LEASE_BYTES), deadline_s=10.0)
        except CallError:
            took.append(10_000.0)
            return
        took.append(1_000 * (time.monotonic() - began))

    async with anyio.create_task_group() as tasks:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            tasks.start_soon(one)
            await anyio.sleep(LEASE_EVERY_S)
    return took


def say(word: str, **facts: object) -> None:
    print(json.dumps({"word": word, **facts}), flush=True)


# --- the measurement


def measured(seconds: float, *, is_paced: bool) -> Iterator[tuple[str, list[float], float]]:
    """Phase, milliseconds of its leases, share of the line that copies had."""
    names = [f"lines-{os.getpid()}-{end}" for end in ("near", "far")]
    with ExitStack() as stack:
        for name in names:
            stack.enter_context(namespace_of(name))
        modem = Modem(
            stack.enter_context(tunnel(f"tn{os.getpid()}", names[0], NEAR, FAR)),
            stack.enter_context(tunnel(f"tf{os.getpid()}", names[1], FAR, NEAR)),
        )
        far_peer = stack.enter_context(role(names[1], "far"))
        word_of(modem, far_peer)
        kind = "near" if is_paced else "near-unpaced"
        near_peer = stack.enter_context(role(names[0], kind, "--seconds", str(seconds)))
        began, carried = time.monotonic(), 0
        while facts := word_of(modem, near_peer):
            took_s = time.monotonic() - began
            share = (modem.up.carried - carried) / took_s / modem.up.rate
            match facts["word"]:
                case "halve":
                    modem.up.rate /= 2
                case "begin":
                    pass
                case "failed":
                    print(f"a copy failed: {facts['why']}", file=sys.stderr)
                    continue
                case phase:
                    yield phase, facts["took"], share
            began, carried = time.monotonic(), modem.up.carried


@contextmanager
def role(namespace: str, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    command = (
        "ip",
        "netns",
        "exec",
        namespace,
        sys.executable,
        "-m",
        "scripts.benches.lines",
        "--role",
        *words,
    )
    here = Path(__file__).resolve().parents[2]
    with subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0, cwd=here) as process:  # our own words
        try:
            yield process
        finally:
            process.kill()


def word_of(modem: Modem, process: subprocess.Popen[bytes]) -> dict[str, Any] | None:
    assert process.stdout is not None
    modem.run_until([process.stdout.fileno()])  # nothing is buffered here that `select` would not see
    line = process.stdout.readline()
    return json.loads(line) if line else None


def row(phase: str, took: list[float], share: float) -> str:
    cuts = statistics.quantiles(took, n=20)
    return f"| {phase} | {statistics.median(took):,.0f} | {cuts[-1]:,.0f} | {max(took):,.0f} | {share:.0%} |"


def main() -> None:
    parser = argparse.ArgumentParser(description="Leases beside copies on a slow line.")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each phase")
    parser.add_argument("--role", choices=("far", "near", "near-unpaced"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role == "far":
        anyio.run(far)
    elif options.role:
        anyio.run(lambda: near(options.seconds, is_paced=options.role == "near"))
    elif reason := why_not():
        print(f"lines: not measured here: {reason}")
    else:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the namespaces go as well
        print("| | leases p50, ms | p95 | most | copies have of the line |\n|---|---|---|---|---|")
        for is_paced, name in ((True, "paced, by datagram"), (False, "unpaced, by stream")):
            for phase, took, share in measured(options.seconds, is_paced=is_paced):
                print(row(f"{phase}, {name}", took, share), flush=True)


if __name__ == "__main__":
    main()
