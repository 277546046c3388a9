"""Does a peer say truly what its line is? One peer of each kind of line, in a ring of public ones."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from ipaddress import ip_address
from types import MappingProxyType

from crawler.core.politeness import LeaseTerms, PolitenessPolicy
from herodotus.core.settings.fields import HostPort
from scripts.labs.claims import Case, Claim, claim_of, sentence_of, untruth
from scripts.labs.internet import Host, Internet
from scripts.labs.laboratory import Asked, Laboratory, LabRing, Rows, public_charter
from scripts.labs.routers import CARRIER_LAN, RING_PORT, Behaviour
from scripts.labs.stranger import Reached, knock
from scripts.labs.volunteers import Facts

SETTLED_S = 240.0
"""Until each row must be true: two tests of its reach, and the router's answers."""
STEADY_S = 10.0
CRAWLED_S = 240.0
"""After the stewards' silence: six hosts have some 220 pages and pictures, and rest 2 s after each."""
_PROBES_AT_ONCE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A host on a line of some kind, and at which addresses strangers might find it."""

    host: Host
    outside: tuple[str, ...]


def _behind(behaviour: Behaviour) -> Callable[[Internet, str], Made]:
    def make(internet: Internet, name: str) -> Made:
        router = internet.router(f"r-{name}", behaviour)
        host = router.host(name)
        return Made(host=host, outside=(*router.addresses, *(one for one in host.addresses if ":" in one)))

    return make


def _direct(
    *, v4: bool = True, v6: bool = False, mtu: int = 1_500, kbit_per_s: int = 0
) -> Callable[[Internet, str], Made]:
    def make(internet: Internet, name: str) -> Made:
        host = internet.customer(name, v4=v4, v6=v6, mtu=mtu)
        if kbit_per_s:
            host.limit(kbit_per_s)
        return Made(host=host, outside=host.addresses)

    return make


def _behind_carrier(internet: Internet, name: str) -> Made:
    carrier = internet.router(f"c-{name}", Behaviour(), lan=CARRIER_LAN)
    home = carrier.router(f"r-{name}", Behaviour(asks_by=("upnp", "pcp")))
    return Made(host=home.host(name), outside=carrier.addresses)


class _OneHouse:
    """Two peers behind one router: the second is made with the first's."""

    def __init__(self, name: str, behaviour: Behaviour) -> None:
        self._name, self._router = name, behaviour
        self._made: dict[int, Callable[[str], Made]] = {}

    def make(self, internet: Internet, name: str) -> Made:
        made = self._made.get(id(internet))
        if made is None:
            router = internet.router(self._name, self._router)

            def behind(host_name: str) -> Made:
                return Made(host=router.host(host_name), outside=router.addresses)

            made = self._made[id(internet)] = behind
        return made(name)


_HOUSE = _OneHouse("r-house", Behaviour(asks_by=("upnp", "pcp")))
_UPNP_HOUSE = _OneHouse("r-upnp-house", Behaviour(asks_by=("upnp",)))

