"""A crawl as a process of its own, for tests that kill it; imported in advance by the server that forks it."""

from pathlib import Path

import anyio

from crawler.core.politeness import PolitenessPolicy
from crawler.core.scope import ScopeKind
from herodotus.crawl.gear import CrawlOrder
from herodotus.crawl.single_run import crawl_into
from herodotus.machine import Machine

QUICK = PolitenessPolicy(
    delay_floor_s=0.0,
    crawl_delay_max_s=0.01,
    backoff_base_s=0.01,
    backoff_max_s=0.02,
    retry_after_max_s=0.02,
    robots_second_try_s=0.01,
    per_address_concurrency=8,
)


def crawl_as_process(home: str, urls: list[str], now: float) -> None:
    order = CrawlOrder(
        urls=tuple(urls),
        scope=ScopeKind.ANY,
        allow_private_addresses=True,
        politeness=QUICK,
        urls_per_host_max=60,  # the traps' pages would take most of the time
    )

    async def crawl() -> None:
        await crawl_into(Path(home), order, Machine(), wall_clock=lambda: now, console=None)

    anyio.run(crawl)
