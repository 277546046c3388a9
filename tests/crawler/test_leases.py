"""A steward's books, and a window as its holder sees it: in short transcripts, without a loop."""

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.core import lease_office
from crawler.core.lease_office import LeaseOffice
from crawler.core.politeness import (
    SPREAD_S,
    HeldWindow,
    LeaseTerms,
    OriginReport,
    PolitenessPolicy,
    Wait,
    Window,
)

PUBLIC = LeaseTerms.of(PolitenessPolicy(delay_floor_s=2.0))
HOST, ADDRESS = "host:h.example", "address:192.0.2.1"
A, B, C = b"a", b"b", b"c"
GOOD = OriginReport(status=200, duration_s=0.2)
UNUSED = OriginReport(status=None, duration_s=0.0, fetches=0)


def granted(answer: Window | Wait) -> Window:
    assert isinstance(answer, Window), answer
    return answer


def waits(answer: Window | Wait) -> Wait:
    assert isinstance(answer, Wait), answer
    return answer


@pytest.mark.parametrize(
    ("floor_s", "life_s", "silent_s"),
    [(2.0, 60.0, 120.0), (0.1, 3.0, 6.0), (0.0, 2.0, 2.0), (10.0, 60.0, 120.0)],
)
def test_terms_follow_from_the_charters_floor(floor_s: float, life_s: float, silent_s: float) -> None:
    terms = LeaseTerms.of(PolitenessPolicy(delay_floor_s=floor_s))
    assert (terms.life_s, terms.silent_s, terms.window_s) == (life_s, silent_s, life_s / 2)


def test_windows_of_one_host_do_not_meet() -> None:
    office = LeaseOffice(PUBLIC)
    first = granted(office.ask(A, HOST, 3, 0.0))
    second = granted(office.ask(B, HOST, 3, 0.0))
    assert (first.starts_at, first.count, first.spacing_s) == (0.0, 3, 2.0)
    assert second.starts_at == first.ends_at + SPREAD_S + 2.0


def test_who_asks_again_gets_the_window_that_he_has() -> None:
    office = LeaseOffice(PUBLIC)
    granted(office.ask(A, HOST, 3, 0.0))
    ahead = granted(office.ask(B, HOST, 3, 0.0))
    assert office.ask(B, HOST, 9, 1.0) == ahead
    begun = granted(office.ask(A, HOST, 9, 1.0))
    assert (begun.number, begun.starts_at) == (1, 3.0), "as if it had just started a fetch"


def test_what_is_given_back_early_is_free_a_delay_later() -> None:
    office = LeaseOffice(PUBLIC)
    window = granted(office.ask(A, HOST, 10, 0.0))
    office.give_back(A, HOST, window.number, GOOD, 5.0)
    assert granted(office.ask(B, HOST, 1, 5.0)).starts_at == 7.0


def test_a_window_of_somebody_else_cannot_be_given_back() -> None:
    office = LeaseOffice(PUBLIC)
    window = granted(office.ask(A, HOST, 10, 0.0))
    office.give_back(B, HOST, window.number, GOOD, 1.0)
    office.give_back(A, HOST, window.number + 1, GOOD, 1.0)
    office.give_back(A, "host:other.example", 1, GOOD, 1.0)
    assert granted(office.ask(B, HOST, 1, 1.0)).starts_at == window.ends_at + SPREAD_S + 2.0


def test_nothing_is_granted_that_would_outlive_a_lease() -> None:
    office = LeaseOffice(PUBLIC)
    found = [office.ask(bytes([number]), HOST, 10, 0.0) for number in range(30)]
    ends = [one.ends_at for one in found if isinstance(one, Window)]
    assert max(ends) <= PUBLIC.life_s
    later = [one.until for one in found if isinstance(one, Wait)]
    assert later == sorted(later), "who came first is told to come first"
    assert len(ends) + len(later) == 30


def test_the_more_wait_the_shorter_is_what_each_gets() -> None:
    alone = granted(LeaseOffice(PUBLIC).ask(A, HOST, 1_000, 0.0)).count
    office = LeaseOffice(PUBLIC)
    for number in range(30):
        office.ask(bytes([number]), HOST, 1_000, 0.0)
    assert alone == 13
    assert granted(office.ask(bytes([0]), HOST, 1_000, 0.0)).number == 1
    office.give_back(bytes([0]), HOST, 1, GOOD, 1.0)
    office.give_back(bytes([1]), HOST, 2, UNUSED, 1.0)
    assert [office.ask(bytes([number]), HOST, 1_000, 70.0) for number in range(29, 30)]
    assert office.statistics(70.0).waiting > 5


