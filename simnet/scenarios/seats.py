"""Do seats hold? Members that get new addresses, and others that make seats up, grind them or hop.

Machines of members in `simnet.movers`: places by prefix, the real codec, datagrams to addresses.
"""

from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from dht.core.holders import Table
from dht.core.ids import Key, PeerKey, birth_host, distance, position_of
from dht.core.places import PlaceRules
from dht.core.records import Birth, Line, PeerRecord
from dht.core.rules import RingRules
from simnet.movers import Mover, Movers
from simnet.rings import NETWORK, peer_number
from simnet.runs import ScenarioRun
from simnet.scenarios import Figures, scenario, try_out

HOUR_S = 3_600.0
LOOK_S = 60.0
SETTLED_S = 120.0
MOVED_MAX = 0.05
"""Of what as many new positions would move. A member that is taken for dead before its new address is known is out of
tables for a moment; no capture moves in so short a time."""
AGREED_S = 60.0
"""Within so long all tables have a member again that was taken for dead in some."""
KNOWN_S = 60.0
KNOWN_LEAST = 0.9
"""Of the others, in the mean, a minute after a new address: those that are left hear of it by the next comparison."""
GROUND = 2_000
"""Addresses that a forger tries, to sit near its victim."""
SEAT_AGE_DAYS = 20
STRANGERS = 1_000_000
"""Numbers of peers that are not of the ring, from here on."""
ALLOWED = 2
"""Holders of one area, of six."""


class SeatsBrokenError(AssertionError):
    """What seats promise does not hold."""


def _try(run: ScenarioRun, story: Callable[[Movers], Figures]) -> None:
    loss = run.setting("loss", 0.01, high=0.3)
    rules = RingRules(network=NETWORK, places=PlaceRules())

    def work() -> tuple[Figures, str | None]:
        try:
            return story(Movers(run.options.seed, peers=run.peers, rules=rules, loss=loss)), None
        except SeatsBrokenError as error:
            return {}, str(error)

    try_out(run, "seats hold", work)


# -- new addresses -----------------------------------------------------------------------------------------


@scenario("new-addresses", summary="a third of the seated members get a new address each hour",
          peers=100, peers_min=12, peers_max=1_000, seconds=1.0)  # fmt: skip
def new_addresses(run: ScenarioRun) -> None:
    hours = int(run.options.days * 24 if run.options.days else run.setting("for_h", 168, low=1, high=10_000))
    one_in = int(run.setting("one_in", 3, low=1, high=1_000))
    _try(run, partial(moving, hours=hours, one_in=one_in))


