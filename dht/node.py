"""How does a peer take part in a ring? The shell that drives a `RingMachine` over a `Transport`.

One loop of its own: wait for datagrams or the machine's deadline, call the machine, perform its effects. Beside it
run the finders: contacts given or remembered, the local network, the rendezvous. They only ever show the machine
whom to compare tables with; what belongs to whom the machine decides.

The machine's `now` is seconds since the epoch that never go back. A wall clock that jumps by more than a minute
(somebody set it, or a laptop slept) makes a new machine, which joins again as after a restart: the others have taken
us for dead meanwhile, or we would date our records wrongly.
"""

import logging
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType

import anyio
import anyio.abc
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dht.core.arcs import Arc
from dht.core.effects import (
    ArcsChanged,
    Effect,
    Joined,
    JoinFailed,
    LookupDone,
    PeerChanged,
    PositionTaken,
    RingChanged,
    Send,
)
from dht.core.ids import Key, PeerKey
from dht.core.machine import RingMachine, RingStatistics
from dht.core.messages import DialBackReply, DialBackRequest
from dht.core.placement import Rule, first, own_arcs
from dht.core.reachability import Reachability
from dht.core.records import (
    LEAF,
    RECORD_VERSION,
    SLOTS,
    Address,
    Contact,
    Notary,
    PeerRecord,
    SignedRecord,
    first_contact_of,
)
from dht.dialback import DialBacks, OwnReach
from dht.endpoint import SessionEndpoint
from dht.errors import NoAnswerError
from dht.identity import KeyNotary, Verifier, peer_key
from dht.meeting import MEET_AT_ONCE_MAX, Meeting, address_text
from dht.node_types import (
    Member,
    NodePorts,
    NodeSettings,
    NodeStatistics,
    OpenTransport,
    RingEvent,
    Subscription,
)
from dht.transport import (
    OwnAddressChanged,
    PeerMet,
    Received,
    TransportEvent,
)
from dht.udp import UdpTransport, open_udp

logger = logging.getLogger(__name__)

CLOCK_STEP_S = 60.0
"""A wall clock this far from where it should be was set, or slept; NTP slews what is less."""
CLOCK_LOOK_S = 15.0
JOIN_AGAIN_S = (1.0, 2.0, 5.0, 10.0, 30.0)
SLOTS_AGAIN_S = 300.0
"""When all places behind our address are taken: peers leave rarely, and each try calls those who have them."""
JOINS_BEFORE_ALONE = 2
"""Peers that were started together may all be waiting for each other's ring: then somebody must be one."""
LOOKUP_S = 60.0


@dataclass(slots=True)
class _Waiter:
    """Somebody who awaits the end of a lookup."""

    event: anyio.Event = field(default_factory=anyio.Event)
    done: LookupDone | None = None  # None when the machine ended before it


class _ReachPorts:
    """What the test of our own reachability asks of the node."""

    def __init__(self, node: "RingNode") -> None:
        self._node = node

    def send_request(self, message: DialBackRequest, to: Contact) -> None:
        self._node._transport.send(message, to)

    def new_request_id(self) -> int:
        return int.from_bytes(self._node._ports.entropy(8), "big")

    def own_port(self) -> int:
        return self._node._address.port

    def members_known(self) -> list[Contact]:
        return self._node.other_members_that_are_well()

    def await_nonces(self, seconds: float) -> None:
        self._node.endpoint.link.nonces_awaited_until = anyio.current_time() + seconds

    def standing_changed(self, standing: Reachability) -> None:
        self._node.take_standing(standing)


