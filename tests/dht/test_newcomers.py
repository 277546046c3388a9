"""Who is heard of must answer before it counts: what liars tell of members that do not exist stays with them."""

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest
from msgspec.structs import replace

from dht.core.effects import Send
from dht.core.machine import RingMachine
from dht.core.messages import Message, Ping, Pong, ProbeReply, ProbeRequest, Rumour
from dht.core.newcomers import (
    APART_S,
    ASKED_OF_A_PLACE_MAX,
    OF_A_PLACE_MAX,
    REMEMBERED_MAX,
    SILENT_S,
    WAITING_MAX,
    WRONG_S,
    Newcomers,
)
from dht.core.places import PlaceRules
from dht.core.records import LEAF, Address, Contact, Line, PeerRecord, SignedRecord, first_contact_of
from dht.core.rules import RingRules
from simnet.rings import NETWORK, RingWorld, SimulatedNotary, learn, peer_number
from tests.dht.machines import NOW, contact, counts, signed

RULES = RingRules(network=NETWORK, places=PlaceRules())
Answer = Callable[[Contact, Message], Message | None]


def member(known: int = 6, rules: RingRules = RULES) -> RingMachine:
    record = peer_number(0)
    one = RingMachine(record=record, rules=rules, notary=SimulatedNotary(record.peer), random=Random(1))
    one.create(NOW)
    assert learn(one, [signed(number) for number in range(1, known + 1)], NOW) == known
    one.take_effects()
    return one


def at(number: int, host: tuple[int, int, int, int], **changes: object) -> SignedRecord:
    record = replace(
        signed(number).record, lines=(Line.at(Address(host=bytes(host), port=9_999)),), **changes
    )
    return SimulatedNotary(record.peer).sign_record(record)


def tell(one: RingMachine, *news: SignedRecord, by: int = 1, now: float = NOW) -> list[Contact]:
    """Whom the machine pings because of it."""
    one.receive(Rumour(id=1, news=news), contact(by), now)
    effects = one.take_effects()
    return [effect.to for effect in effects if isinstance(effect, Send) and isinstance(effect.message, Ping)]


def pass_time(one: RingMachine, answer: Answer, begin: float, seconds: float) -> list[Message]:
    """Gives the requests that the machine made."""
    now, asked = begin, list[Message]()
    while True:
        for effect in one.take_effects():
            if isinstance(effect, Send):
                asked.append(effect.message)
                reply = answer(effect.to, effect.message)
                if reply is not None:
                    one.receive(reply, effect.to, now)
        now = max(now, one.next_deadline() or begin + seconds)
        if now >= begin + seconds:
            return asked
        one.advance(now)


def silence(_to: Contact, _message: Message) -> None:
    return None


def is_known(one: RingMachine, number: int) -> bool:
    return peer_number(number).peer in one.table.records


def test_a_stranger_counts_when_it_has_answered_and_is_passed_on_only_then() -> None:
    one = member()
    (asked,) = tell(one, signed(20))
    assert asked == contact(20)
    assert not is_known(one, 20)
    assert peer_number(20).peer not in one._gossip.rumours.waiting
    pass_time(one, lambda to, message: Pong(id=message.id) if to == asked else None, NOW, 5)
    assert is_known(one, 20)
    assert peer_number(20).peer in one._gossip.rumours.waiting


def test_a_stranger_that_speaks_for_itself_is_proven_by_that() -> None:
    one = member()
    assert tell(one, signed(20), by=20) == []
    assert is_known(one, 20)
    tell(one, signed(21))
    one.receive(Ping(id=9), contact(21), NOW + 1)
    assert is_known(one, 21), "also while it waits"


def test_a_key_that_speaks_from_one_host_is_not_proven_at_another() -> None:
    one = member()
    elsewhere = at(20, (10, 200, 0, 1))
    tell(one, elsewhere, by=20)
    assert not is_known(one, 20)
    one.receive(Ping(id=9), contact(20), NOW + 1)
    assert not is_known(one, 20), "nor while its record waits"