def test_a_failure_makes_all_wait_longer_each_time_and_a_good_answer_ends_it() -> None:
    office = LeaseOffice(PUBLIC)
    rests, now = [], 0.0
    for status in (503, None, 429, 200):
        window = granted(office.ask(A, HOST, 5, now))
        office.give_back(A, HOST, window.number, OriginReport(status=status, duration_s=0.1), now)
        answer = office.ask(B, HOST, 1, now)
        tail_s = office.tail_s(HOST) + 0.001
        latest_s = PUBLIC.life_s - PUBLIC.slack_s - tail_s
        at = answer.starts_at if isinstance(answer, Window) else answer.until + latest_s
        rests.append(at - now)
        if isinstance(answer, Window):
            office.give_back(B, HOST, answer.number, UNUSED, now)
        now = at + 200.0
    assert rests == pytest.approx([30.0, 60.0, 120.0, 2.0], abs=0.3)


def test_failures_that_only_one_peer_sees_lose_their_weight() -> None:
    office, now = LeaseOffice(PUBLIC), 0.0
    for _ in range(lease_office.DOUBTS_MAX):
        for holder, report in ((A, OriginReport(status=503, duration_s=0.1)), (B, GOOD)):
            now += 1_000.0
            window = granted(office.ask(holder, HOST, 1, now))
            office.give_back(holder, HOST, window.number, report, now)
    now += 1_000.0
    window = granted(office.ask(A, HOST, 1, now))
    office.give_back(A, HOST, window.number, OriginReport(status=503, duration_s=0.1), now)
    assert granted(office.ask(B, HOST, 1, now)).starts_at == pytest.approx(now + 2.0)


def test_who_never_gives_back_gets_less_and_less() -> None:
    office, now, counts = LeaseOffice(PUBLIC), 0.0, []
    for _ in range(6):
        counts.append(granted(office.ask(A, HOST, 1_000, now)).count)
        now += 200.0
    assert counts == [13, 6, 3, 1, 1, 1]
    assert office.statistics(now).lost == 5
    window = granted(office.ask(A, HOST, 1_000, now))
    office.give_back(A, HOST, window.number, GOOD, now)
    assert granted(office.ask(A, HOST, 1_000, now + 100.0)).count == 13


def test_a_crawl_delay_counts_from_when_it_is_known() -> None:
    office = LeaseOffice(PUBLIC)
    office.set_crawl_delay(HOST, 20.0, 100.0)
    window = granted(office.ask(A, HOST, 2, 100.0))
    assert (window.starts_at, window.spacing_s) == (120.0, 20.0)


def test_an_address_has_so_many_windows_at_a_time_and_room_for_the_next_place() -> None:
    office = LeaseOffice(PUBLIC)
    both = [granted(office.ask(one, ADDRESS, 1, 0.0, lasts_s=10.0)) for one in (A, B)]
    third = granted(office.ask(C, ADDRESS, 1, 0.0, lasts_s=10.0))
    assert [window.starts_at for window in (*both, third)] == [0.0, 0.0, 10.0]
    assert granted(office.ask(b"d", ADDRESS, 1, 0.0, not_before=30.0, lasts_s=5.0)).starts_at == 30.0


def test_a_window_moves_only_where_there_is_room() -> None:
    office = LeaseOffice(PUBLIC)
    first, second = granted(office.ask(A, HOST, 1, 0.0)), granted(office.ask(B, HOST, 1, 0.0))
    assert office.shift(B, HOST, second.number, first.ends_at + 1.0, first.ends_at + 1.5, 0.0) is None
    assert office.shift(B, HOST, second.number, 10.0, 70.0, 0.0) is None, "beyond a lease's life"
    moved = office.shift(B, HOST, second.number, 20.0, 30.0, 0.0)
    assert moved is not None
    assert (moved.starts_at, moved.ends_at) == (20.0, 30.0)
    assert granted(office.ask(C, HOST, 1, 0.0, not_before=19.0)).starts_at == 30.0 + SPREAD_S + 2.0


def test_a_gap_that_was_left_is_used_where_a_delay_lies_before_and_behind() -> None:
    office = LeaseOffice(PUBLIC)
    early = granted(office.ask(A, HOST, 8, 0.0))
    promised = granted(office.ask(B, HOST, 1, 0.0))
    assert (early.ends_at, promised.starts_at) == pytest.approx((17.1, 19.35))
    office.give_back(A, HOST, early.number, GOOD, 4.0)
    long = granted(office.ask(b"l", HOST, 6, 4.0))
    assert long.count == 6
    assert long.starts_at == promised.ends_at + SPREAD_S + 2.0, "6.0 to 18.2 would be too close before it"
    assert granted(office.ask(C, HOST, 1, 4.0)).starts_at == 6.0, "a delay after the fetch before"
    assert granted(office.ask(b"d", HOST, 1, 4.0)).starts_at == 9.25, "6 + 1 + SPREAD_S + 2"
    assert granted(office.ask(b"e", HOST, 1, 4.0)).starts_at == 12.5
    assert granted(office.ask(b"f", HOST, 1, 4.0)).starts_at == 15.75
    assert granted(office.ask(b"g", HOST, 1, 4.0)).starts_at == long.ends_at + SPREAD_S + 2.0, (
        "the gap is full"
    )


