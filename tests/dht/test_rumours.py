"""News is offered by marks: who lacks it asks for it once, who has it counts down."""

from dht.core import rules as bounds
from dht.core.effects import Effect, Send
from dht.core.machine import RingMachine
from dht.core.messages import MARKS_MAX, NEWS_MAX, MemberRecords, Message, Offer, Rumour, Want
from dht.core.records import SignedRecord
from simnet.rings import learn
from tests.dht.machines import NOW, contact, converse, machine, signed


def mark_of(news: SignedRecord) -> int:
    knows_it = machine()
    learn(knows_it, [news], NOW)
    return knows_it.table.mark_of(news.record.peer)


def sent(effects: list[Effect], kind: type[Message]) -> list[Message]:
    return [e.message for e in effects if isinstance(e, Send) and isinstance(e.message, kind)]


def wanted(one: RingMachine) -> list[Want]:
    return [message for message in sent(one.take_effects(), Want) if isinstance(message, Want)]


def offer(one: RingMachine, by: int, *news: SignedRecord, at: float = NOW) -> None:
    one.receive(Offer(id=1, marks=tuple(map(mark_of, news))), contact(by), at)


def test_news_that_is_lacked_is_asked_for_of_who_offered_it_and_then_offered_on() -> None:
    one, news = machine(3), signed(7)
    offer(one, 1, news)
    (want,) = wanted(one)
    assert want.marks == (mark_of(news),)
    one.receive(MemberRecords(id=want.id, news=(news,), more=False), contact(1), NOW)
    assert one.table.records[news.record.peer] is news
    (first, *_) = sent(converse(one, nobody, 5), Offer)
    assert isinstance(first, Offer)
    assert first.marks == (mark_of(news),)


def nobody(_to: object, _message: Message) -> None:
    return None


def test_what_two_offer_is_asked_for_once() -> None:
    one = machine(3)
    offer(one, 1, signed(7))
    offer(one, 2, signed(7))
    assert len(wanted(one)) == 1


def test_what_is_known_is_not_asked_for() -> None:
    one = machine(3)
    offer(one, 1, signed(3))
    assert wanted(one) == []


def test_a_newer_incarnation_of_somebody_known_is_asked_for() -> None:
    one = machine(3)
    offer(one, 1, signed(3, incarnation=2))
    assert len(wanted(one)) == 1


def test_news_that_came_and_was_refused_is_not_asked_for_again_at_once() -> None:
    one = machine(3)
    one.receive(Rumour(id=1, news=(signed(3, incarnation=9),)), contact(3), NOW)
    one.take_effects()
    offer(one, 1, signed(3, incarnation=5))  # from somebody behind the times
    (want,) = wanted(one)
    one.receive(MemberRecords(id=want.id, news=(signed(3, incarnation=5),), more=False), contact(1), NOW)
    offer(one, 2, signed(3, incarnation=5))
    assert wanted(one) == []
    assert one.table.incarnation(contact(3).peer) == 9
    offer(one, 2, signed(3, incarnation=5), at=NOW + bounds.WANT_AGAIN_S)
    assert len(wanted(one)) == 1


def test_who_is_silent_when_asked_leaves_the_news_to_others() -> None:
    one = machine(3)
    offer(one, 1, signed(7))
    assert len(sent(converse(one, nobody, 15), Want)) == bounds.TRIES
    offer(one, 2, signed(7), at=NOW + 15)
    assert len(wanted(one)) == 1


def test_many_news_are_fetched_seven_at_a_time_and_what_was_cut_off_again() -> None:
    one = machine(3)
    lacking = {mark_of(news): news for news in map(signed, range(10, 30))}
    asked: list[int] = []

    def bring(_to: object, message: Message) -> Message | None:
        if not isinstance(message, Want):
            return None
        asked.append(len(message.marks))
        news = tuple(lacking[mark] for mark in message.marks)
        return MemberRecords(id=message.id, news=news[:5], more=len(news) > 5)

    one.receive(Offer(id=1, marks=tuple(lacking)), contact(1), NOW)
    converse(one, bring, 4)
    assert all(news.record.peer in one.table.records for news in lacking.values())
    assert max(asked) == NEWS_MAX
    assert len(asked) == 4  # five at a time


def test_who_is_asked_gives_what_it_knows_now_and_nothing_of_strangers() -> None:
    one = machine(3)
    request = Want(id=5, marks=(mark_of(signed(2)), mark_of(signed(3, incarnation=0)), mark_of(signed(9))))
    one.receive(request, contact(1), NOW)
    (reply,) = sent(one.take_effects(), MemberRecords)
    assert isinstance(reply, MemberRecords)
    assert reply == MemberRecords(id=5, news=(signed(2), signed(3)), more=False)


def times_offered(*, offered_by: int) -> int:
    """How often a peer of a hundred passes a newcomer on, when so many others offer it too."""
    one, news = machine(99), signed(200)
    one.receive(Rumour(id=1, news=(news,)), contact(200), NOW)
    for by in range(1, offered_by + 1):
        offer(one, by, news)
    offers = sent(converse(one, nobody, 120), Offer)
    return sum(mark_of(news) in message.marks for message in offers if isinstance(message, Offer))


def test_news_that_others_offer_too_is_offered_less_often() -> None:
    assert times_offered(offered_by=0) == 9  # 4 log10(102), rounded up
    assert times_offered(offered_by=3) == 6
    assert times_offered(offered_by=20) == 0


def test_offers_and_questions_have_bounds() -> None:
    one = machine(3)
    for by in range(1, 4):
        marks = tuple(range(by << 40, (by << 40) + 5 * MARKS_MAX))
        for start in range(0, len(marks), MARKS_MAX):
            one.receive(Offer(id=1, marks=marks[start : start + MARKS_MAX]), contact(by), NOW)
    wants = wanted(one)
    assert len(wants) == bounds.WANTS_MAX
    assert all(len(want.marks) == NEWS_MAX for want in wants)
