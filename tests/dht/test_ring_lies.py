"""What liars, forgers and flooders can do to one peer, and what they cannot."""

from collections.abc import Callable
from random import Random

import pytest
from msgspec.structs import replace

from dht.core import rules as bounds
from dht.core.effects import LookupDone, PeerChanged, Send
from dht.core.ids import Key, PeerKey, distance, is_between, key_from_number, number_of
from dht.core.machine import RingMachine
from dht.core.messages import (
    Accuse,
    AliveVerdict,
    Busy,
    Digest,
    DigestDiffers,
    Find,
    GetState,
    MemberRecords,
    Message,
    Notify,
    NotMember,
    Owner,
    Ping,
    Pong,
    ProbeReply,
    ProbeRequest,
    Pull,
    Rumour,
)
from dht.core.records import Contact, Death, Departure, SignedRecord, first_contact_of
from dht.core.rules import RingRules
from dht.core.witnesses import DISCREDITED_S, REFUTED_MAX
from simnet.rings import NETWORK, RingWorld, SimulatedNotary, learn, peer_number
from tests.dht.machines import NOW, RULES, contact, converse, counts, death, machine, member, signed

# --- lookups


class Liars:
    """300 peers, whose table lacks the true owner of a key; the next one after it lies."""

    def __init__(self, *invented: Contact) -> None:
        line = sorted((contact(number) for number in range(1, 301)), key=lambda c: c.position)
        self.truth, self.liar = line[100], line[102]
        self.holders = tuple(line[100:102])
        self.key: Key = key_from_number(number_of(line[99].position) + 1)
        self.invented = (self.liar, *invented)
        self.one = member(n for n in range(1, 301) if contact(n) not in self.holders)

    def answer(self, to: Contact, message: Message) -> Message | None:
        if isinstance(message, Find):
            holders = self.invented if to == self.liar else self.holders
            return Owner(id=message.id, holders=holders, records=())
        return NotMember(id=message.id) if isinstance(message, GetState) else None

    def looked_up(self, *, careful: bool) -> LookupDone:
        lookup_id = self.one.lookup(self.key, NOW, careful=careful)
        effects = converse(self.one, self.answer, 30)
        (done,) = [e for e in effects if isinstance(e, LookupDone) and e.id == lookup_id]
        return done


def far_from(key: Key, eighths: int) -> Contact:
    """A contact that nobody runs, some eighths of the circle after the key."""
    wanted = number_of(key) + (eighths << 157)
    numbers = range(1_000, 3_000)
    return min((contact(n) for n in numbers), key=lambda c: distance(key_from_number(wanted), c.position))


def test_holders_too_far_apart_for_the_ring_are_confirmed_by_another_way_and_corrected() -> None:
    lie = Liars()
    lie.invented = (lie.liar, *(far_from(lie.key, eighths) for eighths in (1, 2, 3)))
    done = lie.looked_up(careful=False)
    assert done.holders[0] == lie.truth
    assert done.is_dense


def test_a_plausible_lie_passes_a_plain_lookup_but_not_a_careful_one() -> None:
    assert Liars().looked_up(careful=False).holders == (Liars().liar,)
    done = Liars().looked_up(careful=True)
    assert done.holders[0] == Liars().truth
    assert done.is_dense


@pytest.mark.parametrize(
    "by", ["another's address", "another's address, without a record", "a seat that its record does not have"]
)
@pytest.mark.parametrize("careful", [True, False])
def test_who_is_asked_owns_no_key_by_a_position_that_is_not_its_own(by: str, careful: bool) -> None:
    """A position follows from an address, and an address next to any key is found in a second."""
    lie = Liars()
    liar = lie.liar
    if by.endswith("without a record"):
        lie.one.table.remove(liar.peer)
        lie.one.table.hint(liar)
    if by.startswith("another's address"):
        seats = [Contact.at(liar.peer, contact(n).address, 0, 0, "ip") for n in range(1_000, 4_000)]
    else:
        seats = [Contact.at(liar.peer, liar.address, slot, at, "ip") for slot in range(8) for at in range(64)]
    lie.invented = (min(seats, key=lambda seat: distance(lie.key, seat.position)), lie.truth)
    assert is_between(lie.key, lie.invented[0].position, liar.position)
    done = lie.looked_up(careful=careful)
    assert done.holders[0] == lie.truth
    assert counts(lie.one)["lookup claims forged"] >= 1


