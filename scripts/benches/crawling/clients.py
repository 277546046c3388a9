"""What does one client cost? One measured run in a process of its own, ended by one line of JSON.

`python -m scripts.benches.crawling.clients WORD FOLDER CONNECTIONS`, with the URLs in FOLDER/urls. `prelude_cpu_s`
is what it spent before the measured part (imports, reading the list, the first day of a second day's run), which the
caller takes off what the operating system counts for the process, threads included.
"""

import gc
import hashlib
import json
import resource
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import aiohttp
import anyio
import can_ada
import turbohtml
from isal import igzip

from crawler.core.capture import Capture
from crawler.core.politeness import HostSteward, PolitenessPolicy
from crawler.core.scope import CrawlScope, ScopeKind
from crawler.core.urls import STANDARD
from crawler.frontier import Frontier
from crawler.frontier_rows import frontier_rows
from crawler.http import FetchSettings, HttpFetcher
from crawler.outcomes import read_capture
from crawler.ports import FetchRequest
from crawler.steward import LocalSteward
from crawler.worker import Crawler, WorkerSettings
from herodotus.crawl.gear import CrawlOrder, open_crawler
from herodotus.crawl.single_run import crawl_into
from herodotus.machine import Machine
from herodotus.operate.heap import keep_heap_small
from herodotus.store import archive_at, open_store
from tests.crawler.aiohttp_fetcher import AiohttpFetcher

DAY_S = 86_400
START_S = 20_000 * DAY_S + 100.0
ROBOT = "Herodotus"
RUDE = PolitenessPolicy(delay_floor_s=0.0, crawl_delay_max_s=0.0, per_address_concurrency=64)
"""The machinery runs, its delays are nothing."""


@dataclass(slots=True)
class Run:
    folder: Path
    connections: int
    urls: list[str]
    fetched: int = 0
    prelude_cpu_s: float = 0.0
    started: float = 0.0
    more: dict[str, object] = field(default_factory=dict)

    def begin(self) -> None:
        gc.collect()
        gc.freeze()  # what is imported by now differs between programs, and each full collection would walk over it
        self.fetched = 0
        self.prelude_cpu_s = time.process_time()
        self.started = time.perf_counter()

    async def by_all_connections(self, one: Callable[[str], Awaitable[None]]) -> None:
        waiting: Iterator[str] = iter(self.urls)

        async def work() -> None:
            for url in waiting:
                await one(url)
                self.fetched += 1

        async with anyio.create_task_group() as tasks:
            for _ in range(self.connections):
                tasks.start_soon(work)


def _session(connections: int) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=connections), auto_decompress=False)


async def bare(run: Run) -> None:
    """aiohttp alone: the body is read and thrown away."""
    async with _session(run.connections) as session:

        async def get(url: str) -> None:
            async with session.get(url, allow_redirects=False) as answer:
                await answer.read()

        run.begin()
        await run.by_all_connections(get)


async def bare_unchanged(run: Run) -> None:
    """aiohttp alone, asking whether what it has is still good."""
    tags: dict[str, str] = {}
    async with _session(run.connections) as session:

        async def learn(url: str) -> None:
            async with session.get(url, allow_redirects=False) as answer:
                await answer.read()
                tags[url] = answer.headers.get("ETag", "")

        async def ask(url: str) -> None:
            headers = {"If-None-Match": tags[url]}
            async with session.get(url, headers=headers, allow_redirects=False) as answer:
                await answer.read()

        await run.by_all_connections(learn)
        run.begin()
        await run.by_all_connections(ask)


async def throwaway(run: Run) -> None:
    """The design's loop: aiohttp, links, digests, a seen-set, gzipped records, nothing flushed or remembered."""
    seen: set[str] = set()
    with (run.folder / "throwaway.warc.gz").open("wb") as warc:
        async with _session(run.connections) as session:

            async def get(url: str) -> None:
                async with session.get(url, allow_redirects=False) as answer:
                    body = await answer.read()
                    is_html = answer.content_type == "text/html"
                hashlib.sha256(body).digest()
                digest = hashlib.sha1(body, usedforsecurity=False).hexdigest()
                if is_html:
                    base = can_ada.parse(url)
                    for element in turbohtml.parse(body, positions=False).select("[href],[src]"):
                        seen.add((base + (element.attr("href") or element.attr("src") or "")).href)
                head = f"WARC/1.1\r\nWARC-Target-URI: {url}\r\nWARC-Payload-Digest: sha1:{digest}\r\n\r\n"
                level = 1 if is_html else 0
                warc.write(igzip.compress(head.encode() + body + b"\r\n\r\n", level))

            run.begin()
            await run.by_all_connections(get)


