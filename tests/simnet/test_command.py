"""The command, through its exit codes, its JSON and the example of the manual."""

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner, Result

from simnet.cli import main
from simnet.runs import Options, Scenario, ScenarioRun, SimnetError, run_scenario
from simnet.scenarios import find_scenario
from simnet.scenarios.toylog import AcknowledgedStays, Server
from simnet.sweep import parse_seeds, sweep
from simnet.world.trace import VERSION, Trace, TraceHeader, write_trace
from simnet.world.world import Silent, World

MANUAL = Path(__file__).parents[2] / "docs" / "do" / "simulate.md"


def simnet(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def told(result: Result) -> Any:
    return json.loads(result.stdout)


def test_list_names_every_scenario_with_its_question() -> None:
    listed = told(simnet("list", "--json"))
    assert {"toy-log", "rumour"} <= {each["name"] for each in listed}
    assert all(each["summary"] for each in listed)
    assert "toy-log" in simnet("list").stdout


def test_a_good_run_exits_with_0_and_tells_machines_what_the_contract_says() -> None:
    result = simnet("run", "toy-log", "--seed", "7", "--peers", "3", "--json")
    report = told(result)
    assert result.exit_code == 0
    assert {"scenario", "seed", "peers", "trace", "ok", "checkers", "figures"} <= set(report)
    assert (report["scenario"], report["seed"], report["peers"], report["ok"]) == ("toy-log", 7, 3, True)
    assert {c["name"]: c["ok"] for c in report["checkers"]} == {
        "acknowledged stays": True,
        "clients go on": True,
    }
    assert report["figures"]["acknowledged"] > 100


def test_a_failure_names_seed_and_faults_and_its_trace_replays_to_the_same_violation(tmp_path: Path) -> None:
    result = simnet("run", "toy-log", "--set", "sync=0", "--seed", "3", "--out", tmp_path, "--json")
    report = told(result)
    assert result.exit_code == 1
    assert not report["ok"]
    assert [fault["kind"] for fault in report["faults"]] == ["restart", "settle"]
    assert "seed 3 at commit" in result.stderr
    again = simnet("replay", report["trace_file"], "--json")
    assert again.exit_code == 1
    assert told(again)["reproduced"]
    assert told(again)["violation"] == report["violation"]
    assert told(again)["trace"] == report["trace"]
    assert "host 0" in simnet("replay", report["trace_file"]).stdout


def test_the_planted_bug_is_found_and_the_right_log_passes() -> None:
    scenario = find_scenario("toy-log")
    caught = [
        not run_scenario(scenario, Options(seed=seed, settings={"sync": "0"}))[0].ok for seed in range(6)
    ]
    assert all(caught)
    assert all(run_scenario(scenario, Options(seed=seed))[0].ok for seed in range(6))


def test_the_same_seed_gives_the_same_trace_and_another_another() -> None:
    scenario = find_scenario("rumour")
    first, second, other = (
        run_scenario(scenario, Options(seed=seed, peers=8, days=0.001))[0].trace for seed in (1, 1, 2)
    )
    assert first == second != other


def test_seeds_run_in_processes_and_agree_with_a_run_here() -> None:
    options = Options(peers=2, days=0.0005)
    apart = {report.seed: report.trace for report in sweep("toy-log", options, [4, 5, 6], jobs=2)}
    here = run_scenario(find_scenario("toy-log"), Options(peers=2, days=0.0005, seed=5))[0]
    assert sorted(apart) == [4, 5, 6]
    assert apart[5] == here.trace


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["toylog"], 3, "did you mean toy-log?"),
        (["zzzzzz"], 3, "`simnet list` shows them"),
        (["toy-log", "--peers", "1"], 2, "runs with 2 to 1,000 peers, not 1"),
        (["toy-log", "--days", "-1"], 2, "--days must be more than 0"),
        (["toy-log", "--set", "sync"], 2, "write it as NAME=VALUE"),
        (["toy-log", "--set", "sink=1"], 2, "has no setting 'sink'; it has cuts, sync"),
        (["toy-log", "--set", "sync=maybe"], 2, "not a number"),
        (["toy-log", "--set", "sync=7"], 2, "must be 0 to 1"),
        (["toy-log", "--seeds", "9..1"], 2, "the last comes before the first"),
        (["toy-log", "--seeds", "many"], 2, "such as 1..100"),
        (["toy-log", "--seed", "-1"], 2, "-1"),
        (["toy-log", "--load", "none.py"], 2, "no file of scenarios"),
        (["toy-log", "--seeds", "1..2", "--picture", "run.svg"], 2, "--picture is of one run"),
        (["quiet", "--set", "for_s=inf"], 2, "must be a finite number"),
        (["half-dies", "--days", "0.0001"], 2, "before the last fault at 30 s"),
        (["peers", "--days", "1.5"], 2, "whole days, not 1.5"),
    ],
)
def test_what_cannot_be_is_refused_with_the_way_out(arguments: list[str], code: int, message: str) -> None:
    result = simnet("run", *arguments)
    assert result.exit_code == code
    assert message in result.stderr
    assert result.stdout == ""