def test_who_moved_to_another_slot_claims_it_with_its_new_record() -> None:
    lie = Liars()
    mover = next(n for n in range(1, 301) if contact(n) == lie.liar)
    record = replace(signed(mover).record, slot=3, incarnation=9)
    moved = first_contact_of(record, "ip")
    new = SimulatedNotary(record.peer).sign_record(record)

    def answer(to: Contact, message: Message) -> Message | None:
        if not isinstance(message, Find) or to.peer != moved.peer:
            return NotMember(id=message.id) if isinstance(message, GetState) else None
        return Owner(id=message.id, holders=(moved,), records=(new,))

    before = key_from_number(number_of(moved.position) - 1)
    lie.one.lookup(before, NOW)
    converse(lie.one, answer, 60)
    assert "lookup claims forged" not in counts(lie.one)


def test_when_both_ways_are_thin_the_answer_says_so() -> None:
    lie = Liars()
    lie.invented = lie.holders = (lie.liar, far_from(lie.key, 2))
    done = lie.looked_up(careful=True)
    assert done.holders[0] == lie.liar
    assert not done.is_dense


# --- news


def tell(one: RingMachine, *news: SignedRecord | Death | Departure, by: int = 1) -> None:
    one.receive(Rumour(id=1, news=news), contact(by), NOW)


def alive_is(number: int) -> Callable[[Contact, Message], Message | None]:
    def answer(to: Contact, message: Message) -> Message | None:
        return Pong(id=message.id) if isinstance(message, Ping) and to == contact(number) else None

    return answer


def test_a_death_by_witnesses_whom_nobody_knows_is_not_believed_while_the_peer_answers() -> None:
    one = machine(known=8)
    tell(one, death(4, 901, 902))
    assert peer_number(4).peer in one.table.records
    converse(one, alive_is(4), 20)
    assert peer_number(4).peer in one.table.records
    assert counts(one)["deaths disbelieved"] == 1


def test_a_death_by_unknown_witnesses_is_believed_when_the_peer_is_silent_to_us_too() -> None:
    one = machine(known=8)
    tell(one, death(4, 901, 902))
    effects = converse(one, lambda _to, _message: None, 20)
    assert PeerChanged(peer=peer_number(4).peer, clock="dead") in effects


def test_a_death_by_members_who_sit_far_away_is_forged() -> None:
    one = machine(known=200)
    line = sorted(range(1, 201), key=lambda n: contact(n).position)
    tell(one, death(line[0], line[100], line[101]))
    assert counts(one) == {"deaths forged": 1}
    tell(one, death(line[0], line[1], line[101]))  # one of the two is not enough
    assert counts(one) == {"deaths forged": 2}
    tell(one, death(line[0], line[1], line[2]))
    assert peer_number(line[0]).peer not in one.table.records


def test_a_goodbye_in_anothers_name_is_forged() -> None:
    one = machine(known=8)
    goodbye = SimulatedNotary(peer_number(5).peer).sign_departure(1)
    tell(one, replace(goodbye, peer=peer_number(4).peer))
    assert peer_number(4).peer in one.table.records
    assert counts(one) == {"deaths forged": 1}


def test_an_old_goodbye_does_not_end_a_newer_life() -> None:
    one = machine(known=8)
    tell(one, signed(4, incarnation=2))
    tell(one, SimulatedNotary(peer_number(4).peer).sign_departure(1))
    assert one.table.records[peer_number(4).peer].record.incarnation == 2


