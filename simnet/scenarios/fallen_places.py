"""What is lost when bought places, or a share of all places, are gone at once? Big figures, by the peers' own rules."""

from random import Random

from dht.core.places import PlaceRules
from simnet.adversaries.fallen import Fallen, gone_at_once
from simnet.adversaries.fullstores import CELLS, HOUR_S, FullRules, FullStores, Keeping
from simnet.adversaries.members import AREAS_MAX, bought_hosts
from simnet.runs import ScenarioRun
from simnet.scenarios import Figures, scenario, try_out

AFTER_DAYS = 3.0
"""Until what went is repaired."""
SAFE_SHARE = 6
"""One place in so many may fall, and spare copies outlast it. What a larger share takes is told, and not judged."""
ENOUGH = 100
"""Draws with a loss, from which on their mean says something."""


@scenario("bought-keys", summary="keys in few places hold and prove, all disks being full, and are gone at once",
          peers=50, peers_min=12, peers_max=2_000, seconds=1.0)  # fmt: skip
def bought_keys(run: ScenarioRun) -> None:
    """The rules can be switched off: `places`, `probation`, `veterans`, each 0 or 1."""

    def work() -> tuple[Figures, str | None]:
        hosts = bought_hosts(keys, places, areas, Random(f"{run.options.seed}/bought"))
        world = FullStores(
            rules,
            run.options.seed,
            peers=run.peers,
            units=units,
            foes=hosts,
            days=days + AFTER_DAYS,
            cells=int(cells),
        )
        taken_in = world.attack()
        world.run(days)
        held = sum(
            world.units[cell] for one in world.keepers.values() if not one.is_honest for cell in one.cells
        )
        lost = world.vanish()
        fewest = world.fewest
        world.run(AFTER_DAYS)
        figures = {
            "units": float(sum(world.units)),
            "their keys in the table": float(taken_in),
            "copies that they held": float(held),
            "copies that honest peers let go": float(world.copies_gone),
            "proofs that were wrong": float(world.refuted),
            "units lost": float(max(lost, world.lost)),
            "fewest honest copies, by place": float(fewest),
            "fewest, also while repaired": float(world.fewest_at_all),
        }
        wrong = None
        if figures["units lost"]:
            wrong = f"{figures['units lost']:,.0f} of {units:,} units lost"
        elif fewest < wanted:
            wrong = f"{fewest} honest copies in places, where nobody honest had just left"
        return figures, wrong

    keys = int(run.setting("keys", 30, low=1, high=4_000))
    places = int(run.setting("in_places", 1, low=1, high=4_000))
    areas = int(run.setting("in_areas", min(places, AREAS_MAX), low=1, high=AREAS_MAX))
    days = run.options.days or run.setting("for_days", 14, low=0.1, high=400)
    units = int(run.setting("units", 100_000, low=1, high=10_000_000))
    cells = run.setting("cells", CELLS, low=1, high=100_000)
    by_place = run.setting("places", 1, high=1)
    probation = PlaceRules().probation_days if run.setting("probation", 1, high=1) else 0
    rules = FullRules(
        places=PlaceRules(by="prefix" if by_place else "peer", probation_days=probation),
        asks_veterans=bool(run.setting("veterans", 1, high=1)),
        asks_proofs=bool(run.setting("proofs", 1, high=1)),
        keeping=tuple(Keeping)[int(run.setting("keeping", 0, high=2))],
        step_s=run.setting("step_h", 2, low=0.25, high=6) * HOUR_S,
    )
    # Keys of few places come of age, and honest peers let one copy go for each place; for empty promises none.
    given = 0 if rules.keeping is Keeping.NOTHING else places if places <= rules.copies // 2 else 1
    wanted = int(run.setting("fewest", rules.copies - given, high=16))
    try_out(run, "nothing is lost, and honest peers keep their copies", work)


@scenario("places-that-fall", summary="a share of all places of age is gone at once, drawn a thousand times",
          peers=300, peers_min=20, peers_max=5_000, seconds=1.0)  # fmt: skip
def places_that_fall(run: ScenarioRun) -> None:
    """What no rule can prevent: all holders of some key are among those. Only more copies make it rarer."""

    def work() -> tuple[Figures, str | None]:
        found = gone_at_once(
            run.options.seed,
            peers=run.peers,
            units=units,
            share=share,
            draws=draws,
            rings=rings,
            spares=spares,
        )
        for one, name in (
            (found.six, "six copies"),
            (found.spared, f"{6 + spares} copies"),
        ):
            figures[f"{name}: units lost, mean of draws"] = one.mean
            figures[f"{name}: the formula"] = one.expected
            figures[f"{name}: draws with a loss"] = float(one.hit)
        figures["places of age, mean"] = found.places
        return figures, _judged(found)

    def _judged(found: Fallen) -> str | None:
        if found.spared.hit > most:
            return f"with spare copies {found.spared.hit} of {draws} draws lose something"
        six = found.six
        if six.hit >= ENOUGH and not 0.5 <= six.mean / six.expected <= 2.0:
            return f"six copies lose {six.mean:.3g} units in the mean, and by the formula {six.expected:.3g}"
        return None

    figures: Figures = {}
    share = int(run.setting("one_in", 6, low=2, high=100))
    draws = int(run.setting("draws", 1_000, low=1, high=100_000))
    rings = int(run.setting("rings", 10, low=1, high=1_000))
    spares = int(run.setting("spares", PlaceRules().spare_copies, low=0, high=16))
    units = int(run.setting("units", 1_000_000, low=1, high=10_000_000))
    most = int(run.setting("hit_max", 0 if share >= SAFE_SHARE else draws, high=100_000))
    try_out(
        run,
        "with spare copies nothing is lost, and with six what the formula says",
        work,
    )
