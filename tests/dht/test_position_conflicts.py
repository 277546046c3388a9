"""One position, two claims: who has it, and how the other one learns that it must take another slot."""

from contextlib import AsyncExitStack
from functools import partial
from random import Random
from typing import Any

import anyio
import pytest
import trio.testing
from msgspec.structs import replace

import dht.core.seat
from dht.core import rules as bounds
from dht.core.effects import Effect, JoinFailed, PositionTaken, Send
from dht.core.machine import RingMachine
from dht.core.messages import Find, Owner, Ping, Pong, Rumour
from dht.core.records import SLOTS, Contact, SignedRecord, first_contact_of
from dht.core.rules import RingRules
from simnet.rings import NETWORK, START_S, SimulatedNotary, peer_number
from tests.dht.test_node import Peer, Ways, is_ideal, opened, until

NOW = START_S
RULES = RingRules(network=NETWORK)
PLACE = peer_number(7)
AGAIN_S = 60.0


def is_joined(peer: Peer) -> bool:
    return peer.node.statistics().is_joined


def claim(number: int, issued_s: float, incarnation: int = 1, virtual_nodes: int = 1) -> SignedRecord:
    """Peer `number` says that it sits where peer 7 does."""
    record = replace(
        peer_number(number, virtual_nodes=virtual_nodes),
        addresses=PLACE.addresses,
        incarnation=incarnation,
        issued_s=int(issued_s),
        expires_s=int(issued_s) + 3600,
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
    elsewhere = replace(CLAIMANT.record, addresses=peer_number(2).addresses, incarnation=0)
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


@pytest.fixture
def anyio_backend() -> Any:
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0.001)}


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
    monkeypatch.setattr(dht.core.seat, "SLOTS_AGAIN_S", AGAIN_S)
    ways = Ways(id_check="ip")
    async with AsyncExitStack() as stack:
        peers = [await stack.enter_async_context(opened(f"peer {n}", ways)) for n in range(SLOTS - 1)]
        await peers[0].node.join([])
        for number, peer in enumerate(peers[1:], start=2):
            await peer.node.join([peers[0].address])
            await until(
                partial(is_ideal, peers[:number])
            )  # two that claim a slot in one second may both give way
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
