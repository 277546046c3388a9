"""Peers that start in one second behind one address, on a network that loses and delays, from a seed.

Seated machines without sockets, so that a ring which once did not settle is played again exactly.
"""

from functools import partial
from heapq import heappop, heappush
from random import Random

from msgspec.structs import replace

from dht.core.effects import Send
from dht.core.ids import PeerKey
from dht.core.machine import RingMachine
from dht.core.messages import Message
from dht.core.reader import is_ideal, is_joined
from dht.core.records import SLOTS, Contact, Line, PeerRecord
from dht.core.rules import RingRules
from dht.core.seat import SearchEnded
from dht.core.seated_machine import SeatedMachine
from simnet.rings import NETWORK, START_S, SimulatedNotary, peer_number

RULES = RingRules(network=NETWORK, stabilize_s=2.0, rumour_s=1.0, digest_s=5.0, graveyard_s=5.0)
HOST = bytes((10, 0, 0, 1))
LOSSY_S = 30.0
"""From then on nothing is lost or late."""
LOOK_EVERY = 20
"""Events between two looks at all peers."""


class SharedAddress:
    def __init__(self, seed: int, *, loss: float, late: float = 0.0) -> None:
        """`late`: this share of datagrams comes a second later, on average."""
        self.now = START_S
        self._random, self._loss, self._late = Random(seed), loss, late
        self._heap: list[tuple[float, int, PeerKey, Message | None, Contact | None]] = []
        self._sequence = 0
        self._wakes: dict[PeerKey, float] = {}
        self._sessions: dict[tuple[PeerKey, PeerKey], Contact] = {}
        self.peers: dict[PeerKey, SeatedMachine] = {}
        for number in range(SLOTS):
            line = Line(host=HOST, udp=4000 + number, tcp=4000 + number)
            record = replace(peer_number(number), lines=(line,), slot=0, incarnation=0)
            self.peers[record.peer] = self._seated(record, Random(self._random.getrandbits(64)))
        self._first = next(iter(self.peers.values())).machine.me

    def _seated(self, record: PeerRecord, random: Random) -> SeatedMachine:
        build = partial(_machine, SimulatedNotary(record.peer), random)
        return SeatedMachine(
            record=record, build=build, given=lambda: [self._first], id_check="ip", random=random
        )

    def start_all(self) -> None:
        for peer in self.peers:
            self.peers[peer].tell(SearchEnded(), self.now)
            self._settle(peer)
            self.run(0.01 if peer == self._first.peer else 0.001 * self._random.random())

    def run(self, seconds: float, *, until_ideal: bool = False) -> bool:
        end, events = self.now + seconds, 0
        while self._heap and self._heap[0][0] <= end:
            self._step()
            events += 1
            if until_ideal and events % LOOK_EVERY == 0 and self.is_ideal():
                return True
        self.now = end
        return self.is_ideal()

    def is_ideal(self) -> bool:
        machines = [seated.machine for seated in self.peers.values()]
        figures = [machine.statistics() for machine in machines]
        return all(
            one.members == len(machines) and is_joined(one) and is_ideal(machine, one)
            for machine, one in zip(machines, figures, strict=True)
        )

    def _step(self) -> None:
        self.now, _, peer, message, sender = heappop(self._heap)
        if message is not None and sender is not None:
            self.peers[peer].machine.receive(message, sender, self.now)
        elif self._wakes.get(peer) == self.now:
            del self._wakes[peer]
            self.peers[peer].advance(self.now)
        self._settle(peer)

    def _settle(self, peer: PeerKey) -> None:
        seated = self.peers[peer]
        while effects := seated.take_effects(self.now):
            for effect in effects:
                if isinstance(effect, Send):
                    self._send(peer, effect)
        deadline = max(seated.next_deadline() or self.now, self.now)
        if deadline < self._wakes.get(peer, float("inf")):
            self._wakes[peer] = deadline
            self._push(deadline, peer, None, None)

    def _send(self, peer: PeerKey, effect: Send) -> None:
        """A session names its peer as it was at its first word, whatever slot it took since."""
        is_lossy = self.now < START_S + LOSSY_S
        if is_lossy and self._random.random() < self._loss:
            return
        delay_s = 0.0005 + 0.001 * self._random.random()
        if is_lossy and self._random.random() < self._late:
            delay_s += self._random.expovariate(1.0)
        to = effect.to.peer
        if to in self.peers and self.peers[to].machine.me.address == effect.to.address:
            sender = self._sessions.setdefault((peer, to), self.peers[peer].machine.me)
            self._push(self.now + delay_s, to, effect.message, sender)

    def _push(self, when: float, peer: PeerKey, what: Message | None, sender: Contact | None) -> None:
        self._sequence += 1
        heappush(self._heap, (when, self._sequence, peer, what, sender))


def _machine(notary: SimulatedNotary, random: Random, record: PeerRecord) -> RingMachine:
    return RingMachine(record=record, rules=RULES, notary=notary, random=random)
