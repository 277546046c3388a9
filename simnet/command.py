"""How do `simnet run`, `list` and `replay` print, write and answer to the shell?"""

import subprocess
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click
import msgspec

from simnet.mutants import MUTANTS, hunt
from simnet.pictures import draw
from simnet.runs import (
    Options,
    RunReport,
    Scenario,
    ScenarioRun,
    SimnetError,
    check_options,
    explain,
    header_of,
    run_scenario,
)
from simnet.scenarios import UnknownScenarioError, find_scenario, load, scenarios
from simnet.sweep import SweepBrokenError, sweep
from simnet.world.faults import Fault, FaultError
from simnet.world.trace import TraceError, TraceHeader, read_trace, write_trace

FAILED, USAGE, NOT_FOUND = 1, 2, 3
FAILURES_SHOWN_MAX = 30


def list_scenarios(as_json: bool) -> None:
    load()
    if as_json:
        told = [
            {"name": s.name, "summary": s.summary, "peers": s.peers, "seconds": s.seconds}
            for s in scenarios()
        ]
        _say_json(told)
        return
    for each in scenarios():
        click.echo(f"{each.name:<16} {each.peers:>6} peers {each.seconds:>9,.0f} s   {each.summary}")


def guarded(work: Callable[[], int]) -> int:
    """Errors of the asking become a sentence and an exit code."""
    try:
        return work()
    except UnknownScenarioError as error:
        click.echo(f"simnet: {error}", err=True)
        return NOT_FOUND
    except (SimnetError, FaultError, TraceError, ValueError) as error:
        click.echo(f"simnet: {error}", err=True)
        return USAGE


def run_one(
    name: str, options: Options, *, as_json: bool, own: Path | None, out: Path, picture: Path | None
) -> int:
    load(own)
    scenario = find_scenario(name)
    check_options(scenario, options)
    if picture is not None:
        _write_picture(
            picture, ""
        )  # before the run: an hour's work must not end at a folder that is not there
    report, run = run_scenario(scenario, options, progress=_progress(as_json))
    if picture is not None:
        title = f"{report.scenario}, {report.peers:,} peers, seed {report.seed}"
        _write_picture(picture, draw(title, report.series, report.histograms))
        click.echo(f"picture: {picture}", err=True)
    trace_file = None
    if report.violation is not None:
        click.echo("a checker objects; looking for the faults that matter …", err=True)
        report, run = _explained(scenario, options, report, run)
        trace_file = _write_trace(
            out / f"{name}-{report.seed}.trace", header_of(report, options, commit()), run
        )
    if as_json:
        _say_json(report.to_json() | {"trace_file": None if trace_file is None else str(trace_file)})
    else:
        _summarise(report)
    if report.violation is not None:
        _tell_failure(report, trace_file)
    return 0 if report.ok else FAILED


def _explained(
    scenario: Scenario, options: Options, report: RunReport, run: ScenarioRun
) -> tuple[RunReport, ScenarioRun]:
    """Run again with only the faults that matter. Returns the original failure if shortening is interrupted or the
    failure does not come again: it is never lost."""
    try:
        found = explain(scenario, options, report)
    except KeyboardInterrupt:
        click.echo("interrupted: the faults are all of those that were planned", err=True)
        return report, run
    if found is None:
        click.echo(
            "the same seed ended otherwise when it was run again: something draws from outside the world "
            "(a clock, random, the order of a set)",
            err=True,
        )
        return report, run
    return found


def _write_trace(path: Path, header: TraceHeader, run: ScenarioRun) -> Path | None:
    """None where that cannot be, said so: the summary of the failure is worth more than its trace."""
    try:
        write_trace(path, header, run.world.trace)
    except OSError as error:
        click.echo(f"simnet: no trace written to {path}: {error.strerror}", err=True)
        return None
    return path


