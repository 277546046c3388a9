"""Does the real core do what the papers' tables and our prototype's promise? Prints the tables; `scripts/bench
ring_tables`.

Every line is one or more seeded runs of `simnet.ringtrials` and `scripts.benches.ring_recoveries`; the same seed prints
the same numbers.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from scripts.benches import ring_recoveries as recoveries
from simnet import ringtrials as trials
from simnet.rings import RingWorld, how_right, peer_number


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench ring_tables", description=__doc__)
    parser.add_argument("table", nargs="*", help="which; all of them by default")
    parser.add_argument("--seeds", type=int, default=3, help="how many seeds, from 1")
    parser.add_argument("--peers", type=int, default=1_000, help="the size of the largest ring")
    options = parser.parse_args(argv)
    for name in options.table or TABLES:
        started = time.process_time()
        say(f"\n## {name} (peers {options.peers}, seeds 1-{options.seeds})")
        TABLES[name](range(1, options.seeds + 1), options.peers)
        say(f"CPU time {time.process_time() - started:.0f} s")
    return 0


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def chord_table(seeds: Sequence[int], peers: int) -> None:
    say("| failed | path (1st, 99th) | timeouts (1st, 99th) | wrong answers |\n|---|---|---|---|")
    for failed in (0.0, 0.1, 0.2, 0.3, 0.4, 0.5):
        runs = [trials.lookups_without_repair(seed, peers, 20, failed) for seed in seeds]
        path, timeouts = _mean([run.mean for run in runs]), _mean([run.timeouts for run in runs])
        wrong, asked = sum(run.wrong for run in runs), sum(run.lookups for run in runs)
        say(
            f"| {failed} | {path:.2f} ({runs[0].low}, {runs[0].high})"
            f" | {timeouts:.2f} ({runs[0].timeouts_low}, {runs[0].timeouts_high}) | {wrong} of {asked} |"
        )


def path_table(seeds: Sequence[int], peers: int) -> None:
    say("| peers, r = 1 | path, the owner included |\n|---|---|")
    for exponent in range(8, 15, 2):
        if 1 << exponent <= 16 * peers:
            run = trials.lookups_without_repair(seeds[0], 1 << exponent, 1, 0.0, lookups=5_000)
            say(f"| 2^{exponent} | {run.mean + 1:.2f} |")


def half_dies(seeds: Sequence[int], peers: int) -> None:
    _recoveries(f"{peers // 2} of {peers} crash", [lambda seed: recoveries.half_dies(seed, peers)], seeds)


def join_storm(seeds: Sequence[int], peers: int) -> None:
    few = peers // 5
    _recoveries(
        f"{peers - few} join {few} within 10 s",
        [lambda seed: recoveries.join_storm(seed, few, peers - few)],
        seeds,
    )


def merge(seeds: Sequence[int], peers: int) -> None:
    small, large = peers // 10, peers // 2
    _recoveries(
        f"{small} + {small} merge by one contact", [lambda seed: recoveries.merge(seed, small)], seeds
    )
    _recoveries(f"{large} + {large}", [lambda seed: recoveries.merge(seed, large)], seeds)


def split(seeds: Sequence[int], peers: int) -> None:
    size = peers * 2 // 5
    _recoveries(f"{size} split for 30 min", [lambda seed: recoveries.split_and_heal(seed, size)], seeds)


def churn(seeds: Sequence[int], peers: int) -> None:
    for session_h in (1.0, 2.9):
        for seed in seeds:
            say(f"session {session_h} h, seed {seed}: {trials.churn(seed, peers // 2, session_h * 3600)}")


def idle(seeds: Sequence[int], peers: int) -> None:
    """How fast does virtual time pass, and what does an idle ring cost each peer?"""
    for seed in seeds:
        world = RingWorld(seed, trials.rules_with(), loss=trials.LOSS)
        world.ideal([peer_number(n) for n in range(peers)])
        world.sizes = trials.size_of
        world.run(60)
        for label, seconds in (("active", 600), ("quiet", 3_600)):
            world.bytes_sent, events, started = 0, world.events, time.process_time()
            world.run(seconds)
            spent = time.process_time() - started
            bits = 8 * world.bytes_sent / seconds / peers
            say(
                f"seed {seed}, {label}: {seconds / spent:.0f} virtual s per CPU-s,"
                f" {(world.events - events) / spent:.0f} events per CPU-s, {bits:.0f} bit/s per peer,"
                f" right {how_right(world)}"
            )
            if label == "active":
                world.run(1_800)


def large(seeds: Sequence[int], peers: int) -> None:
    """Routing only: lists and fingers, no gossip."""
    del seeds
    import resource

    started = time.process_time()
    rules = replace(trials.rules_with(gossips=False))
    world = RingWorld(1, rules, loss=trials.LOSS)
    count = peers * 100
    world.ideal([peer_number(n) for n in range(count)], knows_all=False)
    say(f"{count} peers set up in {time.process_time() - started:.0f} CPU-s")
    started = time.process_time()
    world.run(10)
    peak_gb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)
    say(f"{10 / (time.process_time() - started):.2f} virtual s per CPU-s, peak memory {peak_gb:.2f} GB")


def _recoveries(
    label: str, trial: Sequence[Callable[[int], recoveries.Recovery]], seeds: Sequence[int]
) -> None:
    runs = [one(seed) for one in trial for seed in seeds]
    first = ", ".join("never" if run.first_s is None else f"{run.first_s:.0f}" for run in runs)
    whole = ", ".join("never" if run.whole_s is None else f"{run.whole_s:.0f}" for run in runs)
    say(f"{label}: first successors right after {first} s; all lists after {whole} s")


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


TABLES: dict[str, Callable[[Sequence[int], int], None]] = {
    "chord-table": chord_table,
    "paths": path_table,
    "half-dies": half_dies,
    "join-storm": join_storm,
    "merge": merge,
    "split-and-heal": split,
    "churn": churn,
    "idle": idle,
    "large": large,
}

if __name__ == "__main__":
    sys.exit(main())
