"""What does it cost to bring links to their six holders, and to be one crawler of many?

    scripts/bench exchange [--peers 10,100,1000,20000] [--links-per-peer N] [--json]

Bytes and messages for each link, at all six holders, of three ways in one run: a lookup for each link and a message to
each holder; a lookup for each, and the messages together as on a walk; our walk. Lookups are counted with ring machines
and the ring's codec, links with the real outbox, walk and codec on kept connections, on URLs scaled to 59 characters.
Then what a core does: links into and out of the outbox, links received, leases served; and what 100,000 waiting links
hold in memory.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from random import Random

import anyio

from crawler.core.link import Link
from crawler.core.scope import THE_WHOLE_WEB
from crawler.core.urls import STANDARD
from crawler.frontier import Frontier
from crawler.frontier_rows import frontier_rows
from dht import Contact
from dht.core.placement import Rule
from herodotus.core.links.senders import Silences
from herodotus.crawl.links.disk import link_rows
from herodotus.crawl.links.outbox import Outbox, Standby
from herodotus.crawl.links.owner import LinkReceiver, ReceiverParts
from herodotus.crawl.links.walks import LinkWalks
from herodotus.crawl.links.wire import Taken, encode_batch, encode_taken, in_order
from herodotus.peers.calls import CALL_DEADLINE_S
from herodotus.peers.ring_view import RingView
from scripts.benches.leases import books_per_s, served_per_s
from simnet.scenarios.links import COPIES, THESIS_URL_BYTES, synthetic_urls, varied_urls, walked
from simnet.scenarios.measures import link_costs
from tests.herodotus.peers.table_ring import TableRing, link_peer

LOOKUPS = 500
WAITING = 100_000
MORE = 200_000
BATCH = 2_000


def cost_of(peers: int, links_per_peer: int) -> dict[str, float]:
    """For each link, at all its holders."""
    ring = link_costs(1, peers, LOOKUPS, links_per_peer)
    lookup, holders = ring["bytes per lookup"], min(COPIES, peers)
    single = ring["direct, bytes per link"] - lookup
    together = ring["walk, bytes per link"]
    found = {
        "direct lookup, bytes": lookup + holders * single,
        "batched lookup, bytes": lookup + holders * together,
        "direct lookup, messages": ring["messages per lookup"] + 2 * holders,
        "batched lookup, messages": ring["messages per lookup"] + 2 * holders / links_per_peer,
    }
    for name, urls in (("synthetic", synthetic_urls), ("varied", varied_urls)):
        with tempfile.TemporaryDirectory() as folder:
            calls, report, mean = anyio.run(
                walked, Path(folder), peers, links_per_peer, urls(1), backend="trio"
            )
        assert not report.left, "every link reaches every holder"
        found[f"walk, {name} URLs, bytes"] = calls.bytes / report.links * THESIS_URL_BYTES / mean
        found["walk, messages"] = 2 * report.batches / report.links
    found["direct over walk (varied)"] = found["direct lookup, bytes"] / found["walk, varied URLs, bytes"]
    return found


class _Takers:
    """They take all, unread: what is measured is the sender."""

    async def call(
        self, to: Contact, service: str, body: bytes, *, deadline_s: float = CALL_DEADLINE_S
    ) -> bytes:
        await anyio.lowlevel.checkpoint()
        return encode_taken(Taken())

    def stream(
        self, to: Contact, service: str, body: bytes
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        raise NotImplementedError(f"{to} {service} {len(body)}")


async def outbox_of(folder: Path, peers: int) -> dict[str, float]:
    """What waits and is walked, on the real disk."""
    records = [link_peer(number) for number in range(peers)]
    ring, url = TableRing(records[0]), varied_urls(2)
    ring.see(records)
    links = [Link(url(), depth=3) for _ in range(WAITING)]
    before, disk = resident_bytes(), link_rows(folder)
    try:
        outbox, start = Outbox(disk, host_links_max=WAITING + MORE), time.process_time()
        for at in range(0, WAITING, 50):  # of a page
            outbox.add(links[at : at + 50], 0.0)
        added_s, first = time.process_time() - start, resident_bytes()
        for _ in range(0, MORE, 50):
            outbox.add([Link(url(), depth=3) for _ in range(50)], 0.0)
        more = resident_bytes()
        outbox.begin()
        begun = resident_bytes()
        start = time.process_time()
        report = await LinkWalks(
            outbox, _Takers(), RingView(ring, Rule(COPIES)), Silences(Random(0)), "ip"
        ).walk(0.0)
        walked_s = time.process_time() - start
    finally:
        disk.close()
    return {
        "links into the outbox a CPU-second": WAITING / added_s,
        "links walked to six holders a CPU-second": report.links / walked_s,
        "MB resident with the first 100,000 waiting": (first - before) / 1e6,
        "MB more for each further 100,000": (more - first) / MORE * WAITING / 1e6,
        "MB more for each 100,000 while they are walked": (begun - more) / report.links * WAITING / 1e6,
    }


async def received_per_s(folder: Path) -> dict[str, float]:
    """By one of seven peers, from batches of 2,000, durable in frontier and standby."""
    records = [link_peer(number) for number in range(COPIES + 1)]
    ring, url = TableRing(records[0]), varied_urls(3)
    ring.see(records)
    disk, frontier = link_rows(folder / "exchange"), Frontier(frontier_rows(folder / "queue"), day=1)
    receiver = LinkReceiver(
        ReceiverParts(
            view=RingView(ring, Rule(COPIES)),
            frontier=_Taking(frontier),
            standby=Standby(disk),
            make_durable=disk.flush,
            is_given=lambda key: False,
            rules=STANDARD,
            territory=THE_WHOLE_WEB,
            fetches_all=False,
        )
    )
    bodies = [encode_batch(in_order([*{Link(url(), depth=3) for _ in range(BATCH)}])) for _ in range(20)]
    start = time.process_time()
    for number, body in enumerate(bodies):
        await receiver.take(records[1 + number % COPIES].peer, body)
    used_s = time.process_time() - start
    frontier.close()
    disk.close()
    assert receiver.counts.taken > 0.8 * 20 * BATCH, "most are this peer's to hold"
    return {"links received a CPU-second": len(bodies) * BATCH / used_s}


class _Taking:
    """A frontier as a receiver sees it."""

    takes_links = True

    def __init__(self, frontier: Frontier) -> None:
        self._frontier = frontier

    def take_over(self, links: Sequence[Link]) -> int:
        return self._frontier.add(links)

    def make_durable(self) -> None:
        self._frontier.sync()


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peers", default="10,100,1000,20000")
    parser.add_argument("--links-per-peer", type=int, default=40)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        work = anyio.run(outbox_of, Path(folder) / "out", 200)
        work |= anyio.run(received_per_s, Path(folder) / "in")
    work["leases of the books alone a CPU-second"] = books_per_s(1_000)
    work["leases served a CPU-second"] = anyio.run(served_per_s, 1_000)
    for peers in map(int, asked.peers.split(",")):
        found[f"{peers:,} peers, {asked.links_per_peer} links a peer"] = cost_of(peers, asked.links_per_peer)
    found["one core"] = work
    if asked.json:
        print(json.dumps(found))
        return
    for title, rows in found.items():
        print(title)
        for name, value in rows.items():
            print(f"  {name:<45} {value:>14,.2f}")


if __name__ == "__main__":
    main()
