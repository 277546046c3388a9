"""Does a peer that nobody can call fetch for the others, and what if its process is killed in the midst of a fetch?

Four public peers crawl a small web together with one behind a router that changes ports, which has no relays yet. It is
killed as soon as an owner waits for its work. What the servers' log says is judged, not what peers say of themselves.
"""

import json
import signal
from collections import Counter

from herodotus.operate import lab_web
from scripts.labs.laboratory import SHORTER, SUFFIX, Asked, Laboratory, LabRing, Rows, public_charter
from scripts.labs.routers import Behaviour
from scripts.labs.volunteers import Facts, Volunteer

PUBLIC = 4
DELAY_S = 1.0
ONCE = {**SHORTER, "copies.cross_fetch_share": 0.0}
"""Each page is then asked for once a day, apart from what helpers bring."""
STANDING_S, BUSY_S, CRAWLED_S = 120.0, 300.0, 600.0
ROUNDING_S = 0.05
"""Of the log's times, and of a loaded machine's timers."""


def helpers(lab: Laboratory, _asked: Asked) -> Rows:
    """A peer that nobody can call fetches for four public ones, and is killed with work in hand."""
    router = lab.internet.router("r-helper", Behaviour(is_symmetric=True))
    pages = lab.serve(hosts=6, pages_max=40)
    ring = LabRing(lab, public_charter("helpers", delay_floor_s=DELAY_S))
    public = ring.begin(PUBLIC)
    helper = ring.volunteer("helper", router.host("helper"))
    ring.start(helper)
    lab.must("the helper knows that it is one", lambda: _helping(helper.status()), STANDING_S)
    public[0].command("seed", "add", *pages)
    lab.must("owners have work for it", lambda: _fetched(helper) >= 5, BUSY_S)
    said = helper.command("status").splitlines()[0]
    fetched = _fetched(helper)
    lab.must("an owner waits for the helper", lambda: _sum(public, "out") > 0, BUSY_S)
    helper.signal(signal.SIGKILL)
    helper.end(10.0)
    lab.say(f"killed after {fetched} pages")
    lab.must("the web is crawled", lambda: _is_crawled(lab, public), CRAWLED_S)
    _judge(lab, public, {address for one in public for address in one.host.addresses}, router.addresses)
    lab.note("the helper said so", said.startswith("Helper: nobody can call"), said)
    return [{"urls": len(lab.urls()), "fetched by the helper": fetched, **_figures(public)}]


def _judge(lab: Laboratory, public: list[Volunteer], own: set[str], outside: tuple[str, ...]) -> None:
    lines = lab_web.log_in(lab.folder).read_text(encoding="utf-8").splitlines()
    asked = [one for one in map(json.loads, lines) if one["host"].endswith(SUFFIX)]  # others are the tester's
    pages = [one for one in asked if one["path"] != "/robots.txt"]
    times = Counter(f"http://{one['host']}{one['path']}" for one in pages)
    missed = set(lab.urls()) - set(times)
    lab.note("every URL was fetched", not missed, ", ".join(sorted(missed)[:3]) or f"{len(times)} of them")
    again, figures = sum(times.values()) - len(times), _figures(public)
    explained = figures["checked"] + figures["lost"]
    lab.note("once, apart from looks again", again <= explained, f"{again} more, {explained} explained")
    by_helper = sum(one["client"] in outside for one in pages)
    lab.note("some by the helper", by_helper > 0, f"{by_helper}; {len(own)} public peers fetched the rest")
    gap_s, where = _least_gap(asked)
    lab.note("a delay between any two requests", gap_s >= DELAY_S - ROUNDING_S, f"{gap_s:.2f} s at {where}")


def _least_gap(asked: list[Facts]) -> tuple[float, str]:
    last: dict[str, float] = {}
    least = float("inf"), ""
    for one in sorted(asked, key=lambda row: row["time"]):
        host, at = one["host"], one["time"]
        if host in last:
            least = min(least, (at - last[host], f"{host}{one['path']}"))
        last[host] = at
    return least


def _helping(facts: Facts | None) -> bool:
    return facts is not None and bool(facts["helping"]["is_helper"])


def _fetched(one: Volunteer) -> int:
    facts = one.status()
    return 0 if facts is None else int(facts["helping"]["fetched"])


def _sum(peers: list[Volunteer], figure: str) -> int:
    return sum(facts["helpers"][figure] for one in peers if (facts := one.status()) is not None)


def _figures(public: list[Volunteer]) -> dict[str, int]:
    return {name: _sum(public, name) for name in ("given", "brought", "checked", "differed", "lost", "late")}


def _is_crawled(lab: Laboratory, public: list[Volunteer]) -> bool:
    found = [one.status() for one in public]
    known = sum(facts["crawl"]["known"] for facts in found if facts is not None)
    return known >= len(lab.urls()) and all(
        facts is not None and facts["crawl"]["state"] == "done for today" for facts in found
    )
