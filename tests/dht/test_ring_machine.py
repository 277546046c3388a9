"""Transcripts: messages and time in, effects out, one operation each."""

from random import Random

import pytest
from msgspec.structs import replace

from dht.core.arcs import Arc
from dht.core.effects import (
    ArcsChanged,
    Effect,
    Joined,
    JoinFailed,
    LookupDone,
    PeerChanged,
    Send,
)
from dht.core.ids import Key, key_from_number, number_of
from dht.core.machine import RingMachine
from dht.core.messages import (
    Accuse,
    Ack,
    Busy,
    Closer,
    Digest,
    DigestDiffers,
    Find,
    GetState,
    MemberRecords,
    Message,
    NeighbourState,
    Notify,
    NotMember,
    Offer,
    Owner,
    Ping,
    Pong,
    ProbeReply,
    ProbeRequest,
    Pull,
    Rumour,
    Unchanged,
)
from dht.core.records import (
    CLOSED,
    LEAF,
    Birth,
    Contact,
    Death,
    Line,
    PeerRecord,
    SignedRecord,
    Stay,
    contacts_of,
    record_fault,
)
from dht.core.ring import merged
from dht.core.rules import RingRules
from simnet.rings import NETWORK, START_S, SimulatedNotary, learn, peer_number

NOW = START_S
RULES = RingRules(network=NETWORK, proves_newcomers=False)
RECORDS = sorted((peer_number(n) for n in range(8)), key=lambda r: contacts_of(r, "ip")[0].position)
PEERS = [contacts_of(record, "ip")[0] for record in RECORDS]  # in ring order

ONE = Line(host=bytes((192, 0, 2, 7)), udp=4484, tcp=4485)
OTHER = Line(host=bytes.fromhex("20010db8000000000000000000000007"), udp=4484, tcp=4485)


def machine(place: int = 0) -> RingMachine:
    record = RECORDS[place]
    return RingMachine(record=record, rules=RULES, notary=SimulatedNotary(record.peer), random=Random(1))


def signed(place: int, incarnation: int = int(NOW), **changes: object) -> SignedRecord:
    record = replace(
        RECORDS[place],
        incarnation=incarnation,
        issued_s=int(NOW),
        expires_s=int(NOW) + 3600,
        **changes,
    )
    return SimulatedNotary(record.peer).sign_record(record)


def sent(effects: list[Effect]) -> list[tuple[Contact, Message]]:
    return [(effect.to, effect.message) for effect in effects if isinstance(effect, Send)]


def only(kind: type[Message], effects: list[Effect]) -> tuple[Contact, Message]:
    (found,) = [pair for pair in sent(effects) if isinstance(pair[1], kind)]
    return found


def test_alone_a_peer_owns_everything_and_answers_so() -> None:
    alone = machine()
    alone.create(NOW)
    (arcs,) = [effect for effect in alone.take_effects() if isinstance(effect, ArcsChanged)]
    assert arcs.arcs == (Arc(start=PEERS[0].position, end=PEERS[0].position),)
    alone.receive(Find(id=7, key=Key(bytes(20))), PEERS[3], NOW)
    to, answer = only(Owner, alone.take_effects())
    assert to == PEERS[3]
    assert isinstance(answer, Owner)
    assert answer.id == 7
    assert answer.holders == (PEERS[0],)


def test_who_has_just_joined_does_not_call_itself_the_owner_of_anything() -> None:
    one = just_joined()
    one.receive(Find(id=1, key=PEERS[0].position), PEERS[5], NOW)
    _, answer = only(Closer, one.take_effects())
    assert isinstance(answer, Closer)
    assert PEERS[0] not in answer.contacts


def test_a_newcomer_adopts_the_owners_list_notifies_it_and_compares_tables_with_it() -> None:
    newcomer = machine(0)
    newcomer.join([PEERS[4], PEERS[5]], NOW)
    finds = [(to, m) for to, m in sent(newcomer.take_effects()) if isinstance(m, Find)]
    assert {to for to, _ in finds} == {PEERS[4], PEERS[5]}
    for to, find in finds:
        newcomer.receive(Owner(id=find.id, holders=(PEERS[1], PEERS[2]), records=()), to, NOW + 0.1)
    for to, find in [(to, m) for to, m in sent(newcomer.take_effects()) if isinstance(m, Find)]:
        assert to == PEERS[1]  # the owner itself must answer
        newcomer.receive(Owner(id=find.id, holders=(PEERS[1], PEERS[2]), records=()), to, NOW + 0.2)
    to, asked = only(GetState, newcomer.take_effects())
    assert to == PEERS[1]
    state = NeighbourState(id=asked.id, version=1, predecessor=PEERS[7], successors=(PEERS[2], PEERS[3]))
    newcomer.receive(state, to, NOW + 0.3)
    effects = newcomer.take_effects()
    assert newcomer.nodes[0].successors == (PEERS[1], PEERS[2], PEERS[3])
    assert newcomer.nodes[0].predecessor is None
    assert only(Notify, effects)[0] == PEERS[1]
    assert Joined(contact=PEERS[0]) in effects
    assert only(Digest, effects)[0] == PEERS[1]


