"""Do bought places and fallen ones take nothing along that the rules should keep, and would we notice if they did?"""

from dataclasses import replace
from random import Random

import pytest

from dht.core.places import PlaceRules, place_at
from herodotus.core.planning import lost_with
from simnet.adversaries.fullstores import CELLS, HOUR_S, FullRules, FullStores
from simnet.adversaries.members import bought_hosts
from simnet.runs import Options, RunReport, run_scenario
from simnet.scenarios import find_scenario

KEYS = {"keys": 30, "units": 20_000, "cells": 400, "step_h": 6}
PLACES = {"keys": 80, "in_places": 80, "units": 20_000, "cells": 400, "step_h": 6}


def report(name: str, *, peers: int, days: float | None = None, **settings: float) -> RunReport:
    told = {key: f"{value:g}" for key, value in settings.items()}
    found, _ = run_scenario(
        find_scenario(name), replace(Options(seed=1, peers=peers, days=days), settings=told)
    )
    return found


def test_thirty_keys_in_one_place_are_one_holder_of_some_keys_and_take_nothing_along() -> None:
    found = report("bought-keys", peers=30, days=10, **KEYS)
    assert found.ok
    assert found.figures["copies that they held"] > 1_000, (
        "they were holders, and honest copies went for theirs"
    )
    assert found.figures["copies that honest peers let go"] > 1_000
    assert found.figures["fewest honest copies, by place"] == 5


def test_where_each_key_is_a_place_they_take_units_along_and_the_checker_says_so() -> None:
    found = report("bought-keys", peers=30, days=10, **KEYS, places=0)
    assert not found.ok
    assert found.figures["units lost"] > 0


def test_places_bought_for_five_days_are_never_holders() -> None:
    found = report("bought-keys", peers=20, days=5, **PLACES)
    assert found.ok
    assert found.figures["copies that they held"] == 0


@pytest.mark.parametrize("veterans", [0, 1])
def test_without_probation_they_are_and_three_veterans_are_what_is_left(veterans: int) -> None:
    found = report("bought-keys", peers=20, days=5, **PLACES, probation=0, veterans=veterans)
    assert not found.ok
    assert bool(found.figures["units lost"]) is not bool(veterans)
    assert found.figures["fewest honest copies, by place"] == 3 * veterans


def test_for_promises_without_bytes_no_copy_goes() -> None:
    found = report("bought-keys", peers=24, days=10, **KEYS, keeping=1)
    assert found.ok
    assert found.figures["fewest honest copies, by place"] == 6
    assert found.figures["proofs that were wrong"] > 0
    trusting = report("bought-keys", peers=24, days=10, **KEYS, keeping=1, proofs=0)
    assert not trusting.ok
    assert "5 honest copies" in str((trusting.violation or {})["detail"])


def test_an_accomplice_that_answers_for_others_gains_no_more_than_their_places() -> None:
    found = report("bought-keys", peers=24, days=11, **KEYS, keeping=2, in_places=2)
    assert found.ok
    assert found.figures["copies that they held"] > 0
    assert found.figures["fewest honest copies, by place"] >= 4


def test_a_store_lets_go_of_a_twentieth_a_day_and_no_more() -> None:
    rules = FullRules(up_s=1e12, stay_s=1e12, step_s=6 * HOUR_S)
    foes = bought_hosts(1, 1, 1, Random(1))
    world = FullStores(rules, 1, peers=30, units=20_000, foes=foes, days=10, cells=1_000)
    world.attack()
    held = sum(world.units[cell] for one in world.keepers.values() for cell in one.cells)
    world.run(8.0)  # it comes of age after seven, is given its copies, and the others wait for a day
    before = world.copies_gone
    world.run(1.0)
    most = max(world.units)  # a cell goes as a whole
    assert 0 < world.copies_gone - before <= held * rules.let_go_share + most * len(world.keepers)


def test_a_departed_member_s_copies_are_made_again() -> None:
    rules = FullRules(up_s=1e12, stay_s=1e12)
    world = FullStores(rules, 1, peers=30, units=2_000, foes=(), days=4, cells=300)
    gone = max(world.keepers.values(), key=lambda one: len(one.cells))
    gone.leaves_at = world.now + HOUR_S
    world.run(3.0)
    assert world.fewest_at_all == 5
    assert {len(owners) for owners in world.owners} == {6}


def test_bought_addresses_are_in_as_many_places_as_were_bought() -> None:
    hosts = bought_hosts(1_000, 1_000, 1_000, Random(1))
    assert len({place_at(host, PlaceRules()) for host in hosts}) == len({host[:2] for host in hosts}) == 1_000
    crowd = bought_hosts(100, 1, 1, Random(1))
    assert len(set(crowd)) == 100
    assert len({place_at(host, PlaceRules()) for host in crowd}) == 1


def test_a_sixth_of_the_places_takes_what_the_formula_says_of_six_copies_and_nothing_of_ten() -> None:
    small = {"draws": 400, "rings": 2, "units": 50_000}
    found = report("places-that-fall", peers=100, **small)
    assert found.ok
    places = int(found.figures["places of age, mean"])
    expected = lost_with(places, places // 6, 6) * 50_000
    assert found.figures["six copies: the formula"] == pytest.approx(expected, rel=0.2)
    half = report("places-that-fall", peers=100, **small, one_in=2)
    assert half.figures["10 copies: draws with a loss"] > 0
    bare = report("places-that-fall", peers=100, **small, spares=0, one_in=3, hit_max=0)
    assert not bare.ok
    assert bare.figures["six copies: units lost, mean of draws"] == pytest.approx(
        bare.figures["six copies: the formula"], rel=0.5
    )


def test_the_default_is_fine_grained() -> None:
    world = FullStores(FullRules(), 1, peers=20, units=200_000, foes=(), days=1)
    assert len(world.units) > 0.9 * CELLS
