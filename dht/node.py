"""How does a peer take part in a ring? The shell that drives a `SeatedMachine` over a transport.

`MachineLoop` calls the machine when something happened or is due; here its effects are performed, and those who ask
about the ring are answered. The finders show us other peers (`meet`, `show`). What belongs to whom the machine decides,
and when to join again, or elsewhere, its seat.

A machine that ends (we leave, or start over) forgets its lookups, so those who wait are told that there is no answer.
"""

import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType

import anyio
import anyio.abc
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dht.cold_dials import ColdDials
from dht.core.effects import Effect, JoinFailed, LookupDone, PositionTaken, SeatOver, Send
from dht.core.frames import Address as SocketAddress
from dht.core.ids import Key, PeerKey
from dht.core.machine import RingMachine
from dht.core.messages import (
    CallsFail,
    DialBackReply,
    DialBackRequest,
    Knock,
    Knocked,
    Message,
    Post,
    Posted,
    ShortAnswer,
    ShortCall,
    StrangerDial,
    StrangerDialled,
)
from dht.core.reachability import Reachability, StandingChanged
from dht.core.reader import STAND_INS, RingReader, is_ideal, is_joined
from dht.core.records import (
    RECORD_VERSION,
    RELAY_BYTES,
    RELAYS_MAX,
    Address,
    Contact,
    Line,
    Notary,
    PeerRecord,
    SignedRecord,
    first_contact_of,
)
from dht.core.seat import (
    CreateRing,
    HostSeen,
    JoinRing,
    LeaveAsked,
    LeaveRing,
    OpenElsewhere,
    PortFound,
    Reason,
    RelaysKept,
    RetestReachability,
    SearchEnded,
    SeatOrder,
    StartMachine,
    WaitForSlot,
)
from dht.core.seated_machine import SeatedMachine
from dht.core.unanswered import network_of
from dht.dialback import DialBacks
from dht.endpoint import SessionEndpoint, address_text, socket_address
from dht.errors import NoAnswerError
from dht.identity import KeyNotary, Verifier, peer_key
from dht.machine_loop import MachineLoop
from dht.meeting import Meeting
from dht.node_types import NodePorts, NodeSettings, NodeStatistics, OpenTransport, Subscription
from dht.own_reach import OwnReach
from dht.relaying import KEEP_OPEN_S, Relaying
from dht.short_calls import ShortCalls
from dht.transport import OwnAddressChanged, OwnAddressDoubted, PeerMet, Received, TransportEvent
from dht.udp import UdpTransport, open_udp
from dht.ways import Ways

logger = logging.getLogger(__name__)

DATAGRAM_HEAD_BYTES = 28
"""Of UDP and IPv4."""
LOOKUP_S = 60.0
"""A lookup that meets silent peers at each of its hops ends by itself before that."""
LOOK_AROUND_AGAIN_S = 60.0
"""A router that shows each member another port would have us ask at each handshake."""


@dataclass(slots=True)
class _Waiter:
    """A task that awaits a lookup."""

    event: anyio.Event = field(default_factory=anyio.Event)
    holders: tuple[Contact, ...] = ()


_USUAL = frozenset((Reason.SEARCH, Reason.PORT, Reason.REACHABILITY))
"""Nothing an operator would want to act on."""