def test_joining_fails_when_no_contact_answers() -> None:
    newcomer = machine(0)
    newcomer.join([PEERS[4]], NOW)
    effects: list[Effect] = []
    while (deadline := newcomer.next_deadline()) is not None and deadline < NOW + 60:
        newcomer.advance(deadline)
        effects += newcomer.take_effects()
    assert JoinFailed(contact=PEERS[0]) in effects


def test_joining_twice_at_once_is_our_own_mistake() -> None:
    newcomer = machine(0)
    newcomer.join([PEERS[4]], NOW)
    with pytest.raises(AssertionError, match="already joining"):
        newcomer.join([PEERS[5]], NOW)


def member(successors: tuple[int, ...] = (2, 3), predecessor: int | None = 7) -> RingMachine:
    """Peer 0 with given lists, about to stabilize; its table knows nobody but itself."""
    one = machine(0)
    before = None if predecessor is None else PEERS[predecessor]
    one.restore([(before, tuple(PEERS[n] for n in successors))], NOW)
    one.take_effects()
    return one


def until_asked(one: RingMachine, kind: type[Message]) -> tuple[Contact, Message, float]:
    for _ in range(100):
        deadline = one.next_deadline()
        assert deadline is not None
        one.advance(deadline)
        for to, message in sent(one.take_effects()):
            if isinstance(message, kind):
                return to, message, deadline
    raise AssertionError(f"never sent {kind.__name__}")


def test_stabilize_adopts_the_whole_list_and_then_the_candidate_that_answers() -> None:
    one = member()
    to, asked, now = until_asked(one, GetState)
    assert to == PEERS[2]
    one.receive(
        NeighbourState(id=asked.id, version=5, predecessor=PEERS[1], successors=(PEERS[3], PEERS[4])), to, now
    )
    assert one.nodes[0].successors == (PEERS[2], PEERS[3], PEERS[4])
    to, asked = only(GetState, one.take_effects())
    assert to == PEERS[1]
    one.receive(
        NeighbourState(id=asked.id, version=9, predecessor=PEERS[7], successors=(PEERS[2], PEERS[3])), to, now
    )
    assert one.nodes[0].successors == (PEERS[1], PEERS[2], PEERS[3])
    assert only(Notify, one.take_effects())[0] == PEERS[1]


def test_a_candidate_is_not_taken_on_hearsay() -> None:
    one = member()
    to, asked, now = until_asked(one, GetState)
    one.receive(NeighbourState(id=asked.id, version=5, predecessor=PEERS[1], successors=(PEERS[3],)), to, now)
    to, asked = only(GetState, one.take_effects())
    one.receive(NotMember(id=asked.id), to, now)
    assert one.nodes[0].successors[0] == PEERS[2]


def test_a_waiting_node_says_busy_and_still_answers_pings() -> None:
    one = member()
    _, _, now = until_asked(one, GetState)
    one.receive(GetState(id=1, source=PEERS[5], target=0, known=0), PEERS[5], now)
    one.receive(Ping(id=2), PEERS[5], now)
    assert sent(one.take_effects()) == [(PEERS[5], Busy(id=1)), (PEERS[5], Pong(id=2))]


def test_meeting_busy_abandons_the_step_and_tries_again_soon() -> None:
    one = member()
    to, asked, now = until_asked(one, GetState)
    one.receive(Busy(id=asked.id), to, now)
    assert one.nodes[0].successors == (PEERS[2], PEERS[3])
    _, _, again = until_asked(one, GetState)
    assert 0.1 <= again - now <= 0.5


