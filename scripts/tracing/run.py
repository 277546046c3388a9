"""Where does a URL wait in a ring? Rings of several sizes crawl the same made-up web, and each URL's steps are timed.

    scripts/trace-url                              1, 2, 4 and 8 peers, with the test preset and with default settings
    scripts/trace-url --peers 8 --settings test    one of them
    scripts/trace-url --delay 0.1 --hosts 6        a charter with a delay
    scripts/trace-url --virtual --peers 8          simulated peers: nothing but waiting shows, on however busy a machine

Everything runs on loopback in a folder that is deleted afterwards. The web has 20 hosts with 1,610 URLs unless told
otherwise, and asks for no delay. CPU time is that of the peers alone, from the first seed to the last copy, with the
tracing in it.
"""

import argparse
import dataclasses
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from herodotus.core.charter import TEST_CHARTER
from herodotus.core.orders import Begin
from herodotus.core.settings.fields import fields_of
from herodotus.core.settings.sections import PRESETS, SECTIONS
from herodotus.home.folder import Home
from herodotus.operate import lab_ring, lab_web
from herodotus.operate.http_questions import NoAnswer, ask
from herodotus.operate.lab_ring import LabPeer
from herodotus.operate.order_socket import ask_at_door
from scripts.demos.frame import lines_of
from scripts.demos.weblog import visits_on
from scripts.tracing.cases import Case
from scripts.tracing.lines import LEASES, Joined, joined, read_lines
from scripts.tracing.peer import note_all
from scripts.tracing.virtual import note_in_world, play, told

READY_S = 120.0
STOP_S = 20.0
LOOK_S = 0.5
PLACE = ("http.", "ring.listen", "discovery.", "budget.", "relay.", "lifecycle.")
"""Settings of the test preset that let peers share a machine; the others are its timers."""
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    case: Case
    found: Joined
    expected: int
    visited: int
    crawled_s: float
    copied_s: float
    cpu_s: float
    by_peer: tuple[int, ...]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/trace-url", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peers", default="1,2,4,8", help="sizes of rings (1,2,4,8)")
    parser.add_argument("--settings", choices=("test", "default", "both"), default="both")
    parser.add_argument("--hosts", type=int, default=20)
    parser.add_argument("--pages", type=int, default=lab_web.PAGES_MAX, help="of the largest host (60)")
    parser.add_argument("--delay", type=float, default=0.0, help="the charter's floor, in seconds (0)")
    parser.add_argument("--within", type=float, default=400.0, metavar="S", help="of each crawl (400)")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="where the notes stay")
    parser.add_argument("--virtual", action="store_true", help="simulated peers in virtual time")
    parser.add_argument("--seed", type=int, default=1, help="of simulated peers (1)")
    parser.add_argument("--json", action="store_true", help="of real peers")
    asked = parser.parse_args(arguments)
    presets = ("test", "default") if asked.settings == "both" else (asked.settings,)
    is_whole = True
    if asked.virtual:
        note_all(note_in_world)
    for preset in presets:
        for peers in map(int, asked.peers.split(",")):
            case = Case(
                peers=peers,
                settings=preset,
                hosts=asked.hosts,
                pages=asked.pages,
                delay_s=asked.delay,
                within_s=asked.within,
            )
            if asked.virtual:
                played = play(case, seed=asked.seed)
                print("\n".join(told(played)), flush=True)
                is_whole = is_whole and played.visited >= played.expected and not played.rude
                continue
            with tempfile.TemporaryDirectory() as scratch:
                traced = trace(case, asked.keep or Path(scratch))
            print(json.dumps(as_facts(traced)) if asked.json else "\n".join(table(traced)), flush=True)
            is_whole = is_whole and traced.visited >= traced.expected
    return 0 if is_whole else 1


def trace(case: Case, folder: Path) -> Traced:
    base = _free_base(case.peers)
    peers = tuple(lab_ring.place(folder, number, base) for number in range(case.peers))
    charter = lab_ring.with_day_of(
        folder, dataclasses.replace(TEST_CHARTER, name="traced", delay_floor_s=case.delay_s), time.time()
    )
    chosen = {} if case.settings == "test" else default_timers()
    for peer in peers:
        lab_ring.make_home(Home(Path(peer.home)), charter, chosen)
    web, control = lab_web.start(
        folder, base + lab_web.PORT_OFFSET, None, hosts=case.hosts, pages_max=case.pages
    )
    started: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for peer in peers:
            started[peer.home] = _start(peer, None if peer is peers[0] else peers[0].peer)
        anyio.run(lab_ring.wait_ideal, peers, started, READY_S, lambda _ideal: None)
        expected = len(lines_of(control, "/reachable"))
        began, cpu_s = time.monotonic(), _cpu_s(started.values())
        ask_at_door(
            Home(Path(peers[0].home)), Begin(urls=tuple(lab_web.front_pages(control))), lambda _words: None
        )
        _wait_done(peers, lab_web.log_in(folder), expected, began + case.within_s)
        cpu_s = _cpu_s(started.values()) - cpu_s
    finally:
        for process in started.values():
            process.terminate()
        for process in started.values():
            process.wait(STOP_S)
        lab_web.end_process(web)
    found = joined([read_lines(_notes(peer)) for peer in peers], since=began)
    return Traced(
        case=case,
        found=found,
        expected=expected,
        visited=len(visits_on(lab_web.log_in(folder), 0).status),
        crawled_s=found.last_begun - began,
        copied_s=max(found.last_copied, found.last_begun) - began,
        cpu_s=cpu_s,
        by_peer=tuple(found.begun.get(number, 0) for number in range(case.peers)),
    )


