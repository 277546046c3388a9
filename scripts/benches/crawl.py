"""What does a page cost? Our crawler beside Scrapy, wget, bare aiohttp and wrk, in one run on one web.

    scripts/bench crawl [--only WORD,WORD] [--hosts N] [--pages-max N] [--json FILE]

Each client is a process pinned to core 0; the web, rendered in advance, answers from core 1. What counts is CPU time
of the client's process, threads and system calls included, from its first request on: wall time moves with whatever
else runs. Robots and leases are on in ours with all delays 0; robots.txt is obeyed by all that crawl. Rows:

    bare, bare-304     aiohttp alone; all conditional GETs answered 304
    throwaway          aiohttp, links, digests, a seen-set, gzipped records: nothing durable, no frontier
    fetch, links       our fetcher over a list of URLs; with links and directives read
    aiohttp            the other implementation of our fetcher, on aiohttp
    crawl, store       a whole crawl, whose captures go nowhere; whose captures are durable (the whole path)
    sealed             the same as the command does it: at its end the log is sorted, indexed and compressed again
    store-304          the day after, on which nothing changed
    scrapy, wget       the same crawl by others, storing WARC;  wget2: to files
    wrk                the most that a core can fetch
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from scripts.benches.crawling import others
from scripts.benches.crawling.starting import CLIENT_CORE, free_port, pinned, started_origin

CLIENTS = (
    "bare",
    "bare-304",
    "throwaway",
    "aiohttp",
    "fetch",
    "links",
    "crawl",
    "store",
    "sealed",
    "store-304",
)
OTHERS = ("scrapy", "wget", "wget2", "wrk")
CLIENT_S_MAX = 150
"""A client that is not done by then is interrupted and measured by what it did."""
WRK_S = 4
Row = dict[str, object]


def bounded(command: list[str]) -> list[str]:
    program = shutil.which("timeout")
    return [program, "--signal=INT", str(CLIENT_S_MAX), *command] if program else command


def run_client(
    command: list[str], environment: dict[str, str] | None = None
) -> tuple[str, float, float, int]:
    """Its output, CPU seconds, wall seconds and peak memory in MiB, as the operating system counts them."""
    with tempfile.TemporaryFile("w+") as output:
        start = time.perf_counter()
        client = subprocess.Popen(
            pinned(bounded(command), CLIENT_CORE), stdout=output, stderr=subprocess.STDOUT, env=environment
        )
        _, _, used = os.wait4(client.pid, 0)
        wall_s = time.perf_counter() - start
        client.returncode = 0  # waited for above, with what it used
        output.seek(0)
        return output.read(), used.ru_utime + used.ru_stime, wall_s, used.ru_maxrss // 1024


def row_of(word: str, fetched: int, cpu_s: float, wall_s: float, peak_mib: int) -> Row:
    return {
        "what": word,
        "fetched": fetched,
        "per_cpu_s": round(fetched / cpu_s),
        "cpu_us_each": round(cpu_s / fetched * 1e6, 1),
        "per_wall_s": round(fetched / wall_s),
        "peak_mib": peak_mib,
    }


def measure(word: str, folder: Path, options: argparse.Namespace, port: int) -> Row:
    if word in CLIENTS or word == "scrapy":
        command: list[str] | None = [
            sys.executable,
            "-m",
            "scripts.benches.crawling.clients",
            word,
            str(folder),
        ]
        assert command is not None
        command.append(str(options.connections))
        if word == "scrapy":
            command = others.scrapy(folder, options.connections, options.scrapy_pages_max)
        if command is None:
            return {"what": word, "missing": "cannot be installed here"}
        output, cpu_s, _, peak_mib = run_client(command)
        if not output.strip():
            return {"what": word, "missing": "it ended without a result"}
        *talk, last = output.strip().splitlines()
        if not last.startswith("{"):
            return {"what": word, "missing": "\n".join([*talk, last])[-500:]}
        told: dict[str, Any] = json.loads(last)
        cpu_s -= told.pop("prelude_cpu_s")
        fetched, wall_s = told.pop("fetched"), told.pop("wall_s")
        told.pop("peak_mib")
        return {**row_of(word, fetched, cpu_s, wall_s, peak_mib), **told}
    return measure_program(word, folder, options, port)


def measure_program(word: str, folder: Path, options: argparse.Namespace, port: int) -> Row:
    environment = None
    if word == "wget":
        command = others.wget(folder)
    elif word == "wget2":
        command = others.wget2(folder, options.connections)
        environment = others.wget2_environment()
    else:
        command = others.wrk(folder, port, options.connections, WRK_S)
    if command is None:
        return {"what": word, "missing": "not on this system"}
    output, cpu_s, wall_s, peak_mib = run_client(command, environment)
    if word == "wrk":
        found = re.search(r"(\d+) requests in", output)
        fetched = int(found[1]) if found else 0
    else:
        fetched = (
            len(re.findall(r"(?m)^\S+ \S+ URL:", output)) or output.count("] -> ") or output.count("URL:")
        )
    if not fetched:
        return {"what": word, "missing": output[-500:]}
    return row_of(word, fetched, cpu_s, wall_s, peak_mib)


RATIOS = (
    ("whole path beside Scrapy storing WARC (goal 10)", "store", "scrapy"),
    ("whole path beside wget storing WARC (goal 2.5)", "store", "wget"),
    ("whole path and sealing beside Scrapy storing WARC", "sealed", "scrapy"),
    ("whole path and sealing beside wget storing WARC", "sealed", "wget"),
    ("whole path beside the throw-away loop (goal 0.5)", "store", "throwaway"),
    ("unchanged day beside bare aiohttp's 304s (goal 0.5)", "store-304", "bare-304"),
    ("whole path beside bare aiohttp", "store", "bare"),
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hosts", type=int, default=60)
    parser.add_argument("--pages-max", type=int, default=200)
    parser.add_argument("--connections", type=int, default=56)
    parser.add_argument(
        "--scrapy-pages-max", type=int, default=2_000, help="Scrapy is slow: it stops after so many"
    )
    parser.add_argument("--only", default=",".join([*CLIENTS, *OTHERS]), help="rows, separated by commas")
    options = parser.parse_args()
    port = free_port()
    work = Path(tempfile.mkdtemp(prefix="bench-crawl-"))
    origin = started_origin(port, options.hosts, options.pages_max, work / "urls")
    rates: dict[str, float] = {}
    try:
        for word in options.only.split(","):
            with tempfile.TemporaryDirectory() as folder:
                shutil.copy(work / "urls", folder)
                row = measure(word, Path(folder), options, port)
            if "per_cpu_s" in row:
                rates[word] = float(str(row["per_cpu_s"]))
            print(json.dumps(row), flush=True)
    finally:
        origin.send_signal(signal.SIGTERM)
        origin.wait()
        shutil.rmtree(work)
    for what, ours, theirs in RATIOS:
        if ours in rates and theirs in rates:
            print(json.dumps({"ratio": what, "is": round(rates[ours] / rates[theirs], 2)}))
    print(json.dumps({"load": [round(each, 1) for each in os.getloadavg()]}))


if __name__ == "__main__":
    main()
