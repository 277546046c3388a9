"""What do attackers do to a ring of 50 to 300 cores? Members that run the real machine, and bend what it says.

    siege = Siege(seed, honest=50, rules=…, machine_class=RingMachine)
    siege.join(hosts)                      the attacker's keys become members, young or of age
    siege.pass_time(60)                    honest peers come and go meanwhile; guards look once a minute

Honest members are `RingMachine`s of age in a mix of places; so are the attacker's, but that a story changes, adds or
swallows what they send. Everything that they send goes through the real codec (`dht.wire`): what it
refuses, nobody receives. Signatures are keyed hashes that only their owner's side makes (`simnet.rings`).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from random import Random

from msgspec.structs import replace

from dht.core.effects import Send
from dht.core.holders import Table
from dht.core.ids import KEY_BYTES, Key, PeerKey
from dht.core.machine import RingMachine
from dht.core.messages import Message
from dht.core.places import place_at
from dht.core.records import Contact, PeerRecord
from dht.core.rules import RingRules
from dht.core.unanswered import Unanswered
from dht.endpoint import socket_address
from dht.wire import MessageCodec, MessageRefused, encode_fitted
from simnet.adversaries.members import LONG_AGO_DAYS, POSITIONS_MAX, honest_host, record_at
from simnet.ringchecks import ideal_within_s
from simnet.rings import START_S, RingWorld, how_right

MINUTE_S = 60.0
CHURN_S = 40.0
"""An honest peer crashes, leaves or comes every so often, in the mean."""
AWAY_S = 600.0
AWAY_MAX = 3
"""Honest ones at a time."""
SAMPLED = 400
"""Keys whose holders a guard asks for."""

Bend = Callable[[PeerKey, Contact, Message], Message | None]


DIAL_S = 6.5
"""So long a handshake is open that nobody answers."""


class SiegeBrokenError(AssertionError):
    """What must hold in spite of the attack does not."""


class _Dials:
    """One member's handshakes with addresses that never answer, by the real rule of links."""

    def __init__(self) -> None:
        self._rule = Unanswered()
        self._open: dict[tuple[str, int], float] = {}

    def may_begin(self, address: tuple[str, int], now: float) -> bool:
        for one in [one for one, began in self._open.items() if now - began >= DIAL_S]:
            del self._open[one]
            self._rule.closed(one)
        if address in self._open or self._rule.refusal(address, now) is not None:
            return False
        self._open[address] = now
        return True