KINDS: Mapping[str, Callable[[Internet, str], Made]] = MappingProxyType(
    {
        "public": _direct(),
        "cone": _behind(Behaviour(filters="none")),
        "address": _behind(Behaviour(filters="address")),
        "port": _behind(Behaviour()),
        "symmetric": _behind(Behaviour(is_symmetric=True)),
        "upnp": _behind(Behaviour(asks_by=("upnp",))),
        "pcp": _behind(Behaviour(asks_by=("pcp",))),
        "by-hand": _behind(Behaviour(forwarded=("tcp", "udp"))),
        "udp-only": _behind(Behaviour(forwarded=("udp",))),
        "tcp-only": _behind(Behaviour(forwarded=("tcp",))),
        "carrier": _behind_carrier,
        "v6-only": _behind(Behaviour(v4=False, v6=True)),
        "v6-pcp": _behind(Behaviour(v4=False, v6=True, asks_by=("pcp",))),
        "v6-upnp": _behind(Behaviour(v4=False, v6=True, asks_by=("upnp",))),
        "v6-open": _direct(v4=False, v6=True),
        "dual": _direct(v6=True),
        "six-instead": _behind(Behaviour(v6=True, asks_by=("pinholes",))),
        "dual-shut": _behind(Behaviour(v6=True, forwarded=("tcp", "udp"))),
        "slow": _direct(kbit_per_s=256),
        "lossy": _behind(Behaviour(asks_by=("upnp", "pcp"), loss=0.05)),
        "mtu-1280": _direct(mtu=1_280),
        "house-1": _HOUSE.make,
        "house-2": _HOUSE.make,
        "upnp-house-1": _UPNP_HOUSE.make,
        "upnp-house-2": _UPNP_HOUSE.make,
    }
)
SHORT = ("public", "port", "upnp", "udp-only")
"""Enough for a test of a minute: open, closed, opened by asking, and half."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    kind: str
    claim: Claim
    sentence: str
    case: Case
    why_not: str
    fetched: int
    held: int
    true_after_s: float = 0.0

    def shown(self) -> Mapping[str, object]:
        return {
            "kind": self.kind,
            "says": self.claim.standing + (f" ({self.claim.arrives})" if self.claim.arrives else ""),
            "udp": self.case.by_udp,
            "tcp": self.case.by_tcp,
            "called": self.case.is_called,
            "owns": self.case.is_owner,
            "fetched": self.fetched,
            "held": self.held,
            "true": self.why_not or "yes",
            "after_s": round(self.true_after_s),
            "sentence": self.sentence,
        }


def kinds(lab: Laboratory, asked: Asked) -> Rows:
    """A peer of each kind of line joins five public ones: all that status says of it must be the case."""
    names = asked.kinds or (SHORT if asked.is_short else tuple(KINDS))
    made = {name: KINDS[name](lab.internet, name) for name in names}
    strangers = [lab.internet.customer(f"stranger{n}", v6=True).name for n in range(2)]
    pages = lab.serve(hosts=6, pages_max=20)
    ring = LabRing(lab, public_charter("kinds"))
    public = ring.begin(v6=not asked.is_short)
    for name, one in made.items():
        ring.start(ring.volunteer(name, one.host))
    lab.say(f"{len(made)} peers started, each on a line of its kind")
    if not asked.is_short:
        public[0].command("seed", "add", *pages)
    rows = _settled_rows(ring, made, strangers)
    if not asked.is_short:
        # Who joins is a new steward for some hosts: with few kinds of lines it is silent still when all is settled.
        terms = LeaseTerms.of(PolitenessPolicy(delay_floor_s=ring.charter.delay_floor_s))
        within_s = CRAWLED_S + terms.silent_s
        began = time.monotonic()
        is_crawled = lab.until(lambda: _is_crawled(ring), within_s)
        words = f"{'after' if is_crawled else 'not within'} {time.monotonic() - began:.0f} s"
        lab.note("the web is crawled", is_crawled, words)
        lab.say(f"the web is crawled: {words}")
        rows = _rows(ring, made, strangers[1], {row.kind: row.true_after_s for row in rows})
        for row in rows:
            if (
                row.claim.standing == "member"
            ):  # its owner sees no difference between an idle line and a useless one
                words = (
                    f"{row.fetched} fetched, {row.held} held, {'' if row.case.is_called else 'not '}called"
                )
                lab.note(f"{row.kind}: others call it", row.case.is_called, words)
    for row in rows:
        lab.note(f"{row.kind}: what it says is the case", not row.why_not, row.why_not or row.sentence)
    return [row.shown() for row in rows]


def _is_crawled(ring: LabRing) -> bool:
    """Nobody has anything left to fetch; those that own nothing have nothing to do."""
    found = ring.statuses()
    return len(found) == len(ring.volunteers) and all(
        facts["crawl"]["state"] == "done for today" or not facts["ring"]["arcs"] for facts in found.values()
    )


def _settled_rows(ring: LabRing, made: Mapping[str, Made], strangers: Sequence[str]) -> list[Row]:
    """As they are when all have been true for a while, or when there is no more time."""
    began, true_since = time.monotonic(), dict[str, float]()
    while True:
        now = time.monotonic()
        rows = _rows(ring, made, strangers[0], {})
        for row in rows:
            if row.why_not:
                true_since.pop(row.kind, None)
            else:
                true_since.setdefault(row.kind, now)
        is_steady = len(true_since) == len(made) and now - max(true_since.values()) >= STEADY_S
        if is_steady or now - began > SETTLED_S:
            ring.lab.say(f"{len(true_since)} of {len(made)} say the truth")
            after = {kind: since - began for kind, since in true_since.items()}
            return _rows(ring, made, strangers[0], after)
        ring.lab.linger(STEADY_S / 2)


def _rows(ring: LabRing, made: Mapping[str, Made], stranger: str, after: Mapping[str, float]) -> list[Row]:
    found = ring.statuses()
    uncallable = {one["peer"] for facts in found.values() for one in facts["ring"].get("uncallable", ())}
    with ThreadPoolExecutor(_PROBES_AT_ONCE) as tasks:
        return list(
            tasks.map(
                lambda name: _row(
                    ring, name, made[name], found.get(name), stranger, uncallable, after.get(name, 0.0)
                ),
                made,
            )
        )


def _row(
    ring: LabRing,
    name: str,
    made: Made,
    facts: Facts | None,
    stranger: str,
    uncallable: set[str],
    after: float,
) -> Row:
    if facts is None:
        silent = Case(by_udp=False, by_tcp=False, is_owner=False, is_called=False)
        return Row(
            kind=name, claim=Claim(standing="unknown"), sentence="", case=silent, why_not="it does not answer",
            fetched=0, held=0,
        )  # fmt: skip
    claim, case = claim_of(sentence_of(facts)), case_of(ring, name, made, facts, stranger, uncallable)
    return Row(
        kind=name,
        claim=claim,
        sentence=sentence_of(facts),
        case=case,
        why_not=untruth(claim, case),
        fetched=facts["crawl"]["fetched"],
        held=facts["store"]["captures"],
        true_after_s=after,
    )


def case_of(
    ring: LabRing, name: str, made: Made, facts: Facts, stranger: str, uncallable: Collection[str] = ()
) -> Case:
    """What a stranger finds, and what can be seen from outside; `uncallable` as others say."""
    reached = _reached(ring, stranger, made, facts, ring.keys[name])
    return Case(
        by_udp=reached.by_udp,
        by_tcp=reached.by_tcp,
        is_owner=bool(facts["ring"]["arcs"]),
        is_called=facts["calls"]["answered"] > 0 and ring.keys[name].hex()[:16] not in uncallable,
        is_alone=facts["ring"]["members"] <= 1,
    )


def _reached(ring: LabRing, stranger: str, made: Made, facts: Facts, key: bytes) -> Reached:
    """By any of the addresses that it names, or that its line has."""
    doors = {(host, RING_PORT, RING_PORT) for host in made.outside} | set(_named(facts))
    network = ring.charter.network_id()[:8]
    found = [knock(stranger, *door, network, key) for door in sorted(doors)]
    return Reached(by_udp=any(one.by_udp for one in found), by_tcp=any(one.by_tcp for one in found))


def _named(facts: Facts) -> list[tuple[str, int, int]]:
    at = HostPort.parse(facts["ring"]["address"])
    return [(at.host, at.port, at.port)] if ip_address(at.host).is_global else []
