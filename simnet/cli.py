"""How does a tester start a world? The command `simnet`.

Data go to stdout, talk to stderr; exit 0 when all held, 1 when a checker failed, 2 for wrong usage, 3 when the
requested thing does not exist.
"""

import logging
from pathlib import Path

import click


@click.group(name="simnet", context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="herodotus", prog_name="simnet")
def main() -> None:
    """Worlds in virtual time for testers of Herodotus."""
    logging.basicConfig(level=logging.CRITICAL)  # whole peers log the effects of faults; checkers judge them


@main.command()
@click.option("--port", type=click.IntRange(1, 65_535), default=8_080, show_default=True, help="on loopback")
@click.option("--hosts", type=click.IntRange(1), default=100, show_default=True, help="how many sites")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--day", type=click.IntRange(0), default=0, show_default=True, help="the web's first day")
@click.option("--day-length", type=click.FloatRange(0.01), help="seconds until the next day dawns by itself")
@click.option(
    "--names",
    type=click.Choice(["loopback", "test"]),
    default="loopback",
    show_default=True,
    help="literal addresses 127.16.1.1…, or h0.SUFFIX… all on 127.0.0.1",
)
@click.option("--suffix", default="demo.test", show_default=True, help="of the names")
@click.option(
    "--pages-min", type=click.IntRange(1), default=20, show_default=True, help="of the smallest host"
)
@click.option(
    "--pages-max", type=click.IntRange(1), default=20_000, show_default=True, help="of the largest host"
)
@click.option("--tidy", is_flag=True, help="no errors, traps, slow hosts or lies")
@click.option(
    "--slowness",
    type=click.FloatRange(0),
    default=1.0,
    show_default=True,
    help="factor on the delays of slow hosts; 0 makes all quick",
)
@click.option("--log", type=click.Path(path_type=Path, dir_okay=False), help="JSON line per request")
@click.option(
    "--listen",
    multiple=True,
    metavar="ADDRESS",
    help="instead of loopback, for laboratories with names of their own",
)
def web(
    *, port: int, hosts: int, seed: int, day: int, day_length: float | None, names: str, suffix: str,
    pages_min: int, pages_max: int, tidy: bool, slowness: float, log: Path | None, listen: tuple[str, ...],
) -> None:  # fmt: skip
    """Serve the synthetic web on loopback until Ctrl-C; prints one JSON line when it listens.

    \b
    simnet web --port 8080 --hosts 50
    curl http://127.16.1.1:8080/                      the first host
    curl http://127.0.0.1:8080/                       the state
    curl -X POST http://127.0.0.1:8080/day/next       tomorrow (or send SIGUSR1)
    """
    from simnet.web.hosts import WebSettings
    from simnet.web.serve import ServeError, run_web

    try:
        settings = WebSettings(
            seed=seed, hosts=hosts, port=port, names="test" if names == "test" else "loopback", suffix=suffix,
            pages_min=pages_min, pages_max=pages_max, troubles=not tidy,
        )  # fmt: skip
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    try:
        run_web(settings, day=day, day_length_s=day_length, log=log, delay_factor=slowness, listen=listen)
    except ServeError as error:
        raise click.ClickException(str(error)) from error


@main.command(name="list")
@click.option("--json", "as_json", is_flag=True)
def list_command(*, as_json: bool) -> None:
    """What can be run."""
    from simnet.command import list_scenarios

    list_scenarios(as_json)


_own = click.option(
    "--load", "own", type=click.Path(path_type=Path), help="a Python file with scenarios of your own"
)


@main.command()
@click.argument("scenario")
@click.option("--peers", type=int, help="how many; each scenario has its own default and limits")
@click.option("--days", type=float, help="virtual days to run")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--seeds", help="FIRST..LAST: all of these, in parallel")
@click.option("--jobs", type=click.IntRange(1, 256), help="processes for --seeds; else one per core")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="a setting of the scenario")
@click.option("--json", "as_json", is_flag=True, help="the report as JSON on stdout")
@click.option("--picture", type=click.Path(path_type=Path, dir_okay=False), help="SVG of the run over time")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    default=Path(),
    help="where the trace of a failure is written",
)
@_own
@click.pass_context
def run(
    context: click.Context, *, scenario: str, peers: int | None, days: float | None, seed: int,
    seeds: str | None, jobs: int | None, settings: tuple[str, ...], as_json: bool, picture: Path | None,
    out: Path, own: Path | None,
) -> None:  # fmt: skip
    """Run a scenario and say whether its checkers agree: exit 0, or 1 where one does not.

    \b
    simnet run toy-log --seed 7
    simnet run toy-log --set sync=0                   a planted bug: the checker finds it
    simnet run rumour --peers 200 --picture run.svg
    simnet run toy-log --seeds 1..1000                in parallel, with a table of failures
    """
    from simnet.command import guarded, options_of, run_many, run_one
    from simnet.runs import SimnetError
    from simnet.sweep import parse_seeds

    def work() -> int:
        options = options_of(seed, peers, days, settings)
        if seeds is not None:
            if picture is not None:
                raise SimnetError("--picture is of one run: give --seed instead of --seeds")
            return run_many(scenario, options, parse_seeds(seeds), as_json=as_json, own=own, jobs=jobs)
        return run_one(scenario, options, as_json=as_json, own=own, out=out, picture=picture)

    context.exit(guarded(work))


@main.command()
@click.argument("trace", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--json", "as_json", is_flag=True)
@_own
@click.pass_context
def replay(context: click.Context, *, trace: Path, as_json: bool, own: Path | None) -> None:
    """Run a failure again up to its violation, and show the last events and the hosts involved."""
    from simnet.command import guarded
    from simnet.command import replay as replay_trace

    context.exit(guarded(lambda: replay_trace(trace, own=own, as_json=as_json)))


@main.command()
@click.option(
    "--seeds", type=click.IntRange(1, 100_000), default=200, show_default=True, help="tried at most"
)
@click.option("--only", multiple=True, metavar="NAME", help="these bugs alone; may be repeated")
@click.option("--json", "as_json", is_flag=True)
@click.pass_context
def mutants(context: click.Context, *, seeds: int, only: tuple[str, ...], as_json: bool) -> None:
    """Plant bugs in the ring's core, and see that a checker finds each: exit 1 where one stays hidden.

    \b
    simnet mutants
    simnet mutants --only no-rectify
    simnet run storms --seeds 1..5000                 the core as it is, through the same storms
    """
    from simnet.command import guarded, hunt_mutants

    context.exit(guarded(lambda: hunt_mutants(seeds, only, as_json=as_json)))
