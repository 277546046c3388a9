"""One position, two claims: who has it, and how the other one learns that it must take another slot."""

from contextlib import AsyncExitStack
from functools import partial
from random import Random
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

import dht.core.seat
from dht.core import rules as bounds
from dht.core.effects import Effect, JoinFailed, PositionTaken, Send
from dht.core.ids import is_between
from dht.core.machine import RingMachine
from dht.core.messages import (
    Ack,
    Closer,
    Digest,
    Find,
    GetState,
    Message,
    NeighbourState,
    Notify,
    Owner,
    Ping,
    Pong,
    Rumour,
)
from dht.core.records import SLOTS, Contact, SignedRecord, first_contact_of
from dht.core.rules import RingRules
from simnet.rings import NETWORK, START_S, SimulatedNotary, peer_number
from tests.dht.machines import converse, member
from tests.dht.shared_address import SharedAddress
from tests.dht.test_node import Peer, Ways, is_ideal, opened, until

NOW = START_S
RULES = RingRules(network=NETWORK, proves_newcomers=False)
PLACE = peer_number(7)
AGAIN_S = 60.0


def is_joined(peer: Peer) -> bool:
    return peer.node.statistics().is_joined


def claim(number: int, issued_s: float, incarnation: int = 1, virtual_nodes: int = 1) -> SignedRecord:
    """Peer `number` says that it sits where peer 7 does."""
    record = replace(
        peer_number(number, virtual_nodes=virtual_nodes),
        lines=PLACE.lines,
        incarnation=incarnation,
        issued_s=int(issued_s),
        expires_s=int(issued_s) + 24 * 3600,
    )
    return SimulatedNotary(record.peer).sign_record(record)


def contact(signed: SignedRecord) -> Contact:
    return first_contact_of(signed.record, "ip")


def machine(number: int = 0) -> RingMachine:
    record = peer_number(number)
    one = RingMachine(record=record, rules=RULES, notary=SimulatedNotary(record.peer), random=Random(1))
    one.create(NOW)
    one.take_effects()
    return one


def hear(one: RingMachine, *news: SignedRecord, now: float = NOW) -> None:
    one.receive(Rumour(id=1, news=news), contact(news[0]), now)


def settle(one: RingMachine, *alive: SignedRecord, now: float = NOW) -> list[Effect]:
    """Time passes until every question is answered by the living, or given up; gives the effects."""
    living = {signed.record.peer for signed in alive}
    effects: list[Effect] = []
    end = now + 20
    while True:
        new = one.take_effects()
        effects += new
        for effect in new:
            if isinstance(effect, Send) and isinstance(effect.message, Ping) and effect.to.peer in living:
                one.receive(Pong(id=effect.message.id), effect.to, now)
        if not new:
            now = max(now, one.next_deadline() or end)
            if now >= end:
                return effects
            one.advance(now)


HOLDER, CLAIMANT = claim(1, NOW - 60), claim(2, NOW - 30)


def test_a_later_claim_is_refused_and_its_peer_is_shown_the_holder() -> None:
    one = machine()
    hear(one, HOLDER)
    hear(one, CLAIMANT)
    effects = settle(one, HOLDER, CLAIMANT)
    assert one.table.at(contact(HOLDER).position) == contact(HOLDER)
    assert CLAIMANT.record.peer not in one.table.records
    told = [e.message.news for e in effects if isinstance(e, Send) and e.to == contact(CLAIMANT)
            and isinstance(e.message, Rumour)]  # fmt: skip
    assert (HOLDER,) in told


def test_an_older_claim_takes_the_place_when_both_answer() -> None:
    one = machine()
    hear(one, CLAIMANT)
    hear(one, HOLDER)
    settle(one, HOLDER, CLAIMANT)
    assert one.table.at(contact(HOLDER).position) == contact(HOLDER)
    assert CLAIMANT.record.peer not in one.table.records
    assert dict(one.statistics().counts)["positions lost"] == 1


def test_an_invented_older_claim_does_not_displace_who_answers() -> None:
    one = machine()
    hear(one, CLAIMANT)
    hear(one, HOLDER)
    settle(one, CLAIMANT)  # nobody at that address has the other key
    assert CLAIMANT.record.peer in one.table.records
    assert HOLDER.record.peer not in one.table.records


