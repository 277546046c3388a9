"""Does the ring hold, and heal? The blows by which the design was judged, struck at machines in a world.

A scenario strikes the world; `simnet.ringwatch` has the invariants. All of them lose one
datagram in a hundred unless `--set loss=` says otherwise, and end as soon as the ring is ideal again.
"""

import random
from collections.abc import Callable

from dht.core.ids import KEY_BYTES, Key, PeerKey
from dht.core.messages import Message
from dht.core.records import Contact
from dht.core.rules import RingRules
from simnet.ringchecks import ideal_within_s
from simnet.ringprogram import SimulatedRing
from simnet.rings import NETWORK, owner_in, peer_number, twisted
from simnet.ringwatch import Lookups, MostAreFound, RingHeals, RingIsSound, health
from simnet.runs import ScenarioRun, SimnetError
from simnet.scenarios import scenario
from simnet.world.faults import Fault, fault_kind
from simnet.world.network import LineQuality
from simnet.world.world import World

CALM_S = 30.0  # before the blow


def ring_in(run: ScenarioRun) -> SimulatedRing:
    """An empty ring in the run's world, with the settings that every ring scenario has."""
    run.use_network(link=LineQuality(loss=run.setting("loss", 0.01, high=1.0)))
    rules = RingRules(
        network=NETWORK,
        successors=int(run.setting("successors", 16, low=1, high=16)),
        gossips=bool(run.setting("gossip", 1, high=1)),
    )
    return SimulatedRing(run.world, rules)


def watch(run: ScenarioRun, ring: SimulatedRing, peace_at_s: float, *, is_whole: bool = False) -> None:
    heals = RingHeals(ring, peers=run.peers, peace_at_s=peace_at_s)
    sound = RingIsSound(ring, peers=run.peers, is_whole=is_whole)
    run.check(sound, heals)
    if run.options.days is None:
        run.seconds = peace_at_s + ideal_within_s(ring.rules, run.peers)
    elif run.seconds <= peace_at_s:
        raise SimnetError(
            f"--days {run.options.days:g} is over after {run.seconds:,.0f} s, "
            f"before the last fault at {peace_at_s:,.0f} s"
        )
    run.stop_when(lambda: heals.is_done)
    run.figure("first successors right", lambda: heals.first_s)
    run.figure("ideal after", lambda: heals.ideal_s)
    run.figure("bits per s and peer", lambda: _bits(run))
    run.figure("false alarms", lambda: float(sound.invariants.false_alarms))
    run.sample("first successors right", lambda: health(ring)[0])
    run.sample("lists right", lambda: health(ring)[1])
    run.sample("bits per s and peer, lately", _bits_lately(run))


def _bits(run: ScenarioRun) -> float:
    """Sent per peer, with 28 bytes of IP and UDP headers."""
    counters = run.world.network.counters
    return 8 * (counters.sent_bytes + 28 * counters.sent) / max(run.world.now, 1.0) / run.peers


@scenario("quiet", summary="nothing happens: does a ring stay as it is, and what does it cost?",
          peers=100, peers_min=2, peers_max=20_000, seconds=600.0)  # fmt: skip
def quiet(run: ScenarioRun) -> None:
    for_s = run.setting("for_s", run.seconds, low=1.0)
    ring = ring_in(run)
    ring.found(run.peers)
    run.seconds = for_s + ideal_within_s(ring.rules, run.peers)
    watch(run, ring, for_s, is_whole=True)  # it began ideal: is it still ideal after the quiet?
    run.plan([])


def _bits_lately(run: ScenarioRun) -> Callable[[], float]:
    """As `_bits`, since the last sample."""
    before_s = before_bits = 0.0

    def since() -> float:
        nonlocal before_s, before_bits
        bits, now = _bits(run) * max(run.world.now, 1.0), run.world.now
        rate = (bits - before_bits) / (now - before_s) if now > before_s else 0.0
        before_s, before_bits = now, bits
        return rate

    return since


@scenario("join-storm", summary="four of five peers join the others within ten seconds",
          peers=250, peers_min=5, peers_max=5_000, seconds=3_600.0)  # fmt: skip
def join_storm(run: ScenarioRun) -> None:
    within_s = run.setting("within_s", 10.0, low=0.1, high=3_600.0)
    ring = ring_in(run)
    members = run.peers - run.peers * 4 // 5
    ring.found(members)
    for number in range(run.peers - members):
        ring.add(start_at=CALM_S + within_s * number / (run.peers - members))
    watch(run, ring, CALM_S + within_s)
    run.plan([])


