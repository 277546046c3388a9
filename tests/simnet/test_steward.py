"""The scenario of stewards: sound as it is, caught where the silence of a new steward is taken away, and repeatable."""

import pytest

from simnet.runs import Options, run_scenario
from simnet.scenarios import find_scenario
from simnet.scenarios.steward import POLITE, SERVED, TORN

pytestmark = pytest.mark.timeout(300)


def outcome(seed: int, **settings: str) -> tuple[dict[str, bool], str]:
    options = Options(seed=seed, peers=6, settings={"hosts": "3", "churn_s": "500", **settings})
    report, _ = run_scenario(find_scenario("steward"), options)
    return {checker.name: checker.ok for checker in report.checkers}, report.trace


def test_peers_share_hosts_politely_and_the_same_seed_is_the_same_run() -> None:
    found, _ = outcome(1)
    assert {name: found[name] for name in (POLITE, TORN, SERVED)} == {POLITE: True, TORN: True, SERVED: True}
    traces = [outcome(seed, hosts="1")[1] for seed in (1, 1, 2)]
    assert traces[0] == traces[1] != traces[2]


def test_stewards_that_are_never_silent_are_caught() -> None:
    assert not outcome(1, silent="0", churn_s="1500")[0][POLITE]
