"""Do whole peers keep what others remove, and take no invented history from one?"""

import pytest

from simnet.runs import Options, run_scenario
from simnet.scenarios import find_scenario


def complaint(name: str, **settings: str) -> str | None:
    report, _ = run_scenario(
        find_scenario(name), Options(seed=1, peers=4, settings={"foes": "1", **settings})
    )
    return None if report.violation is None else str(report.violation["detail"])


def test_what_one_peer_removes_the_others_keep_and_show() -> None:
    assert complaint("tombstones") is None


@pytest.mark.sweep
def test_operators_that_follow_are_noticed_by_the_checker() -> None:
    assert "hides" in (complaint("tombstones", follows="1") or "")


@pytest.mark.sweep
@pytest.mark.parametrize("told", [{}, {"crawled": "1"}, {"crawled": "1", "foes": "2"}])
def test_invented_history_stays_with_those_that_invented_it(told: dict[str, str]) -> None:
    assert complaint("forged-history", **told) is None
