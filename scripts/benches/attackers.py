"""How much memory does a peer take while somebody attacks it? Each attacker alone, against a real daemon on loopback.

    scripts/bench attackers                     all of them, some minutes
    scripts/bench attackers --only parcels,site those whose names hold one of these words

Each attack has a ring of two to itself. One peer is the victim. The other is killed, and the attacker takes over its
key and port: a member, which may call. Printed is what the victim's process held at most (VmHWM); the goal is 300 MB.
Beside it, how long another reader waited for the peer's start page, in 95 of 100 cases, and how often for nothing.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

import anyio

from herodotus.home.folder import Home, running_on
from herodotus.operate.http_questions import NoAnswer, ask
from herodotus.operate.lab_ring import LabPeer, end, kill, load
from scripts.benches.attacking import calls, parcels, peers, questions, readers, sites
from scripts.benches.attacking.target import Victim
from tests.herodotus.test_ring_lab import free_base

GOAL_MB = 300
READER_S, READER_PERIOD_S = 10.0, 0.1
SETTLED_S = 3.0
"""After the attack: what it left to do is done."""
Attack = Callable[[Victim], Awaitable[str]]
ATTACKS: dict[str, Attack] = {
    **parcels.ATTACKS,
    **sites.ATTACKS,
    **calls.ATTACKS,
    **readers.ATTACKS,
    **questions.ATTACKS,
    **peers.ATTACKS,
}

ALONE = frozenset(sites.ATTACKS)
"""In a ring of one: nobody else may own or lease what the victim is to fetch."""


@dataclass(slots=True)
class Waits:
    """Of another reader, who asks for the start page again and again."""

    seconds: list[float] = field(default_factory=list)
    failed: int = 0

    @property
    def p95(self) -> float:
        return sorted(self.seconds)[len(self.seconds) * 95 // 100] if self.seconds else float("inf")

    async def ask(self, port: int) -> None:
        while True:
            started = monotonic()
            try:
                async with asyncio.timeout(READER_S):
                    reader, writer = await asyncio.open_connection("127.0.0.1", port)
                    try:
                        writer.write(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
                        is_answered = (await reader.readline()).split(b" ")[1:2] == [b"200"]
                        await reader.read()
                    finally:
                        writer.close()
                self.seconds.append(monotonic() - started)
                self.failed += not is_answered
            except (OSError, TimeoutError):
                self.seconds.append(READER_S)
                self.failed += 1
            await asyncio.sleep(READER_PERIOD_S)


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    before_mb: float
    peak_mb: float
    waits: Waits
    is_alive: bool
    said: str


def memory_mb(pid: int, field: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise AssertionError(f"no {field} of process {pid}")


def started(folder: Path) -> tuple[LabPeer, LabPeer]:
    command = [sys.executable, "-m", "herodotus", "ring", "up", "--peers", "2", "--dir", str(folder)]
    subprocess.run([*command, "--base-port", str(free_base(2))], check=True, capture_output=True)  # our own
    victim, other = load(folder).peers
    return victim, other


async def attacked(name: str, attack: Attack, folder: Path) -> Row:
    peer, other = started(folder)
    running = running_on(Home(Path(peer.home)))
    assert running is not None
    assert running.pid
    pid = running.pid
    if name in ALONE:
        await end({other.home}, 20.0)
    else:
        kill(other)
    try:
        before = memory_mb(pid, "VmRSS")
        await anyio.Path(f"/proc/{pid}/clear_refs").write_text("5")  # the peak begins here
        victim, waits = Victim(peer=peer, attacker=other, pid=pid), Waits()
        reading = asyncio.ensure_future(waits.ask(victim.http_port))
        said = await attack(victim)
        reading.cancel()
        await asyncio.wait([reading])
        await asyncio.sleep(SETTLED_S)
        return Row(name, before, memory_mb(pid, "VmHWM"), waits, is_answering(peer), said)
    finally:
        await end({peer.home, other.home}, 20.0)


def is_answering(peer: LabPeer) -> bool:
    with suppress(NoAnswer):
        return bool(ask(peer.http, "/api/v1/status"))
    return False


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/bench attackers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", default="", help="attacks by words of their names, separated by commas")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    words = [word for word in asked.only.split(",") if word]
    chosen = {name: one for name, one in ATTACKS.items() if not words or any(word in name for word in words)}
    is_good = True
    for name, attack in chosen.items():
        with tempfile.TemporaryDirectory(prefix="herodotus-attackers-") as scratch:
            row = asyncio.run(attacked(name, attack, Path(scratch) / "ring"))
        is_good &= row.peak_mb <= GOAL_MB and row.is_alive
        if asked.json:
            told = {"p95_s": row.waits.p95, "asked": len(row.waits.seconds), "failed": row.waits.failed}
            print(
                json.dumps({"attack": name, "peak_mb": round(row.peak_mb), **told, "said": row.said}),
                flush=True,
            )
        else:
            verdict = "" if row.peak_mb <= GOAL_MB else "  MORE THAN THE GOAL"
            verdict += "" if row.is_alive else "  DOES NOT ANSWER"
            print(
                f"{name:<44} {row.before_mb:4.0f} -> {row.peak_mb:5.0f} MB, a reader waits {row.waits.p95:6.3f} s"
                f" ({row.waits.failed} of {len(row.waits.seconds)} in vain)   {row.said}{verdict}",
                flush=True,
            )
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