def test_who_is_known_at_its_host_is_not_asked_again_and_asked_where_it_moved() -> None:
    one = member(rules=replace_rules("peer"))
    assert tell(one, signed(3, incarnation=5)) == []
    assert one.table.records[peer_number(3).peer].record.incarnation == 5
    moved = at(3, (10, 200, 0, 1), incarnation=6)
    assert [asked.address.host for asked in tell(one, moved)] == [bytes((10, 200, 0, 1))]
    assert one.table.records[peer_number(3).peer].record.incarnation == 5, "meanwhile it counts where it was"


def test_a_leaf_is_believed_as_it_owns_nothing_and_not_as_a_member_later() -> None:
    one = member()
    assert tell(one, at(20, (10, 200, 0, 1), flags=LEAF)) == []
    assert is_known(one, 20)
    assert len(tell(one, at(20, (10, 200, 0, 1), incarnation=2))) == 1
    assert one.table.records[peer_number(20).peer].record.flags == LEAF


def test_the_silent_are_refused_for_ten_minutes_and_a_new_life_is_asked_at_once() -> None:
    one = member(known=0)
    tell(one, signed(20))
    pass_time(one, silence, NOW, 60)
    assert counts(one)["newcomers silent"] == 1
    assert tell(one, signed(20), now=NOW + 100) == []
    assert counts(one)["records silent"] == 1
    assert len(tell(one, signed(20, incarnation=2), now=NOW + 101)) == 1
    pass_time(one, silence, NOW + 101, 60)
    again = replace(signed(20).record, incarnation=3)
    tell(one, SimulatedNotary(again.peer).sign_record(again), now=NOW + 200)
    pass_time(one, silence, NOW + 200, 60)
    assert len(tell(one, SimulatedNotary(again.peer).sign_record(again), now=NOW + 260 + SILENT_S)) == 1


def test_who_has_no_address_of_our_family_is_asked_again_after_a_minute() -> None:
    one = member()
    six = replace(signed(20).record, lines=(Line(host=bytes((0x2A, *bytes(14), 1)), udp=9_999, tcp=9_999),))
    apart = SimulatedNotary(six.peer).sign_record(six)
    assert len(tell(one, apart)) == 1
    pass_time(one, silence, NOW, 50)
    assert tell(one, apart, now=NOW + 51) == []
    assert counts(one)["records silent"] == 1
    again = NOW + 51 + APART_S
    (asked,) = tell(one, apart, now=again)
    pass_time(one, lambda to, message: Pong(id=message.id) if to == asked else None, again, 5)
    assert is_known(one, 20)


def is_about(message: Message, number: int) -> bool:
    return isinstance(message, ProbeRequest) and message.target == contact(number)


@pytest.mark.parametrize(
    ("known", "helpers", "is_believed"),
    [
        (6, 4, True),
        (6, 3, True),
        (6, 2, False),
        (6, 0, False),
        (3, 2, True),
        (3, 1, False),
        (2, 2, True),
        (2, 1, False),
    ],
)
def test_three_of_four_helpers_that_reach_it_are_enough_where_our_own_way_is_broken(
    known: int, helpers: int, is_believed: bool
) -> None:
    one, yes = member(known), helpers

    def answer(_to: Contact, message: Message) -> Message | None:
        nonlocal yes
        if not is_about(message, 20):
            return None
        yes -= 1
        return ProbeReply(id=message.id, is_alive=yes >= 0)

    tell(one, signed(20))
    asked = pass_time(one, answer, NOW, 60)
    assert sum(is_about(message, 20) for message in asked) >= min(known, 4), (
        "more of a member that fell silent"
    )
    assert is_known(one, 20) is is_believed


def told_by(one: RingMachine, number: int, now: float) -> set[Contact]:
    """A newcomer that is silent to us, and whoever is asked says that it lives. The helpers that are asked."""
    helpers: set[Contact] = set()
    honest = {peer_number(known).peer for known in range(1, 13)}

    def answer(to: Contact, message: Message) -> Message | None:
        if is_about(message, number) and not is_known(one, number):
            helpers.add(to)
            return ProbeReply(id=message.id, is_alive=True)
        if isinstance(message, Ping) and to.peer in honest:
            return Pong(id=message.id)
        return None

    tell(one, signed(number), now=now)
    pass_time(one, answer, now, 20)
    return helpers


