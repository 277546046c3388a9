import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawler.core import politeness
from crawler.core.errors import MalformedUrlError
from crawler.core.politeness import (
    CLOSED_GIVEN_UP_S,
    CLOSED_MAX,
    CLOSED_SEEDS_MAX,
    Closed,
    ClosedOrigins,
    HostSteward,
    Lease,
    OptOutList,
    OriginReport,
    PolitenessPolicy,
    Retries,
    Wait,
    retry_after_s,
)
from crawler.core.robots import DISALLOW_ALL, parse_robots
from crawler.core.urls import Origin, UrlKey

A = Origin("http://a.example")
B = Origin("http://b.example")
C = Origin("http://c.example")
FINE = OriginReport(status=200, duration_s=0.1)


def granted(answer: Lease | Wait) -> Lease:
    assert isinstance(answer, Lease), answer
    return answer


def waits(answer: Lease | Wait) -> Wait:
    assert isinstance(answer, Wait), answer
    return answer


def test_one_lease_per_origin_is_out_and_the_next_comes_a_delay_after_it_is_back() -> None:
    steward = HostSteward(PolitenessPolicy())
    lease = granted(steward.lease(A, 0))
    assert waits(steward.lease(A, 0.5)).reason == "another lease is out"
    assert granted(steward.lease(B, 0.5)).origin == B
    assert steward.give_back(lease, FINE, 1) == 2
    assert waits(steward.lease(A, 1.9)).until == 2
    granted(steward.lease(A, 2))


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        (OriginReport(status=200, duration_s=4.0), 12.0),
        (OriginReport(status=200, duration_s=1000.0), 60.0),
        (OriginReport(status=404, duration_s=0.1), 1.0),
        (OriginReport(status=503, duration_s=0.1), 30.0),
        (OriginReport(status=None, duration_s=20.0), 60.0),
        (OriginReport(status=429, duration_s=0.1, retry_after_s=300.0), 300.0),
        (OriginReport(status=503, duration_s=0.1, retry_after_s=1e12), 86_400.0),
        (OriginReport(status=200, duration_s=0.1, retry_after_s=7.0), 7.0),
    ],
)
def test_the_rest_follows_from_the_answer(report: OriginReport, expected: float) -> None:
    steward = HostSteward(PolitenessPolicy())
    assert steward.give_back(granted(steward.lease(A, 0)), report, 0) == expected


def test_one_host_is_one_host_by_whatever_scheme_and_port() -> None:
    steward = HostSteward(PolitenessPolicy())
    secure, other = Origin("https://a.example"), Origin("http://a.example:8080")
    steward.set_rules(secure, parse_robots(b"user-agent: *\ndisallow: /", "Herodotus"), 0)
    assert steward.rules(A, 0) is None  # each has a robots.txt of its own
    lease = granted(steward.lease(A, 0))
    assert waits(steward.lease(secure, 0.5)).until == 1.5
    assert steward.give_back(lease, OriginReport(status=503, duration_s=0.1), 1) == 31
    assert [waits(steward.lease(one, 2)).until for one in (A, secure, other)] == [31, 31, 31]


def test_backoff_doubles_up_to_its_bound_and_one_good_answer_ends_it() -> None:
    steward = HostSteward(PolitenessPolicy(backoff_base_s=10, backoff_max_s=35))
    now, rests = 0.0, []
    for status in (503, None, 429, 503, 200):
        back_at = steward.give_back(
            granted(steward.lease(A, now)), OriginReport(status=status, duration_s=0), now
        )
        rests.append(back_at - now)
        now = back_at
    assert rests == [10, 20, 35, 35, 1]


def test_a_crawl_delay_is_kept_after_a_lease() -> None:
    steward = HostSteward(PolitenessPolicy())
    steward.set_rules(A, parse_robots(b"user-agent: *\ncrawl-delay: 9", "Herodotus"), 0)
    lease = granted(steward.lease(A, 0))
    assert lease.expires_at == 120
    assert steward.give_back(lease, FINE, 18.2) == pytest.approx(27.2)


def test_origins_at_one_address_share_its_cap() -> None:
    steward = HostSteward(PolitenessPolicy(per_address_concurrency=2))
    first = granted(steward.lease(A, 0, address="192.0.2.1"))
    granted(steward.lease(B, 0, address="192.0.2.1"))
    assert waits(steward.lease(C, 0, address="192.0.2.1")).reason == "its address is busy"
    steward.give_back(first, FINE, 1)
    granted(steward.lease(C, 1, address="192.0.2.1"))


