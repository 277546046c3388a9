"""Does the arithmetic of the thesis's chapter 6 come out as it printed it, but for its slips?"""

import math
import random
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from herodotus.core.planning import THESIS, Assumptions, gone_at_once, plan
from tests.herodotus.operate.cli.processes import called

ROUNDED = 0.035  # it rounds as it goes: 17.4 TB a month to 17.5, 49.3 TB of images to 50
SLIPPED = {"reachable"}


@pytest.mark.parametrize("name", sorted(THESIS.keys() - SLIPPED))
def test_its_own_assumptions_give_its_own_numbers(name: str) -> None:
    assert asdict(plan(Assumptions()))[name] == pytest.approx(THESIS[name], rel=ROUNDED)


def test_six_copies_are_within_reach_more_often_than_it_says() -> None:
    found = plan(Assumptions())
    assert found.reachable == pytest.approx(1 - 0.2**6)
    assert plan(replace(Assumptions(), copies=5)).reachable == pytest.approx(THESIS["reachable"], abs=3e-5)
    assert found.lost_in_a_repair == pytest.approx(1 / 6**5)


def test_one_fetch_for_all_copies_moves_the_burden_from_the_sites_to_the_line_between_peers() -> None:
    all_fetch, one = plan(Assumptions()), plan(replace(Assumptions(), fetches=1))
    assert one.gets_a_day == pytest.approx(all_fetch.gets_a_day / 6)
    assert all_fetch.copies_bit_s == 0
    assert one.copies_bit_s == pytest.approx(580e9 * 5 / 20_000 * 8 / 86_400, rel=ROUNDED)


def test_without_a_number_of_nodes_it_takes_those_that_it_needs() -> None:
    found = plan(replace(Assumptions(), nodes=0))
    assert found.nodes == found.nodes_at_least == math.ceil(found.stored_bytes_with_copies / 100e9)


def test_what_a_share_of_the_places_takes_along_depends_on_the_number_of_copies_alone() -> None:
    """C(50, 6) / C(300, 6) and so on, of a million."""
    found = plan(Assumptions(places=300, copies=6, spare_copies=4))
    shares = (
        found.lost_sixth_of_places,
        found.lost_sixth_with_spares,
        found.lost_third_of_places,
        found.lost_third_with_spares,
    )
    assert [round(share * 1e6, 3) for share in shares] == [16.504, 0.007, 1238.081, 12.379]
    assert plan(Assumptions(places=5)).lost_third_of_places == 0.0  # nobody alone has six places of five


def test_what_goes_at_once_is_what_draws_of_places_lose() -> None:
    """A third of twelve places and three copies: drawn a hundred thousand times rather than computed."""
    (_, third) = gone_at_once(Assumptions(places=12, copies=3, spare_copies=1))
    chance, tries = random.Random(1), 100_000
    draws = [chance.sample(range(12), 4) for _ in range(tries)]
    assert (third.gone, third.name) == (4, "third")
    assert third.lost == pytest.approx(sum(max(one[:3]) < 4 for one in draws) / tries, rel=0.1)
    assert third.lost_with_spares == pytest.approx(sum(max(one) < 4 for one in draws) / tries, rel=0.3)


def test_the_page_on_security_has_these_chances() -> None:
    """Its table has a row for a number of places, and one in so many captures for six and ten copies."""
    page = (Path(__file__).parents[3] / "docs/understand/security.md").read_text()
    section = page.partition("\n## Many peers that vanish at once\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.strip("| ")[:1].isdigit()]
    assert len(rows) >= 4
    for places, *cells in rows:
        sixth, third = gone_at_once(Assumptions(places=int(places.replace(",", ""))))
        shares = (sixth.lost, sixth.lost_with_spares, third.lost, third.lost_with_spares)
        for cell, share in zip(cells, shares, strict=True):
            said = 0.0 if cell == "none" else 1 / float(cell.removeprefix("1 of ").replace(",", ""))
            assert said == pytest.approx(share, rel=0.01), (places, cell)


def test_extremes_stay_numbers() -> None:
    found = plan(
        replace(Assumptions(), stay_days=0.01, repair_days=10_000.0, months=0.0, changed=0.0, added=0.0)
    )
    assert found.lost_in_a_repair == found.lost_in_a_year == 1.0
    assert all(math.isfinite(value) for value in asdict(found).values())


def test_the_command_prints_both_and_where_the_thesis_slips() -> None:
    shown = called("plan")
    assert shown.code == 0, shown.err
    assert "nodes at least            12,655         12,810" in shown.out
    assert "99.9936 %" in shown.out
    assert "lost sixth of places      16.5 in 1e6" in shown.out
    assert (
        "with a sixth (50 of 300 places) 1 of 60,600 captures with 6 copies, 1 of 136,000,000 captures with 10"
        in shown.out
    )
    assert (
        "with a third (100 of 300 places) 1 of 808 captures with 6 copies, 1 of 80,800 captures" in shown.out
    )
    changed = called("plan", "--pages", "1e6", "--nodes", "0", "--json").json
    assert changed["plan"]["nodes"] == changed["plan"]["nodes_at_least"]
    assert "thesis" not in changed
    assert called("plan", "--copies", "0").code == 2
