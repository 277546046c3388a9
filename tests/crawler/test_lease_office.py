"""What can those who ask a steward do to its books, and to each other?"""

import pytest

from crawler.core import lease_office
from crawler.core.lease_office import PLACES_OF_ONE_MAX, UNCONFIRMED_REST_MAX_S, LeaseOffice
from crawler.core.politeness import LeaseTerms, OriginReport, PolitenessPolicy, Wait, Window

TERMS = LeaseTerms.of(PolitenessPolicy(delay_floor_s=2.0))
HOST, ADDRESS = "host:h.example", "address:93.184.0.1"
DAY_S = 86_400.0
GOOD = OriginReport(status=200, duration_s=0.1)
CLOSED_FOR_A_DAY = OriginReport(status=503, duration_s=0.1, retry_after_s=DAY_S)


def peer(number: int) -> bytes:
    return bytes((number,)) * 32


@pytest.fixture
def office() -> LeaseOffice:
    return LeaseOffice(TERMS)


def fetched(office: LeaseOffice, who: bytes, report: OriginReport, now: float, subject: str = HOST) -> None:
    window = office.ask(who, subject, 1, now, lasts_s=0.0 if subject == HOST else 5.0)
    assert isinstance(window, Window), window
    office.give_back(who, subject, window.number, report, max(now, window.starts_at))


def test_what_is_said_of_an_address_keeps_none_of_its_hosts_from_being_crawled(office: LeaseOffice) -> None:
    for n in range(20):
        fetched(office, peer(1) + b"%d" % n, CLOSED_FOR_A_DAY, 10.0, ADDRESS)
    found = office.ask(peer(2), ADDRESS, 1, 10.0, lasts_s=5.0)
    assert isinstance(found, Window)
    assert found.starts_at == 10.0


def test_one_peer_alone_closes_a_host_for_an_hour_and_two_for_as_long_as_they_were_told(
    office: LeaseOffice,
) -> None:
    fetched(office, peer(1), CLOSED_FOR_A_DAY, 10.0)
    found = office.ask(peer(2), HOST, 1, 20.0)
    assert isinstance(found, Wait)
    again_at = 10.0 + UNCONFIRMED_REST_MAX_S
    fetched(office, peer(2), CLOSED_FOR_A_DAY, again_at)
    found = office.ask(peer(3), HOST, 1, again_at + DAY_S - 100)
    assert isinstance(found, Wait)
    fetched(office, peer(3), GOOD, again_at + DAY_S + 10)


def test_a_good_answer_with_a_long_retry_after_is_doubted_like_a_failure(office: LeaseOffice) -> None:
    now = 10.0
    for _ in range(lease_office.DOUBTS_MAX):
        fetched(office, peer(1), OriginReport(status=200, duration_s=0.1, retry_after_s=DAY_S), now)
        now += UNCONFIRMED_REST_MAX_S + 1
        fetched(office, peer(2), GOOD, now)
        now += 10
    fetched(office, peer(1), OriginReport(status=200, duration_s=0.1, retry_after_s=DAY_S), now)
    fetched(office, peer(2), GOOD, now + 10)


def test_who_asks_for_an_address_in_many_names_stands_before_the_others_once(office: LeaseOffice) -> None:
    for n in range(1_000):
        office.ask(peer(1) + b"%d" % n, ADDRESS, 1, 10.0, lasts_s=30.0)
    assert office.statistics(10.0).waiting <= PLACES_OF_ONE_MAX
    found = office.ask(peer(2) + b"h", ADDRESS, 1, 10.0, lasts_s=5.0)
    assert isinstance(found, Wait)
    while isinstance(found, Wait):
        found = office.ask(peer(2) + b"h", ADDRESS, 1, found.until, lasts_s=5.0)
    assert found.starts_at < 10.0 + 2 * TERMS.life_s


def test_a_window_that_began_and_saw_no_fetch_still_leaves_a_delay(office: LeaseOffice) -> None:
    """A connection that failed is no fetch; who names ports that nobody answers at gets no more of them a second."""
    fetched(office, peer(1), OriginReport(status=None, duration_s=0.0, fetches=0), 10.0)
    found = office.ask(peer(1), HOST, 1, 10.1)
    assert isinstance(found, Window)
    assert found.starts_at >= 12.0


def test_a_window_that_nobody_was_told_of_leaves_none(office: LeaseOffice) -> None:
    window = office.ask(peer(1), HOST, 1, 10.0)
    assert isinstance(window, Window)
    office.withdraw(peer(1), HOST, window.number)
    found = office.ask(peer(2), HOST, 1, 10.1)
    assert isinstance(found, Window)
    assert found.starts_at == 10.1


