"""How is a scenario run, judged and reported?

A scenario is a function that gets a `ScenarioRun`, puts hosts and faults into its world, and names the checkers
that must agree; `docs/do/simulate.md` shows one whole. Checkers that watch look after every event, all
conclude at the end. When one objects, the faults are shortened to those that matter and a trace is written
that `simnet replay` can follow.
"""

import gc
import logging
import math
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from simnet.world.faults import Fault, FaultError, shorten
from simnet.world.hosts import LivelockError
from simnet.world.network import Latency, LineQuality
from simnet.world.trace import TraceHeader
from simnet.world.world import Checker, ViolationError, World, is_watching

log = logging.getLogger(__name__)

DAY_S = 86_400.0
STEPS = 200  # pieces of a run: for samples, progress and Ctrl-C
SHORTENING_RUNS_MAX = 60
RAISED = "programs raise nothing"
COLLECT_AFTER = 20_000  # objects more than were freed; Python's own 700 is for small heaps

Play = Callable[["ScenarioRun"], None]
Progress = Callable[[float, float], None]


class SimnetError(Exception):
    """The requested run is impossible; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    name: str
    summary: str
    play: Play
    peers: int
    peers_min: int = 1
    peers_max: int = 100_000
    seconds: float = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    seed: int = 0
    peers: int | None = None
    days: float | None = None
    settings: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """`asked` is False for a checker that looks at the end only, of a run that did not come so far."""

    name: str
    ok: bool
    detail: str = ""
    asked: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """`figures` are the same for the same seed; only `cpu_s` depends on the machine. `virtual_s` and
    `events` are None where the work has worlds of its own and does not say."""

    scenario: str
    seed: int
    peers: int
    trace: str
    ok: bool
    checkers: list[RunOutcome]
    figures: dict[str, float]
    virtual_s: float | None
    cpu_s: float
    events: int | None
    interrupted: bool = False
    violation: dict[str, Any] | None = None
    faults: list[dict[str, Any]] = field(default_factory=list)
    last_events: list[str] = field(default_factory=list)
    series: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    histograms: dict[str, dict[int, int]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        told = asdict(self)
        for name in ("series", "last_events"):
            del told[name]
        return told


class ScenarioRun:
    """The tools of a scenario."""

    def __init__(self, scenario: Scenario, options: Options, faults: list[Fault] | None = None) -> None:
        self.scenario, self.options = scenario, options
        self.peers = scenario.peers if options.peers is None else options.peers
        self.seconds = scenario.seconds if options.days is None else options.days * DAY_S
        self.world = World(seed=options.seed)
        self.checkers: list[Checker] = []
        self.faults: list[Fault] = []
        self.series: dict[str, list[tuple[float, float]]] = {}
        self.concluded: list[Checker] = []  # those that were asked at the end and did not object
        self.virtual_s: float | None = None  # for work that has a world of its own
        self.is_over: Callable[[], bool] = lambda: False
        self._given_faults = faults
        self._figures: dict[str, Callable[[], float]] = {}
        self._more_figures: Callable[[], dict[str, float]] = dict
        self._histograms: dict[str, Callable[[], Mapping[int, int]]] = {}
        self._samples: dict[str, Callable[[], float]] = {}
        self._asked: set[str] = set()

    def use_network(self, *, latency: Latency | None = None, link: LineQuality | None = None) -> None:
        """Before any host is added."""
        self.world = World(seed=self.options.seed, latency=latency, link=link)

    def setting(self, name: str, default: float, *, low: float = 0.0, high: float = float("inf")) -> float:
        """A number that `--set NAME=VALUE` may change."""
        self._asked.add(name)
        text = self.options.settings.get(name)
        if text is None:
            return default
        try:
            value = float(text)
        except ValueError as error:
            raise SimnetError(f"--set {name}={text}: not a number") from error
        if not math.isfinite(value):
            raise SimnetError(f"--set {name}={text}: must be a finite number")
        if not low <= value <= high:
            raise SimnetError(f"--set {name}={text}: must be {low:g} to {high:g}")
        return value

    def plan(self, faults: Iterable[Fault]) -> None:
        """Once, after the hosts. A replay puts its shortened faults in their place."""
        self.faults = list(faults) if self._given_faults is None else self._given_faults
        self.world.plan(self.faults)

    def check(self, *checkers: Checker) -> None:
        self.checkers.extend(checkers)

    def stop_when(self, is_over: Callable[[], bool]) -> None:
        """The run may end before its time: nothing more is to be seen."""
        self.is_over = is_over

    def figure(self, name: str, value: Callable[[], float]) -> None:
        """A number for the summary, asked for at the end."""
        self._figures[name] = value

    def more_figures(self, values: Callable[[], dict[str, float]]) -> None:
        """Several at once, by names that are known at the end only."""
        self._more_figures = values

    def histogram(self, name: str, counts: Callable[[], Mapping[int, int]]) -> None:
        """How often each number was seen, asked for at the end, for the picture and the JSON report."""
        self._histograms[name] = counts

    def histograms(self) -> dict[str, dict[int, int]]:
        return {name: dict(sorted(counts().items())) for name, counts in self._histograms.items()}

    def sample(self, name: str, value: Callable[[], float]) -> None:
        """A number asked for throughout the run, for the picture."""
        self._samples[name] = value

    def refuse_unknown_settings(self) -> None:
        unknown = sorted(set(self.options.settings) - self._asked)
        if unknown:
            known = ", ".join(sorted(self._asked)) or "none"
            raise SimnetError(f"{self.scenario.name} has no setting {unknown[0]!r}; it has {known}")

    def take_samples(self) -> None:
        for name, value in self._samples.items():
            self.series.setdefault(name, []).append((self.world.now, value()))

    def figures(self, *, is_whole: bool) -> dict[str, float]:
        """Of a run that broke off all that can be had."""
        counters = self.world.network.counters
        # Work with a world of its own sent nothing through this one: a 0 would be a figure that nobody measured.
        standard = (
            {}
            if not self.world.hosts
            else {
                "datagrams": float(counters.sent),
                "datagram_bytes": float(counters.sent_bytes),
                "datagrams_lost": float(counters.lost + counters.cut),
                "faults": float(self.world.faults_applied),
            }
        )
        own = {}
        for name, value in self._figures.items():
            try:
                own[name] = value()
            except Exception:
                log.exception("no figure")
                if is_whole:
                    raise
        return standard | own | self._more_figures()


def check_options(scenario: Scenario, options: Options) -> None:
    peers = options.peers
    if peers is not None and not scenario.peers_min <= peers <= scenario.peers_max:
        raise SimnetError(
            f"{scenario.name} runs with {scenario.peers_min:,} to {scenario.peers_max:,} peers, not {peers:,}"
        )
    if options.days is not None and not 0 < options.days <= 36_525:
        raise SimnetError(f"--days must be more than 0 and at most 36,525, not {options.days:g}")


def run_scenario(
    scenario: Scenario,
    options: Options,
    *,
    faults: list[Fault] | None = None,
    progress: Progress = lambda now, end: None,
) -> tuple[RunReport, ScenarioRun]:
    """One seed, from the beginning to the end, a violation, or Ctrl-C."""
    check_options(scenario, options)
    run = ScenarioRun(scenario, options, faults)
    _play(run)
    run.refuse_unknown_settings()
    began = time.process_time()
    violation: ViolationError | None = None
    is_interrupted = False
    try:
        with patient_collector():
            _go(run, progress)
            for checker in run.checkers:
                run.world.conclude([checker])
                run.concluded.append(checker)
            run.figures(is_whole=True)  # one that raises is found here
    except ViolationError as error:
        violation = error
    except LivelockError as error:
        world = run.world
        violation = ViolationError(
            checker="livelock", detail=str(error), time_s=world.now, event=world.trace.lines
        )
    except KeyboardInterrupt:
        is_interrupted = True
    except BaseExceptionGroup as error:  # from tasks: an interruption may be among their errors
        is_interrupted = error.subgroup(KeyboardInterrupt) is not None
        if not is_interrupted:
            log.exception("a program raised")
            violation = _raised(run, error)
    except Exception as error:
        log.exception("a program raised")
        violation = _raised(run, error)
    report = _report(run, violation, is_interrupted, time.process_time() - began)
    return report, run


def _play(run: ScenarioRun) -> None:
    """Errors in the request pass unchanged; any other is one of the scenario, and says where."""
    try:
        run.scenario.play(run)
    except (SimnetError, FaultError, ValueError):
        raise
    except Exception as error:
        raise SimnetError(
            f"{run.scenario.name} cannot begin with seed {run.options.seed}: {_told(error)}"
        ) from error


def _raised(run: ScenarioRun, error: BaseException) -> ViolationError:
    """A program (or a checker) that raises is a finding like any other: with its seed, its faults and a trace."""
    world = run.world
    event = world.trace.lines
    world.trace.note(world.now, "raised", type(error).__name__)
    return ViolationError(checker=RAISED, detail=_told(error), time_s=world.now, event=event)


def _told(error: BaseException) -> str:
    """An error's text and place; for a group, those of its first error."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    frames = traceback.extract_tb(error.__traceback__)
    where = f" in {Path(frames[-1].filename).name}:{frames[-1].lineno}, {frames[-1].name}" if frames else ""
    return f"{type(error).__name__}: {error}{where}"