def test_a_lease_nobody_gave_back_ends_late_and_a_stale_one_changes_nothing() -> None:
    steward = HostSteward(PolitenessPolicy(lease_s=100))
    lost = granted(steward.lease(A, 0))
    waits(steward.lease(A, 99))
    assert waits(steward.lease(A, 100)).until == 101
    other = granted(steward.lease(A, 101))
    steward.give_back(lost, OriginReport(status=503, duration_s=0), 102)
    assert steward.give_back(other, FINE, 103) == 104


def test_robots_rules_are_kept_for_a_day_and_an_unreachable_file_for_minutes() -> None:
    steward = HostSteward(PolitenessPolicy())
    rules = parse_robots(b"", "Herodotus")
    steward.set_rules(A, rules, 0)
    steward.set_rules(B, DISALLOW_ALL, 0)
    assert steward.rules(A, 86_399) is rules
    assert steward.rules(A, 86_400) is None
    assert steward.rules(B, 59) is DISALLOW_ALL
    assert steward.rules(B, 60) is None
    assert steward.rules(C, 0) is None


def test_an_unreachable_file_is_asked_for_after_an_eighth_of_the_time_that_it_was_away_or_some_minutes() -> (
    None
):
    steward = HostSteward(PolitenessPolicy())
    asked = []
    now = 0.0
    while now < 86_400:
        steward.set_rules(A, DISALLOW_ALL, now)
        asked.append(now)
        now += steward.rules_for_s(A, now)
    assert asked[:9] == [60.0 * n for n in range(9)]
    pauses = [(later - before, max(60, min(before / 8, 210))) for before, later in pairwise(asked)]
    assert all(pause == pytest.approx(bound) for pause, bound in pauses)
    assert len(asked) < 86_400 / 210 + 20
    steward.set_rules(A, parse_robots(b"", "Herodotus"), now)
    steward.set_rules(A, DISALLOW_ALL, now + 1)
    assert steward.rules_for_s(A, now + 1) == 60


def test_closed_origins_are_waited_for_within_bounds() -> None:
    closed = ClosedOrigins(PolitenessPolicy())
    assert closed.again_at(A, "no answer", 100) == 160
    assert closed.again_at(A, "502", 1_700) == 1_700 + 1_600 / 8
    assert closed.again_at(B, "no name", 1_700) == 1_760
    assert closed.listed() == {
        A: Closed(since=100, until=1_900, problem="502"),
        B: Closed(since=1_700, until=1_760, problem="no name"),
    }
    assert closed.again_at(A, "502", 100 + CLOSED_GIVEN_UP_S) is None
    closed.opened(B)
    assert closed.listed() == {}
    origins = [Origin(f"http://{n}.example") for n in range(CLOSED_MAX + 1)]
    assert [origin for origin in origins if closed.again_at(origin, "", 0) is None] == origins[-1:]


def test_closed_origins_with_seeds_are_asked_every_minute_and_never_given_up_within_a_bound_of_their_own() -> (
    None
):
    closed = ClosedOrigins(PolitenessPolicy())
    others = [Origin(f"http://{n}.example") for n in range(CLOSED_MAX)]
    assert all(closed.again_at(origin, "", 0) for origin in others)
    seeds = [Origin(f"http://seed{n}.example") for n in range(CLOSED_SEEDS_MAX + 1)]
    untils = [closed.again_at(origin, "", 0, has_seed=True) for origin in seeds]
    assert untils == [60.0] * CLOSED_SEEDS_MAX + [None]
    late = 20 * 3_600.0
    assert closed.again_at(seeds[0], "", late, has_seed=True) == late + 60
    assert closed.listed() == {seeds[0]: Closed(since=0, until=late + 60, problem="", has_seed=True)}


def test_retries_rest_from_minutes_to_hours_and_are_told_once() -> None:
    retries = Retries()
    one, two = (UrlKey(bytes([n]) * 20) for n in (1, 2))
    assert retries.later(A, one, 1, 100)
    assert retries.later(A, two, 4, 100)
    assert retries.is_waiting(one)
    assert (retries.next_at(), retries.take_due(399)) == (400, [])
    assert (retries.take_due(400), retries.take_due(400), retries.is_waiting(one)) == ([A], [], False)
    assert retries.next_at() == 100 + 14_400
    assert retries.later(A, one, 6, 500)  # the first failure of the second day
    assert retries.next_at() == 800
    assert retries.take_due(10**6) == [A]
    assert (len(retries), retries.next_at()) == (0, None)


