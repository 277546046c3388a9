"""Whom does a machine ask about a seat that it does not remember, and what comes of the answers?"""

from collections.abc import Callable, Sequence
from random import Random

import pytest
from msgspec.structs import replace

from dht.core.effects import Send
from dht.core.machine import RingMachine
from dht.core.messages import (
    AskSeats,
    Closer,
    Find,
    GetState,
    NeighbourState,
    Notify,
    Owner,
    Rumour,
    SeatsKnown,
)
from dht.core.places import PlaceRules
from dht.core.records import Birth, Contact, Line, PeerRecord, SignedRecord, contacts_of, first_contact_of
from dht.core.rules import RingRules
from dht.core.seats import NO_SEAT, SeatMemory, mark_of
from simnet.rings import NETWORK, SimulatedNotary, peer_number
from tests.dht.machines import NOW, counts

RULES = RingRules(network=NETWORK, places=PlaceRules(), proves_newcomers=False)
TODAY = RULES.places.day_of(NOW)
BESIDE = bytes((198, 51, 100, 7))
SUBJECT = 99
SUBJECT_KEY = peer_number(SUBJECT).peer


def record_of(number: int, **changes: object) -> PeerRecord:
    record = replace(
        peer_number(number), incarnation=1, issued_s=int(NOW), expires_s=int(NOW) + 80_000, since=TODAY - 40
    )
    return replace(record, **changes)


def sign(record: PeerRecord) -> SignedRecord:
    return SimulatedNotary(record.peer).sign_record(record)


def seated(number: int, birth: bytes = b"", day: int = TODAY - 20) -> PeerRecord:
    record = record_of(number)
    return replace(record, seat=Birth(host=birth or record.lines[0].host, day=day))


FALSE = seated(SUBJECT, BESIDE)
"""The claim of a key of age to sit by an address where it is not."""


def member(known: Sequence[PeerRecord]) -> RingMachine:
    """Remembers the seats of these, and has them as its neighbours."""
    memory = SeatMemory()
    for record in known:
        memory.note(record)
    one = RingMachine(
        record=record_of(0),
        rules=RULES,
        notary=SimulatedNotary(peer_number(0).peer),
        random=Random(1),
        seats=memory,
    )
    line = [first_contact_of(record, "ip") for record in known]
    line.sort(key=lambda contact: (contact.position < one.me.position, contact.position))
    one.restore([(line[-1], tuple(line[:16]))], NOW - 1_000)
    tell(one, *known)
    return one


def tell(one: RingMachine, *records: PeerRecord, now: float = NOW) -> None:
    for record in records:
        one.receive(Rumour(id=1, news=(sign(record),)), first_contact_of(record_of(1), "ip"), now)
    one.take_effects()


def asked(one: RingMachine, now: float = NOW) -> list[tuple[Contact, AskSeats]]:
    """What it asks within the next seconds."""
    found: list[tuple[Contact, AskSeats]] = []
    end = now + 12.0
    while (due := one.next_deadline()) is not None and due <= end and not found:
        one.advance(max(due, now))
        found += [
            (effect.to, effect.message)
            for effect in one.take_effects()
            if isinstance(effect, Send) and isinstance(effect.message, AskSeats)
        ]
    return found


def answer(
    one: RingMachine,
    questions: list[tuple[Contact, AskSeats]],
    word: Callable[[int], int],
    now: float = NOW + 2,
) -> None:
    for number, (to, question) in enumerate(questions):
        words = bytes(word(number) for _ in question.marks)
        one.receive(SeatsKnown(id=question.id, words=words), to, now)


OTHERS = [seated(number) for number in range(1, 13)]


def test_five_of_age_in_five_places_are_asked() -> None:
    beside = [
        replace(one, lines=(Line(host=bytes((10, 0, 0, number)), udp=1, tcp=1),), seat=None, slot=1)
        for number, one in enumerate(OTHERS)
    ]
    one = member([*OTHERS[:4], *beside[4:]])
    tell(one, FALSE)
    questions = asked(one)
    assert len(questions) == 5
    hosts = {to.address.host[:3] for to, _ in questions}
    assert len(hosts) == 5
    assert all(mark_of(FALSE.peer, FALSE.seat or NO_SEAT) in question.marks for _, question in questions)


