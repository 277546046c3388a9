"""The table of members: how it is paged, capped, sampled and cleared of the dead."""

from random import Random

import pytest
from msgspec.structs import replace

from dht.core import rules as bounds
from dht.core.effects import Effect, PeerChanged, Send
from dht.core.gossip import folded
from dht.core.ids import PeerKey
from dht.core.machine import RingMachine
from dht.core.membership import MemberTable
from dht.core.messages import HAVE_MAX, Digest, MemberRecords, Offer, Pull, Rumour
from dht.core.places import PlaceRules, Standing
from dht.core.records import Address, Line, SignedRecord, Stay
from dht.core.rules import RingRules
from simnet.rings import NETWORK, START_S, SimulatedNotary, learn, peer_number
from tests.dht.machines import contact, death, machine, signed

NOW = START_S
DAY_S = 24 * 3600.0


def at(number: int, host: tuple[int, int, int, int], slot: int = 0, virtual_nodes: int = 1) -> SignedRecord:
    record = replace(
        signed(number).record,
        lines=(Line.at(Address(host=bytes(host), port=4484)),),
        slot=slot,
        virtual_nodes=virtual_nodes,
    )
    return SimulatedNotary(record.peer).sign_record(record)


def enter(table: MemberTable, one: SignedRecord) -> str | None:
    refusal = table.refusal(one)
    if refusal is None:
        table.put(one)
    return refusal


# --- caps


def test_one_address_holds_64_positions_in_all_its_slots() -> None:
    table = MemberTable("ip")
    for slot in range(7):
        assert enter(table, at(slot, (10, 0, 0, 1), slot, 9)) is None
    assert enter(table, at(7, (10, 0, 0, 1), 7, 2)) == "crowded"
    assert enter(table, at(8, (10, 0, 0, 2), 0, 2)) is None  # its neighbour is another address
    assert enter(table, at(7, (10, 0, 0, 1), 7, 1)) is None


def test_one_prefix_holds_256_positions() -> None:
    table = MemberTable("ip")
    for number in range(4):
        assert enter(table, at(number, (10, 0, 0, number), 0, 64)) is None
    assert enter(table, at(4, (10, 0, 0, 4))) == "crowded"
    assert enter(table, at(5, (10, 0, 1, 4))) is None
    table.remove(peer_number(0).peer)
    assert enter(table, at(4, (10, 0, 0, 4))) is None


def test_a_place_is_as_wide_and_holds_as_much_as_the_charter_says() -> None:
    table = MemberTable("ip", PlaceRules(place_v4=16, positions_per_place=8))
    assert enter(table, at(0, (10, 0, 0, 1), 0, 60)) is None
    assert enter(table, at(1, (10, 0, 9, 1), 0, 5)) == "crowded"
    assert enter(table, at(1, (10, 0, 9, 1), 0, 4)) is None
    assert enter(table, at(2, (10, 1, 0, 1), 0, 5)) is None


def test_the_standing_of_a_member_follows_its_record() -> None:
    table = MemberTable("ip", PlaceRules())
    one, moved = at(0, (10, 0, 0, 1)), at(0, (10, 7, 7, 1))
    enter(table, one)
    before = table.standings(100)
    assert before == {one.peer: Standing(bytes((4, 10, 0, 0)), bytes((4, 10, 0)), True)}
    today = int(NOW) // 86_400
    newer = replace(moved.record, incarnation=one.record.incarnation + 1, since=today)
    assert enter(table, SimulatedNotary(newer.peer).sign_record(newer)) is None
    assert table.standings(100)[one.peer].place == bytes((4, 10, 7, 7))
    assert before[one.peer].place == bytes((4, 10, 0, 0)), "what was given stays as it was"
    table.remove(one.peer)
    assert table.standings(100) == table.standings(101) == {}


def renewed(of: SignedRecord, **changes: object) -> SignedRecord:
    """The same member's next record, a day later."""
    record = replace(of.record, incarnation=of.record.incarnation + 1, issued_s=of.record.issued_s + 86_400)
    return SimulatedNotary(of.peer).sign_record(replace(record, **changes))


def test_no_member_makes_itself_older_than_we_know_it() -> None:
    table = MemberTable("ip", PlaceRules())
    one = renewed(at(0, (10, 0, 0, 1)), since=90, issued_s=100 * 86_400)
    enter(table, one)
    assert enter(table, renewed(one, since=89)) == "age"
    assert enter(table, renewed(one, since=95)) is None, "but younger"
    heir = renewed(one, since=90, peer=peer_number(77).peer, previous=one.peer, incarnation=9)
    assert enter(table, heir) == "age", "nor by a new key"