class RingNode:
    """Implements `dht.Ring`. Inside `open_node`; not for use from several threads."""

    def __init__(
        self,
        settings: NodeSettings,
        key: Ed25519PrivateKey,
        ports: NodePorts,
        notary: Notary | None,
        hosts: Sequence[str] = (),
    ) -> None:
        self._settings = settings
        self._ports = ports
        self._verifier = Verifier()
        self._notary = notary or KeyNotary(
            key, settings.rules.network, self._verifier, previous=settings.previous_key
        )
        self._previous = b"" if settings.previous_key is None else peer_key(settings.previous_key)
        self._peer = peer_key(key)
        self._transport: UdpTransport
        self.endpoint = SessionEndpoint(
            key=key,
            network=settings.rules.network,
            id_check=settings.rules.id_check,
            record=lambda: self._machine.record,
            entropy=ports.entropy,
            limits=settings.limits,
            verifier=self._verifier,
        )
        self._offset_s = 0.0
        self._address = settings.address
        self._slot = settings.slot
        self._slots_taken: set[int] = set()
        self._is_leaf = False
        self._dial_backs = DialBacks(settings.rules.network, hosts, ports.entropy, ports.dial_back)
        self._reach = OwnReach(settings.dial_backs_wanted, _ReachPorts(self), ports.random)
        self._tasks: anyio.abc.TaskGroup | None = None
        self._machine = self._new_machine(settings.incarnation)
        self._deadline_moved = anyio.Event()
        self._armed_for: float | None = None
        self._is_pumping = False
        self._waiters: dict[int, _Waiter] = {}
        self._subscriptions: list[Subscription] = []
        self._join_failed = anyio.Event()  # replaced by whoever waits for it alone, or it would wait for ever
        self._is_join_due = False  # failed, and not begun again since
        self._are_slots_taken = False  # all of them: then the next try can wait
        self._has_joined = anyio.Event()
        self._table_size = 0
        self._last_record: SignedRecord | None = None
        self._restarts = 0
        self._meeting = Meeting(self._peer, lambda: self._transport)
        self._contacts: list[Contact] = []  # through whom we joined, in case we must again
        self._failed_joins = 0
        self._is_stopped = False

    def _new_machine(self, incarnation: int) -> RingMachine:
        settings = self._settings
        record = PeerRecord(
            version=RECORD_VERSION,
            network=settings.rules.network,
            peer=self._peer,
            addresses=(self._address,),
            slot=self._slot,
            virtual_nodes=1
            if self._is_leaf
            else settings.virtual_nodes,  # it has none: weigh as little as can be
            incarnation=incarnation,
            issued_s=0,
            expires_s=1,
            flags=LEAF if self._is_leaf else 0,
            previous=self._previous,
        )
        return RingMachine(
            record=record, rules=settings.rules, notary=self._notary, random=self._ports.random
        )

    # --- what the peer asks

    @property
    def me(self) -> Contact:
        return self._machine.me

    @property
    def record(self) -> SignedRecord | None:
        return self._machine.record

    def members(self) -> tuple[Member, ...]:
        """Everybody in our table, ourselves included, by key."""
        clocks = dict(self._machine.statistics().unwell)
        return tuple(
            Member(
                peer=peer,
                address=signed.record.addresses[0],
                virtual_nodes=signed.record.virtual_nodes,
                clock=clocks.get(peer, "well"),
            )
            for peer, signed in sorted(self._machine.table.records.items())
        )

    def positions(self) -> tuple[Contact, ...]:
        """Every position of a member in our table, ours included once we are one, in the order of the ring."""
        table = self._machine.table
        own = {node.contact.position for node in self._machine.nodes if node.is_member}
        return tuple(
            contact
            for contact in table.contacts
            if contact.peer in table.records and (contact.peer != self._peer or contact.position in own)
        )

    def contacts(self) -> tuple[Contact, ...]:
        """All virtual nodes in our table by position, ours included: no authority, but no traffic either."""
        return tuple(self._machine.table.contacts)

    def clocks(self) -> Mapping[PeerKey, str]:
        """Those who are not well, as our clocks see them."""
        return MappingProxyType(dict(self._machine.statistics().unwell))

    def my_arcs(self, copies: int | None = None) -> tuple[Arc, ...]:
        """What this peer must hold so that every key has that many copies (the network's number by default)."""
        if copies is None or copies == self._settings.rules.copies:
            return self._machine.arcs()
        nodes = [(node.contact, node.predecessor) for node in self._machine.nodes if node.is_member]
        return own_arcs(nodes, self._machine.table.counterclockwise, Rule(copies))

    async def owner(self, key: Key) -> Contact:
        """Who answers for the key, as the ring says. Raises `NoAnswerError`."""
        return (await self.holders(key, 1))[0]

    async def holders(self, key: Key, copies: int) -> tuple[Contact, ...]:
        """The owner and the distinct hosts after it; fewer where the ring is smaller. Raises `NoAnswerError`."""
        waiter = _Waiter()
        lookup_id = self._machine.lookup(key, self._now())
        self._waiters[lookup_id] = waiter
        self._pump()
        with anyio.move_on_after(LOOKUP_S):
            await waiter.event.wait()
        self._waiters.pop(lookup_id, None)
        done = waiter.done
        if done is None or not done.holders:
            raise NoAnswerError(key.hex())
        holders = list(done.holders)
        if len(holders) < copies:  # an answer names six at most; whom the table knows comes after
            for contact in self._machine.holders_known(key, copies):
                if contact.peer not in {known.peer for known in holders}:
                    holders.append(contact)
        return tuple(holders[:copies])

    @contextmanager
    def events(self) -> Iterator[Subscription]:
        """Changes of arcs, neighbours and clocks from now on."""
        subscription = Subscription()
        self._subscriptions.append(subscription)
        try:
            yield subscription
        finally:
            self._subscriptions.remove(subscription)

    def statistics(self) -> NodeStatistics:
        ring = self._machine.statistics()
        return NodeStatistics(
            ring=ring,
            transport=self._transport.statistics(),
            is_ideal=self._is_ideal(ring),
            is_joined=all(node.is_member for node in ring.nodes) and (bool(ring.nodes) or ring.members > 1),
            restarts=self._restarts,
            standing=self._reach.standing,
            reachability=self._reach.reason,
            dial_backs=MappingProxyType(dict(self._dial_backs.counts)),
            slot=self._slot,
        )

    def _is_ideal(self, ring: RingStatistics) -> bool:
        """Do my lists say what the table says? The view of one peer; a ring is ideal when all see it so."""
        wanted = self._settings.rules.successors
        for node in ring.nodes:
            around = [c for c in self._machine.table.clockwise(node.contact.position) if c != node.contact]
            before = around[-1] if around else None
            expected = tuple(first(around, Rule(wanted), (self._peer,)))
            listed = tuple(contact for contact in node.successors if contact.peer != self._peer)
            if not node.is_member or listed != expected or node.predecessor != before:
                return False
        # The dead are asked now and then whether they are back, and stay silent: that is no flaw of the ring.
        return not any(peer in self._machine.table.records for peer, _ in ring.unwell)

    def forget_previous_key(self) -> None:
        """The ring knows our rotated key by now: renew our record without the old one."""
        self._previous = b""
        self._machine.forget_previous_key(self._now())
        self._pump()

    def leave(self) -> None:
        """Say goodbye to the ring. Hand over the data first."""
        self._machine.leave(self._now())
        self._pump()
        self._end_waiting()

    def _end_waiting(self) -> None:
        """The machine forgets its lookups: who awaits them should not do so for ever."""
        for waiter in self._waiters.values():
            waiter.event.set()

    # --- time

    def _now(self) -> float:
        return self._offset_s + anyio.current_time()

    def _set_clock(self) -> None:
        self._offset_s = self._ports.wall_clock() - anyio.current_time()

    async def _watch_clock(self) -> None:
        while True:
            await anyio.sleep(CLOCK_LOOK_S)
            step_s = self._ports.wall_clock() - self._now()
            if abs(step_s) >= CLOCK_STEP_S:
                logger.warning("the clock jumped, joining again step_s=%.0f", step_s)
                self._set_clock()
                self._start_over()
            elif step_s > 0:
                self._offset_s += step_s  # forward only: the machine's time never goes back

    # --- the loop

    def _on_messages(self, batch: Sequence[Received], _transport_now: float) -> None:
        if self._is_stopped:
            return  # the sockets close in a moment, and cannot answer any more
        now = self._now()
        for message, sender in batch:
            if isinstance(message, DialBackRequest):
                self._dial_back(message, sender)
            elif isinstance(message, DialBackReply):
                self._reach.answered(message, sender)
            else:
                self._machine.receive(message, sender, now)
        self._pump()

    def _dial_back(self, request: DialBackRequest, sender: Contact) -> None:
        if self._tasks is not None and self._dial_backs.take(sender, anyio.current_time()):
            self._tasks.start_soon(self._dial_backs.serve, request, sender, self._transport.send)

    def _on_event(self, event: TransportEvent, _transport_now: float) -> None:
        if isinstance(event, PeerMet):
            if event.record is not None:
                self._ports.on_met(first_contact_of(event.record.record, self._settings.rules.id_check))
        elif isinstance(event, OwnAddressChanged):
            is_news = event.address.host != self._address.host
            if is_news and self._settings.is_address_guessed:  # what the operator stated stays
                logger.warning("this peer's address changed, joining again at its new positions")
                self._address = Address(host=event.address.host, port=self._address.port)
                self._start_over()
                self._reach.test_again()

    def _pump(self) -> None:
        """Perform all effects; those that performing causes come after them, in the same call."""
        if self._is_pumping:
            return
        self._is_pumping = True
        try:
            while effects := self._machine.take_effects():
                for effect in effects:
                    self._perform(effect)
        finally:
            self._is_pumping = False
        record = self._machine.record
        if record is not None and record is not self._last_record:
            self._last_record = record
            self._ports.on_record(record)
        if len(self._machine.table) != self._table_size:
            self._table_size = len(self._machine.table)
            self._reach.table_changed()
        deadline = self._machine.next_deadline()
        if deadline != self._armed_for and (self._armed_for is None or (deadline or 0) < self._armed_for):
            self._deadline_moved.set()

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Send(to=to, message=message):
                self._transport.send(message, to)
            case LookupDone():
                waiter = self._waiters.get(effect.id)
                if waiter is not None:
                    waiter.done = effect
                    waiter.event.set()
            case JoinFailed():
                self._join_later()
            case PositionTaken():
                self._take_another_slot(effect)
            case ArcsChanged() | RingChanged() | PeerChanged() | Joined():
                self._tell(effect)

    def _tell(self, event: RingEvent) -> None:
        for subscription in self._subscriptions:
            subscription.put(event)

    async def _keep_time(self) -> None:
        while True:
            self._deadline_moved = anyio.Event()
            deadline = self._armed_for = self._machine.next_deadline()
            wait_s = float("inf") if deadline is None else max(0.0, deadline - self._now())
            with anyio.move_on_after(wait_s):
                await self._deadline_moved.wait()
            self._armed_for = None
            self._machine.advance(self._now())
            self._pump()
            await anyio.lowlevel.checkpoint()

    # --- reachability

    def test_reachability(self) -> None:
        """The router's mapping is another: ask again who can reach us."""
        self._reach.test_again()

    def advertise_port(self, port: int) -> None:
        """A router gives our port this number outside: our record says so from now on."""
        if port == self._address.port or self._is_stopped:
            return
        logger.info("this peer's port has another number outside port=%d", port)
        self._address = Address(host=self._address.host, port=port)
        self._start_over()
        self._reach.test_again()

    def other_members_that_are_well(self) -> list[Contact]:
        """Who owns keys and answers: the first contact of each."""
        unwell = {peer for peer, _ in self._machine.statistics().unwell} | {self._peer}
        records = (
            signed.record for peer, signed in self._machine.table.records.items() if peer not in unwell
        )
        id_check = self._settings.rules.id_check
        return [first_contact_of(record, id_check) for record in records if not record.flags & LEAF]

    def take_standing(self, standing: Reachability) -> None:
        """A leaf and a member differ in their positions: either is a machine of its own, which joins anew."""
        is_leaf = standing is Reachability.LEAF
        if is_leaf == self._is_leaf or self._is_stopped:
            return
        self._is_leaf = is_leaf
        had_arcs = bool(self._machine.arcs())
        self._start_over()
        if is_leaf and had_arcs:
            self._tell(ArcsChanged(arcs=()))

    # --- joining

    def _take_another_slot(self, taken: PositionTaken) -> None:
        """Another peer behind our address is there already, or was there first: the next slot, then."""
        if taken.contact != self._machine.me or self._are_slots_taken:
            return  # said by a machine that we have left behind, or known already
        self._slots_taken.add(self._slot)
        free = [slot for slot in range(SLOTS) if slot not in self._slots_taken]
        if not free:
            logger.error("all slots of this address are taken, trying again in minutes slots=%d", SLOTS)
            self._are_slots_taken = True
            self._join_later()
            return
        before, self._slot = self._slot, free[0]
        holder = address_text(taken.holder.address)
        logger.warning(
            "our position is taken, joining in another slot slot=%d taken=%d by=%s", free[0], before, holder
        )
        self._start_over()

    def _start_over(self) -> None:
        """As after a restart: a new machine that knows whom to ask."""
        self._restarts += 1
        known = [
            first_contact_of(s.record, self._settings.rules.id_check)
            for s in self._machine.table.records.values()
            if not s.record.flags & LEAF
        ]
        self._end_waiting()
        self._failed_joins = 0
        self._is_join_due = False
        self._machine = self._new_machine(self._machine.own_record.incarnation)
        others = [contact for contact in known if contact.peer != self._peer] or self._contacts
        if others:
            self._machine.join(others, self._now())
        else:
            self._machine.create(self._now())
        self._deadline_moved.set()
        self._pump()

    async def meet(self, address: Address) -> Contact | None:
        """Who is at this address? None when nobody of our network answers."""
        return await self._meeting.meet(address)

    async def join(self, addresses: Sequence[Address]) -> bool:
        """Join the ring of whoever answers; False when nobody does, and we are a ring of one until somebody is met."""
        contacts = await self._meeting.meet_some(addresses)
        self._believe_where_we_are()
        now = self._now()
        self._contacts = contacts
        is_untested = self._settings.dial_backs_wanted > 0 and self._reach.standing is Reachability.UNKNOWN
        if contacts and is_untested and not self._is_leaf:
            self._is_leaf = True  # until others have reached us, or the ring turns out too small to ask
            self._machine = self._new_machine(self._machine.own_record.incarnation)
        if contacts:
            self._machine.join(contacts, now)
        else:
            self._machine.create(now)
        self._pump()
        self._has_joined.set()
        return bool(contacts)

    def _believe_where_we_are(self) -> None:
        """A peer that does not know its outside address takes what most of those whom it met saw."""
        host = self._meeting.seen_host() if self._settings.is_address_guessed else None
        if host is not None and host != self._address.host:
            self._address = Address(host=host, port=self._address.port)
            self._machine = self._new_machine(self._machine.own_record.incarnation)

    async def show(self, address: Address) -> bool:
        """Somebody says that a peer is there: if it is one we do not know, compare tables with it."""
        contact = await self.meet(address)
        return contact is not None and self._compare_with(contact)

    def show_record(self, signed: SignedRecord) -> bool:
        """A signed record of a peer that may be of another part of our ring."""
        return self._compare_with(first_contact_of(signed.record, self._settings.rules.id_check))

    def _compare_with(self, contact: Contact) -> bool:
        if contact.peer == self._peer or contact.peer in self._machine.table.records:
            return False
        self._machine.merge(contact, self._now())
        self._pump()
        return True

    def is_known(self, address: Address) -> bool:
        return any(address in signed.record.addresses for signed in self._machine.table.records.values())

    def knows(self, peer: PeerKey) -> bool:
        """Is it in our table, a leaf perhaps, ourselves included?"""
        return peer in self._machine.table.records

    def _join_later(self) -> None:
        self._is_join_due = True
        self._join_failed.set()

    async def _join_again(self) -> None:
        """After a failed join: try again for as long as it takes, as a ring of one before long."""
        while True:
            await self._join_failed.wait()
            self._join_failed = anyio.Event()
            wait_s = JOIN_AGAIN_S[min(self._failed_joins, len(JOIN_AGAIN_S) - 1)]
            if self._are_slots_taken:
                wait_s = SLOTS_AGAIN_S
            await anyio.sleep(wait_s * self._ports.random.uniform(0.5, 1.5))
            if self._are_slots_taken:
                self._are_slots_taken = False
                self._slots_taken.clear()
                self._slot = self._settings.slot
                self._start_over()
            elif self._is_join_due:  # else we started over meanwhile
                self._is_join_due = False
                self._failed_joins += 1
                self._join_or_be_alone()

    def _join_or_be_alone(self) -> None:
        now, records = self._now(), self._machine.table.records.values()
        id_check = self._settings.rules.id_check
        known = [first_contact_of(s.record, id_check) for s in records if not s.record.flags & LEAF]
        contacts = [contact for contact in (*known, *self._contacts) if contact.peer != self._peer]
        is_in_ring = any(node.is_member for node in self._machine.nodes)
        if is_in_ring or self._failed_joins < JOINS_BEFORE_ALONE:
            logger.warning("joining failed, trying again attempt=%d", self._failed_joins)
            self._machine.join(contacts, now)
        else:
            logger.warning("joining failed, a ring of its own for now attempt=%d", self._failed_joins)
            self._machine.create(now)
            for contact in contacts[:MEET_AT_ONCE_MAX]:
                self._machine.merge(contact, now)
        self._pump()

    async def _test_reachability(self) -> None:
        await self._has_joined.wait()
        await self._reach.run()

    async def run(self, transport: UdpTransport, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        self._transport = transport
        self._set_clock()
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            work_of_all = (self._keep_time, self._watch_clock, self._join_again)
            for work in (*work_of_all, self._test_reachability):
                tasks.start_soon(work)
            task_status.started()


@asynccontextmanager
async def open_node(
    settings: NodeSettings,
    key: Ed25519PrivateKey,
    ports: NodePorts,
    listen: Sequence[tuple[str, int]],
    notary: Notary | None = None,
    open_transport: OpenTransport = open_udp,
) -> AsyncIterator[RingNode]:
    """A node that listens, and is in no ring until `join` is called. Raises OSError when the address is taken.

    `open_transport` has the shape of `open_udp`; simulations bring their own.
    """
    node = RingNode(settings, key, ports, notary, [host for host, _ in listen])
    async with (
        open_transport(
            node.endpoint, listen, on_messages=node._on_messages, on_event=node._on_event
        ) as transport,
        anyio.create_task_group() as tasks,
    ):
        await tasks.start(node.run, transport)
        try:
            yield node
        finally:
            node._is_stopped = True
            tasks.cancel_scope.cancel()