def test_the_living_are_in_every_table_again_after_two_liars_announced_their_death() -> None:
    world = RingWorld(1, RingRules(network=NETWORK))
    first, *others = [peer_number(number) for number in range(12)]
    world.create(first)
    for record in others:
        world.join(record, [first_contact_of(first, "ip")])
    world.run(200)
    victim, accuser, confirmer = (world.machines[peer_number(n).peer] for n in (3, 4, 5))
    before = victim.own_record.incarnation
    lie = death(3, 4, 5, incarnation=before)
    accuser.receive(Rumour(id=1, news=(lie,)), contact(5), world.now)
    confirmer.receive(Rumour(id=2, news=(lie,)), contact(4), world.now)
    assert victim.me.peer not in accuser.table.records
    world.run(120)
    for other in world.machines.values():
        assert other.table.incarnation(victim.me.peer) > before
        assert victim.me.peer in other.table.records
    assert counts(victim)["deaths refuted"] >= 1


@pytest.mark.parametrize("incarnation", [0xFFFF_FFFE, 0xFFFF_FFFF])
def test_nobody_is_made_to_use_up_the_incarnations_that_there_are(incarnation: int) -> None:
    one = machine(known=8)
    before = one.own_record.incarnation
    one.receive(accusation(one.me, 5, incarnation), contact(5), NOW)
    tell(one, death(0, 901, 902, incarnation))
    assert one.own_record.incarnation == before
    assert counts(one) == {"deaths implausible": 2}
    converse(one, lambda _to, _message: None, 60)
    one.receive(accusation(one.me, 5, before), contact(5), NOW)
    assert one.own_record.incarnation == before + 1  # what may be meant is refuted as ever


def test_a_peer_that_remembers_the_last_incarnation_of_all_still_starts() -> None:
    record = replace(peer_number(0), incarnation=0xFFFF_FFFF)
    one = RingMachine(record=record, rules=RULES, notary=SimulatedNotary(record.peer), random=Random(1))
    one.create(NOW)
    assert one.own_record.incarnation == 0xFFFF_FFFF


def test_a_death_of_an_incarnation_that_could_not_be_refuted_is_not_believed() -> None:
    one = machine(known=8)
    tell(one, death(4, 1, 2, incarnation=0xFFFF_FFFF))  # both are members, and near
    assert peer_number(4).peer in one.table.records
    assert counts(one) == {"deaths implausible": 1}
    tell(one, death(4, 1, 2))
    assert peer_number(4).peer not in one.table.records


def test_somebody_far_away_gets_no_signature_under_his_accusation_of_the_living() -> None:
    one = machine(known=8)
    one.receive(accusation(4, 5), contact(5), NOW)
    verdicts = [e.message for e in one.take_effects() if isinstance(e, Send) and e.to == contact(5)]
    assert [getattr(verdict, "signature", None) for verdict in verdicts] == [b""]


@pytest.mark.parametrize("is_there", [True, False])
def test_a_predecessor_that_speaks_from_elsewhere_is_believed_when_it_answers_at_its_address(
    is_there: bool,
) -> None:
    one = member(range(1, 33))
    present = one.nodes[0].predecessor
    assert present is not None
    spoken_from = contact(900)
    numbers = (n for n in range(1_000, 3_000))
    near = next(c for c in map(contact, numbers) if is_between(present.position, c.position, one.me.position))
    claimed = Contact.at(spoken_from.peer, near.address, near.slot, 0, "ip")
    one.receive(Notify(id=9, source=claimed, target=0), spoken_from, NOW)
    assert one.nodes[0].predecessor == present

    def answer(to: Contact, message: Message) -> Message | None:
        if to == claimed and isinstance(message, Ping):
            return Pong(id=message.id) if is_there else None
        return Busy(id=message.id)

    converse(one, answer, 8)
    assert one.nodes[0].predecessor == (claimed if is_there else present)
    assert counts(one).get("sources elsewhere", 0) == (0 if is_there else 1)