def test_no_member_moves_without_saying_so() -> None:
    table = MemberTable("ip", PlaceRules(probation_days=99))
    there = Address(host=bytes((10, 7, 7, 1)), port=4484)
    before, after = Stay(place=bytes((4, 10, 0, 0)), since=50), Stay(place=bytes((4, 10, 7, 7)), since=100)
    one = renewed(at(0, (10, 0, 0, 1)), since=50, issued_s=100 * 86_400)
    enter(table, one)
    assert enter(table, renewed(one, lines=(Line.at(there),))) == "trail"
    long_ago = (before, Stay(place=after.place, since=99))
    assert enter(table, renewed(one, lines=(Line.at(there),), trail=long_ago)) == "trail"
    moved = renewed(one, lines=(Line.at(there),), trail=(before, after))
    assert enter(table, moved) is None
    assert enter(table, renewed(moved, trail=())) == "trail", "nor forgets it the day after"
    assert enter(table, renewed(moved, trail=(before, replace(after, since=99)))) == "trail"
    back = renewed(moved, lines=one.record.lines, trail=())
    assert enter(table, back) is None, "it was there before"
    later = MemberTable("ip", PlaceRules())
    enter(later, moved)
    assert enter(later, renewed(moved, trail=(), issued_s=107 * 86_400)) is None, "a week later"


def test_growing_a_peer_counts_its_own_positions_once() -> None:
    table = MemberTable("ip")
    assert enter(table, at(0, (10, 0, 0, 1), 0, 40)) is None
    grown = replace(at(0, (10, 0, 0, 1), 0, 64).record, incarnation=2)
    assert enter(table, SimulatedNotary(grown.peer).sign_record(grown)) is None
    assert len(table.positions) == 64


def test_a_test_ring_has_no_caps() -> None:
    table = MemberTable("off")
    for number in range(10):
        record = replace(at(number, (127, 0, 0, 1), 0, 64).record)
        moved = replace(record, lines=(Line.at(Address(host=bytes((127, 0, 0, 1)), port=5000 + number)),))
        assert enter(table, SimulatedNotary(moved.peer).sign_record(moved)) is None


# --- paging


def in_bucket(bucket: int, number: int) -> SignedRecord:
    one = signed(number)
    record = replace(one.record, peer=PeerKey(bytes((bucket,)) + one.record.peer[1:]))
    return SimulatedNotary(record.peer).sign_record(record)


def other() -> RingMachine:
    record = peer_number(5_000)
    rules = RingRules(network=NETWORK, proves_newcomers=False)
    two = RingMachine(record=record, rules=rules, notary=SimulatedNotary(record.peer), random=Random(2))
    two.create(NOW)
    two.take_effects()
    return two


def talk(one: RingMachine, two: RingMachine, seconds: float) -> list[Effect]:
    """The two alone with each other; whatever they send to others is lost.  Gives what both sent."""
    now, end, effects = NOW, NOW + seconds, list[Effect]()
    while now < end:
        new = [(a, b, effect) for a, b in ((one, two), (two, one)) for effect in a.take_effects()]
        for sender, receiver, effect in new:
            effects.append(effect)
            if isinstance(effect, Send) and effect.to.peer == receiver.me.peer:
                receiver.receive(effect.message, sender.me, now)
        if not new:
            now = max(now, min(filter(None, (one.next_deadline(), two.next_deadline())), default=end))
            one.advance(now)
            two.advance(now)
    return effects


def test_tables_that_differ_in_hundreds_are_paged_both_ways_without_streams() -> None:
    one, two = machine(), other()
    shared, mine, theirs = (range(start, start + 220) for start in (10_000, 20_000, 30_000))
    learn(one, [in_bucket(7, n) for n in (*shared, *mine)], NOW)
    learn(two, [in_bucket(7, n) for n in (*shared, *theirs)], NOW)
    learn(one, [signed(n) for n in range(600, 900)], NOW)
    one.merge(two.me, NOW)
    effects = talk(one, two, 3)
    assert set(one.table.records) == set(two.table.records)
    assert len(one.table) == 3 * 220 + 300 + 2
    assert one.table.sums == two.table.sums
    sent = [effect.message for effect in effects if isinstance(effect, Send)]
    assert max(len(message.news) for message in sent if isinstance(message, MemberRecords)) == 7
    assert max(len(message.have) for message in sent if isinstance(message, Pull)) == HAVE_MAX


def digests_of(effects: list[Effect], sender: RingMachine, to: RingMachine) -> list[int]:
    return [
        len(effect.message.sums)
        for effect in effects
        if isinstance(effect, Send) and isinstance(effect.message, Digest) and effect.to.peer == to.me.peer
    ]


def test_who_found_nothing_at_the_last_time_sends_eight_sums_and_all_once_these_differ() -> None:
    one, two = machine(), other()
    learn(one, [signed(n) for n in range(600, 640)], NOW)
    one.merge(two.me, NOW)
    talk(one, two, 30)
    assert one.table.sums == two.table.sums
    one.merge(two.me, NOW + 30)  # to find that nothing differs
    talk(one, two, 3)
    one.merge(two.me, NOW + 40)
    assert digests_of(talk(one, two, 0.5), one, two) == [8]
    learn(two, [signed(700)], NOW)
    one.merge(two.me, NOW + 50)
    assert digests_of(talk(one, two, 0.5), one, two) == [8, 256]
    assert one.table.sums == two.table.sums
    assert peer_number(700).peer in one.table.records
    one.merge(two.me, NOW + 60)
    assert digests_of(talk(one, two, 0.5), one, two) == [256], "more may differ than was found"