@scenario("half-dies", summary="half of all peers crash at once, and stay away",
          peers=250, peers_min=4, peers_max=5_000, seconds=3_600.0)  # fmt: skip
def half_dies(run: ScenarioRun) -> None:
    share = run.setting("share", 0.5, high=0.95)
    ring = ring_in(run)
    ring.found(run.peers)
    victims = run.world.chance("victims").sample(range(run.peers), int(run.peers * share))
    watch(run, ring, CALM_S)
    run.plan([Fault(kind="crash", at_s=CALM_S, hosts=tuple(sorted(victims)))])


@scenario("churn", summary="peers come and go by Weibull's law, and look keys up all the while",
          peers=100, peers_min=10, peers_max=2_000, seconds=3_600.0)  # fmt: skip
def churn(run: ScenarioRun) -> None:
    """Sessions of shape 0.6: many short ones and some very long, as measured in file sharing. One peer stays:
    a ring that was down as a whole has nobody left to join."""
    session_h = run.setting("session_h", 1.0, low=0.01, high=1e4)
    away_s = run.setting("away_s", 300.0, low=1.0, high=1e6)
    for_s = run.setting("for_s", 3_600.0, low=60.0)
    ring = ring_in(run)
    ring.found(run.peers)
    peace_at_s = CALM_S + for_s
    faults = _sessions(run.world.chance("sessions"), run.peers, session_h * 3_600, away_s, peace_at_s)
    lookups = Lookups(
        ring, per_s=run.setting("lookups_per_s", 5, low=0.01, high=1e5), from_s=CALM_S, until_s=peace_at_s
    )
    watch(run, ring, peace_at_s)
    _tell_lookups(run, lookups)
    run.plan([*faults, Fault(kind="settle", at_s=peace_at_s)])


def _sessions(rng: random.Random, peers: int, session_s: float, away_s: float, until_s: float) -> list[Fault]:
    scale_s = session_s / 1.5046  # the mean of a Weibull law of shape 0.6 is 1.5046 times its scale
    faults = []
    for host in range(1, peers):
        now = CALM_S + rng.random() * session_s
        while now < until_s:
            gone_s = rng.expovariate(1 / away_s)
            faults.append(Fault(kind="restart", at_s=now, hosts=(host,), settings={"for_s": gone_s}))
            now += gone_s + rng.weibullvariate(scale_s, 0.6)
    return sorted(faults, key=lambda fault: fault.at_s)


def _tell_lookups(run: ScenarioRun, lookups: Lookups) -> None:
    run.figure("lookups", lambda: float(lookups.asked))
    run.figure("lookups wrong", lambda: float(lookups.wrong))
    run.figure("lookups empty", lambda: float(lookups.empty))
    run.figure("lookups unanswered", lambda: float(lookups.asked - lookups.answered))
    run.figure("hops", lambda: lookups.hops / max(lookups.answered, 1))
    run.histogram("hops of a lookup", lambda: lookups.paths)


@scenario("flash-crowd", summary="everybody wants the same key at once, newcomers too, and then its owner dies",
          peers=200, peers_min=10, peers_max=2_000, seconds=1_800.0)  # fmt: skip
def flash_crowd(run: ScenarioRun) -> None:
    """A page is on everybody's lips: half as many peers again join to see it. In the midst of it the peer that
    answers for it crashes, for good."""
    for_s = run.setting("for_s", 120.0, low=10.0, high=86_400.0)
    per_s = run.setting("lookups_per_s", run.peers / 4, low=0.01, high=1e5)
    ring = ring_in(run)
    members = run.peers * 2 // 3
    founders = ring.found(members)
    newcomers = [
        ring.add(start_at=CALM_S + for_s / 2 * number / (run.peers - members))
        for number in range(run.peers - members)
    ]
    key = Key(run.world.chance("crowd").randbytes(KEY_BYTES))
    line = {ring.contact_of(host): host for host in (*founders, *newcomers)}  # the owners when all are there
    owner = line[owner_in(sorted(line, key=lambda contact: contact.position), key)]
    lookups = Lookups(ring, per_s=per_s, from_s=CALM_S, until_s=CALM_S + for_s, key=key)
    watch(run, ring, CALM_S + for_s)
    run.check(MostAreFound(lookups, share=run.setting("failing", 0.02, high=1.0)))
    _tell_lookups(run, lookups)
    run.plan([Fault(kind="crash", at_s=CALM_S + for_s * 0.75, hosts=(owner.number,))])


@scenario("split-and-heal", summary="the network falls into halves for half an hour, then is whole again",
          peers=100, peers_min=4, peers_max=2_000, seconds=7_200.0)  # fmt: skip
