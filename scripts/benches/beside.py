"""Is anything slower than at an older commit? The benches of crawl, store and portal in two checkouts, side by side.

    git worktree add --detach ../old ed50a0b && ../old/scripts/setup dev
    scripts/bench beside ../old [--rounds N] [--only WORD,WORD] [--json FILE]

Each round measures each bench once in the older checkout and once here, in alternating order. A bench of crawl or store
is the checkout's own copy, which may import by other names but must measure the same; the portals are asked by this
checkout's bench. A row is CPU time for a piece of work, in microseconds where nothing else is said: wall time moves
with whatever else runs. The least of the rounds counts, as other work on the machine only adds; the medians stand
beside it. Rows of programs that are not ours (a throw-away loop, pread, FastWARC) say how far to trust the run.

The exit code is 1 if a row of ours costs more than `--bound` times what it cost.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median

from scripts.benches import portal

ROOT = Path(__file__).parents[2]
BOUND = 1.05
"""Two runs of the same code differ by some 3 % on a machine with other work."""
CONNECTIONS, SECONDS = 8, 1.0
WAYS = (("again", ()), ("the long way", (portal.LONG_WAY,)))
Costs = dict[str, float]
Pairs = dict[str, tuple[list[float], list[float]]]
"""By row the costs there, and here."""
Checkouts = tuple[Path, Path]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    name: str
    arguments: tuple[str, ...]
    read: Callable[[str], Costs]


def json_rows(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def crawl_costs(text: str) -> Costs:
    return {
        f"{row['what']}, a page": float(str(row["cpu_us_each"]))
        for row in json_rows(text)
        if "fetched" in row
    }


def frontier_costs(text: str) -> Costs:
    """The bench tells pieces a CPU-second."""
    return {
        f"{name.removesuffix('_per_s').replace('_', ' ')}, {row['urls']:,} URLs": 1e6 / float(str(value))
        for row in json_rows(text)
        for name, value in row.items()
        if name.endswith("_per_s")
    }


def told_costs(text: str) -> Costs:
    [figures] = json_rows(text)
    return {name: float(str(value)) for name, value in figures.items() if "cpu" in name or "bytes" in name}


def upkeep_costs(text: str) -> Costs:
    """Rows of a name, a figure and its unit; only what is CPU time or bytes, where less is better."""
    matches = [re.fullmatch(r"(\S.*?) +([\d.]+) (us|s|B|MB)", line) for line in text.splitlines()]
    return {
        f"{match[1]} ({match[3]})": float(match[2])
        for match in matches
        if match and not match[1].startswith(("log to read", "so with"))
    }


_OUR_LAYOUT = """
import json, tempfile
from pathlib import Path
from scripts.benches.store import OurLog, load_corpus, measure_layout
with tempfile.TemporaryDirectory() as scratch:
    print(json.dumps(measure_layout(OurLog, load_corpus(Path(".venv/bench-corpus"), 6_000), Path(scratch))))
"""
"""The store bench without the layouts of the papers, which take minutes."""
_COMMITS = """
import json, tempfile, time
from pathlib import Path
from scripts.benches.store_layouts import OurLog
with tempfile.TemporaryDirectory() as scratch:
    log, spent_s, captures = OurLog(Path(scratch)), 0.0, 131_072
    archive, commit = type(log.archive), type(log.archive).commit
    def timed(self, items):
        global spent_s
        begun = time.thread_time()
        commit(self, items)
        spent_s += time.thread_time() - begun
    archive.commit = timed
    for at in range(0, captures, 128):
        log.store([(f"http://example.org/{number}", b"page %d" % number) for number in range(at, at + 128)])
    log.archive.flush_index()
    log.archive.index.compact()
    index_bytes = log.archive.index.bytes_used()
    print(json.dumps({"a capture cpu": spent_s / captures * 1e6, "index bytes a capture": index_bytes / captures}))
    log.close()
"""
"""What log and index cost, without preparing records: captures of URLs of their own, as short as the corpus's."""

