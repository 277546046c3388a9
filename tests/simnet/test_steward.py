"""The scenario of stewards: sound as it is, caught where the silence of a new steward is taken away, and repeatable."""

import anyio
import pytest
from anyio.abc import TaskGroup

from crawler.core.politeness import HostSteward, PolitenessPolicy
from simnet.runs import Options, run_scenario
from simnet.scenarios import find_scenario
from simnet.scenarios.steward import LIAR, NEWS, POLITE, SERVED, TORN, News
from simnet.stewards import GrantedStart, StewardWorld, in_virtual_time

pytestmark = pytest.mark.timeout(300)


def outcome(seed: int, **settings: str) -> tuple[dict[str, bool], str]:
    options = Options(seed=seed, peers=6, settings={"hosts": "3", "churn_s": "500", **settings})
    report, _ = run_scenario(find_scenario("steward"), options)
    return {checker.name: checker.ok for checker in report.checkers}, report.trace


def test_peers_share_hosts_politely_and_the_same_seed_is_the_same_run() -> None:
    found, _ = outcome(1)
    assert {name: found[name] for name in (POLITE, TORN, SERVED)} == {POLITE: True, TORN: True, SERVED: True}
    assert found[NEWS]
    assert found[LIAR]
    traces = [outcome(seed, hosts="1")[1] for seed in (1, 1, 2)]
    assert traces[0] == traces[1] != traces[2]


def test_stewards_that_are_never_silent_are_caught() -> None:
    assert not outcome(1, silent="0", churn_s="1500")[0][POLITE]


def test_rules_that_nobody_asks_for_again_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HostSteward, "doubt_rules", lambda core, origin: None)
    assert not outcome(1, churn_s="0", hosts="1")[0][NEWS]


def test_the_pace_of_each_asker_is_looked_at_apart() -> None:
    policy = PolitenessPolicy(delay_floor_s=2.0)

    async def main(tasks: TaskGroup) -> None:
        await anyio.lowlevel.checkpoint()
        world = StewardWorld(tasks, policy, seed=1)
        for number in range(3):
            world.add_host(f"h{number}.example")
        world.add_peers(3)
        news = News(world)
        starts = world.hosts["h2.example"].starts
        starts += [GrantedStart(1.0, 1), GrantedStart(1.5, 2), GrantedStart(3.0, 1)]
        assert news.hasty(policy) == []
        starts.append(GrantedStart(3.4, 2))
        assert news.hasty(policy) == ["peer 2 at h2.example"]

    in_virtual_time(main, seed=1)