# --- floods


def test_a_flood_of_news_leaves_bounded_tombs_graves_and_rumours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"TOMBS_MAX": 40, "GRAVES_MAX": 20, "RUMOURS_MAX": 30, "MEMBERS_MAX": 100}.items():
        monkeypatch.setattr(bounds, name, value)
    one = machine()
    for number in range(1, 301):
        tell(one, signed(number))
    assert len(one.table) == 100
    assert counts(one)["records full"] == 201
    for number in range(1, 100):
        learn(one, [death(number, number + 500, number + 600)], NOW)
    converse(one, lambda _to, _message: None, 60)
    assert (len(one.table.tombs), len(one._gossip.graves)) == (40, 20)
    assert len(one._gossip.rumours.waiting) <= 30
    for number in range(1_000, 1_100):
        tell(one, SimulatedNotary(peer_number(number).peer).sign_departure(1))
    assert len(one.table.tombs) == 40
    assert len(one.table.peers()) == len(one.table) + 40


@pytest.mark.parametrize("is_ascending", [True, False])
def test_a_bucket_that_never_ends_is_not_pulled_for_ever(is_ascending: bool) -> None:
    one, pages = machine(known=1), list[int]()

    def answer(_to: Contact, message: Message) -> Message | None:
        if isinstance(message, Digest):
            return DigestDiffers(id=message.id, buckets=(7,))
        if not isinstance(message, Pull):
            return None
        pages.append(message.bucket)
        number = len(pages) if is_ascending else 1
        invented = Departure(
            peer=PeerKey(b"\x07" + number.to_bytes(31, "big")), incarnation=1, signature=bytes(64)
        )
        return MemberRecords(id=message.id, news=(invented,), more=True)

    one.merge(contact(1), NOW)
    converse(one, answer, 5)
    assert len(pages) == (bounds.PULL_PAGES_MAX if is_ascending else 2)


def test_a_flood_of_requests_on_others_behalf_opens_a_bounded_number_of_questions() -> None:
    one = machine()
    for number in range(1, bounds.PROBES_FOR_OTHERS_MAX + 500):
        one.receive(ProbeRequest(id=number, target=contact(number)), contact(1), NOW)
    assert len(pings(one)) == bounds.PROBES_FOR_OTHERS_MAX
    assert counts(one)["probes refused"] == 499
    for number in range(1, bounds.PENDING_MAX + 500):
        elsewhere = Contact.at(contact(1).peer, contact(number + 1).address, 0, 0, "ip")
        one.receive(Notify(id=number, source=elsewhere, target=0), contact(1), NOW)
    assert len(pings(one)) == bounds.PENDING_MAX - bounds.PROBES_FOR_OTHERS_MAX
    assert counts(one)["questions refused"] == 499 + bounds.PROBES_FOR_OTHERS_MAX


def pings(one: RingMachine) -> list[Contact]:
    return [e.to for e in one.take_effects() if isinstance(e, Send) and isinstance(e.message, Ping)]


def test_many_that_ask_for_one_target_have_it_pinged_once_and_are_all_told() -> None:
    """Otherwise who asks a hundred peers again and again has a hundred of them flood whom he names."""
    one = machine(known=20)
    for number in range(1, 11):
        one.receive(ProbeRequest(id=number, target=contact(15)), contact(number), NOW)
        one.receive(ProbeRequest(id=number, target=contact(15)), contact(number), NOW)
    effects = one.take_effects()
    (ping,) = [e.message for e in effects if isinstance(e, Send)]
    one.receive(Pong(id=ping.id), contact(15), NOW + 0.1)
    assert told(one) == [(contact(number), number, True) for number in range(1, 11)]
    one.receive(ProbeRequest(id=99, target=contact(15)), contact(9), NOW + 5)
    assert told(one) == [(contact(9), 99, True)], "it was found out a moment ago"
    one.receive(ProbeRequest(id=100, target=contact(15)), contact(9), NOW + bounds.PROBED_S)
    assert pings(one) == [contact(15)]
    for number in range(200, 200 + 2 * bounds.PROBE_ASKERS_MAX):
        one.receive(ProbeRequest(id=number, target=contact(15)), contact(9), NOW + bounds.PROBED_S)
    answers = converse(one, lambda _to, _message: None, bounds.PROBED_S + 60)
    assert (
        sum(isinstance(e, Send) and isinstance(e.message, ProbeReply) for e in answers)
        == bounds.PROBE_ASKERS_MAX
    )


