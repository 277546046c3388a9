"""How does a ring machine live in a world? As a host's program, behind the real codec.

    ring = SimulatedRing(world, rules)
    ring.found(100)                      a whole ring at once, or
    ring.add(), ring.add(start_at=5.0)   peers that join through others

A `RingProgram` drives a `SeatedMachine`, as the node shell does: that one starts a new machine after a jump of the
clock or a new address, and joins again when joining failed. Messages go through `dht.wire` and are as long as sealed
ones; the sealing itself (handshakes, keys) is left out: a frame names its sender, and nobody can forge it.
Whole peers with their sessions live on the other carrier (`simnet.host`).
"""

from collections.abc import Callable
from functools import partial
from random import Random

from dht.core.clock import CLOCK_STEP_S, RingClock
from dht.core.effects import Effect, LookupDone, Send
from dht.core.frames import SEALED_HEADER_BYTES, TAG_BYTES
from dht.core.ids import Key, PeerKey
from dht.core.machine import RingMachine
from dht.core.messages import Message
from dht.core.records import RECORD_VERSION, Contact, Line, PeerRecord, contacts_of, first_contact_of
from dht.core.records import Address as PackedAddress
from dht.core.rules import RingRules
from dht.core.seat import ClockJumped, HostSeen, PortFound, SearchEnded
from dht.core.seated_machine import SeatedMachine
from dht.endpoint import packed_address, socket_address
from dht.wire import MessageCodec, MessageRefused, encode_fitted
from simnet.rings import NETWORK, START_S, Lists, SimulatedNotary, all_learn, peer_number, right_lists
from simnet.world.hosts import WorldHost
from simnet.world.network import Address
from simnet.world.world import World

FRAME_BYTES = SEALED_HEADER_BYTES + TAG_BYTES  # so that datagrams have the size of sealed ones
CLOCK_LAG_S = (
    1.0  # a clock that drifts is followed in steps of so much; the shell looks at its own now and then
)
CONTACTS = 8  # peers that a peer remembers from its last life
EARLY_S = 1e-6  # a rounded wake-up may come so much before the deadline
GRAIN = 1 << 20  # the machine's clock is the world's plus a multiple of 1/GRAIN: differences stay exact

PADDING = bytes(
    FRAME_BYTES - 12
)  # a frame begins with the sender's number and eight bytes of the target's key
NOTHING_HEARD = (None, None)
NOBODY: tuple[bytes, Contact | None] = (b"", None)
ADDRESSES_REMEMBERED = 1 << 17

AfterEvent = Callable[[RingMachine, Message | None, Contact | None], None]
Tamper = Callable[[PeerKey, Contact, Message], Message | None]


