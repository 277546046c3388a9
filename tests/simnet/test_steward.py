"""The scenario of stewards: sound as it is, caught where the silence of a new steward is taken away, and repeatable."""

from types import SimpleNamespace
from typing import cast

import pytest

from crawler.core.politeness import HostSteward
from simnet.origins import FetchStart, Origins
from simnet.peers import Peers
from simnet.runs import Options, run_scenario
from simnet.scenarios import find_scenario
from simnet.scenarios.steward import LIAR, NEWS, NO_WEB, POLITE, SERVED, TORN, News, add_sites, settings_of
from simnet.web import Web

pytestmark = pytest.mark.timeout(300)
SMALL = {"hosts": "3", "churn_s": "300", "torn_s": "120", "news_s": "300"}


def outcome(seed: int, peers: int = 4, **settings: str) -> tuple[dict[str, bool], str]:
    options = Options(seed=seed, peers=peers, settings=SMALL | settings)
    report, _ = run_scenario(find_scenario("steward"), options)
    return {checker.name: checker.ok for checker in report.checkers if checker.asked}, report.trace


def test_peers_share_hosts_politely_and_the_same_seed_is_the_same_run() -> None:
    found, _ = outcome(1)
    assert found == dict.fromkeys((POLITE, TORN, SERVED, NEWS, LIAR), True)
    short = {"hosts": "1", "churn_s": "100", "torn_s": "10"}
    traces = [outcome(seed, peers=2, **short)[1] for seed in (1, 1, 2)]
    assert traces[0] == traces[1] != traces[2]


def test_stewards_that_are_never_silent_are_caught() -> None:
    assert not outcome(1, peers=3, silent="0", hosts="2", churn_s="400", torn_s="10")[0][POLITE]


def test_rules_that_nobody_asks_for_again_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HostSteward, "doubt_rules", lambda core, origin: None)
    assert not outcome(1, peers=2, churn_s="0", torn_s="10", hosts="1")[0][NEWS]


def test_the_pace_of_each_asker_is_looked_at_apart() -> None:
    origins = Origins(Web(NO_WEB), day_s=86_400.0, delay_floor_s=2.0)
    peers = cast(
        "Peers", SimpleNamespace(origins=origins, settings=settings_of(3))
    )  # all that both ask of them
    add_sites(peers, "h0.example", "h1.example", "h2.example")
    news = News(peers)
    starts = origins.starts["h2.example"]
    starts += [FetchStart(1.0, 1, ""), FetchStart(1.5, 2, ""), FetchStart(3.0, 1, "")]
    assert news.hasty() == []
    starts.append(FetchStart(3.4, 2, ""))
    assert news.hasty() == ["peer 2 at h2.example"]