class Siege:
    def __init__(
        self,
        seed: int,
        *,
        honest: int,
        rules: RingRules,
        loss: float = 0.01,
        machine_class: type[RingMachine] = RingMachine,
    ) -> None:
        self.chance = Random(f"{seed}/siege")
        self.rules = rules
        self.world = RingWorld(seed, rules, loss=loss, machine_class=machine_class)
        self.world.tamper = self._send
        self.foes: set[PeerKey] = set()
        self.bend: Bend | None = None
        """What becomes of a message that one of the attackers sends."""
        self.refused = 0
        """Of theirs, by the codec."""
        self.sent_to: dict[bytes, Counter[tuple[PeerKey, int]]] = {}
        """Of watched places: datagrams of each honest member in each minute."""
        self.dials_rarely = True
        """False plants the fault: every message to an address that never answered is a datagram."""
        self._dials: dict[PeerKey, _Dials] = {}
        self.churns = True
        self.left: set[PeerKey] = set()
        """Honest ones that said goodbye, or whose machine is gone."""
        self._away: dict[PeerKey, float] = {}
        self._next_change = START_S + CHURN_S
        self._decode = MessageCodec(rules.id_check).decode
        today = rules.places.day_of(START_S)
        self._today = today
        records = self._records([honest_host(self.chance) for _ in range(honest)], today - LONG_AGO_DAYS)
        self.keys = [Key(self.chance.randbytes(KEY_BYTES)) for _ in range(SAMPLED)]
        self.world.ideal(records)
        self._spare = self._records([honest_host(self.chance) for _ in range(honest)], today)
        self.world.run(MINUTE_S)

    def _records(self, hosts: Iterable[bytes], since: int, positions: int = 0) -> list[PeerRecord]:
        return [
            record_at(
                host,
                self.chance,
                network=self.rules.network,
                since=since,
                positions=positions or self.chance.choice((1, 1, 2, 3)),
                now=START_S - MINUTE_S,
            )
            for host in hosts
        ]

    # -- who is there

    @property
    def honest(self) -> list[RingMachine]:
        world = self.world.machines
        return [world[peer] for peer in sorted(world) if peer not in self.foes]

    @property
    def members(self) -> list[RingMachine]:
        """The honest ones that have joined."""
        return [one for one in self.honest if one.nodes[0].is_member]

    def join(
        self, seats: Sequence[tuple[bytes, int]], *, since_days: int, positions: int = POSITIONS_MAX
    ) -> list[RingMachine]:
        """The attacker's keys at these addresses and slots, all at once, each through some honest members."""
        found = []
        records = self._records([host for host, _ in seats], self._today - since_days, positions)
        for record in map(_in_slot, records, [slot for _, slot in seats]):
            self.foes.add(record.peer)
            contacts = [one.me for one in self.chance.sample(self.members, 3)]
            found.append(self.world.join(record, contacts))
        return found

    def corrupt(self, count: int) -> list[RingMachine]:
        """So many members were the attacker's all the time."""
        chosen = self.chance.sample(self.members, count)
        self.foes.update(one.me.peer for one in chosen)
        return chosen

    def fail(self, peer: PeerKey, away_s: float = AWAY_S) -> None:
        """An honest one is down for a while."""
        self.world.crash(peer)
        self._away[peer] = self.world.now + away_s

    def leave(self, peer: PeerKey) -> None:
        """An honest one says goodbye."""
        self.left.add(peer)
        self.world.leave(peer)

    def vanish(self) -> None:
        for peer in sorted(self.foes & self.world.machines.keys()):
            self.world.crash(peer)

    # -- what is said

    def _send(self, sender: PeerKey, to: Contact, message: Message) -> Message | None:
        if sender not in self.foes:
            watched = self.sent_to.get(place_at(to.address.host, self.rules.places))
            if watched is None:
                return message
            dials = self._dials.setdefault(sender, _Dials())
            there = socket_address(to.address.host, to.address.port)
            if not self.dials_rarely or dials.may_begin(there, self.world.now):
                watched[sender, int(self.world.now // MINUTE_S)] += 1
            return None  # nobody is there
        bent: Message | None = message if self.bend is None else self.bend(sender, to, message)
        return None if bent is None else self._encoded(bent)

    def _encoded(self, message: Message) -> Message | None:
        found = self._decode(encode_fitted(message))
        if isinstance(found, MessageRefused):
            self.refused += 1
            return None
        return found

    def say(self, sender: RingMachine, to: Contact, message: Message) -> None:
        """The attacker says more than its machine would."""
        assert sender.me.peer in self.foes
        self.world._send(sender.me, Send(to=to, message=message))

    def watch(self, host: bytes) -> Counter[tuple[PeerKey, int]]:
        """A place in which nobody is: from now on what honest members send there is counted, by sender and minute."""
        return self.sent_to.setdefault(place_at(host, self.rules.places), Counter())

    # -- time

    def pass_time(self, seconds: float, guard: Callable[[], None] = lambda: None) -> None:
        end = self.world.now + seconds
        while self.world.now < end:
            self.world.run(min(MINUTE_S, end - self.world.now))
            if self.churns:
                self._churn()
            guard()

    def _churn(self) -> None:
        now, world = self.world.now, self.world
        for peer in [one for one, until in self._away.items() if until <= now]:
            del self._away[peer]
            world.join(world.crashed[peer], [one.me for one in self.chance.sample(self.members, 3)])
        while self._next_change <= now:
            self._next_change += self.chance.expovariate(1 / CHURN_S)
            what = self.chance.choice(("crash", "crash", "leave", "come"))
            one = self.chance.choice(self.members)
            if what == "come" and self._spare:
                world.join(self._spare.pop(), [other.me for other in self.chance.sample(self.members, 3)])
            elif what == "leave" and len(self.left) < len(self.honest) // 10:
                self.leave(one.me.peer)
            elif what == "crash" and len(self._away) < AWAY_MAX:
                world.crash(one.me.peer)
                self._away[one.me.peer] = now + self.chance.uniform(5.0, AWAY_S)

    def calm(self) -> float:
        """All honest ones are back, nobody comes or goes. How long until every list is right again."""
        self.churns = False
        for peer in sorted(self._away):
            self.world.join(self.world.crashed[peer], [one.me for one in self.chance.sample(self.members, 3)])
        self._away.clear()
        began = self.world.now
        bound_s = ideal_within_s(self.rules, sum(len(one.nodes) for one in self.honest))
        while self.world.now - began < bound_s:
            self.world.run(5)
            if how_right(self.world) == (1, 1) and not self._unknown():
                return self.world.now - began
        unknown = self._unknown()
        raise SiegeBrokenError(
            f"the ring is not whole {bound_s:.0f} s after the attack: lists {how_right(self.world)}"
            + (f", {len(unknown)} honest pairs do not know each other" if unknown else "")
        )

    def _unknown(self) -> list[tuple[PeerKey, PeerKey]]:
        honest = self.honest
        return [
            (one.me.peer, other.me.peer)
            for one in honest
            for other in honest
            if other.me.peer not in one.table.records
        ]

    # -- what honest members think

    def table_of(self, one: RingMachine) -> Table:
        """Of holders, as that member sees them."""
        return Table(one.table.contacts, self.rules.holders, standings=one.table.standings(one.day))

    def theirs_among(self, table: Table, key: Key, slack: int = 0) -> int:
        return sum(contact.peer in self.foes for contact in table.of(key, slack))

    def some_honest(self, count: int = 3) -> list[RingMachine]:
        members = self.members
        return self.chance.sample(members, min(count, len(members)))


def _in_slot(record: PeerRecord, slot: int) -> PeerRecord:
    return replace(record, slot=slot)
