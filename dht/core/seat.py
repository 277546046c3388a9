"""Where does a peer sit in the ring, and what does it do when it cannot sit there?

A seat is an address, a slot among the peers behind that address, and whether the peer may own keys (a leaf may not).
Positions on the circle follow from the seat, so a peer that changes its seat is a new `RingMachine`, which joins as
after a restart. `SeatKeeper` decides when that happens. It takes events and gives orders, and the four phases are

    event \\ phase     SEARCHING        IN                  WAITING            FULL
    SearchEnded       join or create   -                   -                  -
    Restored          IN               -                   -                  -
    JoinFailed        -                WAITING             -                  -
    PositionTaken     -                the next slot       the next slot      -
                                       or FULL             or FULL
    HostSeen          another seat     move, or start      start over there   start over there
                                       over there
    PortFound         another seat     move, or start      start over there   start over there
                                       over there
    OpenElsewhere     another seat     move, or start      start over there   start over there
                                       over there
    StandingChanged   another seat     start over          start over         start over
    RelaysKept        another seat     a new record, or    a new record, or   a new record, or
                                       start over          start over         start over
    ClockJumped       -                start over          start over         start over
    SeatOver          -                start over          start over         start over
    (its time comes)                                       join or create     first slot, start over
    LeaveAsked        goodbye; from here on every event is ignored

IN means that the machine is at it: it joins, or it is a member, or a ring of one. To *start over* is: a new machine,
which joins through the members that the old one knew and through the contacts that we were given; without any of both
it creates a ring of one. (The finders will show it others, and it merges with them.) To *move* is: the same machine
goes on where it sits, for its positions are those of a seat that it took before, and the others are told its address.

What is not known here: clocks, sockets, the machine. `dht.core.seated_machine` carries out the orders.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from random import Random
from typing import Final

from dht.core.effects import JoinFailed, PositionTaken, SeatOver
from dht.core.reachability import Reachability, StandingChanged
from dht.core.records import LEAF, SLOTS, Address, Contact, PeerRecord

JOIN_AGAIN_S: Final = (1.0, 2.0, 5.0, 10.0, 30.0)
"""Waits between joins, then always the last, each times 0.5 to 1.5. A ring that is just starting answers within
seconds; a network that is down may be so for hours.
"""
SLOTS_AGAIN_S = (30.0, 300.0)
"""When all slots behind our address are taken: peers leave rarely, and each try calls those who have them. Soon the
first time: of peers that were started together some are still on their way to another slot.
"""
JOINS_BEFORE_ALONE: Final = 2
"""Peers that were started together may all wait for each other's ring: so many failures, and we are one."""
MEET_MAX: Final = 16
"""Contacts shown to a new ring of one; each costs a handshake, and the others will be found through these."""


class Phase(Enum):
    SEARCHING = "searching"  # nobody has been asked to let us in yet
    IN = "in"
    WAITING = "waiting"  # joining failed; again at `due_at`
    FULL = "full"  # all slots are taken; again at `due_at`
    LEFT = "left"


class Reason(Enum):
    """Why a new machine is started."""

    SEARCH = "what the first contacts told us"
    HOST = "this peer's address changed"
    FAMILY = "others reach this peer in its other family alone"
    PORT = "this peer's port has another number outside"
    REACHABILITY = "it was found out whether others can reach this peer"
    CLOCK = "the clock jumped"
    SLOT_TAKEN = "our position is taken"
    SEAT = "our seat has lasted its days"
    SLOTS_AGAIN = "a slot may be free again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """What our positions follow from."""

    address: Address
    slot: int
    is_leaf: bool = False
    relays: tuple[bytes, ...] = ()
    """How the keys begin of those that pass on what others want of us."""
    is_closed: bool = False
    """Nobody can call us here but by these; else they are for those of another family."""

    @staticmethod
    def of(record: PeerRecord) -> "Seat":
        return Seat(address=record.address, slot=record.slot, is_leaf=bool(record.flags & LEAF))


# --- events


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchEnded:
    """The first search for a ring is over. Who answered is among the contacts to join through."""

    seen_hosts: tuple[bytes, ...] = ()  # as which most of those who answered saw us, one of a family at most


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """The machine was given its neighbours: large rings of a simulator begin so, and search nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSeen:
    """Others see us at this host now."""

    host: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PortFound:
    """A router gives our port this number outside."""

    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenElsewhere:
    """Strangers get through to us at this address of the other family, and not at our first; or that family is gone."""

    address: Address


