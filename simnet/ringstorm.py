"""Does a small ring survive everything at once?  Joins, leaves, crashes, restarts, splits, heals and lies,
under watch.

`RingStorm` has one method per blow.  Hypothesis draws them in the tests; `run` draws them from seeds, by
the thousand: `simnet run storms --seeds 1..1000`.
"""

from itertools import pairwise
from random import Random

from dht.core.ids import PeerKey
from dht.core.machine import RingMachine
from dht.core.messages import Message, Rumour
from dht.core.records import Contact, Death, first_contact_of
from dht.core.rules import RingRules
from simnet.ringchecks import RingChecker
from simnet.rings import NETWORK, RingWorld, peer_number, twisted

PEERS_MAX = 12
FOUNDERS = 5


class RingStorm:
    """A ring of a few founders with short lists, so that few blows reach their ends."""

    def __init__(
        self, seed: int, *, successors: int = 3, machine_class: type[RingMachine] = RingMachine
    ) -> None:
        rules = RingRules(network=NETWORK, successors=successors)
        self.world = RingWorld(seed, rules, loss=0.01, machine_class=machine_class)
        self.chance = Random(seed)
        self.checker = RingChecker(self.world)
        self.liars: set[PeerKey] = set()
        self._records = [
            peer_number(seed * 1_000 + n, virtual_nodes=1 + n % 3 // 2) for n in range(PEERS_MAX)
        ]
        self._found()

    def _found(self) -> None:
        """Founders join one by one, and the watch for principals begins when their ring is whole."""
        self.checker.is_whole = False
        first = self.world.create(self._records[0])
        for record in self._records[1:FOUNDERS]:
            self.world.join(record, [first.me])
            self.world.run(10)
        self.checker.becomes_ideal()
        self.checker.is_whole = True

    # --- blows

    def pass_time(self, seconds: float) -> None:
        self.world.run(seconds)

    def join(self, choice: int) -> None:
        out = [r for r in self._records if r.peer not in self.world.machines]
        contacts = self._contacts()
        if out and contacts:
            record = out[choice % len(out)]
            record = self.world.crashed.get(record.peer, record)
            self.world.join(record, [contacts[(choice + n) % len(contacts)] for n in range(2)])

    def crash(self, choice: int) -> None:
        peers = self._expendable()
        if peers and len(self._contacts()) > 2:
            self._remove(peers[choice % len(peers)], says_goodbye=False)

    def leave(self, choice: int) -> None:
        peers = self._expendable()
        if peers and len(self._contacts()) > 2:
            self._remove(peers[choice % len(peers)], says_goodbye=True)

    def restart(self, choice: int) -> None:
        """A crashed peer comes back at once, before anybody noticed."""
        peers = self._expendable()
        if peers and len(self._contacts()) > 2:
            peer = peers[choice % len(peers)]
            record = self.world.machines[peer].own_record
            self._remove(peer, says_goodbye=False)
            contacts = self._contacts()
            self.world.join(record, [contacts[choice % len(contacts)]])

    def split(self, choice: int) -> None:
        self.checker.is_whole = False
        peers = sorted(self.world.machines)
        self.world.sides = {peer: (choice >> place) & 1 for place, peer in enumerate(peers)}

    def heal(self) -> None:
        self.world.sides = {}

    def lie(self, choice: int) -> None:
        """From now on this peer tells others nonsense about the ring."""
        peers = sorted(self.world.machines)
        self.checker.is_honest = False
        self.liars.add(peers[choice % len(peers)])
        self.world.tamper = self._tamper

    def calm(self) -> float:
        """Faults stop: liars are honest again, the network is whole.  I7 must follow."""
        self.heal()
        self.liars.clear()
        self.world.tamper = None
        self._introduce()
        return self.checker.becomes_ideal()

    # --- inside

    def _introduce(self) -> None:
        """Parts of the ring that have not heard of each other meet as they would by a rendezvous.

        Those who joined on one side of a split may outlive all who were there before it.  Where one member still
        knows the place of another, be it from its grave, nobody helps: then the ring must heal by itself.
        """
        machines = self.world.machines
        parts: list[set[PeerKey]] = []
        for peer, machine in sorted(machines.items()):
            places = {contact.peer for contact in machine.places_remembered()}
            known = {peer, *machine.table.records, *places} & machines.keys()
            joined = [part for part in parts if part & known]
            parts = [part for part in parts if not part & known]
            parts.append(known.union(*joined))
        for one, other in pairwise(parts):
            machines[min(one)].merge(machines[min(other)].me, self.world.now)
            self.world.settle(machines[min(one)])

    def _expendable(self) -> list[PeerKey]:
        """Peers that the ring could lose now."""
        under_way = self.world.lists_on_their_way()
        return [p for p in sorted(self.world.machines) if self.checker.may_crash(p, under_way)]

    def _contacts(self) -> list[Contact]:
        machines = (self.world.machines[peer] for peer in sorted(self.world.machines))
        return [m.me for m in machines if all(node.is_member for node in m.nodes)]

    def _remove(self, peer: PeerKey, *, says_goodbye: bool) -> None:
        self.checker.forget(self.world.machines[peer])
        if says_goodbye:
            self.world.leave(peer)
        else:
            self.world.crash(peer)

    def _tamper(self, sender: PeerKey, _to: Contact, message: Message) -> Message | None:
        if sender not in self.liars:
            return message
        chance = self.chance
        others = [first_contact_of(record, "ip") for record in chance.sample(self._records, 6)]
        if isinstance(message, Rumour):
            victim = chance.choice(self._records).peer
            forged = Death(
                peer=victim,
                incarnation=(1 << 32) - 2,
                accuser=sender,
                accuser_signature=bytes(16),
                confirmer=others[0].peer,
                confirmer_signature=bytes(16),
            )
            return Rumour(id=message.id, news=(forged,))
        return twisted(message, others, self.world.rules.successors)


def run(seed: int, *, blows: int = 25, machine_class: type[RingMachine] = RingMachine) -> int:
    """One storm from a seed; gives the number of events that were checked."""
    storm = RingStorm(seed, machine_class=machine_class)
    chance = Random(seed ^ 0x5EED)
    lies = chance.random() < 0.3
    splits = chance.random() < 0.3
    for _ in range(blows):
        name = chance.choice(("join", "join", "crash", "leave", "restart", "split", "heal", "lie"))
        if name == "heal":
            storm.heal()
        elif not (name == "lie" and not lies) and not (name == "split" and not splits):
            getattr(storm, name)(chance.getrandbits(16))
        storm.pass_time(chance.choice((0.05, 0.3, 1.0, 5.0, 30.0)))
    storm.calm()
    return storm.checker.checks
