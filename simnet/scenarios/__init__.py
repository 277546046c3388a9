"""Which scenarios are there? Each module here registers its own by `@scenario(...)`."""

import difflib
import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path

from simnet.runs import Play, Scenario, ScenarioRun, SimnetError
from simnet.world.world import Silent, World

MODULES = (
    "copies",
    "fallen_places",
    "home_lines",
    "links",
    "measures",
    "peers",
    "ring",
    "ring_attacks",
    "rumour",
    "seats",
    "steward",
    "store_attacks",
    "swarm",
    "toylog",
)
_KNOWN: dict[str, Scenario] = {}


class UnknownScenarioError(SimnetError):
    def __init__(self, name: str) -> None:
        near = difflib.get_close_matches(name, sorted(_KNOWN), n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(near)}?" if near else "`simnet list` shows them"
        super().__init__(f"no scenario is called {name!r}: {hint}")


def scenario(
    name: str,
    *,
    summary: str,
    peers: int,
    seconds: float,
    peers_min: int = 1,
    peers_max: int = 100_000,
) -> Callable[[Play], Play]:
    def register(play: Play) -> Play:
        _KNOWN[name] = Scenario(
            name=name,
            summary=summary,
            play=play,
            peers=peers,
            peers_min=peers_min,
            peers_max=peers_max,
            seconds=seconds,
        )
        return play

    return register


def load(own: Path | None = None) -> None:
    """Registers ours, and those in a tester's own file. Registering twice changes nothing."""
    for name in MODULES:
        importlib.import_module(f"simnet.scenarios.{name}")
    if own is None:
        return
    if not own.is_file():
        raise SimnetError(f"no file of scenarios at {own}")
    name = f"simnet_own_{own.stem}"  # a tester's random.py must not take the place of Python's
    spec = importlib.util.spec_from_file_location(name, own)
    if spec is None or spec.loader is None:
        raise SimnetError(f"{own} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise SimnetError(f"{own} does not load: {error!r}") from error


def find_scenario(name: str) -> Scenario:
    load()
    found = _KNOWN.get(name)
    if found is None:
        raise UnknownScenarioError(name)
    return found


def scenarios() -> list[Scenario]:
    load()
    return [_KNOWN[name] for name in sorted(_KNOWN)]


Figures = dict[str, float]


class Trial(Silent):
    """A measurement that needs no world of hosts, as a checker: it is made when the (empty) world ends.

    `simnet.rings.RingWorld` carries bare machines without codec and hosts, which is what makes rings of tens of
    thousands and thousands of storms affordable. The figures go into the trace.
    """

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