def test_helpers_are_in_other_areas_and_of_age_where_there_are_such() -> None:
    today = RULES.places.day_of(NOW)
    one = member(known=0)
    young = [at(number, (60, number, 1, 1), since=today) for number in range(1, 9)]
    beside = [at(number, (61, 7, number, 1), since=today - 100) for number in range(11, 19)]
    apart = [at(number, (number, 1, 1, 1), since=today - 100) for number in range(31, 34)]
    learn(one, [*young, *beside, *apart], NOW)
    asked = {to.address.host[:2] for to in told_by(one, 40, NOW)}
    assert asked == {bytes((61, 7)), bytes((31, 1)), bytes((32, 1)), bytes((33, 1))}


def test_who_vouched_twice_for_somebody_who_was_gone_again_is_no_helper_for_a_day() -> None:
    one = member(known=12)
    first, second = told_by(one, 20, NOW), told_by(one, 21, NOW + 30)
    assert is_known(one, 20)
    assert is_known(one, 21)
    third = told_by(one, 22, NOW + 60)
    twice = first & second | second & third | first & third
    assert twice, "nobody knew better yet"
    for number in (20, 21, 22):
        one.table.remove(peer_number(number).peer)
    later = set[Contact]()
    for number in range(30, 36):
        later |= told_by(one, number, NOW + 3 * number)
    assert later
    assert not later & twice
    newcomers = one._gossip.newcomers
    assert all(newcomers._is_wrong(helper.peer, NOW + 1_000) for helper in twice)
    assert not any(newcomers._is_wrong(helper.peer, NOW + WRONG_S + 1_000) for helper in twice)


def test_who_spoke_before_it_left_was_no_mistake_of_helpers() -> None:
    one = member(known=12)
    for number, now in ((20, NOW), (21, NOW + 30), (22, NOW + 60)):
        told_by(one, number, now)
        one.receive(Ping(id=1), first_contact_of(signed(number).record, "ip"), now + 25)
        one.take_effects()
        one.table.remove(peer_number(number).peer)
    assert len(told_by(one, 23, NOW + 90)) == 4


def test_helpers_in_one_place_are_one() -> None:
    one = member(known=0)
    learn(one, [at(number, (10, 1, 1, number)) for number in range(1, 7)], NOW)
    tell(one, signed(20))
    lie = pass_time(
        one, lambda _, m: ProbeReply(id=m.id, is_alive=True) if is_about(m, 20) else None, NOW, 60
    )
    assert not any(is_about(message, 20) for message in lie)
    assert not is_known(one, 20)


def test_of_a_place_so_many_wait_and_no_more_while_others_come_in() -> None:
    one = member()
    for number in range(40):
        tell(one, at(100 + number, (10, 200, 0, number)))
    assert counts(one)["newcomers refused"] == 40 - OF_A_PLACE_MAX
    assert len(tell(one, signed(20))) == 1
    pass_time(one, silence, NOW, 120)
    assert len(tell(one, at(180, (10, 200, 0, 80)), now=NOW + 120)) == 1, "their turn is over"


class CountingNotary(SimulatedNotary):
    checked = 0

    def is_record_signed(self, signed: SignedRecord) -> bool:
        self.checked += 1
        return super().is_record_signed(signed)


def test_of_invented_members_few_signatures_are_checked() -> None:
    """A check takes longer than all else that hearing of one costs, and a liar tells of thousands again and again."""
    one = member()
    notary = one._host.notary = CountingNotary(one.me.peer)
    for number in range(200):
        tell(one, at(100 + number, (10, 200, 0, number)))
    assert notary.checked == OF_A_PLACE_MAX
    pass_time(one, silence, NOW, 60)
    for number in range(200):
        tell(one, at(100 + number, (10, 200, 0, number)), now=NOW + 60)
    assert notary.checked <= 2 * OF_A_PLACE_MAX


def test_who_is_told_of_at_a_second_address_meanwhile_is_counted_where_it_was_first() -> None:
    """Otherwise each such key takes a turn away from one place for good, and gives another one more."""
    one = member(known=0)
    for number in range(OF_A_PLACE_MAX):
        tell(one, at(100 + number, (10, 200, 0, number)))
        tell(one, at(100 + number, (10, 201, 0, number), incarnation=9))
    pass_time(one, silence, NOW, 120)
    newcomers = one._gossip.newcomers
    assert newcomers.waiting == {}
    assert not newcomers._of_place
    assert not newcomers._asked_of
    assert len(tell(one, at(180, (10, 200, 0, 80)), now=NOW + 120)) == 1


