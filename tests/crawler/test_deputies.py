"""May one peer keep an address's book for its own hosts? Only while it is alone there, and the steward knows."""

import pytest

from crawler.core import lease_office
from crawler.core.lease_office import (
    CALL_AGAIN_S,
    DEPUTED_TO_ONE_MAX,
    DEPUTY_S,
    CallBack,
    Deputed,
    LeaseOffice,
)
from crawler.core.politeness import LeaseTerms, OriginReport, PolitenessPolicy, Wait, Window

TERMS = LeaseTerms.of(PolitenessPolicy(delay_floor_s=2.0))
AT, NOW = "address:93.184.0.1", 100.0
ONE, OTHER = b"\x01" * 32, b"\x02" * 32
LAST_S = 60.0 + 105.0
"""A lease's life, and the longest that a fetch lasts after its window."""


@pytest.fixture
def office() -> LeaseOffice:
    return LeaseOffice(TERMS)


def deputed(office: LeaseOffice, peer: bytes, now: float, subject: str = AT) -> Deputed | CallBack | None:
    return office.deputy_for(peer, subject, now, may_be=True)


def called(office: LeaseOffice, now: float) -> CallBack:
    found = deputed(office, OTHER, now)
    assert isinstance(found, CallBack)
    return found


def granted(office: LeaseOffice, peer: bytes, host: str, now: float) -> Window | Wait:
    return office.ask(peer + host.encode(), AT, 1, now, lasts_s=10.0)


def test_a_peer_that_asks_alone_is_deputy_for_an_hour_and_again_when_it_asks_again(
    office: LeaseOffice,
) -> None:
    assert deputed(office, ONE, NOW) == Deputed(lasts_s=3_600.0)
    assert deputed(office, ONE, NOW + 1_800) == Deputed(lasts_s=3_600.0)
    assert called(office, NOW + 1_800 + DEPUTY_S).peer == ONE


def test_another_peer_waits_until_the_deputy_has_said_what_it_has(office: LeaseOffice) -> None:
    deputed(office, ONE, NOW)
    found = called(office, NOW + 1)
    assert (found.peer, found.is_time) == (ONE, True)
    assert not called(office, NOW + 1.5).is_time, "it was called half a second ago"
    assert called(office, NOW + 1 + CALL_AGAIN_S).is_time
    office.called_back(AT, found.number, [8.0, 5.0], NOW + 7)
    assert deputed(office, OTHER, NOW + 7) is None, "now they share, and each window is asked for"
    window = granted(office, OTHER, "1 host:h.example", NOW + 7)
    assert isinstance(window, Window)
    assert window.starts_at == NOW + 12, "two may be at a time, and the deputy has two"
    assert deputed(office, ONE, NOW + 7) is None


def test_a_deputy_without_windows_makes_room_at_once(office: LeaseOffice) -> None:
    deputed(office, ONE, NOW)
    office.called_back(AT, called(office, NOW + 1).number, [], NOW + 1)
    window = granted(office, OTHER, "1 host:h.example", NOW + 1)
    assert isinstance(window, Window)
    assert window.starts_at == NOW + 1


def test_where_several_asked_nobody_is_deputy_for_an_hour(office: LeaseOffice) -> None:
    deputed(office, ONE, NOW)
    office.called_back(AT, called(office, NOW + 1).number, [], NOW + 1)
    assert deputed(office, ONE, NOW + DEPUTY_S) is None
    assert isinstance(deputed(office, ONE, NOW + 1 + DEPUTY_S), Deputed)


def test_a_deputy_that_hears_nothing_may_be_at_work_for_as_long_as_its_last_window_and_fetch(
    office: LeaseOffice,
) -> None:
    deputed(office, ONE, NOW)
    number = called(office, NOW + 1).number
    office.called_back(AT, number, None, NOW + 5)
    assert called(office, NOW + 5 + LAST_S - 0.1).number == number
    assert deputed(office, OTHER, NOW + 5 + LAST_S) is None
    assert isinstance(granted(office, OTHER, "1 host:h.example", NOW + 5 + LAST_S), Window)


def test_a_deaf_deputy_does_not_stay_one_by_asking_again(office: LeaseOffice) -> None:
    deputed(office, ONE, NOW)
    number = called(office, NOW + 1).number
    office.called_back(AT, number, None, NOW + 5)
    assert isinstance(deputed(office, ONE, NOW + 100), CallBack)
    assert deputed(office, OTHER, NOW + 5 + LAST_S) is None


def test_a_deputy_that_is_no_member_grants_nothing_since(office: LeaseOffice) -> None:
    deputed(office, ONE, NOW)
    office.note_members(lambda peer: peer != ONE, NOW + 10)
    office.note_members(lambda peer: peer != ONE, NOW + 60)
    office.called_back(AT, called(office, NOW + 150).number, None, NOW + 150)
    assert isinstance(deputed(office, OTHER, NOW + 10 + LAST_S - 0.1), CallBack)
    assert deputed(office, OTHER, NOW + 10 + LAST_S) is None


