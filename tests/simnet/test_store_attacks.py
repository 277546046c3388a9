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
def test_one_peer_s_invented_history_stays_with_it() -> None:
    assert complaint("forged-history") is None