def split_and_heal(run: ScenarioRun) -> None:
    apart_s = run.setting("apart_s", 1_800.0, low=1.0, high=864_000.0)
    ring = ring_in(run)
    ring.found(run.peers)
    side = tuple(sorted(run.world.chance("sides").sample(range(run.peers), run.peers // 2)))
    watch(run, ring, CALM_S + apart_s)
    run.plan(
        [
            Fault(kind="partition", at_s=CALM_S, hosts=side),
            Fault(kind="heal", at_s=CALM_S + apart_s),
        ]
    )


@scenario("rolling-restart", summary="every peer is restarted, one after the other",
          peers=50, peers_min=3, peers_max=2_000, seconds=3_600.0)  # fmt: skip
def rolling_restart(run: ScenarioRun) -> None:
    every_s = run.setting("every_s", 10.0, low=0.1, high=3_600.0)
    for_s = run.setting("for_s", 5.0, low=0.0, high=3_600.0)
    ring = ring_in(run)
    ring.found(run.peers)
    watch(run, ring, CALM_S + every_s * run.peers + for_s)
    run.plan(
        Fault(kind="restart", at_s=CALM_S + every_s * n, hosts=(n,), settings={"for_s": for_s})
        for n in range(run.peers)
    )


@fault_kind("introduce")
def _introduce(fault: Fault, world: World) -> None:
    """The first host is shown the second, as by a rendezvous."""
    one, other = (world.hosts[number].program for number in fault.hosts[:2])
    introduce, machine = getattr(one, "introduce", None), getattr(other, "machine", None)
    if introduce is not None and machine is not None:
        introduce(machine.me)


@scenario("merge", summary="two rings, whole in themselves, become one through a single contact",
          peers=200, peers_min=4, peers_max=2_000, seconds=7_200.0)  # fmt: skip
def merge(run: ScenarioRun) -> None:
    ring = ring_in(run)
    half = run.peers // 2
    ring.found(half)
    ring.found(run.peers - half)
    watch(run, ring, CALM_S)
    run.plan([Fault(kind="introduce", at_s=CALM_S, hosts=(0, half))])


@fault_kind("lie")
def _lie(fault: Fault, world: World) -> None:
    _each(fault, world, lies=True)


@fault_kind("be honest")
def _be_honest(fault: Fault, world: World) -> None:
    _each(fault, world, lies=False)


def _each(fault: Fault, world: World, *, lies: bool) -> None:
    for number in fault.hosts:
        ring = getattr(world.hosts[number].program, "ring", None)
        if isinstance(ring, SimulatedRing):
            liars: set[PeerKey] = ring.tamper.liars if isinstance(ring.tamper, Liars) else set()
            liars = liars | {ring.peers[number]} if lies else liars - {ring.peers[number]}
            ring.tamper = Liars(ring, liars) if liars else None


class Liars:
    """They name themselves, each other and nobodies as owners, successors and predecessors."""

    def __init__(self, ring: SimulatedRing, liars: set[PeerKey]) -> None:
        self.liars = liars
        self._rng = ring.world.chance("lies")
        own = [ring.contact_of(host) for host in ring.hosts if ring.peers[host.number] in liars]
        phantoms = [
            Contact.at(record.peer, record.address, 0, 0, ring.rules.id_check)
            for record in map(peer_number, range(10**9, 10**9 + 16))
        ]
        self._invented = [*own, *phantoms]

    def __call__(self, sender: PeerKey, to: Contact, message: Message) -> Message | None:
        if sender not in self.liars or self._rng.random() < 0.5:
            return message
        some = self._rng.sample(self._invented, min(6, len(self._invented)))
        return twisted(message, some, len(some))


@scenario("liars", summary="a share of the peers tells the others nonsense about the ring",
          peers=100, peers_min=5, peers_max=2_000, seconds=3_600.0)  # fmt: skip
def liars(run: ScenarioRun) -> None:
    share = run.setting("share", 0.2, high=0.9)
    for_s = run.setting("for_s", 600.0, low=1.0)
    ring = ring_in(run)
    ring.found(run.peers)
    chosen = tuple(sorted(run.world.chance("liars").sample(range(run.peers), int(run.peers * share))))
    lookups = Lookups(
        ring, per_s=run.setting("lookups_per_s", 5, low=0.01, high=1e5), from_s=CALM_S, until_s=CALM_S + for_s
    )
    watch(run, ring, CALM_S + for_s)
    _tell_lookups(run, lookups)
    run.plan(
        [
            Fault(kind="lie", at_s=CALM_S, hosts=chosen),
            Fault(kind="be honest", at_s=CALM_S + for_s, hosts=chosen),
        ]
    )
