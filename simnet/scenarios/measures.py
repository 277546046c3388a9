"""The papers' measurements, made on our core: paths, timeouts, lookups under churn, bytes per link.

These run bare machines (`simnet.rings.RingWorld`): no hosts, no codec, and every feature of the papers. Only
`paper-links` encodes every message, since it counts bytes; its walk is that of `simnet.scenarios.links`.
"""

import tempfile
from bisect import bisect_left
from pathlib import Path
from random import Random

import anyio

from crawler.core.link import Link
from dht.core.ids import KEY_BYTES, Key
from dht.core.records import first_contact_of
from herodotus.crawl.links.wire import Taken, encode_batch, encode_taken
from herodotus.peers.calls import CALL_DEADLINE_S
from herodotus.peers.net.wire import HEAD_BYTES, CallQuestion
from simnet.rings import owner_in, peer_number, ring_of
from simnet.ringtrials import churn, looked_up, lookups_without_repair, size_of, unrepaired
from simnet.runs import ScenarioRun
from simnet.scenarios import Figures, scenario, try_out
from simnet.scenarios.links import THESIS_URL_BYTES, on_wire, varied_urls, walked

LINKS_PER_PEER = 10  # "an aggregate of roughly ten URLs per node" (thesis 4.4.4)
LOOKUPS = 1_000


@scenario("chord-table", summary="paths and timeouts in a ring that nobody repairs, by the share of dead peers",
          peers=1_000, peers_min=50, peers_max=20_000, seconds=1.0)  # fmt: skip
def chord_table(run: ScenarioRun) -> None:
    lookups = int(run.setting("lookups", 2_000, low=1, high=1e6))
    successors = int(run.setting("successors", 20, low=1, high=64))

    def work() -> tuple[Figures, str | None]:
        figures: Figures = {}
        wrong = 0
        for tenths in range(6):
            paths = lookups_without_repair(run.options.seed, run.peers, successors, tenths / 10, lookups)
            figures[f"path at 0.{tenths} dead"] = paths.mean
            figures[f"timeouts at 0.{tenths} dead"] = paths.timeouts
            wrong += paths.wrong
        figures["wrong answers"] = float(wrong)
        return figures, f"{wrong} lookups found a wrong owner" if wrong else None

    try_out(run, "every lookup finds the owner", work)


@scenario("chord-churn", summary="lookups while peers crash and others join at the same rate",
          peers=500, peers_min=20, peers_max=5_000, seconds=1.0)  # fmt: skip
def chord_churn(run: ScenarioRun) -> None:
    session_h = run.setting("session_h", 1.0, low=0.05, high=1e4)
    for_s = run.setting("for_s", 600.0, low=10.0, high=1e6)

    def work() -> tuple[Figures, str | None]:
        figures = churn(run.options.seed, run.peers, session_h * 3_600, for_s, max(int(for_s * 5), 1))
        bad, asked = figures["lookups wrong"] + figures["lookups unanswered"], figures["lookups"]
        return figures, f"{bad:.0f} of {asked:.0f} lookups fail" if bad > 0.01 * asked else None

    try_out(run, "at most one lookup in a hundred fails", work)


@scenario("paper-links", summary="bytes per link: a lookup each, lookups and batches, a walk around the ring",
          peers=1_000, peers_min=20, peers_max=20_000, seconds=1.0)  # fmt: skip
def paper_links(run: ScenarioRun) -> None:
    lookups = int(run.setting("lookups", LOOKUPS, low=10, high=1e6))
    links_per_peer = int(run.setting("links_per_peer", LINKS_PER_PEER, low=1, high=1_000))

    def work() -> tuple[Figures, str | None]:
        figures = link_costs(run.options.seed, run.peers, lookups, links_per_peer)
        return figures, _links_wrong(figures)

    try_out(run, "links are carried, and cheapest by a walk", work)


def _links_wrong(figures: Figures) -> str | None:
    if figures["lookups wrong"]:
        return f"{figures['lookups wrong']:.0f} lookups found a wrong owner"
    if figures["links undelivered"]:
        return f"{figures['links undelivered']:.0f} links did not arrive"
    direct, batched, walk = (
        figures[f"{way}, bytes per link"] for way in ("direct", "batched lookup", "walk")
    )
    if not direct > batched > walk:
        return f"a link costs {direct:.0f} bytes by a lookup, {batched:.0f} batched, {walk:.0f} on a walk"
    return None


def link_costs(seed: int, peers: int, lookups: int, links_per_peer: int) -> Figures:
    """For each link and receiver, counted at both ends, headers, sealing and answers included.

    Lookups go by datagrams of the ring, links by calls on connections that are there already.
    """
    figures = _lookup_costs(seed, peers, lookups)
    with tempfile.TemporaryDirectory() as folder:
        calls, report, mean = anyio.run(
            walked, Path(folder), peers, links_per_peer, varied_urls(seed), backend="trio"
        )
    walk = calls.bytes / max(calls.links, 1) * THESIS_URL_BYTES / mean
    single = _alone(("https://" + "x" * THESIS_URL_BYTES)[:THESIS_URL_BYTES])
    direct, batched = figures["bytes per lookup"] + single, figures["bytes per lookup"] + walk
    return {
        **figures,
        "links undelivered": float(report.left),
        "direct, bytes per link": direct,
        "batched lookup, bytes per link": batched,
        "walk, bytes per link": walk,
        "direct over walk": direct / walk,
        "batched over walk": batched / walk,
        **_by_thesis(figures["hops per lookup"], _stops_per_link(seed, peers, links_per_peer)),
    }


def _lookup_costs(seed: int, peers: int, lookups: int) -> Figures:
    world = unrepaired(seed, peers)
    world.sizes = size_of
    chance = Random(seed)
    machine = world.machines[peer_number(seed * 1_000_000).peer]
    ring = ring_of(world)
    hops = wrong = 0
    for _ in range(lookups):
        key = Key(chance.randbytes(KEY_BYTES))
        done = looked_up(world, machine, key)
        hops += sum(found.hops for found in done)
        wrong += not any(found.holders[:1] == (owner_in(ring, key),) for found in done)
    return {
        "messages per lookup": sum(world.sent.values()) / lookups,
        "hops per lookup": hops / lookups,
        "bytes per lookup": world.bytes_sent / lookups,
        "lookups wrong": float(wrong),
    }


def _stops_per_link(seed: int, peers: int, links_per_peer: int) -> float:
    """Owners of at least one link, as a walk to owners alone visits them."""
    positions = sorted(
        first_contact_of(peer_number(n + seed * 1_000_000), "ip").position for n in range(peers)
    )
    chance, links = Random(seed), peers * links_per_peer
    places = {bisect_left(positions, Key(chance.randbytes(KEY_BYTES))) % peers for _ in range(links)}
    return len(places) / links


def _alone(url: str) -> int:
    """Bytes to bring one link to one peer."""
    body = encode_batch([Link(url, depth=3)])
    asked = CallQuestion(service="links", deadline_s=CALL_DEADLINE_S, is_stream=False, body=body).pack()
    return on_wire(len(asked)) + on_wire(HEAD_BYTES + len(encode_taken(Taken())))


def _by_thesis(hops: float, stops_per_link: float) -> Figures:
    """The same paths and stops at the thesis's sizes: an RPC of a lookup 100 bytes, a link 60, headers 60."""
    lookup, walk = 100 * hops, 60 + 60 * stops_per_link
    return {
        "thesis sizes, direct": lookup + 120,
        "thesis sizes, batched lookup": lookup,
        "thesis sizes, ring walk": walk,
        "thesis sizes, direct over walk": (lookup + 120) / walk,
    }
