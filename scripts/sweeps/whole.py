"""Does the whole system keep its promise on bad days? Real peers, a made-up web, faults by a seed, and a judge.

    scripts/sweep whole --seed 1                     twelve peers, five days of the web, some fifteen minutes
    scripts/sweep whole --peers 5 --days 1 --seed 3

Each day of the web lasts for two days of the ring and more: on the first one things go wrong (kills, standstills, full
disks, slow and torn lines, as far as this machine can), then a day without faults must be enough to have all that is
to be seen. In the end some peers are killed for good, and what the others hold is compared with the web's history.
"""

import argparse
import dataclasses
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from herodotus.core.charter import TEST_CHARTER
from herodotus.operate import lab_web
from scripts.demos.frame import turn_the_day
from scripts.sweeps import namespaces
from scripts.sweeps.judging import (
    Content,
    Excuse,
    Verdict,
    complete,
    copied,
    is_robots,
    nothing_else,
    polite,
)
from scripts.sweeps.looking import contents_today, exported, read_all, visits_of
from scripts.sweeps.namespaces import Lines
from scripts.sweeps.peers import SweptRing, made_up_web
from scripts.sweeps.plan import Fault, Kind, faults_of_day

DELAY_S = 0.1
ROUNDED_S = 0.0011
"""The server's log has times to the microsecond; what wakes a process has them to the millisecond."""
DISKS = 2
LOST_FOR_GOOD = 2
READY_S, SETTLED_S = 300.0, 300.0
STEADY_S = 30.0
"""So long it must stay so: longer than a lost peer keeps its place here, and than the time between two looks."""
QUIET_DAYS_MAX = 4
"""Of the ring, for one of the web: on a machine so slow that a day is too short the report says so."""
TORN_S = 90.0
"""After a split is healed: a lease's minute, and until the ring is one again."""
LATE_S = 2.0
"""So late may arrive what was sent before a line or a process came to rest."""
LOOK_EVERY_S = 0.5


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    if not namespaces.is_inside():
        reason = namespaces.why_not()
        if reason is None:
            return namespaces.run_inside(
                "scripts.sweeps.whole", sys.argv[1:] if arguments is None else arguments
            )
        _say(f"no lines of their own for the peers, so none is slow, torn or has a full disk: {reason}")
    folder = Path(tempfile.mkdtemp(prefix="herodotus-whole-"))
    began = time.monotonic()
    sweep = _Sweep(asked, folder)
    try:
        verdicts = sweep.run()
    finally:
        sweep.end()
    report = {
        "seed": asked.seed,
        "peers": asked.peers,
        "days": asked.days,
        "took_s": round(time.monotonic() - began),
        "faults": sweep.done,
        "ok": all(one.is_ok for one in verdicts),
        "checkers": [dataclasses.asdict(one) for one in verdicts],
    }
    for one in verdicts:
        _say(f"{'holds' if one.is_ok else 'BROKEN'}: {one.name}: {one.detail}")
    print(json.dumps(report, ensure_ascii=False, indent=1))
    if report["ok"] and not asked.keep:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        _say(f"homes and logs are kept in {folder}")
    return 0 if report["ok"] else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/sweep whole", description=__doc__)
    parser.add_argument("--peers", type=int, default=12)
    parser.add_argument("--days", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--day-length", type=int, default=60, help="of the ring, in seconds")
    parser.add_argument("--pages-max", type=int, default=20, help="on each of the web's six sites")
    parser.add_argument("--keep", action="store_true", help="keep homes and logs, also when all is well")
    return parser


def _say(words: str) -> None:
    print(f"whole: {words}", file=sys.stderr, flush=True)


class SweepFailed(Exception):
    pass


class _Sweep:
    def __init__(self, asked: argparse.Namespace, folder: Path) -> None:
        self._asked = asked
        self._folder = folder
        self._random = Random(asked.seed)
        self._copies = min(TEST_CHARTER.copies, asked.peers - LOST_FOR_GOOD)
        self.done: list[str] = []
        self._excuses: list[Excuse] = []
        self._seen: dict[int, set[Content]] = {}
        self._web: subprocess.Popen[bytes] | None = None
        self._web_began = 0.0
        self._control = ""
        lines = Lines(asked.peers) if namespaces.is_inside() else None
        charter = dataclasses.replace(
            TEST_CHARTER,
            name="whole",
            copies=self._copies,
            delay_floor_s=DELAY_S,
            day_length_s=asked.day_length,
        )
        self._ring = SweptRing(folder, charter, asked.peers, lines, DISKS)

    def run(self) -> list[Verdict]:
        self._start()
        slow_days = [self._live_day(day) for day in range(self._asked.days)]
        settled = self._wait_settled("all copies are there", self._ring.peers)
        lost = self._random.sample(range(self._asked.peers), LOST_FOR_GOOD)
        _say(f"killing {' and '.join(map(str, lost))} for good")
        for number in lost:
            self._ring.kill(number)
        survivors = [one for one in self._ring.peers if one.number not in lost]
        settled_again = self._wait_settled("all copies are made again", survivors)
        wanted = sorted(set().union(*self._seen.values()))
        readable = read_all([one.http for one in self._ring.up()], wanted)
        fallen = self._ring.fallen()
        self._ring.end(30.0)
        holders = exported([one.home for one in survivors])
        pages = {one: count for one, count in holders.items() if not is_robots(one)}
        complaints = self._ring.complaints()
        return [
            complete(self._seen, holders),
            nothing_else(self._seen, holders),
            copied(pages, self._copies),
            settled,
            settled_again,
            readable,
            polite(
                (one for one, _ in visits_of(self._folder, self._control)), DELAY_S, ROUNDED_S, self._excuses
            ),
            Verdict(
                name="nobody ended who was not killed",
                is_ok=not fallen,
                detail=", ".join(f"{one.number} with {one.ended}" for one in fallen) or "nobody",
            ),
            Verdict(
                name="no mistake of ours in a log",
                is_ok=not complaints,
                detail="; ".join(complaints[:5]) or "none",
            ),
            Verdict(
                name="one quiet day was enough for each day of the web",
                is_ok=all(days == 1 for days in slow_days),
                detail=f"quiet days needed: {', '.join(map(str, slow_days))}",
            ),
        ]

    def end(self) -> None:
        self._ring.end(5.0)
        if self._web is not None:
            lab_web.end_process(self._web)

    # -- the ring and its days

    def _start(self) -> None:
        count = self._asked.peers
        lines = self._ring.lines
        _say(
            f"{count} peers, seed {self._asked.seed}"
            + (f", lines slowed by {lines.slowed_by}" if lines else "")
        )
        for number in range(count):
            self._ring.start(number)

        def is_ideal() -> bool:
            found = self._ring.statuses()
            rings = [facts["ring"] for facts in found.values()]
            return len(rings) == count and all(ring["ideal"] and ring["members"] == count for ring in rings)

        self._must("the ring is whole", is_ideal, READY_S)
        self._web, self._control = made_up_web(self._folder, self._asked.pages_max)
        self._web_began = time.monotonic()
        self._wait_for_next_day()
        pages = lab_web.front_pages(self._control)
        command = [
            sys.executable,
            "-m",
            "herodotus",
            "crawl",
            "--home",
            str(self._ring.peers[0].home),
            *pages,
        ]
        subprocess.run([*command, "--quiet"], check=True, stdin=subprocess.DEVNULL)

    def _live_day(self, web_day: int) -> int:
        """A day of the web; how many quiet days of the ring it took until all of it was visited."""
        if web_day:
            turn_the_day(self._control)
            self._wait_for_next_day()
        faults = faults_of_day(
            self._random,
            self._asked.peers,
            has_lines=self._ring.lines is not None,
            disks=tuple(one.number for one in self._ring.peers if one.has_disk),
            can_split=web_day % 2 == 1,
        )
        self._let_happen(web_day, faults)
        self._seen[web_day] = set(contents_today(self._control))
        quiet_days = 1
        while not self._is_quiet_day_enough() and quiet_days < QUIET_DAYS_MAX:
            quiet_days += 1
        _say(
            f"day {web_day}: {len(self._seen[web_day])} documents; quiet days until all was visited: {quiet_days}"
        )
        return quiet_days

    def _is_quiet_day_enough(self) -> bool:
        self._wait_for_next_day()
        began = time.monotonic() - self._web_began
        return self._until(lambda: self._is_visited(began), self._left_s() - 1.0)

    def _let_happen(self, web_day: int, faults: Sequence[Fault]) -> None:
        length_s, began = self._asked.day_length, time.monotonic()
        moments = sorted(
            [(fault.begins, 0, at) for at, fault in enumerate(faults)]
            + [(fault.ends, 1, at) for at, fault in enumerate(faults)]
        )
        for share, is_end, at in moments:
            time.sleep(max(0.0, began + share * length_s - time.monotonic()))
            fault = faults[at]
            if is_end:
                self._mend(fault)
            else:
                _say(f"day {web_day}: {fault}")
                self.done.append(f"day {web_day}: {fault}")
                self._hurt(fault)

    def _hurt(self, fault: Fault) -> None:
        ring, lines = self._ring, self._ring.lines
        self._excuse(fault, time.monotonic() + self._asked.day_length)
        for number in fault.peers:
            match fault.kind:
                case Kind.KILL:
                    ring.kill(number)
                case Kind.STOP:
                    ring.stand_still(number)
                case Kind.FULL:
                    ring.fill(number)
                case Kind.SLOW if lines is not None:
                    lines.slow(number)
        if fault.kind is Kind.SPLIT and lines is not None:
            lines.split(fault.peers)

    def _mend(self, fault: Fault) -> None:
        ring, lines = self._ring, self._ring.lines
        for number in fault.peers:
            match fault.kind:
                case Kind.KILL:
                    ring.start(number)
                case Kind.STOP:
                    ring.go_on(number)
                case Kind.FULL:
                    ring.empty(number)
                case Kind.SLOW if lines is not None:
                    lines.quick(number)
        if fault.kind is Kind.SPLIT and lines is not None:
            lines.heal()
        self._excuse(fault, time.monotonic() + (TORN_S if fault.kind is Kind.SPLIT else LATE_S))

    def _excuse(self, fault: Fault, until: float) -> None:
        """Anew at the end, when that is known."""
        if fault.kind not in (Kind.STOP, Kind.SLOW, Kind.SPLIT):
            return
        now, lines = time.monotonic() - self._web_began, self._ring.lines
        clients = (
            [""] if fault.kind is Kind.SPLIT or lines is None else [lines.address(n) for n in fault.peers]
        )
        for client in clients:
            self._excuses.append(Excuse(now - LATE_S, until - self._web_began, client))

    def _is_visited(self, since: float) -> bool:
        """Each was visited today, and no peer is still at it; URLs that a peer left to others stay due with it."""
        visited = {url for visit, url in visits_of(self._folder, self._control) if visit.at >= since}
        today = self._seen[max(self._seen)]
        if not {one.url for one in today} <= visited:
            return False
        found = self._ring.statuses()
        return len(found) == self._asked.peers and all(
            one["crawl"]["state"] == "done for today" for one in found.values()
        )

    def _wait_settled(self, words: str, among: Sequence[Any]) -> Verdict:
        began = settled_at = time.monotonic()

        def is_settled() -> bool:
            found = self._ring.statuses()
            return len(found) == len(among) and all(
                one["ring"]["members"] == len(among)
                and all(int(copies) >= self._copies for copies, count in one["copies"].items() if count)
                and one["store"]["captures"] == sum(one["copies"].values())
                and not one["copying"]["to_send"]
                and not one["copying"]["to_fetch"]
                for one in found.values()
            )

        def is_steady() -> bool:
            nonlocal settled_at
            now = time.monotonic()
            settled_at = settled_at if is_settled() else now
            return now - settled_at >= STEADY_S

        is_ok = self._until(is_steady, SETTLED_S)
        detail = f"after {settled_at - began:.0f} s"
        if not is_ok:
            found = {number: one["copies"] for number, one in self._ring.statuses().items()}
            detail = f"not within {SETTLED_S:g} s: {found}"
        return Verdict(name=words, is_ok=is_ok, detail=detail)

    # -- waiting

    def _left_s(self) -> float:
        length_s = float(self._asked.day_length)
        return length_s - time.time() % length_s

    def _wait_for_next_day(self) -> None:
        time.sleep(self._left_s())

    def _until(self, fact: Callable[[], bool], within_s: float) -> bool:
        """Of other processes, which send us no events."""
        end = time.monotonic() + within_s
        while not fact():
            if fallen := self._ring.fallen():
                raise SweepFailed(
                    f"peer {fallen[0].number} ended with {fallen[0].ended}: {fallen[0].last_words}"
                )
            if time.monotonic() > end:
                return False
            time.sleep(LOOK_EVERY_S)
        return True

    def _must(self, words: str, fact: Callable[[], bool], within_s: float) -> None:
        if not self._until(fact, within_s):
            raise SweepFailed(f"not within {within_s:g} s: {words}")


if __name__ == "__main__":
    sys.exit(main())