def test_who_does_not_answer_loses_its_place_to_who_does() -> None:
    one = machine()
    hear(one, HOLDER)
    hear(one, CLAIMANT)
    settle(one, CLAIMANT)
    assert one.table.at(contact(HOLDER).position) == contact(CLAIMANT)


def test_renewing_a_record_does_not_make_a_claim_younger() -> None:
    one = machine()
    hear(one, HOLDER)
    renewed = claim(1, NOW, incarnation=2)
    hear(one, renewed)
    hear(one, CLAIMANT)  # older than the renewed record, younger than the claim
    settle(one, renewed, CLAIMANT)
    assert one.table.records[HOLDER.record.peer] is renewed
    assert CLAIMANT.record.peer not in one.table.records


def test_a_peer_that_moves_onto_a_taken_position_is_refused_like_a_stranger() -> None:
    one = machine()
    elsewhere = replace(CLAIMANT.record, lines=peer_number(2).lines, incarnation=0)
    hear(one, HOLDER, SimulatedNotary(elsewhere.peer).sign_record(elsewhere))
    hear(one, CLAIMANT)
    settle(one, HOLDER, CLAIMANT)
    assert one.table.at(contact(HOLDER).position) == contact(HOLDER)
    assert one.table.records[CLAIMANT.record.peer].record == elsewhere


def test_a_settled_contest_is_not_fought_again_and_few_run_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "CONTESTS_MAX", 2)
    one = machine()
    hear(one, HOLDER)
    for number in range(10, 15):
        hear(one, claim(number, NOW - 30))
    assert dict(one.statistics().counts) == {"records position taken": 5, "contests refused": 3}
    settle(one, HOLDER)
    hear(one, claim(10, NOW - 30), now=NOW + 20)
    pings = [e for e in one.take_effects() if isinstance(e, Send) and isinstance(e.message, Ping)]
    assert pings == []


def test_a_contest_that_a_lost_datagram_settled_is_fought_again_after_a_minute() -> None:
    one = machine()
    hear(one, CLAIMANT)
    hear(one, HOLDER)
    settle(one, CLAIMANT)  # the holder's answer was lost
    hear(one, HOLDER, now=NOW + 50)
    settle(one, HOLDER, CLAIMANT, now=NOW + 50)
    assert one.table.at(contact(HOLDER).position) == contact(CLAIMANT)
    hear(one, HOLDER, now=NOW + 100)
    settle(one, HOLDER, CLAIMANT, now=NOW + 100)
    assert one.table.at(contact(HOLDER).position) == contact(HOLDER)


def test_of_young_claims_that_do_not_give_way_the_lesser_key_has_the_position() -> None:
    """Both are told that they were first, each by half of the ring, so age decides nothing."""
    first, lesser = claim(1, NOW - 20), claim(2, NOW - 10)
    assert lesser.record.peer < first.record.peer
    one = machine()
    hear(one, first)
    for later in (0, 100):
        assert one.table.at(contact(first).position) == contact(first)
        hear(one, lesser, now=NOW + later)
        settle(one, lesser, first, now=NOW + later)
    assert one.table.at(contact(first).position) == contact(lesser)


def test_a_lesser_key_moves_nobody_that_has_sat_for_an_hour() -> None:
    first = claim(1, NOW)
    one = machine()
    hear(one, first)
    for later in (3700, 3800, 4000):
        lesser = claim(2, NOW + later)
        hear(one, lesser, now=NOW + later)
        settle(one, lesser, first, now=NOW + later)
        assert one.table.at(contact(first).position) == contact(first)


def test_a_claim_is_as_old_as_the_join_that_succeeded() -> None:
    """Else a peer whose first attempts failed took itself for older than the others do, and never gave way."""
    record = peer_number(7)
    newcomer = RingMachine(record=record, rules=RULES, notary=SimulatedNotary(record.peer), random=Random(1))
    newcomer.join([first_contact_of(peer_number(3), "ip")], NOW)
    settle(newcomer)  # nobody answers
    newcomer.create(NOW + 60)
    older = claim(1, NOW + 30)
    hear(newcomer, older, now=NOW + 61)
    taken = [
        e
        for e in settle(newcomer, older, newcomer_of(newcomer), now=NOW + 61)
        if isinstance(e, PositionTaken)
    ]
    assert taken == [PositionTaken(contact=newcomer.me, holder=contact(older))]


def newcomer_of(one: RingMachine) -> SignedRecord:
    assert one.record is not None
    return one.record


