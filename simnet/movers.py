"""What becomes of a ring whose members get new addresses all the time? Seated machines, in virtual time.

    movers = Movers(seed, peers=100, rules=…)
    movers.pass_time(days=7, moving=33, every_s=3_600)

Machines are driven by `SeatedMachine`, as in a peer. What is sent goes through the real codec to an *address*: where a
machine is not any more, nobody hears. A machine notices its own new address within 30 s, as the shell does.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from heapq import heappop, heappush
from random import Random

from msgspec.structs import replace

from dht.core.effects import Send
from dht.core.frames import PAYLOAD_BYTES_MAX
from dht.core.holders import Table
from dht.core.ids import CIRCLE, KEY_BYTES, Key, PeerKey, number_of
from dht.core.machine import RingMachine
from dht.core.records import Address, Contact, Line, PeerRecord, first_contact_of
from dht.core.rules import RingRules
from dht.core.seat import HostSeen, SearchEnded
from dht.core.seated_machine import SeatedMachine
from dht.core.seats import SeatMemory
from dht.wire import MessageCodec, MessageRefused, encode_fitted
from simnet.rings import START_S, SimulatedNotary, all_learn, peer_number, right_lists

NOTICED_S = (1.0, 30.0)
LATENCY_S = (0.020, 0.120)
SAMPLED = 8
"""Keys that somebody may want to sit beside."""


class Mover:
    """One peer, at the address where it is at the moment."""

    def __init__(
        self, record: PeerRecord, rules: RingRules, chance: Random, given: Sequence[Contact]
    ) -> None:
        self.memory = SeatMemory()
        self.host = record.lines[0].host
        self.peer = record.peer
        self.machines = 0
        self._rules, self._chance = rules, chance
        self.seated = SeatedMachine(
            record=record,
            build=self._build,
            given=lambda: given,
            id_check=rules.id_check,
            random=chance,
            is_address_guessed=True,
        )

    def _build(self, record: PeerRecord) -> RingMachine:
        self.machines += 1
        return RingMachine(
            record=record,
            rules=self._rules,
            notary=SimulatedNotary(record.peer),
            random=Random(self._chance.getrandbits(64)),
            seats=self.memory,
        )

    @property
    def machine(self) -> RingMachine:
        return self.seated.machine


class Movers:
    def __init__(
        self, seed: int, *, peers: int, rules: RingRules, since_days: int = 30, loss: float = 0.0
    ) -> None:
        self.chance = Random(f"{seed}/movers")
        self.rules, self.loss = rules, loss
        self.now = START_S
        self.refused = 0
        self.known: dict[PeerKey, Mover] = {}
        self._at: dict[bytes, PeerKey] = {}
        self._decode = MessageCodec(rules.id_check).decode
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._sequence = 0
        self._wakes: dict[PeerKey, float] = {}
        today = rules.places.day_of(START_S)
        records = [replace(peer_number(number), since=today - since_days) for number in range(peers)]
        movers = [self._add(record, ()) for record in records]
        self._begin_whole(movers)

    def _add(self, record: PeerRecord, given: Sequence[Contact]) -> Mover:
        one = Mover(record, self.rules, Random(self.chance.getrandbits(64)), given)
        self.known[one.peer] = one
        self._at[one.host] = one.peer
        return one

    def _begin_whole(self, movers: list[Mover]) -> None:
        line = sorted(
            (node.contact for one in movers for node in one.machine.nodes), key=lambda c: c.position
        )
        right = right_lists(line, self.rules.successors)
        for one in movers:
            one.seated.restore([right[node.contact.position] for node in one.machine.nodes], self.now)
        records = [one.machine.record for one in movers]
        all_learn([one.machine for one in movers], [signed for signed in records if signed], self.now)
        for one in movers:
            for signed in records:
                if signed is not None:
                    one.memory.note(signed.record)
            self._settle(one)

    # -- what happens

    def join(self, record: PeerRecord, through: int = 3) -> Mover:
        """A newcomer that remembers nobody's seat."""
        contacts = [
            one.machine.me for one in self.chance.sample(sorted(self.known.values(), key=_key), through)
        ]
        one = self._add(record, contacts)
        one.seated.tell(SearchEnded(), self.now)
        self._settle(one)
        return one

    def remove(self, one: Mover) -> None:
        """It is gone, without a word."""
        del self._at[one.host], self.known[one.peer]
        self._wakes.pop(one.peer, None)

    def move(self, one: Mover, host: bytes | None = None) -> None:
        """To another address, which it notices a little later."""
        del self._at[one.host]
        one.host = host or self.fresh_host()
        self._at[one.host] = one.peer
        self.after(self.chance.uniform(*NOTICED_S), partial(self._notice, one, one.host))

    def _notice(self, one: Mover, host: bytes) -> None:
        if one.host == host and self.known.get(one.peer) is one:
            one.seated.tell(HostSeen(host=host), self.now)
            self._settle(one)

    def fresh_host(self) -> bytes:
        while True:
            host = bytes((self.chance.randrange(11, 120), *self.chance.randbytes(3)))
            if host not in self._at:
                return host

    def pass_time(self, seconds: float) -> None:
        end = self.now + seconds
        while self._heap and self._heap[0][0] <= end:
            self.now, _, happen = heappop(self._heap)
            happen()
        self.now = end

    def after(self, seconds: float, happen: Callable[[], None]) -> None:
        self._push(self.now + seconds, happen)

    # -- what is so

    def tables(self) -> Iterator[Table]:
        for one in sorted(self.known.values(), key=_key):
            table, day = one.machine.table, one.machine.day
            yield Table(table.contacts, self.rules.holders, standings=table.standings(day))

    def shares(self) -> dict[PeerKey, int]:
        """The part of the circle that each member holds, by one that is there."""
        table = next(self.tables())
        return {
            peer: sum((number_of(arc.end) - number_of(arc.start)) % CIRCLE for arc in table.arcs(peer))
            for peer in sorted(table.peers)
        }

    def keys(self) -> list[Key]:
        chance = Random("keys")
        return [Key(chance.randbytes(KEY_BYTES)) for _ in range(SAMPLED)]

    def agreement(self) -> float:
        """The part of the tables that have the positions of most."""
        seen: dict[tuple[Contact, ...], int] = {}
        for one in self.known.values():
            positions = tuple(one.machine.table.contacts)
            seen[positions] = seen.get(positions, 0) + 1
        return max(seen.values()) / len(self.known)

    def absent(self) -> set[tuple[PeerKey, PeerKey]]:
        """Who lacks a position of whom."""
        right = {peer: [node.contact for node in one.machine.nodes] for peer, one in self.known.items()}
        return {
            (peer, other)
            for peer, one in self.known.items()
            for listed in [set(one.machine.table.contacts)]
            for other, contacts in right.items()
            if not listed.issuperset(contacts)
        }

    def misplaced(self) -> int:
        """Members that a table has at a position where they are not."""
        right = {node.contact for one in self.known.values() for node in one.machine.nodes}
        return sum(
            contact.peer in self.known and contact not in right
            for one in self.known.values()
            for contact in one.machine.table.contacts
        )

    def knowing(self, one: Mover) -> float:
        """The part of the others whose table has its present address."""
        others = [other for other in self.known.values() if other is not one]
        found = 0
        for other in others:
            signed = other.machine.table.records.get(one.peer)
            found += signed is not None and signed.record.lines[0].host == one.host
        return found / len(others)

    # -- inside

    def _push(self, when: float, happen: Callable[[], None]) -> None:
        self._sequence += 1
        heappush(self._heap, (when, self._sequence, happen))

    def _wake(self, one: Mover, due: float) -> None:
        if self._wakes.get(one.peer) == due and self.known.get(one.peer) is one:
            del self._wakes[one.peer]
            one.seated.advance(self.now)
            self._settle(one)

    def _settle(self, one: Mover) -> None:
        while effects := one.seated.take_effects(self.now):
            for effect in effects:
                if isinstance(effect, Send):
                    self._send(one, effect)
        deadline = one.seated.next_deadline()
        if deadline is not None:
            deadline = max(deadline, self.now)
            wake = self._wakes.get(one.peer)
            if wake is None or deadline < wake:
                self._wakes[one.peer] = deadline
                self._push(deadline, partial(self._wake, one, deadline))

    def _send(self, sender: Mover, effect: Send) -> None:
        if self.loss and self.chance.random() < self.loss:
            return
        data = encode_fitted(effect.message)
        assert len(data) <= PAYLOAD_BYTES_MAX
        there = effect.to.address.host
        self._push(
            self.now + self.chance.uniform(*LATENCY_S),
            partial(self._deliver, data, sender.peer, sender.host, effect.to.peer, there),
        )

    def _deliver(self, data: bytes, sender: PeerKey, sent_from: bytes, to: PeerKey, host: bytes) -> None:
        """Nobody else answers at an address: a session needs the key."""
        one = self.known.get(to)
        if one is None or one.host != host or self._at.get(host) != to:
            return
        message = self._decode(data)
        if isinstance(message, MessageRefused):
            self.refused += 1
            return
        record = replace(peer_number(0), peer=sender, lines=(Line.at(Address(host=sent_from, port=4_484)),))
        one.machine.receive(message, first_contact_of(record, self.rules.id_check), self.now)
        self._settle(one)


def _key(one: Mover) -> PeerKey:
    return one.peer
