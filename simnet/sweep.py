"""How are many seeds run at once? One process per core, each seed apart, reports as they come.

A worker ignores Ctrl-C: the parent hears it, stops handing out seeds, and sums up the finished reports.
"""

import os
import re
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

from simnet.runs import Options, RunReport, SimnetError, run_scenario
from simnet.scenarios import find_scenario, load

SEEDS_MAX = 1_000_000
_RANGE = re.compile(r"(\d{1,18})\.\.(\d{1,18})")


class SweepBrokenError(Exception):
    """A process died under a seed (no memory, a crash in C): these were being run, and one of them did it."""

    def __init__(self, seeds: list[int]) -> None:
        super().__init__(f"a process died while it ran one of the seeds {', '.join(map(str, seeds))}")
        self.seeds = seeds


def parse_seeds(text: str) -> range:
    """`A..B`, both included."""
    match = _RANGE.fullmatch(text)
    if match is None:
        raise SimnetError(f"--seeds {text}: write it as FIRST..LAST, such as 1..100")
    first, last = int(match[1]), int(match[2])
    if last < first:
        raise SimnetError(f"--seeds {text}: the last comes before the first")
    if last - first >= SEEDS_MAX:
        raise SimnetError(f"--seeds {text}: more than {SEEDS_MAX:,} seeds at once")
    return range(first, last + 1)


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _run_one(name: str, options: Options, own: Path | None) -> RunReport:
    load(own)
    report, _ = run_scenario(find_scenario(name), options)
    return replace(report, series={}, last_events=[])


def sweep(
    name: str,
    options: Options,
    seeds: Sequence[int],
    *,
    own: Path | None = None,
    jobs: int | None = None,
) -> Iterator[RunReport]:
    """Reports in the order in which they are done. Only a few seeds wait in the pool, so stopping is
    quick."""
    workers = min(jobs or os.cpu_count() or 1, len(seeds))
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_begin) as pool:
        rest = iter(seeds)
        running: set[Future[RunReport]] = set()
        seeds_of: dict[Future[RunReport], int] = {}
        try:
            while True:
                for seed in rest:
                    future = pool.submit(_run_one, name, replace(options, seed=seed), own)
                    running.add(future)
                    seeds_of[future] = seed
                    if len(running) >= 2 * workers:
                        break
                if not running:
                    return
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in sorted(done, key=lambda each: each.exception() is not None):
                    report = future.result()
                    del seeds_of[future]
                    yield report
        except BrokenProcessPool as error:
            raise SweepBrokenError(sorted(seeds_of.values())) from error
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