RAISING = """
from simnet.runs import SimnetError
from simnet.scenarios import scenario
from simnet.scenarios.rumour import AllKnowAll, RumourScenario
from simnet.world.faults import Fault

class Raising(RumourScenario):
    def advance(self, now):
        super().advance(now)
        if now > 5 and self._world.seed % 2:
            raise ValueError("a bug")

@scenario("raising", summary="odd seeds raise", peers=2, seconds=20)
def raising(run):
    for _ in range(run.peers):
        run.world.add_host(lambda host: Raising(host, run.world, run.peers))
    run.plan([Fault(kind="stall", at_s=1.0, hosts=(0,), settings={"for_s": 0.1})])
    run.check(AllKnowAll())

@scenario("dying", summary="seed 2 ends its process", peers=1, seconds=1)
def dying(run):
    import os
    if run.options.seed == 2:
        os._exit(1)

@scenario("unnamed", summary="an error while it is set up", peers=1, seconds=1)
def unnamed(run):
    run.nothing
"""


@pytest.fixture
def raising(tmp_path: Path) -> Path:
    (tmp_path / "random.py").write_text(RAISING)  # a name that must not hide Python's own
    return tmp_path / "random.py"


def test_a_program_that_raises_is_a_failure_with_its_seed_and_a_trace_that_replays(raising: Path) -> None:
    failed = simnet("run", "raising", "--seed", "3", "--load", raising, "--out", raising.parent, "--json")
    report = told(failed)
    assert failed.exit_code == 1
    assert report["violation"]["checker"] == "programs raise nothing"
    assert re.fullmatch(r"ValueError: a bug in random\.py:\d+, advance", report["violation"]["detail"])
    assert report["faults"] == []
    assert [(each["name"], each["ok"], each["asked"]) for each in report["checkers"]] == [
        ("programs raise nothing", False, True),
        ("all know all", True, False),
    ]
    assert "?      all know all" in simnet("replay", report["trace_file"], "--load", raising).stdout
    assert told(simnet("replay", report["trace_file"], "--load", raising, "--json"))["reproduced"]


def test_a_figure_that_raises_is_a_failure_and_does_not_hide_one() -> None:
    def play(run: ScenarioRun) -> None:
        run.figure("hosts", lambda: float(len(run.world.hosts)))
        run.figure("nothing", lambda: 1 / 0)

    broken = Scenario(name="broken", summary="", play=play, peers=1, seconds=1.0)
    report, _ = run_scenario(broken, Options())
    assert report.violation is not None
    assert "ZeroDivisionError" in report.violation["detail"]
    assert report.figures == {"hosts": 0.0}