def test_a_stranger_that_answers_where_it_was_asked_counts_there_whatever_newer_address_is_told_meanwhile() -> (
    None
):
    one = member(rules=replace_rules("peer"))
    (asked,) = tell(one, signed(20))
    tell(one, at(20, (10, 200, 0, 1), incarnation=9))
    pass_time(one, lambda to, message: Pong(id=message.id) if to == asked else None, NOW, 5)
    assert is_known(one, 20)
    assert [to.address.host for to in tell(one, at(20, (10, 200, 0, 1), incarnation=9), now=NOW + 5)] == [
        bytes((10, 200, 0, 1))
    ], "told of again it is asked there"


def test_of_a_place_few_are_asked_at_a_time_and_all_of_them_in_the_end() -> None:
    one = member(known=0)
    asked = [to for number in range(40) for to in tell(one, at(100 + number, (10, 200, 0, number)))]
    assert len(asked) == ASKED_OF_A_PLACE_MAX
    later = [message for message in pass_time(one, silence, NOW, 60) if isinstance(message, Ping)]
    assert len({message.id for message in later}) == OF_A_PLACE_MAX


def test_what_is_remembered_of_strangers_is_bounded() -> None:
    one = member(known=0, rules=RingRules(network=NETWORK))
    newcomers: Newcomers = one._gossip.newcomers
    for number in range(WAITING_MAX + 50):
        assert newcomers.must_wait(signed(1_000 + number), NOW, is_rumour=False)
    assert len(newcomers.waiting) == WAITING_MAX
    for number in range(REMEMBERED_MAX + 50):
        newcomers.prove(peer_number(number).peer, b"host")
    assert len(newcomers._proven) == REMEMBERED_MAX
    pass_time(one, silence, NOW, 3_600)
    assert len(newcomers._silent) <= REMEMBERED_MAX
    assert newcomers.waiting == {}


def invented(number: int, now: float) -> SignedRecord:
    """At addresses of a third party, 250 in each of its networks."""
    there = Address(host=bytes((10, 200, number // 250, number % 250 + 1)), port=9_999)
    record: PeerRecord = replace(
        peer_number(1_000 + number),
        lines=(Line.at(there),),
        incarnation=5,
        issued_s=int(now),
        expires_s=int(now) + 80_000,
        since=1,
    )
    return SimulatedNotary(record.peer).sign_record(record)


@pytest.mark.parametrize("by", ["prefix", "peer"])
def test_two_thousand_invented_members_enter_no_honest_table_and_a_newcomer_does(by: str) -> None:
    """The attack of the issue: until now all of them stood in all tables after six minutes."""
    rules = replace_rules(by)
    world = RingWorld(3, rules)
    first = peer_number(0)
    world.create(first)
    for number in range(1, 8):
        world.join(peer_number(number), [first_contact_of(first, "ip")])
    world.run(60)
    liar = world.machines[peer_number(7).peer]
    for number in range(2_000):
        liar.table.put(invented(number, world.now))
    third_party = Counter[int]()

    def watched(sender: object, to: Contact, message: Message) -> Message:
        if sender != liar.me.peer and to.address.port == 9_999:
            third_party[int(world.now // 60)] += 1
        return message

    world.tamper = watched
    world.run(240)
    world.join(peer_number(50), [first_contact_of(first, "ip")])
    world.run(60)
    honest = [machine for machine in world.machines.values() if machine is not liar]
    assert [len(machine.table) for machine in honest] == [9] * 8
    # From 8 peers, in a minute: 16 of each of 8 networks, three pings each; those of helpers come on top, and are few.
    assert max(third_party.values()) <= 8 * 8 * OF_A_PLACE_MAX * 3


def replace_rules(by: str) -> RingRules:
    return RingRules(network=NETWORK, places=PlaceRules(by="peer" if by == "peer" else "prefix"))
