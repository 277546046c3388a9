"""What does a page cost? A whole crawl into the archive, beside a bare aiohttp client, in one run on one machine.

The web is a process of its own; what counts is CPU time of this process per fetch, as wall time moves with
whatever else runs. Politeness runs with delays of 0. The second day changes 3 % of the pages; the bare client
asks for the same URLs without looking at what it gets.
"""

import argparse
import json
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

import aiohttp
import anyio

from crawler.core.politeness import PolitenessPolicy
from crawler.core.scope import ScopeKind
from herodotus.crawl_once import crawl_into
from herodotus.crawling import CrawlOrder
from simnet.web import Oracle, Web, WebSettings

DAY_S = 86_400
START_S = 20_000 * DAY_S + 100.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def bare(urls: Sequence[str], connections: int) -> None:
    """GETs of all URLs, bodies read and thrown away."""
    waiting = iter(urls)
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=connections), auto_decompress=False
    ) as session:

        async def work() -> None:
            for url in waiting:
                async with session.get(url, allow_redirects=False) as answer:
                    await answer.read()

        async with anyio.create_task_group() as tasks:
            for _ in range(connections):
                tasks.start_soon(work)


def measured(
    what: Callable[[], Awaitable[dict[str, object] | None]],
) -> tuple[float, float, dict[str, object]]:
    """CPU seconds, wall seconds and the result of a coroutine function."""
    cpu, wall = time.process_time(), time.perf_counter()
    found = anyio.run(what, backend="asyncio", backend_options={"use_uvloop": True})
    return time.process_time() - cpu, time.perf_counter() - wall, found or {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=60)
    parser.add_argument("--pages-max", type=int, default=200)
    parser.add_argument("--connections", type=int, default=56)
    options = parser.parse_args()
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "simnet",
        "web",
        "--tidy",
        "--port",
        str(port),
        "--hosts",
        str(options.hosts),
    ]
    server = subprocess.Popen([*command, "--pages-max", str(options.pages_max)], stdout=subprocess.PIPE)
    assert server.stdout is not None
    server.stdout.readline()  # it listens
    web = Web(WebSettings(hosts=options.hosts, pages_max=options.pages_max, port=port, troubles=False))
    oracle = Oracle(web)
    order = CrawlOrder(
        urls=tuple(oracle.front_pages()),
        scope=ScopeKind.ANY,
        connections=options.connections,
        allow_private_addresses=True,
        politeness=PolitenessPolicy(delay_floor_s=0.0, crawl_delay_max_s=0.0, per_address_concurrency=64),
    )
    try:
        with tempfile.TemporaryDirectory() as folder:
            for day in (0, 1):
                clock = partial(float, START_S + day * DAY_S)
                cpu, wall, found = measured(
                    partial(crawl_into, Path(folder), order, wall_clock=clock, console=None)
                )
                fetched = int(str(found["fetched"]))
                peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
                row = {"what": f"crawl, day {day + 1}", "fetched": fetched, "unchanged": found["unchanged"]}
                row |= {"cpu_us_each": round(cpu / fetched * 1e6), "per_cpu_s": round(fetched / cpu)}
                print(json.dumps(row | {"wall_per_s": round(fetched / wall), "peak_mib": round(peak_mib)}))
                server.send_signal(signal.SIGUSR1)  # tomorrow
        urls = sorted(oracle.reachable(oracle.front_pages(), 0))
        cpu, wall, _ = measured(partial(bare, urls, options.connections))
        print(json.dumps({"what": "bare aiohttp", "fetched": len(urls), "per_cpu_s": round(len(urls) / cpu)}))
    finally:
        server.send_signal(signal.SIGINT)
        server.wait()


if __name__ == "__main__":
    main()
