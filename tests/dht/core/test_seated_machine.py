"""What a seat orders is done to the machine: real machines, nobody to talk to but each other."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dht.core.effects import ArcsChanged, Effect, JoinFailed, PositionTaken, Send
from dht.core.machine import RingMachine
from dht.core.messages import Rumour
from dht.core.places import PlaceRules
from dht.core.reachability import Reachability, StandingChanged
from dht.core.records import LEAF, SLOW, Contact, Line, PeerRecord, SignedRecord, first_contact_of
from dht.core.rules import RingRules
from dht.core.seat import (
    ClockJumped,
    CreateRing,
    HostSeen,
    JoinRing,
    LeaveAsked,
    PortFound,
    Reason,
    SearchEnded,
    SeatEvent,
    SeatOrder,
    StartMachine,
)
from dht.core.seated_machine import SeatedMachine
from simnet.rings import NETWORK, START_S, SimulatedNotary, peer_number

RULES = RingRules(network=NETWORK, proves_newcomers=False)
NOW = START_S
RECORD = peer_number(0)
ANNA, BERT = (first_contact_of(peer_number(number), "ip") for number in (1, 2))


def build(record: PeerRecord) -> RingMachine:
    return RingMachine(record=record, rules=RULES, notary=SimulatedNotary(record.peer), random=Random(1))


def seated_with(*given: Contact, orders: list[SeatOrder] | None = None) -> SeatedMachine:
    """One that still searches."""
    told = [] if orders is None else orders
    return SeatedMachine(
        record=RECORD, build=build, given=lambda: given, id_check="ip", random=Random(1), on_order=told.append
    )


def alone(*given: Contact, virtual_nodes: int = 1, orders: list[SeatOrder] | None = None) -> SeatedMachine:
    """A ring of one, drained; it is given these contacts and tells its orders from now on."""
    contacts: list[Contact] = []
    told: list[SeatOrder] = [] if orders is None else orders
    seated = SeatedMachine(
        record=replace(RECORD, virtual_nodes=virtual_nodes),
        build=build,
        given=lambda: contacts,
        id_check="ip",
        random=Random(1),
        on_order=told.append,
    )
    seated.tell(SearchEnded(), NOW)
    drain(seated)
    contacts += given
    told.clear()
    return seated


def drain(seated: SeatedMachine, now: float = NOW) -> list[Effect]:
    found: list[Effect] = []
    while effects := seated.take_effects(now):
        found += effects
    return found


def record_of(number: int, flags: int = 0) -> SignedRecord:
    record = replace(
        peer_number(number), incarnation=1, issued_s=int(NOW), expires_s=int(NOW) + 60, flags=flags
    )
    return SimulatedNotary(record.peer).sign_record(record)


def hear(seated: SeatedMachine, *news: SignedRecord) -> None:
    seated.machine.receive(Rumour(id=1, news=news), first_contact_of(news[0].record, "ip"), NOW)


def sent_to(effects: list[Effect]) -> set[Contact]:
    return {effect.to for effect in effects if isinstance(effect, Send)}


def test_nothing_is_sent_before_the_search_has_ended() -> None:
    seated = seated_with(ANNA)
    assert drain(seated) == []
    assert seated.next_deadline() is None
    seated.tell(SearchEnded(), NOW)
    assert sent_to(drain(seated)) == {ANNA}


def test_a_new_machine_goes_on_from_the_last_ones_incarnation_where_the_clock_was_set_back() -> None:
    seated = alone()
    before = seated.machine.own_record.incarnation
    seated.tell(ClockJumped(), NOW - 3_600)
    assert seated.machine.own_record.incarnation > before


def test_who_starts_over_joins_through_the_members_it_knew_and_then_through_those_given() -> None:
    orders: list[SeatOrder] = []
    seated = alone(BERT, orders=orders)
    hear(seated, record_of(1), record_of(3, LEAF))
    seated.tell(ClockJumped(), NOW)
    started, joined = orders
    assert isinstance(started, StartMachine)
    assert started.reason is Reason.CLOCK
    assert joined == JoinRing(contacts=(ANNA, BERT)), "neither ourselves nor the leaf"


def test_where_a_member_is_its_record_knows_better_than_who_gave_its_address() -> None:
    moved = Contact.at(ANNA.peer, replace(ANNA.address, port=1), ANNA.slot, ANNA.index, "ip")
    seated = alone(moved)
    hear(seated, record_of(1))
    assert [contact.address for contact in seated.contacts()] == [ANNA.address]


class Hasty(Random):
    def uniform(self, a: float, b: float) -> float:
        del a, b
        return 0.01


def test_the_deadline_is_the_seats_where_that_comes_first() -> None:
    seated = SeatedMachine(record=RECORD, build=build, given=lambda: [ANNA], id_check="ip", random=Hasty())
    seated.tell(SearchEnded(), NOW)
    drain(seated)
    of_machine = seated.next_deadline()
    assert of_machine is not None
    assert of_machine > NOW + 0.01
    seated.machine._host.effects.append(JoinFailed(contact=seated.machine.me))
    drain(seated)
    assert seated.next_deadline() == seated.keeper.due_at == NOW + 0.01


def test_a_position_that_two_others_claim_costs_one_slot() -> None:
    seated = alone(BERT)
    mine = seated.machine.me
    taken = [PositionTaken(contact=mine, holder=holder) for holder in (ANNA, BERT)]
    seated.machine._host.effects += taken
    effects = drain(seated)
    assert [effect for effect in effects if isinstance(effect, PositionTaken)] == taken
    assert seated.keeper.seat.slot == seated.machine.me.slot == 1
    assert seated.keeper.restarts == 1
    assert seated.machine.me.position != mine.position


def test_a_member_that_becomes_a_leaf_says_that_it_holds_nothing_any_more() -> None:
    seated = alone(ANNA, virtual_nodes=3)
    assert seated.machine.arcs()
    seated.tell(StandingChanged(standing=Reachability.LEAF, reason=""), NOW)
    assert drain(seated)[-1] == ArcsChanged(arcs=())
    assert (seated.machine.own_record.flags, seated.machine.own_record.virtual_nodes) == (LEAF, 1)
    seated.tell(StandingChanged(standing=Reachability.MEMBER, reason=""), NOW)
    assert ArcsChanged(arcs=()) not in drain(seated)
    assert (seated.machine.own_record.flags, len(seated.machine.nodes)) == (0, 3)


def test_a_slow_line_is_slow_at_another_position_too() -> None:
    seated = alone()
    seated.machine.say_slow(is_slow=True, now=NOW)
    last = seated.machine
    seated.tell(PortFound(port=4_999), NOW)
    drain(seated)
    assert seated.machine is not last
    assert seated.machine.own_record.flags & SLOW


def test_the_port_found_outside_is_in_the_record() -> None:
    seated = alone()
    seated.tell(PortFound(port=50_001), NOW)
    assert seated.machine.me.address.port == 50_001
    assert seated.machine.record is not None
    assert seated.machine.record.record.lines == (Line.at(seated.machine.me.address),)


def test_a_join_that_nobody_answers_is_tried_again_at_the_seats_time_and_then_there_is_a_ring_of_one() -> (
    None
):
    orders: list[SeatOrder] = []
    seated = seated_with(ANNA, orders=orders)
    seated.tell(SearchEnded(), NOW)
    now = NOW
    while not seated.is_member():
        drain(seated, now)
        deadline = seated.next_deadline()
        assert deadline is not None
        assert now <= deadline < NOW + 600
        now = deadline
        seated.advance(now)
    assert orders == [
        JoinRing(contacts=(ANNA,)),
        JoinRing(contacts=(ANNA,), failed=1),
        CreateRing(meet=(ANNA,), failed=2),
    ]
    assert sent_to(drain(seated, now)) == {ANNA}, "the ring of one shows itself to whom it could not reach"


def test_after_its_goodbye_a_peer_sends_nothing_more() -> None:
    seated = alone(ANNA)
    seated.machine.restore([(ANNA, (ANNA,))], NOW)
    drain(seated)
    seated.tell(LeaveAsked(), NOW)
    assert sent_to(drain(seated)) == {ANNA}
    seated.tell(ClockJumped(), NOW)
    seated.advance(NOW + 3_600)
    assert drain(seated) == []


EVENTS = st.sampled_from(
    [
        ClockJumped(),
        PortFound(port=50_001),
        PortFound(port=50_002),
        HostSeen(host=bytes((198, 51, 100, 7))),
        HostSeen(host=bytes((198, 51, 100, 8))),
        StandingChanged(standing=Reachability.LEAF, reason=""),
        StandingChanged(standing=Reachability.MEMBER, reason=""),
        "join failed",
        "position taken",
        "time",
        "search ended",
        "leave",
    ]
)


@given(events=st.lists(EVENTS, max_size=30), given_any=st.booleans(), virtual_nodes=st.sampled_from([1, 3]))
def test_whatever_happens_in_whatever_order_the_machine_can_do_what_is_ordered(
    events: list[SeatEvent | str], given_any: bool, virtual_nodes: int
) -> None:
    contacts = [ANNA, BERT] if given_any else []
    seated = SeatedMachine(
        record=replace(RECORD, virtual_nodes=virtual_nodes),
        build=build,
        given=lambda: contacts,
        id_check="ip",
        random=Random(1),
        is_address_guessed=True,
        is_tested_first=True,
    )
    now, has_searched, has_left = NOW, False, False
    for event in events:
        me = seated.machine.me
        if event == "time":
            now = max(now, seated.next_deadline() or now)
            seated.advance(now)
        elif event == "join failed":  # as the machine does: when it has stopped trying
            joining = seated.machine._joining
            if joining is not None and not joining.is_over:
                joining.is_over = True
                seated.machine._host.effects.append(JoinFailed(contact=me))
        elif event == "position taken":
            seated.machine._host.effects.append(PositionTaken(contact=me, holder=ANNA))
        elif event == "search ended":
            if not has_searched:
                seated.tell(SearchEnded(seen_hosts=(bytes((192, 0, 2, 9)),)), now)
            has_searched = True
        elif event == "leave":
            seated.tell(LeaveAsked(), now)
            has_left = True
        else:
            assert not isinstance(event, str)
            seated.tell(event, now)
        drain(seated, now)
        if has_searched and not has_left:
            is_trying = seated.machine._joining is not None and not seated.machine._joining.is_over
            is_waiting = seated.keeper.due_at is not None
            is_leaf = seated.keeper.seat.is_leaf
            assert is_trying or is_waiting or is_leaf or seated.is_member(), "nobody would ever try again"


def aged(since_days: int, **changes: object) -> SeatedMachine:
    """A ring of one by places, whose peer has been a member for so long."""
    rules = RingRules(network=NETWORK, proves_newcomers=False, places=PlaceRules())
    record = replace(RECORD, since=int(NOW) // 86_400 - since_days, **changes)
    seated = SeatedMachine(
        record=record,
        build=lambda one: RingMachine(
            record=one, rules=rules, notary=SimulatedNotary(one.peer), random=Random(1)
        ),
        given=lambda: (),
        id_check="ip",
        random=Random(1),
        is_address_guessed=True,
    )
    seated.tell(SearchEnded(), NOW)
    drain(seated)
    return seated


def test_a_member_with_a_seat_goes_on_where_it_sits_at_a_new_address() -> None:
    seated = aged(30)
    machine, before = seated.machine, seated.machine.nodes[0].contact
    seated.tell(HostSeen(host=bytes((198, 51, 100, 7))), NOW + 60)
    after = seated.machine.nodes[0].contact
    assert seated.machine is machine, "no new machine"
    assert after == before == seated.machine.table.contacts[0]
    assert (after.address.host, after.birth) == (bytes((198, 51, 100, 7)), before.address.host)
    record = seated.machine.own_record
    assert record.lines[0].host == bytes((198, 51, 100, 7))
    assert record.since == int(NOW) // 86_400 - 30
    assert not any(isinstance(effect, ArcsChanged) for effect in drain(seated))


def test_a_member_of_age_without_a_seat_begins_its_age_anew_at_a_new_address() -> None:
    seated = aged(30, slot=1)
    machine = seated.machine
    seated.tell(HostSeen(host=bytes((198, 51, 100, 7))), NOW + 60)
    assert seated.machine is not machine
    assert seated.machine.own_record.since == int(NOW) // 86_400


def test_a_young_member_keeps_its_age_at_a_new_address() -> None:
    seated = aged(3)
    seated.tell(HostSeen(host=bytes((198, 51, 100, 7))), NOW + 60)
    assert seated.machine.own_record.since == int(NOW) // 86_400 - 3
    assert seated.machine.own_record.seat is None