@pytest.mark.parametrize(
    ("seed", "loss", "late"), [(3, 0.1, 0.0), (4, 0.1, 0.0), (16, 0.2, 0.2), (9, 0.4, 0.0)]
)
def test_peers_that_start_in_one_second_on_a_bad_line_all_find_a_slot(
    seed: int, loss: float, late: float
) -> None:
    """In a third of such rings two peers sat at one position for ever: one lost answer had settled their contest, or
    each half of the ring had heard of them in another order.
    """
    world = SharedAddress(seed, loss=loss, late=late)
    world.start_all()
    assert world.run(300, until_ideal=True)
    assert sorted(one.keeper.seat.slot for one in world.peers.values()) == [*range(SLOTS)]


def test_a_member_whose_place_an_older_claim_takes_reports_it() -> None:
    me = machine(7)
    older = claim(1, NOW - 60)
    hear(me, older)
    assert PositionTaken(contact=me.me, holder=contact(older)) in settle(me, older)


def test_a_newcomer_finds_its_position_taken_and_stops_joining() -> None:
    record = peer_number(7)
    newcomer = RingMachine(record=record, rules=RULES, notary=SimulatedNotary(record.peer), random=Random(1))
    through = first_contact_of(peer_number(3), "ip")
    holder = contact(HOLDER)
    newcomer.join([through], NOW)
    effects = newcomer.take_effects()
    for _ in range(2):  # the contact names the holder, which then speaks for itself
        finds = [e for e in effects if isinstance(e, Send) and isinstance(e.message, Find)]
        for find in finds:
            newcomer.receive(Owner(id=find.message.id, holders=(holder,), records=()), find.to, NOW)
        effects = newcomer.take_effects()
    assert PositionTaken(contact=newcomer.me, holder=holder) in effects
    assert not newcomer.nodes[0].is_member
    later = settle(newcomer)
    assert not [effect for effect in later if isinstance(effect, JoinFailed)]


def test_a_newcomer_at_whose_position_a_peer_is_only_remembered_asks_again_later() -> None:
    record = peer_number(7)
    newcomer = RingMachine(record=record, rules=RULES, notary=SimulatedNotary(record.peer), random=Random(1))
    holder = contact(HOLDER)
    newcomer.join([first_contact_of(peer_number(3), "ip")], NOW)

    def answer(to: Contact, message: Message) -> Message | None:
        """The contact lists the peer where it was; it took another slot, so it names a peer nearer to the key."""
        if isinstance(message, Find) and to.peer == holder.peer:
            return Closer(id=message.id, contacts=())
        if isinstance(message, Find):
            return Owner(id=message.id, holders=(holder,), records=())
        return ring_answer(to, message)

    effects = converse(newcomer, answer, 60.0)
    assert not [effect for effect in effects if isinstance(effect, PositionTaken)]
    assert not [effect for effect in effects if isinstance(effect, JoinFailed)]
    assert newcomer.next_deadline() is not None
    assert not newcomer.nodes[0].is_member


def test_a_newcomer_does_not_defend_a_position_before_it_has_it() -> None:
    """The member that has it would give way as well."""
    record = claim(7, NOW).record
    newcomer = RingMachine(record=record, rules=RULES, notary=SimulatedNotary(record.peer), random=Random(1))
    newcomer.join([first_contact_of(peer_number(3), "ip")], NOW)
    younger = claim(2, NOW + 20)
    hear(newcomer, younger, now=NOW + 30)
    sent = [effect.message for effect in settle(newcomer, younger, now=NOW + 30) if isinstance(effect, Send)]
    assert not any(isinstance(message, Rumour) for message in sent)


def moved(number: int, slot: int = 1) -> SignedRecord:
    """This peer has taken another slot: it keeps its address and key."""
    record = replace(
        peer_number(number), slot=slot, incarnation=2, issued_s=int(NOW), expires_s=int(NOW) + 3600
    )
    return SimulatedNotary(record.peer).sign_record(record)


def ring_answer(to: Contact, message: Message) -> Message | None:
    """The peer at an address answers as itself. It does not know for which position the question was meant."""
    match message:
        case Ping():
            return Pong(id=message.id)
        case Notify() | Digest():
            return Ack(id=message.id)
        case GetState():
            return NeighbourState(id=message.id, version=1, predecessor=to, successors=())
    return None


