"""A day of the ring's own traffic, by `SimulatedRing`: machines with the real codec, and periods as by default.

Sessions and keys are left out there, and counted by rules. Two members shake hands when one has something to say to
the other and they did not within 22 hours, or one of them was off since: bytes and time are those of a real handshake.
Each datagram that goes or comes takes the time of sealing or opening a real one of the mean size. A checked signature
takes 60 us. UDP counts with heads of 28 bytes.
"""

import random
import time
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from dht.core.frames import PAYLOAD_BYTES_MAX
from dht.core.ids import PeerKey
from dht.core.machine import RingMachine
from dht.core.messages import Message
from dht.core.places import PlaceRules
from dht.core.records import Contact, Departure, Notary, PeerRecord, SignedRecord
from dht.core.rules import RingRules
from dht.core.sessions import REKEY_AS_INITIATOR_S
from dht.endpoint import socket_address
from dht.wire import MessageRefused
from scripts.benches import ring as sealing
from simnet.ringprogram import FRAME_BYTES, SimulatedRing
from simnet.rings import NETWORK
from simnet.world.faults import Fault
from simnet.world.network import LineQuality
from simnet.world.world import World

UDP_BYTES = 28
DAY_S = 86_400.0
LOSS = 0.01
BEGUN_S = 1.0
"""The ring stands."""
CHECK_S = 60e-6
SHOWN_SHARE = 0.002
"""Kinds of messages with less of the bytes are left out."""
HANDSHAKES = 100
COUNTS: Counter[str] = Counter()
"""Signatures made and checked by all machines of the run."""


class CountedMachine(RingMachine):
    def __init__(
        self, *, record: PeerRecord, rules: RingRules, notary: Notary, random: random.Random
    ) -> None:
        super().__init__(record=record, rules=rules, notary=CountingNotary(notary), random=random)


class CountingNotary:
    """Counts what is checked for the first time, since a peer remembers good signatures."""

    def __init__(self, notary: Notary) -> None:
        self._notary = notary
        self._seen: set[int] = set()

    def sign_record(self, record: PeerRecord) -> SignedRecord:
        COUNTS["made"] += 1
        return self._notary.sign_record(record)

    def is_record_signed(self, signed: SignedRecord) -> bool:
        self._note(signed.signature)
        return self._notary.is_record_signed(signed)

    def sign_death(self, peer: PeerKey, incarnation: int) -> bytes:
        COUNTS["made"] += 1
        return self._notary.sign_death(peer, incarnation)

    def is_death_signed(self, peer: PeerKey, incarnation: int, by: PeerKey, signature: bytes) -> bool:
        self._note(signature)
        return self._notary.is_death_signed(peer, incarnation, by, signature)

    def sign_departure(self, incarnation: int) -> Departure:
        COUNTS["made"] += 1
        return self._notary.sign_departure(incarnation)

    def is_departure_signed(self, departure: Departure) -> bool:
        self._note(departure.signature)
        return self._notary.is_departure_signed(departure)

    def _note(self, signature: bytes) -> None:
        short = hash(signature)
        if short not in self._seen:
            self._seen.add(short)
            COUNTS["checked"] += 1


class _Watch:
    """What the members say to each other, and how often two of them have to shake hands for it."""

    def __init__(self, ring: SimulatedRing, members: int) -> None:
        self._ring, self._members = ring, members
        self.bytes_of: Counter[str] = Counter()
        self.handshakes = 0
        self._shaken = array("d", [-DAY_S]) * (members * members)
        self._up_since = [-DAY_S] * members
        self._numbers = {peer: number for number, peer in ring.peers.items()}
        self._decode = ring.decode
        ring.decode, ring.tamper, ring.on_stop = self._heard, self._said, self._stopped

    def begin(self) -> None:
        self.bytes_of.clear()
        COUNTS.clear()
        self.handshakes = 0

    def _heard(self, data: bytes, bytes_max: int = PAYLOAD_BYTES_MAX) -> Message | MessageRefused:
        message = self._decode(data, bytes_max)
        self.bytes_of[type(message).__name__] += len(data) + FRAME_BYTES + UDP_BYTES
        return message

    def _said(self, sender: PeerKey, to: Contact, message: Message) -> Message:
        one, other = self._numbers[sender], self._numbers.get(to.peer)
        if other is not None:
            pair = min(one, other) * self._members + max(one, other)
            now, begun = self._ring.now, self._shaken[pair]
            if now - begun >= REKEY_AS_INITIATOR_S or begun < max(self._up_since[one], self._up_since[other]):
                self._shaken[pair] = now
                self.handshakes += 1
        return message

    def _stopped(self, machine: RingMachine) -> None:
        self._up_since[self._numbers[machine.me.peer]] = self._ring.now


