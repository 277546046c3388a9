"""What does a datagram cost? The ring's driver beside a bare socket echo, in one run on one machine.

The process under test answers FIND-sized requests that a child process keeps flowing through a window; what
counts is answers per CPU-second of the process under test, because wall time moves with whatever else runs.
Bare echo and driver take turns, and the medians of the rounds are compared. Handshakes and sealing are
counted without sockets.
"""

import argparse
import json
import multiprocessing
import os
import platform
import socket
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice, repeat
from multiprocessing.connection import Connection

import anyio
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dht.core import messages as m
from dht.core.frames import DATAGRAM_BYTES_MAX
from dht.core.ids import Key, NetworkId, PeerKey
from dht.core.limits import Rate
from dht.core.records import RECORD_VERSION, Address, Contact, Line, PeerRecord
from dht.core.strangers import LinkLimits
from dht.endpoint import SessionEndpoint, socket_address
from dht.identity import peer_key, sign_record
from dht.transport import Received, TransportLimits
from dht.udp import open_udp, system_entropy
from dht.wire import encode_message

NETWORK = NetworkId(b"bench\0\0\0")
LOAD_PER_S_MAX = 120_000  # twice what the driver answers
ANY = Rate(per_second=1e9, burst=1e9)
UNLIMITED = TransportLimits(
    find=ANY,
    state=ANY,
    rumour=ANY,
    other=ANY,
    reply=ANY,
    link=LinkLimits(hello_per_prefix=ANY, retry_overall=ANY),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """Events of one round, per CPU-second of the process under test."""

    name: str
    per_cpu_s: float


def endpoint() -> tuple[SessionEndpoint, Contact]:
    """A peer with a signed record; rates are counted in full, but never reached."""
    key = Ed25519PrivateKey.generate()
    address = Address(host=bytes((127, 0, 0, 1)), port=4484)
    record = PeerRecord(
        version=RECORD_VERSION,
        network=NETWORK,
        peer=peer_key(key),
        lines=(Line.at(address),),
        slot=0,
        virtual_nodes=1,
        incarnation=1,
        issued_s=1_790_000_000,
        expires_s=1_790_086_400,
        flags=0,
        previous=b"",
        since=0,
    )
    signed = sign_record(key, record)
    made = SessionEndpoint(
        key=key,
        network=NETWORK,
        id_check="off",
        record=lambda: signed,
        entropy=system_entropy,
        limits=UNLIMITED,
    )
    return made, Contact.at(peer_key(key), address, 0, 0, "off")


# --- the load, in a process of its own


def circulate(
    sock: socket.socket, target: tuple[str, int], frames: Iterator[bytes], window: int, seconds: float
) -> None:
    """Keeps a window of datagrams going round; the answers are not looked at, to outrun the loaded."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sent = 0
        for data in islice(frames, window):
            sock.sendto(data, target)
            sent += 1
        for _ in range(sent):
            try:
                sock.recvfrom(DATAGRAM_BYTES_MAX)
            except TimeoutError:
                break
        if not sent:
            return


def bare_load(port: int, window: int, seconds: float, pipe: Connection) -> None:
    """Keeps `window` datagrams of the size of a sealed FIND going round."""
    size_bytes = 34 + len(encode_message(m.Find(id=1 << 63, key=Key(bytes(20)))))
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.settimeout(0.2)
    circulate(sock, ("127.0.0.1", port), repeat(bytes(size_bytes)), window, seconds)
    sock.close()
    pipe.send("done")


def ring_load(port: int, peer: bytes, window: int, seconds: float, pipe: Connection) -> None:
    """The same, sealed: a driverless endpoint over a blocking socket, so that the load is not the limit."""
    made, _ = endpoint()
    target = Contact.at(PeerKey(peer), Address(host=bytes((127, 0, 0, 1)), port=port), 0, 0, "off")
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.settimeout(0.2)

    def flush() -> None:
        for data, address in made.link.outgoing:
            sock.sendto(data, address)
        made.link.outgoing.clear()

    now = 0.0
    made.send(m.Ping(id=0), target, now)  # shakes hands
    flush()
    while not made.receive([sock.recvfrom(DATAGRAM_BYTES_MAX)], now):
        flush()
    for number in range(int(LOAD_PER_S_MAX * seconds)):  # sealed beforehand
        made.send(m.Find(id=number, key=Key(bytes(20))), target, now)
    frames = iter([data for data, _ in made.link.outgoing])
    circulate(sock, ("127.0.0.1", port), frames, window, seconds)
    sock.close()
    pipe.send("done")


# --- the processes under test


def bare_echo(window: int, seconds: float) -> Figure:
    """recvfrom and sendto in a loop: what Python on this machine can do at all."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("127.0.0.1", 0))
    sock.settimeout(60.0)  # until the load is there
    with Load(bare_load, sock.getsockname()[1], window, seconds):
        data, address = sock.recvfrom(DATAGRAM_BYTES_MAX)
        sock.sendto(data, address)
        sock.settimeout(1.0)
        start, count = time.process_time(), 0
        try:
            while True:
                data, address = sock.recvfrom(DATAGRAM_BYTES_MAX)
                sock.sendto(data, address)
                count += 1
        except TimeoutError:
            pass
        spent_s = time.process_time() - start
    sock.close()
    return Figure(name="bare socket echo (blocking)", per_cpu_s=count / spent_s)


def driver(backend: str, window: int, seconds: float) -> Figure:
    name, options = ("asyncio", {"use_uvloop": True}) if backend == "uvloop" else (backend, {})
    return anyio.run(_driver, backend, window, seconds, backend=name, backend_options=options)


async def _driver(backend: str, window: int, seconds: float) -> Figure:
    made, me = endpoint()
    count = 0
    has_begun = anyio.Event()

    def answer(batch: list[Received], _now: float) -> None:
        nonlocal count
        count += len(batch)
        has_begun.set()
        for message, sender in batch:
            transport.send(m.Pong(id=message.id), sender)

    async with open_udp(made, [("127.0.0.1", 0)], on_messages=answer) as transport:
        port = transport.addresses[0][1]
        with Load(ring_load, port, me.peer, window, seconds) as pipe:
            await has_begun.wait()
            start, before = time.process_time(), count
            await anyio.wait_readable(pipe.fileno())
            figure = (count - before) / (time.process_time() - start)
    return Figure(name=f"ring driver on {backend}", per_cpu_s=figure)


class Load:
    """Runs a load in another process for the length of the block."""

    def __init__(self, target: Callable[..., None], *arguments: object) -> None:
        self._mine, theirs = multiprocessing.Pipe()
        self._process = multiprocessing.get_context("spawn").Process(target=target, args=(*arguments, theirs))

    def __enter__(self) -> Connection:
        self._process.start()
        return self._mine

    def __exit__(self, *_: object) -> None:
        self._process.join()


# --- without sockets


def handshakes(count: int) -> Figure:
    """Whole handshakes in memory, both ends in this process: halve the time for one end."""
    made, contact = endpoint()
    there = socket_address(contact.address.host, contact.address.port)
    diallers = [endpoint()[0] for _ in range(count)]
    start = time.process_time()
    for number, dialler in enumerate(diallers):
        here = ("127.0.0.1", 10_000 + number)
        dialler.link.dial(there, None, 0.0)
        while dialler.link.outgoing or made.link.outgoing:
            pump(dialler, here, made, there)
    spent_s = time.process_time() - start
    assert made.link.done["opened"] == count
    return Figure(name="handshakes, both ends", per_cpu_s=count / spent_s)


def pump(
    left: SessionEndpoint, left_at: tuple[str, int], right: SessionEndpoint, right_at: tuple[str, int]
) -> None:
    sent, left.link.outgoing[:] = left.link.outgoing[:], []
    right.receive([(data, left_at) for data, _ in sent], 0.0)
    sent, right.link.outgoing[:] = right.link.outgoing[:], []
    left.receive([(data, right_at) for data, _ in sent], 0.0)


def sealing(count: int, size_bytes: int) -> list[Figure]:
    made, contact = endpoint()
    dialler, _ = endpoint()
    there = socket_address(contact.address.host, contact.address.port)
    here = ("127.0.0.1", 9_999)
    dialler.link.dial(there, None, 0.0)
    while dialler.link.outgoing or made.link.outgoing:
        pump(dialler, here, made, there)
    payload = bytes(size_bytes)
    start = time.process_time()
    for _ in range(count):
        dialler.link.send(payload, there, None, 0.0)
    sealed_s = time.process_time() - start
    frames = [data for data, _ in dialler.link.outgoing]
    start = time.process_time()
    opened = sum(made.link.receive(data, here, 0.0) is not None for data in frames)
    opened_s = time.process_time() - start
    assert opened == count
    return [
        Figure(name=f"datagrams sealed, {size_bytes} B", per_cpu_s=count / sealed_s),
        Figure(name=f"datagrams opened, {size_bytes} B", per_cpu_s=count / opened_s),
    ]


# --- the table


def interleaved(rounds: int, window: int, seconds: float, backends: list[str]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for _ in range(rounds):
        figures = [bare_echo(window, seconds), *(driver(backend, window, seconds) for backend in backends)]
        for figure in figures:
            found.setdefault(figure.name, []).append(figure.per_cpu_s)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench ring", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0, help="length of one round")
    parser.add_argument("--window", type=int, default=64, help="datagrams on their way at once")
    parser.add_argument("--backend", action="append", choices=["asyncio", "uvloop", "trio"])
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    backends = arguments.backend or ["asyncio", "uvloop", "trio"]
    found = interleaved(arguments.rounds, arguments.window, arguments.seconds, backends)
    bare = statistics.median(next(iter(found.values())))
    for figure in (handshakes(2_000), *sealing(50_000, 31), *sealing(50_000, 1_024)):
        found[figure.name] = [figure.per_cpu_s]
    rows = [
        {
            "name": name,
            "per_cpu_s": round(statistics.median(values)),
            "least": round(min(values)),
            "most": round(max(values)),
            "of_bare_echo": round(statistics.median(values) / bare, 3),
        }
        for name, values in found.items()
    ]
    conditions = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "load_average": os.getloadavg()[0],
        "rounds": arguments.rounds,
        "seconds": arguments.seconds,
        "window": arguments.window,
    }
    if arguments.json:
        json.dump({"conditions": conditions, "figures": rows}, sys.stdout)
        print()
        return
    print(" ".join(f"{name}={value}" for name, value in conditions.items()))
    print(f"{'what':<34} {'per CPU-s':>10} {'least':>10} {'most':>10} {'x bare':>7}")
    for row in rows:
        name = str(row["name"])
        ratio = f"{row['of_bare_echo']:>7}" if "echo" in name or "driver" in name else ""
        print(f"{name:<34} {row['per_cpu_s']:>10} {row['least']:>10} {row['most']:>10} {ratio}")


if __name__ == "__main__":
    main()