def _write_picture(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError as error:
        raise SimnetError(f"--picture {path}: {error.strerror}") from error


def run_many(
    name: str, options: Options, seeds: range, *, as_json: bool, own: Path | None, jobs: int | None
) -> int:
    load(own)
    check_options(find_scenario(name), options)
    reports: list[RunReport] = []
    is_interrupted = False
    broken = ""
    try:
        for report in sweep(name, options, seeds, own=own, jobs=jobs):
            reports.append(report)
            if not report.ok:
                click.echo(f"seed {report.seed}: {_reason(report)}", err=True)
    except KeyboardInterrupt:
        is_interrupted = True
    except SweepBrokenError as error:
        broken = str(error)
    reports.sort(key=lambda report: report.seed)
    failed = [report for report in reports if not report.ok]
    if as_json:
        _say_json([report.to_json() for report in reports])
    else:
        _say_table(name, reports, failed, len(seeds))
    if broken:
        click.echo(f"simnet: {broken}", err=True)
    return FAILED if failed or is_interrupted or broken else 0


def replay(path: Path, *, own: Path | None, as_json: bool) -> int:
    header, _ = read_trace(path)
    load(own)
    try:
        options = msgspec.convert(header.options | {"seed": header.seed}, Options)
    except msgspec.ValidationError as error:
        raise TraceError(f"{path} has options that cannot be: {error}") from error
    faults = [Fault.from_json(fault) for fault in header.faults]
    report, run = run_scenario(find_scenario(header.scenario), options, faults=faults)
    is_same = report.violation == header.violation
    if as_json:
        _say_json(report.to_json() | {"reproduced": is_same})
    else:
        _summarise(report)
        click.echo("\nthe last events:")
        click.echo("".join(f"  {line}" for line in report.last_events[-20:]), nl=False)
        _say_states(run, report)
    if not is_same:
        here = commit() or "unknown"
        click.echo(
            f"not the violation of the trace (made at {header.commit or 'unknown'}, this is {here})", err=True
        )
    return 0 if report.ok and is_same else FAILED


def hunt_mutants(seeds: int, only: tuple[str, ...], *, as_json: bool) -> int:
    known = [mutant.name for mutant in MUTANTS]
    for name in only:
        if name not in known:
            raise SimnetError(f"no planted bug is called {name!r}; there are {', '.join(known)}")
    catches = []
    for catch in hunt(seeds, only):
        catches.append(catch)
        if not as_json:
            found = "stays hidden" if catch.seed is None else f"seed {catch.seed}: {catch.said}"
            click.echo(f"{catch.mutant:<14} {catch.bug}\n{'':<14} {found}")
    if as_json:
        _say_json([asdict(catch) for catch in catches])
    return FAILED if any(catch.seed is None for catch in catches) else 0


def commit() -> str:
    """The commit this runs from, or nothing where that is not known."""
    here = Path(__file__).parent
    told = subprocess.run(
        ["git", "-C", str(here), "rev-parse", "--short=12", "HEAD"],  # noqa: S607 (git from the path)
        capture_output=True,
        text=True,
        check=False,
    )
    return told.stdout.strip()


def _progress(is_quiet: bool) -> Callable[[float, float], None]:
    shown = -1

    def show(now: float, end: float) -> None:
        nonlocal shown
        tenth = int(10 * now / end)
        if tenth != shown and not is_quiet:
            shown = tenth
            click.echo(f"{now:>12,.1f} of {end:,.0f} virtual seconds", err=True)

    return show


def _summarise(report: RunReport) -> None:
    click.echo(f"{report.scenario}: {report.peers:,} peers, seed {report.seed}, trace {report.trace}")
    pace = f"{report.cpu_s:.2f} CPU-s"
    if report.virtual_s is not None:
        ratio = report.virtual_s / report.cpu_s if report.cpu_s else 0.0
        pace = f"{report.virtual_s:,.1f} virtual s in {pace} ({ratio:,.0f} to one)"
    click.echo(f"  {pace}" + ("" if report.events is None else f", {report.events:,} events"))
    for name, value in report.figures.items():
        click.echo(f"  {name:<24} {value:>16,.6g}")
    for outcome in report.checkers:
        word = "FAILS" if not outcome.ok else "holds" if outcome.asked else "?"
        click.echo(f"  {word:<6} {outcome.name}  {outcome.detail}".rstrip())
    if report.interrupted:
        click.echo("  interrupted: the figures are those so far, and the checks at the end did not run")


def _tell_failure(report: RunReport, trace_file: Path | None) -> None:
    click.echo(f"seed {report.seed} at commit {commit() or 'unknown'}: {_reason(report)}", err=True)
    for fault in report.faults[:FAILURES_SHOWN_MAX]:
        click.echo(
            f"  {fault['at_s']:10.3f} s  {fault['kind']} {fault['hosts']} {fault['settings']}", err=True
        )
    if trace_file is not None:
        click.echo(f"simnet replay {trace_file}", err=True)


def _reason(report: RunReport) -> str:
    if report.violation is None:
        return "interrupted"
    told = report.violation
    return f"{told['checker']}: {told['detail']} (at {told['time_s']:.3f} s)"


def _say_table(name: str, reports: list[RunReport], failed: list[RunReport], wanted: int) -> None:
    cpu_s = sum(report.cpu_s for report in reports)
    click.echo(
        f"{name}: {len(reports):,} of {wanted:,} seeds run, {len(failed):,} failed, {cpu_s:,.1f} CPU-s"
    )
    if failed:
        click.echo(f"  {'seed':>10}  violation")
    for report in failed[:FAILURES_SHOWN_MAX]:
        click.echo(f"  {report.seed:>10}  {_reason(report)}")
    if len(failed) > FAILURES_SHOWN_MAX:
        click.echo(f"  and {len(failed) - FAILURES_SHOWN_MAX:,} more")


def _say_states(run: ScenarioRun, report: RunReport) -> None:
    """The peers that the last events name; a program may have `describe()`."""
    click.echo("the hosts:")
    text = " ".join(report.last_events[-20:])
    for host in run.world.hosts:
        if f"'arrive', {host.number}," in text or f"'crash', {host.number}," in text:
            describe: Any = getattr(host.program, "describe", None)
            state = describe() if callable(describe) else repr(host.program)
            up = "up" if host.is_up else "down"
            click.echo(f"  host {host.number} {host.address[0]} {up}, booted {host.boots} times: {state}")


def _say_json(told: object) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(told), indent=2).decode())


def parse_settings(pairs: tuple[str, ...]) -> dict[str, str]:
    split = [pair.partition("=") for pair in pairs]
    wrong = [pair for pair, (_, sign, _) in zip(pairs, split, strict=True) if not sign]
    if wrong:
        raise SimnetError(f"--set {wrong[0]}: write it as NAME=VALUE")
    return {name: value for name, _, value in split}


def options_of(seed: int, peers: int | None, days: float | None, pairs: tuple[str, ...]) -> Options:
    return replace(Options(seed=seed, peers=peers, days=days), settings=parse_settings(pairs))
