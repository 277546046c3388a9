"""`scripts/mutants`: which planted bugs does no test notice? Exit 1 where one survives without a written reason."""

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from pathlib import Path
from queue import SimpleQueue
from random import Random

from scripts.planting.bugs import SourceMutant, read_mutants
from scripts.planting.trial import Answer, TreeCopy, Trial, Verdict, copies_of

ROOT = Path(__file__).parent.parent.parent
LIMIT_S = 90.0
"""Of one mutant. The nearest tests take seconds; a machine may be busy."""
BASELINE_LIMIT_S = 1_800.0


def share_of(mutants: Sequence[SourceMutant], share: str, seed: str) -> list[SourceMutant]:
    """`1/10` is the first of ten parts; the seed says which mutants are in which. All parts together are all."""
    part, _, parts = share.partition("/")
    number, count = int(part), int(parts or "1")
    if not 1 <= number <= count:
        raise ValueError(f"there is no part {share}")
    names = sorted(mutant.name for mutant in mutants)
    Random(seed).shuffle(names)
    wanted = set(names[number - 1 :: count])
    return [mutant for mutant in mutants if mutant.name in wanted]


def chosen(mutants: Sequence[SourceMutant], pattern: str) -> list[SourceMutant]:
    """Those whose name or file fits; a word without a star is looked for anywhere in them."""
    if not any(sign in pattern for sign in "*?["):
        pattern = f"*{pattern}*"
    return [one for one in mutants if fnmatchcase(one.name, pattern) or fnmatchcase(one.file, pattern)]


def attempt_all(
    copies: Sequence[TreeCopy], mutants: Sequence[SourceMutant], limit_s: float, tell: Callable[[Trial], None]
) -> list[Trial]:
    """Each in whichever copy is free, in the order of the list."""
    free: SimpleQueue[TreeCopy] = SimpleQueue()
    for copy in copies:
        free.put(copy)

    def attempt(mutant: SourceMutant) -> Trial:
        copy = free.get()
        try:
            trial = copy.attempt(mutant, limit_s)
        finally:
            free.put(copy)
        tell(trial)
        return trial

    with ThreadPoolExecutor(len(copies)) as pool:
        return list(pool.map(attempt, mutants))


def baseline(copy: TreeCopy, mutants: Sequence[SourceMutant]) -> Answer:
    """The tests without any bug: what fails there anyhow would find every mutant."""
    tests = list(dict.fromkeys(test for mutant in mutants for test in mutant.tests))
    return copy.run(tests, BASELINE_LIMIT_S)


def _say(trial: Trial) -> None:
    mutant = trial.mutant
    told = f"  {trial.told}" if trial.told else ""
    print(f"{trial.seconds:6.1f} s  {trial.verdict:<14}  {mutant.name}{told}", flush=True)
    if not trial.verdict.is_fine:
        print(f"            {mutant.file}: {mutant.text.strip()}  ->  {mutant.becomes.strip()}")
        print(f"            {mutant.breaks}", flush=True)


def _be_silent(_trial: Trial) -> None:
    """What a program reads is printed at the end."""


def _as_json(trials: Sequence[Trial]) -> str:
    rows = [
        {
            "name": trial.mutant.name,
            "file": trial.mutant.file,
            "breaks": trial.mutant.breaks,
            "verdict": trial.verdict.name.lower(),
            "told": trial.told,
            "reason": trial.mutant.survives,
            "seconds": round(trial.seconds, 1),
        }
        for trial in trials
    ]
    return json.dumps(rows, indent=2)


def _summary(trials: Sequence[Trial], took_s: float) -> Iterator[str]:
    counts = Counter(trial.verdict for trial in trials)
    yield f"{len(trials)} mutants in {took_s:.0f} s: " + ", ".join(
        f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict]
    )
    for trial in trials:
        if trial.verdict is Verdict.EXPLAINED:
            yield f"  {trial.mutant.name}: {trial.mutant.survives}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/mutants", description=__doc__)
    parser.add_argument("--only", metavar="PATTERN", default="*", help="names or files")
    parser.add_argument("--share", metavar="I/N", default="1/1", help="one part of N, drawn by the seed")
    parser.add_argument("--seed", metavar="DAY", default=time.strftime("%Y-%m-%d", time.gmtime()))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--limit", type=float, default=LIMIT_S, metavar="S", help="seconds for one mutant")
    parser.add_argument(
        "--no-baseline", action="store_true", help="the tests are known to pass without a bug"
    )
    parser.add_argument("--list", action="store_true", help="print the mutants and try none")
    parser.add_argument("--json", action="store_true")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    wishes = _parser().parse_args(arguments)
    mutants = chosen(share_of(read_mutants(), wishes.share, wishes.seed), wishes.only)
    if wishes.list:
        for mutant in mutants:
            print(f"{mutant.name}  {mutant.file}\n    {mutant.breaks}")
        return 0
    if not mutants:
        print("no mutant of the list fits", file=sys.stderr)
        return 2
    start = time.monotonic()
    if wishes.share != "1/1":
        print(f"part {wishes.share} of {wishes.seed}", file=sys.stderr)
    with copies_of(ROOT, max(1, min(wishes.jobs, len(mutants)))) as copies:
        if not wishes.no_baseline:
            answer = baseline(copies[0], mutants)
            if answer.code != 0:
                print(f"the tests fail without any mutant:\n{answer.output[-4_000:]}", file=sys.stderr)
                return 2
        trials = attempt_all(copies, mutants, wishes.limit, _be_silent if wishes.json else _say)
    if wishes.json:
        print(_as_json(trials))
    else:
        print("\n".join(_summary(trials, time.monotonic() - start)))
    return 0 if all(trial.verdict.is_fine for trial in trials) else 1


if __name__ == "__main__":
    sys.exit(main())