class RingNode(RingReader):
    """Implements `dht.Ring`. Inside `open_node`; not for use from several threads."""

    def __init__(
        self,
        settings: NodeSettings,
        key: Ed25519PrivateKey,
        ports: NodePorts,
        notary: Notary | None,
        hosts: Sequence[str] = (),
    ) -> None:
        rules = settings.rules
        self._ports = ports
        self._random = ports.random
        self._seats = settings.seats
        verifier = Verifier()
        self._notary = notary or KeyNotary(key, rules.network, verifier, previous=settings.previous_key)
        self._rules = rules
        self._transport: UdpTransport
        self.endpoint = SessionEndpoint(
            key=key,
            network=rules.network,
            id_check=rules.id_check,
            record=lambda: self.record,
            entropy=ports.entropy,
            limits=settings.limits,
            verifier=verifier,
            spared=_spared_network(settings),
        )
        self._contacts: list[Contact] = []  # whom the first search found
        self._seated = SeatedMachine(
            record=_first_record(settings, key),
            build=self._new_machine,
            given=lambda: self._contacts,
            id_check=rules.id_check,
            random=ports.random,
            on_order=self._heed,
            is_address_guessed=settings.is_address_guessed,
            is_tested_first=settings.dial_backs_wanted > 0,
        )
        self._loop = MachineLoop(self._seated, ports.wall_clock, self._perform, self._settled)
        self._dial_backs = DialBacks(rules.network, hosts, ports.entropy, ports.dial_back, ports.dial_stream)
        self._cold_dials = ColdDials(
            self,
            self.endpoint.link,
            self._dial_backs,
            send=self._send,
            entropy=ports.entropy,
            random=ports.random,
        )
        reach_of = partial(
            OwnReach,
            settings.dial_backs_wanted,
            self,
            self.endpoint.link.strangers,
            send=lambda message, to: self._transport.send(message, to, is_strict=True),
            entropy=ports.entropy,
            random=ports.random,
            inside=settings.inside,
            streamed_to=ports.streamed_to,
        )
        self._reach = reach_of(tell=self._found_first, on_failed=ports.on_failed_test)
        self._is_address_guessed = settings.is_address_guessed
        self._other = settings.others[0] if settings.others else None
        self._other_reach = reach_of(
            tell=self._found_other,
            on_failed=ports.on_failed_test,
            at=lambda: None if self._other is None else self._other.address,
        )
        self._relaying = Relaying(self.endpoint, self, record=lambda: self.record)
        self._ways = Ways(
            self.endpoint, self, lambda: self.machine.own_record.lines, {":" in host for host in hosts}
        )
        self.endpoint.way_to = self._way_to
        self.endpoint.contact_of = self._known_contact
        self.short_calls = ShortCalls(self._send, ports.random)
        """Small questions of the parts above the ring."""
        self._meeting = Meeting(peer_key(key), lambda: self._transport)
        self._lookups: dict[int, _Waiter] = {}
        self._subscriptions: list[Subscription] = []
        self._tasks: anyio.abc.TaskGroup | None = None
        self._looked_around_at = float("-inf")
        self._has_searched = anyio.Event()
        self._table_size = 0
        self._heard_at: float | None = None
        self._last_record: SignedRecord | None = None

    def _new_machine(self, record: PeerRecord) -> RingMachine:
        return RingMachine(
            record=record, rules=self._rules, notary=self._notary, random=self._random, seats=self._seats
        )

    # --- what the peer asks, beside what any reader may

    @property
    def machine(self) -> RingMachine:
        return self._seated.machine

    async def owner(self, key: Key) -> Contact:
        """Who answers for the key, as the ring says. Raises `NoAnswerError`."""
        return (await self.holders(key, 1))[0]

    async def prompt_owner(self, key: Key) -> Contact:
        """The owner, or the next holder that stands in for it while its line is slow. Raises `NoAnswerError`."""
        return self.prompt_of(await self.holders(key, min(STAND_INS, self._rules.holders.copies)))

    async def holders(self, key: Key, copies: int) -> tuple[Contact, ...]:
        """The owner and the other holders; fewer where the ring is smaller. Raises `NoAnswerError`.

        Where copies count by place the table says who: what the ring answers are the hosts after a key.
        """
        is_by_place = not self._rules.holders.is_plain
        if is_by_place and self.machine.knows_all and (known := self.holders_by_place(key, copies)):
            return known
        lookup_id = self.machine.lookup(key, self._loop.now())
        waiter = self._lookups[lookup_id] = _Waiter()
        try:
            self._loop.pump()  # may end the lookup at once
            with anyio.move_on_after(LOOKUP_S):
                await waiter.event.wait()
        finally:
            del self._lookups[lookup_id]
        if not waiter.holders:
            raise NoAnswerError(key.hex())
        if is_by_place:
            return self.holders_by_place(key, copies, waiter.holders)
        return self.filled_up(waiter.holders, key, copies)

    @contextmanager
    def events(self) -> Iterator[Subscription]:
        """Changes of arcs, neighbours and clocks from now on."""
        subscription = Subscription()
        self._subscriptions.append(subscription)
        try:
            yield subscription
        finally:
            self._subscriptions.remove(subscription)

    def frames_received(self) -> Mapping[bytes, int]:
        """By each key with an open session, the sealed frames that it has sent us over the sessions now open.

        Where the number differs from that of before, the key was there in the meantime.
        """
        frames: Counter[bytes] = Counter()
        for session in self.endpoint.link.sessions:
            frames[session.public_key] += session.window.top
        return frames

    def sent_bytes(self) -> int:
        """By datagrams since the start, with the headers of UDP and IP."""
        return self.endpoint.bytes_out + DATAGRAM_HEAD_BYTES * self.endpoint.datagrams_out

    def heirs(self) -> Mapping[PeerKey, PeerKey]:
        """Rotated keys, and those that both keys name as the next."""
        return {old: heir for old, (heir, _) in self.machine.table.key_tombs.items()}

    def statistics(self) -> NodeStatistics:
        ring = self.machine.statistics()
        return NodeStatistics(
            ring=ring,
            transport=self._transport.statistics(),
            is_ideal=is_ideal(self.machine, ring),
            is_joined=is_joined(ring),
            restarts=self._seated.keeper.restarts,
            standing=self._reach.machine.standing,
            reachability=self._reach.machine.reason,
            dial_backs=MappingProxyType(dict(self._dial_backs.counts)),
            heard_s=None if self._heard_at is None else anyio.current_time() - self._heard_at,
            slot=self._seated.keeper.seat.slot,
        )

    # --- what the peer tells

    async def join(self, addresses: Sequence[Address]) -> bool:
        """Join the ring of the contact that answers. False if none does: we are a ring of one until we meet one."""
        self._contacts = await self._meeting.meet_some(addresses)
        self._loop.tell(SearchEnded(seen_hosts=self._meeting.seen_hosts()))
        self._has_searched.set()
        return bool(self._contacts)

    def leave(self) -> None:
        """Say goodbye to the ring. Hand over the data first."""
        self._loop.tell(LeaveAsked())

    def advertise_port(self, port: int) -> None:
        """A router gives our port this number outside: our record says so from now on."""
        self._loop.tell(PortFound(port=port))

    def moved_to(self, host: bytes) -> None:
        """This peer is at another address, by its own sight."""
        self._loop.tell(HostSeen(host=host))

    def look_around(self) -> None:
        """This peer's address may have changed: speak with some members, who see where it is."""
        self.machine.look_around(self._loop.now())
        self._loop.pump()

    def _look_around_again(self, now: float) -> None:
        """A second witness comes soon then: by itself only with the next comparison of tables, up to 72 s later."""
        if now >= self._looked_around_at + LOOK_AROUND_AGAIN_S:
            self._looked_around_at = now
            self.look_around()

    def say_slow(self, *, is_slow: bool) -> None:
        """Our line cannot keep up with what others wait for, or can again: our record says so from now on."""
        self.machine.say_slow(is_slow=is_slow, now=self._loop.now())
        self._loop.pump()

    def test_reachability(self) -> None:
        """The router's mapping changed: test our reachability again."""
        self._reach.test_again()

    def has_other(self, line: Line | None) -> None:
        """This is our line in the other family now. It is told at once, and tested."""
        if line != self._other:
            self._other = line
            self._other_reach.begin_again()
            self._name_other()

    def goes_to(self, address: Address) -> None:
        """Nothing leads out any more in the family of our first line; this is where we are in the other one."""
        self._loop.tell(OpenElsewhere(address=address))

    def test_other(self) -> None:
        """Perhaps our line in the other family is open now."""
        self._other_reach.test_again()

    def _name_other(self) -> None:
        """In our record, but where strangers did not get through to it."""
        is_open = self._other_reach.machine.standing is not Reachability.LEAF
        lines = () if self._other is None or not is_open else (self._other,)
        self._seated.name_lines(lines, self._loop.now())
        self._loop.pump()

    def _found_first(self, found: StandingChanged) -> None:
        """The first line is dead: is the other one alive, now?"""
        self._loop.tell(found)
        if found.standing is Reachability.LEAF and self._other is not None:
            self._other_reach.begin_again()

    def _found_other(self, found: StandingChanged) -> None:
        first, other = self._reach.machine, self._other_reach.machine
        is_open = found.standing is Reachability.MEMBER and other.is_tested
        is_instead = is_open and first.standing is Reachability.LEAF and self._is_address_guessed
        if is_instead and self._other is not None:
            logger.info("the first line is dead, and the other one is open")
            line, self._other = self._other, None
            self._seated.name_lines((), self._loop.now())
            self._loop.tell(OpenElsewhere(address=line.address))
        else:
            self._name_other()

    def tell_calls_fail(self, peer: PeerKey) -> None:
        """Our streams do not get through to this member: it may not know."""
        record = self.record_of(peer)
        if record is not None:
            self._send(CallsFail(id=0), first_contact_of(record, self._rules.id_check))

    def forget_previous_key(self) -> None:
        """The ring knows our rotated key by now: renew our record without the old one."""
        self.machine.forget_previous_key(self._loop.now())
        self._loop.pump()

    @property
    def is_closed(self) -> bool:
        """Has a test shown that others cannot call us?"""
        return self._reach.machine.standing is Reachability.LEAF

    def keep_relays(self, relays: Sequence[PeerKey], *, is_member: bool) -> None:
        """These keep a line of ours; `is_member`: for so long that we may own keys."""
        named = tuple(relay[:RELAY_BYTES] for relay in relays[:RELAYS_MAX])
        self._loop.tell(RelaysKept(relays=named, is_member=is_member))

    async def _keep_relays_open(self) -> None:
        """Those that our record names reach us by datagram for as long as this runs."""
        while True:
            relays = self.own_relays()
            if relays:
                self._relaying.keep_open(relays, anyio.current_time())
                self._transport.settle()
            await anyio.sleep(KEEP_OPEN_S)

    async def meet(self, address: Address) -> Contact | None:
        """The peer at this address; None if no peer of our network answers."""
        return await self._meeting.meet(address)

    def near(self, peer: PeerKey) -> SocketAddress | None:
        """Where this peer is inside our own network, if it was met there and is behind our router."""
        return self._ways.near(peer, anyio.current_time())

    async def answers(self, address: Address) -> bool:
        """Did a peer answer our datagrams there?  If not, it is asked now: no stream is opened to who is silent."""
        if self.endpoint.has_answered(address):
            return True
        return await self._meeting.meet(address, is_chosen=False) is not None

    async def show(self, address: Address) -> bool:
        """Somebody says that a peer is there: if it is one we do not know, compare tables with it."""
        contact = await self.meet(address)
        return contact is not None and self._compare_with(contact)

    def show_record(self, signed: SignedRecord) -> bool:
        """A signed record of a peer that may be of another part of our ring."""
        return self._compare_with(first_contact_of(signed.record, self._rules.id_check))

    def _compare_with(self, contact: Contact) -> bool:
        if contact.peer == self.me.peer or self.knows(contact.peer):
            return False
        self.machine.merge(contact, self._loop.now())
        self._loop.pump()
        return True

    # --- what the transport and the machine tell

    def _on_messages(self, batch: Sequence[Received], transport_now: float) -> None:
        if self._loop.is_stopped:
            return
        self._heard_at = transport_now
        for_machine = []
        for message, sender in batch:
            match message:
                case DialBackRequest():
                    self._dial_back(message, sender)
                case DialBackReply():
                    self._reach.answered(message, sender)
                    self._other_reach.answered(message, sender)
                case StrangerDial():
                    self._dial_as_stranger(message, sender)
                case StrangerDialled():
                    self._cold_dials.answered(message, sender)
                case CallsFail():
                    self._reach.calls_fail(sender)
                    self._other_reach.calls_fail(sender)
                case Knock() | Knocked() | Post() | Posted():
                    inside = self._relaying.receive(message, sender, transport_now)
                    if inside:
                        self._on_messages(inside, transport_now)
                case ShortCall():
                    self.short_calls.arrived(message, sender)
                case ShortAnswer():
                    self.short_calls.answered(message, sender)
                case _:
                    for_machine.append((message, sender))
        self._loop.receive(for_machine)

    def _known_contact(self, peer: PeerKey) -> Contact | None:
        record = self.record_of(peer)
        return None if record is None else first_contact_of(record, self._rules.id_check)

    def _dial_back(self, request: DialBackRequest, sender: Contact) -> None:
        address = socket_address(sender.address.host, request.udp)
        what = (sender.peer, request.id)
        if self._tasks is not None and self._dial_backs.take(what, address, anyio.current_time()):
            by_stranger = self._cold_dials.by_stranger
            self._tasks.start_soon(self._dial_backs.serve, request, sender, self._send, by_stranger)

    def _dial_as_stranger(self, request: StrangerDial, asker: Contact) -> None:
        if self._tasks is not None and self._cold_dials.take(request, asker, anyio.current_time()):
            self._tasks.start_soon(self._cold_dials.serve, request, asker)

    def _on_event(self, event: TransportEvent, _transport_now: float) -> None:
        match event:
            case OwnAddressChanged(address=address):
                self._loop.tell(HostSeen(host=address.host))
            case OwnAddressDoubted():
                self._look_around_again(self._loop.now())
            case PeerMet(record=SignedRecord(record=record)):
                self._ports.on_met(first_contact_of(record, self._rules.id_check))

    def _send(self, message: Message, to: Contact) -> None:
        self._transport.send(message, to)

    def _way_to(self, to: Contact, target: SocketAddress, now: float) -> tuple[SocketAddress, bool]:
        is_by_relay = self.is_apart(to.peer) or self.relays_of(to.peer)
        way = target if is_by_relay else self._ways.way_to(to, target, now)
        return (way, False) if way != target else self._relaying.way_to(to, target, now)

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Send(to=to, message=message):
                self._send(message, to)
            case LookupDone(id=lookup_id, holders=holders) if lookup_id in self._lookups:
                self._lookups[lookup_id].holders = holders
                self._lookups[lookup_id].event.set()
            case PositionTaken(holder=holder):
                logger.warning("our position is taken by=%s", address_text(holder.address))
            case JoinFailed() | LookupDone() | SeatOver():
                pass  # the seat's order says what comes of it; nobody waits for the lookup any more
            case _:
                for subscription in self._subscriptions:
                    subscription.put(effect)

    def _heed(self, order: SeatOrder) -> None:
        """What the seat has just had done."""
        match order:
            case StartMachine(seat=seat, reason=reason):
                self._end_lookups()
                level = logging.INFO if reason in _USUAL else logging.WARNING
                logger.log(level, "joining as a new machine reason=%r slot=%d", reason.value, seat.slot)
            case JoinRing(failed=failed) if failed:
                logger.warning("joining failed, trying again attempt=%d", failed)
            case CreateRing(failed=failed) if failed:
                logger.warning("joining failed, a ring of its own for now attempt=%d", failed)
            case LeaveRing():
                self._end_lookups()
            case WaitForSlot():
                logger.error("all slots of this address are taken, trying again in minutes")
            case RetestReachability():
                self.endpoint.link.moved()
                self._reach.test_again()

    def _end_lookups(self) -> None:
        """The machine that was asked is gone."""
        for waiter in self._lookups.values():
            waiter.event.set()

    def _settled(self) -> None:
        record = self.record
        if record is not None and record is not self._last_record:
            self._last_record = record
            self._ports.on_record(record)
        if len(self.machine.table) != self._table_size:
            self._table_size = len(self.machine.table)
            self._reach.table_changed()
            self._other_reach.table_changed()

    # --- life

    async def _test_reachability(self) -> None:
        await self._has_searched.wait()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._reach.run)
            tasks.start_soon(self._other_reach.run)

    async def run(self, transport: UdpTransport, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        self._transport = transport
        self._loop.start_clock()
        async with anyio.create_task_group() as tasks:
            self._tasks = self.short_calls.tasks = tasks
            for work in (
                self._keep_relays_open,
                self._loop.keep_time,
                self._loop.watch_clock,
                self._test_reachability,
            ):
                tasks.start_soon(work)
            task_status.started()

    def stop(self) -> None:
        self._loop.is_stopped = True


def _spared_network(settings: NodeSettings) -> bytes:
    """In a laboratory, whose members trust each other and sit behind one address, it is theirs to fill."""
    if settings.rules.places.by != "peer":
        return b""
    return network_of(socket_address(settings.address.host, settings.address.port))


def _first_record(settings: NodeSettings, key: Ed25519PrivateKey) -> PeerRecord:
    """The machine numbers and dates it."""
    return PeerRecord(
        version=RECORD_VERSION,
        network=settings.rules.network,
        peer=peer_key(key),
        lines=(Line.at(settings.address), *settings.others),
        slot=settings.slot,
        virtual_nodes=settings.virtual_nodes,
        incarnation=settings.incarnation,
        issued_s=0,
        expires_s=1,
        flags=0,
        previous=b"" if settings.previous_key is None else peer_key(settings.previous_key),
        since=settings.since,
        trail=settings.trail,
        seat=settings.seat,
    )


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
            node.stop()
            tasks.cancel_scope.cancel()
