"""Which scenarios are there, and what came of them? `scripts/lab lines`."""

import argparse
import dataclasses
import json
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from scripts.labs.addresses import WAYS, addresses
from scripts.labs.closed import closed
from scripts.labs.families import families
from scripts.labs.faults import faults
from scripts.labs.helpers import ONCE, helpers
from scripts.labs.homes import homes
from scripts.labs.idle import idle
from scripts.labs.internet import CannotMake
from scripts.labs.kinds import KINDS, kinds
from scripts.labs.laboratory import Asked, LabFailed, Laboratory, Rows, Scenario
from scripts.labs.mix import SETTINGS, half, mix
from scripts.labs.slow import slow
from scripts.labs.volunteers import CommandFailed
from scripts.sweeps import namespaces

LONGER_S = 2_400
PROGRAMS = ("nft", "miniupnpd", "conntrack")
SCENARIOS: Mapping[str, Scenario] = MappingProxyType(
    {
        "kinds": Scenario(play=kinds, limit_s=900),
        "homes": Scenario(play=homes, limit_s=600),
        "helpers": Scenario(play=helpers, limit_s=1_500, settings=ONCE),
        "mix": Scenario(play=mix, limit_s=2_400, settings=SETTINGS),
        "half": Scenario(play=half, limit_s=2_400, settings=SETTINGS),
        "slow": Scenario(play=slow, limit_s=2_400, settings=SETTINGS),
        "faults": Scenario(play=faults, limit_s=2_000),
        "families": Scenario(play=families, limit_s=1_500, settings=SETTINGS),
        "addresses": Scenario(play=addresses, limit_s=1_500, settings=SETTINGS),
        "idle": Scenario(play=idle, limit_s=1_200, settings=MappingProxyType({})),
        "closed": Scenario(play=closed, limit_s=1_200, settings=SETTINGS),
    }
)


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    if asked.names == ["list"]:
        for name, scenario in SCENARIOS.items():
            print(f"{name:10} {scenario.summary}")
        return 0
    names = list(SCENARIOS) if asked.names == ["all"] else asked.names
    if namespaces.is_inside():
        return 0 if _play(names[0], asked) else 1
    reason = why_not()
    if reason is not None:
        print(f"lab: each line needs a network of its own: {reason}", file=sys.stderr)
        return 2
    options = [f"--{word}" for word in ("json", "keep", "short", "long") if getattr(asked, word)]
    options += [word for kind in asked.kind for word in ("--kind", kind)]
    return max(namespaces.run_inside("scripts.labs.run", [name, *options]) for name in names)


def why_not() -> str | None:
    """Why this machine cannot have routers; None where it can."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        return f"there is no program {missing[0]} (requirements/debian.txt)"
    return namespaces.why_not()


def _play(name: str, asked: argparse.Namespace) -> bool:
    scenario = SCENARIOS[name]
    lab = Laboratory(name, scenario.settings)
    rows: Rows = ()
    failure = ""
    try:
        told = Asked(is_short=asked.short, is_long=asked.long, kinds=tuple(asked.kind))
        with lab.opened(scenario.limit_s + (LONGER_S if asked.long else 0)):
            rows = scenario.play(lab, told)
            lab.judge_logs()
    except (LabFailed, CannotMake, CommandFailed) as error:
        failure = str(error)
        lab.say(failure)
    is_ok = not failure and bool(lab.verdicts) and all(one.is_ok for one in lab.verdicts)
    for one in lab.verdicts:
        print(f"{name}: {'holds' if one.is_ok else 'BROKEN'}: {one.name}: {one.detail}", file=sys.stderr)
    if is_ok and not asked.keep:
        shutil.rmtree(lab.folder, ignore_errors=True)
    else:
        lab.say(f"homes and logs are kept in {lab.folder}")
    if asked.json:
        report = {
            "scenario": name,
            "ok": is_ok,
            "failure": failure,
            "took_s": round(time.monotonic() - lab.began),
            "verdicts": [dataclasses.asdict(one) for one in lab.verdicts],
            "rows": rows,
        }
        print(json.dumps(report, ensure_ascii=False, indent=1))
    else:
        _print_table(rows)
    return is_ok


def _print_table(rows: Sequence[Mapping[str, object]]) -> None:
    if not rows:
        return
    names = [name for name in rows[0] if name != "sentence"]
    widths = {name: max(len(name), *(len(_word(row[name])) for row in rows)) for name in names}
    print("  ".join(name.ljust(widths[name]) for name in names))
    for row in rows:
        print("  ".join(_word(row[name]).ljust(widths[name]) for name in names))


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/lab lines", description=__doc__)
    parser.add_argument("names", nargs="+", choices=["list", "all", *SCENARIOS], metavar="SCENARIO")
    parser.add_argument("--json", action="store_true", help="what came of it, for machines")
    parser.add_argument("--keep", action="store_true", help="keep homes and logs, also when all holds")
    parser.add_argument("--short", action="store_true", help="fewer kinds of lines, no crawl; a minute")
    parser.add_argument(
        "--long",
        action="store_true",
        help="closed peers wait for everybody's half an hour (closed, idle, mix)",
    )
    parser.add_argument(
        "--kind",
        action="append",
        default=[],
        choices=[*KINDS, *WAYS],
        help="only these kinds of lines (for kinds), or ways to another address (for addresses), in this order",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
