"""What becomes of a ring of 50 to 300 cores under attack, while honest peers come and go?

The attackers run the real machine and speak through the real codec (`simnet.adversaries`).
"""

from collections.abc import Callable

from dht.core.machine import RingMachine
from dht.core.places import BY_PEER, PlaceRules
from dht.core.rules import RingRules
from simnet.adversaries import ring_foes
from simnet.adversaries.siege import Siege, SiegeBrokenError
from simnet.rings import NETWORK
from simnet.runs import ScenarioRun
from simnet.scenarios import Figures, scenario, try_out

FOR_S = 600.0
HOLDS = "the attack gets no further than the rules allow"


def _attack(
    run: ScenarioRun,
    story: Callable[[Siege], Figures],
    *,
    rules: RingRules,
    machine_class: type[RingMachine] = RingMachine,
) -> None:
    def work() -> tuple[Figures, str | None]:
        siege = Siege(run.options.seed, honest=run.peers, rules=rules, loss=loss, machine_class=machine_class)
        try:
            figures = story(siege)
        except SiegeBrokenError as error:
            return {}, str(error)
        return figures | {
            "refused by the codec": float(siege.refused),
            "events": float(siege.world.events),
        }, None

    loss = run.setting("loss", 0.01, high=0.3)
    try_out(run, HOLDS, work)


def _rules(run: ScenarioRun) -> RingRules:
    """`places`, `probation` and `proofs` switch rules off."""
    probation = PlaceRules().probation_days if run.setting("probation", 1, high=1) else 0
    places = PlaceRules(probation_days=probation) if run.setting("places", 1, high=1) else BY_PEER
    return RingRules(network=NETWORK, places=places, proves_newcomers=bool(run.setting("proofs", 1, high=1)))


def _for_s(run: ScenarioRun) -> float:
    return (
        run.options.days * 86_400.0 if run.options.days else run.setting("for_s", FOR_S, low=60.0, high=1e6)
    )


@scenario("many-keys", summary="one person's keys join at one address, in one /24 or in ten, and vanish",
          peers=50, peers_min=20, peers_max=1_000, seconds=1.0)  # fmt: skip
def many_keys(run: ScenarioRun) -> None:
    chance, for_s = run.world.chance("attack"), _for_s(run)
    keys = int(run.setting("keys", chance.choice((8, 30, 100)), low=1, high=2_000))
    places = int(run.setting("in_places", chance.choice((0, 1, 10)), high=254))
    areas = int(run.setting("in_areas", chance.choice((1, max(places, 1))), low=1, high=254))
    is_of_age = bool(run.setting("of_age", chance.choice((0, 1)), high=1))

    def story(siege: Siege) -> Figures:
        return ring_foes.many_keys(siege, keys, places, areas, is_of_age=is_of_age, for_s=for_s)

    _attack(run, story, rules=_rules(run))


@scenario("phantoms", summary="members of age tell of invented ones at a third party's addresses, and vouch for them",
          peers=50, peers_min=20, peers_max=1_000, seconds=1.0)  # fmt: skip
def phantoms(run: ScenarioRun) -> None:
    count, liars = (
        int(run.setting("count", 2_000, low=7, high=2_000)),
        int(run.setting("liars", 1, low=1, high=50)),
    )
    for_s = _for_s(run)
    dials_rarely = bool(run.setting("dials", 1, high=1))

    def story(siege: Siege) -> Figures:
        siege.dials_rarely = dials_rarely
        return ring_foes.phantoms(siege, count, liars, for_s=for_s)

    _attack(run, story, rules=_rules(run))


@scenario("old-records", summary="a member tells all records that it ever saw again, of members that restarted or left",
          peers=50, peers_min=20, peers_max=1_000, seconds=1.0)  # fmt: skip
def old_records(run: ScenarioRun) -> None:
    believes = bool(run.setting("forgetful", 0, high=1))
    for_s = _for_s(run)
    _attack(
        run,
        lambda siege: ring_foes.old_records(siege, for_s=for_s),
        rules=_rules(run),
        machine_class=ring_foes.ForgetfulMachine if believes else RingMachine,
    )


@scenario("beside-a-key", summary="keys join behind a victim's key in the minute in which its owner fails",
          peers=50, peers_min=20, peers_max=1_000, seconds=1.0)  # fmt: skip
def beside_a_key(run: ScenarioRun) -> None:
    chance, for_s = run.world.chance("attack"), _for_s(run)
    keys = int(run.setting("keys", 12, low=1, high=200))
    places = int(run.setting("in_places", chance.choice((1, 1, 3)), low=1, high=50))
    is_of_age = bool(run.setting("of_age", chance.choice((0, 1)), high=1))

    def story(siege: Siege) -> Figures:
        return ring_foes.beside_a_key(siege, keys, places, is_of_age=is_of_age, for_s=for_s)

    _attack(run, story, rules=_rules(run))


@scenario("slow-drip", summary="one member in six says everything at the last moment, while another one fails",
          peers=50, peers_min=20, peers_max=1_000, seconds=1.0)  # fmt: skip
def slow_drip(run: ScenarioRun) -> None:
    share, for_s = int(run.setting("one_in", 6, low=2, high=100)), _for_s(run)
    waits = bool(run.setting("waits", 0, high=1))
    _attack(
        run,
        lambda siege: ring_foes.slow_drip(siege, share, for_s=for_s),
        rules=_rules(run),
        machine_class=ring_foes.PatientMachine if waits else RingMachine,
    )


@scenario("colluding-places", summary="one place in six lies about neighbours, owners and deaths, and then is gone",
          peers=50, peers_min=20, peers_max=1_000, seconds=1.0)  # fmt: skip
def colluding_places(run: ScenarioRun) -> None:
    share, for_s = int(run.setting("one_in", 6, low=2, high=100)), _for_s(run)
    spares = int(run.setting("spares", PlaceRules().spare_copies, high=16))
    _attack(
        run, lambda siege: ring_foes.colluding_sixth(siege, share, spares, for_s=for_s), rules=_rules(run)
    )