BENCHES = (
    Bench(
        name="crawl",
        arguments=(
            "-m",
            "scripts.benches.crawl",
            "--only",
            "throwaway,fetch,links,crawl,store,sealed,store-304",
        ),
        read=crawl_costs,
    ),
    Bench(
        name="frontier",
        arguments=("-m", "scripts.benches.crawl_frontier", "--urls", "300000"),
        read=frontier_costs,
    ),
    Bench(name="archive", arguments=("-c", _OUR_LAYOUT), read=told_costs),
    Bench(name="commit", arguments=("-c", _COMMITS), read=told_costs),
    Bench(
        name="upkeep",
        arguments=("-m", "scripts.benches.store", "--pages", "3000", "--only", "streaming", "recovery"),
        read=upkeep_costs,
    ),
    Bench(
        name="index",
        arguments=("-m", "scripts.benches.store", "--only", "index", "--captures", "200000"),
        read=upkeep_costs,
    ),
)
PORTAL = "portal"
OTHERS = ("throwaway", "pread", "FastWARC")
"""Rows of other programs: the same on both sides but for what else the machine did."""


def measured(bench: Bench, checkouts: Checkouts, rounds: int) -> Pairs:
    """For each row that both have, the costs there and here, one for each round."""
    found: tuple[list[Costs], list[Costs]] = ([], [])
    for order in orders(bench.name, rounds):
        for side in order:
            command = [str(python_of(checkouts[side])), *bench.arguments]
            done = subprocess.run(command, cwd=checkouts[side], stdout=subprocess.PIPE, text=True, check=True)
            found[side].append(bench.read(done.stdout))
    shared = [row for row in found[1][0] if row in found[0][0]]
    return {row: ([costs[row] for costs in found[0]], [costs[row] for costs in found[1]]) for row in shared}


def measured_portals(checkouts: Checkouts, rounds: int) -> Pairs:
    """Two peers on one core that have imported the same file, asked in turns: again, and the long way."""
    found: Pairs = {}
    with tempfile.TemporaryDirectory() as name, ExitStack() as open_ones:
        warc = Path(name) / "bench.warc.gz"
        portal.write_warc(warc)
        servers = []
        for side, checkout in enumerate(checkouts):
            folder = Path(name) / str(side)
            folder.mkdir()
            servers.append(open_ones.enter_context(portal.our_peer(folder, warc, python_of(checkout))))
        for order in orders(PORTAL, rounds):
            for case, (way, fields), side in product(portal.CASES, WAYS, order):
                portal.check(case, servers[side], case.ours)
                told = portal.measure(servers[side], case.ours, CONNECTIONS, SECONDS, *fields)
                found.setdefault(f"{case.name}, {way}", ([], []))[side].append(told["cpu_us"])
    return found


def orders(name: str, rounds: int) -> Iterator[tuple[int, int]]:
    """Neither side is always the first."""
    for number in range(rounds):
        print(
            f"beside: {name}, round {number + 1}, load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True
        )
        yield (0, 1) if number % 2 == 0 else (1, 0)


def python_of(checkout: Path) -> Path:
    return checkout / ".venv/bin/python"


def is_ours(row: str) -> bool:
    return not any(other in row for other in OTHERS)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/bench beside", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("older", type=Path, help="a checkout of the older commit, set up")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="benches, separated by commas")
    parser.add_argument("--bound", type=float, default=BOUND)
    parser.add_argument("--json", type=Path, help="every round's costs")
    asked = parser.parse_args(arguments)
    words = asked.only.split(",") if asked.only else [*(bench.name for bench in BENCHES), PORTAL]
    checkouts = (asked.older.absolute(), ROOT)
    works: dict[str, Callable[[], Pairs]] = {
        bench.name: partial(measured, bench, checkouts, asked.rounds) for bench in BENCHES
    }
    works[PORTAL] = partial(measured_portals, checkouts, asked.rounds)
    kept: Pairs = {}
    print("| | then | now | ratio | medians then, now |\n|---|---|---|---|---|")
    for word in words:
        found = {f"{word}: {row}": costs for row, costs in works[word]().items()}
        for row, (then, now) in found.items():
            medians = f"{median(then):,.4g}, {median(now):,.4g}"
            ratio = min(now) / min(then)
            print(f"| {row} | {min(then):,.4g} | {min(now):,.4g} | {ratio:.2f} | {medians} |", flush=True)
        kept |= found
    slower = [row for row, (then, now) in kept.items() if min(now) > asked.bound * min(then) and is_ours(row)]
    if asked.json:
        asked.json.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    for name in slower:
        print(f"beside: slower than {asked.bound:g} times: {name}", file=sys.stderr)
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
