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
    accusation = Accuse(id=3, suspect=one.me, incarnation=incarnation, signature=bytes(64))
    one.receive(accusation, contact(5), NOW)
    tell(one, death(0, 901, 902, incarnation))
    assert one.own_record.incarnation == before
    assert counts(one) == {"deaths implausible": 2}
    converse(one, lambda _to, _message: None, 60)
    one.receive(replace(accusation, incarnation=before), contact(5), NOW)
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
    accusation = Accuse(id=3, suspect=contact(4), incarnation=1, signature=bytes(16))
    one.receive(accusation, contact(5), NOW)
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
    for number in range(1, bounds.PENDING_MAX + 500):
        one.receive(ProbeRequest(id=number, target=contact(number)), contact(1), NOW)
    asked = [e for e in one.take_effects() if isinstance(e, Send) and isinstance(e.message, Ping)]
    assert len(asked) == bounds.PENDING_MAX
    assert counts(one)["questions refused"] == 499


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