def test_an_answer_that_comes_too_late_changes_nothing_but_that_its_peer_is_well_again() -> None:
    """A peer that answers slowly is passed by like a dead one; what it says in the end is nobody's answer."""
    one = member()
    to, asked, now = until_asked(one, GetState)
    assert to == PEERS[2]
    while one.nodes[0].successors[0] == PEERS[2]:
        next_to, next_asked, now = until_asked(one, GetState)
        if next_to == PEERS[3]:
            one.receive(
                NeighbourState(id=next_asked.id, version=5, predecessor=PEERS[2], successors=(PEERS[7],)),
                PEERS[3],
                now,
            )
    assert dict(one.statistics().unwell)[PEERS[2].peer] == "unreachable"
    one.receive(
        NeighbourState(id=asked.id, version=1, predecessor=None, successors=(PEERS[5], PEERS[6])),
        PEERS[2],
        now + 9,
    )
    assert one.nodes[0].successors == (PEERS[3], PEERS[7])
    assert dict(one.statistics().counts)["replies unasked"] == 1
    assert PEERS[2].peer not in dict(one.statistics().unwell)


def test_a_silent_successor_is_passed_by_after_three_tries() -> None:
    one = member()
    to, asked, now = until_asked(one, GetState)
    tries = 1
    while to == PEERS[2]:
        to, asked, now = until_asked(one, GetState)
        tries += to == PEERS[2]
    assert tries == 3
    assert to == PEERS[3]
    one.receive(NeighbourState(id=asked.id, version=1, predecessor=PEERS[2], successors=(PEERS[4],)), to, now)
    assert one.nodes[0].successors == (PEERS[3], PEERS[4])


def test_state_is_sent_once_and_then_only_unchanged() -> None:
    one = member()
    one.receive(GetState(id=1, source=PEERS[5], target=0, known=0), PEERS[5], NOW)
    (_, full), *_ = sent(one.take_effects())
    assert isinstance(full, NeighbourState)
    one.receive(GetState(id=2, source=PEERS[5], target=0, known=full.version), PEERS[5], NOW)
    assert sent(one.take_effects()) == [(PEERS[5], Unchanged(id=2))]


def test_a_closer_predecessor_is_taken_and_a_farther_one_only_when_the_present_is_dead() -> None:
    one = member(predecessor=5)
    one.receive(Notify(id=1, source=PEERS[6], target=0), PEERS[6], NOW)
    assert sent(one.take_effects()) == [(PEERS[6], Ack(id=1))]
    assert one.nodes[0].predecessor == PEERS[6]
    one.receive(Notify(id=2, source=PEERS[4], target=0), PEERS[4], NOW)
    to, asked = only(GetState, one.take_effects())
    assert to == PEERS[6]
    one.receive(NotMember(id=asked.id), to, NOW)
    assert one.nodes[0].predecessor == PEERS[4]


@pytest.mark.parametrize("answer", [Busy(id=0), Unchanged(id=0)])
def test_a_predecessor_that_answers_is_not_replaced_by_a_farther_one(answer: Busy | Unchanged) -> None:
    one = member(predecessor=6)
    one.receive(Notify(id=2, source=PEERS[4], target=0), PEERS[4], NOW)
    to, asked = only(GetState, one.take_effects())
    assert to == PEERS[6]
    one.receive(replace(answer, id=asked.id), to, NOW)
    assert one.nodes[0].predecessor == PEERS[6]


def test_a_newcomer_believes_no_single_contact_that_another_contradicts() -> None:
    """At first: in a storm of joins honest answers differ too, so after some rounds the nearer one is taken."""
    newcomer = machine(0)
    newcomer.join([PEERS[4], PEERS[5]], NOW)
    said = {PEERS[4]: PEERS[2], PEERS[5]: PEERS[1], PEERS[1]: PEERS[1], PEERS[2]: PEERS[2]}
    rounds, now = 0, NOW
    while rounds < 3:
        messages = sent(newcomer.take_effects())
        for to, message in messages:
            assert isinstance(message, Find), "the owner is asked for its lists only once it is sure"
            rounds += to == PEERS[4]
            newcomer.receive(Owner(id=message.id, holders=(said[to],), records=()), to, now)
        if not messages:
            now = max(now, newcomer.next_deadline() or now)
            newcomer.advance(now)
    assert not newcomer.nodes[0].is_member


