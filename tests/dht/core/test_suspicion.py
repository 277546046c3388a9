"""Who may call a peer dead, on whose word, and what it can say against that."""

from collections.abc import Callable

import pytest

from dht.core import rules as bounds
from dht.core.effects import Effect, LookupDone, PeerChanged, Send
from dht.core.ids import distance
from dht.core.machine import RingMachine
from dht.core.messages import (
    Accuse,
    AliveVerdict,
    Closer,
    Digest,
    DigestDiffers,
    Find,
    GetState,
    MemberRecords,
    Message,
    NotMember,
    Ping,
    Pong,
    ProbeReply,
    ProbeRequest,
    Pull,
    Rumour,
)
from dht.core.records import Contact, Death, SignedRecord
from simnet.rings import SimulatedNotary, peer_number
from tests.dht.machines import NOW, contact, converse, counts, death, machine, member, signed

Answer = Callable[[Contact, Message], Message | None]


def sent(effects: list[Effect], kind: type[Message]) -> list[tuple[Contact, Message]]:
    return [(e.to, e.message) for e in effects if isinstance(e, Send) and isinstance(e.message, kind)]


def clocks(effects: list[Effect], number: int) -> list[str]:
    peer = peer_number(number).peer
    return [e.clock for e in effects if isinstance(e, PeerChanged) and e.peer == peer]


def all_but(silent: int, *, is_reached: bool = False, verdict: bytes = b"") -> Answer:
    """Everybody answers but one; of the helpers every third reaches it, or nobody. Witnesses sign `verdict`."""
    helpers: list[Contact] = []

    def answer(to: Contact, message: Message) -> Message | None:
        if to == contact(silent):
            return None
        if isinstance(message, ProbeRequest):
            helpers.append(to)
            return ProbeReply(id=message.id, is_alive=is_reached and len(helpers) % bounds.PROBES == 1)
        if isinstance(message, Accuse):
            return AliveVerdict(id=message.id, signature=verdict)
        return Pong(id=message.id) if isinstance(message, Ping) else NotMember(id=message.id)

    return answer


def ask_about(one: RingMachine, number: int) -> None:
    """So that its silence is noticed."""
    one.merge(contact(number), NOW)


def neighbour_of(one: RingMachine) -> int:
    line = one.nodes[0].successors
    return next(n for n in range(1, 301) if contact(n) == line[0])


def test_a_peer_that_one_helper_reaches_is_no_suspect() -> None:
    one = member(range(1, 9))
    near = neighbour_of(one)
    ask_about(one, near)
    effects = converse(one, all_but(near, is_reached=True), 60)
    assert sent(effects, ProbeRequest)
    assert clocks(effects, near)[:1] == ["unreachable"]
    assert "suspect" not in clocks(effects, near)
    assert sent(effects, Accuse) == []


def test_a_neighbour_that_nobody_reaches_is_told_that_it_is_accused() -> None:
    one = member(range(1, 9))
    near = neighbour_of(one)
    ask_about(one, near)
    effects = converse(one, all_but(near), 20)
    assert "suspect" in clocks(effects, near)
    assert [to for to, _ in sent(effects, Accuse)] == [contact(near)]


def test_somebody_far_away_is_for_its_own_neighbours_to_accuse() -> None:
    one = member(range(1, 201))
    line = sorted(range(1, 201), key=lambda n: contact(n).position)
    far = max(line, key=lambda n: min(abs(line.index(n) - at) for at in _near_me(one, line)))
    ask_about(one, far)
    effects = converse(one, all_but(far), 120)
    assert "unreachable" in clocks(effects, far)
    assert "suspect" not in clocks(effects, far)
    assert sent(effects, Accuse) == []


def _near_me(one: RingMachine, line: list[int]) -> list[int]:
    after = sum(contact(n).position < one.me.position for n in line)
    return [after, after - len(line), after + len(line)]


def test_a_forged_confirmation_makes_no_death() -> None:
    one = member(range(1, 9))
    near = neighbour_of(one)
    ask_about(one, near)
    effects = converse(one, all_but(near, verdict=bytes(64)), 120)
    assert len(sent(effects, Accuse)) > 1  # witnesses were asked
    assert peer_number(near).peer in one.table.records
    assert "dead" not in clocks(effects, near)
    assert counts(one)["verdicts forged"] >= 1
    assert "deaths forged" not in counts(one)  # it was not even announced