class SimulatedRing:
    """The data that the peers of one world share and a checker may look at."""

    def __init__(
        self, world: World, rules: RingRules | None = None, *, machine_class: type[RingMachine] = RingMachine
    ) -> None:
        self.world = world
        self.rules = rules or RingRules(network=NETWORK)
        self.machine_class = machine_class
        self.machines: dict[PeerKey, RingMachine] = {}
        self.programs: dict[PeerKey, RingProgram] = {}
        self.hosts: list[WorldHost] = []
        self.peers: dict[int, PeerKey] = {}  # by the host's number
        self.decode = MessageCodec(self.rules.id_check).decode
        self.senders: dict[Address, tuple[bytes, Contact | None]] = {}  # the last sender from that address
        self.targets: dict[bytes, Address] = {}  # by packed address
        self.refused = 0
        self.tamper: Tamper | None = None
        self.after_event: AfterEvent | None = None
        self.on_effect: Callable[[PeerKey, Effect], None] = lambda _peer, _effect: None
        self.on_stop: Callable[[RingMachine], None] = lambda _machine: None
        self.on_found: Callable[[RingMachine], None] = lambda _machine: None
        self._numbers: dict[PeerKey, int] = {}
        self._addresses = world.chance("ring addresses")
        self._lists: dict[int, list[Lists]] = {}
        self._virtual_nodes: dict[int, int] = {}
        self._incarnations: dict[PeerKey, int] = {}  # as every peer keeps its own over a restart
        self._lookups: dict[tuple[PeerKey, int], Callable[[LookupDone], None]] = {}

    @property
    def now(self) -> float:
        return self.world.now

    def run(self, seconds: float) -> None:
        self.world.run_until(self.world.now + seconds)

    def can_talk(self, one: PeerKey, other: PeerKey) -> bool:
        numbers = self._numbers
        return self.world.network.can_reach(numbers[one], numbers[other])

    # -- peers -------------------------------------------------------------------------------------------

    def add(
        self, *, start_at: float | None = 0.0, virtual_nodes: int = 1, address: Address | None = None
    ) -> WorldHost:
        """A peer that joins through some of those added before it; the first one makes the ring."""
        number = len(self.world.hosts)
        host = self.world.add_host(
            partial(RingProgram, ring=self), address=address or self._fresh_address(), start_at=start_at
        )
        self.hosts.append(host)
        self.peers[number] = peer_number(number).peer
        self._numbers[self.peers[number]] = number
        self._virtual_nodes[number] = virtual_nodes
        return host

    def found(self, count: int, *, knows_all: bool = True, virtual_nodes: int = 1) -> list[WorldHost]:
        """A ring of this size, whole from the first moment: right lists, and full tables if peers are to know all
        members."""
        hosts = [self.add(start_at=None, virtual_nodes=virtual_nodes) for _ in range(count)]
        self.world.schedule.at(0.0, self._begin_whole, hosts, knows_all)
        return hosts

    def _begin_whole(self, hosts: list[WorldHost], knows_all: bool) -> None:
        by_host = {host: contacts_of(self.record_of(host), self.rules.id_check) for host in hosts}
        line = sorted((c for own in by_host.values() for c in own), key=lambda contact: contact.position)
        right = right_lists(line, self.rules.successors)
        for host, contacts in by_host.items():
            self._lists[host.number] = [right[contact.position] for contact in contacts]
        for host in hosts:
            host.start()
        self._lists.clear()
        machines = [self.machines[self.peers[host.number]] for host in hosts]
        known = [machine.record for machine in machines if machine.record is not None]
        for machine in machines:
            self.on_found(machine)
        if knows_all and machines:
            all_learn(machines, known, START_S)
        for host in hosts:
            host.wake()

    def lists_for(self, host: WorldHost) -> list[Lists] | None:
        return self._lists.get(host.number)

    def record_of(self, host: WorldHost) -> PeerRecord:
        return PeerRecord(
            version=RECORD_VERSION,
            network=self.rules.network,
            peer=self.peers[host.number],
            lines=(Line.at(packed_address(host.address)),),
            slot=0,
            virtual_nodes=self._virtual_nodes[host.number],
            incarnation=self._incarnations.get(self.peers[host.number], 0),
            issued_s=0,
            expires_s=1,
            flags=0,
            previous=b"",
            since=0,
        )

    def contact_of(self, host: WorldHost) -> Contact:
        return first_contact_of(self.record_of(host), self.rules.id_check)

    def sender_at(self, begins: bytes, address: Address) -> Contact | None:
        """The host that a frame names in its first bytes, sending from this address."""
        peer = self.peers.get(int.from_bytes(begins, "big"))
        if peer is None:
            return None
        if len(self.senders) >= ADDRESSES_REMEMBERED:
            self.senders.clear()
        contact = Contact.at(peer, packed_address(address), 0, 0, self.rules.id_check)
        self.senders[address] = begins, contact
        return contact

    def target_at(self, address: PackedAddress) -> Address:
        if len(self.targets) >= ADDRESSES_REMEMBERED:
            self.targets.clear()
        target = self.targets[address.host] = socket_address(address.host, address.port)
        return target

    def contacts_for(self, host: WorldHost) -> list[Contact]:
        """Some of the others, up or down: a peer's given or remembered contacts."""
        others = [other for other in self.hosts if other is not host and other.boots]
        chosen = host.rng.sample(others, min(CONTACTS, len(others)))
        return [self.contact_of(other) for other in chosen]

    def _fresh_address(self) -> Address:
        """Anywhere in IPv4, and by the seed: positions follow from addresses."""
        taken = {host.address for host in self.hosts[-1:]}
        while True:
            a, b, c, d = (self._addresses.randrange(1, 224), *self._addresses.randbytes(3))
            address = (f"{a}.{b}.{c}.{d}", 4_484)
            if address not in taken and a not in (10, 127, 203):  # those are the world's own
                return address

    # -- lookups -----------------------------------------------------------------------------------------

    def look_up(self, program: "RingProgram", key: Key, done: Callable[[LookupDone], None]) -> None:
        lookup_id = program.machine.lookup(key, program.now())
        self._lookups[program.peer, lookup_id] = done
        program.host.wake()

    def performed(self, peer: PeerKey, effect: Effect) -> None:
        if isinstance(effect, LookupDone):
            done = self._lookups.pop((peer, effect.id), None)
            if done is not None:
                done(effect)
        self.on_effect(peer, effect)

    def gone(self, machine: RingMachine) -> None:
        self.on_stop(machine)
        self._incarnations[machine.me.peer] = machine.own_record.incarnation
        for waiting in [known for known in self._lookups if known[0] == machine.me.peer]:
            del self._lookups[waiting]