def test_nobody_who_waits_is_passed_in_a_gap() -> None:
    office = LeaseOffice(PUBLIC)
    first, _, last = (granted(office.ask(who, HOST, 100, 0.0)) for who in (A, B, C))
    assert isinstance(office.ask(b"d", HOST, 100, 0.0), Wait), "beyond a lease's life"
    office.give_back(A, HOST, first.number, GOOD, 1.0)
    late = office.ask(b"e", HOST, 1, 1.0)
    assert isinstance(late, Wait) or late.starts_at > last.ends_at
    assert granted(office.ask(b"d", HOST, 100, 1.0)).starts_at == 3.0


def test_where_no_delay_is_agreed_nobody_waits_for_another() -> None:
    office = LeaseOffice(LeaseTerms.of(PolitenessPolicy(delay_floor_s=0.0)))
    windows = [granted(office.ask(bytes([number]), HOST, 1, 5.0)) for number in range(200)]
    assert {(one.starts_at, one.ends_at, one.spacing_s) for one in windows} == {(5.0, 6.5, 0.0)}


def test_a_host_that_asks_for_a_delay_has_it_also_where_none_is_agreed() -> None:
    office = LeaseOffice(LeaseTerms.of(PolitenessPolicy(delay_floor_s=0.0)))
    both = [granted(office.ask(who, HOST, 1, 5.0)) for who in (A, B)]
    assert [one.starts_at for one in both] == [5.0, 5.0]
    office.set_crawl_delay(HOST, 0.5, 5.0)
    assert isinstance(office.ask(C, HOST, 1, 5.0), Wait), "they last as long as a lease"
    assert granted(office.ask(C, HOST, 1, 6.0)).starts_at == 7.0, "a delay after the last of them"


def test_a_host_that_fails_is_tried_by_one_peer_at_a_time() -> None:
    office = LeaseOffice(LeaseTerms.of(PolitenessPolicy(delay_floor_s=0.0, backoff_base_s=10.0)))
    window = granted(office.ask(A, HOST, 1, 0.0))
    office.give_back(A, HOST, window.number, OriginReport(status=503, duration_s=0.1), 0.5)
    trial = granted(office.ask(B, HOST, 1, 10.5))
    assert trial.starts_at == 10.5
    assert granted(office.ask(C, HOST, 1, 10.5)).starts_at >= trial.ends_at
    office.give_back(B, HOST, trial.number, GOOD, 10.6)
    assert [granted(office.ask(who, HOST, 1, 12.0)).starts_at for who in (b"d", b"e")] == [12.0, 12.0]


def test_the_books_are_bounded_and_those_at_rest_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_office, "SUBJECTS_MAX", 10)
    office = LeaseOffice(PUBLIC)
    resting = granted(office.ask(A, HOST, 1, 0.0))
    office.give_back(
        A, HOST, resting.number, OriginReport(status=503, duration_s=0.1, retry_after_s=2_000.0), 0.0
    )
    for number in range(100):
        window = granted(office.ask(A, f"host:{number}.example", 1, 10.0 * number))
        office.give_back(A, f"host:{number}.example", window.number, GOOD, 10.0 * number)
    assert len(office.subjects()) <= 12
    assert HOST in office.subjects()


def test_the_queue_is_bounded_and_the_rest_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_office, "QUEUE_MAX", 5)
    office = LeaseOffice(PUBLIC)
    for number in range(100):
        office.ask(bytes([number]), HOST, 10, 0.0)
    assert office.statistics(0.0).waiting == 5
    assert office.statistics(0.0).crowded > 50