def told(one: RingMachine) -> list[tuple[Contact, int, bool]]:
    return [
        (e.to, e.message.id, e.message.is_alive)
        for e in one.take_effects()
        if isinstance(e, Send) and isinstance(e.message, ProbeReply)
    ]


def test_a_peer_that_claims_to_sit_at_anothers_address_has_it_asked_twice_and_then_rarely() -> None:
    one = machine(known=20)
    elsewhere = Contact.at(contact(1).peer, contact(15).address, 0, 0, "ip")
    asked = []
    for second in range(60):
        one.receive(Notify(id=second, source=elsewhere, target=0), contact(1), NOW + second)
        asked += [to for to in pings(one) if to == elsewhere]
    assert 2 <= len(asked) <= 8


# --- accusations


def accusation(suspect: int | Contact, by: int, incarnation: int = 1, signed_by: int | None = None) -> Accuse:
    whom = contact(suspect) if isinstance(suspect, int) else suspect
    signer = SimulatedNotary(contact(by if signed_by is None else signed_by).peer)
    return Accuse(
        id=3, suspect=whom, incarnation=incarnation, signature=signer.sign_death(whom.peer, incarnation)
    )


def verdicts(one: RingMachine) -> list[bytes]:
    return [
        e.message.signature
        for e in one.take_effects()
        if isinstance(e, Send) and isinstance(e.message, AliveVerdict)
    ]


def test_who_accuses_us_again_and_again_makes_us_tell_the_ring_three_times_a_day() -> None:
    """Each of our new records goes round the ring; one accuser a second would be a flood."""
    one, began = machine(known=8), NOW
    before = one.own_record.incarnation
    for second in range(600):
        accused = one.own_record.incarnation
        one.receive(accusation(one.me, 5, accused), contact(5), began + second)
    raised = counts(one)["deaths refuted"]
    assert raised == REFUTED_MAX
    assert counts(one)["accusations discredited"] == 600 - REFUTED_MAX
    assert one.own_record.incarnation == before + raised
    one.receive(accusation(one.me, 6, one.own_record.incarnation), contact(6), began + 601)
    assert counts(one)["deaths refuted"] == raised + 1, "others are heard"
    one.receive(accusation(one.me, 5, one.own_record.incarnation), contact(5), began + 600 + DISCREDITED_S)
    assert counts(one)["deaths refuted"] == raised + 2, "and this one again after a day"


def test_an_honest_accuser_always_hears_that_we_live_even_where_its_news_are_old() -> None:
    one = machine(known=8)
    for incarnation in (0, one.own_record.incarnation):
        one.receive(accusation(one.me, 5, incarnation), contact(5), NOW)
        (told_to,) = [
            e.to for e in one.take_effects() if isinstance(e, Send) and isinstance(e.message, Rumour)
        ][:1]
        assert told_to == contact(5)


