"""Whole peers crawl one web: sound as they are, caught where a part of them is missing, and repeatable."""

import pytest

from herodotus.crawl.links.exchange import Exchange
from herodotus.crawl.links.substitute import StandingIn
from simnet.runs import Options, RunReport, run_scenario
from simnet.scenarios import find_scenario
from simnet.scenarios.crawlday import DAILY, POLITE, TORN

pytestmark = pytest.mark.timeout(600)
SMALL = {"day_s": "700", "hosts": "2", "pages": "3", "torn_s": "0", "delay_s": "0.5", "skew_s": "10"}


def crawl(seed: int, *, peers: int = 6, days: int = 2, **settings: str) -> RunReport:
    options = Options(seed=seed, peers=peers, days=days, settings=SMALL | settings)
    report, _ = run_scenario(find_scenario("crawl-day"), options)
    return report


def complaint_of(report: RunReport) -> str:
    assert report.violation is not None
    return str(report.violation["checker"])


def test_nothing_is_missed_and_nobody_is_rude_while_peers_come_and_go() -> None:
    report = crawl(1, kills="1")
    assert report.ok, report.violation
    assert [outcome.name for outcome in report.checkers] == [DAILY, POLITE, TORN]
    assert report.figures["killed"] >= 2
    assert report.figures["fetches of pages"] >= 2 * report.figures["URLs on the last day"] >= 20
    assert report.figures["missed on day 1"] == 0


def test_the_same_seed_is_the_same_days() -> None:
    assert crawl(2, peers=3, kills="1").trace == crawl(2, peers=3, kills="1").trace


def test_in_a_ring_without_faults_each_url_is_fetched_once_a_day() -> None:
    report = crawl(4, kills="0", loss="0")
    assert report.ok, report.violation
    assert report.figures["share fetched once more on a day"] == 0


def test_peers_that_never_look_at_what_became_theirs_miss_days(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(_self: StandingIn, *_args: object) -> None:
        return

    monkeypatch.setattr(StandingIn, "sweep", nothing)
    monkeypatch.setattr(StandingIn, "look", nothing)
    assert complaint_of(crawl(1, days=3, kills="1", gone="1")) == DAILY


def test_links_that_are_carried_to_nobody_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(_self: Exchange, *_args: object) -> None:
        return

    monkeypatch.setattr(Exchange, "_walk_on", never)
    monkeypatch.setattr(Exchange, "_compare_daily", never)
    assert complaint_of(crawl(1, kills="0")) == DAILY


def test_servers_that_see_a_request_too_soon_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each peer keeps a pace of its own, and no steward's."""

    def started(_self: object, _note: object) -> None:
        return

    monkeypatch.setattr("herodotus.crawl.stewards.windows.Windows.start", started)
    assert complaint_of(crawl(1, kills="0")) == POLITE


def test_peers_that_lose_their_disks_are_told_anew() -> None:
    report = crawl(5, kills="2", wiped="0.5", gone="0")
    assert report.ok, report.violation
    assert report.figures["disks lost"] >= 1
