"""What does one peer do in the ring?  Messages and time in, effects out; the shell and every simulator
drive this class.

    machine = RingMachine(record=..., rules=..., notary=..., random=Random(seed))
    machine.create(now)                  or  machine.join(contacts, now)
    loop: receive(message, sender, now) / advance(now); then take_effects(); wait until next_deadline()

`now` is in seconds since the epoch and never goes back (the shell sees to that: records carry dates).
`sender` is the peer that the session proved, as the contact of its first virtual node.  Nothing a stranger
sends raises: what breaks the rules is dropped and counted in `statistics()`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from dht.core import rules as bounds
from dht.core.arcs import Arc
from dht.core.effects import ArcsChanged, Effect, PaceChanged, PositionTaken, SeatOver
from dht.core.gossip import Gossip
from dht.core.host import MachineHost
from dht.core.ids import Key, PeerKey, is_in_arc
from dht.core.joining import Joining
from dht.core.limits import Buckets
from dht.core.membership import MemberTable
from dht.core.messages import (
    NEWS_MAX,
    REQUESTS,
    Accuse,
    Ack,
    AskSeats,
    CallsFail,
    Closer,
    DialBackRequest,
    Digest,
    Find,
    GetState,
    Knock,
    Knocked,
    Message,
    NeighbourState,
    Notify,
    NotMember,
    Offer,
    Owner,
    Ping,
    Pong,
    Post,
    Posted,
    ProbeRequest,
    Pull,
    Reply,
    Rumour,
    ShortCall,
    StrangerDial,
    Want,
)
from dht.core.placement import first, own_arcs
from dht.core.places import sits_by, trail_on
from dht.core.records import (
    CLOSED,
    DAY_MAX,
    RECORD_LIFE_S,
    RECORD_REFRESH_S,
    SLOW,
    U32,
    Contact,
    Line,
    Notary,
    PeerRecord,
    SignedRecord,
    contacts_of,
    first_contact_of,
    is_address,
    plausible_incarnation,
)
from dht.core.ring import VirtualNode
from dht.core.routing import Router
from dht.core.rules import RingRules
from dht.core.seats import SeatMemory, seat_on

TOLD_OF_MOVES: Final = 8
"""Members anywhere in the ring, beside the neighbours: each tells others."""
SETTLING_S: Final = 120.0
"""After a join: by then the table has been fetched, and others were asked about its seats."""


class NodeView(NamedTuple):
    """One virtual node, as it is now."""

    contact: Contact
    is_member: bool
    predecessor: Contact | None
    successors: tuple[Contact, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RingStatistics:
    nodes: tuple[NodeView, ...]
    arcs: tuple[Arc, ...]
    members: int  # hosts in the table
    unwell: tuple[tuple[PeerKey, str], ...]
    gossip_bits_per_s: float
    counts: tuple[tuple[str, int], ...]  # what was dropped, by reason


class RingMachine:
    node_class: type[VirtualNode] = VirtualNode

    def __init__(
        self,
        *,
        record: PeerRecord,
        rules: RingRules,
        notary: Notary,
        random: Random,
        seats: SeatMemory | None = None,
    ) -> None:
        """`record` says who we are; its incarnation and dates are renewed here, whenever needed.  `seats` are what is
        remembered of others from machines before this one."""
        self._record = record
        families = frozenset(len(line.host) for line in record.lines)
        self._host = MachineHost(first_contact_of(record, rules.id_check), rules, notary, random, families)
        self.rules = rules
        self.table = MemberTable(rules.id_check, rules.places)
        self._gossip = Gossip(
            self._host,
            self.table,
            self._refute,
            self._is_near,
            self._table_changed,
            self._place_taken,
            seats if seats is not None else SeatMemory(),
        )
        self._detector = self._gossip.detector
        self._host.on_loss = self._lost
        self.nodes = [
            self.node_class(self._host, self.table, self._detector.unwell, contact, self._node_changed)
            for contact in contacts_of(record, rules.id_check)
        ]
        self._joining: Joining | None = None
        self._router = Router(self._host, self.table, self._gossip, self.nodes)
        self._arcs: tuple[Arc, ...] = ()
        self._arcs_are_stale = False
        self._is_left = False
        self._takes_part = False
        self._calls_back = Buckets()
        self._settled_at = float("inf")
        self._now = float("-inf")

    # --- what the shell calls

    @property
    def me(self) -> Contact:
        return self._host.me

    @property
    def own_record(self) -> PeerRecord:
        """Our own record, unsigned: keep it, so that a restart continues from its incarnation."""
        return self._record

    @property
    def record(self) -> SignedRecord | None:
        """Our own record as last signed; None before `create` or `join`."""
        return self.table.records.get(self.me.peer)

    def create(self, now: float) -> None:
        """Start a ring of one host."""
        self._begin(now)
        self._take_part(now)
        nodes = sorted(self.nodes, key=lambda node: node.contact.position)
        for place, node in enumerate(nodes):
            if len(nodes) == 1:
                node.create(now)
            else:  # our own virtual nodes are a ring from the start
                node.restore(nodes[place - 1].contact, (nodes[(place + 1) % len(nodes)].contact,), now)

    def join(self, contacts: Iterable[Contact], now: float) -> None:
        """Become a member through any of these; ends in `Joined` per virtual node, or in `JoinFailed`.

        A leaf has no virtual nodes: for it nothing ends, it knows the ring as soon as somebody has answered.
        """
        assert self._joining is None or self._joining.is_over, "already joining"
        self._begin(now)
        contacts = list(contacts)
        self._gossip.seeds.extend(contacts)
        if not self.nodes:
            self._follow(contacts, now)
            return
        waiting = [node for node in self.nodes if not node.is_member]
        self._joining = Joining(self._host, waiting, contacts, self._router, self._joined, self._report_taken)
        self._joining.go(now)

    def _follow(self, contacts: list[Contact], now: float) -> None:
        """A leaf has no position to find: it knows the ring from the tables of others, and shows itself there."""
        self._take_part(now)
        self._gossip.tell(self.me.peer, now)
        for contact in contacts[: bounds.CONTACTS_MAX]:
            if contact.peer != self.me.peer:
                self._gossip.exchange(contact, now)

    def restore(self, lists: Sequence[tuple[Contact | None, tuple[Contact, ...]]], now: float) -> None:
        """Be a member with given (predecessor, successors) per virtual node: large rings of the simulator
        start so.
        """
        self._begin(now)
        self._take_part(now)
        for node, (predecessor, successors) in zip(self.nodes, lists, strict=True):
            node.restore(predecessor, successors, now)

    def receive(self, message: Message, sender: Contact, now: float) -> None:
        self._now = now
        if sender.peer in self._detector.unwell:
            self._detector.heard(sender.peer)
        if sender.peer not in self.table.records:
            self._gossip.newcomers.spoke(sender, now)
        handle = _HANDLERS.get(message.__class__)
        if message.__class__ in _WITH_CONTACTS:
            message = self._without_false_seats(message, now)
        if sender.peer in self.table.key_tombs:
            self._host.counts["from a rotated key"] += 1
        elif self._is_left:
            self._host.counts["after leaving"] += 1
        elif handle is not None:
            handle(self, message, sender, now)
        else:
            assert isinstance(message, Reply), "every request has a handler, so what is left are replies"
            self._host.answer(message, sender, now)

    def advance(self, now: float) -> None:
        self._now = now
        self._host.run_due(now)
        messages, self._host.loopback = self._host.loopback, []
        for message in messages:
            self.receive(message, self._host.me, now)

    def next_deadline(self) -> float | None:
        return self._now if self._host.loopback else self._host.next_deadline()

    def take_effects(self) -> list[Effect]:
        if self._arcs_are_stale:
            self._renew_arcs()
        effects = self._host.effects
        if effects:
            self._host.effects = []
        return effects

    def lookup(self, key: Key, now: float, *, careful: bool = False) -> int:
        """Ends in a `LookupDone` with the id returned.  `careful`: two disjoint starts, as for writes."""
        return self._router.lookup(key, now, careful=careful)

    def merge(self, contact: Contact, now: float) -> None:
        """Somebody showed us a member that may be of another part of our ring: compare tables with it."""
        self._gossip.seeds.append(contact)
        self._gossip.exchange(contact, now)

    def move(self, line: Line, now: float) -> None:
        """Our first line is another, and we sit where our seat is from: only the way to us changes.  Those who ask us
        are told at once, the others by them."""
        assert self._record.seat is not None, "without a seat a new address is a new position"
        self._record = replace(self._record, lines=(line, *self._record.lines[1:]))
        contacts = contacts_of(self._record, self.rules.id_check)
        self._host.me = first_contact_of(self._record, self.rules.id_check)
        for node, contact in zip(self.nodes, contacts, strict=True):
            assert node.contact == contact, "the positions are those of the seat"
            node.contact = contact
        if self.record is None or self._is_left:
            return
        self._renew_record(0, now)
        self._gossip.tell(self.me.peer, now)
        strangers = self._host.random.sample(
            self.table.contacts, min(TOLD_OF_MOVES, len(self.table.contacts))
        )
        told = {contact.peer: contact for contact in (*self._neighbours(), *strangers)}
        told.pop(self.me.peer, None)
        for contact in told.values():
            self._host.send(contact, Rumour(id=self._host.new_id(), news=(self.record,)))

    def look_around(self, now: float) -> None:
        """Our address may have changed: whom we ask now answers to it, and says so."""
        for contact in self._router.strangers():
            if contact.peer != self.me.peer:
                self._gossip.exchange(contact, now)

    def forget_previous_key(self, now: float) -> None:
        """The ring has known our rotation for long enough: from now on our own signature does alone."""
        if self._record.previous:
            self._record = replace(self._record, previous=b"")
            if self.record is not None and not self._is_left:
                self._renew_record(0, now)
                self._gossip.tell(self.me.peer, now)

    def name_relays(self, relays: tuple[bytes, ...], now: float, *, is_closed: bool) -> None:
        """Those through which others reach us are these now; `is_closed`: all others, not those of another family."""
        flags = self._record.flags & ~CLOSED | (CLOSED if is_closed else 0)
        self._record = replace(self._record, relays=relays, flags=flags)
        if self.record is not None and not self._is_left:
            self._renew_record(0, now)
            self._gossip.tell(self.me.peer, now)

    def name_lines(self, others: tuple[Line, ...], now: float) -> None:
        """Beside our first line we are called at these now; no position follows from them."""
        lines = (self._record.lines[0], *others)
        if lines == self._record.lines:
            return
        self._record = replace(self._record, lines=lines)
        if self.record is not None and not self._is_left:
            self._renew_record(0, now)
            self._gossip.tell(self.me.peer, now)

    def say_slow(self, *, is_slow: bool, now: float) -> None:
        """Our line cannot keep up with what others wait for, or can again."""
        flags = self._record.flags & ~SLOW | (SLOW if is_slow else 0)
        if flags == self._record.flags:
            return
        self._record = replace(self._record, flags=flags)
        self._host.effects.append(PaceChanged(peer=self.me.peer))
        if self.record is not None and not self._is_left:
            self._renew_record(0, now)
            self._gossip.tell(self.me.peer, now)

    def leave(self, now: float) -> None:
        """Say goodbye to the neighbours and to some others.  Hand over the data first."""
        signed = self.record
        if signed is None or self._is_left:
            return
        departure = self._host.notary.sign_departure(signed.record.incarnation)
        neighbours = {contact.peer: contact for contact in self._neighbours()}
        if not self.nodes:  # a leaf has no neighbours: some of the table pass it on
            neighbours = {contact.peer: contact for contact in self._router.strangers()}
        for contact in neighbours.values():
            if contact.peer != self.me.peer:
                self._host.send(contact, Rumour(id=self._host.new_id(), news=(departure,)))
        for node in self.nodes:
            node.leave()
        self._is_left = True
        assert not any(node.is_member or node.is_busy for node in self.nodes)
        self._host.forget_questions()

    def holders_known(self, key: Key, count: int) -> tuple[Contact, ...]:
        """The first distinct hosts at or after a key, by our table: no traffic, and no authority."""
        return tuple(first(self.table.clockwise(key), count, self._detector.unwell))

    @property
    def day(self) -> int:
        """Of the network: members come of age from one to the next."""
        return 0 if self._now == float("-inf") else self.rules.places.day_of(self._now)

    @property
    def knows_all(self) -> bool:
        """Is everybody in our table, as far as news came?  Not where the ring is too large for that."""
        return self._gossip.level < 2

    def record_heard(self, peer: PeerKey) -> PeerRecord | None:
        """What others told us of a peer that has not proven itself yet."""
        waiting = self._gossip.newcomers.waiting.get(peer)
        return None if waiting is None else waiting.signed.record

    def silent_strangers(self) -> list[bytes]:
        """Hosts of peers that others told of in the last ten minutes and nobody reached: they do not count."""
        return self._gossip.newcomers.silent_hosts(self._now)

    def places_remembered(self) -> list[Contact]:
        """Whom we ask now and then whether they are back."""
        return self._gossip.places_remembered()

    def arcs(self) -> tuple[Arc, ...]:
        """What this host must hold; as last reported by `ArcsChanged`."""
        return self._arcs

    def statistics(self) -> RingStatistics:
        return RingStatistics(
            nodes=tuple(NodeView(n.contact, n.is_member, n.predecessor, n.successors) for n in self.nodes),
            arcs=self._arcs,
            members=len(self.table),
            unwell=tuple(sorted((peer, illness.clock) for peer, illness in self._detector.unwell.items())),
            gossip_bits_per_s=self._gossip.thrift.bits_per_s,
            counts=tuple(sorted(self._host.counts.items())),
        )

    # --- messages

    def _without_false_seats(self, message: Message, now: float) -> Message:
        """Members are where their seats are, as we remember them.  A newcomer remembers nothing yet: until its table
        has been looked into it takes contacts as they come, by two ways that must agree."""
        if (
            self._gossip.level == 2
            or not any(node.is_member for node in self.nodes)
            or now < self._settled_at
        ):
            return message
        found = _sound_contacts(message, self._gossip.seats.is_sound)
        if found is not message:
            self._host.counts["contacts unseated"] += 1
        return found

    def _on_ask_seats(self, message: AskSeats, sender: Contact) -> None:
        self._gossip.seats.answer(message, sender)

    def _on_get_state(self, message: GetState, sender: Contact) -> None:
        if not self._is_from(message.source, sender):
            return
        node = self._node(message.target)
        self._host.send(sender, node.state(message) if node else NotMember(id=message.id))

    def _on_notify(self, message: Notify, sender: Contact, now: float) -> None:
        node = self._node(message.target)
        if not self._is_from(message.source, sender) or node is None:
            return
        self._host.send(sender, Ack(id=message.id))
        if not self._gossip.seats.is_sound(message.source):
            self._host.counts["contacts unseated"] += 1
            return
        if message.source.address.host == sender.address.host:
            node.notified(message.source, now)
        else:
            self._call_back(message.source, node, now)

    def _call_back(self, source: Contact, node: VirtualNode, now: float) -> None:
        """Its position follows from an address that it did not speak from: is it there as well?

        Asked rarely: the address may be another peer's, whom the handshakes that fail would keep busy.
        """
        if not self._calls_back.take(source.address, bounds.CALL_BACK, now):
            self._host.counts["sources elsewhere"] += 1
            return

        def answered(reply: Reply | None, later: float) -> None:
            if reply is not None:
                node.notified(source, later)
            else:
                self._host.counts["sources elsewhere"] += 1

        self._host.ask(source, Ping(id=self._host.new_id()), answered, now, is_favour=True)

    def _on_rumour(self, message: Rumour, sender: Contact, now: float) -> None:
        for news in message.news[:NEWS_MAX]:
            self._gossip.hear(news, now)
        self._tell_the_dead(sender)

    def _on_offer(self, message: Offer, sender: Contact, now: float) -> None:
        self._gossip.rumours.offered(message, sender, now)
        self._tell_the_dead(sender)

    def _tell_the_dead(self, sender: Contact) -> None:
        """Who gossips although we hold it for dead can refute that once it knows."""
        if (
            sender.peer not in self.table.records
            and self._gossip.level < 2
            and sender.peer in self.table.tombs
        ):
            self._host.send(sender, Rumour(id=self._host.new_id(), news=(self.table.tombs[sender.peer][0],)))

    def _on_accuse(self, message: Accuse, sender: Contact, now: float) -> None:
        if message.suspect.peer != self.me.peer:
            self._detector.witness(message, sender, now)
            return
        own = self.record
        if own is None or not self._detector.may_accuse(message, sender):
            return
        # Who lost our answers is cured by any word of ours. A new incarnation is for a death that is on its way, and
        # the whole ring hears of it, so one accuser makes us tell of three a day.
        if message.incarnation >= own.record.incarnation and self._detector.is_to_be_refuted(
            sender.peer, now
        ):
            self._refute(message.incarnation, now)
        if self.record is not None:
            self._host.send(sender, Rumour(id=self._host.new_id(), news=(self.record,)))

    def _is_from(self, source: Contact, sender: Contact) -> bool:
        if source.peer == sender.peer and is_address(source.address):
            return True
        self._host.counts["sources forged"] += 1
        return False

    # --- joining

    def _place_taken(self, claimant: SignedRecord) -> None:
        self._report_taken(first_contact_of(claimant.record, self.rules.id_check))

    def _report_taken(self, holder: Contact) -> None:
        self._host.counts["own position taken"] += 1
        self._host.effects.append(PositionTaken(contact=self.me, holder=holder))

    # --- being a member

    def _begin(self, now: float) -> None:
        self._now = now
        self._is_left = False
        if not self._takes_part:
            # Nobody has heard of an attempt that failed, so our claim is as old as this one: else we and the others
            # would each take their own claim for the older.
            self.table.remove(self.me.peer)
        self._renew_record(0, now)

    def _take_part(self, now: float) -> None:
        """Gossip begins with membership: nobody should hear of a position before it is one."""
        if self._takes_part:
            return
        self._takes_part = True
        self._settled_at = now + SETTLING_S
        self._gossip.start(now)
        if self._gossip.level == 2:
            self._router.keep_fingers(now)

    def _joined(self, owner: Contact, now: float) -> None:
        self._take_part(now)
        if self._gossip.level < 2:
            self._gossip.exchange(owner, now)
        if self.record is not None:
            self._host.send(owner, Rumour(id=self._host.new_id(), news=(self.record,)))
            self._gossip.tell(self.me.peer, now)

    def _renew_record(self, above: int, now: float) -> None:
        """Sign a new record.  The incarnation is the time where it can be, so that a restarted peer is
        always newer.
        """
        before = self._record.incarnation
        incarnation = min(max(self._record.incarnation + 1, above + 1, int(now)), U32 - 1)
        # Others take the newer of two records, so a number is never used twice, but for the very last one.
        assert incarnation > before or incarnation == U32 - 1
        day = min(max(self.rules.places.day_of(now), 0), DAY_MAX)
        self._record = replace(
            self._record,
            incarnation=incarnation,
            issued_s=int(now),
            expires_s=int(now) + RECORD_LIFE_S,
            since=min(self._record.since, day) if self._record.since > 0 else day,
        )
        seat = seat_on(self._record, self.rules.places, day, self._gossip.seats.memory)
        if self.nodes and seat is not None and seat.host != sits_by(self._record):
            self._host.effects.append(SeatOver(birth=seat))  # another machine will sit there
            seat = self._record.seat
        self._record = replace(self._record, seat=seat)
        self._record = replace(self._record, trail=trail_on(self._record, self.rules.places, day))
        signed = self._host.notary.sign_record(self._record)
        assert signed.record.peer == self.me.peer
        if signed.record.previous:
            self.table.rotate(signed, now)
        self.table.put(signed)
        self._gossip.seats.memory.note(signed.record)
        self._host.at(now + self._host.jittered(RECORD_REFRESH_S), partial(self._refresh_record, incarnation))

    def _refresh_record(self, incarnation: int, now: float) -> None:
        if incarnation == self._record.incarnation and not self._is_left:
            self._renew_record(0, now)
            self._gossip.tell(self.me.peer, now)

    def _refute(self, incarnation: int, now: float) -> None:
        if incarnation > max(self._record.incarnation, plausible_incarnation(now)):
            self._host.counts["deaths implausible"] += 1  # to follow would use up the numbers that we have
            return
        self._host.counts["deaths refuted"] += 1
        self._renew_record(incarnation, now)
        self._gossip.tell(self.me.peer, now)

    def _is_near(self, contact: Contact) -> bool:
        return any(contact.peer == near.peer for near in self._neighbours())

    def _neighbours(self) -> Iterator[Contact]:
        return (c for node in self.nodes for c in (*node.successors, node.predecessor) if c is not None)

    # --- arcs

    def _node_changed(self, node: VirtualNode, now: float) -> None:
        del now
        self._arcs_are_stale = True
        for sibling in self.nodes if node.successors else ():
            if sibling is not node:
                sibling.forgive(node.successors[0])

    def _lost(self, contact: Contact, now: float) -> None:
        self._detector.lost(contact, now)
        for node in self.nodes:
            if node.successors and node.successors[0].peer == contact.peer:
                node.hurry(now)

    def _table_changed(self, signed: SignedRecord) -> None:
        contacts = contacts_of(signed.record, self.rules.id_check)
        for node in self.nodes:
            for contact in contacts:
                node.found_at(contact, self._now)
                node.met(contact, self._now)
        # Our arcs reach back over as many hosts as there are copies, so who comes or goes elsewhere does not move them.
        # They are computed when asked for: one message may change the table many times.
        if self._arcs_are_stale:
            return
        for contact in contacts:
            if any(
                is_in_arc(arc.start, contact.position, arc.end) or arc.start == contact.position
                for arc in self._arcs
            ):
                self._arcs_are_stale = True
                return

    def _renew_arcs(self) -> None:
        self._arcs_are_stale = False
        members = [(node.contact, node.predecessor) for node in self.nodes if node.is_member]
        arcs = own_arcs(members, self.table.counterclockwise, self.rules.copies)
        assert len(arcs) <= len(members)
        if arcs != self._arcs:
            self._arcs = arcs
            self._host.effects.append(ArcsChanged(arcs=arcs))

    def _node(self, index: int) -> VirtualNode | None:
        return self.nodes[index] if 0 <= index < len(self.nodes) else None


# One table for all machines: in each of 100,000 simulated ones it would weigh 150 MB.
_HANDLERS: Final[dict[type, Callable[[RingMachine, Any, Contact, float], None]]] = {
    Ping: lambda me, message, sender, _: me._host.send(sender, Pong(id=message.id)),
    GetState: lambda me, message, sender, _: me._on_get_state(message, sender),
    Notify: RingMachine._on_notify,
    Find: lambda me, message, sender, _: me._host.send(sender, me._router.answer(message.id, message.key)),
    Rumour: RingMachine._on_rumour,
    Digest: lambda me, message, sender, now: me._gossip.answer_digest(message, sender, now),
    Pull: lambda me, message, sender, _: me._gossip.answer_pull(message, sender),
    ProbeRequest: lambda me, message, sender, now: me._detector.probe(message, sender, now),
    Accuse: RingMachine._on_accuse,
    Offer: RingMachine._on_offer,
    Want: lambda me, message, sender, _: me._gossip.rumours.answer(message, sender),
    AskSeats: lambda me, message, sender, _: me._on_ask_seats(message, sender),
    # The shell serves this, with sockets; the core has none.
    DialBackRequest: lambda me, *_: me._host.counts.update({"dial-backs unserved": 1}),
    StrangerDial: lambda me, *_: me._host.counts.update({"dial-backs unserved": 1}),
    CallsFail: lambda me, *_: me._host.counts.update({"dial-backs unserved": 1}),
    Knock: lambda me, *_: me._host.counts.update({"knocks unserved": 1}),
    Post: lambda me, *_: me._host.counts.update({"posts unserved": 1}),
    Posted: lambda me, *_: me._host.counts.update({"posts unserved": 1}),
    Knocked: lambda me, *_: me._host.counts.update({"knocks unserved": 1}),
    ShortCall: lambda me, *_: me._host.counts.update({"short calls unserved": 1}),
}
assert set(_HANDLERS) == set(REQUESTS)

_WITH_CONTACTS: Final[frozenset[type]] = frozenset((NeighbourState, Owner, Closer))


def _sound_contacts(message: Message, is_sound: Callable[[Contact], bool]) -> Message:
    """The same without the contacts that are not; itself, if all are."""
    match message:
        case NeighbourState(predecessor=before, successors=successors):
            if (before is None or is_sound(before)) and all(map(is_sound, successors)):
                return message
            return replace(
                message,
                predecessor=before if before is not None and is_sound(before) else None,
                successors=tuple(filter(is_sound, successors)),
            )
        case Owner(holders=holders) if not all(map(is_sound, holders)):
            sound = tuple(filter(is_sound, holders))
            return replace(message, holders=sound) if sound else Closer(id=message.id, contacts=())
        case Closer(contacts=contacts) if not all(map(is_sound, contacts)):
            return replace(message, contacts=tuple(filter(is_sound, contacts)))
        case _:
            return message
