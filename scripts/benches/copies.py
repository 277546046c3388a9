"""What does a capture cost the peer that sends it to a holder, and the holder that takes it in? CPU time of both.

Captures as a crawl leaves them: a page of 12 kB with its request and what the crawler learned, signed, with a door. The
queue of the sender pushes them to one holder, as soon as they are durable. First each side alone, with the messages in
memory; then two processes with the real calls over TLS between them. Waiting for flushes is not in these figures.

The machine's other work only adds to CPU time, so the least of the rounds counts.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import anyio
import anyio.lowlevel
import anyio.to_thread
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dht import Contact
from dht.core.arcs import WHOLE
from dht.core.handshake import raw_public_key
from dht.core.holders import Table
from dht.core.placement import Rule
from herodotus.copies import wire
from herodotus.copies.copies import Arrivals
from herodotus.copies.push_queue import Backlog, Pusher
from herodotus.copies.services import CopyServices
from herodotus.copies.shared_state import Parts, View
from herodotus.core.captures import Deposit
from herodotus.core.doors import Door, Passage, field_of
from herodotus.core.index_rows import capture_key
from herodotus.core.signatures import signed
from herodotus.machine import Machine
from herodotus.peers.calls import Calls
from herodotus.store.disk import OsDisk
from herodotus.store.engine import Archive
from herodotus.store.files import Files
from herodotus.store.holdings import ArchiveHoldings
from herodotus.store.index import RocksIndex
from herodotus.store.store import DiskStore, open_store
from tests.dht.link_world import key_from
from tests.herodotus.copies.test_comparison import THEM
from tests.herodotus.deposits import altered
from tests.herodotus.peers.net.peers import called, caller, contact
from tests.herodotus.store.making import NOW_S, page

KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
BODY_BYTES, WORDS = 12_000, 3_000
GOALS = {"sender": 50, "receiver": 200, "sender with calls": 150, "receiver with calls": 350}
"""CPU microseconds a capture."""
_FRAME_HEAD = 5


def deposit_of(number: int, bodies: Sequence[bytes]) -> Deposit:
    body = b"<p>%d</p>" % number + bodies[number % len(bodies)]
    crawled = altered(page(f"http://example.org/{number}", NOW_S, body), duration_s=0.123)
    return signed(KEY, replace(crawled, extra=(field_of(Passage(Door.CRAWLED)),)))


@asynccontextmanager
async def archive_at(folder: Path, machine: Machine) -> AsyncIterator[DiskStore]:
    async with open_store(archive_in(folder), machine) as store:
        yield store


def archive_in(folder: Path) -> Archive:
    folder.mkdir()
    index = RocksIndex(folder.with_suffix(".index"))
    return Archive(Files([OsDisk(folder)]), index, now=lambda: float(NOW_S))


def parts_of(store: DiskStore, machine: Machine, calls: Calls, them: Contact) -> Parts:
    """Of a peer of two that both hold everything."""
    me = bytes(raw_public_key(KEY))
    view = View(me=me, table=Table((them,), Rule(6)), share=WHOLE, wide_share=WHOLE)
    view.contacts = {them.peer: them}
    holdings = ArchiveHoldings(store)
    return Parts(
        view=view,
        holdings=lambda: holdings,
        calls=lambda: calls,
        workers=machine,
        sign=partial(signed, KEY),
        random=random.Random(0),
    )


class Taker:
    """A holder that wants everything, and keeps what it was sent."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.asked = 0

    async def call(self, to: Contact, service: str, body: bytes, *, deadline_s: float = 30.0) -> bytes:
        del to, deadline_s
        await anyio.lowlevel.checkpoint()
        if service == wire.LACKS:
            self.asked += 1
            return bytes([wire.WANTED]) * (len(body) // wire.CAPTURE_KEY_BYTES)
        assert service == wire.PUT
        self.bodies.append(body)
        return bytes([wire.STORED]) * _frames(body)


def _frames(body: bytes) -> int:
    count = at = 0
    while at < len(body):
        at += _FRAME_HEAD + int.from_bytes(body[at + 1 : at + _FRAME_HEAD], "big")
        count += 1
    return count


def bodies_of(rng: random.Random) -> list[bytes]:
    """Text that packs to half, as pages do."""
    words = [rng.randbytes(5).hex()[: rng.randrange(3, 11)].encode() for _ in range(WORDS)]
    return [b" ".join(rng.choices(words, k=BODY_BYTES // 4))[:BODY_BYTES] for _ in range(64)]


async def fill(store: DiskStore, count: int) -> list[bytes]:
    """The keys of what was stored, in order."""
    bodies = bodies_of(random.Random(count))
    deposits = [deposit_of(number, bodies) for number in range(count)]
    limiter = anyio.CapacityLimiter(256)

    async def one(deposit: Deposit) -> None:
        async with limiter:
            await store.store(deposit)

    async with anyio.create_task_group() as tasks:
        for deposit in deposits:
            tasks.start_soon(one, deposit)
    return [capture_key(deposit.id)[1:] for deposit in deposits]


async def pushed(parts: Parts, keys: Sequence[bytes]) -> float:
    """CPU seconds of the queue until the holder has answered for all of them."""
    pusher = Pusher(parts, Backlog(None), on_given_up=lambda peer: None)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pusher.run)
        await anyio.lowlevel.checkpoint()
        began = time.process_time()
        pusher.add_fresh(keys)
        while pusher.pending:
            await pusher.wait_idle(next(iter(parts.view.contacts)))
        took_s = time.process_time() - began
        tasks.cancel_scope.cancel()
    assert parts.counts.pushed == len(keys), f"{parts.counts.pushed} of {len(keys)} were taken"
    return took_s


async def alone(count: int, scratch: Path) -> dict[str, float]:
    machine, taker = Machine(), Taker()
    async with archive_at(scratch / "sender", machine) as store:
        parts = parts_of(store, machine, cast("Calls", taker), THEM)
        listen(store, parts)
        keys = await fill(store, count)
        sender_s = await pushed(parts, keys)
    async with archive_at(scratch / "receiver", machine) as store:
        parts = parts_of(store, machine, cast("Calls", taker), THEM)
        listen(store, parts)
        put = CopyServices(parts, on_come=lambda: None).services().calls[wire.PUT]
        began = time.process_time()
        for body in taker.bodies:
            await put(THEM.peer, body)
        receiver_s = time.process_time() - began
        assert parts.counts.received == count, "a capture was not taken"
    size = sum(map(len, taker.bodies)) / count
    print(
        f"  {size:,.0f} bytes each, {count / len(taker.bodies):.0f} to a message, asked {taker.asked} times"
    )
    return {"sender": sender_s, "receiver": receiver_s}


def listen(store: DiskStore, parts: Parts) -> None:
    """As a running peer hears of what it stored."""
    arrivals = Arrivals(parts, Pusher(parts, Backlog(None), on_given_up=lambda peer: None))
    arrivals.listen()
    parts.hear = arrivals.hear
    ArchiveHoldings(store).listen(arrivals.on_stored, sign=parts.sign)


async def holding(folder: Path) -> None:
    """The other process: says where it is called, and on each line what it took."""
    machine = Machine()
    async with AsyncExitStack() as held:
        store = await held.enter_async_context(archive_at(folder / "holder", machine))
        them = contact(key_from("caller"), 1)
        parts = parts_of(store, machine, cast("Calls", Taker()), them)
        listen(store, parts)
        services = CopyServices(parts, on_come=lambda: None).services()
        there = await held.enter_async_context(called(services))
        print(json.dumps({"port": there.port}), flush=True)
        while await anyio.to_thread.run_sync(sys.stdin.readline):
            told = {"cpu_s": time.process_time(), "received": parts.counts.received}
            print(json.dumps(told), flush=True)


class Child:
    """The other process."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.port = int(self._told()["port"])

    def spent(self) -> tuple[float, int]:
        """Its CPU seconds so far, and the captures that it took."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        told = self._told()
        return told["cpu_s"], told["received"]

    def _told(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return found


async def by_calls(count: int, scratch: Path, child: Child) -> dict[str, float]:
    machine, them = Machine(), contact(key_from("called"), child.port)
    async with archive_at(scratch / "caller", machine) as store, caller() as calls:
        parts = parts_of(store, machine, calls, them)
        listen(store, parts)
        keys = await fill(store, count)
        await calls.call(them, wire.LACKS, b"")  # the connection is there before
        before_s, _ = child.spent()
        sender_s = await pushed(parts, keys)
        after_s, received = child.spent()
    assert received == count, "a capture was not taken"
    return {"sender with calls": sender_s, "receiver with calls": after_s - before_s}


def measured(count: int) -> dict[str, float]:
    """CPU seconds of each side."""
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        found |= anyio.run(alone, count, scratch)
        command = [sys.executable, "-m", "scripts.benches.copies", "--holder", str(scratch)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            found |= anyio.run(by_calls, count, scratch, Child(process))
            process.communicate()  # the end of its input ends it
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--captures", type=int, default=2_048)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--holder", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.holder is not None:
        anyio.run(holding, chosen.holder)
        return 0
    least: dict[str, float] = {}
    for _ in range(chosen.rounds):
        for name, took_s in measured(chosen.captures).items():
            least[name] = min(least.get(name, took_s), took_s)
    for name, took_s in least.items():
        each_us = 1e6 * took_s / chosen.captures
        print(f"{name:<20} {each_us:>7.0f} us a capture   goal {GOALS[name]}")
    is_good = all(1e6 * took_s / chosen.captures <= GOALS[name] for name, took_s in least.items())
    print("goals met" if is_good else "a goal was missed")
    return 0 if is_good else 1


if __name__ == "__main__":
    raise SystemExit(main())
