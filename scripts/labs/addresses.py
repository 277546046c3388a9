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
WITHOUT_S = 5.0
"""From one network to the other."""
SEATED_S = 90.0


def addresses(lab: Laboratory, asked: Asked) -> Rows:
    """Members get a new address by their provider, asleep, by a cable, by a VPN and behind a router."""
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

    def cable(one: Volunteer) -> None:
        one.host.do(f"ip link set {one.host.interface} down")
        time.sleep(WITHOUT_S)
        one.host.do(f"ip link set {one.host.interface} up")
        lab.internet.change_address(one.host)

    def behind(_one: Volunteer) -> None:
        lab.internet.change_address(router)
        router.do("conntrack -F")  # what is mapped stays so, at the new address

    ways: Mapping[str, tuple[str, Callable[[Volunteer], object]]] = MappingProxyType(
        {
            "provider": ("pub1", provider),
            "cable": ("pub2", cable),
            "sleep": ("pub3", sleep),
            "vpn": ("pub4", lambda one: lab.internet.tunnel(one.host)),
            "router": ("home", behind),
        }
    )
    names = ("provider",) if asked.is_short else tuple(ways)
    return [_changed(lab, ring, name, ring.volunteers[ways[name][0]], ways[name][1]) for name in names]


def _changed(
    lab: Laboratory, ring: LabRing, name: str, one: Volunteer, change: Callable[[Volunteer], object]
) -> Mapping[str, object]:
    before = ring.statuses()
    own = _own(before[one.name])
    change(one)
    began = time.monotonic()
    lab.say(f"{name}: {one.name} has another address")
    is_known = lab.until(lambda: _is_known(ring, one, own), KNOWN_S)
    took_s = time.monotonic() - began
    lab.linger(AFTER_S)
    after = ring.statuses()
    brought = sum(_moved(after[peer]) - _moved(facts) for peer, facts in before.items() if peer in after)
    is_same = [node["position"] for node in after[one.name]["ring"]["nodes"]] == own[0]
    lab.note(f"{name}: all know the new address", is_known and took_s <= WANTED_S, f"after {took_s:.0f} s")
    lab.note(f"{name}: positions stay", is_same, f"{len(own[0])} of them")
    lab.note(f"{name}: no capture moves", brought == 0, f"{brought} were sent or fetched")
    return {"way": name, "known_s": round(took_s), "moved": brought, "same": is_same}


def _own(facts: Facts) -> tuple[list[str], str]:
    """Its positions, and the host at which it was."""
    return [node["position"] for node in facts["ring"]["nodes"]], facts["ring"]["address"]


def _is_known(ring: LabRing, one: Volunteer, own: tuple[list[str], str]) -> bool:
    """In a ring so small each member lists all others."""
    found = ring.statuses()
    positions, before = own
    if len(found) < len(ring.volunteers) or found[one.name]["ring"]["address"] == before:
        return False
    now = found[one.name]["ring"]["address"]
    listed = [
        neighbour["address"]
        for name, facts in found.items()
        if name != one.name
        for node in facts["ring"]["nodes"]
        for neighbour in node["successors"]
        if neighbour["position"] in positions
    ]
    return len(listed) >= len(ring.volunteers) - 1 and all(address == now for address in listed)


def _moved(facts: Facts) -> int:
    return int(facts["copying"]["received"]) + int(facts["copying"]["pulled"])


def _is_crawled(lab: Laboratory, ring: LabRing) -> bool:
    found = ring.statuses()
    fetched = sum(facts["crawl"]["fetched"] for facts in found.values())
    is_done = all(facts["crawl"]["state"] == "done for today" for facts in found.values())
    return len(found) == len(ring.volunteers) and is_done and fetched >= len(lab.urls())