@contextmanager
def patient_collector() -> Iterator[None]:
    """Look for cycles among the new objects alone, and less often: a world of thousands of peers is a large heap in
    which hardly any arise, and looking through it again and again took a tenth of the time. Objects that the tests
    have set aside before stay so."""
    before = gc.get_threshold()
    is_ours = gc.get_freeze_count() == 0
    if is_ours:
        gc.collect()
        gc.freeze()
    gc.set_threshold(COLLECT_AFTER, 20, 50)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        if is_ours:
            gc.unfreeze()


def explain(scenario: Scenario, options: Options, report: RunReport) -> tuple[RunReport, ScenarioRun] | None:
    """The same violation with as few faults as bring it about, run once more; None where it does not come again,
    as of a program that draws from outside its world."""
    assert report.violation is not None
    checker = report.violation["checker"]
    faults = [Fault.from_json(fault) for fault in report.faults]
    # Without the peace at the end, any lasting fault would fail any liveness check.
    peace = [fault for fault in faults if fault.kind == "settle"]

    def still_fails(tried_faults: list[Fault]) -> bool:
        tried, _ = run_scenario(scenario, options, faults=tried_faults + peace)
        if tried.interrupted:
            raise KeyboardInterrupt
        return tried.violation is not None and tried.violation["checker"] == checker

    others = [fault for fault in faults if fault.kind != "settle"]
    short = shorten(others, still_fails, SHORTENING_RUNS_MAX)
    again, run = run_scenario(scenario, options, faults=short + peace)
    if again.interrupted:
        raise KeyboardInterrupt
    is_same = again.violation is not None and again.violation["checker"] == checker
    return (again, run) if is_same else None