def moving(ring: Movers, hours: int, one_in: int) -> Figures:
    """What members hold, and all tables, are compared every minute."""
    ring.pass_time(SETTLED_S)
    members = [ring.known[peer] for peer in sorted(ring.known)]
    shares = ring.shares()
    whole, moved, least, known = sum(shares.values()), 0.0, 1.0, list[float]()
    absent, longest = dict[tuple[PeerKey, PeerKey], float](), 0.0
    misplaced = 0  # a member that is taken for dead before its new address is known is not
    for _ in range(hours):
        for one in members[: len(members) // one_in]:
            ring.after(ring.chance.uniform(0, HOUR_S - 2 * KNOWN_S), partial(_move, ring, one, known))
        for _ in range(int(HOUR_S / LOOK_S)):
            ring.pass_time(LOOK_S)
            before, shares = shares, ring.shares()
            moved += sum(max(now - before.get(peer, 0), 0) for peer, now in shares.items()) / whole
            least = min(least, ring.agreement())
            absent = {pair: absent.get(pair, ring.now) for pair in ring.absent()}
            longest = max(longest, *(ring.now - since for since in absent.values()), 0.0)
            misplaced += ring.misplaced()
    figures = {
        "moved, of all shares": moved,
        "tables with the same positions, at least": least,
        "a member out of a table, seconds at most": longest,
        "who knows a new address after a minute, mean": sum(known) / len(known),
        "and at least": min(known),
        "new addresses": float(len(known)),
    }
    if moved > MOVED_MAX * len(known) * 2 / len(members):  # its own share comes, and goes
        raise SeatsBrokenError(f"{moved:.2f} of all shares moved")
    if misplaced or any(one.machines > 1 for one in members):
        raise SeatsBrokenError(f"{misplaced} members were at other positions, or one began again")
    if longest > AGREED_S:
        raise SeatsBrokenError(f"a member was out of a table for {longest:.0f} s")
    if figures["who knows a new address after a minute, mean"] < KNOWN_LEAST:
        raise SeatsBrokenError(f"a new address was known to {figures} of the others after a minute")
    return figures


def _move(ring: Movers, one: Mover, known: list[float]) -> None:
    ring.move(one)
    ring.after(KNOWN_S, lambda: known.append(ring.knowing(one)))


# -- seats that nobody took --------------------------------------------------------------------------------


@scenario("false-seats", summary="keys claim seats beside a victim's key, and a member of age hops there",
          peers=100, peers_min=20, peers_max=1_000, seconds=1.0)  # fmt: skip
def false_seats(run: ScenarioRun) -> None:
    _try(run, partial(forging, forgers=int(run.setting("forgers", 3, low=1, high=20))))


def forging(ring: Movers, forgers: int) -> Figures:
    ring.pass_time(SETTLED_S)
    victim, today = ring.keys()[0], ring.rules.places.day_of(ring.now)
    honest = [ring.known[peer] for peer in sorted(ring.known)]
    hopping, leaving = honest.pop(), honest.pop()
    for one in honest[::3]:
        ring.move(one)
    ring.pass_time(10 * KNOWN_S)
    foes = []
    for number in range(forgers):
        seat = Birth(host=birth_host(_near(ring, victim)), day=today - SEAT_AGE_DAYS)
        foes.append(ring.join(_stranger(ring, number, today, seat)))
    for one, slot in ((hopping, 0), (leaving, 1)):
        ring.remove(one)
        there = Line(host=_near(ring, victim), udp=4_484, tcp=4_484)
        record = replace(one.machine.own_record, lines=(there,), seat=None, slot=slot)
        foes.append(ring.join(record))
    newcomer = ring.join(_stranger(ring, STRANGERS, today, None))
    ring.pass_time(30 * KNOWN_S)
    aged = [
        foe for foe in foes if foe.machine.own_record.since < today
    ]  # others gave up, and may come in as young
    theirs = {foe.peer: {node.contact.position for node in foe.machine.nodes} for foe in aged}
    entered = [
        one.peer
        for one in (*honest, newcomer)
        for contact in one.machine.table.contacts
        if contact.position in theirs.get(contact.peer, ())
    ]
    if entered:
        raise SeatsBrokenError(f"{len(entered)} tables took a seat that nobody had")
    lists = [
        contact.position
        for one in honest
        for node in one.machine.nodes
        for contact in (*node.successors, node.predecessor)
        if contact is not None and contact.birth and contact.position in theirs.get(contact.peer, ())
    ]
    if lists:  # without a seat a member may sit where its address says, of age or not
        raise SeatsBrokenError(f"{len(lists)} lists name a seat that nobody had")
    right = {contact.position for contact in honest[0].machine.table.contacts}
    seen = {contact.position for contact in newcomer.machine.table.contacts}
    if not right <= seen:
        raise SeatsBrokenError(f"a newcomer does not know {len(right - seen)} positions")
    return {
        "tables that took a false seat": float(len(entered)),
        "seats unproven, counted": float(_counted(honest, "seats unproven")),
        "seats that the newcomer remembers": float(len(newcomer.memory)),
    }


def _near(ring: Movers, key: Key) -> bytes:
    """Of some addresses the one whose position is nearest behind a key."""
    hosts = [ring.fresh_host() for _ in range(GROUND)]
    return min(hosts, key=lambda host: distance(key, position_of(host, 0, 0, 0, "ip")))


def _stranger(ring: Movers, number: int, today: int, seat: Birth | None) -> PeerRecord:
    record = replace(
        peer_number(STRANGERS + number), lines=(Line(host=ring.fresh_host(), udp=4_484, tcp=4_484),)
    )
    return replace(record, since=today - 2 * SEAT_AGE_DAYS if seat else today, seat=seat)


def _counted(members: list[Mover], what: str) -> int:
    return sum(count for one in members for name, count in one.machine.statistics().counts if name == what)


# -- ground seats ------------------------------------------------------------------------------------------


@scenario("moved-seats", summary="forty seats ground in one network beside a key move to forty others",
          peers=100, peers_min=20, peers_max=1_000, seconds=1.0)  # fmt: skip
def moved_seats(run: ScenarioRun) -> None:
    by_both = bool(run.setting("both", 1, high=1))
    _try(run, partial(grinding, seats=int(run.setting("seats", 40, low=1, high=200)), by_both=by_both))


def grinding(ring: Movers, seats: int, *, by_both: bool = True) -> Figures:
    """They took their seats by the rules, and nobody saw them apart then."""
    victim, chance = ring.keys()[0], ring.chance
    hosts = [bytes((9, 9, low, last)) for low in range(256) for last in range(1, 255)]
    hosts.sort(key=lambda host: distance(victim, position_of(host, 0, 0, 0, "ip")))
    today = ring.rules.places.day_of(ring.now)
    foes = []
    for number, host in enumerate(hosts[:seats]):
        record = _stranger(ring, number, today, Birth(host=host, day=today))
        foes.append(ring.join(replace(record, lines=(Line(host=host, udp=4_484, tcp=4_484),))))
    ring.pass_time(10 * KNOWN_S)
    nets = chance.sample(range(130, 220), min(seats, 90))
    for number, foe in enumerate(foes):
        net = nets[number % len(nets)]
        ring.move(foe, bytes((net, *chance.randbytes(3))))
    ring.pass_time(10 * KNOWN_S)
    peers = {foe.peer for foe in foes}
    by_table = [sum(one.peer in peers for one in table.of(victim)) for table in ring.tables()]
    single = [_by_current_place(one, victim, ring, peers) for one in list(ring.known.values())[:3]]
    figures = {
        "seats that moved": float(sum(foe.machines == 1 for foe in foes)),
        "holders of the key, at most": float(max(by_table)),
        "by the present place alone": float(max(single)),
    }
    if (max(by_table) if by_both else max(single)) > ALLOWED:
        raise SeatsBrokenError(f"{max(by_table)} and {max(single)} of the holders are ground seats")
    return figures


def _by_current_place(one: Mover, key: Key, ring: Movers, peers: set[PeerKey]) -> int:
    standings = {
        peer: standing._replace(born=b"", born_area=b"")
        for peer, standing in one.machine.table.standings(one.machine.day).items()
    }
    table = Table(one.machine.table.contacts, ring.rules.holders, standings=standings)
    return sum(contact.peer in peers for contact in table.of(key))
