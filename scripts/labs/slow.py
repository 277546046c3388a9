"""Does one slow line hold up a ring? Two rings side by side, one of which has a peer with 256 kbit/s up."""

from scripts.labs.crawls import judge_once, judge_spacing, wait_crawled
from scripts.labs.laboratory import Asked, Laboratory, LabRing, Rows, public_charter
from scripts.labs.mix import CRAWL_S, PAGES_MAX, SMALL_HOSTS

PEERS = 6
KBIT_PER_S = 256
SLOWER_MAX = 1.3


def slow(lab: Laboratory, asked: Asked) -> Rows:
    """One of six lines has 256 kbit/s: 720 pages in at most 1.3 times the time without it, spaced at the servers."""
    rings = {"without": LabRing(lab, public_charter("quick")), "with": LabRing(lab, public_charter("slow"))}
    pages = lab.serve(hosts=4 if asked.is_short else SMALL_HOSTS, pages_max=PAGES_MAX)
    for name, ring in rings.items():
        ring.begin(PEERS, prefix=name)
    rings["with"].volunteers["with1"].host.limit(KBIT_PER_S)
    for ring in rings.values():
        next(iter(ring.volunteers.values())).command("crawl", *pages, "--quiet")
    clients = {
        name: {address for one in ring.volunteers.values() for address in one.host.addresses}
        for name, ring in rings.items()
    }
    found = wait_crawled(lab, clients, CRAWL_S)
    for name, crawl in found.items():
        judge_once(lab, name, crawl, [rings[name]])
        judge_spacing(lab, name, crawl, rings[name].charter.delay_floor_s)
    ratio = found["with"].took_s / max(found["without"].took_s, 1.0)
    is_whole = not any(one.missing for one in found.values())
    lab.note(f"within {SLOWER_MAX} of the time", is_whole and ratio <= SLOWER_MAX, f"{ratio:.2f}")
    return [
        {
            "ring": name,
            "pages": len(one.wanted) - len(one.missing),
            "of": len(one.wanted),
            "took_s": one.took_s,
            "twice": len(one.repeated),
        }
        for name, one in found.items()
    ]
