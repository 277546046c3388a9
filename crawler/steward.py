"""Who gives permission when a peer is alone? Its own steward: the pure `HostSteward`, and robots.txt fetched.

A redirect of robots.txt is followed up to five times, to other hosts too, as RFC 9309 asks (2.3.1.2); each
hop passes the same guard as any fetch. Requests for robots.txt keep the origin's delay like all others.
"""

from collections.abc import Callable

import anyio

from crawler.core.capture import Capture
from crawler.core.content import decoded
from crawler.core.errors import FetchError
from crawler.core.politeness import HostSteward, Lease, OriginReport, Wait, retry_after_s
from crawler.core.robots import REDIRECTS_MAX, ROBOTS_BYTES_MAX, RobotsRules, rules_of_answer
from crawler.core.urls import Origin
from crawler.ports import Fetcher, FetchRequest


class LocalSteward:
    """A `StewardPort`. One task at a time works on an origin, so nothing here needs a lock."""

    def __init__(
        self, core: HostSteward, fetcher: Fetcher, *, product_token: str, wall_clock: Callable[[], float]
    ) -> None:
        self.core = core
        self._fetcher = fetcher
        self._product_token = product_token
        self._wall_clock = wall_clock

    async def rules(self, origin: Origin) -> RobotsRules | Wait:
        known = self.core.rules(origin, anyio.current_time())
        if known is not None:
            return known
        lease = await self.lease(origin, "")
        if isinstance(lease, Wait):
            return lease
        report = OriginReport(status=None, duration_s=0.0)
        rules = rules_of_answer(None, b"", self._product_token)
        try:
            rules, report = await self._fetch(origin)
        finally:
            now = anyio.current_time()
            self.core.set_rules(origin, rules, now)
            self.core.give_back(lease, report, now)
        return rules

    async def _fetch(self, origin: Origin) -> tuple[RobotsRules, OriginReport]:
        start = anyio.current_time()
        url = f"{origin}/robots.txt"
        status: int | None = None
        body = b""
        retry_s = None
        for hop in range(REDIRECTS_MAX + 1):
            try:
                found = await self._fetcher.fetch(FetchRequest(url=url))
            except FetchError:
                status = None
                break
            assert isinstance(found, Capture)  # nothing was to be skipped
            if hop == 0:
                retry_s = retry_after_s(found.header("Retry-After"), self._wall_clock())
            status = found.status
            body = decoded(found.body, found.header("Content-Encoding") or "", ROBOTS_BYTES_MAX).content
            if found.redirect_to is None:
                break
            url = found.redirect_to
        duration_s = (anyio.current_time() - start) / (hop + 1)
        rules = rules_of_answer(status, body, self._product_token)
        return rules, OriginReport(status=status, duration_s=duration_s, retry_after_s=retry_s)

    async def lease(self, origin: Origin, address: str) -> Lease | Wait:
        return self.core.lease(origin, anyio.current_time(), address=address)

    async def give_back(self, lease: Lease, report: OriginReport) -> float:
        return self.core.give_back(lease, report, anyio.current_time())
