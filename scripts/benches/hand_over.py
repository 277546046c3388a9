"""How fast do captures go from one real peer to another? Two processes, TLS between them, beside a bare sendfile.

The second peer is switched off while the first takes in an import; when it comes back it fetches, checks, signs for
and stores all of it durably. The sendfile moves as many bytes between two sockets of this machine and checks nothing.
"""

import argparse
import json
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from herodotus.operate.http_questions import NoAnswer, ask
from tests.herodotus.portal.library import response
from tests.herodotus.portal.shelves import warc_of
from tests.herodotus.store.making import random_text
from tests.herodotus.test_ring_lab import free_base

WAIT_S = 600.0


def herodotus(*arguments: object) -> str:
    command = [sys.executable, "-m", "herodotus", *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout  # our own


def status(http: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = ask(http, "/api/v1/status")
    except NoAnswer:
        return {}
    return found


def captures(http: str) -> int:
    return int(status(http).get("store", {}).get("captures", 0))


def wait_for(http: str, count: int) -> float:
    """Until a peer has so many captures; when that was."""
    until = time.monotonic() + WAIT_S
    while captures(http) < count:
        if time.monotonic() > until:
            raise SystemExit(f"the peer had {captures(http):,} of {count:,} captures after {WAIT_S:g} s")
        time.sleep(0.2)
    return time.monotonic()


def hand_over(count: int, page_bytes: int, scratch: Path) -> float:
    rng = random.Random(1)
    bodies = [random_text(rng, page_bytes) for _ in range(64)]
    records = (
        response(f"http://example.org/{number}", "20260101", b"<p>%d</p>" % number + bodies[number % 64])
        for number in range(count)
    )
    warc = warc_of(scratch / "made", *records)
    folder = scratch / "ring"
    base = str(free_base(2))
    told = herodotus("ring", "up", "--peers", "2", "--base-port", base, "--dir", folder, "--json")
    first, second = json.loads(told)["peers"]
    try:
        herodotus("ring", "kill", "1", "--dir", folder)
        herodotus("import", "--home", first["home"], warc)
        size = int(status(first["http"])["store"]["bytes"])
        herodotus("ring", "revive", "1", "--dir", folder)
        began = wait_for(second["http"], count // 10)
        before = captures(second["http"])
        ended = wait_for(second["http"], count)
    finally:
        herodotus("ring", "down", "--dir", folder)
    took_s = ended - began
    share = (count - before) / count
    rate = size * share / took_s / 1e6
    print(
        f"from peer to peer: {count - before:,} captures of {size / count:,.0f} bytes in {took_s:.1f} s, "
        f"{(count - before) / took_s:,.0f} captures/s, {rate:.1f} MB/s as stored"
    )
    print(
        f"a bare sendfile of {size / 1e6:,.0f} MB between two sockets: {bare_sendfile(size, scratch):,.0f} MB/s"
    )
    return rate


def bare_sendfile(size: int, scratch: Path) -> float:
    path = scratch / "bare"
    path.write_bytes(random.Random(2).randbytes(1 << 20) * (size // (1 << 20) + 1))
    with socket.create_server(("127.0.0.1", 0)) as server, path.open("rb") as file:
        sender = socket.create_connection(server.getsockname())
        receiver, _ = server.accept()
        began = time.perf_counter()

        def send() -> None:
            sender.sendfile(file)
            sender.close()

        sending = threading.Thread(target=send)
        sending.start()
        received = 0
        while piece := receiver.recv(1 << 20):
            received += len(piece)
        sending.join()
        receiver.close()
        return received / (time.perf_counter() - began) / 1e6


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--captures", type=int, default=5_000)
    parser.add_argument("--page-bytes", type=int, default=12_000)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        hand_over(chosen.captures, chosen.page_bytes, Path(scratch))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