async def ours_fetch(
    run: Run, *, kind: type[HttpFetcher] | type[AiohttpFetcher] = HttpFetcher, reads: bool = False
) -> None:
    """Our fetcher: raw head kept, two digests, limits; with `reads` also links and directives."""
    settings = FetchSettings(connections=run.connections, allow_private_addresses=True)
    async with kind(settings, wall_clock=partial(float, START_S)) as fetcher:

        async def get(url: str) -> None:
            found = await fetcher.fetch(FetchRequest(url=url))
            if reads and isinstance(found, Capture):
                read_capture(found, product_token=ROBOT, rules=STANDARD)

        run.begin()
        await run.by_all_connections(get)


class _Nowhere:
    """A sink that keeps nothing: what is left is the crawl itself."""

    async def store(self, capture: Capture) -> None:
        return None

    async def find(self, url: str, since: float) -> Capture | None:
        return None

    async def note_failure(self, url: str, problem: str) -> None:
        return None

    async def note_answer(self, url: str) -> None:
        return None


async def ours_crawl(run: Run) -> None:
    """A whole crawl with robots, leases and frontier, whose captures go nowhere."""
    clock = partial(float, START_S)
    frontier = Frontier(frontier_rows(run.folder / "queue"), day=int(START_S // DAY_S))
    settings = FetchSettings(connections=run.connections, allow_private_addresses=True)
    async with HttpFetcher(settings, wall_clock=clock) as fetcher:
        core = HostSteward(RUDE)
        steward = LocalSteward(core, fetcher, product_token=ROBOT, wall_clock=clock)
        crawler = Crawler(
            frontier,
            fetcher,
            _Nowhere(),
            steward,
            CrawlScope(),
            WorkerSettings(connections=run.connections),
            wall_clock=clock,
        )
        run.begin()
        crawler.seed(_front_pages(run.urls))
        await crawler.run()
    frontier.close()
    run.fetched = crawler.counts.fetched


def _whole_order(run: Run) -> CrawlOrder:
    return CrawlOrder(
        urls=tuple(_front_pages(run.urls)),
        scope=ScopeKind.ANY,
        connections=run.connections,
        allow_private_addresses=True,
        politeness=RUDE,
    )


async def ours_store(run: Run) -> None:
    """The whole path: each capture durable, in one WARC log, before the frontier hears of it."""
    clock = partial(float, START_S)
    keep_heap_small()
    async with (
        open_store(archive_at(run.folder, clock), Machine()) as store,
        open_crawler(run.folder, store, _whole_order(run), Machine(), wall_clock=clock) as crawler,
    ):
        run.begin()
        await crawler.run()
    run.fetched = crawler.counts.fetched
    run.more = {"stored": crawler.counts.stored, "failed": crawler.counts.failed}


async def ours_sealed(run: Run, *, days: int = 1) -> None:
    """As `herodotus crawl` does it: the same, and the log made into segments before it ends."""
    found: dict[str, object] = {}
    keep_heap_small()
    for day in range(days):
        run.begin()
        clock = partial(float, START_S + day * DAY_S)
        found = await crawl_into(run.folder, _whole_order(run), Machine(), wall_clock=clock, console=None)
    run.fetched = int(str(found["fetched"]))
    run.more = {name: found[name] for name in ("stored", "unchanged", "failed")}


def _front_pages(urls: list[str]) -> list[str]:
    return [url for url in urls if url.count("/") == 3 and url.endswith("/")]


CLIENTS: dict[str, Callable[[Run], Awaitable[None]]] = {
    "bare": bare,
    "bare-304": bare_unchanged,
    "throwaway": throwaway,
    "aiohttp": partial(ours_fetch, kind=AiohttpFetcher),
    "fetch": ours_fetch,
    "links": partial(ours_fetch, reads=True),
    "crawl": ours_crawl,
    "store": ours_store,
    "sealed": ours_sealed,
    "store-304": partial(ours_sealed, days=2),
}


def main() -> None:
    word, folder, connections = sys.argv[1:]
    run = Run(Path(folder), int(connections), (Path(folder) / "urls").read_text().split())
    anyio.run(partial(CLIENTS[word], run), backend="asyncio", backend_options={"use_uvloop": True})
    told = {
        "fetched": run.fetched,
        "wall_s": time.perf_counter() - run.started,
        "prelude_cpu_s": run.prelude_cpu_s,
        "peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }
    print(json.dumps(told | run.more))


if __name__ == "__main__":
    main()