def test_a_deputy_that_was_away_for_a_moment_may_still_be_at_work(office: LeaseOffice) -> None:
    deputed(office, ONE, NOW)
    office.note_members(lambda peer: False, NOW + 10)
    office.note_members(lambda peer: True, NOW + 20)
    office.called_back(AT, called(office, NOW + 1_000).number, None, NOW + 1_000)
    assert isinstance(deputed(office, OTHER, NOW + 1_000 + LAST_S - 0.1), CallBack)


def test_nobody_is_deputy_where_somebody_has_a_window_or_waits(office: LeaseOffice) -> None:
    window = granted(office, OTHER, "1 host:h.example", NOW)
    assert isinstance(window, Window)
    assert deputed(office, ONE, NOW) is None
    assert deputed(office, ONE, window.ends_at + 1) is None, "it did not come back, and counts on"
    office.give_back(
        window.holder, AT, window.number, OriginReport(status=200, duration_s=0.1), window.ends_at + 2
    )
    assert isinstance(deputed(office, ONE, window.ends_at + 2), Deputed)


def test_the_steward_itself_is_nobodys_deputy_and_calls_others_back(office: LeaseOffice) -> None:
    assert office.deputy_for(ONE, AT, NOW, may_be=False) is None
    deputed(office, OTHER, NOW)
    assert isinstance(office.deputy_for(ONE, AT, NOW, may_be=False), CallBack)


def test_an_hour_ends_with_the_windows_that_were_granted_in_its_last_moment(office: LeaseOffice) -> None:
    deputed(office, ONE, NOW)
    assert isinstance(deputed(office, OTHER, NOW + DEPUTY_S + LAST_S - 0.1), CallBack)
    other = LeaseOffice(TERMS)
    deputed(other, ONE, NOW)
    assert isinstance(deputed(other, OTHER, NOW + DEPUTY_S + LAST_S), Deputed)


def test_a_word_of_another_time_changes_nothing(office: LeaseOffice) -> None:
    deputed(office, ONE, NOW)
    number = called(office, NOW + 1).number
    office.called_back(AT, number + 1, [], NOW + 1)
    office.called_back("address:93.184.0.2", number, [], NOW + 1)
    assert called(office, NOW + 20).number == number


def test_what_a_deputy_says_of_its_windows_is_bounded(office: LeaseOffice) -> None:
    deputed(office, ONE, NOW)
    office.called_back(AT, called(office, NOW + 1).number, [1e6] * 100, NOW + 1)
    assert office.statistics(NOW + 1).overdue == 2
    assert office.statistics(NOW + 1 + LAST_S + 1).overdue == 0


def test_no_peer_is_deputy_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_office, "DEPUTED_TO_ONE_MAX", 3)
    office = LeaseOffice(TERMS)
    subjects = [f"address:93.184.1.{n}" for n in range(4)]
    assert [isinstance(deputed(office, ONE, NOW, one), Deputed) for one in subjects] == [True] * 3 + [False]
    assert isinstance(deputed(office, OTHER, NOW, subjects[3]), Deputed)
    later = NOW + DEPUTY_S + LAST_S + 1
    assert isinstance(deputed(office, ONE, later, "address:93.184.2.1"), Deputed), "the first are over"
    assert DEPUTED_TO_ONE_MAX == 4_096


def test_books_of_deputies_are_not_forgotten_for_want_of_space(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_office, "SUBJECTS_MAX", 10)
    office = LeaseOffice(TERMS)
    for number in range(20):
        deputed(office, ONE, NOW + number, f"address:93.184.1.{number}")
    deputies = [
        subject
        for subject in office.subjects()
        if isinstance(office.deputy_for(OTHER, subject, NOW + 30, may_be=False), CallBack)
    ]
    assert len(deputies) == 5, "half of the books"


def test_windows_at_an_address_that_is_anothers_now_count_to_their_end(office: LeaseOffice) -> None:
    window = granted(office, ONE, "1 host:h.example", NOW)
    assert isinstance(window, Window)
    office.forget(AT, NOW + 1)
    assert office.ends_s(AT, NOW + 1) == [9.0 + 105.0]
    office.forget(AT, NOW + 10 + 106)
    assert office.subjects() == []
    assert office.ends_s(AT, NOW) == []


def test_an_address_that_was_anothers_for_a_moment_has_its_deputy_still(office: LeaseOffice) -> None:
    """It need not have heard of that."""
    deputed(office, ONE, NOW)
    office.forget(AT, NOW + 1)
    assert called(office, NOW + 2).peer == ONE
    office.forget(AT, NOW + DEPUTY_S + LAST_S)
    assert office.subjects() == []
