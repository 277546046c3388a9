"""Who gives permission when a peer is alone? Its own steward: the pure `HostSteward`, and robots.txt fetched.

A redirect of robots.txt is followed up to five times, to other hosts too, as RFC 9309 asks (2.3.1.2); each
hop passes the same guard as any fetch. Requests for robots.txt keep the origin's delay like all others. What
they get is archived like a page: it says why other pages are missing.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import anyio

from crawler.core.capture import Capture, Outcome, Truncation
from crawler.core.content import decoded
from crawler.core.errors import FetchError, ForbiddenAddressError
from crawler.core.politeness import HostSteward, Lease, OriginReport, Wait, retry_after_s
from crawler.core.robots import DISALLOW_ALL, REDIRECTS_MAX, ROBOTS_BYTES_MAX, RobotsRules, rules_of_answer
from crawler.core.urls import Origin
from crawler.ports import CaptureSink, Fetcher, FetchRequest

CAPTURED_BYTES_MAX = 2 * ROBOTS_BYTES_MAX
"""Of a robots.txt: what lies behind the first half is not read, and a server may send 100 MB."""


@dataclass(frozen=True, slots=True)
class _Answer:
    rules: RobotsRules
    report: OriginReport
    may_be_transient: bool = False


class LocalSteward:
    """A `StewardPort`. One task at a time works on an origin, so nothing here needs a lock."""

    def __init__(
        self,
        core: HostSteward,
        fetcher: Fetcher,
        *,
        product_token: str,
        wall_clock: Callable[[], float],
        sink: CaptureSink | None = None,
    ) -> None:
        self.core = core
        self._fetcher = fetcher
        self._product_token = product_token
        self._wall_clock = wall_clock
        self._sink = sink
        self._failed_once: set[Origin] = set()

    async def rules(self, origin: Origin) -> RobotsRules | Wait:
        known = self.core.rules(origin, anyio.current_time())
        if known is not None:
            return known
        lease = await self.lease(origin, "")
        if isinstance(lease, Wait):
            return lease
        answer = _Answer(DISALLOW_ALL, OriginReport(status=None, duration_s=0.0, fetches=0))
        try:
            answer = await self._ask(origin)
        finally:
            now = anyio.current_time()
            self.core.give_back(lease, answer.report, now)
        if answer.may_be_transient and origin not in self._failed_once:
            self._failed_once.add(origin)
            return Wait(until=now + self.core.robots_second_try_s, reason="robots.txt is asked for again")
        self._failed_once.discard(origin)
        self.core.set_rules(origin, answer.rules, now)
        return answer.rules

    async def _ask(self, origin: Origin) -> _Answer:
        start = anyio.current_time()
        hops = 0
        retry_s = None
        try:
            found, body = await self._get(f"{origin}/robots.txt")
            retry_s = retry_after_s(found.header("Retry-After"), self._wall_clock())
            while found.redirect_to is not None and hops < REDIRECTS_MAX:
                hops += 1
                found, body = await self._get(found.redirect_to)
        except FetchError as error:
            rules = replace(DISALLOW_ALL, problem=f"robots.txt could not be had: {error.reason}")
            report = OriginReport(status=None, duration_s=0.0, fetches=0)
            return _Answer(rules, report, not isinstance(error, ForbiddenAddressError))
        else:
            status = 200 if found.outcome is not Outcome.STORED else found.status
            rules = rules_of_answer(status, body, self._product_token)
            if found.truncated not in (None, Truncation.LENGTH):
                # Half a list of rules is none: what is forbidden may have been in the other half.
                rules = replace(DISALLOW_ALL, problem="robots.txt broke off")
        duration_s = (anyio.current_time() - start) / (hops + 1)
        return _Answer(rules, OriginReport(status=status, duration_s=duration_s, retry_after_s=retry_s))

    async def _get(self, url: str) -> tuple[Capture, bytes]:
        """The answer, with the body that it stands for: a 304 stands for the archived one's."""
        last = None if self._sink is None else await self._sink.find(url, 0.0)
        request = FetchRequest(url=url, body_bytes_max=CAPTURED_BYTES_MAX)
        if last is not None and last.status == 200 and last.truncated is None:
            etag, modified = last.header("ETag") or "", last.header("Last-Modified") or ""
            request = replace(request, etag=etag, last_modified=modified, digest=last.sha256)
        found = await self._fetcher.fetch(request)
        assert isinstance(found, Capture)  # nothing was to be skipped
        if self._sink is not None and _is_news(found, last):
            await self._sink.store(found)
        whole = found
        if found.outcome is not Outcome.STORED:
            assert last is not None  # only its digest can have been met again
            whole = last
        coding = whole.header("Content-Encoding") or ""
        return found, decoded(whole.body, coding, ROBOTS_BYTES_MAX).content

    async def lease(self, origin: Origin, address: str) -> Lease | Wait:
        return self.core.lease(origin, anyio.current_time(), address=address)

    async def give_back(self, lease: Lease, report: OriginReport) -> float:
        return self.core.give_back(lease, report, anyio.current_time())


def _is_news(found: Capture, last: Capture | None) -> bool:
    """A missing robots.txt, or a failing server, is worth one record and not one a day."""
    return found.status < 400 or last is None or last.status != found.status
