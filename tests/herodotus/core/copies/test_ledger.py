"""When may a copy go, how many are there, what is fetched and compared next? Transcripts of the deciding parts."""

import random

from herodotus.core.copies.ledger import (
    LACKING_MAX,
    PROMISE_USED_WITHIN_S,
    SLOW_S,
    WAITED_S,
    WANTED_MAX,
    Group,
    HoldingLedger,
    Offers,
    Wanted,
)
from herodotus.core.copies.schedule import AGAIN_S, ComparisonSchedule, Purpose
from herodotus.core.reconciliation import Range, arcs_of

ME, A, B, C = (bytes((number,)) * 32 for number in range(4))
LOW = (Range(bytes(12), b"\x80" + bytes(11)),)
GROUP = Group(holders=(A, B), arcs=arcs_of(LOW))


def member(number: int, day: int = 0) -> bytes:
    return number.to_bytes(12, "big") + day.to_bytes(3, "big") + b"c"


def confirmed(
    ledger: HoldingLedger, peer: bytes, *lacking: bytes, now: float = 0.0, is_promise: bool = True
) -> None:
    ledger.confirm(ledger.begin(peer, arcs_of(LOW), now), lacking, is_promise=is_promise)


def test_a_copy_goes_only_when_every_holder_promised_and_lacks_nothing() -> None:
    ledger = HoldingLedger()
    assert not ledger.may_go(GROUP, (), 0)
    confirmed(ledger, A)
    assert not ledger.may_go(GROUP, (), 0)
    confirmed(ledger, B, member(1))
    assert not ledger.may_go(GROUP, (), 0)
    ledger.held(B, [member(1)])
    assert ledger.may_go(GROUP, (), 0)
    assert not ledger.may_go(GROUP, {B}, 0)  # it is away
    assert not ledger.may_go(GROUP, (), PROMISE_USED_WITHIN_S + 1)
    ledger.stored(member(2))  # nobody has heard of it
    assert not ledger.may_go(GROUP, (), 0)
    ledger.held(A, [member(2)])
    ledger.held(B, [member(2)])
    assert ledger.may_go(GROUP, (), 0)
    ledger.doubt(A)
    assert not ledger.may_go(GROUP, (), 0)
    assert not ledger.may_go(Group(holders=(), arcs=arcs_of(LOW)), (), 0)


def test_a_confirmation_that_is_no_promise_lets_nothing_go() -> None:
    ledger = HoldingLedger()
    confirmed(ledger, A)
    confirmed(ledger, B, is_promise=False)
    assert not ledger.may_go(GROUP, (), 0)
    assert ledger.needs_promises(GROUP, 0) == [B]


def test_what_is_stored_while_a_comparison_runs_is_lacking_after_it() -> None:
    ledger = HoldingLedger()
    under_way = ledger.begin(A, arcs_of(LOW), 0)
    ledger.stored(member(5))
    ledger.confirm(under_way, (), is_promise=True)
    assert not ledger.is_held(A, member(5))
    assert ledger.is_held(A, member(6))
    assert not ledger.is_held(B, member(6))


def test_newer_words_count_against_a_promise_and_only_exact_ones_for_it() -> None:
    ledger = HoldingLedger()
    confirmed(ledger, A, member(3))
    confirmed(ledger, B)
    part = arcs_of([Range(bytes(12), (1_000).to_bytes(12, "big"))])
    ledger.confirm(
        ledger.begin(A, part, 10), (), is_promise=False
    )  # a day's member says nothing of each content
    assert not ledger.may_go(GROUP, (), 20)
    ledger.confirm(ledger.begin(A, part, 11), (), is_promise=False, is_exact=True)
    assert ledger.may_go(GROUP, (), 20)
    ledger.confirm(ledger.begin(B, part, 12), [member(4)], is_promise=False)
    assert not ledger.may_go(GROUP, (), 20)


def test_who_was_asked_since_is_not_behind_for_what_an_older_word_left_open() -> None:
    ledger = HoldingLedger()
    confirmed(ledger, A, is_promise=False)
    ledger.stored(member(7))
    assert ledger.is_behind(A)
    part = arcs_of([Range(bytes(12), (1_000).to_bytes(12, "big"))])
    ledger.confirm(ledger.begin(A, part, 10), (), is_promise=False)
    assert not ledger.is_behind(A)


def test_of_several_who_offer_one_sends_and_who_does_not_is_not_waited_for_again() -> None:
    offers, one = Offers(), member(1)[:12] + bytes(7)
    assert offers.is_to_send(one, A, 0)
    assert offers.is_to_send(one, A, 1)
    assert not offers.is_to_send(one, B, 1)
    assert offers.is_coming(member(1), 1)
    assert offers.is_to_send(one, B, WAITED_S + 1)  # A did not send it
    offers.came(one)
    assert not offers.is_coming(member(1), WAITED_S + 1)
    assert offers.is_to_send(one, A, WAITED_S + 2)
    assert offers.is_to_send(one, C, WAITED_S + 2)  # A is not waited for
    offers.came(one)
    assert offers.is_to_send(one, A, WAITED_S + SLOW_S + 2)
    assert not offers.is_to_send(one, B, WAITED_S + SLOW_S + 2)