def test_a_notify_in_anothers_name_is_dropped_and_counted() -> None:
    one = member(predecessor=5)
    one.receive(Notify(id=1, source=PEERS[6], target=0), PEERS[3], NOW)
    assert sent(one.take_effects()) == []
    assert one.nodes[0].predecessor == PEERS[5]
    assert dict(one.statistics().counts) == {"sources forged": 1}


def test_an_answer_from_somebody_else_is_dropped() -> None:
    one = member()
    _, asked, now = until_asked(one, GetState)
    one.receive(
        NeighbourState(id=asked.id, version=5, predecessor=None, successors=(PEERS[6],)), PEERS[6], now
    )
    assert one.nodes[0].successors == (PEERS[2], PEERS[3])
    assert dict(one.statistics().counts) == {"replies unasked": 1}


def test_a_list_out_of_order_or_around_the_ring_is_cut() -> None:
    line = (PEERS[3], PEERS[2], PEERS[3], PEERS[5], PEERS[0], PEERS[6])
    assert merged(PEERS[0], PEERS[1], line, 16) == (PEERS[1], PEERS[3], PEERS[5])


# --- membership


def test_a_rumour_enters_the_table_once_and_is_offered_on() -> None:
    one = member()
    news = signed(4)
    one.receive(Rumour(id=1, news=(news,)), PEERS[4], NOW)
    assert one.table.records[PEERS[4].peer] is news
    assert len(one._gossip.rumours.waiting) == 1
    _, offer, _ = until_asked(one, Offer)
    assert isinstance(offer, Offer)
    assert offer.marks == (one.table.mark_of(PEERS[4].peer),)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (signed(4, network=b"stranger"), "records network"),
        (signed(4, version=1), "records version"),
        (signed(4, version=2), "records version"),
        (signed(4, version=4), "records version"),
        (signed(4, since=int(NOW) // 86_400 + 2), "records age"),
        (signed(4, trail=(Stay(place=b"\x04\x0a", since=9),)), "records trail"),
        (signed(4, trail=2 * (Stay(place=b"\x04\x0a", since=9),)), "records trail"),
        (signed(4, trail=tuple(Stay(place=b"\x04\x0a", since=1 << 15 | n) for n in (1, 2))), "records age"),
        (replace(signed(4), signature=bytes(16)), "records forged"),
        (signed(4, slot=8), "records positions"),
        (signed(4, virtual_nodes=65), "records positions"),
        (signed(4, lines=()), "records lines"),
        (signed(4, lines=(ONE, ONE)), "records lines"),
        (signed(4, lines=(replace(ONE, udp=0),)), "records lines"),
        (signed(4, lines=(replace(ONE, tcp=0),)), "records lines"),
        (signed(4, lines=(ONE, replace(OTHER, udp=0, tcp=0)), flags=LEAF), "records lines"),
        (signed(4, lines=(replace(ONE, host=b"abc"),)), "records address"),
        (signed(4, lines=(replace(ONE, host=bytes(10) + b"\xff\xff\x0a\x00\x00\x01"),)), "records address"),
        (signed(4, flags=CLOSED), "records relays"),
        (signed(4, flags=CLOSED, relays=(bytes(8), bytes(8))), "records relays"),
        (signed(4, relays=(bytes(7),)), "records relays"),
        (signed(4, seat=Birth(host=b"abc", day=1)), "records seat"),
        (signed(4, seat=Birth(host=b"abcd", day=int(NOW) // 86_400 + 2)), "records seat"),
    ],
)
def test_a_bad_record_is_dropped_and_counted(bad: SignedRecord, reason: str) -> None:
    one = member()
    one.receive(Rumour(id=1, news=(bad,)), PEERS[5], NOW)
    assert PEERS[4].peer not in one.table.records
    assert dict(one.statistics().counts) == {reason: 1}


@pytest.mark.parametrize(
    "good",
    [
        signed(4, lines=(ONE, replace(OTHER, udp=0))),  # its second line need not have both
        signed(4, lines=(replace(ONE, udp=0, tcp=0),), flags=LEAF),
        signed(4, lines=(replace(ONE, udp=0, tcp=0),), flags=CLOSED, relays=(bytes(8),)),
        signed(4, relays=(bytes(8), b"another.")),  # for peers that do not speak its line's family
        signed(4, seat=Birth(host=b"abcd", day=int(NOW) // 86_400)),
    ],
)
def test_a_sound_record_is_no_fault(good: SignedRecord) -> None:
    assert record_fault(good.record, good.record.network, NOW) is None


def test_expired_future_and_endless_records_are_faults() -> None:
    record = signed(4).record
    assert record_fault(record, NETWORK, NOW) is None
    assert record_fault(record, NETWORK, NOW + 3601) == "expired"
    assert record_fault(record, NETWORK, NOW - 700) == "future"
    assert record_fault(replace(record, expires_s=int(NOW) + 90_000), NETWORK, NOW) == "life"


def test_an_older_incarnation_does_not_replace_a_newer_one() -> None:
    one = member()
    one.receive(Rumour(id=1, news=(signed(4, int(NOW) + 5),)), PEERS[5], NOW)
    one.receive(Rumour(id=2, news=(signed(4, int(NOW)),)), PEERS[5], NOW)
    assert one.table.incarnation(PEERS[4].peer) == int(NOW) + 5
    assert dict(one.statistics().counts) == {"records old": 1}


def death_of(place: int, by: int, confirmed_by: int) -> Death:
    accuser, confirmer = RECORDS[by].peer, RECORDS[confirmed_by].peer
    suspect = RECORDS[place].peer
    return Death(
        peer=suspect,
        incarnation=int(NOW),
        accuser=accuser,
        accuser_signature=SimulatedNotary(accuser).sign_death(suspect, int(NOW)),
        confirmer=confirmer,
        confirmer_signature=SimulatedNotary(confirmer).sign_death(suspect, int(NOW)),
    )


def test_a_death_needs_two_different_witnesses_with_signatures() -> None:
    one = member()
    learn(one, [signed(n) for n in range(1, 8)], NOW)
    for forged in (death_of(4, 5, 5), replace(death_of(4, 5, 6), confirmer_signature=bytes(16))):
        one.receive(Rumour(id=1, news=(forged,)), PEERS[5], NOW)
        assert PEERS[4].peer in one.table.records
    one.receive(Rumour(id=1, news=(death_of(4, 5, 6),)), PEERS[5], NOW)
    assert PEERS[4].peer not in one.table.records
    assert PeerChanged(peer=PEERS[4].peer, clock="dead") in one.take_effects()


def test_a_newer_incarnation_refutes_a_death() -> None:
    one = member()
    learn(one, [signed(n) for n in range(1, 8)], NOW)
    one.receive(Rumour(id=1, news=(death_of(4, 5, 6),)), PEERS[5], NOW)
    one.receive(Rumour(id=2, news=(signed(4),)), PEERS[4], NOW)
    assert PEERS[4].peer not in one.table.records  # the same incarnation stays dead
    one.receive(Rumour(id=3, news=(signed(4, int(NOW) + 1),)), PEERS[4], NOW)
    assert PEERS[4].peer in one.table.records


def test_the_accused_answers_with_a_higher_incarnation() -> None:
    one = member()
    learn(one, [signed(7)], NOW)
    own = one.own_record.incarnation
    signature = SimulatedNotary(PEERS[7].peer).sign_death(PEERS[0].peer, own)
    accusation = Accuse(id=1, suspect=PEERS[0], incarnation=own, signature=signature)
    one.receive(accusation, PEERS[7], NOW)
    _, rumour = only(Rumour, one.take_effects())
    assert isinstance(rumour, Rumour)
    (news,) = rumour.news
    assert isinstance(news, SignedRecord)
    assert news.record.incarnation == own + 1


def test_a_helper_tells_whether_the_target_answers() -> None:
    one = member()
    one.receive(ProbeRequest(id=9, target=PEERS[3]), PEERS[5], NOW)
    to, ping = only(Ping, one.take_effects())
    assert to == PEERS[3]
    one.receive(Pong(id=ping.id), to, NOW)
    assert sent(one.take_effects()) == [(PEERS[5], ProbeReply(id=9, is_alive=True))]


def test_digests_name_the_buckets_that_differ_and_pulls_fill_them() -> None:
    one, other = member(), machine(1)
    other.create(NOW)
    other.take_effects()
    news = signed(4)
    learn(other, [news], NOW)
    other.receive(Digest(id=1, sums=tuple(one.table.sums)), PEERS[0], NOW)
    _, differs = only(DigestDiffers, other.take_effects())
    assert isinstance(differs, DigestDiffers)
    assert set(differs.buckets) == {r.peer[0] for r in (RECORDS[0], RECORDS[1], RECORDS[4])}
    other.receive(Pull(id=2, bucket=PEERS[4].peer[0], after=b"", have=()), PEERS[0], NOW)
    _, records = only(MemberRecords, other.take_effects())
    assert isinstance(records, MemberRecords)
    assert records.news == (news,)
    assert not records.more


# --- lookups, leaving


def test_a_lookup_skips_a_dead_owner_inside_the_list_instead_of_giving_up() -> None:
    """All owners that the station names are dead; the next of its whole list is the owner."""
    one = member(successors=(1,), predecessor=7)
    key = key_from_number(number_of(PEERS[1].position) + 1)
    lookup = one.lookup(key, NOW)
    done: list[LookupDone] = []
    now = NOW
    for _ in range(60):
        effects = one.take_effects()
        done += [effect for effect in effects if isinstance(effect, LookupDone) and effect.id == lookup]
        for to, message in sent(effects):
            if isinstance(message, Find) and to == PEERS[1]:
                one.receive(Owner(id=message.id, holders=(PEERS[2], PEERS[3]), records=()), to, now)
            elif isinstance(message, GetState) and to == PEERS[1]:
                line = (PEERS[2], PEERS[3], PEERS[4])
                one.receive(
                    NeighbourState(id=message.id, version=1, predecessor=PEERS[0], successors=line), to, now
                )
            elif isinstance(message, Find) and to == PEERS[4]:
                one.receive(Owner(id=message.id, holders=(PEERS[4], PEERS[5]), records=()), to, now)
        now = one.next_deadline() or now
        one.advance(now)
    assert done
    assert done[0].holders[0] == PEERS[4]
    assert done[0].timeouts == 2


def just_joined() -> RingMachine:
    """It has the list of its owner, and nobody has told it yet who comes before."""
    one = machine()
    one.restore([(None, (PEERS[2], PEERS[3]))], NOW)
    one.take_effects()
    return one


def test_a_helper_that_is_dead_itself_does_not_hold_up_the_examination() -> None:
    """Two that died together: a third one sees the first silent, and the second answers no question about it."""
    one = member()
    learn(one, [signed(n) for n in (2, 3, 4)], NOW)
    now, asked, clocks = NOW, set[Contact](), dict[str, float]()
    while "suspect" not in clocks:
        effects = one.take_effects()
        for effect in effects:
            if isinstance(effect, PeerChanged) and effect.peer == PEERS[2].peer:
                clocks.setdefault(effect.clock, now)
        for to, message in sent(effects):
            if isinstance(message, ProbeRequest) and message.target == PEERS[2]:
                asked.add(to)
            if to == PEERS[3]:
                is_probe = isinstance(message, ProbeRequest)
                one.receive(
                    ProbeReply(id=message.id, is_alive=False) if is_probe else Pong(id=message.id), to, now
                )
        now = max(now, one.next_deadline() or now)
        one.advance(now)
        assert now < NOW + 60
    assert asked == {PEERS[3], PEERS[4]}
    assert clocks["suspect"] - clocks["unreachable"] <= 12.0


def test_what_must_be_held_reaches_back_over_k_distinct_hosts() -> None:
    one = member(successors=(1, 2, 3), predecessor=7)
    learn(one, [signed(n) for n in range(1, 8)], NOW)
    one.take_effects()
    assert one.arcs() == (Arc(start=PEERS[2].position, end=PEERS[0].position),)  # 7, 6, 5, 4, 3, then 2


def test_leaving_tells_the_neighbours_and_answers_nothing_more() -> None:
    one = member(successors=(1, 2), predecessor=7)
    one.leave(NOW)
    told = {to for to, message in sent(one.take_effects()) if isinstance(message, Rumour)}
    assert told == {PEERS[1], PEERS[2], PEERS[7]}
    one.receive(Ping(id=1), PEERS[1], NOW)
    assert sent(one.take_effects()) == []


def test_every_request_of_a_stranger_is_survived() -> None:
    one = member()
    stranger: PeerRecord = peer_number(99)
    sender = contacts_of(stranger, "ip")[0]
    for message in (
        GetState(id=1, source=sender, target=63, known=0),
        Notify(id=1, source=sender, target=63),
        Digest(id=1, sums=(0,) * 256),
        Pull(id=1, bucket=255, after=b"", have=()),
        MemberRecords(id=1, news=(), more=True),
        Accuse(id=1, suspect=sender, incarnation=0, signature=b""),
    ):
        one.receive(message, sender, NOW)
    assert one.nodes[0].successors == (PEERS[2], PEERS[3])
