"""How many of a ring of home lines are full members, and what do relays carry? See `simnet.homelines`."""

from simnet.homelines import HomeLines, Mix
from simnet.runs import DAY_S, ScenarioRun
from simnet.scenarios import Figures, scenario, try_out


@scenario("home-lines", summary="a ring of home lines behind routers of all kinds, for a day",
          peers=1_000, peers_min=50, peers_max=20_000, seconds=1.0)  # fmt: skip
def home_lines(run: ScenarioRun) -> None:
    """The mix is set by `open_v4`, `with_v6`, `only_v6`, `steady` and `punchable`, as shares."""

    def work() -> tuple[Figures, str | None]:
        world = HomeLines(run.options.seed, peers=run.peers, mix=mix)
        world.run((run.options.days or 1.0) * DAY_S)
        figures = world.figures(pairs=int(pairs))
        wrong = None
        if figures["full members, %"] < members:
            wrong = f"{figures['full members, %']:.1f} % are full members, {members:g} % were wanted"
        elif figures["relayed bytes, bulk handed on, %"] > relayed:
            wrong = f"relays carry {figures['relayed bytes, bulk handed on, %']:.1f} % of all bytes"
        return figures, wrong

    plain = Mix()
    mix = Mix(
        open_v4=run.setting("open_v4", plain.open_v4, high=1),
        with_v6=run.setting("with_v6", plain.with_v6, low=0.01, high=1),
        only_v6=run.setting("only_v6", plain.only_v6, high=1),
        steady=run.setting("steady", plain.steady, high=1),
        punchable=run.setting("punchable", plain.punchable, high=1),
    )
    pairs = run.setting("pairs", 20_000, low=100, high=10_000_000)
    members = run.setting("members", 90, high=100)
    relayed = run.setting("relayed", 3, high=100)
    try_out(run, "most home lines are full members, and relays carry little", work)