def test_so_many_pages_wait_for_another_try_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawler.core.politeness.RETRIES_MAX", 3)
    monkeypatch.setattr("crawler.core.politeness.RETRIES_OF_ORIGIN_MAX", 2)
    retries = Retries()
    keys = [UrlKey(bytes([n]) * 20) for n in range(5)]
    assert [retries.later(A, key, 1, 0) for key in keys[:3]] == [True, True, False]
    assert [retries.later(B, key, 1, 0) for key in keys[3:]] == [True, False]
    assert retries.take_due(300) == [A, B]
    assert retries.later(A, keys[0], 2, 300)


def test_the_table_is_bounded_and_forgets_only_those_at_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(politeness, "ORIGINS_MAX", 10)
    steward = HostSteward(PolitenessPolicy())
    steward.give_back(granted(steward.lease(A, 0)), OriginReport(status=503, duration_s=0), 0)
    for i in range(100):
        lease = granted(steward.lease(Origin(f"http://{i}.example"), float(i)))
        steward.give_back(lease, FINE, float(i))
    assert len(steward._origins) <= 11
    assert steward._origins[A].host.next_start_at == 30


@settings(max_examples=50)
@given(st.integers(0, 2**32), st.floats(0.5, 5))
def test_no_history_makes_an_origin_see_more_than_one_request_per_delay(seed: int, floor_s: float) -> None:
    chance = random.Random(seed)
    steward = HostSteward(PolitenessPolicy(delay_floor_s=floor_s, lease_s=20))
    starts: dict[Origin, list[float]] = {A: [], B: []}
    out: list[Lease] = []
    now = 0.0
    for _ in range(300):
        now += chance.random()
        if out and chance.random() < 0.5:
            lease = out.pop(chance.randrange(len(out)))
            if chance.random() < 0.9:  # one in ten is lost
                steward.give_back(
                    lease, OriginReport(status=chance.choice([200, 503, None]), duration_s=0.1), now
                )
        answer = steward.lease(chance.choice([A, B]), now, address="192.0.2.1")
        if isinstance(answer, Lease):
            out.append(answer)
            starts[answer.origin].append(now)
    for times in starts.values():
        assert all(later - earlier >= floor_s - 1e-9 for earlier, later in pairwise(times))


def test_an_unused_lease_costs_no_rest() -> None:
    steward = HostSteward(PolitenessPolicy())
    lease = granted(steward.lease(A, 0))
    assert steward.give_back(lease, OriginReport(status=None, duration_s=0, fetches=0), 0.1) <= 0.1
    granted(steward.lease(A, 0.1))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("120", 120.0),
        ("Thu, 01 Jan 1970 00:02:00 GMT", 20.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        ("soon", None),
        ("-5", None),
        ("9" * 1000, 999_999_999.0),
        (None, None),
    ],
)
def test_retry_after_is_a_number_or_a_date(value: str | None, expected: float | None) -> None:
    assert retry_after_s(value, 100.0) == expected


def test_an_opt_out_means_its_host_in_any_spelling() -> None:
    opted_out = OptOutList.of(["*.shy.example", "MÜNCHEN.example", "xn--bcher-kva.example", "127.1"])
    assert opted_out.covers("www.shy.example")
    assert opted_out.covers("xn--mnchen-3ya.example")
    assert opted_out.covers("www.xn--bcher-kva.example.")
    assert opted_out.covers("127.0.0.1")
    with pytest.raises(MalformedUrlError):
        OptOutList.of(["no host"])


def test_an_opt_out_covers_subdomains_only() -> None:
    opted_out = OptOutList.of(["Example.org.", "", "b.example"])
    assert opted_out.covers("example.org")
    assert opted_out.covers("www.example.org")
    assert not opted_out.covers("notexample.org")
    assert not opted_out.covers("org")
    assert not OptOutList().covers("example.org")


def test_with_many_hosts_those_are_forgotten_that_are_at_rest_and_no_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(politeness, "ORIGINS_MAX", 2)
    steward = HostSteward(PolitenessPolicy(delay_floor_s=20.0))
    steward.give_back(granted(steward.lease(A, 0)), FINE, 1)
    granted(steward.lease(B, 2))
    granted(steward.lease(C, 3))  # no room for a third, and nobody is at rest
    assert waits(steward.lease(A, 3)).until == 21
    assert waits(steward.lease(B, 3)).reason == "another lease is out"
