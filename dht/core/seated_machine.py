"""How does a peer live in the ring, from its first join to its goodbye? As a row of machines, one at a time.

    seated = SeatedMachine(record=..., build=..., given=..., id_check="ip", random=Random(seed))
    loop: tell(event, now) / seated.machine.receive(message, sender, now) / advance(now);
          then take_effects(now) until there are none; wait until next_deadline()

`SeatKeeper` decides, and here its orders are carried out on the machine. Shells and simulators drive this one class;
they are told each order after it was carried out, for what is theirs: to log, to end the waiting for lookups of a
machine that is gone, to test reachability again.
"""

from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Final

from msgspec.structs import replace

from dht.core.effects import ArcsChanged, Effect, JoinFailed, PositionTaken, SeatOver
from dht.core.ids import IdCheck
from dht.core.machine import RingMachine
from dht.core.places import moved, moves_at_will
from dht.core.records import CLOSED, LEAF, SLOW, Birth, Contact, Line, PeerRecord, first_contact_of
from dht.core.seat import (
    CreateRing,
    JoinRing,
    LeaveRing,
    MoveTo,
    NameRelays,
    Restored,
    RetestReachability,
    Seat,
    SeatEvent,
    SeatKeeper,
    SeatOrder,
    StartMachine,
    WaitForSlot,
)

Build = Callable[[PeerRecord], RingMachine]

_FOR_THE_SEAT: Final = frozenset((JoinFailed, PositionTaken, SeatOver))


class SeatedMachine:
    __slots__ = (
        "_build",
        "_given",
        "_id_check",
        "_news",
        "_next_birth",
        "_on_order",
        "_others",
        "_virtual_nodes",
        "keeper",
        "machine",
    )

    def __init__(
        self,
        *,
        record: PeerRecord,
        build: Build,
        given: Callable[[], Iterable[Contact]],
        id_check: IdCheck,
        random: Random,
        on_order: Callable[[SeatOrder], None] = lambda _order: None,
        is_address_guessed: bool = False,
        is_tested_first: bool = False,
    ) -> None:
        """`given` are contacts from elsewhere (an operator, the last run), asked for whenever we must join."""
        self.keeper = SeatKeeper(
            Seat.of(record),
            self.contacts,
            self.is_member,
            random,
            keeps_positions=self.keeps_positions,
            is_address_guessed=is_address_guessed,
            is_tested_first=is_tested_first,
        )
        self.machine = build(record)
        self._build = build
        self._others = record.lines[1:]  # that no position follows from
        self._given = given
        self._id_check: IdCheck = id_check
        self._virtual_nodes = record.virtual_nodes  # when it is a member
        self._on_order = on_order
        self._news: list[Effect] = []
        self._next_birth: SeatOver | None = None

    # --- events

    def tell(self, event: SeatEvent, now: float) -> None:
        self._carry_out(self.keeper.tell(event, now), now)

    def restore(self, lists: Sequence[tuple[Contact | None, tuple[Contact, ...]]], now: float) -> None:
        """As `RingMachine.restore`, in place of a search and a join."""
        self.tell(Restored(), now)
        self.machine.restore(lists, now)

    def advance(self, now: float) -> None:
        if self.keeper.due_at is not None:
            self._carry_out(self.keeper.advance(now), now)
        self.machine.advance(now)

    def next_deadline(self) -> float | None:
        due_at, deadline = self.keeper.due_at, self.machine.next_deadline()
        if due_at is None:
            return deadline
        return due_at if deadline is None else min(due_at, deadline)

    def take_effects(self, now: float) -> list[Effect]:
        """All effects of the machine, those too that the seat has heard. Ask again until there are none: what the
        seat ordered has effects as well.
        """
        machine = self.machine
        effects = machine.take_effects()
        for effect in effects:
            # Two positions may be taken at once: after the first the machine that says so is no longer ours.
            if effect.__class__ in _FOR_THE_SEAT and machine is self.machine:
                assert isinstance(effect, (JoinFailed, PositionTaken, SeatOver))
                if isinstance(effect, SeatOver):
                    self._next_birth = effect
                self.tell(effect, now)
        if self._news:
            effects = [*effects, *self._news]
            self._news = []
        return effects

    def name_lines(self, others: tuple[Line, ...], now: float) -> None:
        """Where else we are called, from now on."""
        self._others = others
        self.machine.name_lines(others, now)

    # --- what the seat asks

    def contacts(self) -> list[Contact]:
        me = self.machine.me.peer
        owners = (s.record for s in self.machine.table.records.values() if not s.record.flags & LEAF)
        found = {record.peer: first_contact_of(record, self._id_check) for record in owners}
        for contact in self._given():
            found.setdefault(contact.peer, contact)
        found.pop(me, None)
        return list(found.values())

    def is_member(self) -> bool:
        return any(node.is_member for node in self.machine.nodes)

    def keeps_positions(self) -> bool:
        machine = self.machine
        is_member = bool(machine.nodes) and all(node.is_member for node in machine.nodes)
        return is_member and machine.own_record.seat is not None

    # --- orders

    def _carry_out(self, orders: list[SeatOrder], now: float) -> None:
        for order in orders:
            match order:
                case StartMachine():
                    self._start(order.seat)
                case MoveTo():
                    self.machine.move(Line.at(order.seat.address), now)
                case JoinRing():
                    self.machine.join(order.contacts, now)
                case CreateRing():
                    self.machine.create(now)
                    for contact in order.meet:
                        self.machine.merge(contact, now)
                case NameRelays():
                    self.machine.name_relays(order.relays, now, is_closed=order.is_closed)
                case LeaveRing():
                    self.machine.leave(now)
                case WaitForSlot() | RetestReachability():
                    pass  # for the shell alone
            self._on_order(order)

    def _seat_in(self, slot: int, last: RingMachine) -> Birth | None:
        if self._next_birth is not None:
            return self._next_birth.birth
        return last.own_record.seat if slot == 0 else None

    def _start(self, seat: Seat) -> None:
        """From the incarnation of the last machine on: the others take the newer of two records.

        Its seat goes along.  A member of age that sits elsewhere without one begins its age anew, or nobody would take
        its record (`places.moves_at_will`).
        """
        last, rules = self.machine, self.machine.rules.places
        record = replace(
            last.own_record,
            lines=(Line.at(seat.address), *self._others),
            slot=seat.slot,
            virtual_nodes=1 if seat.is_leaf else self._virtual_nodes,  # a leaf has none: weigh little
            flags=last.own_record.flags & SLOW
            | (LEAF if seat.is_leaf else 0)
            | (CLOSED if seat.is_closed else 0),
            relays=seat.relays,
            seat=self._seat_in(seat.slot, last),
            trail=moved(last.own_record, seat.address.host, rules),
        )
        self._next_birth = None
        if rules.by == "prefix" and moves_at_will(record, last.own_record, rules):
            record = replace(record, since=0, trail=())  # from the day on which the machine begins
        self.machine = self._build(record)
        assert self.machine.me.peer == last.me.peer
        if seat.is_leaf and last.arcs():
            self._news.append(ArcsChanged(arcs=()))  # the new machine never had any, so it reports none
