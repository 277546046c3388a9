"""How did a ring crawl the lab's web in a day? By the log of the web's server and the peers' exported archives.

The server alone knows who asked for what and when. Two rings may crawl one web side by side; each is told by the
addresses that its peers' lines have outside.
"""

import json
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from herodotus.operate import lab_web
from scripts.labs.kinds import Made
from scripts.labs.laboratory import SUFFIX, Laboratory, LabRing
from scripts.labs.volunteers import end_all
from scripts.sweeps.judging import Content, Visit, is_robots, polite
from scripts.sweeps.looking import contents_today, exported

ROUNDED_S = 0.0011
"""The server's log has times to the microsecond; what wakes a process has them to the millisecond."""
COPIED_S = 240.0
_LOOK_EVERY_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Crawl:
    wanted: Collection[str]
    fetched: Mapping[str, int]
    """How often each page was asked for, without robots.txt."""
    by_client: Mapping[str, int]
    visits: Collection[Visit]
    took_s: float
    """From the first request of the ring until the last page was asked for the first time."""

    @property
    def missing(self) -> list[str]:
        return sorted(set(self.wanted) - set(self.fetched))

    @property
    def repeated(self) -> list[str]:
        return sorted(url for url, count in self.fetched.items() if count > 1)


def crawl_of(lab: Laboratory, clients: Collection[str], wanted: Collection[str]) -> Crawl:
    """As far as it has come."""
    first: dict[str, float] = {}
    visits, fetched, by_client = list[Visit](), Counter[str](), Counter[str]()
    for visit, url in _visits(lab_web.log_in(lab.folder)):
        if visit.client not in clients:
            continue
        visits.append(visit)
        if url.endswith("/robots.txt"):
            continue
        fetched[url] += 1
        by_client[visit.client] += 1
        first.setdefault(url, visit.at)
    began = min((visit.at for visit in visits), default=0.0)
    ended = max(first.values(), default=began)
    return Crawl(
        wanted=wanted, fetched=fetched, by_client=by_client, visits=visits, took_s=round(ended - began, 1)
    )


def _visits(log: Path) -> Iterator[tuple[Visit, str]]:
    for text in log.read_text(encoding="utf-8").splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue  # the last one, still being written
        if line["host"].endswith(SUFFIX):  # others are the tester's
            visit = Visit(at=line["time"], host=line["host"], client=line["client"])
            yield visit, f"http://{line['host']}{line['path']}"


def wait_crawled(lab: Laboratory, rings: Mapping[str, Collection[str]], within_s: float) -> dict[str, Crawl]:
    """Until each ring (its clients' addresses by a name) has asked for all, or the time is over."""
    wanted = lab.urls()
    end = time.monotonic() + within_s
    while True:
        found = {name: crawl_of(lab, clients, wanted) for name, clients in rings.items()}
        if not any(one.missing for one in found.values()) or time.monotonic() > end:
            for name, one in found.items():
                lab.say(
                    f"{name}: {len(wanted) - len(one.missing)} of {len(wanted)} pages in {one.took_s:g} s"
                )
            return found
        lab.linger(_LOOK_EVERY_S)


def clients_of(made: Collection[Made]) -> set[str]:
    return {address for one in made for address in (*one.outside, *one.host.addresses)}


def judge_once(lab: Laboratory, name: str, crawl: Crawl, rings: Sequence[LabRing] = ()) -> None:
    """Apart from second looks at what helpers brought, of which the owners in `rings` tell."""
    total = len(crawl.wanted)
    owners = [facts["helpers"] for ring in rings for facts in ring.statuses().values()]
    explained = sum(one["checked"] + one["lost"] for one in owners)
    again = sum(crawl.fetched.values()) - len(crawl.fetched)
    lab.note(
        f"{name}: every page is fetched",
        bool(total) and not crawl.missing,
        f"{total - len(crawl.missing):,} of {total:,} in {crawl.took_s:g} s" + _shown(crawl.missing),
    )
    lab.note(
        f"{name}: none twice but to check helpers",
        again <= explained,
        f"{again} again, {explained} explained{_shown(crawl.repeated) if again > explained else ''}",
    )


def judge_spacing(lab: Laboratory, name: str, crawl: Crawl, delay_s: float) -> None:
    found = polite(crawl.visits, delay_s, ROUNDED_S)
    lab.note(f"{name}: {found.name}", found.is_ok, found.detail)


def _shown(urls: list[str]) -> str:
    return f"; such as {', '.join(urls[:3])}" if urls else ""


def settle_copies(lab: Laboratory, ring: LabRing) -> None:
    """Until nobody has anything to send or to fetch."""

    def is_settled() -> bool:
        found = ring.statuses()
        return len(found) == len(ring.volunteers) and not any(
            facts["copying"]["to_send"] or facts["copying"]["to_fetch"] for facts in found.values()
        )

    is_ok = lab.until(is_settled, COPIED_S)
    lab.say("all copies are sent" if is_ok else f"copies are still under way after {COPIED_S:g} s")


def judge_copies(lab: Laboratory, name: str, ring: LabRing, crawl: Crawl) -> None:
    """Ends the ring: what is on the disks is read."""
    holding = [name for name, facts in ring.statuses().items() if facts["store"]["captures"]]
    end_all(list(ring.volunteers.values()))
    holders = exported([ring.volunteers[name].home.path for name in holding])
    pages = {one: count for one, count in holders.items() if not is_robots(one)}
    today = set[Content](contents_today(lab.control))
    copies = min(ring.charter.copies, len(ring.volunteers))
    counts = Counter(pages.get(one, 0) for one in today)
    few = sorted(one.url for one in today if pages.get(one, 0) < copies)
    table = ", ".join(f"{count} copies {number:,}" for count, number in sorted(counts.items()))
    lab.note(
        f"{name}: all is with {copies} peers in {copies} places",
        bool(crawl.wanted) and not few,
        table + _shown(few),
    )
