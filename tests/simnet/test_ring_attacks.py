"""Does a ring of cores stand what attackers do to it, and do the checkers fail where a rule is switched off?"""

import argparse
import json
from collections.abc import Mapping
from dataclasses import replace

import pytest

from dht.core.messages import Rumour
from scripts.sweeps import attackers
from simnet.adversaries.members import bought_hosts
from simnet.adversaries.ring_foes import THIRD_PARTY
from simnet.adversaries.siege import Siege, SiegeBrokenError
from simnet.runs import Options, RunReport, run_scenario
from simnet.scenarios import find_scenario
from simnet.scenarios.ring_attacks import FOR_S
from tests.dht.test_newcomers import RULES

KEYS = {"keys": 4, "in_places": 1, "in_areas": 1, "of_age": 1}


def report(name: str, settings: Mapping[str, float], seed: int = 1) -> RunReport:
    told = {key: f"{value:g}" for key, value in ({"for_s": 180.0, **settings}).items()}
    found, _ = run_scenario(find_scenario(name), replace(Options(seed=seed, peers=20), settings=told))
    return found


@pytest.mark.parametrize("attack", attackers.ATTACKS)
def test_no_attacker_of_the_short_sweep_gets_through(attack: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert attackers.main(["--only", attack]) == 0
    told = capsys.readouterr().out
    assert told.startswith(f"{attack} ")
    assert told.count("\n") == 1


def test_a_sweep_names_the_seeds_that_broke(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = attackers.Attack(scenario="old-records", settings={"forgetful": "1", "for_s": "240"})
    monkeypatch.setattr(attackers, "ATTACKS", {"old records": broken})
    assert attackers.main(["--seeds", "1..1", "--peers", "20", "--json"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "seed 1: a member took a record" in lines[1]
    assert json.loads(lines[-1])[0]["broken"] == [1]


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        ("many-keys", KEYS | {"keys": 12, "places": 0}, "holders of one key"),
        ("many-keys", KEYS | {"of_age": 0, "probation": 0}, "holders of one key"),
        ("phantoms", {"count": 300, "proofs": 0}, "members that do not exist"),
        ("phantoms", {"count": 300, "dials": 0}, "datagrams a minute"),
        ("old-records", {"forgetful": 1, "for_s": 240}, "that was older"),
        ("beside-a-key", {"of_age": 1, "in_places": 1, "places": 0}, "of the holders of the victim's key"),
        ("slow-drip", {"waits": 1, "for_s": 240}, "is not noticed"),
    ],
)
def test_without_the_rule_the_checker_says_what_broke(
    name: str, settings: dict[str, float], said: str
) -> None:
    found = report(name, settings)
    assert found.violation is not None
    assert said in str(found.violation["detail"])


def test_half_of_the_places_is_more_than_six_copies_stand_and_that_is_said() -> None:
    """Of twenty members one key in 180 has all its copies there, so not each ring has such a key."""
    settings = {"one_in": 2, "spares": 0, "for_s": 120}
    found = [report("colluding-places", settings, seed=seed).violation for seed in range(1, 31)]
    assert any("all copies" in str(one["detail"]) for one in found if one is not None)


def test_attackers_are_drawn_by_the_seed_and_a_run_can_be_repeated() -> None:
    one, again, other = (report("beside-a-key", {}, seed) for seed in (3, 3, 4))
    assert one.figures == again.figures
    assert one.figures != other.figures


def test_honest_members_come_and_go_during_an_attack_and_are_back_after_it() -> None:
    siege = Siege(2, honest=20, rules=RULES)
    before = {one.me.peer for one in siege.honest}
    siege.pass_time(FOR_S)
    assert siege.left or siege.world.crashed
    siege.calm()
    after = {one.me.peer for one in siege.honest}
    assert before - after == siege.left & before
    assert after - before, "some joined"


def test_what_the_codec_refuses_of_an_attacker_reaches_nobody() -> None:
    siege = Siege(1, honest=20, rules=RULES)
    foe = siege.join([(bought_hosts(1, 1, 1, siege.chance)[0], 0)], since_days=0)[0]
    heard = siege.some_honest(1)[0]
    siege.world.after_event = lambda _machine, message, _sender: None
    siege.churns = False
    before = siege.refused
    siege.say(foe, heard.me, Rumour(id=-1, news=()))
    assert siege.refused == before + 1


def test_a_ring_that_does_not_become_whole_is_an_answer_too() -> None:
    siege = Siege(1, honest=20, rules=RULES)
    siege.world.loss = 1.0
    siege.fail(siege.some_honest(1)[0].me.peer)
    with pytest.raises(SiegeBrokenError, match="not whole"):
        siege.calm()


def test_the_third_party_is_nobody_s_place() -> None:
    siege = Siege(1, honest=20, rules=RULES)
    assert not siege.watch(THIRD_PARTY)
    siege.pass_time(60)
    assert not siege.watch(THIRD_PARTY)


def test_pieces_of_a_sweep_are_all_seeds_once() -> None:
    seeds, pieces = range(1, 30), [attackers.share_of(f"{piece}/4") for piece in (1, 2, 3, 4)]
    assert sorted(seed for piece, of in pieces for seed in seeds[piece - 1 :: of]) == list(seeds)
    for wrong in ("0/4", "5/4", "1", "a/b", "1/0"):
        with pytest.raises(argparse.ArgumentTypeError):
            attackers.share_of(wrong)
