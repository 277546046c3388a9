"""What does a new address cost? Members of age get one in each way of a home line: all know it, and nothing moves."""

import signal
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType

from scripts.labs.crawls import settle_copies
from scripts.labs.laboratory import Asked, Laboratory, LabRing, Rows, public_charter
from scripts.labs.routers import Behaviour
from scripts.labs.volunteers import Facts, Volunteer

PUBLIC = 6
CRAWLED_S, KNOWN_S, AFTER_S = 300.0, 120.0, 60.0
WANTED_S = 60.0
"""Within so long all others know the new address."""
SLEEPS_S = 45.0
WAYS = ("provider", "nap", "sleep", "cable", "card", "vpn", "router")
"""Each has a public peer of its own, but the last. One that is asked for again has the next peer."""
WITHOUT_S = 5.0
"""From one network to the other."""
SEATED_S = 90.0


def addresses(lab: Laboratory, asked: Asked) -> Rows:
    """Members get a new address by their provider, asleep, by a cable, a card, a VPN and behind a router."""
    ring = LabRing(lab, public_charter("addresses", delay_floor_s=1.0))
    pages = lab.serve(hosts=6, pages_max=20, pages_min=8, v6=False)
    ring.begin(PUBLIC)
    router = lab.internet.router("r-home", Behaviour(asks_by=("upnp",)))
    ring.start(ring.volunteer("home", router.host("home")))
    everybody = PUBLIC + 1
    lab.must("all are one ring", lambda: ring.is_whole(everybody), 180.0)
    ring.volunteers["pub0"].command("seed", "add", *pages)
    lab.must("the web is crawled", lambda: _is_crawled(lab, ring), CRAWLED_S)
    settle_copies(lab, ring)

    def provider(one: Volunteer) -> None:
        lab.internet.change_address(one.host)

    def sleep(one: Volunteer) -> None:
        one.signal(signal.SIGSTOP)
        lab.internet.change_address(one.host)
        time.sleep(SLEEPS_S)  # of another process, that sends us no events
        one.signal(signal.SIGCONT)

    def nap(one: Volunteer) -> None:
        """And wakes where it was."""
        one.signal(signal.SIGSTOP)
        time.sleep(SLEEPS_S)
        one.signal(signal.SIGCONT)

    def cable(one: Volunteer) -> None:
        one.host.do(f"ip link set {one.host.interface} down")
        time.sleep(WITHOUT_S)
        one.host.do(f"ip link set {one.host.interface} up")
        lab.internet.change_address(one.host)

    def behind(_one: Volunteer) -> None:
        lab.internet.change_address(router)
        router.do("conntrack -F")  # what is mapped stays so, at the new address

    changes: Mapping[str, Callable[[Volunteer], object]] = MappingProxyType(
        {
            "provider": provider,
            "nap": nap,
            "sleep": sleep,
            "cable": cable,
            "card": lambda one: lab.internet.other_card(one.host),
            "vpn": lambda one: lab.internet.tunnel(one.host),
            "router": behind,
        }
    )
    assert tuple(changes) == WAYS
    rows = []
    for turn, name in enumerate(asked.kinds or (("provider",) if asked.is_short else WAYS)):
        one = ring.volunteers["home" if name == "router" else f"pub{turn % PUBLIC}"]
        rows.append(_changed(lab, ring, name, one, changes[name]))
    return rows


def _changed(
    lab: Laboratory, ring: LabRing, name: str, one: Volunteer, change: Callable[[Volunteer], object]
) -> Mapping[str, object]:
    before = ring.statuses()
    own = _own(before[one.name])
    change(one)
    began = time.monotonic()
    lab.say(f"{name}: {one.name} has another address")
    is_known = lab.until(lambda: _is_known(ring, one, own, is_moved=name != "nap"), KNOWN_S)
    took_s = time.monotonic() - began
    lab.linger(AFTER_S)
    after = ring.statuses()
    brought = sum(_moved(after[peer]) - _moved(facts) for peer, facts in before.items() if peer in after)
    is_same = [node["position"] for node in after[one.name]["ring"]["nodes"]] == own[0]
    told = f"after {took_s:.0f} s" + ("" if is_known else f": {_told(ring, one, own)}")
    lab.say(f"{name}: known {told}")
    lab.note(f"{name}: all know the address", is_known and took_s <= WANTED_S, told)
    lab.note(f"{name}: positions stay", is_same, f"{len(own[0])} of them")
    lab.note(f"{name}: no capture moves", brought == 0, f"{brought} were sent or fetched")
    return {"way": name, "known_s": round(took_s), "moved": brought, "same": is_same}


def _own(facts: Facts) -> tuple[list[str], str]:
    """Its positions, and the host at which it was."""
    return [node["position"] for node in facts["ring"]["nodes"]], facts["ring"]["address"]


def _is_known(ring: LabRing, one: Volunteer, own: tuple[list[str], str], *, is_moved: bool) -> bool:
    """In a ring so small each member lists all others."""
    found = ring.statuses()
    _, before = own
    if len(found) < len(ring.volunteers) or (found[one.name]["ring"]["address"] == before) is is_moved:
        return False
    now = found[one.name]["ring"]["address"]
    listed = _listed(found, one, own)
    return len(listed) >= len(ring.volunteers) - 1 and all(address == now for _, address in listed)


def _listed(found: Mapping[str, Facts], one: Volunteer, own: tuple[list[str], str]) -> list[tuple[str, str]]:
    """Who lists it, and where."""
    return [
        (name, neighbour["address"])
        for name, facts in found.items()
        if name != one.name
        for node in facts["ring"]["nodes"]
        for neighbour in node["successors"]
        if neighbour["position"] in own[0]
    ]


def _told(ring: LabRing, one: Volunteer, own: tuple[list[str], str]) -> str:
    found = ring.statuses()
    now = found[one.name]["ring"]["address"] if one.name in found else "no answer"
    return f"it says {now}, others {_listed(found, one, own)}"


def _moved(facts: Facts) -> int:
    return int(facts["copying"]["received"]) + int(facts["copying"]["pulled"])


def _is_crawled(lab: Laboratory, ring: LabRing) -> bool:
    found = ring.statuses()
    fetched = sum(facts["crawl"]["fetched"] for facts in found.values())
    is_done = all(facts["crawl"]["state"] == "done for today" for facts in found.values())
    return len(found) == len(ring.volunteers) and is_done and fetched >= len(lab.urls())