def test_a_first_successor_that_took_another_slot_is_passed_by_though_it_answers() -> None:
    me = member(range(1, 6))
    first, second = me.nodes[0].successors[:2]
    number = next(n for n in range(1, 6) if peer_number(n).peer == first.peer)
    hear(
        me,
        next(
            there
            for there in (moved(number, slot) for slot in range(1, SLOTS))
            if is_behind(second, there, me)
        ),
    )
    converse(me, ring_answer, 60.0)
    assert first not in me.nodes[0].successors


def is_behind(one: Contact, other: SignedRecord, me: RingMachine) -> bool:
    """Does the other sit past the first one, on the way around the circle to us?"""
    return is_between(one.position, contact(other).position, me.me.position)


def test_a_predecessor_that_took_another_slot_gives_way_to_the_one_before_it_though_it_answers() -> None:
    me = member(range(1, 6))
    before, last = me.nodes[0].successors[-2:]
    assert me.nodes[0].predecessor == last
    number = next(n for n in range(1, 6) if peer_number(n).peer == last.peer)
    hear(me, moved(number))
    me.receive(Notify(id=9, source=before, target=0), before, NOW)
    converse(me, ring_answer, 5.0)
    assert me.nodes[0].predecessor == before


@pytest.fixture
def anyio_backend(virtual_time: Any) -> Any:
    return virtual_time


@pytest.mark.anyio
async def test_a_node_behind_a_shared_address_takes_the_next_free_slot() -> None:
    async with opened("anna", Ways(id_check="ip")) as anna, opened("bert", Ways(id_check="ip")) as bert:
        await anna.node.join([])
        await bert.node.join([anna.address])
        await until(lambda: anna.node.statistics().is_ideal and bert.node.statistics().is_ideal)
        await until(lambda: anna.node.statistics().ring.members == 2)
        assert (anna.node.statistics().slot, bert.node.statistics().slot) == (0, 1)
        async with opened("carl", Ways(id_check="ip")) as carl:
            await carl.node.join([anna.address])
            await until(lambda: carl.node.statistics().is_ideal and anna.node.statistics().ring.members == 3)
            assert carl.node.statistics().slot == 2
            assert len({peer.node.me.position for peer in (anna, bert, carl)}) == 3


@pytest.mark.anyio
async def test_a_ninth_peer_behind_one_address_waits_for_a_place_and_takes_what_becomes_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dht.core.seat, "SLOTS_AGAIN_S", (AGAIN_S,))
    ways = Ways(id_check="ip")
    async with AsyncExitStack() as stack:
        peers = [await stack.enter_async_context(opened(f"peer {n}", ways)) for n in range(SLOTS - 1)]
        await peers[0].node.join([])
        for number, peer in enumerate(peers[1:], start=2):
            await peer.node.join([peers[0].address])
            await until(partial(is_ideal, peers[:number]))
        async with opened("guest", ways) as guest, opened("ninth", ways) as ninth:
            await guest.node.join([peers[0].address])
            await until(partial(is_ideal, [*peers, guest]))
            await ninth.node.join([peers[0].address])
            await anyio.sleep(AGAIN_S / 3)
            assert not ninth.node.statistics().is_joined
            assert ninth.node.statistics().restarts <= SLOTS
            guest.node.leave()
            await until(lambda: ninth.node.statistics().is_joined, 2 * AGAIN_S)
            assert ninth.node.statistics().restarts <= 2 * SLOTS


@pytest.mark.anyio
@pytest.mark.parametrize("seed", range(3))
async def test_of_peers_that_claim_a_slot_in_one_second_exactly_one_keeps_it(seed: int) -> None:
    """Two in three of such rings were never ideal: they listed peers where those had sat, and newcomers found the
    free slots taken.
    """
    ways = Ways(id_check="ip")
    async with AsyncExitStack() as stack:
        peers = [await stack.enter_async_context(opened(f"{seed} {n}", ways)) for n in range(SLOTS)]
        await peers[0].node.join([])
        async with anyio.create_task_group() as tasks:
            for peer in peers[1:]:
                tasks.start_soon(peer.node.join, [peers[0].address])
            await until(partial(is_ideal, peers))
        assert sorted(peer.node.statistics().slot for peer in peers) == [*range(SLOTS)]
        # All claim slot 1, all but one then slot 2, and so on; the first peer has slot 0.
        assert sum(peer.node.statistics().restarts for peer in peers) == sum(range(SLOTS))
