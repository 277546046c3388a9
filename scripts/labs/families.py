"""Are peers of IPv4, of IPv6 and of both one ring? Three of each, and a web that both families reach."""

from scripts.labs.claims import sentence_of
from scripts.labs.crawls import judge_copies, judge_once, judge_spacing, settle_copies, wait_crawled
from scripts.labs.laboratory import Asked, Laboratory, LabRing, Rows, public_charter
from scripts.labs.mix import CRAWL_S, PAGES_MAX

ONE_S = 180.0
EACH = 3


def families(lab: Laboratory, asked: Asked) -> Rows:
    """Peers with IPv4 alone, IPv6 alone and both are one ring, which is ideal and crawls everything."""
    ring = LabRing(lab, public_charter("families"))
    pages = lab.serve(hosts=4 if asked.is_short else 6, pages_max=PAGES_MAX)
    ring.begin(EACH, prefix="dual", v6=True)
    for family in ("v4", "v6"):
        for number in range(EACH):
            name = f"{family}-{number}"
            host = lab.internet.customer(name, v4=family == "v4", v6=family == "v6")
            ring.start(ring.volunteer(name, host))
    count = 3 * EACH
    is_one = lab.until(lambda: ring.is_whole(count), ONE_S)
    seen = {name: facts["ring"]["members"] for name, facts in ring.statuses().items()}
    lab.note("all are one ring, and ideal", is_one, f"members: {seen}")
    ring.volunteers["dual0"].command("crawl", *pages, "--quiet")
    clients = {address for one in ring.volunteers.values() for address in one.host.addresses}
    crawl = wait_crawled(lab, {"families": clients}, CRAWL_S / 2)["families"]
    settle_copies(lab, ring)
    rows = [
        {
            "peer": name,
            "members": facts["ring"]["members"],
            "ideal": facts["ring"]["ideal"],
            "address": facts["ring"]["address"],
            "fetched": sum(crawl.by_client.get(one, 0) for one in ring.volunteers[name].host.addresses),
            "held": facts["store"]["captures"],
            "sentence": sentence_of(facts),
        }
        for name, facts in ring.statuses().items()
    ]
    judge_once(lab, "families", crawl, [ring])
    judge_spacing(lab, "families", crawl, ring.charter.delay_floor_s)
    judge_copies(lab, "families", ring, crawl)
    return rows
