"""What does it cost to know many URLs? The frontier at each of the given sizes, in one process of CPU seconds.

    scripts/bench crawl_frontier [--urls 1000000,10000000] [--hosts N]

At each size: adds of new URLs (in batches of 100, as links come) over the last tenth, adds of known ones that memory
does not remember, URLs handed out and recorded, the daily reset, the restart (open, until the first URL is handed
out), resident memory, how much of it is the bounded cache, and bytes on disk. Memory per known URL is told by the
difference between two sizes.
"""

import argparse
import gc
import json
import os
import random
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from crawler.core.link import Link
from crawler.core.recrawl import Result
from crawler.frontier import Frontier
from crawler.frontier_rows import frontier_rows
from herodotus.operate.heap import keep_heap_small

BATCH = 100
SAMPLE = 100_000
DAY = 20_000


def url_of(number: int, hosts: int) -> str:
    """Spread over hosts unevenly, as links are: most URLs on few hosts."""
    host = int(hosts * ((number * 2_654_435_761 % 2**32) / 2**32) ** 3)
    return f"http://host{host}.example/section-{number % 97}/page-{number}.html"


def batches(numbers: Sequence[int], hosts: int) -> Iterator[list[Link]]:
    for start in range(0, len(numbers), BATCH):
        yield [Link(url_of(number, hosts), depth=3) for number in numbers[start : start + BATCH]]


def added_per_s(frontier: Frontier, numbers: Sequence[int], hosts: int) -> float:
    used = 0.0
    for links in batches(numbers, hosts):
        start = time.process_time()
        frontier.add(links)
        used += time.process_time() - start
    return len(numbers) / used


def handed_out_per_s(frontier: Frontier, wanted: int) -> tuple[float, float]:
    """URLs taken a second, and recorded a second."""
    taking = recording = 0.0
    taken = 0
    while taken < wanted:
        start = time.process_time()
        origins = frontier.activate(64)
        taking += time.process_time() - start
        if not origins:
            break
        for origin in origins:
            for _ in range(100):
                start = time.process_time()
                entry = frontier.take(origin)
                taking += time.process_time() - start
                if entry is None:
                    break
                start = time.process_time()
                frontier.record(entry, Result.CHANGED, etag='"0123456789abcdef"', digest=bytes(32))
                recording += time.process_time() - start
                taken += 1
            frontier.retire(origin)
    return taken / taking, taken / recording


def memory_mib() -> float:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def measured(
    folder: Path, frontier: Frontier, before: int, size: int, hosts: int
) -> tuple[Frontier, dict[str, object]]:
    frontier.close()
    frontier = Frontier(frontier_rows(folder), day=frontier.day)
    fresh = max(before, size - SAMPLE)
    for links in batches(range(before, fresh), hosts):  # no list, whose memory would be counted
        frontier.add(links)
    new = added_per_s(frontier, range(fresh, size), hosts)
    known = added_per_s(frontier, random.Random(size).sample(range(size), SAMPLE), hosts)
    out, recorded = handed_out_per_s(frontier, SAMPLE)
    resident = memory_mib()
    start = time.perf_counter()
    frontier.start_day(frontier.day + 1)
    reset = time.perf_counter() - start
    day = frontier.day
    frontier.close()
    start = time.perf_counter()
    frontier = Frontier(frontier_rows(folder), day=day)
    origin = frontier.activate(1)[0]
    assert frontier.take(origin) is not None
    restart = time.perf_counter() - start
    frontier.retire(origin)
    return frontier, {
        "urls": frontier.statistics().known,
        "new_adds_per_s": round(new),
        "known_adds_per_s": round(known),
        "next_per_s": round(out),
        "records_per_s": round(recorded),
        "daily_reset_us": round(reset * 1e6),
        "restart_s": round(restart, 3),
        "memory_mib": round(resident, 1),
        "disk_mb": round(sum(file.stat().st_size for file in folder.iterdir()) / 1e6),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--urls", default="1000000,10000000", help="sizes, growing, separated by commas")
    parser.add_argument("--hosts", type=int, default=20_000)
    options = parser.parse_args()
    keep_heap_small()  # as the commands do
    folder = Path(tempfile.mkdtemp(prefix="bench-frontier-"))
    before, last = 0, None
    try:
        frontier = Frontier(frontier_rows(folder), day=DAY)
        for size in map(int, options.urls.split(",")):
            frontier, row = measured(folder, frontier, before, size, options.hosts)
            memory = float(str(row["memory_mib"]))
            if last is not None:
                row["memory_bytes_per_1000_more"] = round((memory - last) * 2**20 / (size - before) * 1000)
            before, last = size, memory
            print(json.dumps(row), flush=True)
        frontier.close()
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
