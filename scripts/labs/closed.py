"""Are peers behind closed routers full members? A crawl with five public ones, and what their lines carried."""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from scripts.labs.laboratory import Asked, Laboratory, LabRing, Rows, public_charter
from scripts.labs.routers import Behaviour
from scripts.labs.volunteers import Facts

MEMBER_AFTER_S = 20.0
"""In place of half an hour."""
HALF_AN_HOUR_S = 1_800.0
"""As by everybody's settings."""
KEPT_S, MEMBERS_S, CRAWLED_S = 120.0, 180.0, 300.0
BEHIND: Mapping[str, Behaviour] = MappingProxyType(
    {
        "port1": Behaviour(),
        "port2": Behaviour(),
        "cone": Behaviour(filters="none"),
        "symmetric1": Behaviour(is_symmetric=True),
        "symmetric2": Behaviour(is_symmetric=True),
    }
)
SHORT = ("port1", "port2")


def closed(lab: Laboratory, asked: Asked) -> Rows:
    """Five peers behind closed routers keep lines at relays: members that own, fetch and hold like others."""
    names = SHORT if asked.is_short else tuple(BEHIND)
    ring = LabRing(lab, public_charter("closed", delay_floor_s=1.0))
    pages = lab.serve(hosts=10, pages_max=40, v6=False)
    public = ring.begin()
    for name in names:
        host = lab.internet.router(f"r-{name}", BEHIND[name]).host(name)
        chosen = {} if asked.is_long else {"relay.member_after_s": MEMBER_AFTER_S}
        ring.start(ring.volunteer(name, host, chosen))
    lab.say(f"{len(names)} peers behind closed routers started")
    lab.must("each keeps lines at three relays", lambda: _are(ring, names, _keeps_three), KEPT_S)
    members_s = MEMBERS_S + (HALF_AN_HOUR_S if asked.is_long else 0.0)
    lab.must("each is a member with keys of its own", lambda: _are(ring, names, _is_member), members_s)
    everybody = len(ring.volunteers)
    lab.must(
        "all see one ring", lambda: _are(ring, ring.volunteers, lambda one: _sees(one, everybody)), MEMBERS_S
    )
    is_ideal = lab.until(
        lambda: _are(ring, ring.volunteers, lambda one: bool(one["ring"]["ideal"])), MEMBERS_S
    )
    lab.note("each peer finds the ring ideal", is_ideal, _who_does_not(ring))
    public[0].command("seed", "add", *pages)
    is_crawled = lab.until(lambda: _is_crawled(lab, ring), CRAWLED_S)
    lab.note("the web is crawled", is_crawled, f"{_fetched(ring)} fetches for {len(lab.urls())} pages")
    found = ring.statuses()
    for name in names:
        fetched, held = found[name]["crawl"]["fetched"], found[name]["store"]["captures"]
        lab.note(f"{name} fetched and holds its share", 0 < fetched < held, f"{fetched} fetched, {held} held")
    return [_row(name, facts) for name, facts in found.items()]


def _are(ring: LabRing, names: Iterable[str], fact: Callable[[Facts], bool]) -> bool:
    found = ring.statuses()
    return all(name in found and fact(found[name]) for name in names)


def _keeps_three(facts: Facts) -> bool:
    return len(facts["calls"]["relaying"]["relays"]) == 3


def _is_member(facts: Facts) -> bool:
    return facts["calls"]["relaying"]["is_member"] and bool(facts["ring"]["arcs"])


def _sees(facts: Facts, members: int) -> bool:
    return bool(facts["ring"]["members"] == members)


def _is_crawled(lab: Laboratory, ring: LabRing) -> bool:
    is_done = _are(ring, ring.volunteers, lambda one: one["crawl"]["state"] == "done for today")
    return is_done and _fetched(ring) >= len(lab.urls())


def _fetched(ring: LabRing) -> int:
    return sum(facts["crawl"]["fetched"] for facts in ring.statuses().values())


def _who_does_not(ring: LabRing) -> str:
    return ", ".join(name for name, one in ring.statuses().items() if not one["ring"]["ideal"]) or "all do"


def _row(name: str, facts: Facts) -> Mapping[str, object]:
    calls, ring = facts["calls"], facts["ring"]
    relaying = calls["relaying"]
    return {
        "peer": name,
        "fetched": facts["crawl"]["fetched"],
        "held": facts["store"]["captures"],
        "called": calls["called"],
        "failed": calls["failed"],
        "unwell": len(ring["unwell"]),
        "uncallable": len(ring["uncallable"]),
        "kept": relaying["kept"],
        "ways": ", ".join(f"{word} {times}" for word, times in relaying["counts"].items()),
        "relayed_kB": relaying["bytes"] // 1_000,
        "knocks": ", ".join(f"{word} {times}" for word, times in relaying["knocks"].items()),
        "sentence": ring["reachability"],
    }
