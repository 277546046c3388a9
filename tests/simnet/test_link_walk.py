"""Does the scenario that counts bytes deliver every link, and stay at what was measured?"""

from simnet.runs import Options, run_scenario
from simnet.scenarios import find_scenario


def test_links_reach_six_holders_for_about_twenty_bytes_each() -> None:
    options = Options(seed=3, peers=60)
    report = run_scenario(find_scenario("link-walk"), options)[0]
    assert report.ok, report.violation
    figures = report.figures
    for name in ("synthetic", "varied"):
        assert 5.5 < figures[f"{name}, receivers per link"] <= 6.0
        assert (
            figures[f"{name}, bytes per link and receiver"] > figures[f"{name}, bodies per link and receiver"]
        )
        assert figures[f"{name}, scaled to 59"] < 21.0
        assert figures[f"{name}, messages per link"] < 0.06
