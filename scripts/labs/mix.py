"""Does a ring of the lines that volunteers have do its work? A mix of twelve peers; and half of all behind UPnP."""

from collections.abc import Sequence
from types import MappingProxyType

from scripts.labs.claims import claim_of, sentence_of
from scripts.labs.crawls import (
    clients_of,
    judge_copies,
    judge_once,
    judge_spacing,
    settle_copies,
    wait_crawled,
)
from scripts.labs.internet import Internet
from scripts.labs.kinds import KINDS, Made
from scripts.labs.laboratory import Asked, Laboratory, LabRing, Rows, public_charter

HOSTS, PAGES_MAX = 20, 40
"""1,247 pages, the issue's web."""
SMALL_HOSTS = 12
"""720 pages."""
MIXED = ("upnp", "upnp", "upnp", "address", "port", "symmetric", "carrier", "v6-only")
CRAWL_S = 1_200.0
STARTED_S = 240.0
CLOSED_MEMBERS_S = 2_100.0
"""Everybody's half an hour, and five minutes for the lines."""
SLOWER_MAX = 1.2
SETTINGS = MappingProxyType({"links.wait_s": 2.0, "copies.cross_fetch_share": 0.0})
"""Without the visits that check other peers, since each page is to be asked for once."""


def mix(lab: Laboratory, asked: Asked) -> Rows:
    """Twelve peers on a mix of lines crawl 1,247 pages: each once, six copies, spaced, and everybody does a share."""
    ring = LabRing(lab, public_charter("mix"))
    pages = lab.serve(hosts=6 if asked.is_short else HOSTS, pages_max=PAGES_MAX)
    public = ring.begin(4, v6=True)
    made = {one.name: Made(host=one.host, outside=one.host.addresses) for one in public}
    made |= made_on(lab.internet, ring, MIXED)
    wait_standings(lab, ring)
    if asked.is_long:
        _wait_closed_members(lab, ring)
    public[0].command("crawl", *pages, "--quiet")
    crawl = wait_crawled(lab, {"mix": clients_of(made.values())}, CRAWL_S)["mix"]
    settle_copies(lab, ring)
    rows = []
    for name, facts in ring.statuses().items():
        fetched = sum(crawl.by_client.get(address, 0) for address in clients_of([made[name]]))
        held, claim = facts["store"]["captures"], claim_of(sentence_of(facts))
        rows.append(
            {
                "peer": name,
                "says": claim.standing,
                "fetched": fetched,
                "held": held,
                "uncallable": len(facts["ring"].get("uncallable", ())),
                "sentence": sentence_of(facts),
            }
        )
        is_share = fetched > 0 and (held > 0 or (facts["helping"]["fetched"] > 0 and not asked.is_long))
        lab.note(f"{name} does its share", is_share, f"{claim.standing}: {fetched} fetched, {held} held")
    judge_once(lab, "mix", crawl, [ring])
    judge_spacing(lab, "mix", crawl, ring.charter.delay_floor_s)
    judge_copies(lab, "mix", ring, crawl)
    return rows


def half(lab: Laboratory, asked: Asked) -> Rows:
    """Eight public peers and eight of which four are behind UPnP crawl side by side: how much longer do these take."""
    open_ring, half_ring = (
        LabRing(lab, public_charter("all-public")),
        LabRing(lab, public_charter("half-upnp")),
    )
    pages = lab.serve(hosts=4 if asked.is_short else SMALL_HOSTS, pages_max=PAGES_MAX)
    open_ring.begin(8, prefix="open")
    public = half_ring.begin(4)
    made = made_on(lab.internet, half_ring, ("upnp",) * 4)
    wait_standings(lab, half_ring)
    lab.must("eight members in each ring", lambda: half_ring.is_whole(8), STARTED_S)
    for ring in (open_ring, half_ring):
        next(iter(ring.volunteers.values())).command("crawl", *pages, "--quiet")
    clients = {
        "all public": {address for one in open_ring.volunteers.values() for address in one.host.addresses},
        "half UPnP": clients_of(made.values())
        | {address for one in public for address in one.host.addresses},
    }
    found = wait_crawled(lab, clients, CRAWL_S)
    for name, crawl in found.items():
        judge_once(lab, name, crawl, [open_ring if name == "all public" else half_ring])
        judge_spacing(lab, name, crawl, open_ring.charter.delay_floor_s)
    ratio = found["half UPnP"].took_s / max(found["all public"].took_s, 1.0)
    is_whole = not any(one.missing for one in found.values())
    lab.note(f"within {SLOWER_MAX} of the time", is_whole and ratio <= SLOWER_MAX, f"{ratio:.2f}")
    return [
        {
            "ring": name,
            "pages": len(one.wanted) - len(one.missing),
            "of": len(one.wanted),
            "took_s": one.took_s,
        }
        for name, one in found.items()
    ]


def made_on(internet: Internet, ring: LabRing, kinds: Sequence[str]) -> dict[str, Made]:
    """A peer for each, started."""
    made = {}
    for number, kind in enumerate(kinds):
        name = f"{kind}{number}" if kinds.count(kind) > 1 else kind
        made[name] = KINDS[kind](internet, name)
        ring.start(ring.volunteer(name, made[name].host))
    return made


def _wait_closed_members(lab: Laboratory, ring: LabRing) -> None:
    """Half an hour, until each closed peer has a share. Who is none by then is said, and judged by what it holds."""
    lab.until(lambda: _said(ring).count("leaf") == 0, CLOSED_MEMBERS_S)
    lab.say(f"standings: {dict(zip(ring.statuses(), _said(ring), strict=True))}")
    lab.until(lambda: all(one["ring"]["ideal"] for one in ring.statuses().values()), STARTED_S)


def _said(ring: LabRing) -> list[str]:
    return [claim_of(sentence_of(facts)).standing for facts in ring.statuses().values()]


def wait_standings(lab: Laboratory, ring: LabRing) -> None:
    """Until each peer says what it is, and has said it for a test's time."""
    names = len(ring.volunteers)
    lab.until(
        lambda: (
            sum(claim_of(sentence_of(one)).standing != "unknown" for one in ring.statuses().values()) == names
        ),
        STARTED_S,
    )
    lab.linger(20.0)
    said = {name: claim_of(sentence_of(facts)).standing for name, facts in ring.statuses().items()}
    lab.say(f"standings: {said}")