def default_timers() -> dict[str, object]:
    """What the test preset moves, as a peer has it that nobody configured."""
    return {
        f"{section}.{name}": one.default
        for section, kind in SECTIONS.items()
        for name, one in fields_of(kind).items()
        if f"{section}.{name}" in PRESETS["test"] and not f"{section}.{name}".startswith(PLACE)
    }


def _start(peer: LabPeer, join: str | None) -> subprocess.Popen[bytes]:
    home = Path(peer.home)
    command = [sys.executable, "-m", "scripts.tracing.peer", str(_notes(peer))]
    command += ["run", "--home", peer.home, "--listen", peer.peer]
    command += ["--http", peer.http.removeprefix("http://"), "--quiet"]
    command += ["--join", join] if join else []
    with (home / "log" / "console.log").open("ab") as console:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=console, stderr=console)


def _notes(peer: LabPeer) -> Path:
    return Path(f"{peer.home}.trace")


def _free_base(peers: int) -> int:
    """Where a peer's port, its portal's and the web's are free, as far as a look at the first of them tells."""
    for base in range(21_000, 29_000, 50):
        try:
            for port in (*range(base, base + peers), base + lab_web.PORT_OFFSET):
                with socket.socket() as one:
                    one.bind(("127.0.0.1", port))
        except OSError:
            continue
        return base
    raise SystemExit("no free ports")


def _cpu_s(processes: Any) -> float:
    total = 0.0
    for process in processes:
        words = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        total += (int(words[11]) + int(words[12])) / TICKS
    return total


def _wait_done(peers: Sequence[LabPeer], log: Path, expected: int, until: float) -> None:
    """Each URL was visited, and no copy is under way."""
    while time.monotonic() < until:
        time.sleep(LOOK_S)
        if len(visits_on(log, 0).status) >= expected and not _to_send(peers):
            return


def _to_send(peers: Sequence[LabPeer]) -> int:
    try:
        facts: list[Any] = [ask(peer.http, "/api/v1/status") for peer in peers]
    except NoAnswer:
        return 1
    return sum(one["copying"]["to_send"] + one["crawl"]["due"] for one in facts)


def as_facts(traced: Traced) -> dict[str, Any]:
    found = traced.found
    urls = max(1, found.urls)
    total_s = sum(found.causes.values()) or 1.0
    return {
        **dataclasses.asdict(traced.case),
        "visited": traced.visited,
        "expected": traced.expected,
        "crawled_s": round(traced.crawled_s, 2),
        "copied_s": round(traced.copied_s, 2),
        "cpu_ms_a_url": round(1000 * traced.cpu_s / urls, 2),
        "calls_a_url": round(sum(found.calls.values()) / urls, 3),
        "calls": dict(sorted(found.calls.items())),
        "by_peer": traced.by_peer,
        "stages": {
            stage.name: [round(figure, 3) for figure in (stage.at(0.5), stage.at(0.95), stage.mean)]
            for stage in found.stages
        },
        "waits": {
            cause: round(seconds / total_s, 3)
            for cause, seconds in sorted(found.causes.items(), key=lambda item: -item[1])
        },
        "waits_for_stewards": round(sum(found.causes.get(cause, 0.0) for cause in LEASES) / total_s, 3),
    }


def table(traced: Traced) -> list[str]:
    facts = as_facts(traced)
    calls = ", ".join(f"{name} {count}" for name, count in facts["calls"].items())
    head = (
        f"{facts['peers']} peers, {facts['settings']} settings, delay {facts['delay_s']:g} s: "
        f"{facts['visited']} of {facts['expected']} URLs crawled after {facts['crawled_s']} s, "
        f"copied after {facts['copied_s']} s"
    )
    return [
        head,
        f"  CPU a URL {facts['cpu_ms_a_url']} ms, calls a URL {facts['calls_a_url']} ({calls})",
        f"  fetched by each: {', '.join(map(str, facts['by_peer']))}",
        *(
            f"  {name:30} median {median:.3f} s, p95 {late:.3f} s, mean {mean:.3f} s"
            for name, (median, late, mean) in facts["stages"].items()
        ),
        *(f"    {share:6.1%} {cause}" for cause, share in facts["waits"].items() if share >= 0.005),
    ]


if __name__ == "__main__":
    sys.exit(main())
