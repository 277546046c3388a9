"""A crawl of the synthetic web over real loopback sockets, and what the server saw of it."""

import io
import json
import socket
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from crawler.core.politeness import HostSteward, PolitenessPolicy
from crawler.core.recrawl import Recrawl
from crawler.core.scope import ContentChoice, CrawlScope
from crawler.frontier import Frontier, FrontierLimits
from crawler.frontier_rows import frontier_rows
from crawler.http import FetchSettings, HttpFetcher
from crawler.ports import UrlOwner
from crawler.steward import LocalSteward
from crawler.worker import Crawler, WorkerSettings
from simnet.web import Oracle, Web, WebSettings
from simnet.web.serve import WebServer
from tests.crawler.memory import MemorySink

DAY_S = 86_400
FIRST_DAY = 20_000
QUICK = PolitenessPolicy(
    delay_floor_s=0.0,
    crawl_delay_max_s=0.01,
    backoff_base_s=0.01,
    backoff_max_s=0.02,
    retry_after_max_s=0.02,
    robots_second_try_s=0.01,
    per_address_concurrency=8,
)
LOCAL = FetchSettings(
    allow_private_addresses=True, connect_timeout_s=60.0, head_timeout_s=60.0, body_timeout_s=60.0
)


@dataclass
class SyntheticWeb:
    server: WebServer
    oracle: Oracle
    log: io.BytesIO
    seen: int = 0
    sink: MemorySink = field(default_factory=MemorySink)

    @property
    def seeds(self) -> list[str]:
        return self.oracle.front_pages()

    def requests(self, *, with_robots: bool = False) -> list[dict[str, object]]:
        """What the server answered since the last call, robots.txt left out; each with its `url`."""
        self.server.flush_log()
        lines = [json.loads(line) for line in self.log.getvalue().splitlines()][self.seen :]
        self.seen += len(lines)
        for line in lines:
            line["url"] = f"http://{line['host']}:{self.server.web.settings.port}{line['path']}"
        return [line for line in lines if with_robots or line["path"] != "/robots.txt"]

    def is_outside_traps(self, url: str) -> bool:
        place = self.oracle.place(url)
        return place is None or not place.is_trap

    def reachable(self, day: int, seeds: list[str] | None = None) -> set[str]:
        return self.oracle.reachable(seeds or self.seeds, day, scope=self.is_outside_traps)

    def fetched(self, requests: list[dict[str, object]]) -> Counter[str]:
        return Counter(url for line in requests if self.is_outside_traps(url := str(line["url"])))


@asynccontextmanager
async def synthetic_web(
    seed: int,
    hosts: int = 6,
    pages_max: int = 40,
    *,
    delay_factor: float = 0.0,
    huge_bytes: int = 16_000_000,
    troubles: bool = True,
) -> AsyncIterator[SyntheticWeb]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    web = Web(
        WebSettings(
            seed=seed,
            hosts=hosts,
            pages_min=min(20, pages_max),
            pages_max=pages_max,
            port=port,
            html_change_share=0.2,
            huge_bytes=huge_bytes,
            troubles=troubles,
        )
    )
    log = io.BytesIO()
    server = WebServer(web, log=log, delay_factor=delay_factor)
    async with server.serving():
        yield SyntheticWeb(server, Oracle(web), log)


@asynccontextmanager
async def crawling(
    web: SyntheticWeb,
    folder: Path,
    *,
    day: int = 0,
    policy: PolitenessPolicy = QUICK,
    scope: CrawlScope | None = None,
    settings: WorkerSettings | None = None,
    tracks_depth: bool = False,
    urls_per_origin_max: int = 1_000_000,
    owner: UrlOwner | None = None,
) -> AsyncIterator[Crawler]:
    """A crawler of that day, seeded and ready to run."""
    web.server.day = day

    def wall_clock() -> float:
        return (FIRST_DAY + day) * DAY_S + 1.0

    frontier = Frontier(
        frontier_rows(folder),
        day=FIRST_DAY + day,
        limits=FrontierLimits(tracks_depth=tracks_depth, urls_per_origin_max=urls_per_origin_max),
    )
    try:
        async with HttpFetcher(LOCAL, wall_clock=wall_clock) as fetcher:
            core = HostSteward(policy)
            steward = LocalSteward(
                core,
                fetcher,
                product_token="Herodotus",
                wall_clock=wall_clock,
                sink=web.sink,
                opted_out=scope.opted_out if scope else None,
            )
            crawler = Crawler(
                frontier,
                fetcher,
                web.sink,
                steward,
                scope or CrawlScope(content=ContentChoice.HTML_AND_IMAGES),
                settings or WorkerSettings(recrawl=Recrawl.DAILY),
                wall_clock=wall_clock,
                owner=owner,
            )
            crawler.seed(web.seeds)
            yield crawler
    finally:
        frontier.close()
