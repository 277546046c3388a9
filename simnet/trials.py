"""How does a measurement that needs no world of hosts become a scenario? As a checker that works at the end.

`simnet.rings.RingWorld` carries bare machines without codec and hosts, which is what makes rings of tens of
thousands and thousands of storms affordable. A `Trial` runs such a thing when its (empty) world ends, puts
the figures into the trace and says what is wrong with them.
"""

from collections.abc import Callable

from simnet.runs import ScenarioRun
from simnet.world.world import Silent, World

Figures = dict[str, float]


class Trial(Silent):
    def __init__(self, name: str, work: Callable[[], tuple[Figures, str | None]]) -> None:
        self.name = name
        self.figures: Figures = {}
        self._work = work

    def at_end(self, world: World) -> str | None:
        self.figures, wrong = self._work()
        for name, value in self.figures.items():
            world.trace.note(world.now, "figure", name, value)
        return wrong


def try_out(run: ScenarioRun, name: str, work: Callable[[], tuple[Figures, str | None]]) -> None:
    trial = Trial(name, work)
    run.check(trial)
    run.more_figures(lambda: trial.figures)
    run.seconds = 1.0