def test_a_member_asks_as_many_as_there_are_after_some_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    one = member(OTHERS[:3])
    tell(one, FALSE)
    one.advance(NOW + 1.0)
    assert not any(
        isinstance(effect.message, AskSeats) for effect in one.take_effects() if isinstance(effect, Send)
    )
    monkeypatch.setattr("dht.core.seat_checks.PATIENCE_S", 0.0)
    one = member(OTHERS[:3])
    tell(one, FALSE)
    assert len(asked(one)) == 3


@pytest.mark.parametrize(("agreeing", "enters"), [(5, True), (4, True), (3, False), (0, False)])
def test_a_seat_of_other_days_needs_four_of_five(agreeing: int, enters: bool) -> None:
    one = member(OTHERS)
    tell(one, FALSE)
    assert FALSE.peer not in one.table.records, "not before they answer"
    answer(one, asked(one), lambda number: 1 if number < agreeing else 0)
    assert (FALSE.peer in one.table.records) is enters
    if enters:
        assert one.table.at(contacts_of(FALSE, "ip")[0].position) is not None
    else:
        assert counts(one)["seats unproven"] == 1
        tell(one, replace(FALSE, incarnation=2), now=NOW + 30)
        assert counts(one)["records seat unproven"] == 1
        assert FALSE.peer not in one.table.records


@pytest.mark.parametrize(("objecting", "stays"), [(0, True), (1, True), (2, False)])
def test_a_seat_at_the_members_address_enters_and_goes_if_two_object(objecting: int, stays: bool) -> None:
    one, here = member(OTHERS), seated(SUBJECT)
    tell(one, here)
    assert here.peer in one.table.records
    answer(one, asked(one), lambda number: 2 if number < objecting else 0)
    assert (here.peer in one.table.records) is stays


def test_a_stranger_of_age_without_a_seat_is_asked_about_too() -> None:
    one, here = member(OTHERS), record_of(SUBJECT)
    tell(one, here)
    questions = asked(one)
    assert questions[0][1].marks == (mark_of(here.peer, NO_SEAT),)
    answer(one, questions, lambda number: 2 if number < 2 else 0)
    assert here.peer not in one.table.records
    young = record_of(SUBJECT + 1, since=TODAY - 1)
    tell(one, young, now=NOW + 3)
    assert asked(one, NOW + 3) == []
    assert young.peer in one.table.records


@pytest.mark.parametrize(("day", "word"), [(TODAY, 0), (TODAY - 1, 0), (TODAY, 2)])
def test_a_seat_that_is_taken_while_others_are_asked_is_remembered(day: int, word: int) -> None:
    """It may be its first one. One of another day is asked about, too, and one that others remember already."""
    one, without = member(OTHERS), record_of(SUBJECT)
    tell(one, without)
    questions = asked(one)
    taken = replace(seated(SUBJECT, day=day), incarnation=2)
    tell(one, taken, now=NOW + 1)
    assert one.table.records[SUBJECT_KEY].record.seat == taken.seat
    answer(one, questions, lambda _number: word)
    assert SUBJECT_KEY in one.table.records
    again = asked(one, NOW + 3)
    assert bool(again) is (day != TODAY or word != 0)
    answer(one, again, lambda _number: 0, NOW + 4)
    moved = replace(taken, lines=(Line(host=BESIDE, udp=1, tcp=1),), incarnation=3)
    tell(one, moved, now=NOW + 60)
    assert one.table.records[SUBJECT_KEY].record == moved, "from wherever it comes then"