def test_the_unreachable_that_are_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "UNWELL_MAX", 3)
    one = machine(known=2)
    for number in range(50, 60):
        ask_about(one, number)
    converse(one, lambda _to, _message: None, 20)
    assert len(one.statistics().unwell) == 3
    assert counts(one)["unwell refused"] >= 7


# --- a death that comes with a table


def by_table(one: RingMachine, news: Death) -> list[Effect]:
    """As part of a table, as after a split that healed; nobody else says anything."""

    def answer(_to: Contact, message: Message) -> Message | None:
        if isinstance(message, Digest):
            return DigestDiffers(id=message.id, buckets=(news.peer[0],))
        if isinstance(message, Pull):
            return MemberRecords(id=message.id, news=(news,), more=False)
        return None

    one.merge(contact(1), NOW)
    return converse(one, answer, 5)


def test_a_death_from_the_other_side_of_a_split_waits_until_the_accused_could_refute_it() -> None:
    one = machine(known=8)
    effects = by_table(one, death(4, 5, 6))
    told = [
        to
        for to, message in sent(effects, Rumour)
        if isinstance(message, Rumour) and message.news[0] == death(4, 5, 6)
    ]
    assert contact(4) in told
    assert peer_number(4).peer in one.table.records
    one.receive(Rumour(id=1, news=(signed(4, incarnation=2),)), contact(4), NOW + 6)
    one.advance(NOW + 100)
    assert one.table.incarnation(peer_number(4).peer) == 2


def test_a_death_from_the_other_side_of_a_split_that_nobody_refutes_is_believed() -> None:
    one = machine(known=8)
    by_table(one, death(4, 5, 6))
    one.advance(NOW + 100)
    assert peer_number(4).peer not in one.table.records


# --- what the accused says


@pytest.mark.parametrize("ahead", [0, 1, 100])
def test_a_refutation_is_newer_than_what_it_refutes(ahead: int) -> None:
    """Another life of ours, elsewhere or before a clock was set back, may have had the higher number."""
    one = machine(known=3)
    accused = one.own_record.incarnation + ahead
    signature = SimulatedNotary(contact(1).peer).sign_death(one.me.peer, accused)
    one.receive(Accuse(id=1, suspect=one.me, incarnation=accused, signature=signature), contact(1), NOW)
    (told,) = [message for _, message in sent(one.take_effects(), Rumour)]
    assert isinstance(told, Rumour)
    (news,) = told.news
    assert isinstance(news, SignedRecord)
    assert news.record.incarnation == accused + 1


def test_a_peer_that_is_dead_to_us_and_gossips_is_told_of_its_death() -> None:
    one = machine(known=8)
    one.receive(Rumour(id=1, news=(death(4, 5, 6),)), contact(5), NOW)
    assert peer_number(4).peer not in one.table.records
    one.take_effects()
    for number in (4, 7):
        one.receive(Rumour(id=2, news=()), contact(number), NOW)
    told = [
        (to, message.news) for to, message in sent(one.take_effects(), Rumour) if isinstance(message, Rumour)
    ]
    assert told == [(contact(4), (death(4, 5, 6),))]


# --- asking in another's name, and being led on


def test_a_state_is_not_told_to_who_asks_in_anothers_name() -> None:
    one = member(range(1, 9))
    one.receive(GetState(id=1, source=contact(3), target=0, known=0), contact(4), NOW)
    assert one.take_effects() == []
    assert counts(one) == {"sources forged": 1}


def test_a_lookup_that_is_led_on_and_on_ends() -> None:
    """Each peer on the way names one that is nearer to the key, and that nobody runs but the liar."""
    one, key = member(range(1, 9)), contact(500).position
    invented = sorted((contact(n) for n in range(1_000, 1_400)), key=lambda c: -distance(c.position, key))
    asked: list[Contact] = []

    def answer(to: Contact, message: Message) -> Message | None:
        if not isinstance(message, Find):
            return NotMember(id=message.id)
        asked.append(to)
        nearer = [c for c in invented if distance(c.position, key) < distance(to.position, key)]
        return Closer(id=message.id, contacts=tuple(nearer[:1]))

    one.lookup(key, NOW)
    effects = converse(one, answer, 600)
    assert [effect.holders for effect in effects if isinstance(effect, LookupDone)] == [()]
    assert 100 < len(asked) <= 2 * bounds.LOOKUP_ASKS_MAX  # by one way, and by another
