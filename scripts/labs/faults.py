"""What does a ring make of routers that fail? Protocols dropped, mappings forgotten, answers that are odd or untrue.

A peer behind a router whose ports are forwarded by hand loses UDP, TCP and both for a while; routers that are asked by
PCP and by UPnP reboot. Each time the peer's own sentence must follow in a minute, and its keys must go to others and
come back.
"""

import time
from collections.abc import Callable, Mapping
from functools import partial

from scripts.labs.claims import claim_of, sentence_of, untruth
from scripts.labs.kinds import Made, case_of
from scripts.labs.laboratory import Asked, Laboratory, LabRing, Rows, public_charter
from scripts.labs.odd_gateway import MANNERS
from scripts.labs.routers import HOME_LAN, Behaviour

FOLLOWS_S = 60.0
"""The design's bound, both ways."""
WAITED_S = 180.0
"""How long is waited for what comes late, to tell how late."""
SETTLED_S = 120.0
DROPS = (("tcp",), ("udp",), ("tcp", "udp"))


def faults(lab: Laboratory, asked: Asked) -> Rows:
    """Drop TCP, UDP or both at a router, reboot it, have it lie: standing and keys follow in 60 s, and back."""
    ring = LabRing(lab, public_charter("faults"))
    ring.begin()
    stranger = lab.internet.customer("stranger").name
    by_hand = lab.internet.router("r-by-hand", Behaviour(forwarded=("tcp", "udp")))
    asked_by = {way: lab.internet.router(f"r-{way}", Behaviour(asks_by=(way,))) for way in ("pcp", "upnp")}
    made = {"by-hand": Made(host=by_hand.host("by-hand"), outside=by_hand.addresses)}
    made |= {way: Made(host=one.host(way), outside=one.addresses) for way, one in asked_by.items()}
    for manner in () if asked.is_short else MANNERS:
        odd = lab.internet.router(f"r-{manner}", Behaviour())
        lab.run_beside(odd, "scripts.labs.odd_gateway", manner, f"{HOME_LAN}.1", odd.addresses[0])
        made[manner] = Made(host=odd.host(manner), outside=odd.addresses)
    for name, one in made.items():
        ring.start(ring.volunteer(name, one.host))
    watch = _Watch(lab, ring, made, stranger)
    for name in ("by-hand", *asked_by):
        watch.judge(f"{name} is a member", partial(watch.is_member, name), SETTLED_S)
    for manner in list(made)[3:]:
        watch.judge(
            f"behind a router that is odd ({manner}) the status is true",
            partial(watch.is_true, manner),
            SETTLED_S,
        )
    for protocols in DROPS[2:] if asked.is_short else DROPS:
        what = " and ".join(protocols).upper()
        by_hand.block(*protocols)
        watch.judge(f"{what} dropped: it says so, and owns nothing", lambda: watch.is_no_member("by-hand"))
        by_hand.block()
        watch.judge(f"{what} back: a member again", lambda: watch.is_member("by-hand"))
    for way, router in asked_by.items():
        router.reboot()
        lab.say(f"the router that is asked by {way} rebooted: its mappings are gone")
        watch.judge(f"mapped by {way} and a member again", partial(watch.is_open, way))
    return watch.rows


class _Watch:
    def __init__(self, lab: Laboratory, ring: LabRing, made: Mapping[str, Made], stranger: str) -> None:
        self._lab, self._ring, self._made, self._stranger = lab, ring, made, stranger
        self.rows: list[Mapping[str, object]] = []

    def judge(self, what: str, fact: Callable[[], bool], within_s: float = FOLLOWS_S) -> None:
        began = time.monotonic()
        is_so = self._lab.until(fact, max(within_s, WAITED_S))
        took_s = time.monotonic() - began
        told = f"after {took_s:.0f} s" if is_so else f"not in {WAITED_S:g} s: {self._said()}"
        self._lab.say(f"{what}: {told}")
        self._lab.note(what, is_so and took_s <= within_s, told)
        self.rows.append({"what": what, "took_s": round(took_s, 1) if is_so else "never"})

    def is_true(self, name: str) -> bool:
        facts = self._ring.volunteers[name].status()
        if facts is None:
            return False
        claim = claim_of(sentence_of(facts))
        return not untruth(claim, case_of(self._ring, name, self._made[name], facts, self._stranger))

    def is_member(self, name: str) -> bool:
        facts = self._ring.volunteers[name].status()
        return (
            facts is not None
            and claim_of(sentence_of(facts)).standing == "member"
            and bool(facts["ring"]["arcs"])
            and facts["ring"]["members"] > 1
        )

    def is_no_member(self, name: str) -> bool:
        """By its own words, and by its keys. Where nothing comes in at all it may see itself alone."""
        facts = self._ring.volunteers[name].status()
        standing = "" if facts is None else claim_of(sentence_of(facts)).standing
        return facts is not None and (
            (standing in ("half", "leaf", "helper") and not facts["ring"]["arcs"])
            or standing in ("closed", "alone")
        )

    def is_reached(self, name: str) -> bool:
        facts = self._ring.volunteers[name].status()
        if facts is None:
            return False
        case = case_of(self._ring, name, self._made[name], facts, self._stranger)
        return case.by_udp and case.by_tcp

    def is_open(self, name: str) -> bool:
        return self.is_reached(name) and self.is_member(name)

    def _said(self) -> str:
        return "; ".join(
            f"{name}: {sentence_of(facts)[:90]}"
            for name, facts in self._ring.statuses().items()
            if name in self._made
        )