def test_sums_are_folded_by_neighbouring_buckets() -> None:
    sums = [1] * 32 + [(1 << 32) - 1, 3] + [0] * 221 + [9]
    assert folded(sums, 256) == tuple(sums)
    assert folded(sums, 8) == (32, 2, 0, 0, 0, 0, 0, 9)


# --- the day after


def test_a_death_is_a_departure_after_a_day_unless_the_peer_came_back() -> None:
    one = machine(known=8)
    learn(one, [death(4, 5, 6), death(7, 5, 6)], NOW)
    now = NOW
    effects: list[Effect] = []
    came_back = False
    while now < NOW + DAY_S + 300:
        effects += one.take_effects()
        now = max(now, one.next_deadline() or now)
        one.advance(now)
        if not came_back and now > NOW + 3600:
            came_back = True
            assert {peer_number(4).peer, peer_number(7).peer} <= set(one.table.tombs)
            one.receive(Rumour(id=1, news=(signed(7, incarnation=2),)), contact(7), now)
            assert not [e for e in effects if isinstance(e, PeerChanged) and e.clock == "departed"]
    departed = [e.peer for e in effects if isinstance(e, PeerChanged) and e.clock == "departed"]
    assert departed == [peer_number(4).peer]


# --- the budget


def on_a_budget(bits_per_s: float, known: int) -> RingMachine:
    record = peer_number(0)
    rules = RingRules(network=NETWORK, proves_newcomers=False, gossip_bits_per_s_max=bits_per_s)
    one = RingMachine(record=record, rules=rules, notary=SimulatedNotary(record.peer), random=Random(1))
    one.create(NOW)
    assert learn(one, [signed(number) for number in range(1, known + 1)], NOW) == known
    return one


def run(one: RingMachine, start: float, seconds: float) -> list[int]:
    """The levels of thrift that it went through."""
    now, levels = start, [one._gossip.level]
    while (deadline := one.next_deadline()) is not None and deadline < start + seconds:
        now = max(now, deadline)
        one.advance(now)
        one.take_effects()
        levels.append(one._gossip.level)
    return levels


def test_gossip_over_its_budget_slows_down_and_recovers_when_it_is_cheap_again() -> None:
    one = on_a_budget(1_000, known=50)
    asked = Pull(id=1, bucket=0, after=b"", have=())
    while one.statistics().gossip_bits_per_s < 1_200:
        one.receive(replace(asked, bucket=one.me.peer[0]), contact(3), NOW)
    one.take_effects()
    levels = run(one, NOW, 3_000)
    assert set(levels) == {0, 1}
    assert levels[0] == levels[-1] == 0


def test_gossip_far_over_its_budget_keeps_a_sample_of_the_ring_around_itself() -> None:
    one = on_a_budget(1, known=1_200)
    assert max(run(one, NOW, 400)) == 2
    assert len(one.table) <= 2 * bounds.SAMPLE_MAX
    everybody = sorted((contact(number) for number in range(1_201)), key=lambda c: c.position)
    at_me = everybody.index(one.me)
    near = {everybody[(at_me + step) % len(everybody)].peer for step in range(-64, 65)}
    assert near <= set(one.table.records)
    opposite = everybody[at_me - 600].position
    assert any(c.position > opposite for c in one.table.contacts)
    one.receive(Digest(id=1, sums=(0,) * 256), contact(3), NOW + 400)  # answered, and not followed up
    assert not [e for e in one.take_effects() if isinstance(e, Send) and isinstance(e.message, Pull)]


def test_an_expired_record_leaves_the_table() -> None:
    one = on_a_budget(1e9, known=0)
    short = [replace(signed(n).record, expires_s=int(NOW) + 600) for n in range(1, 101)]
    learn(one, [SimulatedNotary(record.peer).sign_record(record) for record in short], NOW)
    run(one, NOW, 590)
    assert len(one.table) == 101
    run(one, NOW + 590, 600)
    assert set(one.table.records) == {one.me.peer}
    assert dict(one.statistics().counts)["records expired"] == 100


# --- telling the dead


@pytest.mark.parametrize("gossip", [Rumour(id=1, news=()), Offer(id=1, marks=())])
def test_who_gossips_after_its_death_is_told_of_it_and_can_refute_it(gossip: Rumour | Offer) -> None:
    one = machine(6)
    one.receive(Rumour(id=1, news=(death(4, 5, 6),)), contact(5), NOW)
    assert peer_number(4).peer in one.table.tombs
    one.take_effects()
    one.receive(gossip, contact(4), NOW)
    told = [
        effect.message
        for effect in one.take_effects()
        if isinstance(effect, Send) and effect.to == contact(4)
    ]
    assert [message.news for message in told if isinstance(message, Rumour)] == [(death(4, 5, 6),)]


def test_a_living_peer_or_a_stranger_that_gossips_is_told_nothing() -> None:
    one = machine(6)
    for number in (5, 50):
        one.receive(Rumour(id=1, news=()), contact(number), NOW)
    assert [effect for effect in one.take_effects() if isinstance(effect, Send)] == []