class RingProgram:
    def __init__(self, host: WorldHost, *, ring: SimulatedRing) -> None:
        self.host, self.ring = host, ring
        self.peer = ring.peers[host.number]
        self._address = host.address
        self._tag, self._from = self.peer[:8], host.number.to_bytes(4, "big")
        self._clock = RingClock(_grained(host.clock() + START_S - ring.world.now))
        self._heard: tuple[Message | None, Contact | None] | None = None
        self._seated = SeatedMachine(
            record=ring.record_of(host),
            build=self._new_machine,
            given=partial(ring.contacts_for, host),
            id_check=ring.rules.id_check,
            random=host.rng,
            is_address_guessed=True,
        )
        lists = ring.lists_for(host)
        if lists is not None:
            self._seated.restore(lists, self.now())
        else:
            self._seated.tell(SearchEnded(), self.now())

    @property
    def machine(self) -> RingMachine:
        return self._seated.machine

    def _new_machine(self, record: PeerRecord) -> RingMachine:
        ring = self.ring
        last = ring.machines.get(self.peer)
        if last is not None:
            ring.gone(last)
        machine = ring.machine_class(
            record=record,
            rules=ring.rules,
            notary=SimulatedNotary(self.peer),
            random=Random(self.host.rng.getrandbits(64)),
        )
        ring.machines[self.peer] = machine
        ring.programs[self.peer] = self
        return machine

    def now(self) -> float:
        """The machine's time: this host's clock when it was last believed, and running like the world's."""
        return self._clock.now(self.ring.world.schedule.now)

    def introduce(self, contact: Contact) -> None:
        """Somebody shows us a peer that may be of another part of our ring."""
        self.machine.merge(contact, self.now())
        self.host.wake()

    # -- the shape of a program --------------------------------------------------------------------------

    def receive(self, data: bytes, sender: Address, now: float) -> None:
        self._watch_clock(now)
        ring = self.ring
        begins, contact = ring.senders.get(sender, NOBODY)
        if begins != data[:4]:
            contact = ring.sender_at(data[:4], sender)
        if contact is None or data[4:12] != self._tag:
            ring.refused += 1  # meant for the former peer at this address
            return
        message = ring.decode(data[FRAME_BYTES:])
        if isinstance(message, MessageRefused):
            ring.refused += 1
            return
        self._heard = (message, contact)
        self.machine.receive(message, contact, self.now())

    def advance(self, now: float) -> None:
        self._watch_clock(now)
        time = self.now()
        if self.host.drift or self.host.skew_s:
            deadline = self._seated.next_deadline()
            if deadline is not None and time < deadline <= time + EARLY_S:
                time = deadline
        self._heard = NOTHING_HEARD
        self._seated.advance(time)

    def next_deadline(self) -> float | None:
        deadline = self._seated.next_deadline()
        if deadline is None:
            return None
        due = deadline - self._clock.offset_s
        host = self.host
        return due if not host.drift and not host.skew_s else due * (1.0 + host.drift) + host.skew_s

    def take_datagrams(self) -> list[tuple[Address, bytes]]:
        ring, seated, now = self.ring, self._seated, self.now()
        out: list[tuple[Address, bytes]] = []
        effects = seated.take_effects(now)
        while effects:
            is_more = False
            for effect in effects:
                if type(effect) is Send:
                    self._send(effect, out)
                else:
                    ring.performed(self.peer, effect)
                    is_more = True  # perhaps: a receiver of our news may have asked for something
            effects = seated.take_effects(now) if is_more else []
        heard, self._heard = self._heard, None
        if heard is not None and ring.after_event is not None:
            ring.after_event(seated.machine, *heard)
        return out

    def stop(self) -> None:
        self.ring.gone(self.machine)
        self.ring.machines.pop(self.peer, None)
        self.ring.programs.pop(self.peer, None)

    def describe(self) -> str:
        nodes = self.machine.statistics().nodes
        lists = "; ".join(
            f"{node.contact.position.hex()[:8]} {'member' if node.is_member else 'no member'} after "
            f"{node.predecessor.position.hex()[:8] if node.predecessor else 'nobody'} before "
            f"{' '.join(contact.position.hex()[:8] for contact in node.successors[:4]) or 'nobody'}"
            for node in nodes
        )
        return f"{lists}; {len(self.machine.table)} in the table"

    # -- inside ------------------------------------------------------------------------------------------

    def _send(self, effect: Send, out: list[tuple[Address, bytes]]) -> None:
        message: Message | None = effect.message
        if self.ring.tamper is not None:
            message = self.ring.tamper(self.peer, effect.to, effect.message)
        if message is None:
            return
        to = effect.to
        data = self._from + to.peer[:8] + PADDING + encode_fitted(message)
        target = self.ring.targets.get(to.address.host)
        if target is None or target[1] != to.address.port:
            target = self.ring.target_at(to.address)
        out.append((target, data))

    def _watch_clock(self, clock: float) -> None:
        ahead_s = clock + START_S - self.now()
        if -CLOCK_STEP_S < ahead_s <= CLOCK_LAG_S and self.host.address is self._address:
            return  # nearly always
        if self._clock.look(_grained(self._clock.offset_s + ahead_s)):
            self._seated.tell(ClockJumped(), self.now())
        if self.host.address != self._address:
            self._address = self.host.address
            there = packed_address(self._address)
            self._seated.tell(HostSeen(host=there.host), self.now())
            self._seated.tell(PortFound(port=there.port), self.now())


def _grained(seconds: float) -> float:
    return round(seconds * GRAIN) / GRAIN
