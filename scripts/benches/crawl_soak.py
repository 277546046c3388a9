"""Does a crawler that never rests keep its memory and its descriptors? A crawl at full speed, for as long as asked.

    scripts/bench crawl_soak [--minutes N] [--hosts N] [--pages-max N] [--days N]

One process crawls a small web into an archive, day after day: everything is new on the first day, unchanged on the next
ones; then the archive is thrown away and a new one begun, which bounds the disk. Another process samples it every
second. The first fifth is warming up (caches fill, bounded). Of the rest, memory is flat when the median of the last
third is at most 5 % and 4 MiB above that of the first third; descriptors when they are at most 8 above. Exit 1 if not.
The slope of the memory over all that was not warming up is told beside it.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from scripts.benches.crawling.starting import CLIENT_CORE, free_port, pinned, started_origin

SAMPLE_S = 1.0
TOLD_EVERY = 30
"""Samples between two lines of what there is, for who watches the log."""
WARMING_SHARE = 0.2
GROWTH_SHARE_MAX, GROWTH_MIB_MAX, DESCRIPTORS_MORE_MAX = 0.05, 4.0, 8


def crawl_for(folder: Path, minutes: float, days: int, connections: int) -> None:
    """In the process that is watched: says after each archive what it did."""
    import anyio

    from crawler.core.scope import ScopeKind
    from herodotus.crawl.gear import CrawlOrder
    from herodotus.crawl.single_run import crawl_into
    from herodotus.machine import Machine
    from herodotus.operate.heap import keep_heap_small
    from scripts.benches.crawling.clients import DAY_S, RUDE, START_S

    keep_heap_small()  # as the commands do
    urls = [url for url in (folder / "urls").read_text().split() if url.count("/") == 3 and url[-1] == "/"]
    order = CrawlOrder(
        urls=tuple(urls),
        scope=ScopeKind.ANY,
        connections=connections,
        allow_private_addresses=True,
        politeness=RUDE,
    )

    async def crawl() -> None:
        ends = time.perf_counter() + 60 * minutes
        fetched = archives = failed = 0
        while time.perf_counter() < ends:
            home = folder / "home"
            (home / "state").mkdir(parents=True)
            for day in range(days):
                clock = partial(float, START_S + day * DAY_S)
                found = await crawl_into(home, order, Machine(), wall_clock=clock, console=None)
                fetched += int(str(found["fetched"]))
                failed += int(str(found["failed"]))
            await anyio.to_thread.run_sync(shutil.rmtree, home)
            archives += 1
            told = {"fetched": fetched, "archives": archives, "failed": failed}
            print(json.dumps({**told, "cpu_s": round(time.process_time(), 1)}), flush=True)

    anyio.run(crawl, backend="asyncio", backend_options={"use_uvloop": True})


def sample(pid: int) -> tuple[float, int] | None:
    """Resident MiB and open descriptors; None when the process is gone."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20, len(list(Path(f"/proc/{pid}/fd").iterdir()))
    except (OSError, IndexError):
        return None


def judged(samples: list[tuple[float, int]]) -> dict[str, object]:
    """By the rule above."""
    steady = samples[int(len(samples) * WARMING_SHARE) :]
    third = len(steady) // 3
    first, last = steady[:third], steady[-third:]
    memory = [statistics.median(mib for mib, _ in part) for part in (first, last)]
    descriptors = [statistics.median(count for _, count in part) for part in (first, last)]
    return {
        "memory_mib": [round(each, 1) for each in memory],
        "memory_mib_max": round(max(mib for mib, _ in samples), 1),
        "descriptors": descriptors,
        "descriptors_max": max(count for _, count in samples),
        "memory_mib_per_hour": round(_slope(steady) * 3600, 2),
        "memory_is_flat": memory[1] <= memory[0] * (1 + GROWTH_SHARE_MAX) + GROWTH_MIB_MAX,
        "descriptors_are_flat": descriptors[1] <= descriptors[0] + DESCRIPTORS_MORE_MAX,
        "samples": len(samples),
    }


def _slope(samples: list[tuple[float, int]]) -> float:
    """MiB a second, by least squares."""
    seconds = [number * SAMPLE_S for number in range(len(samples))]
    return statistics.linear_regression(seconds, [mib for mib, _ in samples]).slope


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--hosts", type=int, default=60)
    parser.add_argument("--pages-max", type=int, default=200)
    parser.add_argument("--days", type=int, default=5, help="days before the archive is thrown away")
    parser.add_argument("--connections", type=int, default=56)
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        crawl_for(options.inside, options.minutes, options.days, options.connections)
        return
    folder = Path(tempfile.mkdtemp(prefix="bench-soak-"))
    origin = started_origin(free_port(), options.hosts, options.pages_max, folder / "urls")
    module = [sys.executable, "-m", "scripts.benches.crawl_soak", "--inside", str(folder)]
    more = [f"--minutes={options.minutes}", f"--days={options.days}", f"--connections={options.connections}"]
    samples: list[tuple[float, int]] = []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    crawl = subprocess.Popen(pinned([*module, *more], CLIENT_CORE))
    try:
        while True:
            try:
                crawl.wait(SAMPLE_S)
                break
            except subprocess.TimeoutExpired:
                found = sample(crawl.pid)
                if found is not None:
                    samples.append(found)
                    if len(samples) % TOLD_EVERY == 0:
                        told_now = {"samples": len(samples), "memory_mib": round(found[0], 1)}
                        print(json.dumps({**told_now, "descriptors": found[1]}), flush=True)
    finally:
        crawl.kill()  # by itself it would end its crawl first
        crawl.wait()
        origin.send_signal(signal.SIGTERM)
        origin.wait()
        shutil.rmtree(folder)
    if len(samples) < 30 or crawl.returncode:
        raise SystemExit(f"bench: the crawl ended with {crawl.returncode} after {len(samples)} samples")
    told = judged(samples)
    print(json.dumps(told))
    raise SystemExit(0 if told["memory_is_flat"] and told["descriptors_are_flat"] else 1)


if __name__ == "__main__":
    main()