@dataclass(frozen=True, slots=True, kw_only=True)
class RelaysKept:
    """These keep a line of ours. If nobody can call us, we are a member once they have kept it for long."""

    relays: tuple[bytes, ...]
    is_member: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockJumped:
    """The others have taken us for dead meanwhile, or we would date our records wrongly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveAsked:
    """The peer stops; its data is handed over."""


SeatEvent = (
    SearchEnded
    | Restored
    | JoinFailed
    | PositionTaken
    | SeatOver
    | HostSeen
    | PortFound
    | OpenElsewhere
    | StandingChanged
    | RelaysKept
    | ClockJumped
    | LeaveAsked
)

# --- orders, to be carried out in order


@dataclass(frozen=True, slots=True, kw_only=True)
class StartMachine:
    """Put a new machine in place of the old one, which does nothing any more."""

    seat: Seat
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveTo:
    """The same machine, at another address: its positions are those of its seat (`dht.core.seats`)."""

    seat: Seat


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRing:
    contacts: tuple[Contact, ...]
    failed: int = 0  # joins before this one


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateRing:
    """Be a ring of one, and compare tables with these: they may be in a ring, or start one."""

    meet: tuple[Contact, ...] = ()
    failed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitForSlot:
    """Nothing to do, but an operator may want to know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetestReachability:
    """We are at another address, so what was found out about the old one is void."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NameRelays:
    """Our record says others, and nothing else is different."""

    relays: tuple[bytes, ...]
    is_closed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveRing:
    """Say goodbye to the neighbours."""


SeatOrder = (
    StartMachine | MoveTo | JoinRing | CreateRing | NameRelays | LeaveRing | WaitForSlot | RetestReachability
)


class SeatKeeper:
    """`tell` it what happened, and `advance` it when `due_at` is reached; both give orders."""

    def __init__(
        self,
        seat: Seat,
        contacts: Callable[[], Sequence[Contact]],
        is_member: Callable[[], bool],
        random: Random,
        *,
        keeps_positions: Callable[[], bool] = lambda: False,
        is_address_guessed: bool = False,
        is_tested_first: bool = False,
    ) -> None:
        """`contacts` are those to join through: members that the machine knows, then those given. `is_member`: has the
        machine a position, at least one of several? `keeps_positions`: is it a member at all of them, and are they
        those of a seat, whatever its address is? All are asked at the moment of a decision.

        `is_address_guessed`: nobody stated it, so what others see is better. `is_tested_first`: others must have
        reached us before we own keys.
        """
        self.seat = seat
        self.phase = Phase.SEARCHING
        self.due_at: float | None = None
        self.restarts = 0
        self._contacts = contacts
        self._is_member = is_member
        self._keeps_positions = keeps_positions
        self._random = random
        self._is_address_guessed = is_address_guessed
        self._is_untested = is_tested_first
        self._first_slot = seat.slot
        self._taken: set[int] = set()  # slots of other peers behind our address
        self._times_full = 0  # that all were
        self._is_callable = True  # as far as a test has shown nothing else
        self._is_kept = False  # by relays, for long enough
        self._failed = 0  # joins since the machine was started
        self._orders: list[SeatOrder] = []

    def tell(self, event: SeatEvent, now: float) -> list[SeatOrder]:
        if self.phase is Phase.LEFT:
            return []
        match event:
            case SearchEnded():
                self._begin(event.seen_hosts)
            case Restored():
                self._enter()
            case JoinFailed():
                self._join_failed(now)
            case PositionTaken():
                self._position_taken(now)
            case HostSeen() | OpenElsewhere():
                self._called_at(event)
            case PortFound():
                self._found_port(event.port)
            case StandingChanged():
                self._found_standing(event.standing)
            case RelaysKept():
                self._keep_relays(event)
            case ClockJumped() | SeatOver():
                self._begin_again(Reason.CLOCK if isinstance(event, ClockJumped) else Reason.SEAT)
            case LeaveAsked():
                self.phase, self.due_at = Phase.LEFT, None
                self._orders.append(LeaveRing())
        return self._take_orders()

    def advance(self, now: float) -> list[SeatOrder]:
        if self.due_at is None or now < self.due_at:
            return []
        assert self.phase in (Phase.WAITING, Phase.FULL), self.phase
        if self.phase is Phase.WAITING:
            self._join_again()
        else:
            self._taken.clear()
            self._times_full += 1
            self._start_over(Reason.SLOTS_AGAIN, replace(self.seat, slot=self._first_slot))
        return self._take_orders()

    # --- events

    def _begin(self, seen_hosts: Sequence[bytes]) -> None:
        assert self.phase is Phase.SEARCHING, "a peer searches once; later it is shown others"
        contacts = tuple(self._contacts())
        seat = self.seat
        for host in seen_hosts if self._is_address_guessed else ():
            if len(host) == len(seat.address.host):
                seat = replace(seat, address=Address(host=host, port=seat.address.port))
        if contacts and self._is_untested:
            # A leaf until others have reached us. Without contacts there is nobody to try it: we are a ring of one, or
            # there would never be a first member.
            seat = replace(seat, is_leaf=True)
        if seat != self.seat:
            self._start_machine(seat, Reason.SEARCH)
        self._join(contacts)

    def _join_failed(self, now: float) -> None:
        if self.phase is Phase.IN:
            wait_s = JOIN_AGAIN_S[min(self._failed, len(JOIN_AGAIN_S) - 1)]
            self._failed += 1
            self._wait(Phase.WAITING, wait_s, now)

    def _join_again(self) -> None:
        """With a position we are in a ring, whatever the other ones say: a ring of one would be a second one."""
        contacts = tuple(self._contacts())
        self._enter()
        if self._is_member() or (contacts and self._failed < JOINS_BEFORE_ALONE):
            self._orders.append(JoinRing(contacts=contacts, failed=self._failed))
        else:
            self._orders.append(CreateRing(meet=contacts[:MEET_MAX], failed=self._failed))

    def _position_taken(self, now: float) -> None:
        """Another peer behind our address is there already, or was there first: the next slot, then."""
        if self.phase not in (Phase.IN, Phase.WAITING):
            return
        self._taken.add(self.seat.slot)
        free = [slot for slot in range(SLOTS) if slot not in self._taken]
        if free:
            self._start_over(Reason.SLOT_TAKEN, replace(self.seat, slot=free[0]))
        else:
            self._orders.append(WaitForSlot())
            wait_s = SLOTS_AGAIN_S[min(self._times_full, len(SLOTS_AGAIN_S) - 1)]
            self._wait(Phase.FULL, wait_s, now)

    def _called_at(self, event: HostSeen | OpenElsewhere) -> None:
        """What the operator stated stays. An address of another family at which we are seen says nothing of the first,
        which positions follow from.
        """
        ours = self.seat.address
        if isinstance(event, OpenElsewhere):
            reason, there, is_ours = Reason.FAMILY, event.address, True
        else:
            reason, there = Reason.HOST, Address(host=event.host, port=ours.port)
            is_ours = len(there.host) == len(ours.host)
        if self._is_address_guessed and is_ours and there.host != ours.host:
            self._taken.clear()  # those peers are behind the old address
            self._times_full = 0
            self._go_to(reason, there)

    def _found_port(self, port: int) -> None:
        if port != self.seat.address.port:
            self._go_to(Reason.PORT, Address(host=self.seat.address.host, port=port))

    def _go_to(self, reason: Reason, address: Address) -> None:
        there = replace(self.seat, address=address)
        if self.phase is Phase.IN and self._keeps_positions():
            self.seat = there
            self._orders.append(MoveTo(seat=there))
        else:
            self._start_over(reason, there)
        self._orders.append(RetestReachability())

    def _begin_again(self, reason: Reason) -> None:
        if self.phase is not Phase.SEARCHING:  # else the machine has dated nothing yet
            self._start_over(reason, self.seat)

    def _found_standing(self, standing: Reachability) -> None:
        """A leaf and a member differ in their positions."""
        self._is_untested = False
        self._is_callable = standing is not Reachability.LEAF
        self._is_kept = self._is_kept and not self._is_callable
        is_leaf = not self._is_callable and not self._is_kept
        relays = () if self._is_callable else self.seat.relays
        seat = replace(self.seat, is_leaf=is_leaf, relays=relays, is_closed=bool(relays))
        if is_leaf != self.seat.is_leaf:
            self._start_over(Reason.REACHABILITY, seat)
        elif seat != self.seat:
            self._name_relays(seat)

    def _keep_relays(self, event: RelaysKept) -> None:
        """Those of a peer that can be called are for another family; a last line of one that cannot is news of
        `is_member`.
        """
        if self._is_callable:
            if event.relays != self.seat.relays:
                self._name_relays(replace(self.seat, relays=event.relays))
            return
        if event.is_member and not event.relays:
            return
        self._is_kept = event.is_member
        seat = replace(
            self.seat, is_leaf=not event.is_member, relays=event.relays, is_closed=bool(event.relays)
        )
        if seat.is_leaf != self.seat.is_leaf:
            self._start_over(Reason.REACHABILITY, seat)
        elif seat != self.seat:
            self._name_relays(seat)

    def _name_relays(self, seat: Seat) -> None:
        """Nothing that our positions follow from is different."""
        self.seat = seat
        self._orders.append(NameRelays(relays=seat.relays, is_closed=seat.is_closed))

    # --- what comes of them

    def _start_over(self, reason: Reason, seat: Seat) -> None:
        contacts = tuple(self._contacts())  # before the old machine and its table go
        self._start_machine(seat, reason)
        if self.phase is not Phase.SEARCHING:  # otherwise the search finds contacts to join through
            self.restarts += 1
            self._failed = 0
            self._join(contacts)

    def _start_machine(self, seat: Seat, reason: Reason) -> None:
        assert 0 <= seat.slot < SLOTS
        self.seat = seat
        self._orders.append(StartMachine(seat=seat, reason=reason))

    def _join(self, contacts: tuple[Contact, ...]) -> None:
        self._enter()
        self._orders.append(JoinRing(contacts=contacts) if contacts else CreateRing())

    def _enter(self) -> None:
        self.phase, self.due_at = Phase.IN, None

    def _wait(self, phase: Phase, wait_s: float, now: float) -> None:
        self.phase = phase
        self.due_at = now + wait_s * self._random.uniform(0.5, 1.5)  # those who failed together try apart

    def _take_orders(self) -> list[SeatOrder]:
        # `due_at` is set exactly in the two phases that end by themselves.
        assert (self.due_at is None) == (self.phase not in (Phase.WAITING, Phase.FULL))
        orders, self._orders = self._orders, []
        return orders