def test_seeds_that_raise_stand_in_the_table_beside_those_that_hold(raising: Path) -> None:
    done = simnet("run", "raising", "--seeds", "1..4", "--load", raising)
    assert done.exit_code == 1
    assert "4 of 4 seeds run, 2 failed" in done.stdout
    assert done.stdout.count("ValueError: a bug") == 2


def test_a_process_that_dies_ends_the_sweep_with_the_seeds_it_may_have_been(raising: Path) -> None:
    done = simnet("run", "dying", "--seeds", "1..2", "--jobs", "1", "--load", raising)
    assert done.exit_code == 1
    assert "a process died while it ran one of the seeds" in done.stderr
    assert "2" in done.stderr
    assert "of 2 seeds run" in done.stdout


def test_an_error_of_the_scenario_itself_is_told_with_its_line(raising: Path) -> None:
    done = simnet("run", "unnamed", "--load", raising)
    assert done.exit_code == 2
    assert "unnamed cannot begin with seed 0: AttributeError" in done.stderr
    assert "random.py:" in done.stderr


class OnlyOnce(Silent):
    """As a program that reads a clock: the second time it is another run."""

    name = "only once"
    times = 0

    def at_end(self, world: World) -> str | None:
        OnlyOnce.times += 1
        return "wrong" if OnlyOnce.times == 1 else None


def test_a_failure_that_does_not_come_again_is_still_a_failure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("simnet.scenarios.rumour.AllKnowAll", OnlyOnce)
    monkeypatch.setattr("simnet.runs.SHORTENING_RUNS_MAX", 3)  # each would be in vain
    OnlyOnce.times = 0
    done = simnet("run", "rumour", "--peers", "2", "--days", "0.0005", "--out", tmp_path, "--json")
    assert done.exit_code == 1
    assert told(done)["violation"]["checker"] == "only once"
    assert "ended otherwise when it was run again" in done.stderr


