"""Do rings and stores stand all attackers of the simulator, seed by seed? Exit code 1 where one gets through.

scripts/sweep attackers                        two seeds of each on small rings: under half a minute
scripts/sweep attackers --seeds 1..1000 --peers 50 --jobs 2
scripts/sweep attackers --only phantoms --seeds 7..7
scripts/sweep attackers --seeds 1..1000 --share 3/8   the third of eight pieces, each for another machine
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing import get_context

from simnet.runs import Options, RunReport, run_scenario
from simnet.scenarios import find_scenario
from simnet.sweep import parse_seeds


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    scenario: str
    settings: Mapping[str, str] = field(default_factory=dict)
    peers_max: int = 1_000
    """Whole peers are dear: a ring of so many is attacked at most."""
    days: float | None = None
    short: Mapping[str, str] = field(default_factory=dict)
    """Instead, where two seeds must do."""


PEERS, SHORT_PEERS = 50, 20
_QUICK = {"for_s": "120"}
_COARSE = {"cells": "400", "units": "20000", "step_h": "6"}
ATTACKS: Mapping[str, Attack] = {
    "many keys": Attack(scenario="many-keys", short={**_QUICK, "keys": "8"}),
    "phantoms": Attack(scenario="phantoms", short={**_QUICK, "count": "200"}),
    "old records": Attack(scenario="old-records", short=_QUICK),
    "beside a key": Attack(scenario="beside-a-key", short=_QUICK),
    "slow drip": Attack(scenario="slow-drip", short={"for_s": "240"}),
    "colluding sixth": Attack(scenario="colluding-places", short=_QUICK),
    "bought keys": Attack(scenario="bought-keys", settings={**_COARSE, "keys": "30"}, days=12),
    "bought places": Attack(
        scenario="bought-keys", settings={**_COARSE, "keys": "100", "in_places": "100"}, days=5
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    is_short = asked.seeds is None
    seeds = parse_seeds(asked.seeds or "1..2")
    peers = asked.peers or (SHORT_PEERS if is_short else PEERS)
    names = asked.only or list(ATTACKS)
    failed = 0
    rows = []
    for name in names:
        mine = seeds[asked.share[0] - 1 :: asked.share[1]]
        reports = _run(ATTACKS[name], mine, peers, is_short=is_short, jobs=asked.jobs)
        broken = [one for one in reports if not one.ok]
        failed += len(broken)
        cpu_s = sum(one.cpu_s for one in reports)
        each = sorted(one.cpu_s for one in reports) or [0.0]
        print(
            f"{name:18}{len(reports):7,} seeds {len(broken):5,} broken {cpu_s:9.1f} CPU-s,"
            f" a seed {cpu_s / len(each):.1f}, at most {each[-1]:.1f}",
            flush=True,
        )
        for one in broken:
            print(f"    seed {one.seed}: {(one.violation or {}).get('detail')}", flush=True)
        seeds_broken = [one.seed for one in broken]
        rows.append({"attack": name, "seeds": len(reports), "broken": seeds_broken, "cpu_s": cpu_s})
    if asked.json:
        print(json.dumps(rows))
    return 1 if failed else 0


def options_of(attack: Attack, peers: int, *, is_short: bool) -> Options:
    settings = {**attack.settings, **(attack.short if is_short else {})}
    return Options(seed=0, peers=min(peers, attack.peers_max), days=attack.days, settings=settings)


def _run(attack: Attack, seeds: range, peers: int, *, is_short: bool, jobs: int) -> list[RunReport]:
    play = partial(_play, attack.scenario, options_of(attack, peers, is_short=is_short))
    if jobs == 1:
        return list(map(play, seeds))
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        return list(pool.map(play, seeds, chunksize=4))


def _play(scenario: str, options: Options, seed: int) -> RunReport:
    report, _ = run_scenario(find_scenario(scenario), replace(options, seed=seed))
    return replace(report, series={}, last_events=[])


def share_of(text: str) -> tuple[int, int]:
    piece, _, pieces = text.partition("/")
    if not (piece.isdecimal() and pieces.isdecimal() and 1 <= int(piece) <= int(pieces)):
        raise argparse.ArgumentTypeError(f"{text}: write it as PIECE/PIECES, such as 3/8")
    return int(piece), int(pieces)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/sweep attackers", description=__doc__)
    parser.add_argument("--seeds", default=None, help="A..B; without it a short form of 1..2")
    parser.add_argument("--peers", type=int, default=None, help="honest ones: 50, or 20 in the short form")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument(
        "--share", type=share_of, default=(1, 1), metavar="I/N", help="one piece of N of the seeds"
    )
    parser.add_argument("--only", action="append", choices=list(ATTACKS), metavar="ATTACK")
    parser.add_argument("--json", action="store_true")
    return parser


if __name__ == "__main__":
    sys.exit(main())
