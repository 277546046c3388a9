"""Does the unchanged core pass the storms that catch the mutants? One seed is a storm of each kind."""

from simnet.mutants import sound
from simnet.runs import ScenarioRun
from simnet.scenarios import scenario
from simnet.trials import Figures, try_out


@scenario("storms", summary="small rings through every blow, long splits and forgeries; the toy log: by seeds",
          peers=12, peers_min=12, peers_max=12, seconds=1.0)  # fmt: skip
def storms(run: ScenarioRun) -> None:
    def work() -> tuple[Figures, str | None]:
        return {}, sound(run.options.seed)

    try_out(run, "storms leave the core sound", work)
