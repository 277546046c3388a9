"""What does it cost two holders to agree, in bytes and time? Beside the thesis's digests, in the same run.

The protocol's figures are of sets of members, through the real messages without a line between. Wall times with
real archives on disk are of a smaller size. Every difference is checked to have been found.
"""

import argparse
import random
import tempfile
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import anyio
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dht.core.arcs import WHOLE
from dht.core.holders import Table
from dht.core.placement import Rule
from herodotus.copies.comparison import compare
from herodotus.copies.fetch_queue import fetch
from herodotus.copies.services import CopyServices
from herodotus.copies.shared_state import Parts, View
from herodotus.core.ports import Workers
from herodotus.core.signatures import signed
from herodotus.machine import Machine
from herodotus.peers.calls import Services
from herodotus.store import Holdings
from herodotus.store.disk import OsDisk
from herodotus.store.engine import Archive
from herodotus.store.files import Files
from herodotus.store.holdings import ArchiveHoldings
from herodotus.store.index import RocksIndex
from herodotus.store.store import DiskStore, open_store
from tests.herodotus.copies.sets import WHOLE_RING, MemberSet, Straight
from tests.herodotus.copies.test_comparison import THEM
from tests.herodotus.store.making import NOW_S, page, random_text
from tests.herodotus.store.memory_store import AtOnce

GOALS = {0: 6_000, 10: 8_000, 1_000: 48_000, 100_000: 4_500_000}
THESIS_GOAL = 150
"""Times fewer bytes than the thesis's protocol, at 10 differences."""
DIRECTORIES = 65_536
DIGEST_BYTES, ENTRY_BYTES = 20, 24  # SHA-1; SHA-1 of the URL and four bytes of a day (thesis 4.6)
KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))


def parts_of(holdings: Holdings, workers: Workers, calls: Straight | None = None) -> Parts:
    """Of a peer that holds everything; without calls it only answers."""
    view = View(me=b"\1" * 32, table=Table((), Rule(6)), share=WHOLE, wide_share=WHOLE)
    view.contacts = {THEM.peer: THEM}
    return Parts(
        view=view,
        holdings=lambda: holdings,
        calls=lambda: calls or Straight(Services()),
        workers=workers,
        sign=partial(signed, KEY),
        random=random.Random(0),
    )


def member(rng: random.Random) -> bytes:
    return rng.randbytes(12) + rng.randrange(19_000, 19_400).to_bytes(3, "big") + b"c"


def thesis_bytes(ours: Iterable[bytes], theirs: Iterable[bytes]) -> int:
    """A digest for each directory, then all entries of those that differ; one way, as the other costs as much."""
    sets: tuple[dict[bytes, set[bytes]], dict[bytes, set[bytes]]] = ({}, {})
    for of_side, members in zip(sets, (ours, theirs), strict=True):
        for one in members:
            of_side.setdefault(one[:2], set()).add(one)
    differing = [top for top in sets[0].keys() | sets[1].keys() if sets[0].get(top) != sets[1].get(top)]
    return DIRECTORIES * DIGEST_BYTES + sum(ENTRY_BYTES * len(sets[1].get(top, ())) for top in differing)


async def protocol(count: int, differences: int, seed: int) -> bool:
    rng = random.Random(seed + differences)
    common = {member(rng) for _ in range(count - differences // 2)}
    here = {member(rng) for _ in range(differences // 2)}
    there = {member(rng) for _ in range(differences - len(here))}
    ours, theirs = MemberSet(common | here), MemberSet(common | there)
    for one in (ours, theirs):
        await one.digests(*WHOLE_RING[0])  # kept by an archive, so not part of a comparison
    calls = Straight(CopyServices(parts_of(theirs.holdings, AtOnce()), on_come=lambda: None).services())
    began = time.process_time()
    found = await compare(parts_of(ours.holdings, AtOnce(), calls), THEM, WHOLE_RING, bytes(16))
    took_s = time.process_time() - began
    assert (found.missing_here, found.missing_there) == (there, here), "a difference was missed"
    total, thesis = sum(calls.bytes.values()), thesis_bytes(common | here, common | there)
    goal = GOALS.get(differences)
    is_good = goal is None or total <= goal
    is_good &= differences != 10 or thesis >= THESIS_GOAL * total
    print(
        f"{count:>10,} {differences:>9,} {total:>11,} {goal or 0:>11,} {thesis:>12,} {thesis / total:>8.0f}x "
        f"{took_s:>7.2f} s  {' '.join(step.rpartition('/')[2] for step in found.steps)}"
    )
    return is_good


async def archives(count: int, differences: int, scratch: Path) -> None:
    rng, machine = random.Random(count), Machine()

    def opened(name: str) -> Archive:
        folder = scratch / name
        folder.mkdir()
        return Archive(
            Files([OsDisk(folder)]), RocksIndex(scratch / f"{name}.index"), now=lambda: float(NOW_S)
        )

    async with (
        open_store(opened("ours"), machine) as ours,
        open_store(opened("theirs"), machine) as theirs,
    ):
        await fill(ours, count, 0, rng)
        await fill(theirs, count, differences, rng)
        answers = CopyServices(parts_of(ArchiveHoldings(theirs), machine), on_come=lambda: None)
        missing: set[bytes] = set()
        for word in ("first", "again"):
            began = time.perf_counter()
            parts = parts_of(ArchiveHoldings(ours), machine, Straight(answers.services()))
            found = await compare(parts, THEM, WHOLE_RING, bytes(16))
            missing = found.missing_here
            print(
                f"archives of {count:,} captures, {len(missing):,} missing, compared {word}: "
                f"{1000 * (time.perf_counter() - began):,.0f} ms, {found.sent + found.received:,} bytes"
            )
        parts = parts_of(ArchiveHoldings(ours), machine, Straight(answers.services()))
        wanted, began = sorted(missing), time.perf_counter()
        for at in range(0, len(wanted), 256):
            await fetch(parts, THEM.peer, wanted[at : at + 256])
        took_s = time.perf_counter() - began
        size = parts.download.spent
        assert parts.counts.pulled == len(wanted), "a capture was not taken"
        if wanted:
            print(
                f"fetched, checked and stored durably, one source, no line between: {len(wanted) / took_s:,.0f} "
                f"captures/s, {size / took_s / 1e6:.1f} MB/s of {size / len(wanted):,.0f} bytes each"
            )


async def fill(store: DiskStore, count: int, more: int, rng: random.Random) -> None:
    bodies = [random_text(rng, 12_000) for _ in range(64)]

    async def one(number: int, limiter: anyio.CapacityLimiter) -> None:
        async with limiter:
            body = b"<p>%d</p>" % number + bodies[number % 64]
            await store.store(signed(KEY, page(f"http://example.org/{number}", NOW_S, body)))

    limiter = anyio.CapacityLimiter(256)
    async with anyio.create_task_group() as tasks:
        for number in range(count + more):
            tasks.start_soon(one, number, limiter)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, default=1_000_000)
    parser.add_argument("--captures", type=int, default=20_000, help="of the archives on disk")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--differences", type=int, nargs="*", default=list(GOALS))
    chosen = parser.parse_args()
    print("   members differing       bytes        goal       thesis  fewer  both sides' CPU  steps")
    are_good = [anyio.run(protocol, chosen.members, count, chosen.seed) for count in chosen.differences]
    with tempfile.TemporaryDirectory() as scratch:
        anyio.run(archives, chosen.captures, chosen.captures // 20, Path(scratch))
    print("goals met" if all(are_good) else "a goal was missed")
    return 0 if all(are_good) else 1


if __name__ == "__main__":
    raise SystemExit(main())