@pytest.mark.parametrize("seed", range(30))
def test_no_history_of_asks_lets_two_starts_come_closer_than_the_delay(seed: int) -> None:
    """Holders use their windows to the last moment, give some back, lose others, ask again and again."""
    chance = random.Random(seed)
    office, now, starts = LeaseOffice(PUBLIC), 0.0, []
    held: dict[bytes, tuple[Window, float, int]] = {}
    for _ in range(6_000):
        now += chance.expovariate(4.0)
        holder = bytes([chance.randrange(8)])
        if holder not in held:
            answer = office.ask(holder, HOST, chance.choice([1, 4, 100]), now)
            if isinstance(answer, Window):
                held[holder] = (answer, answer.starts_at, answer.count)
            continue
        window, next_at, left = held[holder]
        if now > window.ends_at or not left or chance.random() < 0.05:
            del held[holder]
            if chance.random() < 0.8:
                office.give_back(holder, HOST, window.number, chance.choice([GOOD, UNUSED]), now)
            else:  # it says nothing, and uses it no more
                continue
        elif now >= next_at:
            starts.append(now)
            held[holder] = (window, now + window.spacing_s, left - 1)
    assert len(starts) > 50
    assert all(after - before >= 2.0 - 1e-9 for before, after in pairwise(starts))


@given(
    steward_ahead=st.floats(-1e6, 1e6),
    there_s=st.floats(0, 20),
    back_s=st.floats(0, 20),
    starts_in=st.floats(0, 60),
    lasts=st.floats(0, 60),
)
def test_a_window_is_never_wider_for_its_holder_whatever_the_clocks_and_the_way_say(
    steward_ahead: float, there_s: float, back_s: float, starts_in: float, lasts: float
) -> None:
    asked = 1_000.0
    decided = asked + there_s + steward_ahead  # by the steward's clock
    held = HeldWindow.received(1, starts_in, lasts, 3, 2.0, asked=asked, got=asked + there_s + back_s)
    slip = 1e-6
    assert held.starts_at + steward_ahead >= decided + starts_in - slip
    assert held.ends_at + steward_ahead <= decided + starts_in + lasts + slip


def test_a_window_is_over_at_its_end_whatever_is_left_of_it() -> None:
    """Its holder may have been asleep; others have the host by now."""
    window = HeldWindow.received(1, 0.0, 10.0, 5, 2.0, asked=100.0, got=100.5)
    assert not window.is_over(105.0)
    assert not window.is_over(110.0)
    assert window.is_over(110.1)
    assert window.left == 5


def test_where_nobody_need_wait_a_window_and_its_last_fetch_last_as_long_as_a_lease() -> None:
    terms = LeaseTerms.of(PolitenessPolicy(delay_floor_s=0.0))
    assert (terms.life_s, terms.window_s) == (2.0, 1.0)
    office = LeaseOffice(terms)
    found = [granted(office.ask(bytes([n]), HOST, 1, 10.0)) for n in range(3)]
    tail_s = 0.5  # two fetches take 0.6 s, as far as is known; but half of a short window is left
    assert [(one.starts_at, one.ends_at) for one in found] == [(10.0, 12.0 - tail_s)] * 3
    place = granted(office.ask(A, "address:93.184.0.1", 1, 10.0, lasts_s=2.1))
    assert (place.starts_at, place.ends_at) == (10.0, 12.0)


def test_a_host_with_a_crawl_delay_has_short_windows_also_where_none_is_agreed() -> None:
    office = LeaseOffice(LeaseTerms.of(PolitenessPolicy(delay_floor_s=0.0)))
    office.set_crawl_delay(HOST, 0.05, 0.0)
    window = granted(office.ask(A, HOST, 100, 10.0, late_s=0.25))
    assert window.ends_at - window.starts_at <= 1.0


def test_a_window_cannot_be_moved_to_where_its_host_rests() -> None:
    office = LeaseOffice(PUBLIC)
    window = granted(office.ask(A, HOST, 1, 0.0))
    office.set_crawl_delay(HOST, 20.0, 0.0)
    assert office.shift(A, HOST, window.number, 19.0, 21.0, 0.0) is None
    moved = office.shift(A, HOST, window.number, 20.0, 21.0, 0.0)
    assert moved is not None
    assert (moved.starts_at, moved.ends_at) == (20.0, 21.0)


def test_a_window_promised_far_ahead_has_room_for_its_last_fetch_at_its_address() -> None:
    """Else its address's steward refuses it, and the host's is asked again and again until it is nearer."""
    fitting = 0
    for rest_s in range(50, 61):
        office, addresses = LeaseOffice(PUBLIC), LeaseOffice(PUBLIC)
        office.set_crawl_delay(HOST, rest_s, 0.0)
        window = office.ask(A, HOST, 1, 0.0)
        if isinstance(window, Wait):
            continue
        fitting += 1
        lasts_s = window.ends_at - window.starts_at + office.tail_s(HOST)
        asked = addresses.ask(A, "address:192.0.2.1", 1, 0.0, not_before=window.starts_at, lasts_s=lasts_s)
        assert isinstance(asked, Window)
    assert fitting == 9  # the one second of the window and 0.6 s for its last fetch lie before 60
