"""How are many seeds run at once? One process per core, each seed apart, reports as they come.

A worker ignores Ctrl-C: the parent hears it, stops handing out seeds, and sums up what has come back.
"""

import os
import re
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

from simnet.runs import Options, Report, SimnetError, run_scenario
from simnet.scenarios import find_scenario, load

SEEDS_MAX = 1_000_000
_RANGE = re.compile(r"(\d{1,18})\.\.(\d{1,18})")


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


def _run_one(name: str, options: Options, own: Path | None) -> Report:
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
    told: Callable[[Report], None] = lambda report: None,
) -> Iterator[Report]:
    """Reports in the order in which they are done. Only a few seeds wait in the pool, so stopping is
    quick."""
    workers = min(jobs or os.cpu_count() or 1, len(seeds))
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_begin) as pool:
        rest = iter(seeds)
        running: set[Future[Report]] = set()
        try:
            while True:
                for seed in rest:
                    running.add(pool.submit(_run_one, name, replace(options, seed=seed), own))
                    if len(running) >= 2 * workers:
                        break
                if not running:
                    return
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    told(future.result())
                    yield future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