def test_copies_are_counted_by_hosts_that_said_so() -> None:
    ledger = HoldingLedger()
    groups = [Group(holders=(ME, A, B, C), arcs=arcs_of(LOW))]
    counts = {LOW[0]: 10}
    assert ledger.histogram(ME, groups, counts, 0) == {1: 10}
    confirmed(ledger, A)
    confirmed(ledger, B, member(1), member(2))
    confirmed(ledger, C, member(2))
    assert ledger.histogram(ME, groups, counts, 0) == {2: 1, 3: 1, 4: 8}
    assert ledger.histogram(ME, groups, counts, since=1) == {1: 10}  # said too long ago


def test_who_lacks_too_much_is_asked_again() -> None:
    ledger = HoldingLedger()
    confirmed(ledger, A, *(member(n) for n in range(LACKING_MAX + 1)))
    assert not ledger.is_held(A, member(LACKING_MAX + 5))


def test_the_fewest_known_copies_are_fetched_first_then_the_oldest() -> None:
    wanted = Wanted()
    wanted.add([member(1, day=3), member(2, day=1), member(3, day=2)], A)
    wanted.add([member(2, day=1)], B)
    assert wanted.take(A, 2) == [member(3, day=2), member(1, day=3)]
    assert wanted.take(A, 2) == [member(2, day=1)]
    assert wanted.take(B, 2) == []  # it is being asked for
    wanted.failed(member(2, day=1), A)
    assert wanted.sources() == [B]
    assert wanted.take(B, 2) == [member(2, day=1)]
    wanted.got(member(2, day=1))
    wanted.lost(A)
    assert len(wanted) == 0


def test_what_is_wanted_has_a_bound() -> None:
    wanted = Wanted()
    wanted.add((member(n) for n in range(WANTED_MAX + 10)), A)
    assert (len(wanted), wanted.dropped) == (WANTED_MAX, 10)


def test_who_had_more_than_there_was_room_for_is_asked_again_once() -> None:
    wanted = Wanted()
    wanted.add([member(n) for n in range(WANTED_MAX - 1)], A)
    wanted.add([member(WANTED_MAX), member(WANTED_MAX + 1)], B)
    assert not wanted.has_more(B)
    wanted.got(member(WANTED_MAX))
    assert [wanted.has_more(B), wanted.has_more(B), wanted.has_more(A)] == [True, False, False]
    wanted.cut(A)
    wanted.lost(A)
    assert not wanted.has_more(A)  # it does not answer: nothing is asked of it


def test_tasks_are_due_soon_after_a_change_then_daily_and_fail_ever_more_slowly() -> None:
    schedule = ComparisonSchedule(every_s=86_400, soon_s=5, random=random.Random(1))
    task = (A, Purpose.SHARED)
    schedule.set_tasks([task], 0, changed=())
    assert 0 <= (schedule.next_deadline() or -1) <= 5
    assert schedule.take(5) == task
    assert schedule.take(5) is None  # it runs
    schedule.failed(task, 5)
    first = schedule.next_deadline() or 0
    assert 5 + AGAIN_S[0] / 2 <= first <= 5 + AGAIN_S[0]
    for days in range(1, 11):
        assert schedule.take(days * 86_400) == task
        schedule.failed(task, days * 86_400)
    now = 10 * 86_400
    assert (schedule.next_deadline() or 0) >= now + AGAIN_S[-1] / 2
    schedule.hurry(task, now)
    assert schedule.take(now + 5) == task
    schedule.done(task, now + 5)
    assert now + 5 + 0.9 * 86_400 <= (schedule.next_deadline() or 0) <= now + 5 + 86_400


def test_what_changes_while_it_is_compared_is_compared_again() -> None:
    schedule = ComparisonSchedule(every_s=86_400, soon_s=5, random=random.Random(1))
    task = (A, Purpose.SURPLUS)
    schedule.set_tasks([task], 0, changed=())
    schedule.take(5)
    schedule.set_tasks([task], 6, changed=[task])
    schedule.done(task, 10)
    assert (schedule.next_deadline() or 1e9) <= 15
    schedule.set_tasks([], 20, changed=())
    assert schedule.take(1e9) is None


def test_what_is_only_said_is_counted_and_serves_for_nothing_else() -> None:
    ledger = HoldingLedger()
    counts = {LOW[0]: 1}
    confirmed(ledger, A)
    confirmed(ledger, B)
    ledger.stored(member(7))
    ledger.said_to_hold(A, [member(7), member(8)])
    assert ledger.histogram(ME, [GROUP], counts, 0.0) == {2: 1}
    assert not ledger.is_held(A, member(7))
    ledger.held(B, [member(7)])
    assert ledger.histogram(ME, [GROUP], counts, 0.0) == {3: 1}
    assert not ledger.may_go(GROUP, (), 0)
    confirmed(ledger, A, member(7), now=1.0)  # the peer itself has the last word
    assert ledger.histogram(ME, [GROUP], counts, 0.0) == {2: 1}
    ledger.said_to_hold(A, [member(7)])
    ledger.held(A, [member(7)])
    ledger.stored(member(7))  # it was written again: nobody is known to have it
    assert ledger.histogram(ME, [GROUP], counts, 0.0) == {1: 1}