def test_ctrl_c_while_faults_are_sorted_out_keeps_the_failure_and_all_its_faults(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("simnet.command.explain", interrupted)
    done = simnet("run", "toy-log", "--set", "sync=0", "--seed", "3", "--out", tmp_path, "--json")
    assert done.exit_code == 1
    assert len(told(done)["faults"]) == 9
    assert told(simnet("replay", told(done)["trace_file"], "--json"))["reproduced"]


def test_ctrl_c_among_tasks_is_an_interruption_and_no_failure() -> None:
    class Interrupted(Silent):
        name = "interrupted"

        def at_end(self, world: World) -> str | None:
            raise BaseExceptionGroup("tasks", [KeyboardInterrupt()])

    alone = Scenario(
        name="alone", summary="", play=lambda run: run.check(Interrupted()), peers=1, seconds=1.0
    )
    report, _ = run_scenario(alone, Options())
    assert report.interrupted
    assert report.violation is None


def test_work_that_has_a_world_of_its_own_reports_no_figures_of_the_empty_one() -> None:
    options = Options(peers=50, settings={"lookups": "5"})
    report, _ = run_scenario(find_scenario("chord-table"), options)
    assert (report.virtual_s, report.events) == (None, None)
    assert "wrong answers" in report.figures
    assert not {"datagrams", "faults"} & set(report.figures)
    assert "virtual s" not in simnet("run", "chord-table", "--peers", "50", "--set", "lookups=5").stdout


def test_a_record_that_is_gone_is_missed_although_a_later_one_is_there() -> None:
    _, run = run_scenario(find_scenario("toy-log"), Options(seed=1, peers=2, days=0.0005))
    server = run.world.hosts[0].program
    assert isinstance(server, Server)
    assert AcknowledgedStays().after_event(run.world) is None
    server.kept.discard((1, 1))
    assert AcknowledgedStays().after_event(run.world) == "record 1 of client 1 is gone"


def test_a_picture_that_cannot_be_written_is_refused_before_the_run(tmp_path: Path) -> None:
    done = simnet("run", "quiet", "--peers", "3", "--picture", tmp_path / "none" / "run.svg")
    assert done.exit_code == 2
    assert done.stderr.startswith("simnet: --picture ")
    assert "No such file or directory" in done.stderr


def test_a_picture_shows_health_traffic_and_hops(tmp_path: Path) -> None:
    arguments = ("--peers", "10", "--set", "for_s=60", "--set", "session_h=0.05", "--json")
    done = simnet("run", "churn", *arguments, "--picture", tmp_path / "run.svg")
    drawn = (tmp_path / "run.svg").read_text()
    for chart in ("lists right", "bits per s and peer, lately", "hops of a lookup"):
        assert f">{chart}" in drawn
    hops = json.loads(done.stdout)["histograms"]["hops of a lookup"]
    assert sum(hops.values()) > 100
    assert max(hops, key=hops.get) == "1"


def test_a_trace_of_another_version_and_a_missing_one_are_refused(tmp_path: Path) -> None:
    old = tmp_path / "old.trace"
    old.write_text('{"format": "simnet-trace", "version": 0}\n{}\n')
    assert simnet("replay", old).exit_code == 2
    assert f"version 0, and this simnet reads {VERSION}" in simnet("replay", old).stderr
    assert "cannot read" in simnet("replay", tmp_path / "none").stderr
    header = TraceHeader(scenario="toy-log", seed=1, options={"peers": "many"})
    write_trace(old, header, Trace())
    assert simnet("replay", old).exit_code == 2
    assert "has options that cannot be" in simnet("replay", old).stderr


def test_a_picture_is_well_formed_svg_with_a_line_per_series(tmp_path: Path) -> None:
    picture = tmp_path / "run.svg"
    assert simnet("run", "rumour", "--peers", "5", "--days", "0.001", "--picture", picture).exit_code == 0
    lines = ET.parse(picture).getroot().findall("{http://www.w3.org/2000/svg}polyline")
    assert [len((line.get("points") or "").split()) for line in lines] == [201, 201]


def test_ctrl_c_ends_a_run_with_the_summary_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    run_until = World.run_until

    def interrupted(world: World, when: float, checkers: Any = ()) -> None:
        if when > 60:
            raise KeyboardInterrupt
        run_until(world, when, checkers)

    monkeypatch.setattr(World, "run_until", interrupted)
    result = simnet("run", "toy-log", "--json")
    report = told(result)
    assert result.exit_code == 1
    assert report["interrupted"]
    assert 55 < report["virtual_s"] <= 60
    assert report["figures"]["acknowledged"] > 0


@pytest.mark.parametrize(("text", "seeds"), [("1..3", [1, 2, 3]), ("5..5", [5])])
def test_seeds_are_ranges_with_both_ends(text: str, seeds: list[int]) -> None:
    assert list(parse_seeds(text)) == seeds


def test_a_million_seeds_are_the_most() -> None:
    with pytest.raises(SimnetError, match="more than 1,000,000 seeds"):
        parse_seeds("0..1000000")


def test_the_manuals_example_is_short_runs_holds_and_is_caught_when_jammed(tmp_path: Path) -> None:
    found = re.search(r"```python\n(.*?)```", MANUAL.read_text(), re.DOTALL)
    assert found is not None
    example = tmp_path / "mine.py"
    example.write_text(found[1])
    assert len([line for line in found[1].splitlines() if line.strip()]) < 40
    good = simnet("run", "beacon", "--load", example)
    assert good.exit_code == 0, good.stderr
    jammed = simnet("run", "beacon", "--load", example, "--set", "jam_s=1000", "--out", tmp_path, "--json")
    assert jammed.exit_code == 1
    assert [fault["kind"] for fault in told(jammed)["faults"]] == ["jam", "settle"]
    again = simnet("replay", told(jammed)["trace_file"], "--load", example, "--json")
    assert told(again)["reproduced"]