@pytest.mark.parametrize("by", ["a stranger", "one far away", "another's signature", "another address"])
def test_who_is_no_member_near_the_suspect_accuses_nobody(by: str) -> None:
    one = member(range(1, 201))
    line = sorted(range(1, 201), key=lambda n: distance(one.me.position, contact(n).position))
    near, far = line[0], line[100]
    sender = {"a stranger": 900, "one far away": far}.get(by, line[1])
    signer = line[2] if by == "another's signature" else sender
    whom = contact(near)
    if by == "another address":
        whom = Contact.at(whom.peer, contact(901).address, 0, 0, "ip")
    before = one.own_record.incarnation
    one.receive(accusation(whom, sender, signed_by=signer), contact(sender), NOW)
    assert pings(one) == []
    if by != "another address":
        one.receive(accusation(one.me, sender, before, signed_by=signer), contact(sender), NOW)
        assert one.own_record.incarnation == before
    assert counts(one)["accusations refused"] >= 1


def test_a_stranger_collects_no_signature_about_a_peer_that_we_do_not_reach() -> None:
    one = member(range(1, 9))
    suspect = next(n for n in range(1, 9) if contact(n) == one.nodes[0].successors[0])
    one.merge(contact(suspect), NOW)
    converse(one, lambda to, message: None if to == contact(suspect) else Busy(id=message.id), 8)
    assert peer_number(suspect).peer in dict(one.statistics().unwell)
    honest = next(n for n in range(1, 9) if n != suspect)
    one.take_effects()
    one.receive(accusation(suspect, 900), contact(900), NOW + 8)
    assert verdicts(one) == [b""]
    one.receive(accusation(suspect, honest), contact(honest), NOW + 8)
    (signature,) = verdicts(one)
    assert signature


def test_an_accused_is_pinged_once_in_a_while_whoever_accuses_it() -> None:
    one, asked = machine(known=8), 0
    for second in range(60):
        for by in (5, 6, 7):
            one.receive(accusation(4, by), contact(by), NOW + second)
        effects = [e for e in one.take_effects() if isinstance(e, Send)]
        asked += sum(isinstance(e.message, Ping) for e in effects)
        for e in effects:
            if isinstance(e.message, Ping):
                one.receive(Pong(id=e.message.id), e.to, NOW + second)
    assert asked == 2, "once in the 30 s of a suspicion"


def test_a_flood_of_lookups_is_refused_and_each_still_ends() -> None:
    one = member(range(1, 9))
    after_me = number_of(one.me.position) + 1
    ids = {one.lookup(key_from_number(after_me + n), NOW) for n in range(bounds.LOOKUPS_MAX + 10)}
    effects = converse(one, lambda _to, _message: None, 600)
    assert {e.id for e in effects if isinstance(e, LookupDone)} == ids
    assert counts(one)["lookups refused"] >= 10


def test_a_silent_stranger_is_forgotten_after_some_minutes_and_not_pinged_for_ever() -> None:
    """Nobody has its record, so nobody can sign its death."""
    one, stranger = machine(5), contact(50)

    def answer(to: Contact, message: Message) -> Message | None:
        if to == stranger:
            return None
        if isinstance(message, ProbeRequest):
            return ProbeReply(id=message.id, is_alive=False)
        return Pong(id=message.id) if isinstance(message, Ping) else None

    one.table.hint(stranger)
    one.lookup(stranger.position, NOW)
    effects = converse(one, answer, 60)
    assert [peer for peer, _ in one.statistics().unwell if peer == stranger.peer]
    effects = converse(one, answer, 900)
    assert [peer for peer, _ in one.statistics().unwell if peer == stranger.peer] == []
    assert PeerChanged(peer=stranger.peer, clock="departed") in effects
    assert stranger not in one.table.contacts


def test_who_signs_a_newer_record_is_well_again_without_a_word_to_us() -> None:
    one = machine(5)
    one.lookup(contact(3).position, NOW)
    converse(one, lambda _to, _message: None, 10)
    assert contact(3).peer in dict(one.statistics().unwell)
    one.receive(Rumour(id=1, news=(signed(3),)), contact(1), NOW + 10)
    assert contact(3).peer in dict(one.statistics().unwell)  # that is what it said before
    one.receive(Rumour(id=1, news=(signed(3, incarnation=2),)), contact(1), NOW + 10)
    assert contact(3).peer not in dict(one.statistics().unwell)