def test_books_are_bounded_when_none_of_them_is_at_rest(
    office: LeaseOffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_office, "SUBJECTS_MAX", 10)
    for n in range(30):
        office.ask(peer(1), f"host:h{n}.example", 1, 10.0)
    assert office.statistics(10.0).subjects == 10
    assert isinstance(office.ask(peer(1), "host:late.example", 1, 10.0), Wait)
    assert isinstance(office.ask(peer(1), "host:late.example", 1, 500.0), Window), (
        "others are at rest by then"
    )


def asked(office: LeaseOffice, n: int, now: float, lasts_s: float = 2.0) -> Window | Wait:
    """By a steward, for one of the hosts at an address."""
    who = peer(100 + n % 50)
    return office.ask(who + b"1 host:h%d" % n, ADDRESS, 1, now, lasts_s=lasts_s, place=who + b"host:h%d" % n)


def test_an_address_that_answers_nobody_is_not_left_with_one_more_connection_for_each_window(
    office: LeaseOffice,
) -> None:
    """Each fetch lasts as long as a fetcher waits at most, and each window some seconds."""
    windows: dict[int, float] = {}
    now = 0.0
    while now < 300.0:
        for n in range(40):
            found = asked(office, n, now)
            if isinstance(found, Window):
                windows.setdefault(found.number, found.starts_at)
        now += 0.5
    connected = sorted(windows.values())
    assert len(connected) > 6
    most = max(sum(0 <= at - one <= lease_office.OVERDUE_S for one in connected) for at in connected)
    assert most <= 2 * TERMS.policy.per_address_concurrency


def test_a_window_that_comes_back_late_makes_place_at_once_and_its_peer_is_trusted_as_before(
    office: LeaseOffice,
) -> None:
    late = [asked(office, n, 0.0) for n in range(2)]
    assert isinstance(asked(office, 2, 10.0), Wait)
    assert office.statistics(10.0).overdue == 2
    for n, window in enumerate(late):
        assert isinstance(window, Window)
        office.give_back(window.holder, ADDRESS, window.number, GOOD, 20.0)
        again = asked(office, 2 + n, 20.0)
        assert isinstance(again, Window)
        assert again.starts_at == 20.0


def test_a_peer_that_never_gives_back_keeps_an_address_for_less_and_less(office: LeaseOffice) -> None:
    free_at, kept = 0.0, []
    for n in range(5):
        for lane in range(2):
            got = office.ask(peer(1) + b"%d %d" % (lane, n), ADDRESS, 1, free_at, lasts_s=2.0)
            assert isinstance(got, Window)
        now = free_at + 2.1
        while not isinstance(
            found := office.ask(peer(2) + b"%f" % now, ADDRESS, 1, now, lasts_s=2.0), Window
        ):
            now += 0.5
        office.withdraw(found.holder, ADDRESS, found.number)
        kept.append(found.starts_at - free_at)
        free_at = found.starts_at + 0.1
    assert kept[0] > 50
    assert kept[-1] < 10


FREE = LeaseTerms.of(PolitenessPolicy(delay_floor_s=0.0, per_address_concurrency=3))


def test_peers_that_wait_for_an_address_begin_together_when_it_has_room_for_all_of_them() -> None:
    """Found by a ring of eight: each put off the other by milliseconds, and a window as long as a lease begins at once
    or not at all. Two hosts of the address were never fetched from again."""
    office = LeaseOffice(FREE)
    life_s, now = FREE.life_s, 100.0

    def ask(number: int, now: float) -> Window | Wait:
        return office.ask(peer(number), ADDRESS, 1, now, lasts_s=life_s)

    granted = [ask(number, now) for number in range(3)]
    assert all(isinstance(one, Window) for one in granted)
    assert all(isinstance(ask(number, now), Wait) for number in (3, 4))
    for number, window in enumerate(granted[:2]):
        assert isinstance(window, Window)
        office.give_back(peer(number), ADDRESS, window.number, GOOD, now + 0.5)
    later, first = ask(4, now + 0.6), ask(3, now + 0.6)  # in whatever order they come
    assert isinstance(later, Window)
    assert isinstance(first, Window)
    assert later.starts_at == first.starts_at == now + 0.6
    assert isinstance(ask(5, now + 0.6), Wait)


def test_where_room_is_short_those_that_wait_for_an_address_keep_their_turns() -> None:
    office = LeaseOffice(FREE)
    granted = [office.ask(peer(number), ADDRESS, 1, 100.0, lasts_s=FREE.life_s) for number in range(3)]
    for number in (3, 4):
        assert isinstance(office.ask(peer(number), ADDRESS, 1, 100.0, lasts_s=FREE.life_s), Wait)
    assert isinstance(granted[0], Window)
    office.give_back(peer(0), ADDRESS, granted[0].number, GOOD, 100.5)
    assert isinstance(office.ask(peer(4), ADDRESS, 1, 100.6, lasts_s=FREE.life_s), Wait)
    assert isinstance(office.ask(peer(3), ADDRESS, 1, 100.6, lasts_s=FREE.life_s), Window)