def header_of(report: RunReport, options: Options, commit: str) -> TraceHeader:
    kept = replace(options, seed=report.seed)
    return TraceHeader(
        scenario=report.scenario,
        seed=report.seed,
        options={"peers": kept.peers, "days": kept.days, "settings": kept.settings},
        commit=commit,
        violation=report.violation,
        faults=report.faults,
    )


def _go(run: ScenarioRun, progress: Progress) -> None:
    for step in range(1, STEPS + 1):
        run.take_samples()
        run.world.run_until(run.seconds * step / STEPS, run.checkers)
        progress(run.world.now, run.seconds)
        if run.is_over():
            break
    run.take_samples()


def _report(
    run: ScenarioRun, violation: ViolationError | None, is_interrupted: bool, cpu_s: float
) -> RunReport:
    world = run.world
    is_whole = violation is None and not is_interrupted
    outcomes = [_outcome(checker, is_concluded=checker in run.concluded) for checker in run.checkers]
    told = None
    if violation is not None:
        outcomes = [outcome for outcome in outcomes if outcome.name != violation.checker]
        outcomes.insert(0, RunOutcome(name=violation.checker, ok=False, detail=violation.detail))
        told = {
            "checker": violation.checker,
            "detail": violation.detail,
            "time_s": violation.time_s,
            "event": violation.event,
        }
    return RunReport(
        scenario=run.scenario.name,
        seed=run.options.seed,
        peers=run.peers,
        trace=world.trace.digest(),
        ok=violation is None and not is_interrupted,
        checkers=outcomes,
        figures=run.figures(is_whole=is_whole),
        virtual_s=world.now if world.hosts else run.virtual_s,
        cpu_s=cpu_s,
        events=world.schedule.events if world.hosts else None,
        interrupted=is_interrupted,
        violation=told,
        faults=[fault.to_json() for fault in run.faults],
        last_events=world.trace.last,
        series=run.series,
        histograms=run.histograms(),
    )


def _outcome(checker: Checker, *, is_concluded: bool) -> RunOutcome:
    if is_concluded:
        return RunOutcome(name=checker.name, ok=True)
    if is_watching(checker):
        return RunOutcome(name=checker.name, ok=True, detail="so far: the run did not come to its end")
    return RunOutcome(name=checker.name, ok=True, asked=False, detail="not asked: it looks at the end")