def test_nobody_speaks_for_its_own_seat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dht.core.seat_checks.PATIENCE_S", 0.0)
    one = member([*OTHERS[:2], seated(SUBJECT)])
    tell(one, replace(FALSE, incarnation=2))
    questions = asked(one)
    assert FALSE.peer in {to.peer for to, _ in questions}, (
        "in a ring of four it is among those that are asked"
    )
    for to, question in questions:
        word = 0 if to.peer == OTHERS[0].peer else 1
        one.receive(SeatsKnown(id=question.id, words=bytes((word,))), to, NOW + 2)
    assert one.table.records[FALSE.peer].record.seat == seated(SUBJECT).seat


def test_silence_and_answers_of_another_length_are_no_agreement() -> None:
    one = member(OTHERS)
    tell(one, FALSE)
    questions = asked(one)
    for to, question in questions[:3]:
        one.receive(SeatsKnown(id=question.id, words=bytes((1,))), to, NOW + 2)
    one.receive(SeatsKnown(id=questions[3][1].id, words=bytes((1, 1))), questions[3][0], NOW + 2)
    one.receive(SeatsKnown(id=questions[4][1].id, words=b""), questions[4][0], NOW + 2)
    assert FALSE.peer not in one.table.records
    assert counts(one)["seats unproven"] == 1


def test_a_member_says_what_it_remembers() -> None:
    one, asker = member(OTHERS), first_contact_of(OTHERS[0], "ip")
    seat = OTHERS[1].seat
    assert seat is not None
    marks = (
        mark_of(OTHERS[1].peer, seat),
        mark_of(OTHERS[1].peer, NO_SEAT),
        mark_of(FALSE.peer, seat),
    )
    one.receive(AskSeats(id=7, marks=marks), asker, NOW)
    said = [effect.message for effect in one.take_effects() if isinstance(effect, Send)]
    assert said == [SeatsKnown(id=7, words=bytes((1, 2, 0)))]


def test_lists_and_answers_name_no_seat_that_is_not_remembered() -> None:
    one = member(OTHERS)
    false, first = contacts_of(FALSE, "ip")[0], first_contact_of(OTHERS[0], "ip")
    machine, sound = one._without_false_seats, one._gossip.seats.is_sound
    assert (sound(false), sound(first)) == (False, True)
    state = NeighbourState(id=1, version=1, predecessor=false, successors=(first, false))
    assert machine(state, NOW) == NeighbourState(id=1, version=1, predecessor=None, successors=(first,))
    assert machine(Closer(id=1, contacts=(false, first)), NOW) == Closer(id=1, contacts=(first,))
    assert machine(Owner(id=1, holders=(false,), records=()), NOW) == Closer(id=1, contacts=())
    honest = Owner(id=1, holders=(first,), records=())
    assert machine(honest, NOW) is honest
    one.receive(Notify(id=3, source=false, target=0), false, NOW)
    assert one.nodes[0].predecessor != false
    assert counts(one)["contacts unseated"] == 4
    newcomer = RingMachine(
        record=record_of(0), rules=RULES, notary=SimulatedNotary(peer_number(0).peer), random=Random(1)
    )
    assert newcomer._without_false_seats(state, NOW) is state, "it remembers nobody yet"


def test_neighbours_of_a_member_at_a_new_address_list_it_there() -> None:
    one = member(OTHERS)
    first = one.nodes[0].successors[0]
    record = next(record for record in OTHERS if record.peer == first.peer)
    version = one.nodes[0].version
    there = Line(host=bytes((203, 0, 113, 9)), udp=4_484, tcp=4_484)
    tell(one, replace(record, lines=(there,), incarnation=2))
    listed = one.nodes[0].successors[0]
    assert listed == first
    assert listed.address.host == there.host
    assert one.nodes[0].version != version, "so that those that ask for our list hear of it"
    one.receive(Find(id=9, key=first.position), first_contact_of(OTHERS[5], "ip"), NOW)
    one.receive(
        GetState(id=10, source=first_contact_of(OTHERS[5], "ip"), target=0, known=0),
        first_contact_of(OTHERS[5], "ip"),
        NOW,
    )
    named = {
        contact.address.host
        for effect in one.take_effects()
        if isinstance(effect, Send) and isinstance(effect.message, NeighbourState)
        for contact in effect.message.successors
        if contact == first
    }
    assert named == {there.host}
