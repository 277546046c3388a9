"""Whole peers crawl for days: a sound one satisfies every checker, and each checker catches the fault it is for."""

import pytest

from simnet.runs import Options, RunReport, run_scenario
from simnet.scenarios import find_scenario
from simnet.scenarios.month import DAILY, KEPT, POLITE, SAME
from simnet.web import Response, Web, WebRequest
from simnet.wholecrawl import SimulatedServers
from simnet.world.disk import SimulatedDisk

SMALL = {"hosts_per_peer": "1", "pages": "4", "change_share": "0.5"}


def crawl(*, days: float = 2, peers: int = 1, seed: int = 1, cuts: int = 0) -> RunReport:
    options = Options(seed=seed, peers=peers, days=days, settings=SMALL | {"cuts": str(cuts)})
    report, _ = run_scenario(find_scenario("month-of-crawls"), options)
    return report


def test_archives_equal_the_web_although_the_power_fails() -> None:
    report = crawl(peers=2, cuts=6)
    assert report.ok, report.violation
    assert report.figures["power cuts"] >= 3
    assert report.figures["captures promised"] > 20
    assert report.figures["pages compared"] > report.figures["captures promised"] / 2
    assert report.figures["members at the end"] == 2
    assert [outcome.name for outcome in report.checkers] == [KEPT, SAME, POLITE, DAILY]


def test_the_same_seed_is_the_same_month() -> None:
    assert crawl(days=1, cuts=1, seed=2).trace == crawl(days=1, cuts=1, seed=2).trace != crawl(days=1).trace


def complaint_of(report: RunReport) -> str:
    assert report.violation is not None
    return str(report.violation["checker"])


def test_a_disk_that_does_not_sync_loses_what_was_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SimulatedDisk, "fdatasync", lambda disk, fd: None)
    monkeypatch.setattr(SimulatedDisk, "fsync", lambda disk, fd: None)
    assert complaint_of(crawl(days=1)) == KEPT


def test_servers_that_deny_every_change_leave_the_archive_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    respond = Web.respond

    def stuck(web: Web, request: WebRequest, day: int) -> Response:
        is_conditional = "if-none-match" in request.headers or "if-modified-since" in request.headers
        return Response(status=304, headers=()) if is_conditional else respond(web, request, day)

    monkeypatch.setattr(Web, "respond", stuck)
    assert complaint_of(crawl(days=2)) == SAME


def test_a_crawler_quicker_than_its_hosts_allow_is_rude(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = SimulatedServers.__init__

    def wary(servers: SimulatedServers, web: Web, *, delay_floor_s: float) -> None:
        begin(servers, web, delay_floor_s=delay_floor_s + 0.5)

    monkeypatch.setattr(SimulatedServers, "__init__", wary)
    assert complaint_of(crawl(days=1)) == POLITE


def test_a_peer_that_never_comes_back_misses_days(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simnet.wholecrawl.BACK_AFTER_S", 1e9)
    assert complaint_of(crawl(days=2, cuts=4)) == DAILY