@dataclass(frozen=True, slots=True, kw_only=True)
class Handshake:
    """Of both ends together: each signs the conversation, and checks that signature and the record of the other."""

    sent_bytes: int
    cpu_s: float
    made: int = 2
    checked: int = 4


def a_handshake() -> Handshake:
    """The mean of some real ones."""
    made, contact = sealing.endpoint()
    there = socket_address(contact.address.host, contact.address.port)
    diallers = [sealing.endpoint()[0] for _ in range(HANDSHAKES)]
    sent_bytes, begun = 0, time.process_time()
    for number, dialler in enumerate(diallers):
        here = ("127.0.0.1", 10_000 + number)
        dialler.link.dial(there, None, 0.0)
        while dialler.link.outgoing or made.link.outgoing:
            frames = (*dialler.link.outgoing, *made.link.outgoing)
            sent_bytes += sum(len(data) + UDP_BYTES for data, _ in frames)
            sealing.pump(dialler, here, made, there)
    return Handshake(sent_bytes=sent_bytes // HANDSHAKES, cpu_s=(time.process_time() - begun) / HANDSHAKES)


@dataclass(frozen=True, slots=True, kw_only=True)
class RingDay:
    members: int
    positions: int
    """Of each member."""
    hours: float
    up_h: float
    down_h: float
    """Mean time for which a member is off after `up_h`; 0: nobody comes or goes."""
    seed: int

    def run(self) -> list[str]:
        world = World(seed=self.seed, link=LineQuality(loss=LOSS))
        rules = RingRules(network=NETWORK, places=PlaceRules())
        ring = SimulatedRing(world, rules, machine_class=CountedMachine)
        ring.found(self.members, virtual_nodes=self.positions)
        watch = _Watch(ring, self.members)
        world.run_until(BEGUN_S)
        watch.begin()
        sent = world.network.counters
        before = sent.sent, sent.sent_bytes
        absences = list(self._absences())
        world.plan(absences)
        begun = time.process_time()
        world.run_until(BEGUN_S + 3_600 * self.hours)
        cpu_s = time.process_time() - begun
        datagrams = sent.sent - before[0]
        told_bytes = sent.sent_bytes - before[1] + UDP_BYTES * datagrams
        head = f"{self.members:,} members of {self.positions}, {self.hours:g} h, {len(absences)} absences"
        return [
            f"{head}, {LOSS:.0%} lost; a member and day:",
            *self._told(watch, datagrams, told_bytes, cpu_s),
        ]

    def _told(self, watch: _Watch, datagrams: int, told_bytes: int, cpu_s: float) -> Iterator[str]:
        a_day = 24 / self.hours / self.members
        shake = a_handshake()
        sealed, opened = sealing.sealing(20_000, max(1, told_bytes // datagrams - UDP_BYTES - FRAME_BYTES))
        heard = sum(watch.bytes_of.values())
        sizes = {name: size * told_bytes / heard for name, size in watch.bytes_of.items()}  # of what was sent
        sizes["handshakes"] = float(watch.handshakes * shake.sent_bytes)
        total = sum(sizes.values())
        for name, size in sorted(sizes.items(), key=lambda one: -one[1]):
            if size >= SHOWN_SHARE * total:
                yield _row(name, size * a_day)
        yield _row("sent in all", total * a_day)
        shakes = watch.handshakes * a_day
        yield f"  datagrams {datagrams * a_day:,.0f}, handshakes {2 * shakes:,.0f} ({shake.sent_bytes} B both ways)"
        made, checked = COUNTS["made"] * a_day, COUNTS["checked"] * a_day
        yield f"  signatures made {made:,.1f} + {shakes * shake.made:,.0f} in handshakes"
        yield f"  signatures checked {checked:,.1f} + {shakes * shake.checked:,.0f} in handshakes"
        parts = {
            "core, codec and simulator": cpu_s * a_day,
            "handshakes": shakes * shake.cpu_s,
            "sealing and opening": datagrams * a_day * (1 / sealed.per_cpu_s + 1 / opened.per_cpu_s),
            "checking": checked * CHECK_S,
        }
        told = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in parts.items())
        yield f"  CPU {sum(parts.values()):.2f} s: {told}"

    def _absences(self) -> Iterator[Fault]:
        """The first member stays, so that there is always a ring to come back to."""
        if not self.down_h:
            return
        chance = random.Random(self.seed)
        for number in range(1, self.members):
            at_h = chance.expovariate(1 / self.up_h)
            while at_h < self.hours:
                away_h = chance.expovariate(1 / self.down_h)
                settings = {"for_s": 3_600 * away_h}
                yield Fault(kind="restart", at_s=BEGUN_S + 3_600 * at_h, hosts=(number,), settings=settings)
                at_h += away_h + chance.expovariate(1 / self.up_h)


def _row(name: str, a_day: float) -> str:
    return f"  {name:<24} {a_day / 1e3:>10,.1f} kB {8 * a_day / DAY_S:>8.1f} bit/s"
