"""Do the worlds of copies say what they should, and would they notice a core that lets go too early?"""

from collections.abc import Collection
from dataclasses import replace
from functools import partial

import pytest

from herodotus.core.copies.ledger import Group, HoldingLedger
from simnet.copyworld import DAY_S, CopyRules, CopyWorld
from simnet.runs import Options, RunReport, run_scenario
from simnet.scenarios import find_scenario

RULES = CopyRules(unit_bytes=1e8, up_bit_s=1e6, down_bit_s=2e6)


def report(
    name: str, *, peers: int, days: float | None = None, seed: int = 1, **settings: float
) -> RunReport:
    return run(name, Options(seed=seed, peers=peers, days=days), units_per_peer=2, **settings)


def run(name: str, options: Options, **settings: float) -> RunReport:
    told = {key: f"{value:g}" for key, value in settings.items()}
    found, _ = run_scenario(find_scenario(name), replace(options, settings=told))
    return found


def test_a_lost_peer_s_copies_are_made_once_and_only_those() -> None:
    found = report("lose-and-repair", peers=24, node_gb=1)
    assert found.ok
    assert found.figures["moved for each byte"] == pytest.approx(1.0)
    assert 1.0 <= found.figures["days until all is as before"] <= 3.0  # it counts as away for a day


def test_copies_last_through_days_of_churn() -> None:
    found = report("year-of-churn", peers=24, days=4, node_gb=1, stay_days=20, up_h=12, down_h=3)
    assert found.ok
    assert found.figures["peers that left"] > 0
    assert found.figures["dropped before six others had it"] == 0


def test_copies_do_not_last_where_lines_are_too_thin_and_that_is_said() -> None:
    found = report("year-of-churn", peers=24, days=20, node_gb=1_000, stay_days=3)
    assert not found.ok
    assert found.figures["units lost"] > 0


def test_a_newcomer_fills_and_others_let_go_when_six_have_it() -> None:
    world = CopyWorld(RULES, seed=3, peers=20, units=60)
    newcomer = world.join()
    world.run_until(3 * DAY_S)
    assert newcomer.units
    assert world.histogram() == {6: 60}
    assert world.dropped_early == 0


def test_a_unit_that_takes_longer_than_its_sources_stay_comes_from_several() -> None:
    rules = CopyRules(unit_bytes=1e8, up_bit_s=1e4, down_bit_s=2e4)  # 80,000 s over one line
    world = CopyWorld(rules, seed=3, peers=20, units=20)
    newcomer = world.join()
    wanted = len(newcomer.wanted)
    assert wanted
    sources = set()
    while not newcomer.units:
        world.run_until(world.now + 20_000)
        for source in [world.peers[key] for key in newcomer.fetching.values()]:
            sources.add(source.key)
            world.go(source)
            world.time.after(60, partial(world.come_back, source))
        assert world.now < 2 * wanted * 80_000
    assert len(sources) > 1


def test_the_same_seed_is_the_same_year() -> None:
    one, other = (report("year-of-churn", peers=20, days=2, up_h=12, down_h=3) for _ in range(2))
    assert one.figures == other.figures
    assert one.trace == other.trace


def test_a_core_that_lets_go_too_early_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def hasty(ledger: HoldingLedger, group: Group, absent: Collection[bytes], now: float) -> bool:
        del ledger, group, absent, now
        return True

    monkeypatch.setattr(HoldingLedger, "may_go", hasty)
    world = CopyWorld(RULES, seed=3, peers=20, units=60)
    for _ in range(3):
        world.join()
    world.run_until(DAY_S)
    assert world.dropped_early > 0


def test_keys_that_vanish_take_nothing_along_where_places_and_old_acquaintances_count() -> None:
    options = Options(seed=1, peers=50)
    guarded = run("keys-that-vanish", options, keys=30, units=300)
    assert guarded.ok
    assert guarded.figures["fewest honest copies"] == 5
    assert guarded.figures["units that went somewhere"] > 0
    # Either rule alone keeps some of each; the other must not be needed for that.
    for rules in ({"places": 0}, {"veterans": 0}):
        found = run("keys-that-vanish", options, keys=30, units=300, **rules)
        assert found.figures["fewest honest copies"] >= 3


def test_without_both_rules_a_hundred_keys_of_one_machine_are_all_that_is_left() -> None:
    lost = run("keys-that-vanish", Options(seed=1, peers=50), keys=100, units=300, places=0, veterans=0)
    assert not lost.ok
    assert lost.figures["units lost"] > 10
